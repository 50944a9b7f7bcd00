//! The header `Upload-Concat`.

use super::super::head::{Head, invalid};
use crate::concat::{ConcatError, MAX_PARTIALS, PartialUri};
use crate::error::ProtocolError;
use crate::header::UPLOAD_CONCAT;

const NAME: &str = "Upload-Concat";

/// The value of a partial upload.
const PARTIAL: &str = "partial";

/// What the value of a final upload begins with. The URIs follow, with spaces between them.
const FINAL: &str = "final;";

/// What a creation states, as it was sent.
pub(super) struct Stated<'a>(&'a str);

impl<'a> Stated<'a> {
    /// Reads the header, if it is there.
    pub(super) fn of(head: &Head<'a>) -> Result<Option<Self>, ProtocolError> {
        let mut values = head.headers.get_all(UPLOAD_CONCAT).into_iter();
        let value = match (values.next(), values.next()) {
            (None, _) => return Ok(None),
            (Some(value), None) => value.to_str().map_err(|_| invalid(NAME))?,
            (Some(_), Some(_)) => return Err(invalid(NAME)),
        };
        let value = value.trim_ascii();
        if value == PARTIAL || value.starts_with(FINAL) {
            Ok(Some(Self(value)))
        } else {
            Err(invalid(NAME))
        }
    }

    /// Returns the partial uploads of a final one; `None` for a partial one.
    pub(super) fn partials(&self) -> Result<Option<Vec<PartialUri>>, ConcatError> {
        let Some(list) = self.0.strip_prefix(FINAL) else {
            return Ok(None);
        };
        let texts: Vec<_> = list
            .split_ascii_whitespace()
            .take(MAX_PARTIALS + 1)
            .collect();
        match texts.len() {
            0 => return Err(ConcatError::Empty),
            1..=MAX_PARTIALS => {}
            _ => return Err(ConcatError::TooMany),
        }
        let uris = (1..).zip(&texts).map(|(position, text)| {
            let uri = PartialUri::parse(text);
            uri.ok_or(ConcatError::Uri { position })
        });
        uris.collect::<Result<_, _>>().map(Some)
    }
}

/// Returns what is kept with a session: the metadata, behind a line with `Upload-Concat` if the
/// creation states it. Neither value contains the end of a line.
pub(super) fn kept(concat: Option<&Stated<'_>>, metadata: &str) -> String {
    match concat {
        Some(Stated(concat)) => format!("{concat}\n{metadata}"),
        None => metadata.to_owned(),
    }
}

/// Returns `Upload-Concat` and the metadata of [`kept`]; each is empty if it was not stated.
pub(super) fn read_kept(kept: &str) -> (&str, &str) {
    kept.split_once('\n').unwrap_or(("", kept))
}
