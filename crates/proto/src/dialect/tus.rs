//! tus 1.0.0: creation by `POST`, parts by `PATCH`, questions by `HEAD` (docs/protocol.md, 2.21).
//!
//! A part must begin at the committed offset, and an upload ends when it reaches its length.
//! Replies have no body: the reply that ends an upload names the resource in `Content-Location`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CACHE_CONTROL, CONTENT_LOCATION, CONTENT_RANGE, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Map, Value};
use windlass_digest::ExpectedDigests;

use super::google;
use super::head::{Head, allow, invalid, is_media_type};
use super::{
    Condition, Dialect, Expiry, Final, Offer, Outcome, RequestHead, RequestTarget, SessionStatus,
};
use crate::body_digests::DigestField;
use crate::command::{
    BodyLength, Command, End, FirstPart, Overlap, Query, SessionAction, SessionHead,
    SessionRequest, StartBody, StartHead,
};
use crate::concat::{ConcatError, PartialUri};
use crate::error::{BodyDigestError, ProtocolError};
use crate::header::{
    TUS_CHECKSUM_ALGORITHM, TUS_EXTENSION, TUS_MAX_SIZE, TUS_RESUMABLE, TUS_VERSION,
    UPLOAD_COMPLETE, UPLOAD_CONCAT, UPLOAD_DEFER_LENGTH, UPLOAD_DRAFT_INTEROP_VERSION,
    UPLOAD_EXPIRES, UPLOAD_INCOMPLETE, UPLOAD_LENGTH, UPLOAD_METADATA, UPLOAD_OFFSET,
};
use crate::parameters::UploadId;
use crate::reply::{ErrorReply, Form, ReplyHead};
use crate::session::{ChunkRule, Rules, SessionError};

mod concat;
#[cfg(test)]
mod tests;

/// The dialect tus.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tus {
    /// Whether the request asks for the state of its session.
    is_query: bool,
}

impl Tus {
    /// The name that sessions remember.
    pub const NAME: &'static str = "tus";
}

/// The version of the protocol.
const VERSION: HeaderValue = HeaderValue::from_static("1.0.0");

/// The extensions of the protocol that this server has.
const EXTENSIONS: HeaderValue = HeaderValue::from_static(
    "creation,creation-with-upload,creation-defer-length,expiration,checksum,checksum-trailer,\
     termination,concatenation",
);

/// The type of a body that is a part of the media.
const PART_TYPE: &str = "application/offset+octet-stream";

/// Parameter of session URIs, by which a request without a header of the dialect is known.
const SESSION_PARAMETER: &str = "uploadType=tus";

/// First segment of the path of session URIs: some clients keep the path alone.
const SESSION_SEGMENT: &str = "-tus";

const CREATION_METHODS: &[Method] = &[Method::POST];
const SESSION_METHODS: &[Method] = &[Method::HEAD, Method::PATCH, Method::DELETE];

impl Dialect for Tus {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// `Tus-Resumable` decides, whatever else is there: Apple's `URLSession` adds the fields of the
    /// IETF draft to every upload. Without it, a request is known by a session URI of the dialect
    /// or by another field of tus, so that its client learns the version that it has not stated.
    fn claims(&self, target: &RequestTarget<'_>) -> bool {
        let headers = target.headers;
        let may_be_ours = target.is_upload_path || *target.http_method == Method::POST;
        if !may_be_ours || *target.http_method == Method::OPTIONS {
            return false;
        }
        if headers.contains_key(TUS_RESUMABLE) {
            return true;
        }
        let is_of_others = [
            UPLOAD_COMPLETE,
            UPLOAD_INCOMPLETE,
            UPLOAD_DRAFT_INTEROP_VERSION,
            CONTENT_RANGE,
        ]
        .iter()
        .any(|name| headers.contains_key(name));
        if is_of_others {
            return false;
        }
        if target.has_session() {
            let is_of_session = target.parameters.first("uploadType") == Some(Self::NAME);
            return is_of_session && SESSION_METHODS.contains(target.http_method);
        }
        let is_creation = [
            UPLOAD_LENGTH,
            UPLOAD_DEFER_LENGTH,
            UPLOAD_METADATA,
            UPLOAD_CONCAT,
        ]
        .iter()
        .any(|name| headers.contains_key(name));
        is_creation && *target.http_method == Method::POST
    }

