//! The IETF's draft
//! [Resumable Uploads for HTTP](https://datatracker.ietf.org/doc/draft-ietf-httpbis-resumable-upload/).
//!
//! Requests are in the form of the interop version 6, which the servers in use share. They hold for
//! the newer versions as well, and the replies of all of them are understood: a partial success is
//! any 2xx, and only some versions repeat the offset in it. An upload ends by the client's word, and
//! the reply to the last request is the one of the URL at which the upload started.

use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sfv::{BareItem, Dictionary, Item, ListEntry, Parser};

use super::{Content, Description, Head, Unsupported, WireForm, failure, text};
use crate::header::{
    UPLOAD_COMPLETE, UPLOAD_DRAFT_INTEROP_VERSION, UPLOAD_LENGTH, UPLOAD_LIMIT, UPLOAD_OFFSET,
};
use crate::transfer::exchange::{Chunk, ChunkLimits, Committed, Reply, ReplyClass, Request};

/// The form of the draft.
pub(super) struct Ietf;

/// The interop version of the requests.
const INTEROP_VERSION: HeaderValue = HeaderValue::from_static("6");

const YES: HeaderValue = HeaderValue::from_static("?1");
const NO: HeaderValue = HeaderValue::from_static("?0");
const MEDIA: HeaderValue = HeaderValue::from_static("application/partial-upload");

impl WireForm for Ietf {
    fn start(&self, description: &Description<'_>) -> Result<Head, Unsupported> {
        if description.metadata.is_some() {
            return Err(Unsupported::Metadata);
        }
        // The media follows in the session, which is in the journal by then.
        let mut head = versioned(description.method.clone()).with(UPLOAD_COMPLETE, NO);
        if let Some(total) = description.total {
            head = head.with(UPLOAD_LENGTH, total);
        }
        if let Some(content_type) = description.content_type {
            head = head.with(CONTENT_TYPE, content_type.clone());
        }
        if let Some(name) = description.file_name {
            head = head.with(CONTENT_DISPOSITION, disposition(name));
        }
        Ok(head)
    }

    fn query(&self, _total: Option<u64>) -> Head {
        versioned(Method::HEAD)
    }

    fn append(&self, chunk: &Chunk) -> Head {
        let is_last = chunk.total == Some(chunk.end);
        versioned(Method::PATCH)
            .with(UPLOAD_OFFSET, chunk.first)
            .with(UPLOAD_COMPLETE, if is_last { YES } else { NO })
            .with(CONTENT_TYPE, MEDIA)
            .with_content(Content::Chunk(*chunk))
    }

    fn cancel(&self) -> Head {
        versioned(Method::DELETE)
    }

    fn read(&self, request: &Request, reply: &Reply<'_>) -> ReplyClass {
        let is_success = reply.status.is_success();
        let is_complete = boolean(reply.headers, &UPLOAD_COMPLETE);
        match request {
            Request::Start if is_success => started(reply),
            Request::Query { .. } if is_success => queried(reply),
            Request::Data(chunk) if is_success => appended(chunk, reply),
            // The server has passed the upload on and replies with the result.
            Request::Query { .. } | Request::Data(_)
                if is_complete == Some(true) && reply.status.as_u16() >= 400 =>
            {
                ReplyClass::Rejected
            }
            Request::Data(_) if reply.status.as_u16() == 409 => ReplyClass::WrongOffset {
                committed: integer(reply.headers, &UPLOAD_OFFSET),
            },
            Request::Discover
            | Request::SingleRequest
            | Request::Start
            | Request::Query { .. }
            | Request::Data(_) => failure(request, reply),
        }
    }
}

fn versioned(method: Method) -> Head {
    Head::new(method).with(UPLOAD_DRAFT_INTEROP_VERSION, INTEROP_VERSION)
}

