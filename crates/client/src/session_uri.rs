//! Session URIs, which are credentials.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

/// The URI of a resumable session. Whoever has it can upload to the session, so `Debug` and
/// `Display` show everything but its query; [`reveal`](Self::reveal) shows it all.
///
/// ```
/// use windlass_client::SessionUri;
///
/// let session: SessionUri = "https://up.example.com/upload/farm/v1/animals?upload_id=secret".parse().unwrap();
/// assert_eq!(session.to_string(), "https://up.example.com/upload/farm/v1/animals?..");
/// assert!(session.reveal().ends_with("upload_id=secret"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Url", into = "Url")]
pub struct SessionUri(Url);

/// A text that is no session URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSessionUri {
    /// Not an absolute URL.
    #[error("a session URI is an absolute URL")]
    NotAUrl,
    /// Neither `http` nor `https`.
    #[error("a session URI begins with http:// or https://")]
    Scheme,
}

impl SessionUri {
    /// The URI itself. Do not log it.
    pub fn reveal(&self) -> &str {
        self.0.as_str()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }
}

impl TryFrom<Url> for SessionUri {
    type Error = InvalidSessionUri;

    fn try_from(url: Url) -> Result<Self, Self::Error> {
        if matches!(url.scheme(), "http" | "https") {
            Ok(Self(url))
        } else {
            Err(InvalidSessionUri::Scheme)
        }
    }
}

impl From<SessionUri> for Url {
    fn from(session: SessionUri) -> Self {
        session.0
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
        fmt::Display::fmt(&Redacted(&self.0), f)
    }
}

impl fmt::Debug for SessionUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionUri({self})")
    }
}

/// A URL as it may be shown: without user, password, query and fragment.
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
