//! Access control lists: which entity has which role at a bucket or an object.
//!
//! `allUsers` and `allAuthenticatedUsers` are honoured as readers. Entities of other forms are kept
//! and shown, and give no rights.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_rest::handler::Rejection;

/// Maximum number of entries of a list, as in the service.
const MAX_ENTRIES: usize = 100;

/// Maximum length of an entity in bytes. `user-` and an email address of 254 bytes fit.
const MAX_ENTITY_LEN: usize = 320;

/// Everybody.
const ALL_USERS: &str = "allUsers";

/// Everybody with valid credentials.
const ALL_AUTHENTICATED_USERS: &str = "allAuthenticatedUsers";

/// Number of the one project of all buckets.
pub(super) const PROJECT_NUMBER: &str = "0";

/// The kind of resource that has a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bucket,
    Object,
}

/// A list. It has an owner, at most [`MAX_ENTRIES`] entries, and one entry for each entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Acl(Vec<Entry>);

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) entity: String,
    pub(super) role: Role,
}

/// The permission of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Role {
    Reader,
    /// Of buckets alone.
    Writer,
    Owner,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reader => "READER",
            Self::Writer => "WRITER",
            Self::Owner => "OWNER",
        }
    }

    /// Reads the field `role` of an entry.
    pub(super) fn parse(kind: Kind, entry: &Map<String, Value>) -> Result<Self, Rejection> {
        let roles = match kind {
            Kind::Bucket => &[Self::Reader, Self::Writer, Self::Owner][..],
            Kind::Object => &[Self::Reader, Self::Owner],
        };
        let name = text_of(entry, "role")?;
        let mut known = roles.iter();
        known
            .find(|role| role.name() == name)
            .copied()
            .ok_or_else(|| {
                let names: Vec<_> = roles.iter().map(|role| role.name()).collect();
                Rejection::invalid_field("role", format!("must be one of {}", names.join(", ")))
            })
    }
}

impl Entry {
    /// Reads an entry. Its other fields follow from these, and are ignored.
    pub(super) fn parse(kind: Kind, entry: &Map<String, Value>) -> Result<Self, Rejection> {
        let entity = text_of(entry, "entity")?;
        if let Some(problem) = fault(entity) {
            return Err(Rejection::invalid_field("entity", problem));
        }
        Ok(Self {
            entity: entity.to_owned(),
            role: Role::parse(kind, entry)?,
        })
    }

    fn new(entity: impl Into<String>, role: Role) -> Self {
        Self {
            entity: entity.into(),
            role,
        }
    }

    fn of_team(team: &str, role: Role) -> Self {
        Self::new(format!("project-{team}-{PROJECT_NUMBER}"), role)
    }
}

fn text_of<'a>(entry: &'a Map<String, Value>, field: &str) -> Result<&'a str, Rejection> {
    match entry.get(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text),
        None | Some(Value::Null | Value::String(_)) => Err(Rejection::MissingField {
            field: field.to_owned(),
        }),
        Some(_) => Err(Rejection::invalid_field(field, "must be of type string")),
    }
}

fn fault(entity: &str) -> Option<&'static str> {
    let named = ["user-", "group-", "domain-"];
    let teams = ["project-owners-", "project-editors-", "project-viewers-"];
    let mut prefixes = named.into_iter().chain(teams);
    let name = prefixes.find_map(|prefix| entity.strip_prefix(prefix));
    let is_named = name.is_some_and(|name| !name.is_empty());
    if entity.len() > MAX_ENTITY_LEN {
        Some("has at most 320 bytes")
    } else if entity.contains(|it: char| it.is_control() || it.is_whitespace()) {
        Some("must not have spaces or control characters in it")
    } else if ![ALL_USERS, ALL_AUTHENTICATED_USERS].contains(&entity) && !is_named {
        Some(
            "must be allUsers, allAuthenticatedUsers, or begin with user-, group-, domain-, \
             project-owners-, project-editors- or project-viewers-",
        )
    } else {
        None
    }
}

