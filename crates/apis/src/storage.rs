//! Google Cloud Storage: buckets, and objects in them.
//!
//! | module | content |
//! |---|---|
//! | `buckets`, `objects`, `listing` | the methods; pages of lists |
//! | `bucket`, `object` | rows, names and JSON of each |
//! | `fields` | fields of an object that clients write |
//! | `preconditions` | `ifGenerationMatch` and the like |
//!
//! Only the live generation of an object exists. Methods on permissions, notifications, folders and
//! versions are refused as not implemented.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use windlass_discovery::Api;
use windlass_server::ServedApi;
use windlass_server::handler::{Answer, ApiHandler, Call, Rejection, Uploaded};
use windlass_store::Resource;

use crate::{ApiProvider, description};

mod bucket;
mod buckets;
mod fields;
mod listing;
mod object;
mod objects;
mod preconditions;

use object::Object;

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "storage",
    built_in: |_| vec![served(own_description())],
    // Client libraries rely on details that no discovery document states; they are in our
    // description.
    from_document: |api, _| served(api.with_settings(own_description().settings().clone())),
};

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
            "storage.objects.copy" => objects::copy(call).await,
            "storage.objects.delete" => objects::delete(call).await,
            "storage.objects.get" => objects::show(call).await,
            "storage.objects.insert" => objects::insert(call, media).await,
            "storage.objects.list" => listing::list(call).await,
            "storage.objects.move" => objects::rename(call).await,
            "storage.objects.patch" => objects::patch(call).await,
            "storage.objects.rewrite" => objects::rewrite(call).await,
            "storage.objects.update" => objects::update(call).await,
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

    fn media_etag(&self, resource: &Resource) -> Option<String> {
        Some(Object::read(resource.clone()).etag())
    }

    fn media_headers(&self, resource: &Resource) -> HeaderMap {
        Object::read(resource.clone()).media_headers()
    }
}
