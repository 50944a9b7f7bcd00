//! The requests to an authority, by the server's one way to send requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::uri::Scheme;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use windlass_proto::transfer::retry_after;
use windlass_server::outbound::{Outbound, OutboundAddresses, OutboundLimits};

use super::system_time;

/// Limits on each request. Addresses are not limited: the operator has named the directory, which
/// names the rest.
const LIMITS: OutboundLimits = OutboundLimits {
    timeout: Duration::from_secs(30),
    reply: 256 * 1024,
    addresses: OutboundAddresses::Any,
};

type Reply = Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>>;

/// Sends the requests of one attempt. Clones share the last refusal.
#[derive(Clone)]
pub(super) struct DirectoryClient {
    outbound: Arc<dyn Outbound>,
    refusal: Arc<Mutex<Option<Refusal>>>,
}

/// A reply that is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// How long the authority wants to be left alone.
    pub(super) retry_after: Option<Duration>,
}

impl DirectoryClient {
    pub(super) fn new(outbound: Arc<dyn Outbound>) -> Self {
        Self {
            outbound,
            refusal: Arc::default(),
        }
    }

    /// Returns the last reply, if it was an error.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, refusal: Option<Refusal>) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
    }

    async fn send(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        // RFC 8555, section 6.1, requires HTTPS. No request is sent to any other URL that an
        // authority names.
        if request.uri().scheme() != Some(&Scheme::HTTPS) {
            return Err(Error::Str("a URL by https, in a reply of the authority"));
        }
        let (mut head, body) = request.into_parts();
        // The server sets its own `User-Agent`.
        head.headers.remove(USER_AGENT);
        let Ok(body) = body.collect().await;
        let body = body.to_bytes();
        let sent = self.outbound.send(Request::from_parts(head, body), LIMITS);
        let reply = sent.await.map_err(|error| Error::Other(error.into()));
        let refusal = reply.as_ref().ok().and_then(|reply| {
            let status = reply.status();
            let is_error = status.is_client_error() || status.is_server_error();
            let retry_after = retry_after(reply.headers(), system_time());
            is_error.then_some(Refusal {
                status,
                retry_after,
            })
        });
        self.note(refusal);
        let (parts, body) = reply?.into_parts();
        Ok(BytesResponse {
            parts,
            body: Box::new(body),
        })
    }
}

impl HttpClient for DirectoryClient {
    fn request(&self, request: Request<BodyWrapper<Bytes>>) -> Reply {
        Box::pin(self.clone().send(request))
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use http::Response;
    use http::header::RETRY_AFTER;
    use windlass_server::outbound::OutboundError;

    use super::*;

    /// Gives this answer to every request, and keeps the requests.
    struct Canned(Response<Bytes>, Mutex<Vec<Request<Bytes>>>);

    #[async_trait]
    impl Outbound for Canned {
        async fn send(
            &self,
            request: Request<Bytes>,
            limits: OutboundLimits,
        ) -> Result<Response<Bytes>, OutboundError> {
            assert_eq!(limits, LIMITS);
            self.1.lock().unwrap().push(request);
            Ok(self.0.clone())
        }
    }

    fn canned(status: u16, retry_after: &'static str) -> (Arc<Canned>, DirectoryClient) {
        let reply = Response::builder().status(status);
        let reply = reply
            .header(RETRY_AFTER, retry_after)
            .body(Bytes::from("said"));
        let outbound = Arc::new(Canned(reply.unwrap(), Mutex::default()));
        let client = DirectoryClient::new(Arc::clone(&outbound) as Arc<_>);
        (outbound, client)
    }

    fn request(url: &str) -> Request<BodyWrapper<Bytes>> {
        let request = Request::post(url).header(USER_AGENT, "instant-acme");
        request.body(BodyWrapper::from(b"sent".to_vec())).unwrap()
    }

    #[tokio::test]
    async fn requests_are_sent_by_the_server_and_in_its_name() {
        let (outbound, client) = canned(200, "");
        let mut reply = client
            .request(request("https://ca.example/new"))
            .await
            .unwrap();
        assert_eq!(reply.body.into_bytes().await.unwrap(), "said");
        let sent = outbound.1.lock().unwrap();
        assert_eq!(sent[0].body(), "sent");
        assert_eq!(sent[0].headers().get(USER_AGENT), None);
        assert_eq!(client.refusal(), None);
    }

    #[tokio::test]
    async fn what_a_refusal_asks_for_is_known_until_the_next_reply() {
        let (_, client) = canned(429, "60");
        client
            .request(request("https://ca.example/new"))
            .await
            .unwrap();
        let refusal = client.refusal().expect("a refusal");
        assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(60)));
        // As of an order that is not ready: no failure.
        let (_, client) = canned(200, "60");
        client
            .request(request("https://ca.example/new"))
            .await
            .unwrap();
        assert_eq!(client.refusal(), None);
    }

    #[tokio::test]
    async fn no_other_url_than_one_by_https_is_asked() {
        let (outbound, client) = canned(200, "");
        for url in ["http://ca.example/new", "/new", "ftp://ca.example/"] {
            assert!(client.request(request(url)).await.is_err(), "{url}");
        }
        assert!(outbound.1.lock().unwrap().is_empty());
    }
}