impl Default for Acl {
    /// The list `projectPrivate`, which a bucket or an object without a stated list has.
    fn default() -> Self {
        Self(vec![
            Entry::of_team("owners", Role::Owner),
            Entry::of_team("editors", Role::Owner),
            Entry::of_team("viewers", Role::Reader),
        ])
    }
}

impl Acl {
    /// Returns a list with the owner alone.
    pub(super) fn private() -> Self {
        Self(vec![Entry::of_team("owners", Role::Owner)])
    }

    /// Returns the list that the service has under this name, the value of `parameter`.
    ///
    /// <https://cloud.google.com/storage/docs/access-control/lists#predefined-acl>
    pub(super) fn predefined(kind: Kind, parameter: &str, name: &str) -> Result<Self, Rejection> {
        let shared = |entity, role| {
            let Self(mut entries) = Self::private();
            entries.push(Entry::new(entity, role));
            Self(entries)
        };
        match (kind, name) {
            (_, "projectPrivate") => Ok(Self::default()),
            // The owners of the project also own the bucket.
            (_, "private") | (Kind::Object, "bucketOwnerRead" | "bucketOwnerFullControl") => {
                Ok(Self::private())
            }
            (_, "publicRead") => Ok(shared(ALL_USERS, Role::Reader)),
            (_, "authenticatedRead") => Ok(shared(ALL_AUTHENTICATED_USERS, Role::Reader)),
            (Kind::Bucket, "publicReadWrite") => Ok(shared(ALL_USERS, Role::Writer)),
            _ => Err(Rejection::InvalidParameter {
                parameter: parameter.to_owned(),
                problem: "is not the name of a predefined access control list".to_owned(),
            }),
        }
    }

    /// Reads a list, the value of `field`. Null is an empty list.
    pub(super) fn parse(kind: Kind, field: &str, value: &Value) -> Result<Self, Rejection> {
        let entries = match value {
            Value::Null => &[],
            Value::Array(entries) => &entries[..],
            _ => return Err(Rejection::invalid_field(field, "must be an array")),
        };
        let mut acl = Self(Vec::new());
        for entry in entries {
            let Value::Object(entry) = entry else {
                return Err(Rejection::invalid_field(
                    field,
                    "must be an array of objects",
                ));
            };
            acl.set(Entry::parse(kind, entry)?)?;
        }
        Ok(acl.with_owner())
    }

    /// Returns the list with an entry, which takes the place of the one for the same entity.
    pub(super) fn with(mut self, entry: Entry) -> Result<Self, Rejection> {
        self.set(entry)?;
        Ok(self.with_owner())
    }

    /// Returns the list without the entry for an entity.
    pub(super) fn without(mut self, entity: &str) -> Self {
        self.0.retain(|entry| entry.entity != entity);
        self.with_owner()
    }

    fn set(&mut self, entry: Entry) -> Result<(), Rejection> {
        let mut entries = self.0.iter_mut();
        if let Some(old) = entries.find(|old| old.entity == entry.entity) {
            old.role = entry.role;
            return Ok(());
        }
        if self.0.len() == MAX_ENTRIES {
            let problem = format!("has at most {MAX_ENTRIES} entries");
            return Err(Rejection::invalid_field("acl", problem));
        }
        self.0.push(entry);
        Ok(())
    }

