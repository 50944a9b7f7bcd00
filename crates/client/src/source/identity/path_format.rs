//! How a path is written: as text where it is text, else as `{"base64": ...}` of its bytes.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes { base64: String },
}

pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    let written = match path.to_str() {
        Some(text) => Written::Text(text.to_owned()),
        None => Written::Bytes {
            base64: STANDARD.encode(path.as_os_str().as_bytes()),
        },
    };
    written.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    match Written::deserialize(deserializer)? {
        Written::Text(text) => Ok(text.into()),
        Written::Bytes { base64 } => {
            let bytes = STANDARD.decode(base64).map_err(de::Error::custom)?;
            Ok(OsString::from_vec(bytes).into())
        }
    }
}
