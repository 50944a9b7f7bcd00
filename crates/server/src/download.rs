//! Media downloads: the whole media, a byte range, or nothing if the client already has it.
//!
//! The server answers `Range` as RFC 9110, section 14 says. For media of 100 bytes:
//!
//! | `Range` | answer |
//! |---|---|
//! | `bytes=0-9` | 206, `bytes 0-9/100` |
//! | `bytes=90-` or `bytes=-10` or `bytes=90-500` | 206, `bytes 90-99/100` |
//! | `bytes=100-` | 416, `bytes */100` |
//! | none, another unit, several ranges, malformed | 200 and the whole media |
//!
//! `Range` is defined for GET alone, and `If-Range` may switch it off: see
//! [`range_applies`](windlass_rest::precondition::range_applies). It does not apply to media that is
//! unpacked for the client: see [`stored_gzip`].

mod protection;
mod stored_gzip;

use std::net::IpAddr;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream::try_unfold;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderValue, Method as HttpMethod, Response, StatusCode, Version};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use windlass_engine::{Error as EngineError, Full, Importance, Permit, Pool};
use windlass_proto::digest_fields::DigestPreference;
use windlass_proto::header::{REPR_DIGEST, X_GOOG_HASH};
use windlass_rest::handler::{Rejection, slice};
use windlass_rest::precondition::{ETag, Validators, Verdict, evaluate, range_applies};
use windlass_store::{Media, MediaLocation, MediaReader, Resource, VaultError};

use crate::error::Error;
use crate::reply::{Reply, ReplyBody, full, nothing};
use crate::state::ServerState;
use stored_gzip::{Form, has_chunks};

/// Number of bytes that are read at once if there is not enough memory for
/// [`IoHints::read_len`](windlass_store::IoHints::read_len).
const FALLBACK_READ_LEN: usize = 128 * 1024;

/// Number of bytes that are read first, before it is known whether the client reads anything, and
/// when other replies use up the memory. These bytes are in addition to the limit.
const FIRST_READ_LEN: usize = 8 * 1024;

/// The entity tag and headers that a handler sets for a download.
#[derive(Debug)]
pub(crate) struct Own {
    /// The media's entity tag, quotes included.
    pub(crate) etag: Option<String>,
    /// Headers in addition to the usual ones.
    pub(crate) headers: HeaderMap,
    /// The caches that may keep the media, unless the headers say it.
    pub(crate) caching: Caching,
}

/// Which caches may keep media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caching {
    /// The media is public, and the default behaviour of caches is right.
    Public,
    /// Only the client's own cache, which must revalidate each time. A request's credentials need
    /// not be in `Authorization`, so shared caches could otherwise take the reply for a public
    /// reply (RFC 9111, 3.5).
    Private,
    /// No cache: the link may be used once, and a cached copy would be a second use.
    Never,
}

impl Caching {
    fn describe(self, headers: &mut HeaderMap) {
        let value = match self {
            Self::Public => return,
            Self::Private if headers.contains_key(CACHE_CONTROL) => return,
            Self::Private => "private, no-cache",
            Self::Never => "no-store",
        };
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(value));
    }
}

/// The parts of a request's head that a download needs.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) http_method: &'a HttpMethod,
    pub(crate) version: Version,
    pub(crate) headers: &'a HeaderMap,
    /// The address of the client, if it is known.
    pub(crate) client: Option<IpAddr>,
}