    fn of_request(&self, target: &RequestTarget<'_>) -> Option<Arc<dyn Dialect>> {
        let is_query = *target.http_method == Method::HEAD;
        Some(Arc::new(Self { is_query }))
    }

    fn command(&self, request: &RequestHead<'_>) -> Result<Command, ProtocolError> {
        let head = Head::of(request)?;
        check_version(&head, request.http_method)?;
        let Some(upload_id) = request.parameters.upload_id() else {
            allow(request.http_method, CREATION_METHODS)?;
            return start(&head).map(Command::Start);
        };
        allow(request.http_method, SESSION_METHODS)?;
        match *request.http_method {
            Method::DELETE => Ok(Command::Cancel { upload_id }),
            Method::PATCH => part(&head, upload_id).map(Command::Session),
            _ => Ok(Command::Session(query(upload_id))),
        }
    }

    fn digest_fields(&self) -> &'static [DigestField] {
        &[DigestField::UploadChecksum, DigestField::ContentDigest]
    }

    /// Parts may have any size.
    fn rules(&self, configured: Rules) -> Rules {
        configured.with_chunks(ChunkRule::Lenient)
    }

    fn session_parameters(&self) -> &'static str {
        SESSION_PARAMETER
    }

    fn session_segment(&self) -> Option<&'static str> {
        Some(SESSION_SEGMENT)
    }

    fn reply(&self, outcome: Outcome<'_>) -> ReplyHead {
        match outcome {
            Outcome::Started {
                location,
                status,
                with_data,
                ..
            } => {
                let mut reply = empty(StatusCode::CREATED);
                reply.headers.insert(LOCATION, location);
                if with_data {
                    reply.headers.insert(UPLOAD_OFFSET, status.offset.into());
                }
                add_expiry(&mut reply.headers, status.expires);
                reply
            }
            Outcome::Committed { status, .. } if self.is_query => state(status),
            Outcome::Committed { status, .. } => {
                let mut reply = empty(StatusCode::NO_CONTENT);
                reply.headers.insert(UPLOAD_OFFSET, status.offset.into());
                add_expiry(&mut reply.headers, status.expires);
                reply
            }
            Outcome::Final(end) if self.is_query => state(SessionStatus {
                length: Some(end.length),
                kept: end.kept,
                ..SessionStatus::with_offset(end.length)
            }),
            Outcome::Final(end) => finished(end),
            Outcome::Cancelled => empty(StatusCode::NO_CONTENT),
        }
    }

    fn protocol_error(&self, error: &ProtocolError) -> ErrorReply {
        match error {
            ProtocolError::Session(error) => session_error(error),
            ProtocolError::ToSession(error) => self.protocol_error(error),
            ProtocolError::BodyDigest(BodyDigestError::Mismatch { field, .. }) => {
                let status = StatusCode::from_u16(460).expect("460 is a valid status");
                ErrorReply {
                    reason_phrase: Some("Checksum Mismatch"),
                    ..ErrorReply::text(status, "invalid").header(*field)
                }
            }
            ProtocolError::UnsupportedVersion { .. } => {
                let mut reply = text(google::protocol(error));
                reply.headers.insert(TUS_VERSION, VERSION);
                reply
            }
            ProtocolError::Concat(ConcatError::Data) => {
                ErrorReply::text(StatusCode::FORBIDDEN, "forbidden")
            }
            ProtocolError::MethodNotAllowed { .. }
            | ProtocolError::MissingHeader { .. }
            | ProtocolError::PartType { .. }
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
            | ProtocolError::DataOnStart
            | ProtocolError::Concat(_)
            | ProtocolError::Related(_)
            | ProtocolError::Metadata(_)
            | ProtocolError::BodyDigest(_)
            | ProtocolError::ExpectedDigests(_)
            | ProtocolError::DigestMismatch(_) => text(google::protocol(error)),
        }
    }

    fn condition(&self, condition: Condition) -> ErrorReply {
        match condition {
            Condition::SessionNotFound | Condition::AlreadyCancelled => {
                ErrorReply::text(StatusCode::NOT_FOUND, "notFound")
            }
            Condition::OtherDialect => ErrorReply::text(StatusCode::FORBIDDEN, "forbidden"),
            Condition::AlreadyFinished => text(google::bad("badRequest")),
            Condition::MediaLost => ErrorReply::text(StatusCode::GONE, "gone"),
            // Clients ask for the offset after this status, and repeat their request. They give up
            // after most others.
            Condition::Superseded => ErrorReply::text(StatusCode::CONFLICT, "conflict"),
            Condition::Interrupted | Condition::FinishPending => text(ErrorReply::unavailable(1)),
            Condition::Unavailable { retry_after } => text(ErrorReply::unavailable(retry_after)),
        }
    }

    fn other_error(&self, reply: ErrorReply) -> ErrorReply {
        text(reply)
    }

    fn mark(&self, headers: &mut HeaderMap) {
        headers.insert(TUS_RESUMABLE, VERSION);
    }

    fn describe(&self, offer: &Offer, headers: &mut HeaderMap) {
        self.mark(headers);
        headers.insert(TUS_VERSION, VERSION);
        headers.insert(TUS_EXTENSION, EXTENSIONS);
        let algorithms = HeaderValue::from_static(DigestField::UploadChecksum.known());
        headers.insert(TUS_CHECKSUM_ALGORITHM, algorithms);
        if let Some(max_size) = offer.max_size {
            headers.insert(TUS_MAX_SIZE, max_size.into());
        }
    }
}

