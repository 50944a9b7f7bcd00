//! The dialect of `X-Goog-Upload-Protocol` and `-Command` (docs/protocol.md, 2.12): Firebase's and
//! Gemini's libraries, and the generated clients of 2026 for Java, PHP and Ruby.
//!
//! Every reply to its clients says in `X-Goog-Upload-Status` whether the upload continues. Replies
//! that ask for a retry are the exception: one client treats a chunk as stored if the reply says
//! `active`, whatever its HTTP status.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::google::{self, Google};
use super::head::{Head, UPLOAD_METHODS, allow, invalid};
use super::{Condition, Dialect, Final, Intent, Outcome, RequestHead, RequestTarget};
use crate::command::{
    BodyLength, Command, End, Overlap, Query, SessionAction, SessionHead, SessionRequest, StartHead,
};
use crate::error::ProtocolError;
use crate::header::{
    X_GOOG_UPLOAD_CHUNK_GRANULARITY, X_GOOG_UPLOAD_COMMAND, X_GOOG_UPLOAD_CONTENT_LENGTH,
    X_GOOG_UPLOAD_CONTENT_TYPE, X_GOOG_UPLOAD_CONTROL_URL, X_GOOG_UPLOAD_HEADER_CONTENT_LENGTH,
    X_GOOG_UPLOAD_HEADER_CONTENT_TYPE, X_GOOG_UPLOAD_OFFSET, X_GOOG_UPLOAD_PROTOCOL,
    X_GOOG_UPLOAD_RAW_SIZE, X_GOOG_UPLOAD_SIZE_RECEIVED, X_GOOG_UPLOAD_STATUS, X_GOOG_UPLOAD_URL,
};
use crate::parameters::UploadId;
use crate::reply::{ErrorReply, ReplyHead};
use crate::session::{CHUNK_GRANULARITY, ChunkRule, Rules, SessionError};
use crate::upload_command::{UploadCommand, UploadCommandError};

#[cfg(test)]
mod tests;

/// The dialect `X-Goog-Upload`.
#[derive(Debug, Clone, Copy, Default)]
pub struct XGoogUpload;

impl XGoogUpload {
    /// The name that sessions remember.
    pub const NAME: &'static str = "x-goog-upload";
}

const ACTIVE: HeaderValue = HeaderValue::from_static("active");
const FINAL: HeaderValue = HeaderValue::from_static("final");
const CANCELLED: HeaderValue = HeaderValue::from_static("cancelled");

const SESSION_METHODS: &[Method] = &[Method::POST, Method::PUT];

impl Dialect for XGoogUpload {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// Firebase's libraries upload to the path of the method itself.
    fn claims(&self, target: &RequestTarget<'_>) -> bool {
        let headers = target.headers;
        let is_named = headers.contains_key(X_GOOG_UPLOAD_PROTOCOL)
            || headers.contains_key(X_GOOG_UPLOAD_COMMAND);
        is_named && (target.is_upload_path || target.may_carry_media())
    }

    fn intent(&self, target: &RequestTarget<'_>) -> Intent {
        let Some(command) = target.headers.get(X_GOOG_UPLOAD_COMMAND) else {
            return Google.intent(target);
        };
        match command.to_str().map(UploadCommand::parse) {
            Ok(Ok(command)) => intent_of(command),
            // Such a request is refused, so its refusal costs the client nothing.
            Ok(Err(_)) | Err(_) => Intent::Start,
        }
    }

    fn command(&self, request: &RequestHead<'_>) -> Result<Command, ProtocolError> {
        let head = Head::of(request)?;
        if let Some(upload_id) = request.parameters.upload_id() {
            allow(request.http_method, SESSION_METHODS)?;
            let command = on_session(&head, upload_id);
            return command.map_err(|error| ProtocolError::ToSession(Box::new(error)));
        }
        allow(request.http_method, UPLOAD_METHODS)?;
        without_session(&head)
    }

    /// Chunks may have any size: the granularity is advice.
    fn rules(&self, configured: Rules) -> Rules {
        configured.with_chunks(ChunkRule::Lenient)
    }

