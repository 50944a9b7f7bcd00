//! The sender of a call.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use serde_json::{Map, Value};
use windlass_engine::Caller;

use crate::link_terms::LinkTerms;

/// The sender of a request, as an extension of the request.
///
/// A layer that authenticates inserts it. Handlers find it in
/// [`Call::principal`](crate::handler::Call). Its id is stored with the upload sessions and
/// resources that the request creates, and is logged. Two principals with the same id are equal.
///
/// ```
/// use windlass_rest::principal::Principal;
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Principal::new("alice@example.com"));
/// ```
#[derive(Clone)]
pub struct Principal(Arc<Identity>);

struct Identity {
    id: Box<str>,
    groups: Vec<String>,
    scopes: Option<Vec<String>>,
    claims: Map<String, Value>,
    link: Option<LinkTerms>,
}

impl Principal {
    /// Returns the principal with this id. Ids are opaque to the server. It is in no group, has no
    /// claims, and its scopes are not limited.
    pub fn new(id: impl AsRef<str>) -> Self {
        Self(Arc::new(Identity {
            id: id.as_ref().into(),
            groups: Vec::new(),
            scopes: None,
            claims: Map::new(),
            link: None,
        }))
    }

    /// Sets the groups.
    #[must_use]
    pub fn with_groups(self, groups: impl IntoIterator<Item = String>) -> Self {
        let groups = groups.into_iter().collect();
        self.with(|identity| identity.groups = groups)
    }

    /// Limits the principal to methods that one of these OAuth scopes allows.
    #[must_use]
    pub fn with_scopes(self, scopes: impl IntoIterator<Item = String>) -> Self {
        let scopes = scopes.into_iter().collect();
        self.with(|identity| identity.scopes = Some(scopes))
    }

    /// Sets the credentials' statements about the principal, such as the claims of a JWT. They are
    /// neither logged nor stored.
    #[must_use]
    pub fn with_claims(self, claims: Map<String, Value>) -> Self {
        self.with(|identity| identity.claims = claims)
    }

    /// Limits the principal to the terms of the signed link in its request.
    #[must_use]
    pub fn with_link(self, terms: LinkTerms) -> Self {
        self.with(|identity| identity.link = Some(terms))
    }

    fn with(mut self, change: impl FnOnce(&mut Identity)) -> Self {
        // Normally the principal was just created and is not shared yet.
        if let Some(identity) = Arc::get_mut(&mut self.0) {
            change(identity);
            return self;
        }
        let mut identity = Identity {
            id: self.0.id.clone(),
            groups: self.0.groups.clone(),
            scopes: self.0.scopes.clone(),
            claims: self.0.claims.clone(),
            link: self.0.link.clone(),
        };
        change(&mut identity);
        Self(Arc::new(identity))
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Returns the groups that the principal is in.
    pub fn groups(&self) -> &[String] {
        &self.0.groups
    }

    /// Returns the OAuth scopes of the credentials; `None` if they are not limited to scopes.
    pub fn scopes(&self) -> Option<&[String]> {
        self.0.scopes.as_deref()
    }

    /// Returns the credentials' statements about the principal.
    pub fn claims(&self) -> &Map<String, Value> {
        &self.0.claims
    }

    /// Returns the terms of the request's signed link. `None` if the request came without a signed
    /// link.
    pub fn link(&self) -> Option<&LinkTerms> {
        self.0.link.as_ref()
    }
}

/// Shows the id alone: claims may be personal data.
impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Principal").field(&self.0.id).finish()
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Principal {}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// Returns the principal if it is known, otherwise the address if it is known.
pub fn caller(principal: Option<&Principal>, client: Option<IpAddr>) -> Option<Caller> {
    let principal = principal.map(|principal| Caller::Principal(principal.to_string()));
    principal.or_else(|| client.map(network).map(Caller::Address))
}

/// Returns the /64 network of an IPv6 address. An IPv4 address is returned unchanged, also if it is
/// written as an IPv6 address.
pub fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        ip @ IpAddr::V4(_) => ip,
    }
}
