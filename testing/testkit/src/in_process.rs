//! Requests to a service in the process of the test, and its replies.
//!
//! There is no connection, so a test does not see the bytes that a peer would see.
//! [`raw`](crate::raw) is for such tests.

mod body;
mod reply;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::pin;

use bytes::Bytes;
use http::{Request, Response};
use serde_json::Value;
use tower_service::Service;

pub use body::Body;
pub use reply::Reply;

/// A request. Its body has a length if it is whole, and none if it breaks off.
#[track_caller]
pub fn request(
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Request<Body> {
    let body = body.into();
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = match &body {
        Body::Whole(bytes) => request.header("content-length", bytes.len()),
        Body::Broken(_) | Body::Trailed(..) => request.header("transfer-encoding", "chunked"),
    };
    request.body(body).expect("tests write valid requests")
}

/// Sends a request to a service that always answers, and reads the reply, which must come to its
/// end.
pub async fn exchange<S, B, R>(service: S, request: Request<B>) -> Reply
where
    S: Service<Request<B>, Response = Response<R>, Error: Debug>,
    R: http_body::Body<Data = Bytes>,
{
    let reply = try_exchange(service, request).await;
    assert!(reply.is_whole, "{reply:?}");
    reply
}

/// Like [`exchange`], but reads the reply as far as it comes.
pub async fn try_exchange<S, B, R>(mut service: S, request: Request<B>) -> Reply
where
    S: Service<Request<B>, Response = Response<R>, Error: Debug>,
    R: http_body::Body<Data = Bytes>,
{
    let ready = poll_fn(|context| service.poll_ready(context)).await;
    ready.expect("it always answers");
    let reply = service.call(request).await.expect("it always answers");
    let (head, body) = reply.into_parts();
    let (body, is_whole) = read(body).await;
    Reply {
        status: head.status,
        headers: head.headers,
        body,
        is_whole,
    }
}

/// The bytes of a body, and whether it has arrived completely.
async fn read(body: impl http_body::Body<Data = Bytes>) -> (Bytes, bool) {
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Err(_) => return (bytes.into(), false),
        }
    }
    (bytes.into(), true)
}

/// A server that tests send requests to.
#[expect(
    async_fn_in_trait,
    reason = "tests know the server, and with it whether its futures can be sent"
)]
pub trait Peer {
    /// The origin of the server in URLs, such as `http://farm.test`.
    const ORIGIN: &str;

    /// Sends a request and reads the reply as far as it comes.
    async fn try_exchange(&self, request: Request<Body>) -> Reply;

    /// Sends a request and reads the reply as far as it comes.
    async fn try_send(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Reply {
        let request = request(method, uri, headers, body);
        self.try_exchange(request).await
    }

    /// Sends a request and reads the reply, which must come to its end.
    async fn send(
        &self,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Reply {
        let reply = self.try_send(method, uri, headers, body).await;
        assert!(reply.is_whole, "{reply:?}");
        reply
    }

    /// A call without a body.
    async fn call(&self, method: &str, uri: &str) -> Reply {
        self.send(method, uri, &[], "").await
    }

    /// Reads a URI, which may be absolute.
    async fn get(&self, uri: &str) -> Reply {
        let path = uri.strip_prefix(Self::ORIGIN).unwrap_or(uri);
        self.call("GET", path).await
    }

    /// A call with JSON.
    async fn json(&self, method: &str, uri: &str, body: &Value) -> Reply {
        let headers = [("content-type", "application/json")];
        self.send(method, uri, &headers, body.to_string()).await
    }

    /// Uploads media alone.
    async fn simple(&self, path: &str, content_type: &str, media: &[u8]) -> Reply {
        let uri = upload_uri(path, "media");
        let headers = [("content-type", content_type)];
        self.send("POST", &uri, &headers, media).await
    }

    /// Uploads metadata and media in one request.
    async fn multipart(
        &self,
        path: &str,
        metadata: &Value,
        content_type: &str,
        media: &[u8],
    ) -> Reply {
        let media = (content_type, media);
        self.multipart_by("POST", path, metadata, media).await
    }

    /// Uploads metadata and media in one request of this HTTP method.
    async fn multipart_by(
        &self,
        method: &str,
        path: &str,
        metadata: &Value,
        (content_type, media): (&str, &[u8]),
    ) -> Reply {
        let uri = upload_uri(path, "multipart");
        let head = format!(
            "--=b=\r\nContent-Type: application/json\r\n\r\n{metadata}\r\n\
             --=b=\r\nContent-Type: {content_type}\r\n\r\n"
        );
        let body = [head.as_bytes(), media, b"\r\n--=b=--\r\n"].concat();
        let headers = [("content-type", "multipart/related; boundary=\"=b=\"")];
        self.send(method, &uri, &headers, body).await
    }

    /// Uploads in a session. Returns the reply to its last request, or to the first request if that
    /// was refused.
    async fn resumable(
        &self,
        path: &str,
        metadata: &Value,
        content_type: &str,
        media: &[u8],
    ) -> Reply {
        let uri = upload_uri(path, "resumable");
        let headers = [
            ("content-type", "application/json"),
            ("x-upload-content-type", content_type),
        ];
        let started = self
            .send("POST", &uri, &headers, metadata.to_string())
            .await;
        if !started.status.is_success() {
            return started;
        }
        let session = started.location(Self::ORIGIN);
        self.send("PUT", session, &[], media).await
    }
}

/// Returns the upload URI of a path, which may have parameters.
fn upload_uri(path: &str, upload_type: &str) -> String {
    let sign = if path.contains('?') { '&' } else { '?' };
    format!("/upload{path}{sign}uploadType={upload_type}")
}
