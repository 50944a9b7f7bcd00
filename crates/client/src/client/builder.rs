//! How a client is put together.

use std::fmt;
use std::sync::Arc;

use http::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HOST, RANGE,
    TRANSFER_ENCODING,
};
use http::{HeaderName, HeaderValue};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use windlass_proto::header::{
    TUS_RESUMABLE, UPLOAD_COMPLETE, UPLOAD_DEFER_LENGTH, UPLOAD_DRAFT_INTEROP_VERSION,
    UPLOAD_LENGTH, UPLOAD_METADATA, UPLOAD_OFFSET, X_GOOG_UPLOAD_COMMAND, X_GOOG_UPLOAD_OFFSET,
    X_GOOG_UPLOAD_PROTOCOL,
};

use super::Client;
use crate::error::Error;
use crate::identity::ClientIdentity;
use crate::token::{TokenError, TokenSource, TransportAndToken};
use crate::transport::{HttpTransport, HttpTransportOptions, Timeouts, Transport};

/// Header fields that the protocol sets itself.
const RESERVED: [HeaderName; 17] = [
    CONTENT_DISPOSITION,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    CONTENT_TYPE,
    HOST,
    RANGE,
    TRANSFER_ENCODING,
    TUS_RESUMABLE,
    UPLOAD_COMPLETE,
    UPLOAD_DEFER_LENGTH,
    UPLOAD_DRAFT_INTEROP_VERSION,
    UPLOAD_LENGTH,
    UPLOAD_METADATA,
    UPLOAD_OFFSET,
    X_GOOG_UPLOAD_COMMAND,
    X_GOOG_UPLOAD_OFFSET,
    X_GOOG_UPLOAD_PROTOCOL,
];

/// Builds a [`Client`]; see [`Client::builder`].
///
/// ```
/// use windlass_client::Client;
///
/// let client = Client::builder()
///     .bearer("ya29.token")?
///     .header("X-Api-Key", "k-42")?
///     .user_agent("album/1.0")?
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
#[must_use]
pub struct ClientBuilder {
    timeouts: Timeouts,
    token: Option<TokenSource>,
    allows_plain_http: bool,
    transport: HttpTransportOptions,
}

/// Why a value is no setting of a client. No message contains the value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSetting {
    /// A header field has a name or a value that HTTP does not allow.
    #[error("the name or the value of the header field is not valid in HTTP")]
    Header,
    /// The protocol sets the header field itself.
    #[error("the header field `{name}` belongs to the upload protocol")]
    ReservedHeader {
        /// Its name.
        name: HeaderName,
    },
    /// The text of [`ClientBuilder::root_certificates`] has no certificate in PEM, or a damaged
    /// one.
    #[error("there is no certificate in PEM, or one is damaged")]
    RootCertificates,
}

