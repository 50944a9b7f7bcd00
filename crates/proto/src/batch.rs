//! Bodies of batches: several calls in one request (docs/protocol.md, 2.19; RFC 2046).
//!
//! A batch is `multipart/mixed`; each part is of the type `application/http` and holds a request.
//! It is parsed as a whole, since no call is carried out before all are known to be well-formed.
//! The server decides which calls a batch may hold and how they are carried out.

use bytes::{Buf, Bytes};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use crate::related::{Boundary, Delimiters, RelatedError, Token, fields};

#[cfg(test)]
mod tests;

/// Maximum number of calls in a batch, as in Google's APIs.
pub const MAX_CALLS: usize = 100;

/// Maximum number of header fields of a call.
pub const MAX_FIELDS: usize = 100;

/// A call in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The `Content-ID` of its part, with the angle brackets.
    pub content_id: Option<String>,
    /// HTTP method.
    pub http_method: Method,
    /// Target: a path with its query, with or without scheme and authority before it.
    pub target: Uri,
    /// Header fields, as they were sent.
    pub headers: HeaderMap,
    /// Body without line ends at its end.
    pub body: Bytes,
}

/// Why a body is not a valid batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The `Content-Type` is not multipart/mixed.
    #[error("A batch must have a Content-Type header of multipart/mixed.")]
    NotMixed,
    /// Boundary or delimiters are malformed.
    #[error(transparent)]
    Multipart(#[from] RelatedError),
    /// The batch has no part.
    #[error("The batch has no calls.")]
    NoCalls,
    /// The batch has too many parts.
    #[error("The batch has more than {MAX_CALLS} calls.")]
    TooManyCalls,
    /// A part is not a call.
    #[error("Call {number} of the batch is malformed: {problem}.")]
    Call {
        /// Position of the call; the first is 1.
        number: usize,
        /// The rule that it breaks.
        problem: CallError,
    },
}

/// Why a part of a batch is not a valid call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The type of the part is another one.
    #[error("its part must have a Content-Type of application/http")]
    NotHttp,
    /// The id of the part cannot be repeated in the reply.
    #[error("its part has a Content-ID that is not visible ASCII")]
    ContentId,
    /// The part has a transfer encoding that has to be undone.
    #[error("its part has an unsupported Content-Transfer-Encoding")]
    TransferEncoding,
    /// The headers of the part, or the head of the call, are too long.
    #[error("it has more than {limit} bytes of headers")]
    HeadTooLarge {
        /// Maximum number of bytes.
        limit: usize,
    },
    /// The request line is malformed.
    #[error("its first line must be a method, a path and perhaps HTTP/1.1")]
    RequestLine,
    /// A header is malformed.
    #[error("it has a malformed header")]
    Header,
    /// There are too many headers.
    #[error("it has more than {MAX_FIELDS} header fields")]
    TooManyFields,
    /// The `Content-Length` is malformed, or more than there is.
    #[error("its Content-Length is not the length of its body")]
    Length,
}

/// Parses the boundary of a batch.
///
/// # Errors
/// [`BatchError::NotMixed`] if it is no batch, and [`RelatedError::NoBoundary`].
pub fn boundary(headers: &HeaderMap) -> Result<Boundary, BatchError> {
    let content_type = headers.get(CONTENT_TYPE).ok_or(BatchError::NotMixed)?;
    let parsed = Boundary::of_type(content_type.as_bytes(), &["multipart/mixed"]);
    parsed.map_err(|error| match error {
        RelatedError::NotRelated => BatchError::NotMixed,
        error => error.into(),
    })
}

/// Parses the body of a batch. Its calls are in the order of the parts. The headers of a part, and
/// the head of its call, have at most `max_head` bytes each.
///
/// ```
/// use bytes::Bytes;
/// use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
/// use windlass_proto::batch;
///
/// let mut headers = HeaderMap::new();
/// headers.insert(CONTENT_TYPE, HeaderValue::from_static("multipart/mixed; boundary=b"));
/// let body = "--b\r\nContent-Type: application/http\r\n\r\nGET /farm/v1/animals HTTP/1.1\r\n\r\n--b--";
/// let calls = batch::calls(Bytes::from(body), batch::boundary(&headers)?, 16 * 1024)?;
/// assert_eq!(calls[0].target, "/farm/v1/animals");
/// # Ok::<(), batch::BatchError>(())
/// ```
///
/// # Errors
/// [`BatchError`] if anything of the body is malformed.
pub fn calls(body: Bytes, boundary: Boundary, max_head: usize) -> Result<Vec<Call>, BatchError> {
    let mut delimiters = Delimiters::new(boundary);
    let mut calls = Vec::new();
    // None before the first delimiter.
    let mut part = None::<Vec<u8>>;
    let mut rest = body;
    loop {
        let next = match delimiters.next(&mut rest) {
            Some(Token::Content(content)) => {
                if let Some(part) = &mut part {
                    part.extend_from_slice(&content);
                }
                continue;
            }
            Some(Token::Delimiter) => Some(Vec::new()),
            Some(Token::FinalDelimiter) => None,
            None => return Err(RelatedError::NoFinalBoundary.into()),
        };
        let is_final = next.is_none();
        if let Some(part) = std::mem::replace(&mut part, next) {
            if calls.len() == MAX_CALLS {
                return Err(BatchError::TooManyCalls);
            }
            let number = calls.len() + 1;
            let call = Call::parse(part.into(), max_head);
            calls.push(call.map_err(|problem| BatchError::Call { number, problem })?);
        }
        match is_final {
            true if calls.is_empty() => return Err(BatchError::NoCalls),
            true => return Ok(calls),
            false => {}
        }
    }
}

