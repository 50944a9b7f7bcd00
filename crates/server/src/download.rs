//! Media on its way out: whole, in ranges, or not at all when the client has it.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::stream::try_unfold;
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    LAST_MODIFIED, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method as HttpMethod, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use windlass_store::{Media, MediaLocation, MediaReader, READ_LEN, Resource, VaultError};

use crate::byte_range::{Requested, content_range, unsatisfied_range};
use crate::capacity::{Permit, Pool};
use crate::error::Error;
use crate::handler::{Rejection, slice};
use crate::precondition::{ETag, Validators, Verdict, evaluate, range_applies};
use crate::reply::{Reply, ReplyBody, empty, full, nothing};
use crate::uploads::ServerState;

/// As much is read at once when there is not memory for [`READ_LEN`].
const FALLBACK_READ_LEN: usize = 128 * 1024;

/// As much is read first, before it shows whether the client takes anything, and when other replies have all the memory
/// that they may have. It comes on top of that.
const FIRST_READ_LEN: usize = 8 * 1024;

const X_GOOG_HASH: HeaderName = HeaderName::from_static("x-goog-hash");

/// What a handler has to say of a download.
#[derive(Debug)]
pub(crate) struct Own {
    /// The media's entity tag, quotes included.
    pub(crate) etag: Option<String>,
    /// Headers beside the usual ones.
    pub(crate) headers: HeaderMap,
}

/// Answers a GET or HEAD of a resource's media.
pub(crate) async fn media(
    server: &ServerState,
    resource: &Resource,
    http_method: &HttpMethod,
    headers: &HeaderMap,
    own: Own,
) -> Result<Reply, Error> {
    let media = resource.media.as_ref().ok_or(Error::NoMedia)?;
    let validators = validators(resource, media, own.etag.as_deref());
    match evaluate(headers, http_method, Some(&validators)) {
        Verdict::Failed => return Err(Rejection::ConditionNotMet.into()),
        Verdict::NotModified => {
            let mut reply = empty(StatusCode::NOT_MODIFIED);
            describe(reply.headers_mut(), media, &validators);
            reply.headers_mut().extend(own.headers);
            return Ok(reply);
        }
        Verdict::Proceed => {}
    }
    let requested = if *http_method == HttpMethod::GET && range_applies(headers, &validators) {
        Requested::parse(headers.get(RANGE), media.length)
    } else {
        Requested::Whole
    };
    let mut reply = Response::new(nothing());
    describe(reply.headers_mut(), media, &validators);
    reply.headers_mut().extend(own.headers);
    let range = match requested {
        Requested::Whole => 0..media.length,
        Requested::Part(range) => {
            *reply.status_mut() = StatusCode::PARTIAL_CONTENT;
            let value = content_range(&range, media.length);
            reply.headers_mut().insert(CONTENT_RANGE, value);
            range
        }
        Requested::NotSatisfiable => {
            let mut reply = empty(StatusCode::RANGE_NOT_SATISFIABLE);
            reply
                .headers_mut()
                .insert(CONTENT_RANGE, unsatisfied_range(media.length));
            return Ok(reply);
        }
    };
    reply
        .headers_mut()
        .insert(CONTENT_LENGTH, (range.end - range.start).into());
    if *http_method == HttpMethod::GET {
        *reply.body_mut() = bytes_of(server, media, range).await?;
    }
    Ok(reply)
}

/// Whether the media was gone when it was to be read. A resource that was replaced or deleted
/// meanwhile has other media now, or none.
pub(crate) fn is_gone(error: &Error) -> bool {
    matches!(
        error,
        Error::MediaLost(_) | Error::Vault(VaultError::Missing(_))
    )
}

/// The media's tag is the one that its handler knows, else its name, which no other bytes ever have.
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
    // What a client uploaded must not run as a page of this origin.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    );
}

fn goog_hash(media: &Media) -> String {
    let crc32c = format!("crc32c={}", media.digests.crc32c);
    match media.digests.md5 {
        Some(md5) => format!("{crc32c},md5={md5}"),
        None => crc32c,
    }
}

async fn bytes_of(
    server: &ServerState,
    media: &Media,
    range: std::ops::Range<u64>,
) -> Result<ReplyBody, Error> {
    match media.at.location {
        MediaLocation::Ledger => {
            let bytes = server.ledger.small_media(media.at.id).await?;
            let bytes = bytes.ok_or(Error::MediaLost(media.at.id))?;
            Ok(full(server.capacity.reply(slice(&bytes, range))?))
        }
        MediaLocation::Vault => {
            let download = Download {
                _permit: server.capacity.downloads.take()?,
                is_taken: false,
                memory: server.capacity.replies.clone(),
                reader: server.vault.read(media.at.id, range).await?,
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
    /// Whether the client has taken anything. The HTTP library asks for the first piece before it knows.
    is_taken: bool,
    /// For the bytes that are read and not sent yet.
    memory: Pool,
    _permit: Permit,
}

impl Download {
    /// The next bytes; empty at the end.
    async fn next(&mut self) -> Result<Bytes, VaultError> {
        let mut permit = self.memory.permit();
        let is_taken = std::mem::replace(&mut self.is_taken, true);
        let sizes: &[usize] = if is_taken {
            &[READ_LEN, FALLBACK_READ_LEN]
        } else {
            &[]
        };
        let fits = sizes
            .iter()
            .copied()
            .find(|size| permit.resize(*size as u64).is_ok());
        let piece = self.reader.next(fits.unwrap_or(FIRST_READ_LEN)).await?;
        if fits.is_some() {
            // It is no more than before.
            permit.resize(piece.len() as u64).ok();
        }
        Ok(permit.with(piece))
    }
}
