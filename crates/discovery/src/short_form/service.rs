//! URLs of services that the server calls: `backend` of a method, `on.finished` of a collection.

use http::Uri;
use serde::Deserialize;
use thiserror::Error;

/// The URL of a service: absolute, `http` or `https`.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct ServiceUrl(String);

/// The services that are notified of events in a collection.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Notified {
    /// The service that is notified of each upload that has become a resource.
    pub(super) finished: Option<ServiceUrl>,
}

#[derive(Debug, Error)]
#[error("`{url}` is not a URL such as https://example.com/like, without credentials and fragment")]
pub(super) struct NotAServiceUrl {
    url: String,
}

impl ServiceUrl {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ServiceUrl {
    type Error = NotAServiceUrl;

    fn try_from(url: String) -> Result<Self, NotAServiceUrl> {
        let is_service = |uri: &Uri| {
            let has_scheme = matches!(uri.scheme_str(), Some("http" | "https"));
            let authority = uri.authority().map(http::uri::Authority::as_str);
            has_scheme && authority.is_some_and(|it| !it.is_empty() && !it.contains('@'))
        };
        let parsed: Result<Uri, _> = url.parse();
        if parsed.is_ok_and(|uri| is_service(&uri)) && !url.contains('#') {
            Ok(Self(url))
        } else {
            Err(NotAServiceUrl { url })
        }
    }
}