/// Answers a GET or HEAD of a resource's media.
pub(crate) async fn media(
    server: &ServerState,
    resource: &Resource,
    request: Request<'_>,
    own: Own,
) -> Result<Reply, Error> {
    let Request {
        http_method,
        version,
        headers,
        client,
    } = request;
    let media = resource.media.as_ref().ok_or(Error::NoMedia)?;
    let validators = validators(resource, media, own.etag.as_deref());
    let verdict = evaluate(headers, http_method, Some(&validators));
    if verdict == Verdict::Failed {
        return Err(Rejection::ConditionNotMet.into());
    }
    let wanted = Form::wanted(version, headers, &own.headers);
    let form = match verdict {
        // No media is sent, so none is read.
        Verdict::NotModified => wanted,
        _ => form_of(server, media, wanted, request).await?,
    };
    let mut reply = Response::new(nothing());
    describe(reply.headers_mut(), media, &validators);
    reply.headers_mut().extend(own.headers);
    own.caching.describe(reply.headers_mut());
    form.describe(reply.headers_mut(), &validators.etag);
    // The digests are those of the stored bytes.
    if form != Form::Unpacked
        && let Some(digest) = DigestPreference::from_headers(headers).repr_digest(&media.digests)
    {
        reply.headers_mut().insert(REPR_DIGEST, digest);
    }
    // Applied after the handler's headers, which may come from the client that uploaded the media.
    protection::protect(reply.headers_mut(), &server.settings.downloads);
    if verdict == Verdict::NotModified {
        // A cache would apply the header to its copy, which may be unpacked (RFC 9111, section
        // 3.2).
        reply.headers_mut().remove(CONTENT_ENCODING);
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(reply);
    }
    let range = match requested(request, form, &validators, media.length) {
        Requested::Whole => 0..media.length,
        Requested::Part(range) => {
            *reply.status_mut() = StatusCode::PARTIAL_CONTENT;
            let value = content_range(&range, media.length);
            reply.headers_mut().insert(CONTENT_RANGE, value);
            range
        }
        Requested::NotSatisfiable => {
            let length = media.length;
            return Err(Error::RangeNotSatisfiable { length });
        }
    };
    let is_part = reply.status() == StatusCode::PARTIAL_CONTENT;
    // Google's Python library compares a stated length of a part with the length of the unpacked
    // part, so the length is left out. HTTP/1.0 has no chunks, so the length marks the end of the
    // reply and is kept.
    let has_length = match form {
        Form::Plain => true,
        Form::Packed => !is_part || !has_chunks(version),
        Form::Unpacked => false,
    };
    if has_length {
        let length = (range.end - range.start).into();
        reply.headers_mut().insert(CONTENT_LENGTH, length);
    }
    if *http_method == HttpMethod::GET {
        let stored = bytes_of(server, media, range, client).await?;
        *reply.body_mut() = match form {
            Form::Unpacked => stored_gzip::unpacked(stored, &server.capacity)?,
            Form::Packed if !has_length => stored_gzip::without_length(stored),
            Form::Plain | Form::Packed => stored,
        };
    }
    Ok(reply)
}

/// Returns the part of the media that a request asks for. Only stored bytes are sent in parts.
fn requested(request: Request<'_>, form: Form, validators: &Validators, length: u64) -> Requested {
    let is_of_stored_bytes = *request.http_method == HttpMethod::GET && form != Form::Unpacked;
    if is_of_stored_bytes && range_applies(request.headers, validators) {
        Requested::parse(request.headers.get(RANGE), length)
    } else {
        Requested::Whole
    }
}

/// Returns the form of the media for a client. Media is unpacked only if its first bytes are those
/// of gzip, whatever its handler says.
async fn form_of(
    server: &ServerState,
    media: &Media,
    wanted: Form,
    request: Request<'_>,
) -> Result<Form, Error> {
    if wanted != Form::Unpacked {
        return Ok(wanted);
    }
    match is_gzip(server, media, request.client).await {
        Ok(true) => Ok(Form::Unpacked),
        Ok(false) => Ok(Form::Packed),
        // HEAD needs no media, so a failed read does not fail it. The handler's statement is nearly
        // always right.
        Err(_) if request.http_method == HttpMethod::HEAD => Ok(wanted),
        Err(error) => Err(error),
    }
}

async fn is_gzip(
    server: &ServerState,
    media: &Media,
    client: Option<IpAddr>,
) -> Result<bool, Error> {
    let magic = stored_gzip::MAGIC;
    let range = 0..media.length.min(magic.len() as u64);
    let start = match media.at.location {
        MediaLocation::Ledger => slice(&small_media(server, media).await?, range),
        MediaLocation::Vault => {
            let _permit = admit(server, client)?;
            let mut reader = server.stores.vault.read(&media.name(), range).await?;
            reader.next(magic.len()).await?
        }
    };
    Ok(start == magic)
}

