//! The entries of issuers: `[[jwt]]` and `[introspection]`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::{Algorithm, AlgorithmFamily};
use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

use super::{RulesError, Services};
use crate::claims::PrincipalClaims;
use crate::introspection::Introspection;
use crate::jwt::issuer::Issuer;
use crate::jwt::key_set::KeySet;
use crate::jwt::key_source::{KeySource, Location, PublishedKeys};
use crate::policy::Policy;
use crate::service_url::ServiceUrl;

/// Largest skew that is taken. A larger one would make expiry meaningless.
const MAX_SKEW: Duration = Duration::from_secs(600);

/// An entry of `[[jwt]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JwtEntry {
    issuer: IssuerName,
    audience: Audience,
    jwks_uri: Option<ServiceUrl>,
    jwks_file: Option<PathBuf>,
    #[serde(default = "algorithms")]
    algorithms: Vec<AsymmetricAlgorithm>,
    #[serde(default = "principal_claim")]
    principal_claim: String,
    #[serde(default)]
    principal_prefix: String,
    #[serde(default = "groups_claim")]
    groups_claim: String,
    #[serde(default = "skew", deserialize_with = "duration")]
    skew: Duration,
}

/// The table `[introspection]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IntrospectionEntry {
    url: ServiceUrl,
    client_id: String,
    client_secret_file: PathBuf,
    #[serde(default)]
    audience: Vec<String>,
    principal_claim: Option<String>,
    #[serde(default)]
    principal_prefix: String,
    #[serde(default = "groups_claim")]
    groups_claim: String,
}

/// The name of an issuer, as `iss` has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct IssuerName(String);

/// Audiences, at least one.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Vec<String>")]
struct Audience(Vec<String>);

/// An asymmetric algorithm: its verifiers cannot sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct AsymmetricAlgorithm(Algorithm);

impl TryFrom<String> for IssuerName {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, &'static str> {
        if name.is_empty() {
            return Err("the name of an issuer must not be empty");
        }
        Ok(Self(name))
    }
}

impl fmt::Display for IssuerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<Vec<String>> for Audience {
    type Error = &'static str;

    fn try_from(audiences: Vec<String>) -> Result<Self, &'static str> {
        if audiences.is_empty() || audiences.iter().any(String::is_empty) {
            return Err(
                "name at least one audience, which is not empty: without, tokens for every other \
                 service of the issuer would be taken",
            );
        }
        Ok(Self(audiences))
    }
}

impl TryFrom<String> for AsymmetricAlgorithm {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, &'static str> {
        let unknown = "known algorithms are RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 \
                       and EdDSA";
        let algorithm: Algorithm = name.parse().map_err(|_| unknown)?;
        match algorithm.family() {
            AlgorithmFamily::Hmac => Err(
                "algorithms with a shared secret are not taken: each verifier of a token could also \
                 make one",
            ),
            _ => Ok(Self(algorithm)),
        }
    }
}

fn algorithms() -> Vec<AsymmetricAlgorithm> {
    let defaults = [
        Algorithm::RS256,
        Algorithm::ES256,
        Algorithm::EdDSA,
        Algorithm::PS256,
    ];
    defaults.map(AsymmetricAlgorithm).to_vec()
}

fn principal_claim() -> String {
    "sub".to_owned()
}

fn groups_claim() -> String {
    "groups".to_owned()
}

const fn skew() -> Duration {
    Duration::from_secs(60)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let duration = humantime::parse_duration(&text)
        .map_err(|_| serde::de::Error::custom("it is not a duration, such as `60s`"))?;
    if duration > MAX_SKEW {
        return Err(serde::de::Error::custom("it is at most 10 minutes"));
    }
    Ok(duration)
}

impl JwtEntry {
    pub(super) fn issuer(&self) -> &IssuerName {
        &self.issuer
    }

    pub(super) fn into_issuer(
        self,
        policy: &Policy,
        services: &Services<'_>,
    ) -> Result<Issuer, RulesError> {
        Ok(Issuer {
            keys: self.keys(services)?,
            name: self.issuer.0,
            audience: self.audience.0,
            algorithms: self
                .algorithms
                .iter()
                .map(|algorithm| algorithm.0)
                .collect(),
            skew: self.skew,
            claims: PrincipalClaims {
                id: vec![self.principal_claim],
                prefix: self.principal_prefix,
                groups: self.groups_claim,
                kept: policy.claim_names(),
            },
        })
    }

    fn keys(&self, services: &Services<'_>) -> Result<KeySource, RulesError> {
        if let Some(path) = &self.jwks_file {
            let json = super::read_named("jwks_file", path, services.read)?;
            let set = KeySet::parse(json.as_bytes());
            let path = path.clone();
            let set = set.map_err(|source| RulesError::KeySet { path, source })?;
            return Ok(KeySource::Fixed(set));
        }
        let location = match &self.jwks_uri {
            Some(url) => Location::Set(url.clone()),
            None => Location::Discovery(self.issuer.discovery()?),
        };
        Ok(KeySource::Published(Arc::new(PublishedKeys::new(
            self.issuer.0.clone(),
            location,
            Arc::clone(&services.outbound),
            Arc::clone(&services.clock),
        ))))
    }
}

impl IssuerName {
    /// The URL of the issuer's document (OpenID Connect Discovery 1.0, section 4).
    fn discovery(&self) -> Result<ServiceUrl, RulesError> {
        let issuer = self.0.trim_end_matches('/');
        let url = format!("{issuer}/.well-known/openid-configuration");
        ServiceUrl::try_from(url).map_err(|_| RulesError::NoKeys {
            issuer: self.0.clone(),
        })
    }
}

impl IntrospectionEntry {
    pub(super) fn into_service(
        self,
        policy: &Policy,
        services: &Services<'_>,
    ) -> Result<Introspection, RulesError> {
        let secret = super::read_named(
            "client_secret_file",
            &self.client_secret_file,
            services.read,
        )?;
        let secret = Zeroizing::new(secret);
        let secret = secret.trim_end_matches(['\r', '\n']);
        let authorization = Introspection::authorization(&self.client_id, secret);
        let id = match self.principal_claim {
            Some(claim) => vec![claim],
            // RFC 7662 demands none of them. A token that a client has for itself may have the last
            // alone.
            None => ["sub", "username", "client_id"].map(str::to_owned).to_vec(),
        };
        Ok(Introspection {
            url: self.url,
            authorization: authorization.ok_or(RulesError::NotAHeader)?,
            audience: self.audience,
            claims: PrincipalClaims {
                id,
                prefix: self.principal_prefix,
                groups: self.groups_claim,
                kept: policy.claim_names(),
            },
            outbound: Arc::clone(&services.outbound),
            clock: Arc::clone(&services.clock),
        })
    }
}
