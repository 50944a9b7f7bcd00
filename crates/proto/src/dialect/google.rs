//! Google's dialect: `uploadType`, `Content-Range` and `308 Resume Incomplete` (docs/protocol.md).

use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, EXPIRES, LOCATION, PRAGMA, RANGE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use windlass_digest::{DigestMismatch, ExpectedDigestsError};

use super::head::{Head, UPLOAD_METHODS, allow};
use super::{Condition, Dialect, Final, Intent, Outcome, RequestHead, RequestTarget};
use crate::command::{
    BodyLength, Command, Framing, SessionAction, SessionHead, SessionRequest, StartHead,
};
use crate::content_range::{CommittedRange, ContentRange, ContentRangeError};
use crate::error::ProtocolError;
use crate::header::{
    X_GUPLOADER_NO_308, X_GUPLOADER_UPLOADID, X_HTTP_STATUS_CODE_OVERRIDE, X_UPLOAD_CONTENT_LENGTH,
    X_UPLOAD_CONTENT_TYPE,
};
use crate::metadata::MetadataError;
use crate::parameters::{QueryError, UploadId};
use crate::related::{Boundary, RelatedError};
use crate::reply::{ErrorReply, ReplyHead};
use crate::session::SessionError;
use crate::upload_type::UploadType;

#[cfg(test)]
mod tests;

/// Google's dialect.
#[derive(Debug, Clone, Copy, Default)]
pub struct Google;

impl Google {
    /// The name that sessions remember.
    pub const NAME: &'static str = "google";
}

impl Dialect for Google {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// All uploads that no other dialect claims are Google's.
    fn claims(&self, target: &RequestTarget<'_>) -> bool {
        target.is_upload_path
    }

    fn intent(&self, target: &RequestTarget<'_>) -> Intent {
        // A DELETE cancels the session, whatever its other headers say.
        if target.has_session() && target.http_method != Method::DELETE {
            intent_of_range(target.headers)
        } else {
            Intent::of_method(target.http_method, target.has_session())
        }
    }

    fn command(&self, request: &RequestHead<'_>) -> Result<Command, ProtocolError> {
        command(request)
    }

    fn reply(&self, outcome: Outcome<'_>) -> ReplyHead {
        match outcome {
            Outcome::Started {
                location,
                upload_id,
                ..
            } => started(location, upload_id),
            Outcome::Committed {
                status,
                upload_id,
                no_308,
            } => {
                let mut reply = resume_incomplete(status.offset, no_308);
                name_session(&mut reply, upload_id);
                reply
            }
            Outcome::Final(Final {
                status,
                content_type,
                upload_id,
                ..
            }) => {
                let mut reply = ReplyHead::new(status);
                reply.headers.insert(CONTENT_TYPE, content_type);
                if let Some(upload_id) = upload_id {
                    name_session(&mut reply, upload_id);
                }
                reply
            }
            Outcome::Cancelled => cancelled(),
        }
    }

    fn protocol_error(&self, error: &ProtocolError) -> ErrorReply {
        protocol(error)
    }

    fn condition(&self, condition: Condition) -> ErrorReply {
        match condition {
            Condition::SessionNotFound => ErrorReply::json(StatusCode::NOT_FOUND, "notFound"),
            Condition::OtherDialect | Condition::AlreadyFinished => bad("badRequest"),
            Condition::Interrupted | Condition::Superseded | Condition::FinishPending => {
                ErrorReply::unavailable(1)
            }
            Condition::AlreadyCancelled => session_error(&SessionError::Cancelled),
            Condition::MediaLost => ErrorReply::json(StatusCode::GONE, "gone"),
            Condition::Unavailable { retry_after } => ErrorReply::unavailable(retry_after),
        }
    }
}

/// Returns the intent of a request to a session. A request without `Content-Range` carries the rest
/// of the upload.
fn intent_of_range(headers: &HeaderMap) -> Intent {
    let Some(range) = headers.get(CONTENT_RANGE) else {
        return Intent::Finish;
    };
    match ContentRange::parse(range.as_bytes()) {
        Ok(ContentRange::Query { .. }) => Intent::Query,
        Ok(ContentRange::ToEnd { .. }) => Intent::Finish,
        Ok(ContentRange::Bounded { last, total, .. }) if last.checked_add(1) == total => {
            Intent::Finish
        }
        Ok(ContentRange::Bounded { .. }) | Err(_) => Intent::Append,
    }
}