/// The characters of RFC 8187 that need no encoding in `filename*`.
const ATTRIBUTE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// Returns the `Content-Disposition` of a file with this name (RFC 6266). A name that is not
/// printable ASCII is stated in `filename*` alone: a `filename` beside it would be another name.
fn disposition(name: &str) -> HeaderValue {
    let is_plain = name.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let value = if is_plain {
        let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
        format!("inline; filename=\"{quoted}\"")
    } else {
        let encoded = utf8_percent_encode(name, ATTRIBUTE);
        format!("inline; filename*=UTF-8''{encoded}")
    };
    HeaderValue::try_from(value).expect("it is printable ASCII")
}

/// Reads the success of a start. A server that does not know the draft has acted on an empty body.
fn started(reply: &Reply<'_>) -> ReplyClass {
    let knows_the_draft = [
        UPLOAD_COMPLETE,
        UPLOAD_DRAFT_INTEROP_VERSION,
        UPLOAD_LIMIT,
        UPLOAD_OFFSET,
    ]
    .iter()
    .any(|name| reply.headers.contains_key(name));
    match text(reply.headers, &LOCATION) {
        Some(location)
            if knows_the_draft && boolean(reply.headers, &UPLOAD_COMPLETE) != Some(true) =>
        {
            ReplyClass::Started {
                location: location.to_owned(),
                limits: limits(reply.headers).unwrap_or_default(),
            }
        }
        _ => ReplyClass::NotTheProtocol,
    }
}

fn queried(reply: &Reply<'_>) -> ReplyClass {
    if boolean(reply.headers, &UPLOAD_COMPLETE) == Some(true) {
        return ReplyClass::Complete;
    }
    match integer(reply.headers, &UPLOAD_OFFSET) {
        Some(offset) => incomplete(offset, reply),
        None => ReplyClass::Unexpected,
    }
}

fn appended(chunk: &Chunk, reply: &Reply<'_>) -> ReplyClass {
    let offset = integer(reply.headers, &UPLOAD_OFFSET);
    match (boolean(reply.headers, &UPLOAD_COMPLETE), offset) {
        (Some(true), _) => ReplyClass::Complete,
        (_, Some(offset)) => incomplete(offset, reply),
        // Newer versions repeat the offset only in replies to queries.
        (Some(false), None) => incomplete(chunk.end, reply),
        (None, None) => ReplyClass::Unexpected,
    }
}

fn incomplete(offset: u64, reply: &Reply<'_>) -> ReplyClass {
    ReplyClass::Incomplete(Committed {
        limits: limits(reply.headers),
        ..Committed::bytes(offset)
    })
}

/// Returns the lines of a field as one, as structured fields are read.
fn field(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let lines = headers.get_all(name).iter();
    let lines: Vec<_> = lines.map(HeaderValue::as_bytes).collect();
    (!lines.is_empty()).then(|| lines.join(&b", "[..]))
}

fn item(headers: &HeaderMap, name: &HeaderName) -> Option<BareItem> {
    let item: Item = Parser::new(&field(headers, name)?).parse().ok()?;
    Some(item.bare_item)
}

/// Returns the value of a field that is a boolean. Any other value is ignored, as the draft says.
fn boolean(headers: &HeaderMap, name: &HeaderName) -> Option<bool> {
    match item(headers, name)? {
        BareItem::Boolean(value) => Some(value),
        _ => None,
    }
}

/// Returns the value of a field that is an integer from 0. Any other value is ignored.
fn integer(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    match item(headers, name)? {
        BareItem::Integer(value) => u64::try_from(i64::from(value)).ok(),
        _ => None,
    }
}

/// Reads the limits of the requests of an upload. A limit that is no positive integer is ignored.
fn limits(headers: &HeaderMap) -> Option<ChunkLimits> {
    let limits: Dictionary = Parser::new(&field(headers, &UPLOAD_LIMIT)?).parse().ok()?;
    let limit = |key: &str| match limits.get(key)? {
        ListEntry::Item(Item {
            bare_item: BareItem::Integer(value),
            ..
        }) => u64::try_from(i64::from(*value))
            .ok()
            .filter(|limit| *limit > 0),
        _ => None,
    };
    Some(ChunkLimits {
        least: limit("min-append-size"),
        most: limit("max-append-size"),
        granularity: None,
    })
}
