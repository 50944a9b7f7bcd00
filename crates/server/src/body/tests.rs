use http::header::CONTENT_ENCODING;
use http::{HeaderName, HeaderValue};
use http_body_util::{Full, StreamBody};

use super::*;

/// Returns a gzip body of unknown length.
fn packed(pieces: Vec<&'static [u8]>) -> RequestBody {
    let frames = pieces
        .into_iter()
        .map(|piece| Ok::<_, BoxError>(Frame::data(Bytes::from_static(piece))));
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let frames = futures_util::stream::iter(frames.collect::<Vec<_>>());
    RequestBody::new(
        StreamBody::new(frames),
        Version::HTTP_11,
        &headers,
        &Limits::default(),
    )
}

#[tokio::test]
async fn gzip_body_without_bytes_is_empty() {
    for pieces in [vec![], vec![&b""[..]]] {
        let mut body = packed(pieces);
        assert!(body.is_empty().await.expect("empty is not malformed"));
        assert!(body.end_flag().is_set());
    }
}

#[tokio::test]
async fn truncated_gzip_body_is_malformed() {
    for pieces in [vec![&b"\x1f"[..]], vec![&b"\x1f\x8b\x08"[..]]] {
        let read = packed(pieces).next().await;
        assert!(
            matches!(read, Err(Error::Body(BodyError::NotGzip))),
            "{read:?}"
        );
    }
}

#[tokio::test]
async fn body_of_known_length_ends_with_its_last_byte() {
    let full = Full::new(Bytes::from_static(b"windlass"));
    let mut body = RequestBody::new(
        full,
        Version::HTTP_11,
        &HeaderMap::new(),
        &Limits::default(),
    );
    assert!(!body.is_at_end());
    assert_eq!(body.next().await.unwrap().unwrap(), "windlass");
    assert!(body.is_at_end());
}

/// The body of an HTTP/2 request without a stated length.
async fn read_http2(
    body: impl Body<Data = Bytes, Error = BoxError> + Send + 'static,
) -> Result<u64, Error> {
    let version = Version::HTTP_2;
    let mut body = RequestBody::new(body, version, &HeaderMap::new(), &Limits::default());
    body.discard().await
}

#[tokio::test(start_paused = true)]
async fn wait_that_is_given_up_counts_for_the_rate() {
    let frames = futures_util::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        Some((Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"w"))), ()))
    });
    let mut body = RequestBody::new(
        StreamBody::new(Box::pin(frames)),
        Version::HTTP_11,
        &HeaderMap::new(),
        &Limits::default(),
    );
    let begun = Instant::now();
    // Like an upload that writes its received bytes while its client pauses.
    let end = loop {
        match tokio::time::timeout(Duration::from_secs(1), body.next()).await {
            Err(_) | Ok(Ok(Some(_))) => {}
            Ok(end) => break end,
        }
    };
    assert!(
        matches!(end, Err(Error::Body(BodyError::Slow { .. }))),
        "{end:?}"
    );
    assert_eq!(begun.elapsed(), RATE_WINDOW);
}

#[tokio::test(start_paused = true)]
async fn body_that_is_hurried_is_judged_sooner() {
    let frames = futures_util::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok::<_, BoxError>(Frame::data(Bytes::from_static(b"w"))), ()))
    });
    let frames = StreamBody::new(Box::pin(frames));
    let headers = HeaderMap::new();
    let mut body = RequestBody::new(frames, Version::HTTP_11, &headers, &Limits::default());
    body.hurry();
    let begun = Instant::now();
    let read = body.discard().await;
    assert!(
        matches!(read, Err(Error::Body(BodyError::Slow { .. }))),
        "{read:?}"
    );
    assert_eq!(begun.elapsed(), HURRIED_WINDOW);

    let silent = StreamBody::new(futures_util::stream::pending::<
        Result<Frame<Bytes>, BoxError>,
    >());
    let mut body = RequestBody::new(silent, Version::HTTP_11, &headers, &Limits::default());
    body.hurry();
    let begun = Instant::now();
    let read = body.discard().await;
    assert!(
        matches!(read, Err(Error::Body(BodyError::Stalled(_)))),
        "{read:?}"
    );
    assert_eq!(begun.elapsed(), HURRIED_WINDOW);
}

