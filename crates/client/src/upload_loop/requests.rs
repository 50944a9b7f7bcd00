//! What the requests of an upload look like on the wire (docs/protocol.md, 2.3 to 2.8).

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::{AUTHORIZATION, CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use url::Url;
use windlass_proto::header::{X_UPLOAD_CONTENT_LENGTH, X_UPLOAD_CONTENT_TYPE};
use windlass_proto::transfer::{self, Chunk, Plan};
use windlass_proto::upload_type::UploadType;

use super::{UploadDriver, body};
use crate::authenticated_transport::AuthenticatedTransport;
use crate::error::Error;
use crate::source::Media;
use crate::transport::{Body, Request};
use crate::upload::{HttpMethod, Upload};

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");
const UNKNOWN: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// What the transfer has to know.
pub(super) fn plan(
    transport: &AuthenticatedTransport,
    upload: &Upload,
    upload_type: UploadType,
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
        .with_chunking(upload.chunking)
        .with_retry_policy(upload.retry_policy)
        .with_refreshable_token(transport.can_refresh())
}

/// The URL that an upload begins at: the one that was asked for, with its `uploadType`.
pub(super) fn upload_url(url: &Url, upload_type: UploadType) -> Url {
    let query = url.query().unwrap_or_default();
    let kept = query.split('&').filter(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        !name.is_empty() && name != "uploadType" && name != "upload_protocol"
    });
    let uploads = format!("uploadType={upload_type}");
    let pairs: Vec<&str> = kept.chain([uploads.as_str()]).collect();
    let mut url = url.clone();
    url.set_query(Some(&pairs.join("&")));
    url
}

impl UploadDriver<'_> {
    /// The request as it goes out.
    pub(super) async fn outgoing(
        &mut self,
        request: &transfer::Request,
        url: Url,
    ) -> Result<Request, Error> {
        let mut headers = HeaderMap::new();
        if let Some(token) = self.transport.token_for(&self.upload.url, &url).await? {
            headers.insert(AUTHORIZATION, token);
        }
        if let Some(range) = request.content_range() {
            headers.insert(CONTENT_RANGE, range.into());
        }
        let (method, body) = match request {
            transfer::Request::SingleRequest => (self.http_method(), self.one_shot(&mut headers)),
            transfer::Request::Start => (self.http_method(), self.start_body(&mut headers)),
            transfer::Request::Query { .. } => (Method::PUT, Body::Empty),
            transfer::Request::Data(chunk) => (Method::PUT, self.data(*chunk)),
        };
        Ok(Request {
            method,
            url,
            headers,
            body,
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
        self.upload.content_type.clone().unwrap_or(UNKNOWN)
    }

    fn start_body(&self, headers: &mut HeaderMap) -> Body {
        if let Some(content_type) = &self.upload.content_type {
            headers.insert(X_UPLOAD_CONTENT_TYPE, content_type.clone());
        }
        if let Some(total) = self.transfer.total() {
            headers.insert(X_UPLOAD_CONTENT_LENGTH, total.into());
        }
        match &self.upload.metadata {
            Some(metadata) => {
                headers.insert(CONTENT_TYPE, JSON);
                Body::Bytes(metadata.to_string().into())
            }
            None => Body::Empty,
        }
    }

    fn data(&self, chunk: Chunk) -> Body {
        self.counter.start_at(chunk.first);
        if chunk.is_empty() {
            return Body::Empty;
        }
        Body::Stream {
            length: chunk.len(),
            stream: self.media_stream(chunk.first, chunk.end),
        }
    }

    fn one_shot(&self, headers: &mut HeaderMap) -> Body {
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
        headers.insert(CONTENT_TYPE, body::related_type(&self.boundary));
        let metadata = self.upload.metadata.as_ref().unwrap_or(&Value::Null);
        let (head, tail) = body::related_envelope(&self.boundary, metadata, &self.content_type());
        let length = total + (head.len() + tail.len()) as u64;
        let piece = |bytes: Bytes| futures_util::stream::iter([Ok(bytes)]);
        Body::Stream {
            length,
            stream: piece(head).chain(stream).chain(piece(tail)).boxed(),
        }
    }

    /// The size of media that goes in one request; the client has made sure that it is known.
    pub(super) fn media_size(&self) -> u64 {
        self.transfer
            .total()
            .or(self.media.total())
            .unwrap_or_default()
    }

    fn media_stream(&self, first: u64, end: u64) -> body::MediaStream {
        let stream = self.media.read(first..end);
        let observer = body::BodyObserver {
            offset: first,
            counter: self.counter.clone(),
            checksum: self.upload.verify.then(|| self.checksum.clone()),
        };
        body::observed(stream, observer, self.upload.rate_limit.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upload_type_joins_the_query_and_replaces_what_was_there() {
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
}