    /// Adds an owner to a list without one, as the service does. `gsutil` takes a list without
    /// entries for a list that it may not read.
    fn with_owner(mut self) -> Self {
        if !self.0.iter().any(|entry| entry.role == Role::Owner) {
            let Self(owner) = Self::private();
            self.0.retain(|entry| entry.entity != owner[0].entity);
            self.0.splice(0..0, owner);
        }
        self
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub(super) fn find(&self, entity: &str) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.entity == entity)
    }

    /// Whether the list contains everybody, or everybody with valid credentials if the caller has
    /// some. All roles include reading.
    pub(super) fn is_public(&self, has_credentials: bool) -> bool {
        let is_in = |entity| self.find(entity).is_some();
        is_in(ALL_USERS) || (has_credentials && is_in(ALL_AUTHENTICATED_USERS))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(kind: Kind, value: &Value) -> Result<Acl, Rejection> {
        Acl::parse(kind, "acl", value)
    }

    #[test]
    fn entity_and_role_of_an_entry_are_checked() {
        for entity in [
            "allUsers",
            "allAuthenticatedUsers",
            "user-a@example.com",
            "group-1",
            "domain-example.com",
            "project-viewers-7",
        ] {
            let list = json!([{"entity": entity, "role": "READER", "email": 7}]);
            assert!(parsed(Kind::Object, &list).is_ok(), "{entity}");
        }
        let long = format!("user-{}", "x".repeat(316));
        for entity in ["", "allusers", "user-", "a", "user-a b", "user-a\n", &long] {
            let list = json!([{"entity": entity, "role": "READER"}]);
            assert!(parsed(Kind::Object, &list).is_err(), "{entity}");
        }
        for role in [json!("WRITER"), json!("reader"), json!(1), json!(null)] {
            let list = json!([{"entity": "allUsers", "role": role}]);
            assert!(parsed(Kind::Object, &list).is_err(), "{list}");
        }
        let writers = json!([{"entity": "allUsers", "role": "WRITER"}]);
        assert!(parsed(Kind::Bucket, &writers).is_ok());
        for list in [json!("allUsers"), json!(["allUsers"]), json!({})] {
            assert!(parsed(Kind::Object, &list).is_err(), "{list}");
        }
    }

    #[test]
    fn list_has_100_entries_and_one_for_each_entity() {
        let entries: Vec<_> = (0..101)
            .map(|at| json!({"entity": format!("user-{at}"), "role": "OWNER"}))
            .collect();
        let most = parsed(Kind::Object, &entries[..100].into()).unwrap();
        assert!(parsed(Kind::Object, &entries.into()).is_err());
        assert!(
            most.clone()
                .with(Entry::new("allUsers", Role::Reader))
                .is_err()
        );
        let changed = most.with(Entry::new("user-7", Role::Reader)).unwrap();
        assert_eq!(changed.entries().len(), 100);
        assert_eq!(changed.find("user-7").unwrap().role, Role::Reader);
    }

    #[test]
    fn list_always_has_an_owner() {
        assert_eq!(parsed(Kind::Object, &json!(null)).unwrap(), Acl::private());
        assert_eq!(Acl::private().without("project-owners-0"), Acl::private());
        let reader = json!([{"entity": "project-owners-0", "role": "READER"}]);
        assert_eq!(parsed(Kind::Object, &reader).unwrap(), Acl::private());
    }

    #[test]
    fn predefined_lists_are_public_to_those_they_name() {
        for (kind, name, strangers, authenticated) in [
            (Kind::Object, "private", false, false),
            (Kind::Object, "projectPrivate", false, false),
            (Kind::Object, "bucketOwnerRead", false, false),
            (Kind::Object, "bucketOwnerFullControl", false, false),
            (Kind::Object, "authenticatedRead", false, true),
            (Kind::Object, "publicRead", true, true),
            (Kind::Bucket, "publicReadWrite", true, true),
        ] {
            let acl = Acl::predefined(kind, "predefinedAcl", name).unwrap();
            assert_eq!(acl.is_public(false), strangers, "{name}");
            assert_eq!(acl.is_public(true), authenticated, "{name}");
        }
        for (kind, name) in [(Kind::Object, "publicReadWrite"), (Kind::Bucket, "public")] {
            assert!(Acl::predefined(kind, "predefinedAcl", name).is_err());
        }
    }
}
