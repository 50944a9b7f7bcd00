//! The meaning of a response or an error for a download: whether it contains media, and whether a
//! retry may help.

use std::str::FromStr;
use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderValue};
use windlass_digest::{Crc32c, ExpectedDigests, Md5};
use windlass_proto::expected_digests;
use windlass_proto::transfer::{self, ErrorReply, retry_after};

use super::DownloadError;
use crate::now;
use crate::transport::{Incoming, TransportError};

/// The name of the encoding that changes nothing.
const IDENTITY: &str = "identity";

/// Maximum length in bytes of an `ETag` or a `Content-Type` that is kept. Longer ones would not fit
/// in the sidecar, and the part could not be recognised later.
const MAX_KEPT_LEN: usize = 1 << 10;

/// The class of a response to a request for the media, or for the bytes after the received ones.
#[derive(Debug)]
pub(super) enum Response {
    /// The whole media.
    Full(MediaHeaders),
    /// The bytes that follow the received ones, up to offset `end`.
    Continuation { end: u64, total: Option<u64> },
    /// No bytes are missing.
    Complete,
    /// A 206 or 416 that does not continue the received bytes, for instance because the media has
    /// changed.
    NotAContinuation,
    /// Something other than the media, for instance the login page of a network.
    NotTheMedia,
    /// Media in an encoding that was not requested.
    Encoded(String),
    /// A reply with an error.
    Error,
}

/// The media's properties in the head of a response with the whole media.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MediaHeaders {
    /// The `ETag` if it is strong. A weak one does not guarantee equal bytes.
    pub(super) etag: Option<HeaderValue>,
    pub(super) size: Option<u64>,
    pub(super) crc32c: Option<Crc32c>,
    pub(super) md5: Option<Md5>,
    pub(super) content_type: Option<HeaderValue>,
}

/// The bytes in the part, which earlier requests have received.
#[derive(Debug)]
pub(super) struct PartState<'a> {
    /// Number of bytes received.
    pub(super) received: u64,
    /// Size of the whole media, if known.
    pub(super) total: Option<u64>,
    /// Headers of the media to which the received bytes belong; `None` if no bytes have been
    /// received.
    pub(super) media_headers: Option<&'a MediaHeaders>,
    /// The strong `ETag` with which the remaining bytes are requested; `None` if the request is for
    /// the whole media.
    pub(super) resume_etag: Option<&'a HeaderValue>,
}

impl Response {
    pub(super) fn of(incoming: &Incoming, part: &PartState<'_>) -> Self {
        let headers = &incoming.headers;
        match incoming.status.as_u16() {
            200 => Self::of_full(headers, part),
            206 => Self::of_partial(headers, part),
            416 if part.resume_etag.is_some() => {
                if size_of_unsatisfied(headers) == Some(part.received) {
                    Self::Complete
                } else {
                    Self::NotAContinuation
                }
            }
            _ => Self::Error,
        }
    }

    fn of_full(headers: &HeaderMap, part: &PartState<'_>) -> Self {
        let is_other_content = |known: &MediaHeaders| is_other_content(headers, known);
        if part.media_headers.is_some_and(is_other_content) {
            return Self::NotTheMedia;
        }
        match encoding(headers) {
            Some(encoding) => Self::Encoded(encoding),
            None => Self::Full(MediaHeaders::of(headers)),
        }
    }

    fn of_partial(headers: &HeaderMap, part: &PartState<'_>) -> Self {
        if let Some(encoding) = encoding(headers) {
            return Self::Encoded(encoding);
        }
        match (part.resume_etag, ResponseRange::of(headers)) {
            (Some(etag), Some(range)) if range.follows(part, etag, headers) => Self::Continuation {
                end: range.end,
                total: range.total,
            },
            _ => Self::NotAContinuation,
        }
    }
}

impl MediaHeaders {
    fn of(headers: &HeaderMap) -> Self {
        let kept = |name| {
            let value: Option<&HeaderValue> = headers.get(name);
            value.filter(|value| value.len() <= MAX_KEPT_LEN).cloned()
        };
        let size = text(headers, CONTENT_LENGTH).and_then(number);
        let digests = stated_digests(headers);
        Self {
            etag: kept(ETAG).filter(is_strong),
            size,
            crc32c: digests.crc32c,
            md5: digests.md5,
            content_type: kept(CONTENT_TYPE),
        }
    }
}

/// Returns the digests of the body that the head of a response with the whole media states. A
/// malformed header is ignored, and `X-Goog-Hash` wins over `Content-MD5`.
fn stated_digests(headers: &HeaderMap) -> ExpectedDigests {
    if is_transcoded(headers) {
        return ExpectedDigests::default();
    }
    let hash = expected_digests::from_goog_hash(headers).unwrap_or_default();
    let content_md5 = expected_digests::from_content_md5(headers).unwrap_or_default();
    ExpectedDigests {
        md5: hash.md5.or(content_md5.md5),
        ..hash
    }
}

/// Returns whether a response with status 200 cannot be a newer version of the known media: it
/// lacks an `ETag` and the media had one, or it is an HTML page and the media was not.
fn is_other_content(headers: &HeaderMap, known: &MediaHeaders) -> bool {
    let lost_tag = known.etag.is_some() && !headers.contains_key(ETAG);
    let turned_html = headers.get(CONTENT_TYPE).is_some_and(is_html)
        && !known.content_type.as_ref().is_some_and(is_html);
    lost_tag || turned_html
}

