//! Media that is stored in gzip, and clients that do not accept gzip (docs/protocol.md, 2.18).
//!
//! A handler says by `Content-Encoding: gzip` among the headers of a download that the media is
//! stored in gzip. As at Cloud Storage, a client that does not accept gzip gets it unpacked.

use std::pin::Pin;

use async_compression::tokio::bufread::GzipDecoder;
use bytes::{Bytes, BytesMut};
use futures_util::stream::try_unfold;
use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, ETAG, VARY, WARNING,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio_util::io::StreamReader;

use super::FIRST_READ_LEN;
use crate::capacity::{Capacity, Full, Permit, Pool};
use crate::precondition::ETag;
use crate::reply::ReplyBody;

/// The first bytes of a gzip member (RFC 1952, section 2.3.1): its identification, and the only
/// compression method there is.
pub(super) const MAGIC: &[u8] = b"\x1f\x8b\x08";

/// Approximate memory of a decoder in bytes.
const DECODER_MEMORY: u64 = 48 * 1024;

/// Number of unpacked bytes that are read at once.
const PIECE_LEN: usize = 32 * 1024;

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
    /// Returns the form for a client, unless the media itself shows that it cannot be unpacked. `own`
    /// are the headers that the handler sets.
    pub(super) fn wanted(request: &HeaderMap, own: &HeaderMap) -> Self {
        if !is_stored_in_gzip(own) {
            Self::Plain
        } else if accepts_gzip(request) || forbids_transformation(own) {
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
        // The strong tag promises the stored bytes, and a client may continue them by it.
        headers.insert(ETAG, HeaderValue::from(&etag.to_weak()));
    }
}

/// Whether the media is stored in gzip, and in no other coding besides.
fn is_stored_in_gzip(own: &HeaderMap) -> bool {
    let mut codings = own.get_all(CONTENT_ENCODING).iter();
    let only = codings.next().filter(|_| codings.next().is_none());
    only.is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"gzip"))
}

/// Whether the media must be sent as it is stored (RFC 9111, section 5.2.2.6).
fn forbids_transformation(own: &HeaderMap) -> bool {
    elements(own, &CACHE_CONTROL).any(|element| element.eq_ignore_ascii_case("no-transform"))
}

/// Whether a client names gzip, or any coding, as one that it accepts. One that names none is not
/// taken to accept all, although RFC 9110 (12.5.3) would have it so: Cloud Storage unpacks for it.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let mut any = false;
    for element in elements(request, &ACCEPT_ENCODING) {
        let (coding, parameters) = element.split_once(';').unwrap_or((element, ""));
        let coding = coding.trim_ascii_end();
        let is_accepted = !has_weight_zero(parameters);
        if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
            return is_accepted;
        }
        any |= coding == "*" && is_accepted;
    }
    any
}

fn has_weight_zero(parameters: &str) -> bool {
    let mut parameters = parameters.split(';').filter_map(|it| it.split_once('='));
    let weight = parameters.find(|(name, _)| name.trim_ascii().eq_ignore_ascii_case("q"));
    weight.is_some_and(|(_, value)| value.trim_ascii().parse() == Ok(0.0_f32))
}

/// Returns the elements of a list in a header (RFC 9110, section 5.6.1).
fn elements<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(str::trim_ascii)
}

/// Unpacks the media of `packed` as its client takes it.
///
/// Damaged gzip ends the body with an error, which the client sees as a broken connection: it must not
/// take a part for the whole.
///
/// # Errors
/// [`Full`] if there is no memory for a decoder.
pub(super) fn unpacked(packed: ReplyBody, capacity: &Capacity) -> Result<ReplyBody, Full> {
    let mut permit = capacity.replies.permit();
    permit.resize(DECODER_MEMORY)?;
    let mut decoder = GzipDecoder::new(StreamReader::new(packed.into_data_stream()));
    decoder.multiple_members(true);
    let unpacking = Unpacking {
        decoder: Box::pin(decoder),
        memory: capacity.replies.clone(),
        _permit: permit,
    };
    let pieces = try_unfold(unpacking, async |mut unpacking| {
        let piece = unpacking.next().await?;
        Ok((!piece.is_empty()).then(|| (Frame::data(piece), unpacking)))
    });
    Ok(StreamBody::new(pieces).boxed_unsync())
}

/// Media that is unpacked on its way out.
struct Unpacking {
    decoder: Pin<Box<dyn AsyncRead + Send>>,
    /// For the bytes that are unpacked and not sent yet.
    memory: Pool,
    _permit: Permit,
}

impl Unpacking {
    /// The next bytes; empty at the end.
    async fn next(&mut self) -> Result<Bytes, std::io::Error> {
        let mut permit = self.memory.permit();
        let len = match permit.resize(PIECE_LEN as u64) {
            Ok(()) => PIECE_LEN,
            Err(_) => FIRST_READ_LEN,
        };
        let mut piece = BytesMut::with_capacity(len);
        self.decoder.read_buf(&mut piece).await?;
        Ok(permit.with(piece.freeze()))
    }
}

/// Returns the body without its length, so that it goes out in chunks.
pub(super) fn without_length(body: ReplyBody) -> ReplyBody {
    StreamBody::new(BodyStream::new(body)).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let form = Form::wanted(&HeaderMap::new(), &headers(&own));
            assert_eq!(form, expected, "{own:?}");
        }
        let request = headers(&[(ACCEPT_ENCODING, "gzip")]);
        let own = headers(&[encoded("gzip")]);
        assert_eq!(Form::wanted(&request, &own), Form::Packed);
    }
}