/// A query needs no version: it changes nothing.
fn check_version(head: &Head<'_>, http_method: &Method) -> Result<(), ProtocolError> {
    let mut versions = head.headers.get_all(TUS_RESUMABLE).iter();
    match (versions.next(), versions.next()) {
        (None, _) if *http_method == Method::HEAD => Ok(()),
        (Some(version), None) if *version == VERSION => Ok(()),
        _ => Err(ProtocolError::UnsupportedVersion {
            header: "Tus-Resumable",
            supported: "1.0.0",
        }),
    }
}

fn start(head: &Head<'_>) -> Result<StartHead, ProtocolError> {
    let concat = concat::Stated::of(head)?;
    let metadata = Metadata::of(head)?;
    if let Some(concat) = &concat
        && let Some(partials) = concat.partials()?
    {
        return concatenated(head, metadata, concat, partials);
    }
    let total = declared_length(head)?;
    let body = head.length().unwrap_or(BodyLength::Exact(0));
    let is_data = is_part(head);
    if let (true, Some(length), BodyLength::Exact(end)) = (is_data, total, body)
        && end > length
    {
        return Err(SessionError::PastLength { end, length }.into());
    }
    // An empty upload ends with its start.
    let part = (is_data || total == Some(0)).then_some(FirstPart {
        end: End::AtLength,
        length: total,
    });
    let is_partial = concat.is_some();
    Ok(StartHead {
        content_type: metadata.content_type().filter(|_| !is_partial),
        content_length: total,
        length: if is_data { body } else { BodyLength::Exact(0) },
        expected: ExpectedDigests::default(),
        kept: Some(concat::kept(concat.as_ref(), &metadata.raw)),
        body: if is_partial {
            StartBody::Partial { part }
        } else {
            StartBody::Data {
                file_name: metadata.file_name(),
                fields: metadata.fields,
                part,
            }
        },
    })
}

/// Reads a creation whose upload is concatenated from these partial uploads.
fn concatenated(
    head: &Head<'_>,
    metadata: Metadata,
    concat: &concat::Stated<'_>,
    partials: Vec<PartialUri>,
) -> Result<StartHead, ProtocolError> {
    let stated = [UPLOAD_LENGTH, UPLOAD_DEFER_LENGTH];
    if stated.iter().any(|name| head.headers.contains_key(name)) {
        return Err(ConcatError::Length.into());
    }
    if is_part(head) && head.length().is_some_and(|it| it != BodyLength::Exact(0)) {
        return Err(ConcatError::Data.into());
    }
    Ok(StartHead {
        content_type: metadata.content_type(),
        content_length: None,
        length: BodyLength::Exact(0),
        expected: ExpectedDigests::default(),
        kept: Some(concat::kept(Some(concat), &metadata.raw)),
        body: StartBody::Concatenated {
            file_name: metadata.file_name(),
            fields: metadata.fields,
            partials,
        },
    })
}

