//! The three upload types (docs/protocol.md, 2.1).

use std::fmt;

use crate::parameters::Parameters;

#[cfg(test)]
mod tests;

/// The upload type: the parameter `uploadType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UploadType {
    /// The body is the media.
    Media,
    /// The body holds metadata and media in one multipart/related document.
    Multipart,
    /// The body is metadata. The media follows on a session URI.
    Resumable,
}

/// An `uploadType` or `upload_protocol` that is not one of the three types.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Invalid upload type \"{value}\": parameter uploadType must be media, multipart or resumable."
)]
pub struct UnknownUploadType {
    /// The value received.
    pub value: String,
}

impl UploadType {
    /// Reads `uploadType`, or its synonym `upload_protocol`, which says `raw` for media; `None` if
    /// neither is there.
    pub fn from_parameters(parameters: &Parameters) -> Result<Option<Self>, UnknownUploadType> {
        let given = |name| parameters.first(name).filter(|value| !value.is_empty());
        match (given("uploadType"), given("upload_protocol")) {
            (Some("media"), _) | (None, Some("raw")) => Ok(Some(Self::Media)),
            (Some("multipart"), _) | (None, Some("multipart")) => Ok(Some(Self::Multipart)),
            (Some("resumable"), _) | (None, Some("resumable")) => Ok(Some(Self::Resumable)),
            (Some(value), _) | (None, Some(value)) => Err(UnknownUploadType {
                value: value.to_owned(),
            }),
            (None, None) => Ok(None),
        }
    }

    /// Returns the value of `uploadType`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Media => "media",
            Self::Multipart => "multipart",
            Self::Resumable => "resumable",
        }
    }
}

impl fmt::Display for UploadType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
