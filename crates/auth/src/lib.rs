//! Authentication and authorization for an upload server: the implementation of [`Authorize`] for a
//! standalone server.
//!
//! [`Authenticator`] establishes the principal of a request from its credentials. It then asks a
//! [`Policy`] whether that principal may call a method. Credentials and policy are its [`Rules`],
//! which can be replaced while the server runs. [`AuthFile`] reads the rules from a file:
//!
//! ```
//! use std::sync::Arc;
//!
//! use windlass_auth::{AuthFile, Authenticator, Services};
//!
//! let file = AuthFile::parse(r#"
//!     [[tokens]]
//!     sha256 = "ecd71870d1963316a97e3ac3408c9835ad8cf0f3c1bc703527c30265534f75ae"
//!     principal = "camera-7"
//!     groups = ["cameras"]
//!
//!     [[allow]]
//!     groups = ["cameras"]
//!     apis = ["farm"]
//!     methods = ["insert"]
//! "#)?;
//! let rules = file.into_rules(&Services::none())?;
//! let authorize = Arc::new(Authenticator::new(rules));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | duty |
//! |---|---|
//! | `authenticator` | answers the questions of the server by the current rules |
//! | `credentials` | finds the credentials of a request, and refuses misplaced ones |
//! | `scheme` | the contract for kinds of tokens |
//! | `secrets` | tokens and API keys that are known by their hashes |
//! | `dev_tokens` | tokens for tests, and the endpoint that gives them out |
//! | `jwt` | JWTs of configured issuers: `issuer` checks them, `key_set` reads keys, `key_source` fetches and caches them |
//! | `introspection` | tokens that only their issuer can check |
//! | `claims` | an issuer's statements about a token, and the resulting principal |
//! | `token_cache` | the results of recent token checks |
//! | `signatures` | verification by ring |
//! | `service_url` | URLs of issuers, and fetching from them |
//! | `certificates` | client certificates, by name or by fingerprint |
//! | `proxy` | principals that a proxy in front has established |
//! | `links` | signed links: making them, and checking them |
//! | `policy` | the table of allowed calls |
//! | `file` | the file that contains all rules |
//!
//! The crate opens no file and no socket: the caller passes [`Services`], which read files and send
//! requests. No log line and no error message of the crate contains credentials.
//!
//! JWTs are verified by the crate `jsonwebtoken` with ring. Ring becomes the process's provider for
//! that crate when rules with issuers are made. An application that uses `jsonwebtoken` itself
//! installs its own provider before.
//!
//! [`Authorize`]: windlass_server::Authorize

mod authenticator;
mod certificates;
mod claims;
mod credentials;
mod dev_tokens;
mod file;
mod introspection;
mod jwt;
mod links;
mod policy;
mod proxy;
mod revoked_sessions;
mod scheme;
mod secrets;
mod service_url;
mod signatures;
#[cfg(test)]
mod test_issuer;
mod token_cache;

pub use authenticator::{Authenticator, Rules};
pub use certificates::{
    CertificateName, CertificateTable, Fingerprint, NotACertificateName, UnreadableFingerprint,
};
pub use dev_tokens::{DevTokenService, DevTokens};
pub use file::{AuthFile, AuthFileError, ReadFile, RulesError, Services};
pub use introspection::{INTROSPECTIONS, INTROSPECTIONS_PER_CLIENT};
pub use jwt::key_set::KeySetError;
pub use links::{InvalidSecret, LINK_PARAMETER, Link, LinkKeys, LinkSecret, Revocation};
pub use policy::{Grant, Policy};
pub use proxy::TrustedProxy;
pub use revoked_sessions::{RevokedSession, RevokedSessions};
pub use scheme::TokenScheme;
pub use secrets::{SecretHash, SecretTable, UnreadableHash};
