//! Google Cloud Storage: buckets, and objects in them.
//!
//! | module | content |
//! |---|---|
//! | `buckets`, `objects`, `compose`, `listing` | the methods; pages of lists |
//! | `access_controls` | the methods on access control lists |
//! | `projection` | the JSON of replies, with lists or without |
//! | `xml` | the path `/BUCKET/OBJECT` of the XML API, and its headers |
//! | `bucket`, `object`, `acl` | rows, names and JSON of each; lists |
//!
//! The preconditions of all of them, `ifGenerationMatch` and the like, are here.
//!
//! Only the live generation of an object exists. Methods on policies, notifications, folders and
//! versions are refused as not implemented.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use windlass_discovery::{Api, Method};
use windlass_rest::ServedApi;
use windlass_rest::handler::{Answer, ApiHandler, Call, Rejection, Uploaded};
use windlass_store::Resource;

use crate::not_served::NotServed;
use crate::{ApiProvider, description};

mod access_controls;
mod acl;
mod bucket;
mod buckets;
mod compose;
mod listing;
mod object;
mod objects;
mod projection;
mod xml;

pub(crate) use bucket::fault_of_name;

use object::Object;

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "storage",
    inputs: include_str!("storage/inputs.toml"),
    built_in: |_| vec![served(own_description())],
    // Client libraries rely on details that no discovery document states; they are in our
    // description.
    from_document: |api, _| served(api.with_settings(own_description().settings().clone())),
};

/// Methods of the service that are not here.
const NOT_SERVED: NotServed = NotServed::new(&[
    ("GET PUT", "storage/v1/b/{b}/iam", "storage.buckets.iam"),
    (
        "GET",
        "storage/v1/b/{b}/iam/testPermissions",
        "storage.buckets.testIamPermissions",
    ),
    (
        "GET PUT",
        "storage/v1/b/{b}/o/{o}/iam",
        "storage.objects.iam",
    ),
    (
        "GET",
        "storage/v1/b/{b}/o/{o}/iam/testPermissions",
        "storage.objects.testIamPermissions",
    ),
    (
        "GET POST",
        "storage/v1/b/{b}/notificationConfigs",
        "storage.notifications",
    ),
    (
        "GET DELETE",
        "storage/v1/b/{b}/notificationConfigs/{id}",
        "storage.notifications",
    ),
    ("GET POST", "storage/v1/b/{b}/folders", "storage.folders"),
    ("*", "storage/v1/b/{b}/folders/{+rest}", "storage.folders"),
    (
        "*",
        "storage/v1/b/{b}/managedFolders/{+rest}",
        "storage.managedFolders",
    ),
    (
        "GET POST",
        "storage/v1/b/{b}/anywhereCaches",
        "storage.anywhereCaches",
    ),
    (
        "*",
        "storage/v1/b/{b}/anywhereCaches/{+rest}",
        "storage.anywhereCaches",
    ),
    (
        "*",
        "storage/v1/b/{b}/operations/{+rest}",
        "storage.operations",
    ),
    ("GET", "storage/v1/b/{b}/operations", "storage.operations"),
    (
        "POST",
        "storage/v1/b/{b}/lockRetentionPolicy",
        "storage.buckets.lockRetentionPolicy",
    ),
    (
        "POST",
        "storage/v1/b/{b}/relocate",
        "storage.buckets.relocate",
    ),
    (
        "POST",
        "storage/v1/b/{b}/restore",
        "storage.buckets.restore",
    ),
    (
        "POST",
        "storage/v1/b/{b}/o/{o}/restore",
        "storage.objects.restore",
    ),
    ("POST", "storage/v1/channels/stop", "storage.channels.stop"),
    (
        "GET",
        "storage/v1/projects/{p}/serviceAccount",
        "storage.projects.serviceAccount.get",
    ),
    (
        "*",
        "storage/v1/projects/{p}/hmacKeys",
        "storage.projects.hmacKeys",
    ),
    (
        "*",
        "storage/v1/projects/{p}/hmacKeys/{key}",
        "storage.projects.hmacKeys",
    ),
]);

