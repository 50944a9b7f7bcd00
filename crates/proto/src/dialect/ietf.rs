//! The dialect of the IETF's "Resumable Uploads for HTTP" (docs/protocol.md, 2.22): the drafts with
//! the interop versions 3 to 10, and requests without a version, as the finished protocol has them.
//!
//! One set of replies satisfies all versions: where a later draft leaves a field out, it allows it.
//! The versions differ in the flag of version 3, in the status of a stored part, and in the fields
//! that a PATCH must have.

mod disposition;

use std::sync::Arc;

use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, LOCATION,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Map, json};
use sfv::{BareItem, Item, Parser};
use windlass_digest::ExpectedDigests;

use super::google;
use super::head::{Head, UPLOAD_METHODS, allow, invalid};
use super::{
    Condition, Dialect, Expiry, Final, Intent, Offer, Outcome, Progress, RequestHead,
    RequestTarget, SessionStatus,
};
use crate::command::{
    BodyLength, Command, End, FirstPart, Overlap, Query, SessionAction, SessionHead,
    SessionRequest, StartBody, StartHead,
};
use crate::error::ProtocolError;
use crate::header::{
    ACCEPT_PATCH, TUS_RESUMABLE, UPLOAD_COMPLETE, UPLOAD_DRAFT_INTEROP_VERSION, UPLOAD_INCOMPLETE,
    UPLOAD_LENGTH, UPLOAD_LIMIT, UPLOAD_METADATA, UPLOAD_OFFSET,
};
use crate::parameters::{Parameters, UploadId};
use crate::related::Boundary;
use crate::reply::{ErrorReply, Form, ReplyHead};
use crate::session::{ChunkRule, Rules, SessionError};

#[cfg(test)]
mod tests;

/// The dialect of the IETF's drafts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ietf {
    version: Version,
    /// Whether the request asks for the offset.
    is_query: bool,
}

impl Ietf {
    /// The name that sessions remember.
    pub const NAME: &'static str = "ietf";
}

/// The draft that a request announces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Version {
    /// None, as the finished protocol has it.
    #[default]
    Unstated,
    /// The interop version of a draft that the server speaks.
    Draft(u8),
    /// Any other draft.
    Unknown,
}

/// The interop versions that the server speaks.
const DRAFTS: std::ops::RangeInclusive<u8> = 3..=10;

impl Version {
    fn of(headers: &HeaderMap) -> Self {
        let Some(BareItem::Integer(number)) = item(headers, &UPLOAD_DRAFT_INTEROP_VERSION) else {
            return Self::Unstated;
        };
        match u8::try_from(i64::from(number)) {
            Ok(number) if DRAFTS.contains(&number) => Self::Draft(number),
            Ok(_) | Err(_) => Self::Unknown,
        }
    }

    /// Whether it is this draft or an earlier one.
    fn is_up_to(self, number: u8) -> bool {
        matches!(self, Self::Draft(draft) if draft <= number)
    }
}

/// The type of a PATCH with a part of the media.
const PARTIAL_UPLOAD: HeaderValue = HeaderValue::from_static("application/partial-upload");

/// The parameter that marks URIs of sessions of this dialect, and its value there.
const MARK: (&str, &str) = ("uploadType", "ietf");

const SESSION_METHODS: &[Method] = &[Method::HEAD, Method::GET, Method::PATCH, Method::DELETE];

/// A request states another offset than the committed one.
const MISMATCHING_OFFSET: &str =
    "https://iana.org/assignments/http-problem-types#mismatching-upload-offset";
/// Lengths in requests, or a length and the data, contradict each other.
const INCONSISTENT_LENGTH: &str =
    "https://iana.org/assignments/http-problem-types#inconsistent-upload-length";
/// Data for an upload that has ended. The type of drafts up to version 9.
const COMPLETED_UPLOAD: &str = "https://iana.org/assignments/http-problem-types#completed-upload";
/// A problem that its status explains (RFC 9457, section 4.2.1).
const BLANK: &str = "about:blank";

