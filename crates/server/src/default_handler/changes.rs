//! What calls change.

use serde_json::{Map, Value};
use windlass_store::{Media, Resource, ResourceChange};

use super::call_context::CallContext;
use super::fields::{client_fields, fields_of, fields_to_bytes, updated};
use super::operation::ResourceKey;
use super::response_shape::{Reply, ResponseShape};
use super::update_mask::UpdateMask;
use super::{etag, fields};
use crate::handler::{Answer, Call, Rejection, first_version};

/// How the fields of a resource follow from the old ones and those of the client.
pub(super) type Fields = fn(old: Map<String, Value>, new: Map<String, Value>) -> Map<String, Value>;

pub(super) fn insert(
    call: &Call<'_>,
    collection: String,
    id: String,
    media: Option<Media>,
) -> Result<Answer, Rejection> {
    let own = updated(Map::new(), client_fields(call)?);
    let resource = Resource {
        collection,
        id,
        version: first_version(),
        body: fields_to_bytes(&own),
        media,
        created: call.now,
        updated: call.now,
    };
    Ok(changed(call, ResourceChange::Insert(resource)))
}

/// Puts media to a resource, which is made when there is none.
pub(super) fn attach(
    call: &Call<'_>,
    named: ResourceKey,
    old: Option<Resource>,
    media: Option<Media>,
) -> Result<Answer, Rejection> {
    match old {
        None => insert(call, named.collection, named.id, media),
        Some(old) => {
            call.check_conditions(&etag(old.version))?;
            replace(call, old, media, fields::patched)
        }
    }
}

pub(super) fn replace(
    call: &Call<'_>,
    old: Resource,
    media: Option<Media>,
    change: Fields,
) -> Result<Answer, Rejection> {
    let expected = old.version;
    let mask = UpdateMask::of(call)?;
    // Media alone says nothing about the fields.
    let only_media = media.is_some() && call.metadata.is_empty();
    let body = match mask {
        Some(mask) => fields_to_bytes(&mask.apply(fields_of(&old), client_fields(call)?)),
        None if only_media => old.body,
        None => fields_to_bytes(&change(fields_of(&old), client_fields(call)?)),
    };
    let resource = Resource {
        version: expected + 1,
        body,
        media: media.or(old.media),
        updated: call.now,
        ..old
    };
    Ok(changed(
        call,
        ResourceChange::Replace { resource, expected },
    ))
}

pub(super) fn delete(call: &Call<'_>, resource: Resource) -> Answer {
    let reply = call.method.response.as_ref().map(|_| {
        let context = CallContext::of(call);
        ResponseShape::new(&context, &resource).reply()
    });
    let delete = ResourceChange::Delete {
        collection: resource.collection,
        id: resource.id,
        expected: resource.version,
    };
    match reply {
        Some(reply) => answer(delete, reply),
        None => Answer {
            changes: vec![delete],
            body: None,
        },
    }
}

fn changed(call: &Call<'_>, change: ResourceChange) -> Answer {
    let (ResourceChange::Insert(resource) | ResourceChange::Replace { resource, .. }) = &change
    else {
        return Answer::default();
    };
    let reply = ResponseShape::new(&CallContext::of(call), resource).reply();
    answer(change, reply)
}

fn answer(change: ResourceChange, reply: Reply) -> Answer {
    let operation = reply.operation.map(ResourceChange::Insert);
    Answer {
        changes: [change].into_iter().chain(operation).collect(),
        body: Some(reply.body),
    }
}