const SESSION_METHODS: &[Method] = &[Method::PUT, Method::POST, Method::DELETE];

/// A request with an `upload_id` addresses a session, whatever `uploadType` says.
fn command(request: &RequestHead<'_>) -> Result<Command, ProtocolError> {
    let head = Head::of(request)?;
    if let Some(upload_id) = request.parameters.upload_id() {
        allow(request.http_method, SESSION_METHODS)?;
        return if *request.http_method == Method::DELETE {
            Ok(Command::Cancel { upload_id })
        } else {
            session(&head, upload_id).map(Command::Session)
        };
    }
    allow(request.http_method, UPLOAD_METHODS)?;
    let upload_type = UploadType::from_parameters(request.parameters)?;
    match upload_type.unwrap_or_else(|| type_of_content(request.headers)) {
        UploadType::Media => {
            let content_type = head.media_type(&CONTENT_TYPE, "Content-Type")?;
            head.simple(content_type).map(Command::Simple)
        }
        UploadType::Multipart => head.multipart().map(Command::Multipart),
        UploadType::Resumable => start(&head).map(Command::Start),
    }
}

/// The upload type of a request that states none, as Cloud Storage has it: the body is the media,
/// unless it is a document of several parts.
fn type_of_content(headers: &HeaderMap) -> UploadType {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    match content_type.map(Boundary::from_content_type) {
        Some(Ok(_)) => UploadType::Multipart,
        Some(Err(_)) | None => UploadType::Media,
    }
}

fn start(head: &Head<'_>) -> Result<StartHead, ProtocolError> {
    if head.headers.contains_key(CONTENT_RANGE) && has_data(head) {
        return Err(ProtocolError::DataOnStart);
    }
    Ok(StartHead {
        content_type: head.media_type(&X_UPLOAD_CONTENT_TYPE, "X-Upload-Content-Type")?,
        content_length: head.number(&X_UPLOAD_CONTENT_LENGTH, "X-Upload-Content-Length")?,
        expected: head.media_digests()?,
        ..StartHead::with_metadata(head.length().unwrap_or(BodyLength::Exact(0)))
    })
}

fn session(head: &Head<'_>, upload_id: UploadId) -> Result<SessionHead, ProtocolError> {
    let content_range = content_range(head.headers);
    let body = match content_range {
        // A query without framing has no body, and needs none. A malformed range is refused in any
        // case.
        Ok(Some(ContentRange::Query { .. })) | Err(_) => {
            head.length().unwrap_or(BodyLength::Exact(0))
        }
        Ok(_) => head.required_length()?,
    };
    Ok(SessionHead {
        upload_id,
        request: SessionRequest {
            action: SessionAction::Ranged(content_range),
            body,
        },
        no_308: no_308(head.headers),
        expected: head.media_digests()?,
    })
}

fn content_range(headers: &HeaderMap) -> Result<Option<ContentRange>, ContentRangeError> {
    let mut values = headers.get_all(CONTENT_RANGE).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => ContentRange::parse(value.as_bytes()).map(Some),
        (Some(_), Some(_)) => Err(ContentRangeError::Repeated),
        (None, _) => Ok(None),
    }
}

fn no_308(headers: &HeaderMap) -> bool {
    let value = headers
        .get(X_GUPLOADER_NO_308)
        .map(|value| value.as_bytes().trim_ascii());
    value.is_some_and(|value| {
        ["yes", "true", "1"]
            .iter()
            .any(|yes| value.eq_ignore_ascii_case(yes.as_bytes()))
    })
}

/// Returns whether a request that starts a session carries something other than metadata.
fn has_data(head: &Head<'_>) -> bool {
    let empty = matches!(head.framing, Framing::Absent | Framing::Length(0));
    !empty
        && head
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|value| !is_json(value.as_bytes()))
}

fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    let essence = essence.to_ascii_lowercase();
    essence.is_empty() || essence.ends_with(b"/json") || essence.ends_with(b"+json")
}