    fn reply(&self, outcome: Outcome<'_>) -> ReplyHead {
        match outcome {
            Outcome::Started {
                location,
                upload_id,
                ..
            } => started(location, upload_id),
            Outcome::Committed {
                status, upload_id, ..
            } => {
                let mut reply = with_status(ReplyHead::empty(StatusCode::OK), ACTIVE);
                add_received(&mut reply.headers, status.offset);
                add_granularity(&mut reply.headers);
                google::name_session(&mut reply, upload_id);
                reply
            }
            // The clients know no other success than 200.
            Outcome::Final(Final {
                content_type,
                upload_id,
                ..
            }) => {
                let mut reply = with_status(ReplyHead::new(StatusCode::OK), FINAL);
                reply.headers.insert(CONTENT_TYPE, content_type);
                if let Some(upload_id) = upload_id {
                    google::name_session(&mut reply, upload_id);
                }
                reply
            }
            Outcome::Cancelled => with_status(ReplyHead::empty(StatusCode::OK), CANCELLED),
        }
    }

    fn protocol_error(&self, error: &ProtocolError) -> ErrorReply {
        match error {
            ProtocolError::Session(error) => session_error(error),
            // A `final` would say that the session has ended.
            ProtocolError::ToSession(error) => {
                let reply = google::protocol(error);
                if is_for_good(reply.status) {
                    refused(reply, ACTIVE)
                } else {
                    reply
                }
            }
            ProtocolError::MethodNotAllowed { .. }
            | ProtocolError::PathNotUtf8
            | ProtocolError::Query(_)
            | ProtocolError::UploadType(_)
            | ProtocolError::UploadCommand(_)
            | ProtocolError::Alt(_)
            | ProtocolError::LengthRequired
            | ProtocolError::AmbiguousLength
            | ProtocolError::TransferEncoding
            | ProtocolError::ContentEncoding
            | ProtocolError::InvalidHeader { .. }
            | ProtocolError::MissingHeader { .. }
            | ProtocolError::UnsupportedVersion { .. }
            | ProtocolError::PartType { .. }
            | ProtocolError::DataOnStart
            | ProtocolError::Concat(_)
            | ProtocolError::Related(_)
            | ProtocolError::Metadata(_)
            | ProtocolError::BodyDigest(_)
            | ProtocolError::ExpectedDigests(_)
            | ProtocolError::DigestMismatch(_) => self.other_error(google::protocol(error)),
        }
    }

    fn condition(&self, condition: Condition) -> ErrorReply {
        match condition {
            Condition::SessionNotFound => {
                refused(ErrorReply::json(StatusCode::NOT_FOUND, "notFound"), FINAL)
            }
            Condition::OtherDialect | Condition::AlreadyFinished => {
                refused(google::bad("badRequest"), FINAL)
            }
            Condition::AlreadyCancelled => refused(
                ErrorReply::empty(StatusCode::OK, "clientClosedRequest"),
                CANCELLED,
            ),
            Condition::MediaLost => refused(ErrorReply::json(StatusCode::GONE, "gone"), FINAL),
            Condition::Interrupted | Condition::Superseded | Condition::FinishPending => {
                ErrorReply::unavailable(1)
            }
            Condition::Unavailable { retry_after } => ErrorReply::unavailable(retry_after),
        }
    }

    fn other_error(&self, reply: ErrorReply) -> ErrorReply {
        if is_for_good(reply.status) {
            refused(reply, FINAL)
        } else {
            reply
        }
    }
}

/// Whether a retry would get the same answer.
fn is_for_good(status: StatusCode) -> bool {
    let passes = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    status.is_client_error() && !passes.contains(&status)
}

fn intent_of(command: UploadCommand) -> Intent {
    match command {
        UploadCommand::Start => Intent::Start,
        UploadCommand::Query => Intent::Query,
        UploadCommand::Upload => Intent::Append,
        UploadCommand::UploadAndFinalize | UploadCommand::Finalize | UploadCommand::Cancel => {
            Intent::Finish
        }
    }
}

/// A request to the path of a method.
fn without_session(head: &Head<'_>) -> Result<Command, ProtocolError> {
    let protocol = Protocol::of(head)?;
    match (command(head)?, protocol) {
        (Some(UploadCommand::Start), Some(Protocol::Resumable) | None) => {
            start(head).map(Command::Start)
        }
        (None, Some(Protocol::Multipart)) => head.multipart().map(Command::Multipart),
        (None, Some(Protocol::Raw)) => {
            let content_type = match declared_type(head)? {
                Some(declared) => Some(declared),
                None => head.media_type(&CONTENT_TYPE, "Content-Type")?,
            };
            head.simple(content_type).map(Command::Simple)
        }
        (None, Some(Protocol::Resumable) | None) => Err(UploadCommandError::Missing.into()),
        (Some(UploadCommand::Start), Some(Protocol::Multipart | Protocol::Raw)) => {
            Err(invalid("X-Goog-Upload-Protocol"))
        }
        (Some(_), _) => Err(UploadCommandError::OutsideSession.into()),
    }
}

