//! Session URIs.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};
use url::{Origin, Url};

/// The URI of a resumable session. It is a credential for that session, so `Debug` and `Display`
/// hide its query; [`reveal`](Self::reveal) returns the whole URI.
///
/// ```
/// use windlass_client::SessionUri;
///
/// let session: SessionUri = "https://up.example.com/upload/farm/v1/animals?upload_id=secret".parse().unwrap();
/// assert_eq!(session.to_string(), "https://up.example.com/upload/farm/v1/animals?..");
/// assert!(session.reveal().ends_with("upload_id=secret"));
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Url", into = "Url")]
pub struct SessionUri {
    url: Url,
    /// Origin of the upload URL, if a server issued this URI for an upload; `None` if the user
    /// entered the URI. A token may be sent to this origin only.
    upload_origin: Option<Origin>,
}

/// A text that is not a session URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSessionUri {
    /// Not an absolute URL.
    #[error("a session URI must be an absolute URL")]
    NotAUrl,
    /// Neither `http` nor `https`.
    #[error("a session URI must begin with http:// or https://")]
    Scheme,
}

impl SessionUri {
    /// Returns the whole URI. Do not log it.
    pub fn reveal(&self) -> &str {
        self.url.as_str()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Sets the origin to which tokens may be sent: that of `url`, the upload URL for which the
    /// server issued this URI.
    pub(crate) fn with_upload_origin(self, url: &Url) -> Self {
        Self {
            upload_origin: Some(url.origin()),
            ..self
        }
    }

    /// Returns whether a token may be sent to the session: whether the session URI has the origin
    /// of the upload URL, or the user entered it.
    pub(crate) fn may_receive_token(&self) -> bool {
        match &self.upload_origin {
            Some(upload_origin) => *upload_origin == self.url.origin(),
            // The user entered the URI and so chose its origin.
            None => true,
        }
    }
}

impl TryFrom<Url> for SessionUri {
    type Error = InvalidSessionUri;

    fn try_from(url: Url) -> Result<Self, Self::Error> {
        if matches!(url.scheme(), "http" | "https") {
            Ok(Self {
                url,
                upload_origin: None,
            })
        } else {
            Err(InvalidSessionUri::Scheme)
        }
    }
}

impl From<SessionUri> for Url {
    fn from(session: SessionUri) -> Self {
        session.url
    }
}

impl PartialEq for SessionUri {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url
    }
}

impl Eq for SessionUri {}

impl Hash for SessionUri {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.url.hash(state);
    }
}

impl std::str::FromStr for SessionUri {
    type Err = InvalidSessionUri;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = Url::parse(text).map_err(|_| InvalidSessionUri::NotAUrl)?;
        Self::try_from(url)
    }
}

impl fmt::Display for SessionUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Redacted(&self.url), f)
    }
}

impl fmt::Debug for SessionUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionUri({self})")
    }
}

/// Formats a URL without user, password and fragment. A query is shown as `?..`.
pub(crate) struct Redacted<'a>(pub(crate) &'a Url);

impl fmt::Display for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.0;
        write!(
            f,
            "{}://{}",
            url.scheme(),
            url.host_str().unwrap_or_default()
        )?;
        if let Some(port) = url.port() {
            write!(f, ":{port}")?;
        }
        f.write_str(url.path())?;
        if url.query().is_some() {
            f.write_str("?..")?;
        }
        Ok(())
    }
}