/// Returns the reply to the start of a session. `location` is the absolute session URI, which
/// carries `upload_id`.
fn started(location: HeaderValue, upload_id: HeaderValue) -> ReplyHead {
    let mut reply = started_somewhere(upload_id);
    reply.headers.insert(LOCATION, location);
    reply
}

/// Returns the reply to the start of a session without the session's URI, because each dialect has
/// different headers for the URI.
///
/// The status is exactly 200 and caching is forbidden, because several clients accept nothing else.
pub(super) fn started_somewhere(upload_id: HeaderValue) -> ReplyHead {
    let mut reply = ReplyHead::empty(StatusCode::OK);
    let headers = &mut reply.headers;
    headers.insert(X_GUPLOADER_UPLOADID, upload_id);
    headers.insert(
        CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-store, max-age=0, must-revalidate"),
    );
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    headers.insert(
        EXPIRES,
        HeaderValue::from_static("Mon, 01 Jan 1990 00:00:00 GMT"),
    );
    reply
}

/// Returns the reply to an unfinished upload with `committed` bytes.
///
/// The status is `308 Resume Incomplete`. With `no_308` it is a `200` with the status 308 in a
/// header, because the HTTP stacks of some clients treat a 308 as a redirection. The reply never
/// has a `Location`, because clients would follow it.
fn resume_incomplete(committed: u64, no_308: bool) -> ReplyHead {
    let mut reply = if no_308 {
        let mut reply = ReplyHead::empty(StatusCode::OK);
        reply
            .headers
            .insert(X_HTTP_STATUS_CODE_OVERRIDE, HeaderValue::from_static("308"));
        reply
    } else {
        let reply = ReplyHead::empty(StatusCode::PERMANENT_REDIRECT);
        ReplyHead {
            reason_phrase: Some("Resume Incomplete"),
            ..reply
        }
    };
    if let Some(range) = CommittedRange::of(committed) {
        reply.headers.insert(RANGE, range.into());
    }
    reply
}

/// Returns the reply to a cancel: a status that IANA's registry does not have.
fn cancelled() -> ReplyHead {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    ReplyHead {
        status: client_closed_request(),
        reason_phrase: Some(CLIENT_CLOSED_REQUEST),
        headers,
        drops_body: false,
    }
}

/// Adds the `upload_id` of the session, if it can be a header's value.
pub(super) fn name_session(reply: &mut ReplyHead, upload_id: &UploadId) {
    if let Ok(upload_id) = HeaderValue::try_from(upload_id.as_str()) {
        reply.headers.insert(X_GUPLOADER_UPLOADID, upload_id);
    }
}

/// The reason phrase of the status of a cancelled upload.
const CLIENT_CLOSED_REQUEST: &str = "Client Closed Request";

/// The status of a cancelled upload at Google's services.
fn client_closed_request() -> StatusCode {
    StatusCode::from_u16(499).expect("499 is a valid status")
}

pub(super) fn bad(reason: &'static str) -> ErrorReply {
    ErrorReply::json(StatusCode::BAD_REQUEST, reason)
}