fn own_description() -> Api {
    description(include_str!("storage/storage.toml"))
}

fn served(api: Api) -> ServedApi {
    ServedApi::new(api, Arc::new(StorageKind))
}

/// The handler of Cloud Storage.
#[derive(Debug, Clone, Copy)]
struct StorageKind;

#[async_trait]
impl ApiHandler for StorageKind {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        match call.method.id.as_str() {
            "storage.objects.insert" => objects::admit(call).await,
            _ => Ok(()),
        }
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        match call.method.id.as_str() {
            "storage.buckets.delete" => buckets::delete(call).await,
            "storage.buckets.get" => buckets::show(call).await,
            "storage.buckets.getStorageLayout" => buckets::layout(call).await,
            "storage.buckets.insert" => buckets::insert(call).await,
            "storage.buckets.list" => buckets::list(call).await,
            "storage.buckets.patch" => buckets::patch(call).await,
            "storage.buckets.update" => buckets::update(call).await,
            "storage.managedFolders.list" => buckets::managed_folders(call).await,
            "storage.objects.compose" => compose::compose(call, media).await,
            "storage.objects.copy" => objects::copy(call).await,
            "storage.objects.delete" => objects::delete(call).await,
            "storage.objects.get" => objects::show(call).await,
            "storage.objects.insert" => objects::insert(call, media).await,
            "storage.objects.list" => listing::list(call).await,
            "storage.objects.move" => objects::rename(call).await,
            "storage.objects.patch" => objects::patch(call).await,
            "storage.objects.rewrite" => objects::rewrite(call).await,
            "storage.objects.update" => objects::update(call).await,
            id if access_controls::has(id) => access_controls::run(call).await,
            other => Err(Rejection::NotImplemented {
                method: other.to_owned(),
            }),
        }
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        objects::find(call).await.map(Object::into_resource)
    }

    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        objects::turn(call)
    }

    /// An access control list can make these reads public.
    fn guards(&self, method: &Method) -> bool {
        ["storage.objects.get", "storage.objects.list"].contains(&method.id.as_str())
    }

    /// `/BUCKET/OBJECT`, at which the libraries for Go and restic read media. The rest of the XML
    /// API is not here.
    fn alias(&self, api: &Api, path: &str) -> Option<String> {
        xml::alias(api, path)
    }

    fn not_served(&self, http_method: &http::Method, path: &str) -> Option<String> {
        NOT_SERVED.find(http_method, path)
    }

    fn media_etag(&self, resource: &Resource) -> Option<String> {
        Some(Object::read(resource.clone()).etag())
    }

    fn media_headers(&self, resource: &Resource) -> HeaderMap {
        Object::read(resource.clone()).media_headers()
    }

    fn media_headers_at_alias(
        &self,
        call: &Call<'_>,
        resource: &Resource,
    ) -> Result<HeaderMap, Rejection> {
        xml::media_headers(call, &Object::read(resource.clone()))
    }
}

/// Generation and metageneration of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Versions {
    generation: u64,
    metageneration: u64,
}

/// Kind of a call, which decides the status if a condition for a changed object fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// A read: 304.
    Read,
    /// A write: 412.
    Write,
}

/// The preconditions of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Preconditions {
    generation: Condition,
    metageneration: Condition,
}

/// A number that must match, and a number that must not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Condition {
    equal: Option<i64>,
    other_than: Option<i64>,
}