/// Returns the `Content-ID` of the part with the reply to a call.
pub fn response_id(content_id: &str) -> String {
    match content_id.strip_prefix('<') {
        Some(rest) => format!("<response-{rest}"),
        None => format!("response-{content_id}"),
    }
}

impl Call {
    /// Parses a part, from the line end of its delimiter on.
    fn parse(part: Bytes, max_head: usize) -> Result<Self, CallError> {
        let (part_headers, request) = split_head(part, max_head)?;
        let part_headers = header_map(&part_headers)?;
        let text = |name: &str| part_headers.get(name).and_then(|value| value.to_str().ok());
        let content_type = text("content-type").unwrap_or_default();
        let essence = content_type.split(';').next().unwrap_or_default();
        if !essence
            .trim_ascii()
            .eq_ignore_ascii_case("application/http")
        {
            return Err(CallError::NotHttp);
        }
        let encoding = text("content-transfer-encoding").unwrap_or("binary");
        let plain = ["binary", "8bit", "7bit"];
        if !plain.iter().any(|it| encoding.eq_ignore_ascii_case(it)) {
            return Err(CallError::TransferEncoding);
        }
        let content_id = part_headers.get("content-id").map(HeaderValue::to_str);
        let content_id = content_id.transpose().map_err(|_| CallError::ContentId)?;
        let (head, body) = split_head(request.slice(leading_line_ends(&request)..), max_head)?;
        let line_end = memchr::memchr(b'\n', &head).map_or(head.len(), |at| at + 1);
        let (http_method, target) = request_line(&head[..line_end])?;
        let headers = header_map(&head[line_end..])?;
        Ok(Self {
            content_id: content_id.map(str::to_owned),
            http_method,
            target,
            body: body_of(&body, &headers)?,
            headers,
        })
    }
}

fn leading_line_ends(bytes: &[u8]) -> usize {
    let is_line_end = |byte: &&u8| matches!(**byte, b'\r' | b'\n');
    bytes.iter().take_while(is_line_end).count()
}

/// Splits at the first empty line, which belongs to neither. Without one there is only a head: some
/// clients end a call without a body by the delimiter alone.
fn split_head(mut bytes: Bytes, max_head: usize) -> Result<(Bytes, Bytes), CallError> {
    let mut line = 0;
    let mut empty_line = 0;
    while let Some(at) = memchr::memchr(b'\n', &bytes[line..]) {
        line += at + 1;
        empty_line = match &bytes[line..] {
            [b'\n', ..] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => continue,
        };
        break;
    }
    let head = match empty_line {
        0 => bytes.split_to(bytes.len()),
        _ => bytes.split_to(line),
    };
    bytes.advance(empty_line);
    if head.len() > max_head {
        return Err(CallError::HeadTooLarge { limit: max_head });
    }
    Ok((head, bytes))
}

/// Parses `METHOD TARGET` with or without `HTTP/1.1`, as in the examples of Google's documents.
fn request_line(line: &[u8]) -> Result<(Method, Uri), CallError> {
    let line = std::str::from_utf8(line).map_err(|_| CallError::RequestLine)?;
    let words: Vec<_> = line.trim_ascii_end().split(' ').collect();
    let (http_method, target) = match words[..] {
        [http_method, target] => (http_method, target),
        [http_method, target, version] if version.starts_with("HTTP/1.") => (http_method, target),
        _ => return Err(CallError::RequestLine),
    };
    let target: Uri = target.parse().map_err(|_| CallError::RequestLine)?;
    let is_usable =
        target.path().starts_with('/') && target.scheme().is_some() == target.authority().is_some();
    let http_method = http_method.parse().map_err(|_| CallError::RequestLine)?;
    is_usable
        .then_some((http_method, target))
        .ok_or(CallError::RequestLine)
}

fn header_map(lines: &[u8]) -> Result<HeaderMap, CallError> {
    let text = String::from_utf8_lossy(lines);
    let fields = fields(&text).map_err(|_| CallError::Header)?;
    if fields.len() > MAX_FIELDS {
        return Err(CallError::TooManyFields);
    }
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name: HeaderName = name.parse().map_err(|_| CallError::Header)?;
        let value = HeaderValue::from_bytes(value.trim_ascii().as_bytes());
        headers.append(name, value.map_err(|_| CallError::Header)?);
    }
    Ok(headers)
}

/// Returns the body of a call. It ends with its part, whatever its length is stated to be: some
/// clients count characters. A body that is shorter than stated has lost its end.
fn body_of(rest: &Bytes, headers: &HeaderMap) -> Result<Bytes, CallError> {
    if let Some(stated) = headers.get(CONTENT_LENGTH) {
        let stated = stated.to_str().ok().and_then(|text| text.parse().ok());
        if stated.is_none_or(|stated: usize| stated > rest.len()) {
            return Err(CallError::Length);
        }
    }
    let len = rest.trim_ascii_end().len();
    Ok(rest.slice(..len))
}
