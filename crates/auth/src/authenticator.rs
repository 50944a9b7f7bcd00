//! Answers the questions of the server by the current rules.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use windlass_discovery::Method;
use windlass_server::{
    Access, AccessError, AccessRequest, AmbientAuthority, Authorize, Clock as _, Principal,
    SessionInfo, SystemClock,
};

use crate::certificates::CertificateTable;
use crate::credentials::Credentials;
use crate::links::{self, LinkKeys};
use crate::policy::Policy;
use crate::proxy::TrustedProxy;
use crate::revoked_sessions::RevokedSessions;
use crate::scheme::TokenScheme;
use crate::secrets::SecretTable;

/// The credentials and grants by which an [`Authenticator`] decides.
#[derive(Clone, Default)]
pub struct Rules {
    /// The kinds of bearer tokens. The first that knows a token decides.
    pub schemes: Vec<Arc<dyn TokenScheme>>,
    /// The API keys. A key is used only if the request has no bearer token.
    pub keys: SecretTable,
    /// The client certificates. A certificate is used only if the request has no bearer token and
    /// no API key. A certificate without a principal is ignored.
    pub certificates: CertificateTable,
    /// The trusted proxies. Their headers are used only if the request has no other credentials.
    pub proxies: Vec<TrustedProxy>,
    /// The keys of signed links. A link takes precedence over all other credentials.
    pub links: LinkKeys,
    /// The upload sessions that are revoked.
    pub revoked_sessions: RevokedSessions,
    /// The table of allowed calls.
    pub policy: Policy,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("proxies", &self.proxies)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// Establishes principals by credentials, and allows calls by a table.
///
/// Two kinds of requests need no credentials: requests to a session, because the session's URI is
/// the credential, and discovery requests, because Google's Python library sends them before it has
/// credentials. In these requests, invalid credentials are ignored.
///
/// A principal that an outer layer has established is accepted as it is.
#[derive(Debug)]
pub struct Authenticator {
    rules: RwLock<Arc<Rules>>,
}

impl Authenticator {
    /// Returns an authenticator with these rules.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules: RwLock::new(Arc::new(rules)),
        }
    }

    /// Replaces the rules. Requests that are already being authenticated are judged by the old
    /// rules. Sessions continue, because their URIs are credentials themselves, unless the new
    /// rules revoke them.
    pub fn replace(&self, rules: Rules) {
        let rules = Arc::new(rules);
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// Whether the current rules have a policy, so that valid credentials alone do not suffice.
    pub fn has_policy(&self) -> bool {
        !self.rules().policy.is_empty()
    }

    fn rules(&self) -> Arc<Rules> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&rules)
    }
}

impl Rules {
    /// Returns the principal of the credentials of a request; `None` if it has none.
    async fn principal(
        &self,
        request: &AccessRequest<'_>,
    ) -> Result<Option<Principal>, AccessError> {
        // Links come first: a browser may add its own credentials, which a link does not need.
        if let Some(link) = links::find(request.uri)? {
            let now = SystemClock.now().as_millis() / 1000;
            return self.links.principal(&link, request, now).map(Some);
        }
        let credentials = Credentials::find(request.uri, request.headers)?;
        if let Some(token) = credentials.token {
            return self.bearer(token, request).await.map(Some);
        }
        match &credentials.key {
            // Public clients send the key of their project even where nobody asks for one.
            Some(_) if self.keys.is_empty() => {}
            Some(key) => {
                let found = self.keys.find(key).cloned();
                return found.map(Some).ok_or(AccessError::CredentialsInvalid);
            }
            None => {}
        }
        // Certificates come before the proxies. A proxy's own certificate has no principal, so it
        // passes on to the proxies' check.
        let certificate = request.certificate;
        if let Some(principal) = certificate.and_then(|it| self.certificates.find(it)) {
            return Ok(Some(principal));
        }
        let peer = request.peer.map(|address| address.ip());
        for proxy in &self.proxies {
            if let Some(principal) = proxy.principal(peer, request.headers)? {
                // The proxy authenticates the browser, for example by a cookie. It does not know
                // which page has made the request.
                return match request.ambient_authority {
                    AmbientAuthority::Full => Ok(Some(principal)),
                    _ => Err(AccessError::ForeignPage),
                };
            }
        }
        Ok(None)
    }

    async fn bearer(
        &self,
        token: &str,
        request: &AccessRequest<'_>,
    ) -> Result<Principal, AccessError> {
        for scheme in &self.schemes {
            if let Some(principal) = scheme.principal(token, request.limited_client).await? {
                return Ok(principal);
            }
        }
        Err(AccessError::CredentialsInvalid)
    }
}

#[async_trait]
impl Authorize for Authenticator {
    async fn authenticate(
        &self,
        request: &AccessRequest<'_>,
    ) -> Result<Option<Principal>, AccessError> {
        if let Some(principal) = request.principal {
            return Ok(Some(principal.clone()));
        }
        let rules = self.rules();
        match rules.principal(request).await {
            // Tokens in queries end up in logs, wherever they are sent.
            Err(error @ AccessError::CredentialsMisplaced { .. }) => Err(error),
            Ok(None) if rules.policy.has_anonymous() => {
                match (request.access, request.ambient_authority) {
                    (Access::Call, AmbientAuthority::None) => Err(AccessError::ForeignPage),
                    _ => Ok(None),
                }
            }
            found => request.access.demand(found),
        }
    }

    async fn authorize(
        &self,
        principal: Option<&Principal>,
        method: &Method,
    ) -> Result<(), AccessError> {
        // A link is for one path. The server ensures that the method on this path uploads or
        // downloads media.
        if principal.is_some_and(|principal| principal.link().is_some()) {
            return Ok(());
        }
        if !self.rules().policy.allows(principal, method) {
            return Err(match principal {
                Some(_) => AccessError::Forbidden {
                    problem: format!("the credentials do not allow the method {}", method.id),
                },
                None => AccessError::CredentialsMissing,
            });
        }
        match principal.and_then(Principal::scopes) {
            Some(scopes) => check_scopes(scopes, method),
            None => Ok(()),
        }
    }

    fn is_revoked(&self, session: &SessionInfo<'_>) -> bool {
        self.rules().revoked_sessions.contains(session)
    }
}

/// Refuses a call if the token has none of the method's scopes. A method without scopes needs no
/// scope.
fn check_scopes(scopes: &[String], method: &Method) -> Result<(), AccessError> {
    let suffices = method.scopes.iter().any(|scope| scopes.contains(scope));
    if suffices || method.scopes.is_empty() {
        return Ok(());
    }
    Err(AccessError::InsufficientScope {
        scopes: method.scopes.clone(),
    })
}

#[cfg(test)]
mod tests;
