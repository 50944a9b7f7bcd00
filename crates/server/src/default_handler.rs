//! The handler that works for any description: it keeps what the client says and adds what the
//! response schema names.
//!
//! A resource is stored as the client's own fields. Everything else (`id`, `size`, `crc32c`, ...) is
//! made from the record when the resource is shown, so it can never disagree with it.
//!
//! What a method does is read off its description (`operation`). Metadata is held against the request
//! schema (`validation`), and what is shown has the form of the response schema (`response_shape`, with the
//! `server_fields` that the server knows).

use async_trait::async_trait;
use windlass_store::Resource;

use crate::handler::{Answer, ApiHandler, Call, Rejection, Uploaded};

mod call_context;
mod changes;
mod digests;
mod fields;
mod list;
mod naming;
mod operation;
mod response_shape;
mod schema_validation;
mod server_fields;
mod update_mask;

pub(crate) use digests::with_digests;
pub use fields::patched as patched_fields;

use call_context::CallContext;
use changes::{attach, delete, insert, replace};
use fields::client_fields;
use operation::{Operation, ResourceKey, chosen_id};
use response_shape::ResponseShape;
use server_fields::etag;
use update_mask::UpdateMask;

/// The default handler: see the module.
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultHandler;

#[async_trait]
impl ApiHandler for DefaultHandler {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        client_fields(call)?;
        UpdateMask::of(call)?;
        match Operation::of(call)? {
            Operation::Update(named) | Operation::Patch(named) => {
                find_existing(call, &[named]).await.map(drop)
            }
            Operation::Insert(collection) => available_id(call, &collection).await.map(drop),
            _ => Ok(()),
        }
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        let media = media.map(|uploaded| uploaded.media);
        match Operation::of(call)? {
            Operation::Insert(collection) => {
                let id = available_id(call, &collection).await?;
                insert(call, collection, id, media)
            }
            Operation::Attach(named) => {
                let old = call.lookup.resource(&named.collection, &named.id).await?;
                attach(call, named, old, media)
            }
            Operation::Update(named) => {
                let old = find_existing(call, &[named]).await?;
                replace(call, old, media, fields::updated)
            }
            Operation::Patch(named) => {
                let old = find_existing(call, &[named]).await?;
                replace(call, old, media, fields::patched)
            }
            Operation::Get(candidates) => {
                let resource = find_existing(call, &candidates).await?;
                Ok(Answer {
                    changes: Vec::new(),
                    body: Some(
                        ResponseShape::new(&CallContext::of(call), &resource).resource_fields(),
                    ),
                })
            }
            Operation::List(collection) => list::list(call, &collection).await,
            Operation::Delete(named) => Ok(delete(call, find_existing(call, &[named]).await?)),
        }
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

/// The first of these resources that there is.
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

/// The id that the client has chosen, if it is free, else a fresh one.
async fn available_id(call: &Call<'_>, collection: &str) -> Result<String, Rejection> {
    let Some(id) = chosen_id(call, collection)? else {
        return Ok(CallContext::of(call).fresh_id(collection));
    };
    match call.lookup.resource(collection, id).await? {
        None => Ok(id.to_owned()),
        Some(_) => Err(Rejection::AlreadyExists {
            what: "resource".to_owned(),
            id: id.to_owned(),
        }),
    }
}
