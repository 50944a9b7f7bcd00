//! Media that is stored in gzip, and clients that do not accept gzip (docs/protocol.md, 2.18).
//!
//! A handler states `Content-Encoding: gzip` among the headers of a download if the media is stored
//! in gzip. As in Cloud Storage, a client that does not accept gzip receives the media unpacked.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_compression::tokio::bufread::GzipDecoder;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::try_unfold;
use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, ETAG, VARY, WARNING,
};
use http::{HeaderMap, HeaderValue, Version};
use http_body::Frame;
use http_body_util::{BodyDataStream, BodyExt as _, BodyStream, StreamBody};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio_util::io::StreamReader;
use windlass_engine::{Full, Permit, Pool};
use windlass_rest::precondition::ETag;

use super::FIRST_READ_LEN;
use crate::accept::{elements, weighted};
use crate::capacity::Capacity;
use crate::reply::ReplyBody;

/// The first bytes of a gzip member (RFC 1952, section 2.3.1): its identification, and the only
/// defined compression method.
pub(super) const MAGIC: &[u8] = b"\x1f\x8b\x08";

/// Approximate memory of a decoder in bytes.
const DECODER_MEMORY: u64 = 48 * 1024;

/// Number of unpacked bytes that are read at once.
const PIECE_LEN: usize = 32 * 1024;

/// Memory in bytes that must be free before any is taken. A smaller permit would count as small,
/// and stalled downloads would use the memory that is left for short replies.
const FREE_MEMORY: u64 = DECODER_MEMORY + PIECE_LEN as u64;

// A gzip stream may unpack to no bytes for a long time. Nothing is sent then, so neither a slow
// client nor a client that has gone stops the work.
/// Maximum number of packed bytes that are unpacked before the task yields.
const TURN_LEN: usize = 32 * 1024;

/// Maximum number of consecutive packed bytes that unpack to nothing. No encoder produces more, so
/// more means damage.
const MAX_IDLE: u64 = 1024 * 1024;

/// How media is sent to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is stored, which is not in gzip.
    Plain,
    /// As it is stored, in gzip.
    Packed,
    /// Unpacked.
    Unpacked,
}

impl Form {
    /// Returns the form for a client, unless the media itself shows that it cannot be unpacked.
    /// `own` are the headers that the handler sets.
    pub(super) fn wanted(version: Version, request: &HeaderMap, own: &HeaderMap) -> Self {
        if !is_stored_in_gzip(own) {
            Self::Plain
        } else if !has_chunks(version) || accepts_gzip(request) || forbids_transformation(own) {
            Self::Packed
        } else {
            Self::Unpacked
        }
    }

    /// Changes the headers of a reply with the media in this form.
    pub(super) fn describe(self, headers: &mut HeaderMap, etag: &ETag) {
        if self == Self::Plain {
            return;
        }
        headers.append(VARY, HeaderValue::from(ACCEPT_ENCODING));
        if self == Self::Packed {
            return;
        }
        headers.remove(CONTENT_ENCODING);
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("none"));
        headers.insert(
            WARNING,
            HeaderValue::from_static("214 UploadServer gunzipped"),
        );
        // The strong tag promises the stored bytes, and a client may resume a download of them by
        // it.
        headers.insert(ETAG, HeaderValue::from(&etag.to_weak()));
    }
}

/// Whether the media is stored in gzip and no other coding.
fn is_stored_in_gzip(own: &HeaderMap) -> bool {
    let mut codings = own.get_all(CONTENT_ENCODING).iter();
    let only = codings.next().filter(|_| codings.next().is_none());
    only.is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"gzip"))
}

/// Whether a client can distinguish the end of a body without a length from a broken connection.
pub(super) fn has_chunks(version: Version) -> bool {
    version >= Version::HTTP_11
}

/// Whether the media must be sent as it is stored (RFC 9111, section 5.2.2.6).
fn forbids_transformation(own: &HeaderMap) -> bool {
    elements(own, &CACHE_CONTROL).any(|element| element.eq_ignore_ascii_case("no-transform"))
}

