//! Errors of the client.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use windlass_proto::parameters::QueryError;
use windlass_proto::transfer::{Cause, Failure, InvalidChunkSize, Protocol, Unsupported};

use crate::checksum::Mismatch;
use crate::download::DownloadError;
use crate::journal::{JournalError, Record, RecordId};
use crate::session_uri::{InvalidSessionUri, SessionUri};
use crate::source::SourceError;
use crate::token::TokenError;
use crate::transport::TransportError;

/// Why a call of the client failed.
///
/// `Display` shows the error and [`source`](std::error::Error::source) its cause. URLs are shown
/// without their queries, which may contain credentials.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    cause: ErrorCause,
    /// The session in which a later attempt can continue.
    session: Option<SessionUri>,
    /// The record with which a later attempt can continue.
    record_id: Option<RecordId>,
}

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An argument is invalid: a URL, a size, metadata, or an upload type that the media or the
    /// protocol does not permit.
    Usage,
    /// The media cannot be read, or the server needs bytes of a stream again that are no longer
    /// kept.
    Source,
    /// The file has changed since its upload began.
    SourceChanged,
    /// The journal, or a record of it, cannot be used.
    Journal,
    /// The upload or the download is in use: by another process, or by another
    /// [`LockedRecord`](crate::LockedRecord) or download of this process.
    Busy,
    /// No token is available.
    Token,
    /// There is no usable connection: it cannot be established, keeps breaking or stalling, or the
    /// server's certificate is invalid. Also: a reply is too long, the server keeps committing
    /// almost nothing of the media, a download receives something other than the media (for
    /// instance the login page of a network), or the HTTP client cannot be set up.
    Connection,
    /// The server replies that it is overloaded or has an internal error. Retries did not help, or
    /// the call makes none.
    Unavailable,
    /// The call exceeded its time limit.
    Timeout,
    /// The server refuses the request.
    Refused,
    /// The session was cancelled.
    Cancelled,
    /// The server lost the upload's sessions too often.
    SessionLost,
    /// The server violates the protocol, or has sent a session URI that is [not
    /// followed](crate::Upload::session_origin). In downloads also: it redirects too often or to a
    /// URL that must not be followed, or sends media that is encoded or that does not continue the
    /// received bytes.
    Protocol,
    /// The media on the server, or the downloaded media, differs from the expected media.
    Mismatch,
    /// The target of a download exists or cannot be written, or other files are in the way.
    Target,
}

