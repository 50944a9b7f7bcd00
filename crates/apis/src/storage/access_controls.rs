//! The methods on access control lists: of buckets, of objects, and of the objects of a bucket that
//! come without one.

use serde_json::{Map, Value};
use windlass_rest::handler::{Answer, Call, Rejection};

use super::acl::{Acl, Entry, Kind, Role};
use super::bucket::{Bucket, Lists};
use super::object::{Change, Object, UpdateMode};
use super::objects::{existing, value};
use super::projection::{self, At};
use super::{Access, Preconditions, Versions};

/// Whether the method is one of these.
pub(super) fn has(method: &str) -> bool {
    method.contains("AccessControls.")
}

/// Carries out a method.
pub(super) async fn run(call: &Call<'_>) -> Result<Answer, Rejection> {
    let id = call.method.id.strip_prefix("storage.");
    let Some((lists, verb)) = id.and_then(|id| id.split_once('.')) else {
        return Err(call.not_implemented());
    };
    let access = match verb {
        "list" | "get" => Access::Read,
        _ => Access::Write,
    };
    let list = List::find(call, lists, access).await?;
    match verb {
        "list" => list.show_all(call),
        "get" => Ok(Answer::of(list.show(&list.named(call)?, call))),
        "insert" => {
            let entry = Entry::parse(list.kind(), call.metadata)?;
            list.set(call, &entry)
        }
        // The role is the only field of an entry that can change, so both methods are the same.
        "patch" | "update" => {
            let role = Role::parse(list.kind(), call.metadata)?;
            let entry = list.named(call)?;
            list.set(call, &Entry { role, ..entry })
        }
        "delete" => {
            let entry = list.named(call)?;
            let acl = list.acl().without(&entry.entity);
            let (_, answer) = list.changed(call, acl)?;
            Ok(answer)
        }
        _ => Err(call.not_implemented()),
    }
}

/// A list, with the bucket or object that it belongs to.
enum List {
    Bucket(Bucket),
    NewObjects(Bucket),
    Object(Object),
}

impl List {
    /// Returns the list in the path, after the preconditions of the call are checked against the
    /// bucket or object that has the list.
    async fn find(call: &Call<'_>, lists: &str, access: Access) -> Result<Self, Rejection> {
        let bucket = Bucket::find(call, value(call, "bucket").unwrap_or_default()).await?;
        bucket.check_has_lists()?;
        let list = match lists {
            "objectAccessControls" => {
                let name = value(call, "object").unwrap_or_default();
                let object = existing(call, bucket.name(), name, "generation").await?;
                Self::Object(object)
            }
            "bucketAccessControls" => Self::Bucket(bucket),
            "defaultObjectAccessControls" => Self::NewObjects(bucket),
            _ => return Err(call.not_implemented()),
        };
        let (versions, etag) = list.versions();
        Preconditions::on_target(call)?.check(Some(versions), access)?;
        call.check_conditions(&etag)?;
        Ok(list)
    }

    /// Returns the versions and the entity tag of the bucket or object that has the list.
    fn versions(&self) -> (Versions, String) {
        match self {
            Self::Bucket(bucket) | Self::NewObjects(bucket) => (bucket.versions(), bucket.etag()),
            Self::Object(object) => (object.versions(), object.etag()),
        }
    }

    fn at(&self) -> At<'_> {
        match self {
            Self::Bucket(bucket) => At::Bucket(bucket),
            Self::NewObjects(bucket) => At::NewObjects(bucket),
            Self::Object(object) => At::Object(object),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Bucket(_) => Kind::Bucket,
            Self::NewObjects(_) | Self::Object(_) => Kind::Object,
        }
    }

    fn stored(&self) -> Option<&Acl> {
        match self {
            Self::Bucket(bucket) => bucket.acl(),
            Self::NewObjects(bucket) => bucket.default_object_acl(),
            Self::Object(object) => object.acl(),
        }
    }

    fn acl(&self) -> Acl {
        self.stored().cloned().unwrap_or_default()
    }

    /// Returns the entry that the path names.
    fn named(&self, call: &Call<'_>) -> Result<Entry, Rejection> {
        let entity = value(call, "entity").unwrap_or_default();
        let entry = self.acl().find(entity).cloned();
        entry.ok_or_else(|| Rejection::NotFound {
            what: "access control entry".to_owned(),
            id: entity.to_owned(),
        })
    }

    fn show(&self, entry: &Entry, call: &Call<'_>) -> Map<String, Value> {
        self.at().show(entry, call.base_url)
    }

    fn show_all(&self, call: &Call<'_>) -> Result<Answer, Rejection> {
        let kind = match self.kind() {
            Kind::Bucket => "storage#bucketAccessControls",
            Kind::Object => "storage#objectAccessControls",
        };
        let mut body = Map::new();
        body.insert("kind".into(), kind.into());
        let items = projection::entries(call, self.stored(), &self.at())?;
        body.insert("items".into(), items);
        Ok(Answer::of(body))
    }

    fn set(self, call: &Call<'_>, entry: &Entry) -> Result<Answer, Rejection> {
        let acl = self.acl().with(entry.clone())?;
        let (list, answer) = self.changed(call, acl)?;
        Ok(Answer {
            body: Some(list.show(entry, call).into()),
            ..answer
        })
    }

    /// Returns the changed list, and the answer that writes it.
    fn changed(self, call: &Call<'_>, acl: Acl) -> Result<(Self, Answer), Rejection> {
        let acl = Some(acl);
        let (list, change) = match self {
            Self::Bucket(bucket) => {
                let lists = bucket.lists().clone();
                let fields = bucket.fields().clone();
                let (bucket, change) = bucket.changed(call, fields, Lists { acl, ..lists });
                (Self::Bucket(bucket), change)
            }
            Self::NewObjects(bucket) => {
                let lists = Lists {
                    default_object_acl: acl,
                    ..bucket.lists().clone()
                };
                let fields = bucket.fields().clone();
                let (bucket, change) = bucket.changed(call, fields, lists);
                (Self::NewObjects(bucket), change)
            }
            Self::Object(old) => {
                let same = old.clone();
                let object = same.changed(call, Change::default(), UpdateMode::Patch)?;
                let object = object.with_acl(acl);
                let change = object.put(Some(&old));
                (Self::Object(object), change)
            }
        };
        let answer = Answer {
            changes: vec![change],
            ..Answer::default()
        };
        Ok((list, answer))
    }
}
