//! The default handler, which works for any description. It stores the client's fields and adds the
//! fields that the response schema names.
//!
//! Only the client's fields are stored. All other fields (`id`, `size`, `crc32c`, ...) are computed
//! from the record for each reply, so they cannot disagree with the record.
//!
//! The description of a method decides what the method does (`operation`). Metadata is validated
//! against the request schema (`schema_validation`). A reply has the form of the response schema
//! (`response_shape`), including the fields that the server fills in (`fields`).

mod enforcement;
mod fields;
mod filter;
mod index;
mod index_record;
mod list;
mod operation;
mod relations;
mod response_shape;
mod schema_validation;
mod stored;
mod target;

use async_trait::async_trait;
use serde_json::{Map, Value};
use windlass_store::{Expected, Media, Resource, ResourceChange};

use crate::handler::{Answer, ApiHandler, Call, Rejection, Uploaded, first_version};

use enforcement::{add_defaults, check_immutable, check_required, keep_fixed};
use fields::{
    UpdateMask, changed_bytes, check_client_fields, client_fields, etag, fields_of,
    fields_to_bytes, patched, updated,
};
use list::list;
use operation::{CallContext, Operation, ResourceKey, chosen_id};
use response_shape::{Reply, ResponseShape};

pub use fields::patched as patched_fields;
pub(crate) use fields::{rfc3339, with_digests};
pub use index::is_index;
#[cfg(feature = "fuzzing")]
pub use list::fuzzing::ListQuery;
pub use operation::unanswered_methods;
pub use stored::{Fit, StoredResources};
pub(crate) use target::Target;

/// Number of resources that are read from the ledger at a time.
const BATCH: usize = 16;

/// The handler for any description. It stores the client's fields and adds the fields that the
/// response schema names.
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultHandler;

#[async_trait]
impl ApiHandler for DefaultHandler {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        check_client_fields(call).await?;
        // The result is not needed yet: a wrong mask is refused before the media is received.
        UpdateMask::of(call)?;
        match Operation::of(call)? {
            Operation::Get(_) | Operation::List(_) | Operation::Delete(_) => Ok(()),
            // The whole write is tried, so that a taken id, a missing parent or a false condition
            // is refused before the media is received.
            writing => Write::of(call, writing, Upload::Started).await.map(drop),
        }
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        match Operation::of(call)? {
            Operation::Get(candidates) => {
                let resource = find_existing(call, &candidates).await?;
                // Before the row is parsed: its JSON takes several times its bytes.
                call.reply_memory.hold_row(&resource.body)?;
                Ok(Answer::of(
                    ResponseShape::new(&CallContext::of(call), &resource).resource_fields(),
                ))
            }
            Operation::List(collection) => list(call, &collection).await,
            Operation::Delete(named) => {
                let resource = find_existing(call, &[named]).await?;
                call.reply_memory.hold_row(&resource.body)?;
                delete(call, resource).await
            }
            writing => {
                let media = media.map(|uploaded| uploaded.media);
                let upload = media.map_or(Upload::None, Upload::Finished);
                let write = Write::of(call, writing, upload).await?;
                write.answer(call).await
            }
        }
    }

    /// The default key, with one exception. An insert into a collection inside of a resource is
    /// serialised with changes of this resource, because the insert relies on the resource's
    /// version.
    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        relations::lock_key(call).or_else(|| call.lock_key_by_path())
    }

    /// Index rows count for no principal, because any caller may cause them, even for resources of
    /// other principals. Each resource has only a few.
    fn counts(&self, collection: &str) -> bool {
        !is_index(collection)
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        match Operation::of(call)? {
            Operation::Get(candidates) => find_existing(call, &candidates).await,
            Operation::Update(named)
            | Operation::Patch(named)
            | Operation::Delete(named)
            | Operation::Attach(named) => find_existing(call, &[named]).await,
            Operation::Insert(_) | Operation::List(_) => Err(operation::not_implemented(call)),
        }
    }
}

