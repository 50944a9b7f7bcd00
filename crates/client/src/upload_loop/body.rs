//! Media on its way out: counted, checksummed, held back to the rate.

use std::io;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, iter};
use http::HeaderValue;
use serde_json::Value;
use tokio::time::sleep;

use crate::checksum::RunningChecksum;
use crate::progress::ByteCounter;
use crate::random::random;
use crate::rate_limit::RateLimit;

pub(super) type MediaStream = BoxStream<'static, io::Result<Bytes>>;

/// What is done with bytes as they pass.
pub(super) struct BodyObserver {
    /// Where the next byte is in the media.
    pub(super) offset: u64,
    pub(super) counter: ByteCounter,
    pub(super) checksum: Option<RunningChecksum>,
}

impl BodyObserver {
    fn observe(&mut self, bytes: &Bytes) {
        if let Some(checksum) = &self.checksum {
            checksum.update(self.offset, bytes);
        }
        self.counter.add(bytes.len() as u64);
        self.offset += bytes.len() as u64;
    }
}

/// The stream with everything that is done to it.
pub(super) fn observed(
    stream: MediaStream,
    mut observer: BodyObserver,
    limit: Option<RateLimit>,
) -> MediaStream {
    let stream = match limit {
        Some(limit) => limited(stream, limit),
        None => stream,
    };
    stream
        .inspect(move |bytes| {
            if let Ok(bytes) = bytes {
                observer.observe(bytes);
            }
        })
        .boxed()
}

/// Lets pieces through as the limit allows, none larger than a tenth of a second's worth.
fn limited(stream: MediaStream, limit: RateLimit) -> MediaStream {
    let largest = limit.max_piece();
    stream
        .flat_map(move |bytes| iter(pieces(bytes, largest)))
        .then(move |bytes| {
            let len = bytes.as_ref().map_or(0, Bytes::len);
            let delay = limit.reserve(len);
            async move {
                sleep(delay).await;
                bytes
            }
        })
        .boxed()
}

fn pieces(bytes: io::Result<Bytes>, largest: usize) -> Vec<io::Result<Bytes>> {
    let mut bytes = match bytes {
        Ok(bytes) => bytes,
        Err(error) => return vec![Err(error)],
    };
    let mut pieces = Vec::with_capacity(bytes.len().div_ceil(largest));
    while bytes.len() > largest {
        pieces.push(Ok(bytes.split_to(largest)));
    }
    pieces.push(Ok(bytes));
    pieces
}

/// A boundary out of random bits: nothing of the kind is in the media.
pub(super) fn boundary() -> String {
    let words: [u32; 4] = std::array::from_fn(|_| random());
    words.iter().fold("windlass-".to_owned(), |text, word| {
        format!("{text}{word:08x}")
    })
}

/// The `Content-Type` of a multipart upload.
pub(super) fn related_type(boundary: &str) -> HeaderValue {
    HeaderValue::try_from(format!("multipart/related; boundary={boundary}"))
        .expect("a boundary of hexadecimal digits fits in a header")
}

/// What stands before and behind the media of a multipart upload (RFC 2387).
pub(super) fn related_envelope(
    boundary: &str,
    metadata: &Value,
    content_type: &HeaderValue,
) -> (Bytes, Bytes) {
    let metadata = match metadata {
        Value::Null => "{}".to_owned(),
        metadata => metadata.to_string(),
    };
    let mut head = format!(
        "--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{metadata}\r\n\
         --{boundary}\r\nContent-Type: "
    )
    .into_bytes();
    head.extend_from_slice(content_type.as_bytes());
    head.extend_from_slice(b"\r\nContent-Transfer-Encoding: binary\r\n\r\n");
    let tail = format!("\r\n--{boundary}--\r\n");
    (head.into(), tail.into())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use tokio::time::{Duration, Instant};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_limited_stream_has_the_same_bytes_and_takes_its_time() {
        let media: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let stream = iter([Ok(Bytes::from(media.clone()))]).boxed();
        let limit = RateLimit::new(NonZeroU64::new(5000).expect("it is not zero"));
        let began = Instant::now();
        let transferred: Vec<Bytes> = limited(stream, limit)
            .map(|bytes| bytes.expect("no error"))
            .collect()
            .await;
        assert_eq!(transferred.concat(), media);
        assert!(transferred.iter().all(|piece| piece.len() <= 500));
        let took = began.elapsed();
        assert!(
            took >= Duration::from_millis(1900) && took <= Duration::from_secs(2),
            "{took:?}"
        );
    }

    #[test]
    fn media_and_metadata_make_a_related_document() {
        let (head, tail) = related_envelope(
            "b",
            &serde_json::json!({"name": "Llama"}),
            &HeaderValue::from_static("image/png"),
        );
        let head = String::from_utf8(head.to_vec()).expect("it is text");
        assert!(head.starts_with("--b\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{\"name\":\"Llama\"}\r\n--b\r\n"));
        assert!(head.ends_with("\r\n\r\n"));
        assert_eq!(&tail[..], b"\r\n--b--\r\n");
    }
}