async fn small_media(server: &ServerState, media: &Media) -> Result<Bytes, Error> {
    let bytes = server.stores.ledger.small_media(media.at.id).await?;
    bytes.ok_or(EngineError::MediaLost(media.at.id).into())
}

/// Whether the media had been deleted when it was to be read. The resource was replaced or deleted
/// in the meantime, so it has other media now, or no media.
pub(crate) fn is_gone(error: &Error) -> bool {
    matches!(
        error,
        Error::Engine(EngineError::MediaLost(_) | EngineError::Vault(VaultError::Missing(_)))
    )
}

/// Uses the tag that the media's handler supplies, or otherwise the media's id, which is never
/// reused for other bytes.
fn validators(resource: &Resource, media: &Media, own_etag: Option<&str>) -> Validators {
    let modified = Duration::from_millis(resource.updated.as_millis());
    let name = || ETag::strong(media.at.id.to_string());
    let etag = own_etag.and_then(ETag::parse).or_else(name);
    Validators {
        etag: etag.expect("hexadecimal digits need no escaping"),
        modified: SystemTime::UNIX_EPOCH.checked_add(modified),
    }
}

fn describe(headers: &mut HeaderMap, media: &Media, validators: &Validators) {
    let octets = HeaderValue::from_static("application/octet-stream");
    let content_type = HeaderValue::try_from(&media.content_type).unwrap_or(octets);
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(ETAG, HeaderValue::from(&validators.etag));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(modified) = validators.modified {
        let modified = HeaderValue::try_from(httpdate::fmt_http_date(modified));
        headers.insert(LAST_MODIFIED, modified.expect("a date is plain text"));
    }
    if let Ok(hash) = HeaderValue::try_from(goog_hash(media)) {
        headers.insert(X_GOOG_HASH, hash);
    }
}

fn goog_hash(media: &Media) -> String {
    let crc32c = format!("crc32c={}", media.digests.crc32c);
    match media.digests.md5 {
        Some(md5) => format!("{crc32c},md5={md5}"),
        None => crc32c,
    }
}

/// Returns a permit for a download.
fn admit(server: &ServerState, client: Option<IpAddr>) -> Result<Permit, Full> {
    let importance = || server.importance_to(client, Importance::Query);
    server.capacity.downloads.take_for(importance)
}

async fn bytes_of(
    server: &ServerState,
    media: &Media,
    range: std::ops::Range<u64>,
    client: Option<IpAddr>,
) -> Result<ReplyBody, Error> {
    match media.at.location {
        MediaLocation::Ledger => {
            let bytes = small_media(server, media).await?;
            let importance = || server.importance_to(client, Importance::Query);
            let bytes = server
                .capacity
                .replies
                .reply(slice(&bytes, range), importance)?;
            Ok(full(bytes))
        }
        MediaLocation::Vault => {
            let download = Download {
                _permit: admit(server, client)?,
                is_taken: false,
                read_len: server.stores.vault.hints().read_len,
                memory: server.capacity.replies.pool.clone(),
                reader: server.stores.vault.read(&media.name(), range).await?,
            };
            let pieces = try_unfold(download, async |mut download| {
                let piece = download.next().await.map_err(std::io::Error::other)?;
                Ok((!piece.is_empty()).then(|| (Frame::data(piece), download)))
            });
            Ok(StreamBody::new(pieces).boxed_unsync())
        }
    }
}

/// Media in the vault on its way out.
struct Download {
    reader: Box<dyn MediaReader>,
    /// Whether the client has read anything. The HTTP library asks for the first piece before it
    /// knows.
    is_taken: bool,
    /// Number of bytes that are worth reading at once.
    read_len: usize,
    /// The pool for bytes that are read and not sent yet.
    memory: Pool,
    _permit: Permit,
}

