//! The table of allowed calls.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use windlass_discovery::Method;
use windlass_server::Principal;

/// The table of allowed calls. A call needs one grant for its principal and its method.
///
/// A policy without grants allows all calls with valid credentials.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    grants: Vec<Grant>,
}

/// A row of the table: the principals and the methods that they may call. An empty list means all.
/// In a file, an omitted key means all, and an empty list is refused, because its author may mean
/// nobody.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grant {
    /// Ids of principals. With `groups` and `claims` empty as well: everybody with valid
    /// credentials.
    #[serde(deserialize_with = "not_empty")]
    pub principals: Vec<String>,
    /// Groups of principals.
    #[serde(deserialize_with = "not_empty")]
    pub groups: Vec<String>,
    /// Claims, all of which the credentials must have. An array has the values of its elements.
    #[serde(deserialize_with = "some_claims")]
    pub claims: Map<String, Value>,
    /// Also for requests without credentials.
    pub anonymous: bool,
    /// Names of APIs, such as `gmail`.
    #[serde(deserialize_with = "not_empty")]
    pub apis: Vec<String>,
    /// Collections, such as `animals` or `users.messages`.
    #[serde(deserialize_with = "not_empty")]
    pub collections: Vec<String>,
    /// Methods: their last word, such as `insert`, or their id, such as `farm.animals.insert`.
    #[serde(deserialize_with = "not_empty")]
    pub methods: Vec<String>,
}

fn not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let list = Vec::deserialize(deserializer)?;
    refuse_empty(list.is_empty()).map(|()| list)
}

fn some_claims<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    let claims = Map::deserialize(deserializer)?;
    refuse_empty(claims.is_empty()).map(|()| claims)
}

fn refuse_empty<E: serde::de::Error>(is_empty: bool) -> Result<(), E> {
    if is_empty {
        return Err(E::custom("it is empty; remove the key to match everything"));
    }
    Ok(())
}

impl Policy {
    /// Returns the table of these grants.
    pub fn new(grants: Vec<Grant>) -> Self {
        Self { grants }
    }

    /// Whether the principal may call the method; `None` is a request without credentials.
    pub fn allows(&self, principal: Option<&Principal>, method: &Method) -> bool {
        if self.grants.is_empty() {
            return principal.is_some();
        }
        let mut grants = self.grants.iter();
        grants.any(|grant| grant.is_for(principal) && grant.covers(method))
    }

    /// Whether it has no grants, so that valid credentials suffice for everything.
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// Returns the names of the claims that the grants are about.
    pub(crate) fn claim_names(&self) -> Vec<String> {
        let grants = self.grants.iter();
        let names = grants.flat_map(|grant| grant.claims.keys().cloned());
        names.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether a row lets requests without credentials call all methods of all APIs.
    pub fn is_open(&self) -> bool {
        self.grants.iter().any(|grant| {
            let lists = [&grant.apis, &grant.collections, &grant.methods];
            grant.anonymous && lists.iter().all(|list| list.is_empty())
        })
    }

    /// Whether a request without credentials may call any method.
    pub fn has_anonymous(&self) -> bool {
        self.grants.iter().any(|grant| grant.anonymous)
    }
}

impl Grant {
    fn is_for(&self, principal: Option<&Principal>) -> bool {
        let Some(principal) = principal else {
            return self.anonymous;
        };
        let is_for_all = self.anonymous
            || (self.principals.is_empty() && self.groups.is_empty() && self.claims.is_empty());
        let is_named = self.principals.iter().any(|id| id == principal.id());
        let is_member = || {
            let mut groups = principal.groups().iter();
            groups.any(|group| self.groups.contains(group))
        };
        let has_claims = || !self.claims.is_empty() && has_claims(&self.claims, principal.claims());
        is_for_all || is_named || is_member() || has_claims()
    }

