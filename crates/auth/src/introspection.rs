//! Opaque tokens, about which their issuer is asked (RFC 7662).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::sync::Semaphore;
use windlass_server::outbound::Outbound;
use windlass_server::{AccessError, Clock, Principal, Shares};
use windlass_store::Timestamp;

use crate::claims::{Claims, PrincipalClaims, check_kind, check_times, has_audience};
use crate::scheme::TokenScheme;
use crate::service_url::{ServiceError, ServiceUrl, TIMEOUT, limits};
use crate::token_cache::{self, TokenCache, TokenHash, VALID_FOR};

/// Maximum length in bytes of a token about which the issuer is asked.
const MAX_TOKEN: usize = 16 << 10;

/// Maximum size of a reply in bytes.
const MAX_REPLY: usize = 64 << 10;

/// Maximum number of introspections that are under way, each with a connection. Further ones wait
/// for 5 seconds, and are then given up.
pub const INTROSPECTIONS: usize = 64;

/// Maximum number of introspections that one client causes at a time, who may invent tokens.
/// Further ones wait likewise.
pub const INTROSPECTIONS_PER_CLIENT: usize = INTROSPECTIONS / 4;

/// Number of refused tokens that are remembered, and for how long.
const REFUSED_TOKENS: usize = 10_000;
const REFUSED_FOR: Duration = Duration::from_secs(10);

/// How much the issuer's clock may differ from the server's.
const SKEW: Duration = Duration::from_secs(60);

/// The characters that `application/x-www-form-urlencoded` leaves as they are.
const FORM: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'*')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_');

/// The service that is asked, and how its answers are understood.
pub(crate) struct Introspection {
    pub(crate) url: ServiceUrl,
    /// `Basic ...`, with the credentials of this server.
    pub(crate) authorization: HeaderValue,
    /// Audiences, one of which a token must be for. If empty, `aud` does not matter.
    pub(crate) audience: Vec<String>,
    pub(crate) claims: PrincipalClaims,
    pub(crate) outbound: Arc<dyn Outbound>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Asks the issuer about every token. So it is the last scheme.
pub(crate) struct IntrospectionScheme {
    service: Introspection,
    questions: Semaphore,
    shares: Shares<IpAddr>,
    valid: TokenCache<Principal>,
    refused: TokenCache<()>,
}

/// Why there is no usable answer.
#[derive(Debug, thiserror::Error)]
enum QuestionError {
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("the reply is not an introspection response (RFC 7662)")]
    NotAnAnswer,
    #[error(
        "too many token checks are running ({INTROSPECTIONS}, or {INTROSPECTIONS_PER_CLIENT} of this client); waited {} s",
        TIMEOUT.as_secs()
    )]
    Busy,
}

impl IntrospectionScheme {
    pub(crate) fn new(service: Introspection) -> Self {
        Self {
            service,
            questions: Semaphore::new(INTROSPECTIONS),
            shares: Shares::of_count(INTROSPECTIONS_PER_CLIENT),
            valid: TokenCache::of_valid(),
            refused: TokenCache::with_bounds(REFUSED_TOKENS, REFUSED_TOKENS),
        }
    }

    async fn ask(&self, token: &str, client: Option<IpAddr>) -> Result<Claims, AccessError> {
        let answer = self.question(token, client).await;
        answer.map_err(|error| {
            let cause = std::error::Error::source(&error).map(tracing::field::display);
            tracing::warn!(%error, cause, "the issuer cannot be asked about a token");
            AccessError::Unverifiable
        })
    }

    /// Returns the issuer's claims about the token.
    async fn question(&self, token: &str, client: Option<IpAddr>) -> Result<Claims, QuestionError> {
        // The client's permit comes first. A client's waiting requests then occupy none of the
        // permits that all clients share.
        let permits = async {
            let of_client = match client {
                Some(client) => Some(self.shares.acquire(client, 1).await),
                None => None,
            };
            (of_client, self.questions.acquire().await)
        };
        let permits = tokio::time::timeout(TIMEOUT, permits).await;
        let _permits = permits.map_err(|_| QuestionError::Busy)?;
        let reply = self.service.send(token).await?;
        let claims: Claims =
            serde_json::from_slice(&reply).map_err(|_| QuestionError::NotAnAnswer)?;
        if !claims.get("active").is_some_and(Value::is_boolean) {
            return Err(QuestionError::NotAnAnswer);
        }
        Ok(claims)
    }

    fn remember_refusal(&self, hash: TokenHash, now: Timestamp) {
        let until = now.saturating_add(REFUSED_FOR);
        self.refused.put(hash, (), 1, now, until);
    }
}

#[async_trait]
impl TokenScheme for IntrospectionScheme {
    async fn principal(
        &self,
        token: &str,
        client: Option<IpAddr>,
    ) -> Result<Option<Principal>, AccessError> {
        if token.len() > MAX_TOKEN {
            return Err(AccessError::CredentialsInvalid);
        }
        let hash = token_cache::hash(token);
        let now = self.service.clock.now();
        if let Some(principal) = self.valid.get(&hash, now) {
            return Ok(Some(principal));
        }
        if self.refused.get(&hash, now).is_some() {
            return Err(AccessError::CredentialsInvalid);
        }
        let claims = self.ask(token, client).await?;
        let now = self.service.clock.now();
        match self.service.judge(&claims, now) {
            Ok((principal, until)) => {
                let size = token_cache::size(&principal);
                self.valid.put(hash, principal.clone(), size, now, until);
                Ok(Some(principal))
            }
            Err(error) => {
                self.remember_refusal(hash, now);
                Err(error)
            }
        }
    }
}

impl Introspection {
    /// Returns the value of `Authorization` for a client (RFC 6749, section 2.3.1); `None` if it is
    /// no header.
    pub(crate) fn authorization(client: &str, secret: &str) -> Option<HeaderValue> {
        let encode = |text| utf8_percent_encode(text, FORM).to_string();
        let pair = STANDARD.encode(format!("{}:{}", encode(client), encode(secret)));
        let mut value = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    async fn send(&self, token: &str) -> Result<Bytes, ServiceError> {
        let token = utf8_percent_encode(token, FORM);
        let form = format!("token={token}&token_type_hint=access_token");
        let mut request = Request::new(Bytes::from(form));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.uri().clone();
        let headers = request.headers_mut();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(AUTHORIZATION, self.authorization.clone());
        let reply = self.outbound.send(request, limits(MAX_REPLY)).await?;
        match reply.status() {
            StatusCode::OK => Ok(reply.into_body()),
            status => Err(ServiceError::Status(status)),
        }
    }

    /// Returns the principal of an active token, and the time until which it is cached.
    fn judge(
        &self,
        claims: &Claims,
        now: Timestamp,
    ) -> Result<(Principal, Timestamp), AccessError> {
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err(AccessError::CredentialsInvalid);
        }
        check_kind(claims)?;
        if !self.audience.is_empty() && !has_audience(claims, &self.audience) {
            return Err(AccessError::CredentialsInvalid);
        }
        let expires = check_times(claims, now, SKEW)?;
        let until = now.saturating_add(VALID_FOR);
        // The issuer is asked again about a token that should have expired by this clock.
        let until = expires.map_or(until, |expires| expires.saturating_sub(SKEW).min(until));
        Ok((self.claims.principal(claims)?, until))
    }
}

#[cfg(test)]
mod tests;
