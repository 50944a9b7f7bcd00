//! The `X-Goog-Upload-Command` header (docs/protocol.md, 2.12).

/// The command of a request in the dialect `X-Goog-Upload`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadCommand {
    /// Start a session. The body is metadata.
    Start,
    /// Append the body.
    Upload,
    /// Append the body and finish the upload.
    UploadAndFinalize,
    /// Finish the upload with the bytes that it has.
    Finalize,
    /// Report the number of committed bytes.
    Query,
    /// Cancel the upload.
    Cancel,
}

/// Why a command cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UploadCommandError {
    /// The header is missing.
    #[error("The request needs an X-Goog-Upload-Command header.")]
    Missing,
    /// The command is not known.
    #[error(
        "Unknown X-Goog-Upload-Command {value:?}; known are \"start\", \"upload\", \
         \"upload, finalize\", \"finalize\", \"query\" and \"cancel\"."
    )]
    Unknown {
        /// The header's value.
        value: String,
    },
    /// A command for a session was sent to the URI that starts sessions.
    #[error(
        "This X-Goog-Upload-Command belongs on the URL of a session, which is in the header \
         X-Goog-Upload-URL of the reply to \"start\"."
    )]
    OutsideSession,
    /// A session was asked to start.
    #[error("The X-Goog-Upload-Command \"start\" was sent to the URL of a session.")]
    InsideSession,
    /// The command has data, and it is not stated where they belong.
    #[error("Data need an X-Goog-Upload-Offset header.")]
    OffsetMissing,
}

impl UploadCommand {
    /// Parses a header value: names separated by commas, in any case.
    ///
    /// # Errors
    /// [`UploadCommandError::Unknown`].
    pub fn parse(value: &str) -> Result<Self, UploadCommandError> {
        let names: Vec<_> = value
            .split(',')
            .map(|name| name.trim_ascii().to_ascii_lowercase())
            .collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        match names[..] {
            ["start"] => Ok(Self::Start),
            ["upload"] => Ok(Self::Upload),
            ["upload", "finalize"] | ["finalize", "upload"] => Ok(Self::UploadAndFinalize),
            ["finalize"] => Ok(Self::Finalize),
            ["query"] => Ok(Self::Query),
            ["cancel"] => Ok(Self::Cancel),
            _ => Err(UploadCommandError::Unknown {
                value: value.to_owned(),
            }),
        }
    }
}