    fn covers(&self, method: &Method) -> bool {
        let has = |list: &[String], name: &str| list.iter().any(|it| it == name);
        (self.apis.is_empty() || has(&self.apis, &method.api_name))
            && (self.collections.is_empty() || has(&self.collections, method.collection()))
            && (self.methods.is_empty()
                || has(&self.methods, method.verb())
                || has(&self.methods, &method.id))
    }
}

fn has_claims(wanted: &Map<String, Value>, claims: &Map<String, Value>) -> bool {
    wanted.iter().all(|(name, wanted)| match claims.get(name) {
        Some(Value::Array(values)) => values.contains(wanted),
        Some(value) => value == wanted,
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_discovery::Api;

    use super::*;

    fn farm() -> Api {
        let text = "name = 'farm'\nversion = 'v1'\n[collections.animals]\n[collections.barns]\n";
        Api::from_toml(text).unwrap()
    }

    fn policy(grants: &str) -> Policy {
        #[derive(Deserialize)]
        struct Table {
            allow: Vec<Grant>,
        }
        let table: Table = toml::from_str(grants).unwrap();
        Policy::new(table.allow)
    }

    #[track_caller]
    fn check(policy: &Policy, who: Option<&Principal>, method: &str, expected: bool) {
        let farm = farm();
        let method = farm.method(method).expect("it is described");
        assert_eq!(
            policy.allows(who, method),
            expected,
            "{who:?} {}",
            method.id
        );
    }

    #[test]
    fn empty_policy_allows_everything_to_those_with_credentials() {
        let policy = Policy::default();
        check(
            &policy,
            Some(&Principal::new("a")),
            "farm.animals.insert",
            true,
        );
        check(&policy, None, "farm.animals.get", false);
        assert!(!policy.has_anonymous());
    }

    #[test]
    fn grant_covers_its_apis_collections_and_methods_alone() {
        let policy = policy(
            "[[allow]]\nprincipals = ['a']\napis = ['farm']\ncollections = ['animals']\n\
             methods = ['insert', 'farm.animals.get']\n\
             [[allow]]\nprincipals = ['b']\napis = ['other']\n",
        );
        let (a, b) = (Principal::new("a"), Principal::new("b"));
        check(&policy, Some(&a), "farm.animals.insert", true);
        check(&policy, Some(&a), "farm.animals.get", true);
        check(&policy, Some(&a), "farm.animals.delete", false);
        check(&policy, Some(&a), "farm.barns.insert", false);
        check(&policy, Some(&b), "farm.animals.insert", false);
        check(&policy, None, "farm.animals.insert", false);
    }

    #[test]
    fn grant_is_for_principals_groups_claims_everybody_or_strangers() {
        let policy = policy(
            "[[allow]]\ngroups = ['staff']\nmethods = ['insert']\n\
             [[allow]]\nclaims = { verified = true, roles = 'editor' }\nmethods = ['update']\n\
             [[allow]]\nmethods = ['list']\n\
             [[allow]]\nanonymous = true\nmethods = ['get']\n",
        );
        let plain = Principal::new("a");
        let staff = Principal::new("b").with_groups(["staff".to_owned()]);
        let claims = |claims: Value| {
            let claims = claims.as_object().expect("it is an object").clone();
            Principal::new("c").with_claims(claims)
        };
        let editor = claims(json!({"verified": true, "roles": ["viewer", "editor"]}));
        let unverified = claims(json!({"verified": "true", "roles": "editor"}));
        for (who, insert, update, list, get) in [
            (Some(&plain), false, false, true, true),
            (Some(&staff), true, false, true, true),
            (Some(&editor), false, true, true, true),
            (Some(&unverified), false, false, true, true),
            (None, false, false, false, true),
        ] {
            check(&policy, who, "farm.animals.insert", insert);
            check(&policy, who, "farm.animals.update", update);
            check(&policy, who, "farm.animals.list", list);
            check(&policy, who, "farm.animals.get", get);
        }
        assert!(policy.has_anonymous() && !policy.is_open());
    }
}