impl ClientBuilder {
    /// Sets the timeouts of connections and requests. With a [client of one's
    /// own](Self::http_client) [`Timeouts::connect`] is that client's.
    pub fn timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }

    /// Sets the source of bearer tokens. Default: requests have no token.
    ///
    /// A token is sent only to the origin (scheme, host and port) of the URL of the upload or
    /// download. A server may name another origin, in the URI of a session or in a redirection;
    /// requests to it have no token. [`SessionUri`](crate::SessionUri) says when
    /// [`status`](Client::status) and [`cancel`](Client::cancel) send one.
    ///
    /// A request that needs a token fails before it is sent if its URL is neither `https` nor one
    /// of this machine (`localhost`, `127.0.0.0/8` or `::1`), unless [plain HTTP is
    /// allowed](Self::allow_plain_http).
    pub fn token(self, token: impl Into<Option<TokenSource>>) -> Self {
        Self {
            token: token.into(),
            ..self
        }
    }

    /// Sends this bearer token, under the conditions of [`token`](Self::token).
    ///
    /// # Errors
    ///
    /// The text cannot be a bearer token.
    pub fn bearer(self, token: impl Into<String>) -> Result<Self, TokenError> {
        Ok(self.token(TokenSource::fixed(token)?))
    }

    /// Sets whether [tokens](Self::token) are also sent without encryption, to servers on other
    /// machines. Everybody on the way can then read and use them. Default: false.
    pub fn allow_plain_http(self, allowed: bool) -> Self {
        Self {
            allows_plain_http: allowed,
            ..self
        }
    }

    /// Sets the certificate for servers that ask for one. Default: none is presented.
    ///
    /// It is presented to the origin that may receive a token, and to no other.
    pub fn identity(mut self, identity: impl Into<Option<ClientIdentity>>) -> Self {
        self.transport.identity = identity.into();
        self
    }

    /// Sends this header field with every request to the origin that may receive a
    /// [token](Self::token), and to no other: it may be a key. A field of the same name that was
    /// set before is replaced.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting::Header`], and [`InvalidSetting::ReservedHeader`] for fields that the
    /// protocol sets itself, such as `Content-Range`.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, InvalidSetting> {
        let name: HeaderName = name.parse().map_err(|_| InvalidSetting::Header)?;
        let mut value: HeaderValue = value.parse().map_err(|_| InvalidSetting::Header)?;
        if RESERVED.contains(&name) {
            return Err(InvalidSetting::ReservedHeader { name });
        }
        value.set_sensitive(true);
        self.transport.headers.insert(name, value);
        Ok(self)
    }

    /// Sets the `User-Agent`, which all servers get. Default: `windlass/VERSION`.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting::Header`].
    pub fn user_agent(mut self, user_agent: &str) -> Result<Self, InvalidSetting> {
        let value = user_agent.parse().map_err(|_| InvalidSetting::Header)?;
        self.transport.user_agent = Some(value);
        Ok(self)
    }

    /// Trusts the authorities with these certificates in PEM, in addition to the system's
    /// authorities.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting::RootCertificates`].
    pub fn root_certificates(mut self, pem: &[u8]) -> Result<Self, InvalidSetting> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let certificates = certificates.map_err(|_| InvalidSetting::RootCertificates)?;
        if certificates.is_empty() {
            return Err(InvalidSetting::RootCertificates);
        }
        self.transport.roots.extend(certificates);
        Ok(self)
    }

    /// Sends requests by this client of the crate `reqwest` 0.13, for example because it has a
    /// proxy or a resolver of one's own. Its connections, its TLS and its proxies are used;
    /// [`header`](Self::header), [`user_agent`](Self::user_agent) and [`token`](Self::token) are
    /// set here all the same.
    ///
    /// They are used for this machine as well, to which a [token](Self::token) is sent without
    /// encryption: unless its proxies leave out `localhost`, the names below it and the loopback
    /// addresses, a proxy can read that token.
    ///
    /// It must neither follow redirections nor retry nor decompress: build it with
    /// `redirect(Policy::none())` and `retry(reqwest::retry::never())`, and without a limit for
    /// whole requests (`timeout`).
    ///
    /// # Errors
    ///
    /// [`build`](Self::build) fails if [`identity`](Self::identity) or
    /// [`root_certificates`](Self::root_certificates) are given too: they are a part of the
    /// client's TLS.
    pub fn http_client(mut self, client: reqwest::Client) -> Self {
        self.transport.http_client = Some(client);
        self
    }

    /// Builds the client. Without an [own HTTP client](Self::http_client) it takes root
    /// certificates from the system and proxies from the environment. Requests to `localhost`, the
    /// names below it and the loopback addresses are sent through no proxy.
    ///
    /// # Errors
    ///
    /// Settings contradict each other, see [`http_client`](Self::http_client), or the HTTP client
    /// cannot be set up. The latter is known to happen only with invalid [root
    /// certificates](Self::root_certificates).
    pub fn build(mut self) -> Result<Client, Error> {
        let options = std::mem::take(&mut self.transport);
        let transport = HttpTransport::new(self.timeouts, options)?;
        Ok(self.build_over(Arc::new(transport)))
    }

    /// Builds a client that sends its requests over `transport`. Of the settings, only the
    /// [token](Self::token) counts and [where it may go](Self::allow_plain_http).
    pub fn build_over(self, transport: Arc<dyn Transport>) -> Client {
        let with_token = TransportAndToken::new(transport, self.token, self.allows_plain_http);
        Client(Arc::new(with_token))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("timeouts", &self.timeouts)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_protocol_and_unprintable_values_are_refused() {
        for (name, value, expected) in [
            (
                "Content-Range",
                "bytes 0-1/2",
                "the header field `content-range` belongs to the upload protocol",
            ),
            (
                "Tus-Resumable",
                "1.0.0",
                "the header field `tus-resumable` belongs to the upload protocol",
            ),
            (
                "host",
                "h",
                "the header field `host` belongs to the upload protocol",
            ),
            (
                "X Key",
                "k",
                "the name or the value of the header field is not valid in HTTP",
            ),
            (
                "X-Key",
                "s3cret\n",
                "the name or the value of the header field is not valid in HTTP",
            ),
        ] {
            let error = Client::builder().header(name, value).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        assert!(Client::builder().user_agent("a\nb").is_err());
        assert!(Client::builder().root_certificates(b"no PEM").is_err());
        assert!(Client::builder().bearer("").is_err());
    }

    #[test]
    fn debug_shows_no_key() {
        let builder = Client::builder().bearer("s3cret-token").unwrap();
        let builder = builder.header("X-Api-Key", "s3cret-key").unwrap();
        let shown = format!("{builder:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        let client = format!("{:?}", builder.build().unwrap());
        assert!(!client.contains("s3cret"), "{client}");
    }
}
