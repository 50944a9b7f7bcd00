//! The contract for kinds of tokens.

use async_trait::async_trait;
use windlass_server::{AccessError, Principal};

/// A kind of bearer token. [`Rules::schemes`](crate::Rules::schemes) are asked in their order.
#[async_trait]
pub trait TokenScheme: Send + Sync + 'static {
    /// Returns the principal of a token; `None` if the token is not of this kind, so that the next
    /// scheme is asked.
    ///
    /// # Errors
    /// [`AccessError::CredentialsInvalid`] or [`AccessError::CredentialsExpired`] if the token is of
    /// this kind and not valid; [`AccessError::Unverifiable`] if that cannot be found out now.
    ///
    /// # Cancel safety
    /// Must be cancel safe: the client may go.
    async fn principal(&self, token: &str) -> Result<Option<Principal>, AccessError>;
}