/// Whether `Accept-Encoding` names gzip, or any coding, as acceptable. A client without the header
/// is not taken to accept every coding, although RFC 9110 (12.5.3) says so: Cloud Storage unpacks
/// media for such a client.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let mut any = false;
    for element in elements(request, &ACCEPT_ENCODING) {
        let (coding, weight) = weighted(element);
        let is_accepted = weight > 0.0;
        if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
            return is_accepted;
        }
        any |= coding == "*" && is_accepted;
    }
    any
}

/// Unpacks the media of `packed` as its client reads it.
///
/// Damaged gzip ends the body with an error, which the client sees as a broken connection. The
/// client must not take a part for the whole.
///
/// # Errors
/// [`Full`] if there is no memory for a decoder.
pub(super) fn unpacked(packed: ReplyBody, capacity: &Capacity) -> Result<ReplyBody, Full> {
    let permit = permit_of(&capacity.replies.pool, DECODER_MEMORY)?;
    let idle = Arc::new(AtomicU64::new(0));
    let input = Packed {
        body: packed.into_data_stream(),
        piece: Bytes::new(),
        idle: Arc::clone(&idle),
    };
    let turns = try_unfold(input, async |mut input| {
        let turn = input.next().await?;
        Ok::<_, io::Error>((!turn.is_empty()).then_some((turn, input)))
    });
    let mut decoder = GzipDecoder::new(StreamReader::new(turns));
    decoder.multiple_members(true);
    let unpacking = Unpacking {
        decoder: Box::pin(decoder),
        idle,
        memory: capacity.replies.pool.clone(),
        _permit: permit,
    };
    let pieces = try_unfold(unpacking, async |mut unpacking| {
        let piece = unpacking.next().await?;
        Ok((!piece.is_empty()).then(|| (Frame::data(piece), unpacking)))
    });
    Ok(StreamBody::new(pieces).boxed_unsync())
}

/// Takes memory, but leaves the part that is reserved for short replies.
fn permit_of(memory: &Pool, len: u64) -> Result<Permit, Full> {
    let mut permit = memory.permit();
    permit.resize(FREE_MEMORY)?;
    permit.resize(len)?;
    Ok(permit)
}

/// The input of a decoder.
struct Packed {
    body: BodyDataStream<ReplyBody>,
    /// The bytes of the body that are to be read next.
    piece: Bytes,
    /// Number of bytes that have been read since the decoder last produced output.
    idle: Arc<AtomicU64>,
}

