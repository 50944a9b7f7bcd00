//! Session URIs.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, de};
use url::{Origin, Url};
use windlass_proto::transfer::Protocol;

/// The URI of a resumable session. It is a credential for that session, so `Debug` and `Display`
/// hide its query, and the path as well in the protocols that have their secrets there;
/// [`reveal`](Self::reveal) returns the whole URI.
///
/// A session belongs to a [protocol](Self::protocol). A URI that was parsed or deserialized is one
/// of Google's protocol until [`with_protocol`](Self::with_protocol) says otherwise.
///
/// # Tokens
///
/// [`Client::status`](crate::Client::status) and [`Client::cancel`](crate::Client::cancel) send the
/// client's token to a session only if the user chose the session's origin (scheme, host and port):
///
/// - The URI in an [`Error`](crate::Error::session) or in a record of a journal was chosen by a
///   server. It receives the token if it has the origin of the upload URL.
/// - A URI that was parsed receives the token. So parse only a text that a user entered.
/// - A URI that was deserialized never receives the token, because its text does not show who chose
///   its origin. Serde writes a URI as a string.
///
/// A session rarely needs the token, because its URI is a credential.
///
/// ```
/// use windlass_client::SessionUri;
///
/// let session: SessionUri = "https://up.example.com/upload/farm/v1/animals?upload_id=secret".parse().unwrap();
/// assert_eq!(session.to_string(), "https://up.example.com/upload/farm/v1/animals?..");
/// assert!(session.reveal().ends_with("upload_id=secret"));
/// ```
#[derive(Clone, Serialize)]
#[serde(into = "Url")]
pub struct SessionUri {
    url: Url,
    protocol: Protocol,
    /// The origin to which a token may be sent; `None` for a deserialized URI.
    token_origin: Option<Origin>,
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

    /// Returns the protocol in which requests to the session are written.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Sets the [protocol](Self::protocol). It is not a part of the URI: URIs that differ in it
    /// alone are equal.
    #[must_use]
    pub fn with_protocol(self, protocol: Protocol) -> Self {
        Self { protocol, ..self }
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Limits tokens to the origin of `upload_url`. A server chose this URI in its reply to that
    /// URL, and may have named another origin.
    pub(crate) fn issued_for(self, upload_url: &Url) -> Self {
        Self {
            token_origin: Some(upload_url.origin()),
            ..self
        }
    }

    /// Returns whether a token may be sent to the session.
    pub(crate) fn may_receive_token(&self) -> bool {
        self.token_origin.as_ref() == Some(&self.url.origin())
    }
}

impl TryFrom<Url> for SessionUri {
    type Error = InvalidSessionUri;

    fn try_from(url: Url) -> Result<Self, Self::Error> {
        if matches!(url.scheme(), "http" | "https") {
            Ok(Self {
                protocol: Protocol::default(),
                token_origin: Some(url.origin()),
                url,
            })
        } else {
            Err(InvalidSessionUri::Scheme)
        }
    }
}

impl<'de> Deserialize<'de> for SessionUri {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Parsing as `Url` would quote the text in its errors.
        let text = String::deserialize(deserializer)?;
        let session: Self = text.parse().map_err(de::Error::custom)?;
        Ok(Self {
            token_origin: None,
            ..session
        })
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
        if self.protocol.has_secret_paths() {
            return write!(f, "{}/..", self.url.origin().ascii_serialization());
        }
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
