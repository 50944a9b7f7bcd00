//! Authentication and authorization: the trait [`Authorize`] and three implementations.
//!
//! [`Authorize::authenticate`] is called before a request is routed, so that an unauthenticated
//! caller does not learn which paths exist. [`Authorize::authorize`] is called when the method of a
//! call is known. The liveness and readiness probes, `/healthz` and `/readyz`, need no credentials.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method as HttpMethod, Uri};
use sha2::{Digest as _, Sha256};
use windlass_discovery::Method;
use windlass_rest::access::AccessError;
use windlass_rest::principal::Principal;
use windlass_store::{SessionId, Timestamp};

use crate::ambient_authority::AmbientAuthority;
use crate::client_certificate::ClientCertificate;

/// Decides who may send requests and call methods.
#[async_trait]
pub trait Authorize: Send + Sync + 'static {
    /// Identifies the sender of a request. `None` means that the request needs no principal.
    ///
    /// Many clients send no credentials with a request that continues an upload
    /// ([`Access::Session`], [`Access::OwnedSession`]): the session URI is the credential. If the
    /// server is configured to demand the owner's credentials, the server itself checks them.
    ///
    /// # Errors
    /// [`AccessError`], which becomes the reply.
    async fn authenticate(
        &self,
        request: &AccessRequest<'_>,
    ) -> Result<Option<Principal>, AccessError>;

    /// Refuses a call of a method, including the start of an upload and an upload in one request.
    /// This method is called before the body is read. Default: all calls are allowed.
    ///
    /// # Errors
    /// [`AccessError`], which becomes the reply.
    async fn authorize(
        &self,
        principal: Option<&Principal>,
        method: &Method,
    ) -> Result<(), AccessError> {
        let _ = (principal, method);
        Ok(())
    }

    /// Whether requests need credentials. If requests need none, pages of other origins may neither
    /// read nor write unless [`Settings::cors`](crate::Settings::cors) allows it. A browser would
    /// otherwise send the requests of such a page from inside its user's network. An application
    /// that checks origins in its own layer keeps the default. Default: true.
    fn demands_credentials(&self) -> bool {
        true
    }

    /// Whether an upload session has been revoked. This method is called for each request to a
    /// session. A revoked session is answered 404, like an expired session. Running requests of a
    /// revoked session continue. The server holds a lock during the call, so an implementation must
    /// answer from memory and never block. Default: no session is revoked.
    fn is_revoked(&self, session: &SessionInfo<'_>) -> bool {
        let _ = session;
        false
    }
}

/// The facts about an upload session by which it may be revoked.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SessionInfo<'a> {
    /// Id. The session URI cannot be derived from it.
    pub id: SessionId,
    /// Id of the principal that started the session, if it is known.
    pub principal: Option<&'a str>,
    /// Time of the start.
    pub started: Timestamp,
}

impl<'a> SessionInfo<'a> {
    /// Returns a session. For tests of an [`Authorize`].
    pub fn new(id: SessionId, principal: Option<&'a str>, started: Timestamp) -> Self {
        Self {
            id,
            principal,
            started,
        }
    }
}

/// A request to authenticate.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AccessRequest<'a> {
    /// The kind of target that the request has.
    pub access: Access,
    /// Effective HTTP method: the value of `X-HTTP-Method-Override` if the header is present.
    pub http_method: &'a HttpMethod,
    /// Target.
    pub uri: &'a Uri,
    /// Headers.
    pub headers: &'a HeaderMap,
    /// Address of the client's end of the connection, if it is known.
    pub peer: Option<SocketAddr>,
    /// Address of the client, if the client is limited by its address. Behind a trusted proxy this
    /// is the address that the proxy states. An IPv6 address is replaced by its /64 network.
    pub limited_client: Option<IpAddr>,
    /// Certificate that the client presented for the connection and that was accepted.
    /// [`ClientCertificate`] says when it is left out.
    pub certificate: Option<&'a ClientCertificate>,
    /// The rights that the request has without credentials from its sender, such as a token.
    pub ambient_authority: AmbientAuthority,
    /// URL under which the client reached the server, as session URIs begin with, without a slash
    /// at its end. Empty if the URL is not known.
    pub base_url: &'a str,
    /// Principal that a layer in front has identified.
    pub principal: Option<&'a Principal>,
}