/// Returns the first of these resources that exists.
async fn find_existing(call: &Call<'_>, candidates: &[ResourceKey]) -> Result<Resource, Rejection> {
    for ResourceKey { collection, id } in candidates {
        if let Some(resource) = call.lookup.resource(collection, id).await? {
            call.check_conditions(&etag(resource.version))?;
            return Ok(resource);
        }
    }
    let what = call.method.response.clone();
    Err(Rejection::NotFound {
        what: what.unwrap_or_else(|| "resource".to_owned()),
        id: candidates
            .first()
            .map_or_else(String::new, |named| named.id.clone()),
    })
}

/// Returns the id that the client has chosen, or a new id. A chosen id that is already used is
/// refused.
async fn available_id(call: &Call<'_>, collection: &str) -> Result<String, Rejection> {
    let Some(id) = chosen_id(call, collection)? else {
        return Ok(CallContext::of(call).fresh_id(collection));
    };
    match call.lookup.resource(collection, id).await? {
        None => Ok(id.to_owned()),
        // If the id is taken between this check and the commit, the commit fails, and the call runs
        // again up to here.
        Some(_) => Err(Rejection::AlreadyExists {
            what: "resource".to_owned(),
            id: id.to_owned(),
        }),
    }
}

/// How a call changes the fields of a resource.
#[derive(Clone, Copy)]
enum Change {
    /// The client's fields replace the old fields.
    Replace,
    /// The client's fields are added. Null removes a field.
    Merge,
}

/// A resource that a call creates or changes.
struct Write {
    /// The resource before; `None` for a new one.
    old: Option<Resource>,
    new: Resource,
    /// The resources on which the write depends.
    expect: Vec<Expected>,
}

impl Write {
    /// Returns the result of `operation`, which must be a write.
    async fn of(call: &Call<'_>, operation: Operation, upload: Upload) -> Result<Self, Rejection> {
        let (old, change) = match operation {
            Operation::Insert(collection) => {
                let id = available_id(call, &collection).await?;
                return Self::new_resource(call, ResourceKey { collection, id }, upload).await;
            }
            Operation::Attach(named) => {
                match call.lookup.resource(&named.collection, &named.id).await? {
                    None => return Self::new_resource(call, named, upload).await,
                    Some(old) => {
                        call.check_conditions(&etag(old.version))?;
                        (old, Change::Merge)
                    }
                }
            }
            Operation::Update(named) => (find_existing(call, &[named]).await?, Change::Replace),
            Operation::Patch(named) => (find_existing(call, &[named]).await?, Change::Merge),
            Operation::Get(_) | Operation::List(_) | Operation::Delete(_) => {
                return Err(operation::not_implemented(call));
            }
        };
        call.reply_memory.hold_row(&old.body)?;
        upload.check_fields(call).await?;
        let new = replaced(call, old.clone(), upload, change)?;
        Self::checked(call, Some(old), new).await
    }

    /// Checks the resources on which the change from `old` to `new` depends.
    async fn checked(
        call: &Call<'_>,
        old: Option<Resource>,
        new: Resource,
    ) -> Result<Self, Rejection> {
        call.reply_memory.hold_row(&new.body)?;
        let expect = relations::check(call, old.as_ref(), &new).await?;
        Ok(Self { old, new, expect })
    }

    async fn new_resource(
        call: &Call<'_>,
        named: ResourceKey,
        upload: Upload,
    ) -> Result<Self, Rejection> {
        call.check_conditions_of_new()?;
        upload.check_fields(call).await?;
        let media = match upload {
            Upload::Finished(media) => Some(media),
            Upload::None | Upload::Started => None,
        };
        let new = inserted(call, named.collection, named.id, media)?;
        Self::checked(call, None, new).await
    }

    async fn answer(self, call: &Call<'_>) -> Result<Answer, Rejection> {
        let Self {
            old,
            new,
            mut expect,
        } = self;
        let settings = call.api.settings().collection_of(call.method);
        let mut rows = index::changes(call, settings, old.as_ref(), Some(&new)).await?;
        let record = index_record::for_write(call, settings, &new.collection).await?;
        rows.extend(record.change);
        expect.extend(record.expect);
        let reply = ResponseShape::new(&CallContext::of(call), &new).reply();
        let change = match old {
            None => ResourceChange::Insert(new),
            Some(old) => ResourceChange::Replace {
                resource: new,
                expected: old.version,
            },
        };
        let mut answer = answer(change, reply);
        answer.changes.extend(rows);
        answer.expect = expect;
        Ok(answer)
    }
}

