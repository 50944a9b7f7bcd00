//! JWT access tokens (RFC 7519, RFC 9068), as providers of OpenID Connect issue them.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use jsonwebtoken::dangerous::insecure_decode_claims;
use serde::Deserialize;
use windlass_server::{AccessError, Clock, Principal};

use crate::scheme::TokenScheme;
use crate::signatures;
use crate::token_cache::{self, TokenCache, VALID_FOR};
use issuer::Issuer;

pub(crate) mod issuer;
pub(crate) mod key_set;
pub(crate) mod key_source;

/// Maximum length of a token in bytes. Longer ones are refused before anything of them is parsed.
pub(crate) const MAX_TOKEN: usize = 16 << 10;

/// Tokens of the issuers that are configured. Others are left to the next scheme.
pub(crate) struct JwtScheme {
    issuers: Vec<Issuer>,
    clock: Arc<dyn Clock>,
    verified: TokenCache<Principal>,
}

impl JwtScheme {
    pub(crate) fn new(issuers: Vec<Issuer>, clock: Arc<dyn Clock>) -> Self {
        signatures::install();
        Self {
            issuers,
            clock,
            verified: TokenCache::of_valid(),
        }
    }

    /// The issuer that the token names. Nothing of it is verified yet.
    fn claimed_issuer(&self, token: &str) -> Option<&Issuer> {
        #[derive(Deserialize)]
        struct Claimed {
            iss: String,
        }
        let claimed: Claimed = insecure_decode_claims(token).ok()?;
        let mut issuers = self.issuers.iter();
        issuers.find(|issuer| issuer.name == claimed.iss)
    }
}

#[async_trait]
impl TokenScheme for JwtScheme {
    async fn principal(
        &self,
        token: &str,
        _: Option<IpAddr>,
    ) -> Result<Option<Principal>, AccessError> {
        // An encrypted one (JWE) has five parts.
        if token.bytes().filter(|byte| *byte == b'.').count() != 2 {
            return Ok(None);
        }
        if token.len() > MAX_TOKEN {
            return Err(AccessError::CredentialsInvalid);
        }
        let hash = token_cache::hash(token);
        if let Some(principal) = self.verified.get(&hash, self.clock.now()) {
            return Ok(Some(principal));
        }
        let Some(issuer) = self.claimed_issuer(token) else {
            return Ok(None);
        };
        let now = self.clock.now();
        let (principal, expires) = issuer.verify(token, now).await?;
        let until = expires.min(now.saturating_add(VALID_FOR));
        self.verified.put(
            hash,
            principal.clone(),
            token_cache::size(&principal),
            now,
            until,
        );
        Ok(Some(principal))
    }
}

#[cfg(test)]
mod tests;