impl Download {
    /// The next bytes; empty at the end.
    async fn next(&mut self) -> Result<Bytes, VaultError> {
        let mut permit = self.memory.permit();
        let is_taken = std::mem::replace(&mut self.is_taken, true);
        let sizes: &[usize] = if is_taken {
            &[self.read_len, FALLBACK_READ_LEN]
        } else {
            &[]
        };
        let fits = sizes
            .iter()
            .copied()
            .find(|size| permit.resize(*size as u64).is_ok());
        let piece = self.reader.next(fits.unwrap_or(FIRST_READ_LEN)).await?;
        if fits.is_some() {
            // Cannot fail, because the permit does not grow.
            permit.resize(piece.len() as u64).ok();
        }
        Ok(permit.with(piece))
    }
}

/// The part of a media that a download request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Requested {
    /// All of it.
    Whole,
    /// These bytes of it: at least one, and none behind the end of the media.
    Part(Range<u64>),
    /// Bytes that it does not have.
    NotSatisfiable,
}

impl Requested {
    /// Parses the `Range` header of a request for a media of `length` bytes.
    ///
    /// Headers that a server may ignore are ignored (section 14.2): a malformed header, a unit
    /// other than bytes, and several ranges, which would need a `multipart/byteranges` reply.
    pub(crate) fn parse(header: Option<&HeaderValue>, length: u64) -> Self {
        header
            .and_then(|value| value.to_str().ok())
            .and_then(RangeSpec::parse)
            .map_or(Self::Whole, |spec| spec.of(length))
    }
}

/// Returns the `Content-Range` of a reply with the range `bytes` of a media of `length` bytes.
///
/// `bytes` comes from [`Requested::Part`], so it is not empty. An empty range cannot be expressed.
pub(crate) fn content_range(bytes: &Range<u64>, length: u64) -> HeaderValue {
    debug_assert!(bytes.start < bytes.end && bytes.end <= length);
    written(format!("bytes {}-{}/{length}", bytes.start, bytes.end - 1))
}

fn written(value: String) -> HeaderValue {
    HeaderValue::try_from(value).expect("visible ASCII characters are a header value")
}

/// One range, before it is known how long the media is.
#[derive(Debug, Clone, Copy)]
enum RangeSpec {
    /// From the byte `first` to the end.
    From { first: u64 },
    /// From the byte `first` to the byte `last`, which is not before it.
    Between { first: u64, last: u64 },
    /// The last `count` bytes.
    Suffix { count: u64 },
}

impl RangeSpec {
    /// Reads a header that holds exactly one range of bytes.
    fn parse(header: &str) -> Option<Self> {
        let (unit, set) = header.split_once('=')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        // A list may have empty elements (section 5.6.1.2).
        let mut specs = set
            .split(',')
            .map(|element| element.trim_matches([' ', '\t']))
            .filter(|element| !element.is_empty());
        match (specs.next(), specs.next()) {
            (Some(only), None) => Self::parse_one(only),
            _ => None,
        }
    }

    fn parse_one(spec: &str) -> Option<Self> {
        match spec.split_once('-')? {
            ("", count) => Some(Self::Suffix {
                count: number(count)?,
            }),
            (first, "") => Some(Self::From {
                first: number(first)?,
            }),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::Between { first, last })
            }
        }
    }

    /// Resolves the range for a media of `length` bytes.
    fn of(self, length: u64) -> Requested {
        match self {
            Self::Suffix { count: 0 } => Requested::NotSatisfiable,
            // Satisfiable (section 14.1.2), but no `Content-Range` can say "no bytes".
            Self::Suffix { .. } if length == 0 => Requested::Whole,
            Self::Suffix { count } => Requested::Part(length.saturating_sub(count)..length),
            Self::From { first } | Self::Between { first, .. } if first >= length => {
                Requested::NotSatisfiable
            }
            Self::From { first } => Requested::Part(first..length),
            Self::Between { first, last } => {
                Requested::Part(first..last.saturating_add(1).min(length))
            }
        }
    }
}

/// Reads `1*DIGIT`. A number over `u64::MAX` is read as `u64::MAX`, which is past the end of every
/// media.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