impl<'a> AccessRequest<'a> {
    /// Returns a request from an unknown address, without a certificate and a principal. For tests
    /// of an [`Authorize`].
    pub fn new(
        access: Access,
        http_method: &'a HttpMethod,
        uri: &'a Uri,
        headers: &'a HeaderMap,
    ) -> Self {
        Self {
            access,
            http_method,
            uri,
            headers,
            peer: None,
            limited_client: None,
            certificate: None,
            ambient_authority: AmbientAuthority::Full,
            base_url: "",
            principal: None,
        }
    }

    /// Sets the address of the client's end of the connection.
    #[must_use]
    pub fn from_peer(self, peer: SocketAddr) -> Self {
        Self {
            peer: Some(peer),
            ..self
        }
    }

    /// Sets the address by which the client is limited.
    #[must_use]
    pub fn limited_as(self, client: IpAddr) -> Self {
        Self {
            limited_client: Some(client),
            ..self
        }
    }

    /// Sets the certificate that the client has presented.
    #[must_use]
    pub fn with_certificate(self, certificate: &'a ClientCertificate) -> Self {
        Self {
            certificate: Some(certificate),
            ..self
        }
    }

    /// Sets the rights that the request has without credentials from its sender, such as a token.
    #[must_use]
    pub fn with_ambient_authority(self, ambient_authority: AmbientAuthority) -> Self {
        Self {
            ambient_authority,
            ..self
        }
    }

    /// Sets the URL under which the client reached the server, without a slash at its end.
    #[must_use]
    pub fn at_base_url(self, base_url: &'a str) -> Self {
        Self { base_url, ..self }
    }

    /// Sets the principal that a layer in front has identified.
    #[must_use]
    pub fn of_principal(self, principal: &'a Principal) -> Self {
        Self {
            principal: Some(principal),
            ..self
        }
    }
}

/// The kind of a request's target, determined from its path and query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// The discovery service, from which client libraries read the descriptions of APIs, and the
    /// page at `/`, which shows the same APIs to people.
    Discovery,
    /// An upload session. Only the client that started the session has its URI.
    Session,
    /// An upload session on a server that reserves sessions for their owners
    /// ([`SessionAuth::Owner`](crate::config::SessionAuth)). The owner of some sessions is not
    /// known, so credentials may be missing, but invalid credentials are refused.
    OwnedSession,
    /// A method of an API, or an unknown path.
    Call,
}

impl Access {
    /// Demands credentials for calls. `found` is the result of checking the request's credentials,
    /// if there are any. Sessions need no credentials, because their URIs are credentials.
    /// Discovery needs none, because Google's Python library reads it before it has credentials.
    /// Invalid credentials are ignored for both. For sessions of owners they are an error instead,
    /// so that the client learns the reason.
    ///
    /// # Errors
    /// The error in `found`, and [`AccessError::CredentialsMissing`].
    pub fn demand(
        self,
        found: Result<Option<Principal>, AccessError>,
    ) -> Result<Option<Principal>, AccessError> {
        match (self, found) {
            (Self::Call, Ok(None)) => Err(AccessError::CredentialsMissing),
            (Self::Session | Self::Discovery, Err(_)) => Ok(None),
            (Self::Call | Self::OwnedSession | Self::Session | Self::Discovery, found) => found,
        }
    }
}

/// Allows everything, and takes the principal of a layer in front if the layer sets one. The
/// default.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

#[async_trait]
impl Authorize for AllowAll {
    async fn authenticate(
        &self,
        request: &AccessRequest<'_>,
    ) -> Result<Option<Principal>, AccessError> {
        Ok(request.principal.cloned())
    }

    fn demands_credentials(&self) -> bool {
        false
    }
}

/// Demands the principal of a layer in front, except for sessions and discovery. Session URIs are
/// credentials, and Google's Python library reads discovery before it has credentials.
///
/// For applications that authenticate in a layer: the layer inserts a [`Principal`] if it finds
/// one. The layer need not know which requests may lack a principal.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequirePrincipal;

#[async_trait]
impl Authorize for RequirePrincipal {
    async fn authenticate(
        &self,
        request: &AccessRequest<'_>,
    ) -> Result<Option<Principal>, AccessError> {
        request.access.demand(Ok(request.principal.cloned()))
    }
}

