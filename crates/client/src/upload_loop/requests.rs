//! The HTTP requests of an upload. The protocol writes their heads, except for a single request
//! (docs/protocol.md, 2.3). The media in their bodies is counted, added to a checksum and limited to
//! a rate while the transport takes it.

use std::io;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, iter};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use tokio::time::sleep;
use url::Url;
use windlass_proto::transfer::{self, Chunk, Content, Description, Plan, Protocol};
use windlass_proto::upload_type::UploadType;

use super::UploadDriver;
use crate::checksum::RunningChecksum;
use crate::error::Error;
use crate::progress::{ByteCounter, RateLimit};
use crate::random;
use crate::source::Media;
use crate::token::TransportAndToken;
use crate::transport::{Body, MAX_SLICE, Request};
use crate::upload::{HttpMethod, Upload};

const OCTET_STREAM: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Returns the plan of a transfer: how it may divide the media, and when it retries.
pub(super) fn plan(
    transport: &TransportAndToken,
    upload: &Upload,
    (upload_type, protocol): (UploadType, Option<Protocol>),
    media: &Media,
) -> Plan {
    let media_info = match (media.is_stream(), media.total()) {
        (false, Some(total)) => transfer::Media::seekable(total),
        (_, total) => transfer::Media::streamed(total),
    };
    let media_info = match media.window() {
        Some(window) => media_info.with_window(window),
        None => media_info,
    };
    Plan::new(upload_type, media_info)
        .with_protocol(protocol)
        .with_chunking(upload.chunking)
        .with_retry_policy(upload.retry_policy)
        .with_refreshable_token(transport.can_refresh())
}

/// Returns the URL of a start or of a single request in Google's form: the caller's, with the
/// parameter `uploadType`. An `uploadType` of the caller is replaced, as is its synonym `upload_protocol`
/// (docs/protocol.md, 5.3).
pub(super) fn upload_url(url: &Url, upload_type: UploadType) -> Url {
    let query = url.query().unwrap_or_default();
    let kept = query.split('&').filter(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        !name.is_empty() && name != "uploadType" && name != "upload_protocol"
    });
    let parameter = format!("uploadType={upload_type}");
    let pairs: Vec<&str> = kept.chain([parameter.as_str()]).collect();
    let mut url = url.clone();
    url.set_query(Some(&pairs.join("&")));
    url
}

impl UploadDriver<'_> {
    /// Builds the HTTP request.
    pub(super) async fn outgoing(
        &mut self,
        request: &transfer::Request,
        url: Url,
    ) -> Result<Request, Error> {
        let head = self.transfer.head(request, &self.description())?;
        let (method, mut headers) = (head.method, head.headers);
        if let Some(token) = self
            .transport
            .authorization_for(&self.upload.url, &url)
            .await?
        {
            headers.insert(AUTHORIZATION, token);
        }
        let body = match head.content {
            Content::Empty => Body::Empty,
            Content::Metadata => self.metadata_body(),
            Content::Chunk(chunk) => self.chunk_body(chunk),
            Content::Whole => self.single_request_body(&mut headers),
        };
        let may_receive_credentials = url.origin() == self.upload.url.origin();
        Ok(Request {
            method,
            url,
            headers,
            body,
            may_receive_credentials,
        })
    }

    fn http_method(&self) -> Method {
        match self.upload.http_method {
            HttpMethod::Post => Method::POST,
            HttpMethod::Put => Method::PUT,
            HttpMethod::Patch => Method::PATCH,
        }
    }

    fn content_type(&self) -> HeaderValue {
        self.upload.content_type.clone().unwrap_or(OCTET_STREAM)
    }

    /// Returns what a start says about the media.
    fn description(&self) -> Description<'_> {
        Description {
            method: self.http_method(),
            total: self.transfer.total(),
            content_type: self.upload.content_type.as_ref(),
            file_name: self.media.file_name(),
            metadata: self.upload.metadata.as_ref(),
        }
    }

    fn metadata_body(&self) -> Body {
        match &self.upload.metadata {
            Some(metadata) => Body::Bytes(metadata.to_string().into()),
            None => Body::Empty,
        }
    }

    fn chunk_body(&self, chunk: Chunk) -> Body {
        self.counter.start_at(chunk.first);
        if chunk.is_empty() {
            return Body::Empty;
        }
        Body::Stream {
            length: chunk.len(),
            stream: self.media_stream(chunk.first, chunk.end),
        }
    }

    fn single_request_body(&self, headers: &mut HeaderMap) -> Body {
        let total = self.media_size();
        self.counter.start_at(0);
        let stream = self.media_stream(0, total);
        if self.upload_type == UploadType::Media {
            headers.insert(CONTENT_TYPE, self.content_type());
            return match total {
                0 => Body::Empty,
                length => Body::Stream { length, stream },
            };
        }
        headers.insert(CONTENT_TYPE, related_type(&self.boundary));
        let metadata = self.upload.metadata.as_ref().unwrap_or(&Value::Null);
        let (head, tail) = related_envelope(&self.boundary, metadata, &self.content_type());
        let length = total + (head.len() + tail.len()) as u64;
        let once = |bytes: Bytes| iter([Ok(bytes)]);
        Body::Stream {
            length,
            stream: once(head).chain(stream).chain(once(tail)).boxed(),
        }
    }

    /// Returns the size of the media of a single request. It is known: media of unknown size is
    /// never sent in a single request.
    pub(super) fn media_size(&self) -> u64 {
        self.transfer
            .total()
            .or(self.media.total())
            .unwrap_or_default()
    }

    /// Returns the bytes `first..end` of the media as the body of a request.
    fn media_stream(&self, first: u64, end: u64) -> MediaStream {
        let stream = self.media.read(first..end);
        let observer = BodyObserver {
            offset: first,
            counter: self.counter.clone(),
            checksum: self.upload.verify.then(|| self.checksum.clone()),
        };
        observed(stream, observer, self.upload.rate_limit.clone())
    }
}

