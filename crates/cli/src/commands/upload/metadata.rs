//! The metadata of `--metadata`.

use std::path::PathBuf;

use serde_json::Value;

use crate::commands::Error;

/// Reads JSON, or the file behind an `@`. Whether it is an object is looked at later.
pub(super) fn read(text: &str) -> Result<Value, Error> {
    let json = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(path) => {
            let path = PathBuf::from(path);
            std::fs::read_to_string(&path).map_err(|source| Error::MetadataFile { path, source })?
        }
    };
    serde_json::from_str(&json).map_err(Error::MetadataNotJson)
}
