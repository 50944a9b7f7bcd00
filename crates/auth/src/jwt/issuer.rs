//! One issuer, and the checks of its tokens.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header};
use serde_json::{Map, Value};
use windlass_server::{AccessError, Principal};
use windlass_store::Timestamp;

use super::key_source::KeySource;
use crate::claims::{Claims, PrincipalClaims, check_kind, check_times, has_audience};

/// A trusted issuer of tokens.
pub(crate) struct Issuer {
    /// Its name, as `iss` has it.
    pub(crate) name: String,
    /// Audiences, one of which a token must be for.
    pub(crate) audience: Vec<String>,
    /// The algorithms that its signatures may have.
    pub(crate) algorithms: Vec<Algorithm>,
    /// How much the clocks may differ.
    pub(crate) skew: Duration,
    /// The claims that make a principal.
    pub(crate) claims: PrincipalClaims,
    /// Its keys.
    pub(crate) keys: KeySource,
}

impl Issuer {
    /// Checks a token that claims to be of this issuer. Returns its principal, and when it expires.
    ///
    /// # Errors
    /// [`AccessError::CredentialsInvalid`], [`AccessError::CredentialsExpired`] or
    /// [`AccessError::Unverifiable`].
    pub(crate) async fn verify(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<(Principal, Timestamp), AccessError> {
        // `decode_header` knows no algorithm `none`, in any spelling.
        let header = decode_header(token).map_err(|_| AccessError::CredentialsInvalid)?;
        check_extensions(token)?;
        self.check_header(&header)?;
        let key = self.keys.find(header.kid.as_deref(), header.alg).await?;
        let verified = decode::<Claims>(token, &key, &self.validation(header.alg));
        let claims = verified.map_err(|error| refusal(error.kind()))?.claims;
        check_kind(&claims)?;
        if !has_audience(&claims, &self.audience) {
            return Err(AccessError::CredentialsInvalid);
        }
        let expires = check_times(&claims, now, self.skew)?;
        let expires = expires.ok_or(AccessError::CredentialsInvalid)?;
        Ok((self.claims.principal(&claims)?, expires))
    }

    fn check_header(&self, header: &Header) -> Result<(), AccessError> {
        // RFC 9068, section 2.1, has `at+jwt`. Providers of OpenID Connect write `JWT` or nothing
        // into access tokens. Other types mark other tokens, such as `logout+jwt` or `dpop+jwt`.
        let is_access_token = header.typ.as_deref().is_none_or(|typ| {
            let typ = typ.to_ascii_lowercase();
            let short = typ.strip_prefix("application/").unwrap_or(&typ);
            ["at+jwt", "jwt"].contains(&short)
        });
        if !is_access_token || !self.algorithms.contains(&header.alg) {
            return Err(AccessError::CredentialsInvalid);
        }
        Ok(())
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.set_issuer(&[&self.name]);
        validation.set_audience(&self.audience);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        // Times are compared with the server's clock, in `check_times`.
        validation.validate_exp = false;
        validation
    }
}

/// Refuses a token that chooses its own verification key, or that demands an extension which is not
/// supported here (RFC 7515, sections 4.1.2 to 4.1.6 and 4.1.11; RFC 7797). Any value is refused.
fn check_extensions(token: &str) -> Result<(), AccessError> {
    // Read as a map: a field that is `null` counts as absent where the header is read as a struct.
    let (encoded, _) = token
        .split_once('.')
        .ok_or(AccessError::CredentialsInvalid)?;
    let header = URL_SAFE_NO_PAD.decode(encoded);
    let header = header.map_err(|_| AccessError::CredentialsInvalid)?;
    let header: Map<String, Value> =
        serde_json::from_slice(&header).map_err(|_| AccessError::CredentialsInvalid)?;
    let has_refused = ["jku", "jwk", "x5u", "x5c", "crit"]
        .iter()
        .any(|name| header.contains_key(*name));
    let is_encoded = header
        .get("b64")
        .is_none_or(|b64| *b64 == Value::Bool(true));
    if has_refused || !is_encoded {
        return Err(AccessError::CredentialsInvalid);
    }
    Ok(())
}

fn refusal(kind: &ErrorKind) -> AccessError {
    tracing::debug!(?kind, "a token is refused");
    AccessError::CredentialsInvalid
}