/// Names of the parameters: generation matches, does not match, metageneration matches, does not
/// match.
type Names = [&'static str; 4];

const TARGET: Names = [
    "ifGenerationMatch",
    "ifGenerationNotMatch",
    "ifMetagenerationMatch",
    "ifMetagenerationNotMatch",
];

/// The headers of the XML API with the preconditions of [`TARGET`].
const TARGET_HEADERS: Names = [
    "x-goog-if-generation-match",
    "x-goog-if-generation-not-match",
    "x-goog-if-metageneration-match",
    "x-goog-if-metageneration-not-match",
];

const SOURCE: Names = [
    "ifSourceGenerationMatch",
    "ifSourceGenerationNotMatch",
    "ifSourceMetagenerationMatch",
    "ifSourceMetagenerationNotMatch",
];

impl Preconditions {
    /// Reads the preconditions on the object that the call reads or writes: the parameters of the
    /// JSON API, and the headers of the XML API.
    fn on_target(call: &Call<'_>) -> Result<Self, Rejection> {
        let by_query = Self::parse(TARGET, |name| call.query.first(name))?;
        let mut by_header = [None; 4];
        for (name, value) in TARGET_HEADERS.into_iter().zip(&mut by_header) {
            *value = header_number(name, call.condition_header(name)?)?;
        }
        let [
            generation,
            not_generation,
            metageneration,
            not_metageneration,
        ] = by_header;
        by_query.and(Self {
            generation: Condition {
                equal: generation,
                other_than: not_generation,
            },
            metageneration: Condition {
                equal: metageneration,
                other_than: not_metageneration,
            },
        })
    }

    /// Returns the preconditions of both. The same one may be in both, but not with two values.
    fn and(self, other: Self) -> Result<Self, Rejection> {
        Ok(Self {
            generation: self.generation.and(other.generation)?,
            metageneration: self.metageneration.and(other.metageneration)?,
        })
    }

    /// Reads the preconditions on the source of a copy.
    fn on_source(call: &Call<'_>) -> Result<Self, Rejection> {
        Self::parse(SOURCE, |name| call.query.first(name))
    }

    fn parse<'a>(
        names: Names,
        value: impl Fn(&'static str) -> Option<&'a str>,
    ) -> Result<Self, Rejection> {
        let [
            generation,
            not_generation,
            metageneration,
            not_metageneration,
        ] = names.map(|name| condition(name, value(name)));
        Ok(Self {
            generation: Condition {
                equal: generation?,
                other_than: not_generation?,
            },
            metageneration: Condition {
                equal: metageneration?,
                other_than: not_metageneration?,
            },
        })
    }

    /// Checks the preconditions on the existing object, if any.
    fn check(&self, current: Option<Versions>, access: Access) -> Result<(), Rejection> {
        let conditions = [
            (self.generation, current.map(|it| it.generation)),
            (self.metageneration, current.map(|it| it.metageneration)),
        ];
        if conditions.iter().any(|(it, number)| it.differs(*number)) {
            return Err(Rejection::ConditionNotMet);
        }
        if conditions.iter().any(|(it, number)| it.is_known(*number)) {
            return Err(match access {
                Access::Read => Rejection::NotModified,
                Access::Write => Rejection::ConditionNotMet,
            });
        }
        Ok(())
    }
}

impl Condition {
    fn and(self, other: Self) -> Result<Self, Rejection> {
        Ok(Self {
            equal: one_of(self.equal, other.equal)?,
            other_than: one_of(self.other_than, other.other_than)?,
        })
    }

    /// Generation 0 stands for an object that does not exist.
    fn differs(&self, number: Option<u64>) -> bool {
        self.equal.is_some_and(|equal| !is(equal, number))
    }

    fn is_known(&self, number: Option<u64>) -> bool {
        self.other_than
            .is_some_and(|other| number.is_none() || is(other, number))
    }
}

fn is(expected: i64, number: Option<u64>) -> bool {
    u64::try_from(expected) == Ok(number.unwrap_or_default())
}

/// Returns the number of a precondition that may be in the query and in a header.
fn one_of(by_query: Option<i64>, by_header: Option<i64>) -> Result<Option<i64>, Rejection> {
    match (by_query, by_header) {
        (Some(query), Some(header)) if query != header => Err(Rejection::InvalidArgument {
            problem: format!(
                "the query states {query} as a precondition and a header states {header}; state it \
                 once"
            ),
        }),
        _ => Ok(by_query.or(by_header)),
    }
}

/// As [`number`], of a header. An empty one does not switch the condition off.
fn header_number(name: &str, text: Option<&str>) -> Result<Option<i64>, Rejection> {
    condition(name, text).map_err(|_| Rejection::InvalidHeader {
        header: name.to_owned(),
        problem: "must be a number of 64 bits".to_owned(),
    })
}

/// Returns the value of a parameter that is a number of 64 bits, if it has one.
fn number(name: &str, text: Option<&str>) -> Result<Option<i64>, Rejection> {
    condition(name, text.filter(|text| !text.is_empty()))
}

/// As [`number`], of a precondition. An empty one does not switch it off.
fn condition(name: &str, text: Option<&str>) -> Result<Option<i64>, Rejection> {
    let number = text.map(str::parse::<i64>).transpose();
    number.map_err(|_| Rejection::InvalidParameter {
        parameter: name.to_owned(),
        problem: "must be a number of 64 bits".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERE: Option<Versions> = Some(Versions {
        generation: 7,
        metageneration: 2,
    });

    fn on_target(query: &str) -> Result<Preconditions, Rejection> {
        let pairs: Vec<_> = query
            .split('&')
            .filter_map(|it| it.split_once('='))
            .collect();
        Preconditions::parse(TARGET, |name| {
            let pair = pairs.iter().find(|(key, _)| *key == name);
            pair.map(|(_, value)| *value)
        })
    }

    fn verdict(query: &str, current: Option<Versions>, access: Access) -> &'static str {
        let conditions = on_target(query).expect("numbers");
        match conditions.check(current, access) {
            Ok(()) => "proceed",
            Err(Rejection::NotModified) => "not modified",
            Err(Rejection::ConditionNotMet) => "not met",
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn preconditions_compare_generation_and_metageneration() {
        let table = [
            ("", "proceed", "proceed"),
            ("ifGenerationMatch=7", "proceed", "not met"),
            ("ifGenerationMatch=8", "not met", "not met"),
            ("ifGenerationMatch=-7", "not met", "not met"),
            ("ifGenerationMatch=0", "not met", "proceed"),
            ("ifGenerationNotMatch=8", "proceed", "not met"),
            ("ifGenerationNotMatch=7", "not met", "not met"),
            ("ifGenerationNotMatch=0", "proceed", "not met"),
            ("ifMetagenerationMatch=2", "proceed", "not met"),
            ("ifMetagenerationMatch=1", "not met", "not met"),
            ("ifMetagenerationNotMatch=1", "proceed", "not met"),
            ("ifMetagenerationNotMatch=2", "not met", "not met"),
            (
                "ifGenerationMatch=7&ifMetagenerationMatch=1",
                "not met",
                "not met",
            ),
        ];
        for (query, there, nothing) in table {
            assert_eq!(
                verdict(query, THERE, Access::Write),
                there,
                "{query}, there"
            );
            assert_eq!(
                verdict(query, None, Access::Write),
                nothing,
                "{query}, nothing"
            );
        }
    }

    #[test]
    fn read_of_unchanged_object_is_not_modified() {
        assert_eq!(
            verdict("ifGenerationNotMatch=7", THERE, Access::Read),
            "not modified"
        );
        assert_eq!(
            verdict("ifMetagenerationNotMatch=2", THERE, Access::Read),
            "not modified"
        );
        assert_eq!(
            verdict("ifGenerationMatch=8", THERE, Access::Read),
            "not met"
        );
    }

    #[test]
    fn non_numeric_precondition_is_refused() {
        for query in [
            "ifGenerationMatch=x",
            "ifGenerationMatch=",
            "ifGenerationNotMatch=9223372036854775808",
        ] {
            assert!(on_target(query).is_err(), "{query}");
        }
    }
}