/// How the media is sent.
#[derive(Clone, Copy)]
enum Protocol {
    /// In a session.
    Resumable,
    /// In one request, after its metadata.
    Multipart,
    /// In one request, alone.
    Raw,
}

impl Protocol {
    fn of(head: &Head<'_>) -> Result<Option<Self>, ProtocolError> {
        let name = "X-Goog-Upload-Protocol";
        let Some(text) = head.text(&X_GOOG_UPLOAD_PROTOCOL, name)? else {
            return Ok(None);
        };
        match text.to_ascii_lowercase().as_str() {
            "resumable" => Ok(Some(Self::Resumable)),
            "multipart" => Ok(Some(Self::Multipart)),
            "raw" => Ok(Some(Self::Raw)),
            _ => Err(invalid(name)),
        }
    }
}

/// The command, which may be in several fields of the header.
fn command(head: &Head<'_>) -> Result<Option<UploadCommand>, ProtocolError> {
    let mut text = String::new();
    for value in head.headers.get_all(X_GOOG_UPLOAD_COMMAND) {
        let value = value
            .to_str()
            .map_err(|_| invalid("X-Goog-Upload-Command"))?;
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(value);
    }
    let text = Some(text.trim_ascii()).filter(|text| !text.is_empty());
    Ok(text.map(UploadCommand::parse).transpose()?)
}

fn start(head: &Head<'_>) -> Result<StartHead, ProtocolError> {
    Ok(StartHead {
        content_type: declared_type(head)?,
        content_length: declared_length(head)?,
        expected: head.media_digests()?,
        ..StartHead::with_metadata(head.length().unwrap_or(BodyLength::Exact(0)))
    })
}

/// Headers with the type of the media, the newer name first.
const TYPE_HEADERS: [(HeaderName, &str); 2] = [
    (
        X_GOOG_UPLOAD_HEADER_CONTENT_TYPE,
        "X-Goog-Upload-Header-Content-Type",
    ),
    (X_GOOG_UPLOAD_CONTENT_TYPE, "X-Goog-Upload-Content-Type"),
];

/// Headers with the size of the media, the newest name first.
const LENGTH_HEADERS: [(HeaderName, &str); 3] = [
    (
        X_GOOG_UPLOAD_HEADER_CONTENT_LENGTH,
        "X-Goog-Upload-Header-Content-Length",
    ),
    (X_GOOG_UPLOAD_CONTENT_LENGTH, "X-Goog-Upload-Content-Length"),
    (X_GOOG_UPLOAD_RAW_SIZE, "X-Goog-Upload-Raw-Size"),
];

fn declared_type(head: &Head<'_>) -> Result<Option<String>, ProtocolError> {
    first_of(&TYPE_HEADERS, |header, name| head.media_type(header, name))
}

fn declared_length(head: &Head<'_>) -> Result<Option<u64>, ProtocolError> {
    first_of(&LENGTH_HEADERS, |header, name| head.number(header, name))
}