impl Dialect for Ietf {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// `URLSession` adds the flag to each upload, to any server. So a request that says how it
    /// uploads in Google's dialect is Google's, unless its body is not the whole upload, which
    /// Google's dialect would not notice. At the plain path of a method, which takes JSON too, a whole
    /// body is media by its type alone.
    fn claims(&self, target: &RequestTarget<'_>) -> bool {
        let headers = target.headers;
        let may_be_ours = target.is_upload_path || target.is_media_path;
        if !may_be_ours || headers.contains_key(TUS_RESUMABLE) {
            return false;
        }
        let is_ranged = headers.contains_key(CONTENT_RANGE);
        if target.has_session() {
            // A client of Google's dialect may ask, too.
            let is_google_s = is_ranged && !SESSION_METHODS.contains(target.http_method);
            return target.is_upload_path && is_marked(target.parameters) && !is_google_s;
        }
        if !target.may_carry_media() || is_ranged {
            return false;
        }
        match is_complete(headers, Version::of(headers)) {
            Some(true) => {
                target.parameters.first("uploadType").is_none()
                    && target.parameters.first("upload_protocol").is_none()
                    && !is_related(headers)
                    && (target.is_upload_path || is_media(headers))
            }
            Some(false) => true,
            None => false,
        }
    }

    fn of_request(&self, target: &RequestTarget<'_>) -> Option<Arc<dyn Dialect>> {
        Some(Arc::new(Self {
            version: Version::of(target.headers),
            is_query: [Method::HEAD, Method::GET].contains(target.http_method),
        }))
    }

    fn intent(&self, target: &RequestTarget<'_>) -> Intent {
        let is_part = target.has_session() && *target.http_method == Method::PATCH;
        if is_part && is_complete(target.headers, Version::of(target.headers)) == Some(true) {
            Intent::Finish
        } else {
            Intent::of_method(target.http_method, target.has_session())
        }
    }

    fn command(&self, request: &RequestHead<'_>) -> Result<Command, ProtocolError> {
        if let Some(upload_id) = request.parameters.upload_id() {
            let command = self.on_session(request, upload_id);
            return command.map_err(|error| ProtocolError::ToSession(Box::new(error)));
        }
        self.creation(request)
    }

    /// Parts may have any size.
    fn rules(&self, configured: Rules) -> Rules {
        configured.with_chunks(ChunkRule::Lenient)
    }

