//! URLs of services that the operator has configured, and documents that are fetched from them.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, Request, StatusCode, Uri};
use serde::Deserialize;
use windlass_server::outbound::{Outbound, OutboundAddresses, OutboundError, OutboundLimits};

/// Time limit of a request to a service.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The URL of a service, by https. By http only on this machine, because anyone on the way could
/// forge keys and answers. The [`Outbound`] of a server has to send requests to the same hosts
/// without a proxy.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct ServiceUrl(Uri);

impl TryFrom<String> for ServiceUrl {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        let not_a_url = "it is not a URL, such as https://issuer.example/keys";
        let uri: Uri = text.parse().map_err(|_| not_a_url)?;
        let authority = uri.authority().ok_or(not_a_url)?;
        if authority.as_str().contains('@') {
            return Err("the URL must not contain a user name");
        }
        match uri.scheme_str() {
            Some("https") => Ok(Self(uri)),
            Some("http") if is_loopback(authority.host()) => Ok(Self(uri)),
            Some("http") => Err(
                "it must be https, unless the host is 127.0.0.1, [::1] or localhost: anyone on \
                 the way could forge what it says",
            ),
            _ => Err(not_a_url),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    let address = literal.parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Why a service has not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    #[error(transparent)]
    Outbound(#[from] OutboundError),
    #[error("it answered with the status {0}")]
    Status(StatusCode),
}

impl ServiceUrl {
    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    /// Fetches the document at the URL.
    pub(crate) async fn get(
        &self,
        outbound: &dyn Outbound,
        max_size: usize,
    ) -> Result<(HeaderMap, Bytes), ServiceError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = self.0.clone();
        let accept = http::HeaderValue::from_static("application/json");
        request.headers_mut().insert(ACCEPT, accept);
        let (head, body) = outbound.send(request, limits(max_size)).await?.into_parts();
        if head.status != StatusCode::OK {
            return Err(ServiceError::Status(head.status));
        }
        Ok((head.headers, body))
    }
}

/// The limits on a request to a service. The operator has named it, so it may have any address.
pub(crate) fn limits(max_size: usize) -> OutboundLimits {
    OutboundLimits {
        timeout: TIMEOUT,
        reply: max_size,
        addresses: OutboundAddresses::Any,
    }
}

impl fmt::Debug for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.host().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_https_or_on_this_machine() {
        for good in [
            "https://issuer.example",
            "https://issuer.example:8443/keys?a=b",
            "http://127.0.0.1:80/keys",
            "http://[::1]/keys",
            "http://LOCALHOST:3000",
        ] {
            assert!(ServiceUrl::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/keys",
            "issuer.example",
            "http://issuer.example",
            "http://127.0.0.1.example",
            "http://localhost.example",
            "http://issuer.localhost",
            "http://0.0.0.0/keys",
            "https://user@issuer.example",
            "ftp://issuer.example",
            "file:///etc/passwd",
        ] {
            assert!(ServiceUrl::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