type MediaStream = BoxStream<'static, io::Result<Bytes>>;

/// Counts the media that the transport takes from a body, and adds it to a checksum.
struct BodyObserver {
    /// Offset of the next byte in the media.
    offset: u64,
    counter: ByteCounter,
    checksum: Option<RunningChecksum>,
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

/// Adds a rate limit, a counter and a checksum to a stream.
fn observed(
    stream: MediaStream,
    mut observer: BodyObserver,
    limit: Option<RateLimit>,
) -> MediaStream {
    let stream = match limit {
        Some(limit) => limited(stream, limit),
        None => stream,
    };
    // Bytes are counted when they are taken from the stream. A piece may be the whole media, so it
    // is split. Otherwise all of it would count as sent at once.
    stream
        .flat_map(|bytes| iter(slices(bytes, MAX_SLICE)))
        .inspect(move |bytes| {
            if let Ok(bytes) = bytes {
                observer.observe(bytes);
            }
        })
        .boxed()
}

/// Delays the bytes of a stream, so that they pass at the rate. Splits them into slices that take a
/// tenth of a second each, but have at least one byte.
fn limited(stream: MediaStream, limit: RateLimit) -> MediaStream {
    let max_slice = limit.max_slice();
    stream
        .flat_map(move |bytes| iter(slices(bytes, max_slice)))
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

/// Splits bytes, without a copy, into slices of at most `max_slice` bytes.
fn slices(
    bytes: io::Result<Bytes>,
    max_slice: usize,
) -> impl Iterator<Item = io::Result<Bytes>> + Send {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || match rest.take()? {
        Ok(mut bytes) if bytes.len() > max_slice => {
            let slice = bytes.split_to(max_slice);
            rest = Some(Ok(bytes));
            Some(Ok(slice))
        }
        last => Some(last),
    })
}

/// Returns a boundary of a multipart body. It has 128 random bits, so that it does not occur in the
/// media.
pub(super) fn boundary() -> String {
    let words: [u32; 4] = std::array::from_fn(|_| random());
    words.iter().fold("windlass-".to_owned(), |text, word| {
        format!("{text}{word:08x}")
    })
}

/// Returns the `Content-Type` of a multipart upload.
fn related_type(boundary: &str) -> HeaderValue {
    HeaderValue::try_from(format!("multipart/related; boundary={boundary}"))
        .expect("a boundary of hexadecimal digits fits in a header")
}

/// Returns the bytes before and after the media in the body of a multipart upload (RFC 2387).
fn related_envelope(
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

    #[test]
    fn upload_type_is_added_to_the_query_and_replaces_an_earlier_one() {
        let table = [
            ("http://h/u", "http://h/u?uploadType=media"),
            (
                "http://h/u?fields=id%2Cname",
                "http://h/u?fields=id%2Cname&uploadType=media",
            ),
            (
                "http://h/u?uploadType=resumable&key=k",
                "http://h/u?key=k&uploadType=media",
            ),
            (
                "http://h/u?upload_protocol=raw",
                "http://h/u?uploadType=media",
            ),
        ];
        for (url, expected) in table {
            let url = upload_url(&url.parse().expect("it is a URL"), UploadType::Media);
            assert_eq!(url.as_str(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rate_limited_stream_has_the_same_bytes_at_the_rate() {
        let media: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let stream = iter([Ok(Bytes::from(media.clone()))]).boxed();
        let limit = RateLimit::new(NonZeroU64::new(5000).expect("it is not zero"));
        let began = Instant::now();
        let transferred: Vec<Bytes> = limited(stream, limit)
            .map(|bytes| bytes.expect("no error"))
            .collect()
            .await;
        assert_eq!(transferred.concat(), media);
        assert!(transferred.iter().all(|slice| slice.len() <= 500));
        let took = began.elapsed();
        assert!(
            took >= Duration::from_millis(1900) && took <= Duration::from_secs(2),
            "{took:?}"
        );
    }

    #[test]
    fn media_and_metadata_form_a_related_document() {
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