    fn session_parameters(&self) -> &'static str {
        "uploadType=ietf"
    }

    fn reply(&self, outcome: Outcome<'_>) -> ReplyHead {
        match outcome {
            Outcome::Started {
                location, status, ..
            } => {
                let mut reply = self.unfinished(StatusCode::CREATED, status);
                reply.headers.insert(LOCATION, location);
                reply
            }
            Outcome::Committed { status, .. } if self.is_query => {
                let mut reply = self.unfinished(StatusCode::NO_CONTENT, status);
                reply.headers.insert(CACHE_CONTROL, NO_STORE);
                reply
            }
            Outcome::Committed { status, .. } if self.version.is_up_to(6) => {
                self.unfinished(StatusCode::CREATED, status)
            }
            Outcome::Committed { status, .. } => self.unfinished(StatusCode::NO_CONTENT, status),
            Outcome::Final(finished) => self.finished(finished),
            Outcome::Cancelled => ReplyHead::new(StatusCode::NO_CONTENT),
        }
    }

    fn protocol_error(&self, error: &ProtocolError) -> ErrorReply {
        match error {
            ProtocolError::Session(error) => self.session_error(error),
            ProtocolError::ToSession(error) => self.refused(to_session(error), false),
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
            | ProtocolError::DigestMismatch(_) => self.refused(google::protocol(error), false),
        }
    }

    fn condition(&self, condition: Condition) -> ErrorReply {
        let problem = |status| self.refused(ErrorReply::problem(status, BLANK), false);
        match condition {
            Condition::SessionNotFound | Condition::AlreadyCancelled => {
                problem(StatusCode::NOT_FOUND)
            }
            Condition::OtherDialect => problem(StatusCode::BAD_REQUEST),
            // The resource stays, and nothing else is left to be dropped.
            Condition::AlreadyFinished => ErrorReply::empty(StatusCode::NO_CONTENT, "finished"),
            Condition::MediaLost => problem(StatusCode::GONE),
            Condition::Interrupted | Condition::Superseded | Condition::FinishPending => {
                self.refused(ErrorReply::unavailable(1), false)
            }
            Condition::Unavailable { retry_after } => {
                self.refused(ErrorReply::unavailable(retry_after), false)
            }
        }
    }

    /// The reply of the API ends the upload, unless the API asks for another try.
    fn other_error(&self, reply: ErrorReply) -> ErrorReply {
        let passes = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
        let is_for_good = reply.status.is_client_error() && !passes.contains(&reply.status);
        self.refused(reply, is_for_good)
    }

    /// The version that a request announces is announced in each reply.
    fn mark(&self, headers: &mut HeaderMap) {
        if let Version::Draft(number) = self.version {
            headers.insert(UPLOAD_DRAFT_INTEROP_VERSION, u16::from(number).into());
        }
    }

    /// Many clients take an unexpected interim reply for the reply. Only clients that announce a
    /// draft get any.
    fn progress(&self, progress: Progress<'_>) -> Option<HeaderMap> {
        let Version::Draft(number) = self.version else {
            return None;
        };
        let mut headers = HeaderMap::new();
        match progress {
            Progress::Started { location } => {
                headers.insert(LOCATION, location.clone());
                headers.insert(UPLOAD_LIMIT, self.limits(None));
            }
            Progress::Committed { .. } if number < 5 => return None,
            Progress::Committed { offset } => {
                headers.insert(UPLOAD_OFFSET, offset.into());
            }
        }
        self.mark(&mut headers);
        Some(headers)
    }

    fn describe(&self, offer: &Offer, headers: &mut HeaderMap) {
        let max_age = format!("max-age={}", offer.lifetime.as_secs());
        let limits = match offer.max_size {
            Some(max_size) => format!("max-size={}, {max_age}", max_size.min(MAX_INTEGER)),
            None => format!("max-size={MAX_INTEGER}, {max_age}"),
        };
        if let Ok(limits) = HeaderValue::try_from(limits) {
            headers.insert(UPLOAD_LIMIT, limits);
        }
        headers.insert(ACCEPT_PATCH, PARTIAL_UPLOAD);
    }
}

/// The greatest integer of structured fields, and so the greatest offset that can be stated.
const MAX_INTEGER: u64 = 999_999_999_999_999;

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

impl Ietf {
    /// A request that creates an upload.
    fn creation(self, request: &RequestHead<'_>) -> Result<Command, ProtocolError> {
        allow(request.http_method, UPLOAD_METHODS)?;
        refuse_coded(request.headers)?;
        let head = Head::of(request)?;
        let is_last = is_complete(request.headers, self.version);
        let is_last = is_last.ok_or(invalid("Upload-Complete"))?;
        let total = integer(request.headers, &UPLOAD_LENGTH);
        let is_last = is_last || (total == Some(0) && self.is_of_tus_js(request.headers));
        let content_type = head.media_type(&CONTENT_TYPE, "Content-Type")?;
        if self.version == Version::Unknown {
            // Such a client gets the plain upload that it would get without the draft.
            return if is_last {
                head.simple(content_type).map(Command::Simple)
            } else {
                Err(invalid("Upload-Draft-Interop-Version"))
            };
        }
        let length = head.length().unwrap_or(BodyLength::Exact(0));
        // Before there is a session that nobody knows of.
        if let (true, BodyLength::Exact(stated), Some(known)) = (is_last, length, total)
            && stated != known
        {
            return Err(SessionError::Truncated { stated, known }.into());
        }
        let part = FirstPart {
            end: if is_last { End::Always } else { End::Never },
            length: total,
        };
        Ok(Command::Start(StartHead {
            // A client of an old draft sends the type of a PATCH with the creation, too.
            content_type: content_type.filter(|it| !is_partial_upload(it)),
            content_length: total.or(match length {
                BodyLength::Exact(length) if is_last => Some(length),
                BodyLength::Exact(_) | BodyLength::Unknown => None,
            }),
            length,
            expected: head.media_digests()?,
            body: StartBody::Data {
                file_name: request
                    .headers
                    .get(CONTENT_DISPOSITION)
                    .and_then(|it| disposition::file_name(it.as_bytes())),
                fields: Map::new(),
                part: Some(part),
            },
            kept: None,
        }))
    }