impl Packed {
    /// The next bytes; empty at the end.
    async fn next(&mut self) -> Result<Bytes, io::Error> {
        while self.piece.is_empty() {
            match self.body.next().await {
                Some(piece) => self.piece = piece?,
                None => return Ok(Bytes::new()),
            }
        }
        let turn = self.piece.split_to(self.piece.len().min(TURN_LEN));
        // Relaxed: the counter guards no other data.
        let idle = self.idle.fetch_add(turn.len() as u64, Ordering::Relaxed);
        if idle > MAX_IDLE {
            let message = "gzip that unpacks to nothing";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        if idle > 0 {
            tokio::task::yield_now().await;
        }
        Ok(turn)
    }
}

/// Media that is unpacked on its way out.
struct Unpacking {
    decoder: Pin<Box<dyn AsyncRead + Send>>,
    /// See [`Packed`].
    idle: Arc<AtomicU64>,
    /// The pool for bytes that are unpacked and not sent yet.
    memory: Pool,
    _permit: Permit,
}

impl Unpacking {
    /// The next bytes; empty at the end.
    async fn next(&mut self) -> Result<Bytes, io::Error> {
        let (permit, len) = match permit_of(&self.memory, PIECE_LEN as u64) {
            Ok(permit) => (permit, PIECE_LEN),
            Err(_) => (self.memory.permit(), FIRST_READ_LEN),
        };
        let mut piece = BytesMut::with_capacity(len);
        self.decoder.read_buf(&mut piece).await?;
        self.idle.store(0, Ordering::Relaxed);
        Ok(permit.with(piece.freeze()))
    }
}

/// Returns the body without its length, so that it is sent in chunks.
pub(super) fn without_length(body: ReplyBody) -> ReplyBody {
    StreamBody::new(BodyStream::new(body)).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use http_body::Body as _;
    use windlass_testkit::encodings::gzip;

    use super::*;
    use crate::config::Limits;
    use crate::reply::full;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn gzip_is_accepted_only_if_it_is_named() {
        for (value, expected) in [
            ("gzip", true),
            ("GZip", true),
            ("x-gzip", true),
            ("deflate, gzip;q=0.5, br", true),
            ("gzip ; q=1", true),
            ("*", true),
            ("identity, *;q=0.1", true),
            ("", false),
            ("identity", false),
            ("br", false),
            ("gzipped", false),
            ("gzip;q=0", false),
            ("gzip; Q=0.000", false),
            ("*, gzip;q=0", false),
            ("*;q=0", false),
        ] {
            let request = headers(&[(ACCEPT_ENCODING, value)]);
            assert_eq!(accepts_gzip(&request), expected, "{value:?}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
        let lines = headers(&[(ACCEPT_ENCODING, "br"), (ACCEPT_ENCODING, "gzip")]);
        assert!(accepts_gzip(&lines));
    }

    /// Members with nothing in them.
    fn nothing_in_gzip(len: usize) -> Vec<u8> {
        let member = gzip(b"");
        member.repeat(len / member.len())
    }

    fn unpack(packed: Vec<u8>) -> ReplyBody {
        unpacked(full(packed), &Capacity::new(&Limits::default())).unwrap()
    }

    #[tokio::test]
    async fn other_tasks_have_their_turn_while_gzip_unpacks_to_nothing() {
        let mut body = unpack(nothing_in_gzip(10 * TURN_LEN));
        let mut turns = 0;
        let frame = std::future::poll_fn(|context| {
            turns += 1;
            Pin::new(&mut body).poll_frame(context)
        });
        assert!(frame.await.is_none(), "it is whole, and nothing");
        assert!(turns >= 9, "{turns}");
    }

    #[tokio::test]
    async fn gzip_may_unpack_to_nothing_for_a_while_again_and_again() {
        let most = usize::try_from(MAX_IDLE).unwrap();
        let a_while = nothing_in_gzip(most / 4 * 3);
        let packed = [&a_while, &gzip(b"cow")[..], &a_while, &gzip(b"sheep")].concat();
        let body = unpack(packed).collect().await.unwrap();
        assert_eq!(body.to_bytes(), "cowsheep");
        let body = unpack(nothing_in_gzip(most / 4 * 5));
        let error = body.collect().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn media_in_gzip_alone_is_unpacked_unless_its_object_forbids_it() {
        let encoded = |value| (CONTENT_ENCODING, value);
        for (own, expected) in [
            (vec![], Form::Plain),
            (vec![encoded("br")], Form::Plain),
            (vec![encoded("gzip, gzip")], Form::Plain),
            (vec![encoded("gzip"), encoded("gzip")], Form::Plain),
            (vec![encoded("gzip")], Form::Unpacked),
            (vec![encoded("GZIP")], Form::Unpacked),
            (
                vec![encoded("gzip"), (CACHE_CONTROL, "public, max-age=60")],
                Form::Unpacked,
            ),
            (
                vec![encoded("gzip"), (CACHE_CONTROL, "public, No-Transform")],
                Form::Packed,
            ),
        ] {
            let form = Form::wanted(Version::HTTP_11, &HeaderMap::new(), &headers(&own));
            assert_eq!(form, expected, "{own:?}");
        }
        let request = headers(&[(ACCEPT_ENCODING, "gzip")]);
        let own = headers(&[encoded("gzip")]);
        let form = Form::wanted(Version::HTTP_2, &request, &own);
        assert_eq!(form, Form::Packed);
    }
}