#[tokio::test]
async fn http2_body_without_a_length_ends_with_its_mark_alone() {
    let piece = Bytes::from_static(b"windlass");
    let marked = Full::new(piece.clone()).map_err(|never| match never {});
    assert_eq!(read_http2(marked).await.expect("it is whole"), 8);
    // As hyper shows a stream that was reset without an error.
    let frames = [Ok::<_, BoxError>(Frame::data(piece))];
    let reset = StreamBody::new(futures_util::stream::iter(frames));
    let read = read_http2(reset).await;
    assert!(
        matches!(read, Err(Error::Body(BodyError::Broken))),
        "{read:?}"
    );
}

/// A body in pieces with a trailer section, and these header fields.
fn verified(fields: &[(&'static str, &str)], trailers: &[(&'static str, &str)]) -> RequestBody {
    let map = |fields: &[(&'static str, &str)]| {
        let fields = fields.iter().map(|(name, value)| {
            let value = HeaderValue::from_str(value).expect("it is valid");
            (HeaderName::from_static(name), value)
        });
        fields.collect::<HeaderMap>()
    };
    let pieces = [&b"12345"[..], b"6789"].into_iter();
    let pieces = pieces.map(|piece| Frame::data(Bytes::from_static(piece)));
    let frames: Vec<_> = pieces.chain([Frame::trailers(map(trailers))]).collect();
    let frames = futures_util::stream::iter(frames.into_iter().map(Ok::<_, BoxError>));
    let headers = map(fields);
    let limits = Limits::default();
    let mut body = RequestBody::new(StreamBody::new(frames), Version::HTTP_11, &headers, &limits);
    let fields = [DigestField::UploadChecksum, DigestField::ContentDigest];
    body.verify(&headers, &fields).expect("the head is valid");
    body
}

#[tokio::test]
async fn body_ends_with_an_error_if_its_digest_differs() {
    const RIGHT: &str = "sha1 98O8HYCOBHMq32eZZczDTKeuNEE=";
    const WRONG: &str = "sha1 AAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    const ANNOUNCED: (&str, &str) = ("trailer", "Expires, upload-checksum");
    type Fields<'a> = &'a [(&'static str, &'a str)];
    let cases: [(Fields<'_>, Fields<'_>, Result<(), &str>); 7] = [
        (&[("upload-checksum", RIGHT)], &[], Ok(())),
        (
            &[("upload-checksum", WRONG)],
            &[],
            Err("does not have the SHA-1"),
        ),
        (&[ANNOUNCED], &[("upload-checksum", RIGHT)], Ok(())),
        (
            &[ANNOUNCED],
            &[("upload-checksum", WRONG)],
            Err("does not have the SHA-1"),
        ),
        (
            &[ANNOUNCED],
            &[("upload-checksum", "sha3 AAAA")],
            Err("none of the algorithms"),
        ),
        (&[ANNOUNCED], &[], Err("did not come")),
        (&[("content-digest", "crc32c=:4waSgw==:")], &[], Ok(())),
    ];
    for (fields, trailers, expected) in cases {
        let mut body = verified(fields, trailers);
        assert!(body.is_verified_at_end());
        let read = body.discard().await.map(drop);
        match (read, expected) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(message)) => {
                assert!(error.to_string().contains(message), "{error}");
            }
            (read, expected) => panic!("{fields:?}: {read:?}, expected {expected:?}"),
        }
        assert!(body.end_flag().is_set());
    }
}

#[tokio::test]
async fn empty_body_is_verified_at_once() {
    for (digest, is_right) in [("crc32c=:AAAAAA==:", true), ("crc32c=:4waSgw==:", false)] {
        let mut headers = HeaderMap::new();
        headers.insert("content-digest", HeaderValue::from_static(digest));
        let empty = http_body_util::Empty::new();
        let mut body = RequestBody::new(empty, Version::HTTP_11, &headers, &Limits::default());
        let verified = body.verify(&headers, &[DigestField::ContentDigest]);
        assert_eq!(verified.is_ok(), is_right);
    }
}
