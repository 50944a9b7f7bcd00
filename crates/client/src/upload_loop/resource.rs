//! The resource of a finished upload.

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LOCATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde_json::Value;
use url::Url;
use windlass_proto::transfer::Protocol;

use super::UploadDriver;
use crate::error::{Error, WithCauses};
use crate::session_uri::SessionUri;
use crate::transport::{Body, Reply, Request, TransportError};

const JSON: &str = "application/json";

impl UploadDriver<'_> {
    /// Returns the resource that the last reply shows. No reply of tus shows one, but the last one
    /// may name it in `Content-Location`; the resource is then read from there. `size` is the size
    /// of the media.
    pub(super) async fn resource_of(
        &self,
        reply: &Reply,
        size: u64,
    ) -> Result<Option<Value>, Error> {
        if self.protocol() != Protocol::Tus {
            return Ok(serde_json::from_slice(&reply.body).ok());
        }
        let Some(url) = self.resource_url(reply) else {
            return Ok(None);
        };
        match self.read_resource(url, size).await? {
            Ok(resource) => Ok(resource),
            // The media is uploaded all the same.
            Err(error) => {
                let error = WithCauses(&error);
                tracing::warn!(%error, "cannot read the resource of a finished upload");
                Ok(None)
            }
        }
    }

    /// Returns the URL of the resource, if it has the origin of the upload URL.
    fn resource_url(&self, reply: &Reply) -> Option<Url> {
        let location = reply.headers.get(CONTENT_LOCATION)?.to_str().ok()?;
        let session = self.session.as_ref().map(SessionUri::url);
        let url = session.unwrap_or(&self.upload.url).join(location).ok()?;
        (url.origin() == self.upload.url.origin()).then_some(url)
    }

    async fn read_resource(
        &self,
        url: Url,
        size: u64,
    ) -> Result<Result<Option<Value>, TransportError>, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(JSON));
        let token = self.transport.authorization_for(&self.upload.url, &url);
        if let Some(token) = token.await? {
            headers.insert(AUTHORIZATION, token);
        }
        let request = Request {
            method: Method::GET,
            url,
            headers,
            body: Body::Empty,
            may_receive_credentials: true,
        };
        let incoming = match self.transport.transport().open(request).await {
            Ok(incoming) => incoming,
            Err(error) => return Ok(Err(error)),
        };
        if incoming.status != StatusCode::OK || !is_json(&incoming.headers) {
            return Ok(Ok(None));
        }
        let body = incoming.collect().await.map(|reply| reply.body);
        // What is as long as the media may be the media itself, which some servers name there.
        let body = body.map(|body| Some(body).filter(|body| body.len() as u64 != size));
        Ok(body.map(|body| serde_json::from_slice(&body?).ok()))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = content_type.and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(JSON))
}