/// Returns the length that a creation declares; `None` if a later request will.
fn declared_length(head: &Head<'_>) -> Result<Option<u64>, ProtocolError> {
    let length = integer(head, &UPLOAD_LENGTH, "Upload-Length")?;
    let deferred = head.headers.get(UPLOAD_DEFER_LENGTH);
    match (length, deferred) {
        (None, Some(one)) if one.as_bytes() == b"1" => Ok(None),
        (_, Some(_)) => Err(invalid("Upload-Defer-Length")),
        (None, None) => Err(ProtocolError::MissingHeader {
            name: "Upload-Length",
        }),
        (Some(length), None) => Ok(Some(length)),
    }
}

fn part(head: &Head<'_>, upload_id: UploadId) -> Result<SessionHead, ProtocolError> {
    if !is_part(head) {
        return Err(ProtocolError::PartType {
            expected: PART_TYPE,
        });
    }
    let first = integer(head, &UPLOAD_OFFSET, "Upload-Offset")?;
    let first = first.ok_or(ProtocolError::MissingHeader {
        name: "Upload-Offset",
    })?;
    Ok(SessionHead {
        upload_id,
        request: SessionRequest {
            action: SessionAction::AppendAt {
                first,
                overlap: Overlap::Conflict,
                end: End::AtLength,
                length: integer(head, &UPLOAD_LENGTH, "Upload-Length")?,
            },
            body: head.length().unwrap_or(BodyLength::Exact(0)),
        },
        no_308: false,
        expected: ExpectedDigests::default(),
    })
}

fn query(upload_id: UploadId) -> SessionHead {
    SessionHead {
        upload_id,
        request: SessionRequest {
            action: SessionAction::Query(Query::SettledAtLength),
            body: BodyLength::Exact(0),
        },
        no_308: false,
        expected: ExpectedDigests::default(),
    }
}

/// Whether the body has the type of a part of the media.
fn is_part(head: &Head<'_>) -> bool {
    let stated = head.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let essence = stated.and_then(|stated| stated.split(|byte| *byte == b';').next());
    essence.is_some_and(|it| it.trim_ascii().eq_ignore_ascii_case(PART_TYPE.as_bytes()))
}

/// Reads a number in its shortest form, which is stated once.
fn integer(
    head: &Head<'_>,
    header: &HeaderName,
    name: &'static str,
) -> Result<Option<u64>, ProtocolError> {
    let mut values = head.headers.get_all(header).into_iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value,
        (Some(_), Some(_)) => return Err(invalid(name)),
    };
    let text = value.to_str().map_err(|_| invalid(name))?;
    let number: i64 = text.parse().map_err(|_| invalid(name))?;
    match u64::try_from(number) {
        Ok(number) if number.to_string() == text => Ok(Some(number)),
        _ => Err(invalid(name)),
    }
}

/// The client's statements about the file.
struct Metadata {
    /// As it was sent.
    raw: String,
    /// The statements with values that are text.
    fields: Map<String, Value>,
}

impl Metadata {
    /// Reads `Upload-Metadata`. An empty header states nothing.
    fn of(head: &Head<'_>) -> Result<Self, ProtocolError> {
        let mut texts = Vec::new();
        for value in head.headers.get_all(UPLOAD_METADATA) {
            let text = value.to_str().map_err(|_| invalid("Upload-Metadata"))?;
            texts.push(text.trim_ascii());
        }
        let raw = texts.join(",");
        let fields = Self::fields(&raw)?;
        Ok(Self { raw, fields })
    }

    fn fields(raw: &str) -> Result<Map<String, Value>, ProtocolError> {
        let malformed = || invalid("Upload-Metadata");
        let (mut names, mut fields) = (Vec::new(), Map::new());
        for pair in raw.split(',').filter(|_| !raw.is_empty()) {
            let mut words = pair.split_ascii_whitespace();
            let name = words.next().ok_or_else(malformed)?;
            let coded = words.next().unwrap_or_default();
            if words.next().is_some() || names.contains(&name) {
                return Err(malformed());
            }
            names.push(name);
            let value = STANDARD.decode(coded).map_err(|_| malformed())?;
            if let Ok(value) = String::from_utf8(value) {
                fields.insert(name.to_owned(), value.into());
            }
        }
        Ok(fields)
    }

    /// The name of the file, if the client states one.
    fn file_name(&self) -> Option<String> {
        text_of(&self.fields, &["filename", "name"]).map(str::to_owned)
    }