fn is_html(content_type: &HeaderValue) -> bool {
    let essence = content_type.as_bytes().split(|byte| *byte == b';').next();
    let essence = essence.unwrap_or_default().trim_ascii();
    [&b"text/html"[..], b"application/xhtml+xml"]
        .iter()
        .any(|html| essence.eq_ignore_ascii_case(html))
}

/// Returns the encoding that the server has added to the stored media for this response, if any. An
/// encoding in which the media is stored does not count. The stated size, ranges and digests
/// describe the stored media.
fn encoding(headers: &HeaderMap) -> Option<String> {
    let stored_encoding = stored_encoding(headers);
    let encodings = headers.get_all(CONTENT_ENCODING).into_iter();
    let mut encodings = encodings.map(|value| String::from_utf8_lossy(value.as_bytes()));
    let is_added = |value: &str| {
        ![IDENTITY, stored_encoding]
            .iter()
            .any(|it| value.eq_ignore_ascii_case(it))
    };
    let encoding = encodings.find(|value| is_added(value))?;
    Some(encoding.escape_debug().to_string())
}

/// Returns whether the server has decoded the media. Cloud Storage decodes media that is stored in
/// gzip for clients that do not accept gzip. The stated digests then describe the encoded bytes.
fn is_transcoded(headers: &HeaderMap) -> bool {
    stored_encoding(headers) != IDENTITY && !headers.contains_key(CONTENT_ENCODING)
}

/// Returns the encoding in which the server stores the media.
fn stored_encoding(headers: &HeaderMap) -> &str {
    let value = headers.get("x-goog-stored-content-encoding");
    let encoding = value.and_then(|value| value.to_str().ok());
    encoding.unwrap_or(IDENTITY)
}

/// The `Content-Range: bytes FIRST-LAST/TOTAL` of a 206. Requests of uploads use this header
/// with another syntax ([`windlass_proto::content_range`]).
struct ResponseRange {
    start: u64,
    /// Offset after the last byte.
    end: u64,
    total: Option<u64>,
}

impl ResponseRange {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let range = text(headers, CONTENT_RANGE)?.strip_prefix("bytes ")?;
        let (range, total) = range.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let total = match total {
            "*" => None,
            total => Some(number(total)?),
        };
        let (start, end) = (number(first)?, number(last)?.checked_add(1)?);
        let fits = start < end && total.is_none_or(|total| end <= total);
        fits.then_some(Self { start, end, total })
    }

    /// Returns whether these are the next bytes of the media in the part.
    fn follows(&self, part: &PartState<'_>, etag: &HeaderValue, headers: &HeaderMap) -> bool {
        let same_media = headers.get(ETAG).is_none_or(|sent| sent == etag);
        let same_size = match (self.total, part.total) {
            (Some(total), Some(known)) => total == known,
            (None, Some(known)) => self.end <= known,
            (_, None) => true,
        };
        same_media && same_size && self.start == part.received
    }
}

/// Returns the total of `Content-Range: bytes */TOTAL`.
fn size_of_unsatisfied(headers: &HeaderMap) -> Option<u64> {
    number(text(headers, CONTENT_RANGE)?.strip_prefix("bytes */")?)
}

/// Returns whether an `ETag` is strong: equal ones then guarantee equal bytes.
pub(super) fn is_strong(etag: &HeaderValue) -> bool {
    let etag = etag.as_bytes();
    etag.len() >= 2 && etag.starts_with(b"\"") && etag.ends_with(b"\"")
}

fn text(headers: &HeaderMap, name: http::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn number(digits: &str) -> Option<u64> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    u64::from_str(digits).ok().filter(|_| is_number)
}

/// The error of a failed attempt, and whether a retry may help.
pub(super) enum AttemptError {
    /// A retry cannot help.
    Permanent(DownloadError),
    /// A retry may help, after a wait.
    Transient {
        error: DownloadError,
        retry_after: Option<Duration>,
    },
}

/// Makes an error permanent. [`TransportError`] must not convert into [`DownloadError`]: its own
/// conversion below may make it transient.
impl<E: Into<DownloadError>> From<E> for AttemptError {
    fn from(error: E) -> Self {
        Self::Permanent(error.into())
    }
}

impl From<TransportError> for AttemptError {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::UnknownHost { .. }
            | TransportError::Connect { .. }
            | TransportError::Broken { .. }
            | TransportError::NotHttp { .. }
            | TransportError::Silent { .. }
            | TransportError::Slow { .. } => Self::transient(DownloadError::connection(error)),
            TransportError::SetUp(_)
            | TransportError::Untrusted { .. }
            | TransportError::NotTls { .. }
            | TransportError::CertificateRefused { .. }
            | TransportError::Media(_)
            | TransportError::TransferCoding { .. }
            | TransportError::ReplyTooLong { .. } => {
                Self::Permanent(DownloadError::connection(error))
            }
        }
    }
}

impl AttemptError {
    pub(super) fn transient(error: DownloadError) -> Self {
        Self::Transient {
            error,
            retry_after: None,
        }
    }
}

/// Reads a reply with an error and returns that.
pub(super) async fn error_reply(incoming: Incoming) -> AttemptError {
    let received = match incoming.collect().await {
        Ok(received) => received,
        Err(error) => return error.into(),
    };
    let retry_after = retry_after(&received.headers, now());
    let reply = ErrorReply::of(&transfer::Reply {
        status: received.status,
        headers: &received.headers,
        body: &received.body,
        retry_after,
    });
    let is_transient = reply.is_transient();
    let error = DownloadError::Refused(Box::new(reply));
    if is_transient {
        AttemptError::Transient { error, retry_after }
    } else {
        AttemptError::Permanent(error)
    }
}
