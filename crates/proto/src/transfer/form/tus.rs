//! [tus 1.0.0](https://tus.io/protocols/resumable-upload): its core, and the extensions creation,
//! creation-defer-length and termination.
//!
//! An upload ends by itself when its offset reaches its length. No reply shows a resource.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method};
use serde_json::Value;

use super::{Content, Description, Head, Unsupported, WireForm, failure, number, text};
use crate::header::{
    TUS_RESUMABLE, UPLOAD_DEFER_LENGTH, UPLOAD_LENGTH, UPLOAD_METADATA, UPLOAD_OFFSET,
};
use crate::transfer::exchange::{Chunk, Committed, Reply, ReplyClass, Request};

/// The form of tus.
pub(super) struct Tus;

const VERSION: HeaderValue = HeaderValue::from_static("1.0.0");
const MEDIA: HeaderValue = HeaderValue::from_static("application/offset+octet-stream");

/// The keys of the metadata that clients of tus have agreed on.
const FILE_NAME: &str = "filename";
const FILE_TYPE: &str = "filetype";

impl WireForm for Tus {
    fn start(&self, description: &Description<'_>) -> Result<Head, Unsupported> {
        if description.method != Method::POST {
            return Err(Unsupported::Method {
                method: description.method.clone(),
            });
        }
        let head = versioned(Method::POST);
        let head = match description.total {
            Some(total) => head.with(UPLOAD_LENGTH, total),
            None => head.with(UPLOAD_DEFER_LENGTH, 1),
        };
        Ok(match metadata(description)? {
            Some(metadata) => head.with(UPLOAD_METADATA, metadata),
            None => head,
        })
    }

    fn query(&self, _total: Option<u64>) -> Head {
        versioned(Method::HEAD)
    }

    fn append(&self, chunk: &Chunk) -> Head {
        let head = versioned(Method::PATCH)
            .with(UPLOAD_OFFSET, chunk.first)
            .with(CONTENT_TYPE, MEDIA)
            .with_content(Content::Chunk(*chunk));
        match chunk.total {
            // A server refuses a length that it already knows.
            Some(total) if chunk.states_total => head.with(UPLOAD_LENGTH, total),
            _ => head,
        }
    }

    fn cancel(&self) -> Head {
        versioned(Method::DELETE)
    }

    fn read(&self, request: &Request, reply: &Reply<'_>) -> ReplyClass {
        let status = reply.status.as_u16();
        match request {
            Request::Start if reply.status.is_success() => started(reply),
            // The server cannot defer the length.
            Request::Start if status == 501 => ReplyClass::Refused,
            Request::Query { .. } if reply.status.is_success() => queried(reply),
            Request::Data(chunk) if reply.status.is_success() => appended(chunk, reply),
            Request::Data(_) if status == 409 => ReplyClass::WrongOffset {
                committed: number(reply.headers, &UPLOAD_OFFSET),
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
    Head::new(method).with(TUS_RESUMABLE, VERSION)
}

/// Returns the metadata of tus: pairs of a key and a value in base64. The fields of the caller's
/// metadata win over the name and the type of the file.
fn metadata(description: &Description<'_>) -> Result<Option<HeaderValue>, Unsupported> {
    let mut pairs = Vec::new();
    let fields = description.metadata.and_then(Value::as_object);
    let is_given = |key| fields.is_some_and(|fields| fields.contains_key(key));
    if let Some(name) = description.file_name.filter(|_| !is_given(FILE_NAME)) {
        pairs.push(pair(FILE_NAME, name.as_bytes()));
    }
    if let Some(content_type) = description.content_type.filter(|_| !is_given(FILE_TYPE)) {
        pairs.push(pair(FILE_TYPE, content_type.as_bytes()));
    }
    for (field, value) in fields.into_iter().flatten() {
        let field = || field.clone();
        if !is_key(&field()) {
            return Err(Unsupported::Key { field: field() });
        }
        let Value::String(value) = value else {
            return Err(Unsupported::NotAString { field: field() });
        };
        pairs.push(pair(&field(), value.as_bytes()));
    }
    if pairs.is_empty() {
        return Ok(None);
    }
    let value = HeaderValue::try_from(pairs.join(","));
    Ok(Some(value.expect("keys and base64 are ASCII")))
}

fn pair(key: &str, value: &[u8]) -> String {
    let value = BASE64_STANDARD.encode(value);
    format!("{key} {value}").trim_end().to_owned()
}

/// Returns whether a text is printable ASCII without spaces and commas.
fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_graphic() && it != b',')
}

/// Reads the success of a start. Only a server of tus states its version.
fn started(reply: &Reply<'_>) -> ReplyClass {
    match text(reply.headers, &LOCATION) {
        Some(location) if reply.headers.contains_key(TUS_RESUMABLE) => {
            ReplyClass::started_at(location)
        }
        _ => ReplyClass::NotTheProtocol,
    }
}

fn queried(reply: &Reply<'_>) -> ReplyClass {
    let length = number(reply.headers, &UPLOAD_LENGTH);
    match number(reply.headers, &UPLOAD_OFFSET) {
        Some(offset) if length == Some(offset) => ReplyClass::Complete,
        Some(offset) => ReplyClass::Incomplete(Committed {
            knows_total: Some(length.is_some()),
            ..Committed::bytes(offset)
        }),
        None => ReplyClass::Unexpected,
    }
}

fn appended(chunk: &Chunk, reply: &Reply<'_>) -> ReplyClass {
    match number(reply.headers, &UPLOAD_OFFSET) {
        Some(offset) if chunk.total == Some(offset) => ReplyClass::Complete,
        Some(offset) => ReplyClass::Incomplete(Committed::bytes(offset)),
        None => ReplyClass::Unexpected,
    }
}