pub(super) fn protocol(error: &ProtocolError) -> ErrorReply {
    match error {
        ProtocolError::MethodNotAllowed { .. } => {
            ErrorReply::json(StatusCode::METHOD_NOT_ALLOWED, "methodNotAllowed")
        }
        ProtocolError::PathNotUtf8 | ProtocolError::Query(QueryError::TooMany) => bad("badRequest"),
        ProtocolError::Query(QueryError::NotUtf8 { name }) => {
            bad("invalidParameter").parameter(name.clone())
        }
        ProtocolError::UploadCommand(_) => bad("invalid").header("X-Goog-Upload-Command"),
        ProtocolError::UploadType(_) => bad("invalidParameter").parameter("uploadType"),
        ProtocolError::Alt(_) => bad("invalidAltValue").parameter("alt"),
        ProtocolError::LengthRequired => ErrorReply::empty(StatusCode::LENGTH_REQUIRED, "required"),
        ProtocolError::AmbiguousLength => bad("badRequest").header("Content-Length"),
        ProtocolError::TransferEncoding => {
            ErrorReply::json(StatusCode::NOT_IMPLEMENTED, "notImplemented")
                .header("Transfer-Encoding")
        }
        ProtocolError::ContentEncoding => {
            ErrorReply::json(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupportedMediaType")
                .header("Content-Encoding")
        }
        ProtocolError::InvalidHeader { name } => bad("invalid").header(*name),
        ProtocolError::MissingHeader { name } => bad("required").header(*name),
        ProtocolError::UnsupportedVersion { header, .. } => {
            ErrorReply::json(StatusCode::PRECONDITION_FAILED, "conditionNotMet").header(*header)
        }
        ProtocolError::PartType { .. } => {
            ErrorReply::json(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupportedMediaType")
                .header("Content-Type")
        }
        ProtocolError::DataOnStart => bad("badRequest").header("Content-Range"),
        ProtocolError::Related(error) => related(error),
        ProtocolError::Metadata(
            MetadataError::TooManyValues { .. }
            | MetadataError::TooDeep { .. }
            | MetadataError::NotUtf8
            | MetadataError::NotJson { .. }
            | MetadataError::NotAnObject { .. },
        ) => bad("parseError"),
        ProtocolError::Session(error) => session_error(error),
        ProtocolError::ToSession(error) => protocol(error),
        ProtocolError::BodyDigest(error) => bad("invalid").header(error.field()),
        ProtocolError::Concat(_)
        | ProtocolError::ExpectedDigests(
            ExpectedDigestsError::Malformed { .. }
            | ExpectedDigestsError::Unsupported { .. }
            | ExpectedDigestsError::OfCodedBytes { .. }
            | ExpectedDigestsError::Conflict { .. },
        )
        | ProtocolError::DigestMismatch(
            DigestMismatch::Crc32c { .. }
            | DigestMismatch::Md5 { .. }
            | DigestMismatch::Sha256 { .. },
        ) => bad("invalid"),
    }
}

fn related(error: &RelatedError) -> ErrorReply {
    match error {
        RelatedError::NotRelated => bad("invalid").header("Content-Type"),
        RelatedError::NoBoundary => bad("parseError").header("Content-Type"),
        RelatedError::TransferEncoding => bad("badRequest").header("Content-Transfer-Encoding"),
        RelatedError::MetadataTooLarge { .. } => {
            ErrorReply::json(StatusCode::PAYLOAD_TOO_LARGE, "uploadTooLarge")
        }
        RelatedError::PreambleTooLarge { .. }
        | RelatedError::PartHeadersTooLarge { .. }
        | RelatedError::PartHeader
        | RelatedError::Base64
        | RelatedError::TooFewParts { .. }
        | RelatedError::TooManyParts
        | RelatedError::NoFinalBoundary => bad("parseError"),
    }
}

fn session_error(error: &SessionError) -> ErrorReply {
    match error {
        SessionError::Cancelled => {
            ErrorReply::empty(client_closed_request(), "clientClosedRequest")
        }
        SessionError::Gone => ErrorReply::json(StatusCode::GONE, "gone"),
        SessionError::Gap { .. } => {
            ErrorReply::text(StatusCode::SERVICE_UNAVAILABLE, "backendError")
        }
        SessionError::TooLarge { .. } | SessionError::LengthTooLarge { .. } => {
            ErrorReply::json(StatusCode::PAYLOAD_TOO_LARGE, "uploadTooLarge")
        }
        SessionError::ContentRange(_)
        | SessionError::ChunkTooSmall { .. }
        | SessionError::Conflict { .. }
        | SessionError::PastLength { .. }
        | SessionError::LengthChanged { .. }
        | SessionError::LengthDisagrees { .. }
        | SessionError::TotalChanged { .. }
        | SessionError::Truncated { .. }
        | SessionError::EndsBeforeCommitted { .. }
        | SessionError::PastTotal { .. }
        | SessionError::MoreThanDeclared { .. }
        | SessionError::AfterEnd { .. }
        | SessionError::QueryWithBody
        | SessionError::NoEnd
        | SessionError::NoData
        | SessionError::NotPartial
        | SessionError::Incomplete { .. } => {
            ErrorReply::text(StatusCode::BAD_REQUEST, "badRequest").header("Content-Range")
        }
    }
}
