//! The handler that works for any description: it keeps what the client says and adds what the
//! response schema names.
//!
//! A resource is stored as the client's own fields. Everything else (`id`, `size`, `crc32c`, ...) is
//! made from the record when the resource is shown, so it can never disagree with it.
//!
//! What a method does is read off its description (`place`). Metadata is held against the request
//! schema (`schema_validation`), and what is shown has the form of the response schema (`response_shape`, with the
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
mod place;
mod response_shape;
mod schema_validation;
mod server_fields;
mod update_mask;

pub(crate) use digests::with_digests;
pub use fields::patched as patched_fields;

use call_context::CallContext;
use changes::{attach, delete, insert, replace};
use fields::own_fields;
use place::{Act, Named, chosen_id};
use response_shape::ResponseShape;
use server_fields::etag;
use update_mask::UpdateMask;

/// The default handler: see the module.
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultHandler;

#[async_trait]
impl ApiHandler for DefaultHandler {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        own_fields(call)?;
        UpdateMask::of(call)?;
        match Act::of(call)? {
            Act::Update(named) | Act::Patch(named) => found(call, &[named]).await.map(drop),
            Act::Insert(collection) => free_id(call, &collection).await.map(drop),
            _ => Ok(()),
        }
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        let media = media.map(|uploaded| uploaded.media);
        match Act::of(call)? {
            Act::Insert(collection) => {
                let id = free_id(call, &collection).await?;
                insert(call, collection, id, media)
            }
            Act::Attach(named) => {
                let old = call.lookup.resource(&named.collection, &named.id).await?;
                attach(call, named, old, media)
            }
            Act::Update(named) => {
                let old = found(call, &[named]).await?;
                replace(call, old, media, fields::updated)
            }
            Act::Patch(named) => {
                let old = found(call, &[named]).await?;
                replace(call, old, media, fields::patched)
            }
            Act::Get(places) => {
                let resource = found(call, &places).await?;
                Ok(Answer {
                    changes: Vec::new(),
                    body: Some(ResponseShape::new(&CallContext::of(call), &resource).of_resource()),
                })
            }
            Act::List(collection) => list::list(call, &collection).await,
            Act::Delete(named) => Ok(delete(call, found(call, &[named]).await?)),
        }
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        match Act::of(call)? {
            Act::Get(places) => found(call, &places).await,
            Act::Update(named) | Act::Patch(named) | Act::Delete(named) | Act::Attach(named) => {
                found(call, &[named]).await
            }
            Act::Insert(_) | Act::List(_) => Err(place::not_implemented(call)),
        }
    }
}

/// The first of these resources that there is.
async fn found(call: &Call<'_>, places: &[Named]) -> Result<Resource, Rejection> {
    for Named { collection, id } in places {
        if let Some(resource) = call.lookup.resource(collection, id).await? {
            call.check_conditions(&etag(resource.version))?;
            return Ok(resource);
        }
    }
    let what = call.method.response.clone();
    Err(Rejection::NotFound {
        what: what.unwrap_or_else(|| "resource".to_owned()),
        id: places
            .first()
            .map_or_else(String::new, |named| named.id.clone()),
    })
}

/// The id that the client has chosen, if it is free, else a fresh one.
async fn free_id(call: &Call<'_>, collection: &str) -> Result<String, Rejection> {
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