/// Demands one token in `Authorization: Bearer`, except for sessions and discovery. Session URIs
/// are credentials, and Google's Python library reads discovery before it has credentials.
///
/// ```
/// use windlass_server::{BearerToken, Principal};
///
/// let authorize = BearerToken::new("5e1f…", Principal::new("camera-7"));
/// ```
#[derive(Clone)]
pub struct BearerToken {
    // Hashes are compared, so that the time of a comparison reveals nothing about the token.
    hash: [u8; 32],
    principal: Principal,
}

impl BearerToken {
    /// Returns an authorization that accepts this token as the credential of `principal`.
    pub fn new(token: &str, principal: Principal) -> Self {
        Self {
            hash: Sha256::digest(token).into(),
            principal,
        }
    }

    /// Checks the credentials of a request; `None` if it has none.
    fn check(&self, headers: &HeaderMap) -> Option<Result<(), AccessError>> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let value = values.next()?;
        let token = value.to_str().ok().and_then(bearer_token);
        let is_right = |token: &str| <[u8; 32]>::from(Sha256::digest(token)) == self.hash;
        // With two values it is unclear which one applies, so both are refused.
        let is_valid = values.next().is_none() && token.is_some_and(is_right);
        Some(if is_valid {
            Ok(())
        } else {
            Err(AccessError::CredentialsInvalid)
        })
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerToken")
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}

/// Returns the token in `Bearer TOKEN`. The scheme is case-insensitive (RFC 9110, section 11.1).
fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("Bearer")
        .then(|| token.trim_matches(' '))
}

#[async_trait]
impl Authorize for BearerToken {
    async fn authenticate(
        &self,
        request: &AccessRequest<'_>,
    ) -> Result<Option<Principal>, AccessError> {
        if let Some(principal) = request.principal {
            return Ok(Some(principal.clone()));
        }
        let checked = self.check(request.headers).transpose();
        let found = checked.map(|found| found.map(|()| self.principal.clone()));
        request.access.demand(found)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use http::HeaderValue;

    fn ask(access: Access, authorization: &[&str]) -> Result<Option<String>, AccessError> {
        let mut headers = HeaderMap::new();
        for value in authorization {
            headers.append(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        let uri = Uri::from_static("/farm/v1/animals");
        let request = AccessRequest::new(access, &HttpMethod::POST, &uri, &headers);
        let token = BearerToken::new("s3cret", Principal::new("alice"));
        let found = token.authenticate(&request).now_or_never();
        let found = found.expect("it waits for nothing")?;
        Ok(found.map(|principal| principal.id().to_owned()))
    }

    #[test]
    fn token_is_demanded_of_calls_alone() {
        let alice = Ok(Some("alice".to_owned()));
        for right in ["Bearer s3cret", "bearer s3cret", "BEARER  s3cret "] {
            assert_eq!(ask(Access::Call, &[right]), alice, "{right}");
        }
        for wrong in [
            "Bearer S3cret",
            "Bearer",
            "Basic s3cret",
            "s3cret",
            "Bearer s3cret x",
        ] {
            let refused = Err(AccessError::CredentialsInvalid);
            assert_eq!(ask(Access::Call, &[wrong]), refused, "{wrong}");
            assert_eq!(ask(Access::Session, &[wrong]), Ok(None), "{wrong}");
            assert_eq!(ask(Access::OwnedSession, &[wrong]), refused, "{wrong}");
            assert_eq!(ask(Access::Discovery, &[wrong]), Ok(None), "{wrong}");
        }
        assert_eq!(ask(Access::Call, &[]), Err(AccessError::CredentialsMissing));
        assert_eq!(ask(Access::Session, &[]), Ok(None));
        assert_eq!(ask(Access::OwnedSession, &[]), Ok(None));
        assert_eq!(ask(Access::Session, &["Bearer s3cret"]), alice);
        let twice = ["Bearer s3cret", "Bearer s3cret"];
        assert_eq!(
            ask(Access::Call, &twice),
            Err(AccessError::CredentialsInvalid)
        );
    }

    #[test]
    fn debug_form_has_no_secret() {
        let token = BearerToken::new("s3cret", Principal::new("alice"));
        assert!(!format!("{token:?}").contains("s3cret"));
    }
}