    /// Whether the client is tus-js-client, in one of its modes for drafts: it takes an empty file for
    /// uploaded once it is created, and never says that it is complete.
    fn is_of_tus_js(self, headers: &HeaderMap) -> bool {
        self.version.is_up_to(6) && headers.contains_key(UPLOAD_METADATA)
    }

    /// A request to an upload.
    fn on_session(
        self,
        request: &RequestHead<'_>,
        upload_id: UploadId,
    ) -> Result<Command, ProtocolError> {
        allow(request.http_method, SESSION_METHODS)?;
        let headers = request.headers;
        if *request.http_method != Method::PATCH {
            for (name, text) in [
                (UPLOAD_OFFSET, "Upload-Offset"),
                (UPLOAD_COMPLETE, "Upload-Complete"),
                (UPLOAD_INCOMPLETE, "Upload-Incomplete"),
            ] {
                if headers.contains_key(name) {
                    return Err(invalid(text));
                }
            }
        }
        if *request.http_method == Method::DELETE {
            return Ok(Command::Cancel { upload_id });
        }
        if self.is_query {
            return Ok(Command::Session(SessionHead {
                upload_id,
                request: SessionRequest {
                    action: SessionAction::Query(Query::Settled),
                    body: BodyLength::Exact(0),
                },
                no_308: false,
                expected: ExpectedDigests::default(),
            }));
        }
        self.part(request, upload_id).map(Command::Session)
    }

    /// A request with a part of the media.
    fn part(
        self,
        request: &RequestHead<'_>,
        upload_id: UploadId,
    ) -> Result<SessionHead, ProtocolError> {
        let headers = request.headers;
        refuse_coded(headers)?;
        let head = Head::of(request)?;
        let content_type = head.text(&CONTENT_TYPE, "Content-Type")?;
        if !self.version.is_up_to(5) && !content_type.is_some_and(is_partial_upload) {
            return Err(invalid("Content-Type"));
        }
        let first = integer(headers, &UPLOAD_OFFSET).ok_or(invalid("Upload-Offset"))?;
        let end = match is_complete(headers, self.version) {
            Some(true) => End::Always,
            Some(false) => End::Never,
            None if self.version.is_up_to(3) => End::Always,
            // The drafts leave it open.
            None if self.version.is_up_to(6) => End::AtLength,
            None => return Err(invalid("Upload-Complete")),
        };
        Ok(SessionHead {
            upload_id,
            request: SessionRequest {
                action: SessionAction::AppendAt {
                    first,
                    overlap: Overlap::Conflict,
                    end,
                    length: integer(headers, &UPLOAD_LENGTH),
                },
                body: head.length().unwrap_or(BodyLength::Exact(0)),
            },
            no_308: false,
            expected: head.media_digests()?,
        })
    }

    fn unfinished(self, status: StatusCode, session: SessionStatus<'_>) -> ReplyHead {
        let mut reply = ReplyHead::new(status);
        self.add_state(&mut reply.headers, false, session.offset);
        if let Some(length) = session.length {
            reply.headers.insert(UPLOAD_LENGTH, length.into());
        }
        reply
            .headers
            .insert(UPLOAD_LIMIT, self.limits(session.expires));
        reply
    }

