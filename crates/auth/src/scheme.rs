//! The contract for kinds of tokens.

use std::net::IpAddr;

use async_trait::async_trait;
use windlass_server::{AccessError, Principal};

/// A kind of bearer token. [`Rules::schemes`](crate::Rules::schemes) are asked in their order.
#[async_trait]
pub trait TokenScheme: Send + Sync + 'static {
    /// Returns the principal of a token, or `None` if the token is not of this kind. The next
    /// scheme is then asked. `client` is
    /// [`AccessRequest::limited_client`](windlass_server::AccessRequest::limited_client). It
    /// prevents one client from using up a scheme's resources, such as its connections to an
    /// issuer.
    ///
    /// # Errors
    /// [`AccessError::CredentialsInvalid`] or [`AccessError::CredentialsExpired`] if the token is
    /// of this kind and not valid; [`AccessError::Unverifiable`] if that cannot be found out now.
    ///
    /// # Cancel safety
    /// Must be cancel safe: the client may go.
    async fn principal(
        &self,
        token: &str,
        client: Option<IpAddr>,
    ) -> Result<Option<Principal>, AccessError>;
}