/// The value of the first of several headers that is there.
fn first_of<T>(
    headers: &[(HeaderName, &'static str)],
    read: impl Fn(&HeaderName, &'static str) -> Result<Option<T>, ProtocolError>,
) -> Result<Option<T>, ProtocolError> {
    for (header, name) in headers {
        if let Some(value) = read(header, name)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// A request to a session. The type of its body means nothing, and the protocol is not repeated by
/// all clients.
fn on_session(head: &Head<'_>, upload_id: UploadId) -> Result<Command, ProtocolError> {
    let offset = head.number(&X_GOOG_UPLOAD_OFFSET, "X-Goog-Upload-Offset");
    let action = match command(head)?.ok_or(UploadCommandError::Missing)? {
        UploadCommand::Start => return Err(UploadCommandError::InsideSession.into()),
        UploadCommand::Cancel => return Ok(Command::Cancel { upload_id }),
        UploadCommand::Query => SessionAction::Query(Query::Undisturbed),
        UploadCommand::Upload => append_at(
            offset?.ok_or(UploadCommandError::OffsetMissing)?,
            End::Never,
        ),
        UploadCommand::UploadAndFinalize => append_at(
            offset?.ok_or(UploadCommandError::OffsetMissing)?,
            End::Always,
        ),
        UploadCommand::Finalize => match (offset?, head.length()) {
            (None, Some(BodyLength::Exact(1..))) => {
                return Err(UploadCommandError::OffsetMissing.into());
            }
            (None, _) => SessionAction::Finish,
            (Some(first), _) => append_at(first, End::Always),
        },
    };
    let has_data = matches!(action, SessionAction::AppendAt { .. });
    let body = match head.length() {
        Some(length) => length,
        None if has_data => return Err(ProtocolError::LengthRequired),
        None => BodyLength::Exact(0),
    };
    Ok(Command::Session(SessionHead {
        upload_id,
        request: SessionRequest { action, body },
        no_308: false,
        expected: head.media_digests()?,
    }))
}

/// Clients round the offset down, or send bytes again: the committed ones are skipped.
fn append_at(first: u64, end: End) -> SessionAction {
    SessionAction::AppendAt {
        first,
        overlap: Overlap::Skip,
        end,
        length: None,
    }
}

fn started(location: HeaderValue, upload_id: HeaderValue) -> ReplyHead {
    let mut reply = google::started_somewhere(upload_id);
    let headers = &mut reply.headers;
    headers.insert(X_GOOG_UPLOAD_CONTROL_URL, location.clone());
    headers.insert(X_GOOG_UPLOAD_URL, location);
    add_granularity(headers);
    with_status(reply, ACTIVE)
}

fn add_granularity(headers: &mut HeaderMap) {
    headers.insert(X_GOOG_UPLOAD_CHUNK_GRANULARITY, CHUNK_GRANULARITY.into());
}

fn add_received(headers: &mut HeaderMap, committed: u64) {
    headers.insert(X_GOOG_UPLOAD_SIZE_RECEIVED, committed.into());
}

fn with_status(mut reply: ReplyHead, status: HeaderValue) -> ReplyHead {
    reply.headers.insert(X_GOOG_UPLOAD_STATUS, status);
    reply
}

fn refused(mut reply: ErrorReply, status: HeaderValue) -> ErrorReply {
    reply.headers.insert(X_GOOG_UPLOAD_STATUS, status);
    reply
}

/// Like all replies, the reply to an error states the session's state after the error.
fn session_error(error: &SessionError) -> ErrorReply {
    let bad = |status| {
        refused(
            google::bad("badRequest").header("X-Goog-Upload-Offset"),
            status,
        )
    };
    match error {
        SessionError::Cancelled => refused(google::bad("badRequest"), CANCELLED),
        SessionError::Gone => refused(ErrorReply::json(StatusCode::GONE, "gone"), FINAL),
        SessionError::TooLarge { .. } => refused(
            ErrorReply::json(StatusCode::PAYLOAD_TOO_LARGE, "uploadTooLarge"),
            FINAL,
        ),
        SessionError::LengthTooLarge { .. } => refused(
            ErrorReply::json(StatusCode::PAYLOAD_TOO_LARGE, "uploadTooLarge"),
            ACTIVE,
        ),
        SessionError::Gap { committed, .. }
        | SessionError::Conflict { committed, .. }
        | SessionError::EndsBeforeCommitted { committed, .. } => {
            let mut reply = bad(ACTIVE);
            add_received(&mut reply.headers, *committed);
            reply
        }
        SessionError::LengthDisagrees { .. }
        | SessionError::PastLength { .. }
        | SessionError::LengthChanged { .. }
        | SessionError::Truncated { .. }
        | SessionError::PastTotal { .. }
        | SessionError::NoEnd
        | SessionError::NotPartial
        | SessionError::Incomplete { .. }
        | SessionError::QueryWithBody => bad(ACTIVE),
        SessionError::NoData
        | SessionError::AfterEnd { .. }
        | SessionError::MoreThanDeclared { .. }
        | SessionError::ContentRange(_)
        | SessionError::ChunkTooSmall { .. }
        | SessionError::TotalChanged { .. } => bad(FINAL),
    }
}
