//! Namespaces of the ledger: the resources of one owner, apart from the resources of all other
//! owners.
//!
//! In an API with [`Access::Owner`], a call sees and changes the collections of its principal's
//! namespace. In the ledger, the names of these collections begin with the namespace, as in
//! `.owner/alice/drive/files`. Handlers read and write the names without it. Resources of another
//! owner therefore do not exist for a call: no id collides with theirs, no list reads their rows,
//! and no handler needs to check an owner.
//!
//! Names in the *root* namespace are as handlers write them. The root namespace is used by calls
//! without a principal, by APIs with [`Access::Shared`], and by the principal that owns resources
//! without an owner (`unowned`, see [`separate_owner`]).

use std::borrow::Cow;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use windlass_discovery::Access;
use windlass_store::{Expected, Resource, ResourceChange};

use crate::principal::Principal;

// No name of an API begins with a dot, so no collection of the root namespace has such a name.
/// Prefix of the names of all collections in a namespace.
const PREFIX: &str = ".owner/";

/// The namespace in which a call or the delivery of an event reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Id of the principal; `None` in the root namespace.
    owner: Option<String>,
    /// Beginning of the names of collections; empty in the root namespace.
    prefix: String,
}

/// The root namespace.
pub(crate) static ROOT: Namespace = Namespace {
    owner: None,
    prefix: String::new(),
};

/// Returns the principal whose resources are separate from other principals' resources. `None` if
/// the call is in the root namespace.
pub fn separate_owner<'a>(
    access: Access,
    unowned: Option<&str>,
    principal: Option<&'a Principal>,
) -> Option<&'a Principal> {
    match access {
        Access::Shared => None,
        Access::Owner => principal.filter(|it| Some(it.id()) != unowned),
    }
}

/// Returns the name of a collection of the ledger as handlers write it, in whichever namespace it
/// is.
pub(crate) fn without_owner(collection: &str) -> &str {
    let inside = collection.strip_prefix(PREFIX);
    let inside = inside.and_then(|inside| inside.split_once('/'));
    inside.map_or(collection, |(_, name)| name)
}

impl Namespace {
    /// Returns the namespace of the principal with this id; without one, the root namespace.
    pub fn of(owner: Option<&str>) -> Self {
        let Some(owner) = owner else {
            return ROOT.clone();
        };
        // Encoded, so that no id contains the slash that ends the prefix.
        let encoded = utf8_percent_encode(owner, NON_ALPHANUMERIC);
        Self {
            prefix: format!("{PREFIX}{encoded}/"),
            owner: Some(owner.to_owned()),
        }
    }

    /// Returns the id of the principal; `None` in the root namespace.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// Returns the name in the ledger of a handler's collection, or of a lock.
    pub fn qualified<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.prefix.is_empty() {
            Cow::Borrowed(name)
        } else {
            Cow::Owned(format!("{}{name}", self.prefix))
        }
    }

    /// Returns a resource of the ledger as handlers see it.
    pub(crate) fn to_handler(&self, mut resource: Resource) -> Resource {
        if let Some(name) = resource.collection.strip_prefix(&self.prefix) {
            resource.collection = name.to_owned();
        }
        resource
    }

    /// Replaces the handler's names of collections by the ledger's names in changes.
    pub(crate) fn qualify_changes(&self, changes: &mut [ResourceChange]) {
        for change in changes {
            self.qualify(match change {
                ResourceChange::Insert(resource) | ResourceChange::Replace { resource, .. } => {
                    &mut resource.collection
                }
                ResourceChange::Delete { collection, .. } => collection,
            });
        }
    }

    /// Replaces the handler's names of collections by the ledger's names in the rows on which a
    /// handler depends.
    pub(crate) fn qualify_expected(&self, expected: &mut [Expected]) {
        for row in expected {
            self.qualify(&mut row.collection);
        }
    }

    /// Replaces a handler's name of a collection by the ledger's name.
    pub(crate) fn qualify(&self, collection: &mut String) {
        collection.insert_str(0, &self.prefix);
    }
}

#[cfg(test)]
mod tests;