    fn finished(self, finished: Final<'_>) -> ReplyHead {
        let mut reply = if self.is_query {
            let mut reply = ReplyHead::new(StatusCode::NO_CONTENT);
            reply.drops_body = true;
            reply.headers.insert(CACHE_CONTROL, NO_STORE);
            let limits = self.limits(None);
            reply.headers.insert(UPLOAD_LIMIT, limits);
            reply
        } else {
            let mut reply = ReplyHead::new(finished.status);
            reply.headers.insert(CONTENT_TYPE, finished.content_type);
            reply
        };
        self.add_state(&mut reply.headers, true, finished.length);
        let length = finished.length.into();
        reply.headers.insert(UPLOAD_LENGTH, length);
        if let Some(location) = finished.location {
            reply.headers.insert(LOCATION, location);
        }
        reply
    }

    /// The limits of an upload that expires then.
    fn limits(self, expires: Option<Expiry>) -> HeaderValue {
        let Some(Expiry { left, .. }) = expires else {
            return HeaderValue::from_static("min-size=0");
        };
        // Version 6 has both names.
        let key = if self.version.is_up_to(6) {
            "expires"
        } else {
            "max-age"
        };
        let limits = HeaderValue::try_from(format!("{key}={}", left.as_secs()));
        limits.unwrap_or(HeaderValue::from_static("min-size=0"))
    }

    fn add_state(self, headers: &mut HeaderMap, is_complete: bool, offset: u64) {
        self.add_flag(headers, is_complete);
        headers.insert(UPLOAD_OFFSET, offset.into());
    }

    fn add_flag(self, headers: &mut HeaderMap, is_complete: bool) {
        let (name, flag) = if self.version.is_up_to(3) {
            (UPLOAD_INCOMPLETE, !is_complete)
        } else {
            (UPLOAD_COMPLETE, is_complete)
        };
        let value = if flag { "?1" } else { "?0" };
        headers.insert(name, HeaderValue::from_static(value));
    }

    /// Completes a refusal: by its form, and by whether it ends the upload.
    fn refused(self, reply: ErrorReply, is_complete: bool) -> ErrorReply {
        let form = match reply.form {
            Form::Json | Form::Text | Form::Empty => Form::Problem(BLANK),
            Form::Problem(kind) => Form::Problem(kind),
        };
        let mut reply = ErrorReply { form, ..reply };
        self.add_flag(&mut reply.headers, is_complete);
        reply
    }

    fn session_error(self, error: &SessionError) -> ErrorReply {
        let problem = |status, kind| self.refused(ErrorReply::problem(status, kind), false);
        match error {
            SessionError::Conflict { first, committed }
            | SessionError::Gap { first, committed } => {
                let mut reply = problem(StatusCode::CONFLICT, MISMATCHING_OFFSET);
                let members = &mut reply.members;
                members.insert("expected-offset".to_owned(), json!(committed));
                members.insert("provided-offset".to_owned(), json!(first));
                reply.headers.insert(UPLOAD_OFFSET, (*committed).into());
                reply
            }
            SessionError::Cancelled => problem(StatusCode::NOT_FOUND, BLANK),
            SessionError::Gone => problem(StatusCode::GONE, BLANK),
            SessionError::TooLarge { limit } | SessionError::LengthTooLarge { limit } => {
                let mut reply = problem(StatusCode::PAYLOAD_TOO_LARGE, BLANK);
                let limits = HeaderValue::try_from(format!("max-size={limit}"));
                if let Ok(limits) = limits {
                    reply.headers.insert(UPLOAD_LIMIT, limits);
                }
                reply
            }
            SessionError::AfterEnd { .. } => problem(StatusCode::BAD_REQUEST, COMPLETED_UPLOAD),
            SessionError::LengthDisagrees { .. }
            | SessionError::Truncated { .. }
            | SessionError::TotalChanged { .. }
            | SessionError::LengthChanged { .. }
            | SessionError::EndsBeforeCommitted { .. }
            | SessionError::PastLength { .. }
            | SessionError::PastTotal { .. }
            | SessionError::MoreThanDeclared { .. } => {
                problem(StatusCode::BAD_REQUEST, INCONSISTENT_LENGTH)
            }
            SessionError::ContentRange(_)
            | SessionError::ChunkTooSmall { .. }
            | SessionError::NoEnd
            | SessionError::NoData
            | SessionError::NotPartial
            | SessionError::Incomplete { .. }
            | SessionError::QueryWithBody => problem(StatusCode::BAD_REQUEST, BLANK),
        }
    }
}