/// Returns the new resource of an insertion.
fn inserted(
    call: &Call<'_>,
    collection: String,
    id: String,
    media: Option<Media>,
) -> Result<Resource, Rejection> {
    // As an update of no fields: a null of the client stores nothing.
    let mut own = updated(Map::new(), client_fields(call)?);
    add_defaults(call, &mut own);
    let resource = Resource {
        collection,
        id,
        version: first_version(),
        body: fields_to_bytes(&own),
        media,
        created: call.now,
        updated: call.now,
        due: None,
        claimed_by: None,
        owner: None,
    };
    check_required(call, &resource, &own)?;
    Ok(resource)
}

/// The media of a change.
enum Upload {
    /// The change has none.
    None,
    /// The media has not arrived yet.
    Started,
    Finished(Media),
}

impl Upload {
    /// Checks the client's fields. If the media has not arrived before, [`DefaultHandler::admit`]
    /// has already checked them.
    async fn check_fields(&self, call: &Call<'_>) -> Result<(), Rejection> {
        match self {
            Self::Started => Ok(()),
            Self::None | Self::Finished(_) => check_client_fields(call).await,
        }
    }
}

/// Returns the resource after a change of its fields, its media, or both.
fn replaced(
    call: &Call<'_>,
    old: Resource,
    upload: Upload,
    change: Change,
) -> Result<Resource, Rejection> {
    let mask = UpdateMask::of(call)?;
    // An upload without metadata leaves the fields as they are.
    let only_media = !matches!(upload, Upload::None) && call.metadata.is_empty();
    let fields = match mask {
        Some(mask) => Some(mask.apply(fields_of(&old), client_fields(call)?)),
        None if only_media => None,
        None => Some(changed_fields(call, &old, change)?),
    };
    let body = match &fields {
        Some(fields) => {
            check_immutable(call, &old, fields)?;
            check_required(call, &old, fields)?;
            changed_bytes(call, &old, fields)?
        }
        None => old.body,
    };
    let media = match upload {
        Upload::Finished(media) => Some(media),
        Upload::None | Upload::Started => old.media,
    };
    Ok(Resource {
        version: old.version + 1,
        body,
        media,
        updated: call.now,
        due: None,
        claimed_by: None,
        ..old
    })
}

/// Returns the fields of a resource after the client's have changed them.
fn changed_fields(
    call: &Call<'_>,
    old: &Resource,
    change: Change,
) -> Result<Map<String, Value>, Rejection> {
    let (old, new) = (fields_of(old), client_fields(call)?);
    Ok(match change {
        Change::Merge => patched(old, new),
        Change::Replace => {
            let mut fields = updated(Map::new(), new);
            keep_fixed(call, &old, &mut fields);
            add_defaults(call, &mut fields);
            fields
        }
    })
}

async fn delete(call: &Call<'_>, resource: Resource) -> Result<Answer, Rejection> {
    let inside = relations::content(call, &resource).await?;
    let settings = call.api.settings().collection_of(call.method);
    let rows = index::changes(call, settings, Some(&resource), None).await?;
    let reply = call.method.response.as_ref().map(|_| {
        let context = CallContext::of(call);
        ResponseShape::new(&context, &resource).reply()
    });
    let delete = ResourceChange::Delete {
        collection: resource.collection,
        id: resource.id,
        expected: resource.version,
    };
    let mut answer = match reply {
        Some(reply) => answer(delete, reply),
        None => Answer {
            changes: vec![delete],
            ..Answer::default()
        },
    };
    answer.changes.extend(rows);
    answer.changes.extend(inside.deletions);
    // A resource inserted meanwhile would be left without its parent.
    answer.expect_empty = inside.collections;
    Ok(answer)
}

fn answer(change: ResourceChange, reply: Reply) -> Answer {
    let operation = reply.operation.map(ResourceChange::Insert);
    Answer {
        changes: [change].into_iter().chain(operation).collect(),
        body: Some(reply.body.into()),
        ..Answer::default()
    }
}
