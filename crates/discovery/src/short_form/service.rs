//! URLs of services that the server calls: `backend` of a method, `on.finished` of a collection.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use serde::Deserialize;
use thiserror::Error;

/// The URL of a service: absolute, `http` or `https`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ServiceUrl(String);

/// The services that are notified of events in a collection.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Notified {
    /// The service that is notified of each upload that has become a resource.
    pub(super) finished: Option<ServiceUrl>,
}

/// A text that is not a [`ServiceUrl`].
#[derive(Debug, Error)]
#[error("`{url}` is not a URL such as https://example.com/like, without credentials and fragment")]
pub struct NotAServiceUrl {
    url: String,
}

impl ServiceUrl {
    /// Returns it as it is written.
    pub fn as_str(&self) -> &str {
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

impl FromStr for ServiceUrl {
    type Err = NotAServiceUrl;

    fn from_str(url: &str) -> Result<Self, NotAServiceUrl> {
        url.to_owned().try_into()
    }
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