/// The cause of an [`Error`]. [`kind`](Self::kind) maps it to its [`Kind`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum ErrorCause {
    #[error("the URL of an upload must begin with http:// or https://")]
    Scheme,
    #[error(transparent)]
    Parameter(#[from] QueryError),
    #[error("the HTTP method of an upload must be POST, PUT or PATCH")]
    HttpMethod,
    #[error("the metadata must be a JSON object")]
    MetadataNotAnObject,
    #[error(
        "an upload of the type media sends no metadata: choose the type multipart or resumable, or leave out the metadata"
    )]
    MetadataNotSent,
    #[error(
        "an upload by {0} is a session: choose the type resumable, or Google's protocol for an upload in one request"
    )]
    NoSingleRequest(Protocol),
    #[error("the upload began by {began}, and cannot be continued by {chosen}")]
    OtherProtocol { began: Protocol, chosen: Protocol },
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    #[error("the metadata cannot be written as JSON")]
    Metadata(#[source] serde_json::Error),
    #[error("a content type must be type/subtype, for instance image/jpeg")]
    ContentType,
    #[error(transparent)]
    ChunkSize(#[from] InvalidChunkSize),
    #[error("a stream that is longer than 5 MiB, or than its window, needs a resumable upload")]
    TooLongForOneRequest,
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(
        "the upload is finished, but the file changed meanwhile: the uploaded media may be a mixture"
    )]
    ChangedDuringUpload(#[source] SourceError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("{}", shown_before(.failure, .last_error.as_ref()))]
    Upload {
        failure: Failure,
        /// The transport error of the last request, if that request got no reply.
        #[source]
        last_error: Option<TransportError>,
    },
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error("the upload did not finish within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("the server sent an invalid session URI")]
    SessionUri(#[source] InvalidSessionUri),
    #[error(
        "the upload began on an encrypted connection, but the server sent a session URI without encryption"
    )]
    Downgrade,
    #[error("the server wants the media at {origin}, which is not the server of the upload URL")]
    OtherOrigin { origin: String },
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    #[error(transparent)]
    Download(#[from] DownloadError),
}

/// Describes a failure in front of the error of its last request, which says better how the
/// connection broke, or that there was none.
fn shown_before(failure: &Failure, last_error: Option<&TransportError>) -> String {
    let text = failure.to_string();
    match failure {
        Failure::GaveUp { cause, .. } if *cause == Cause::Broken && last_error.is_some() => {
            text.replacen(&format!(": {cause}"), "", 1)
        }
        _ => text,
    }
}

impl ErrorCause {
    fn transport_error(&self) -> Option<&TransportError> {
        match self {
            Self::Transport(error) => Some(error),
            Self::Download(error) => error.transport_error(),
            _ => None,
        }
    }

    /// Returns whether each connection will fail in the same way: no host has the name, the
    /// server's certificate is invalid, the server has refused the client's, or it does not speak
    /// TLS or HTTP.
    fn is_permanent(&self) -> bool {
        matches!(
            self.transport_error(),
            Some(
                TransportError::UnknownHost { .. }
                    | TransportError::Untrusted { .. }
                    | TransportError::NotTls { .. }
                    | TransportError::NotHttp { .. }
                    | TransportError::CertificateRefused { .. }
            )
        )
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Scheme
            | Self::Parameter(_)
            | Self::HttpMethod
            | Self::MetadataNotAnObject
            | Self::MetadataNotSent
            | Self::NoSingleRequest(_)
            | Self::OtherProtocol { .. }
            | Self::Unsupported(_)
            | Self::Metadata(_)
            | Self::ContentType
            | Self::ChunkSize(_)
            | Self::TooLongForOneRequest => Kind::Usage,
            Self::Source(SourceError::Changed { .. }) | Self::ChangedDuringUpload(_) => {
                Kind::SourceChanged
            }
            Self::Source(_) => Kind::Source,
            Self::Journal(JournalError::InUse { .. }) => Kind::Busy,
            Self::Journal(_) => Kind::Journal,
            Self::Token(_) => Kind::Token,
            Self::Upload { failure, .. } => kind_of_failure(failure),
            Self::Transport(TransportError::TransferCoding { .. })
            | Self::SessionUri(_)
            | Self::Downgrade
            | Self::OtherOrigin { .. } => Kind::Protocol,
            Self::Transport(_) => Kind::Connection,
            Self::Timeout(_) => Kind::Timeout,
            Self::Mismatch(_) => Kind::Mismatch,
            Self::Download(error) => kind_of_download(error),
        }
    }
}

fn kind_of_failure(failure: &Failure) -> Kind {
    match failure {
        // Only `Client::status` and `Client::cancel` fail with it, because they do not retry. An
        // upload retries such a reply, and fails with `GaveUp`.
        Failure::Refused(reply) if reply.is_transient() => Kind::Unavailable,
        Failure::Refused(_) | Failure::Rejected(_) => Kind::Refused,
        Failure::Cancelled => Kind::Cancelled,
        Failure::GaveUp { .. } if failure.error_reply().is_some() => Kind::Unavailable,
        Failure::GaveUp { .. } => Kind::Connection,
        Failure::SessionsLost { .. } => Kind::SessionLost,
        // The server needs earlier bytes again, which the window of the stream no longer has.
        Failure::SessionRewound { .. } => Kind::Source,
        // The server replied with success before all media was sent, so it has other media.
        Failure::PrematureSuccess { .. } => Kind::Mismatch,
        Failure::Unexpected { .. } | Failure::OffsetBeyondSent { .. } => Kind::Protocol,
    }
}

fn kind_of_download(error: &DownloadError) -> Kind {
    match error {
        DownloadError::Exists { .. }
        | DownloadError::UnrelatedFile { .. }
        | DownloadError::PartReplaced { .. }
        | DownloadError::OtherUrl { .. }
        | DownloadError::NotAFile { .. }
        | DownloadError::NotOwn { .. }
        | DownloadError::File { .. } => Kind::Target,
        DownloadError::InUse { .. } => Kind::Busy,
        DownloadError::Token(_) => Kind::Token,
        DownloadError::Connection(_) if is_transfer_coding(error) => Kind::Protocol,
        DownloadError::Connection(_) | DownloadError::NotTheMedia { .. } => Kind::Connection,
        DownloadError::Refused(_) if error.is_transient() => Kind::Unavailable,
        DownloadError::Refused(_) => Kind::Refused,
        DownloadError::TooManyRedirections
        | DownloadError::BadRedirection
        | DownloadError::Changed
        | DownloadError::Encoded { .. }
        | DownloadError::TooLong => Kind::Protocol,
        DownloadError::Size { .. } | DownloadError::Crc32c { .. } | DownloadError::Md5 { .. } => {
            Kind::Mismatch
        }
    }
}

fn is_transfer_coding(error: &DownloadError) -> bool {
    matches!(
        error.transport_error(),
        Some(TransportError::TransferCoding { .. })
    )
}

impl Error {
    pub(crate) fn new(cause: impl Into<ErrorCause>) -> Self {
        Self(Box::new(Inner {
            cause: cause.into(),
            session: None,
            record_id: None,
        }))
    }

    /// Adds the session and the id of the upload's record in the journal, with which a later
    /// attempt can continue.
    pub(crate) fn with_resume_info(
        mut self,
        session: Option<SessionUri>,
        record_id: Option<RecordId>,
    ) -> Self {
        self.0.session = session;
        self.0.record_id = record_id;
        self
    }

    /// Adds the session and the id of a record that stays in the journal.
    pub(crate) fn with_record(self, record: &Record) -> Self {
        self.with_resume_info(Some(record.session.clone()), Some(record.id.clone()))
    }

    /// Returns whether the session and the record are kept, because a later attempt may continue
    /// them. They are kept if the file has changed before the upload finished. The change may be
    /// undone, for instance if the file was moved away for a moment.
    pub(crate) fn keeps_session(&self) -> bool {
        match &self.0.cause {
            ErrorCause::Upload { failure, .. } => failure.session_survives(),
            ErrorCause::Mismatch(_) | ErrorCause::ChangedDuringUpload(_) => false,
            _ => true,
        }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> Kind {
        self.0.cause.kind()
    }

    /// Returns the status of the reply that caused the error, if any. `None` also if the session
    /// was lost or cancelled, which [`kind`](Self::kind) says.
    pub fn status(&self) -> Option<StatusCode> {
        match &self.0.cause {
            ErrorCause::Upload { failure, .. } => failure.error_reply().map(|reply| reply.status),
            ErrorCause::Download(error) => error.status(),
            _ => None,
        }
    }

    /// Returns the `reason` of Google's error object, if the server sent one.
    pub fn reason(&self) -> Option<&str> {
        match &self.0.cause {
            ErrorCause::Upload { failure, .. } => failure.error_reply()?.reason.as_deref(),
            ErrorCause::Download(error) => error.reason(),
            _ => None,
        }
    }

    /// Returns whether the same call may succeed later, without a change of arguments, files or
    /// tokens. `false` for a host that does not exist, for an invalid certificate, for one of the
    /// client that is missing or refused, and for a server that does not speak TLS or HTTP.
    pub fn is_retryable(&self) -> bool {
        match self.kind() {
            Kind::Connection if self.0.cause.is_permanent() => false,
            Kind::Connection
            | Kind::Unavailable
            | Kind::Timeout
            | Kind::Busy
            | Kind::SessionLost => true,
            Kind::Usage
            | Kind::Source
            | Kind::SourceChanged
            | Kind::Journal
            | Kind::Token
            | Kind::Refused
            | Kind::Cancelled
            | Kind::Protocol
            | Kind::Mismatch
            | Kind::Target => false,
        }
    }

    /// Returns whether the server at an `https` URL replied without TLS.
    pub fn is_not_tls(&self) -> bool {
        let error = self.0.cause.transport_error();
        matches!(error, Some(TransportError::NotTls { .. }))
    }

    /// Returns whether the server's reply was not HTTP.
    pub fn is_not_http(&self) -> bool {
        let error = self.0.cause.transport_error();
        matches!(error, Some(TransportError::NotHttp { .. }))
    }

    /// Returns whether the server's certificate is not trusted.
    pub fn is_untrusted(&self) -> bool {
        let error = self.0.cause.transport_error();
        matches!(error, Some(TransportError::Untrusted { .. }))
    }

    /// Returns whether no host has the name in the URL, and none was reached by it before.
    pub fn is_unknown_host(&self) -> bool {
        let error = self.0.cause.transport_error();
        matches!(error, Some(TransportError::UnknownHost { .. }))
    }

    /// Returns the message of the server's reply that caused the error, if any.
    pub fn server_message(&self) -> Option<&str> {
        match &self.0.cause {
            ErrorCause::Upload { failure, .. } => failure.error_reply()?.message.as_deref(),
            ErrorCause::Download(DownloadError::Refused(reply)) => reply.message.as_deref(),
            _ => None,
        }
    }

    /// Returns whether a token was not sent because the connection would not be encrypted; see
    /// [`ClientBuilder::allow_plain_http`](crate::ClientBuilder::allow_plain_http).
    pub fn is_token_withheld(&self) -> bool {
        matches!(
            &self.0.cause,
            ErrorCause::Token(TokenError::NotEncrypted { .. })
                | ErrorCause::Download(DownloadError::Token(TokenError::NotEncrypted { .. }))
        )
    }

    /// Returns the origin at which the server wants the media, if the upload failed because that is
    /// not [allowed](crate::Upload::session_origin).
    pub fn refused_origin(&self) -> Option<&str> {
        match &self.0.cause {
            ErrorCause::OtherOrigin { origin } => Some(origin),
            _ => None,
        }
    }

    /// Returns the session in which a later attempt can continue, if any. It is a credential.
    ///
    /// After [`Kind::SourceChanged`] a later attempt succeeds only with the file as it was. To
    /// upload the file as it is now, [cancel](crate::Client::cancel) the session,
    /// [remove](crate::Journal::remove) the record and start again.
    pub fn session(&self) -> Option<&SessionUri> {
        self.0.session.as_ref()
    }

    /// Returns the id of the upload's record in the journal, with which a later attempt can
    /// continue; `None` if there is no such record. See [`session`](Self::session) for a file that
    /// has changed. After [`Kind::Busy`] another holder of the record may finish the upload first.
    pub fn upload(&self) -> Option<&RecordId> {
        match &self.0.cause {
            ErrorCause::Journal(JournalError::InUse { id }) => Some(id),
            _ => self.0.record_id.as_ref(),
        }
    }
}

impl<C: Into<ErrorCause>> From<C> for Error {
    fn from(cause: C) -> Self {
        Self::new(cause)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.cause.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.source()
    }
}

/// Shows an error and all of its causes, for a log. The last cause often contains a hint, for
/// instance to make room on a disk.
pub(crate) struct WithCauses<'a>(pub(crate) &'a (dyn std::error::Error + 'static));

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut error = self.0;
        while let Some(cause) = error.source() {
            write!(f, ": {cause}")?;
            error = cause;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_certificate_is_a_connection_error_that_is_not_retryable() {
        let untrusted = || TransportError::Untrusted {
            host: "farm".to_owned(),
            source: "unknown issuer".into(),
        };
        let refused = TransportError::CertificateRefused {
            host: "farm".to_owned(),
        };
        let unknown = TransportError::UnknownHost {
            host: "farm".to_owned(),
        };
        let not_tls = TransportError::NotTls {
            host: "farm".to_owned(),
        };
        let not_http = TransportError::NotHttp {
            host: "farm".to_owned(),
        };
        let download = DownloadError::Connection(untrusted().into());
        for error in [
            Error::new(untrusted()),
            Error::new(unknown),
            Error::new(not_tls),
            Error::new(not_http),
            Error::new(refused),
            Error::new(download),
        ] {
            assert_eq!(error.kind(), Kind::Connection, "{error:?}");
            assert!(!error.is_retryable(), "{error:?}");
        }
    }

    #[test]
    fn log_shows_why_a_file_cannot_be_written() {
        let error = Error::new(JournalError::Write {
            path: "/state/x".into(),
            source: std::io::ErrorKind::StorageFull.into(),
        });
        let shown = WithCauses(&error).to_string();
        assert_eq!(shown, "cannot write /state/x: no storage space");
    }

    #[test]
    fn connection_that_cannot_be_established_is_retryable() {
        let unreachable = || TransportError::Connect {
            host: "farm".to_owned(),
            source: "connection refused".into(),
        };
        let download = DownloadError::Connection(unreachable().into());
        for error in [Error::new(unreachable()), Error::new(download)] {
            assert!(error.is_retryable(), "{error:?}");
        }
    }
}