/// Returns the reply to a request to an upload that cannot be read.
fn to_session(error: &ProtocolError) -> ErrorReply {
    let mut reply = google::protocol(error);
    if let ProtocolError::InvalidHeader {
        name: "Content-Type" | "Content-Encoding",
    } = error
    {
        reply.status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    }
    reply
}

/// Whether the query belongs to the URI of a session of this dialect.
fn is_marked(parameters: &Parameters) -> bool {
    parameters.first(MARK.0) == Some(MARK.1)
}

/// Whether the body is a document of several parts, as Google's multipart upload.
fn is_related(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    matches!(content_type.map(Boundary::from_content_type), Some(Ok(_)))
}

/// Whether the type of the body is neither JSON nor a form, which `URLSession` states where its
/// application states no type. Clients of JSON state its type.
fn is_media(headers: &HeaderMap) -> bool {
    let Some(stated) = headers.get(CONTENT_TYPE) else {
        return true;
    };
    let essence = stated.to_str().ok().and_then(|it| it.split(';').next());
    let essence = essence.unwrap_or_default().trim().to_ascii_lowercase();
    let is_json = essence.ends_with("/json") || essence.ends_with("+json");
    !is_json && essence != "application/x-www-form-urlencoded"
}

fn is_partial_upload(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence
        .trim()
        .as_bytes()
        .eq_ignore_ascii_case(PARTIAL_UPLOAD.as_bytes())
}

/// Refuses a coded body: offsets count coded bytes here, and the server stores decoded ones.
fn refuse_coded(headers: &HeaderMap) -> Result<(), ProtocolError> {
    let is_identity = |value: &HeaderValue| {
        let coding = value.as_bytes().trim_ascii();
        coding.is_empty() || coding.eq_ignore_ascii_case(b"identity")
    };
    if headers.get_all(CONTENT_ENCODING).iter().all(is_identity) {
        Ok(())
    } else {
        Err(invalid("Content-Encoding"))
    }
}

/// Returns whether the request says that the upload ends with it; `None` if it does not say so by a
/// valid flag.
fn is_complete(headers: &HeaderMap, version: Version) -> Option<bool> {
    if version.is_up_to(3) {
        return flag(headers, &UPLOAD_INCOMPLETE).map(|it| !it);
    }
    flag(headers, &UPLOAD_COMPLETE)
}

fn flag(headers: &HeaderMap, name: &HeaderName) -> Option<bool> {
    match item(headers, name)? {
        BareItem::Boolean(flag) => Some(flag),
        _ => None,
    }
}

/// Returns a length or an offset; `None` if the field is absent or does not parse, and is ignored.
fn integer(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    match item(headers, name)? {
        BareItem::Integer(number) => u64::try_from(i64::from(number)).ok(),
        _ => None,
    }
}

/// Returns the value of a field that is one item; `None` if it is not.
fn item(headers: &HeaderMap, name: &HeaderName) -> Option<BareItem> {
    let mut lines = headers.get_all(name).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return None;
    };
    let item: Item = Parser::new(line.as_bytes()).parse().ok()?;
    Some(item.bare_item)
}