    /// The stated type of the file, if it is a media type.
    fn content_type(&self) -> Option<String> {
        let stated = text_of(&self.fields, &["filetype", "type"])?;
        is_media_type(stated).then(|| stated.to_owned())
    }
}

/// The first of these fields that is there and not empty.
fn text_of<'a>(fields: &'a Map<String, Value>, names: &[&str]) -> Option<&'a str> {
    let mut texts = names.iter().filter_map(|name| fields.get(*name)?.as_str());
    texts.find(|text| !text.is_empty())
}

/// A reply without a body, and without a type of one.
fn empty(status: StatusCode) -> ReplyHead {
    ReplyHead {
        drops_body: true,
        ..ReplyHead::new(status)
    }
}

/// The reply to a query.
fn state(status: SessionStatus<'_>) -> ReplyHead {
    let mut reply = empty(StatusCode::OK);
    let headers = &mut reply.headers;
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(UPLOAD_OFFSET, status.offset.into());
    match status.length {
        Some(length) => headers.insert(UPLOAD_LENGTH, length.into()),
        None => headers.insert(UPLOAD_DEFER_LENGTH, HeaderValue::from_static("1")),
    };
    let (concat, metadata) = concat::read_kept(status.kept.unwrap_or_default());
    for (name, value) in [(UPLOAD_CONCAT, concat), (UPLOAD_METADATA, metadata)] {
        if let (false, Ok(value)) = (value.is_empty(), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    add_expiry(headers, status.expires);
    reply
}

/// The reply to the request that ends an upload.
fn finished(end: Final<'_>) -> ReplyHead {
    let mut reply = match end.location {
        Some(location) => {
            let mut reply = empty(StatusCode::CREATED);
            reply.headers.insert(LOCATION, location);
            reply
        }
        None => empty(StatusCode::NO_CONTENT),
    };
    reply.headers.insert(UPLOAD_OFFSET, end.length.into());
    if let Some(resource) = end.resource {
        reply.headers.insert(CONTENT_LOCATION, resource);
    }
    reply
}

/// The first second that a date in a header cannot have: the year 10000.
const END_OF_DATES: Duration = Duration::from_secs(253_402_300_800);

fn add_expiry(headers: &mut HeaderMap, expires: Option<Expiry>) {
    let expires = expires.filter(|expires| {
        let since_epoch = expires.at.duration_since(SystemTime::UNIX_EPOCH);
        since_epoch.is_ok_and(|it| it < END_OF_DATES)
    });
    let expires = expires.map(|expires| httpdate::fmt_http_date(expires.at));
    if let Some(Ok(expires)) = expires.map(HeaderValue::try_from) {
        headers.insert(UPLOAD_EXPIRES, expires);
    }
}

/// The message as text: clients show it to people.
fn text(reply: ErrorReply) -> ErrorReply {
    ErrorReply {
        form: Form::Text,
        ..reply
    }
}

fn session_error(error: &SessionError) -> ErrorReply {
    match error {
        SessionError::Conflict { .. } | SessionError::Gap { .. } => {
            ErrorReply::text(StatusCode::CONFLICT, "conflict").header("Upload-Offset")
        }
        SessionError::PastLength { .. }
        | SessionError::MoreThanDeclared { .. }
        | SessionError::AfterEnd { .. }
        | SessionError::PastTotal { .. }
        | SessionError::LengthTooLarge { .. }
        | SessionError::TooLarge { .. } => {
            ErrorReply::text(StatusCode::PAYLOAD_TOO_LARGE, "uploadTooLarge")
        }
        SessionError::LengthChanged { .. } | SessionError::EndsBeforeCommitted { .. } => {
            text(google::bad("invalid").header("Upload-Length"))
        }
        SessionError::Cancelled => ErrorReply::text(StatusCode::NOT_FOUND, "notFound"),
        SessionError::Gone => ErrorReply::text(StatusCode::GONE, "gone"),
        SessionError::ContentRange(_)
        | SessionError::ChunkTooSmall { .. }
        | SessionError::LengthDisagrees { .. }
        | SessionError::TotalChanged { .. }
        | SessionError::Truncated { .. }
        | SessionError::Incomplete { .. }
        | SessionError::QueryWithBody => text(google::bad("badRequest")),
        SessionError::NoData | SessionError::NoEnd | SessionError::NotPartial => {
            ErrorReply::text(StatusCode::FORBIDDEN, "forbidden")
        }
    }
}
