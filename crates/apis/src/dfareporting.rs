//! The Campaign Manager 360 API: creative assets, which are inspected when they are uploaded.
//!
//! The type of an asset is that of its bytes, and its metadata must agree. HTML assets, alone or
//! with their files in a ZIP archive, are searched for click tags, required browser features and
//! broken rules. All other methods of a document are served by the default handler.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_discovery::Api;
use windlass_server::handler::{Answer, ApiHandler, Call, Rejection, Uploaded};
use windlass_server::{DefaultHandler, ServedApi};
use windlass_store::Resource;

use crate::augment::augmented;
use crate::{ApiProvider, description};

mod archive;
mod asset;
mod assets;
mod html5;

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "dfareporting",
    built_in: |_| vec![served(own("v4")), served(own("v5"))],
    from_document: |api, _| served(augmented(crate::answering_created(api), &own("v5"), &[GET])),
};

const INSERT: &str = "dfareporting.creativeAssets.insert";

/// Id of the method in the last document of version 3.5.
const INSERT_BEFORE: &str = "dfareporting.media.upload";

const GET: &str = "dfareporting.creativeAssets.get";

const INSERT_STUDIO: &str = "dfareporting.studioCreativeAssets.insert";

/// Returns our description for a version. All versions are alike in the methods it has.
fn own(version: &str) -> Api {
    let text = include_str!("dfareporting/dfareporting.toml");
    description(&format!("version = \"{version}\"\n{text}"))
}

fn served(api: Api) -> ServedApi {
    ServedApi::new(api, Arc::new(CreativeAssets))
}

/// The methods on creative assets, whatever the version.
#[derive(Debug)]
struct CreativeAssets;

#[async_trait]
impl ApiHandler for CreativeAssets {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        DefaultHandler.admit(call).await?;
        match call.method.id.as_str() {
            INSERT | INSERT_BEFORE => assets::admit(call),
            INSERT_STUDIO => assets::admit_studio(call),
            _ => Ok(()),
        }
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        match call.method.id.as_str() {
            INSERT | INSERT_BEFORE => assets::insert(call, media).await,
            INSERT_STUDIO => assets::insert_studio(call, media).await,
            GET => assets::get(call).await,
            _ => DefaultHandler.run(call, media).await,
        }
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        match call.method.id.as_str() {
            GET => assets::find(call).await,
            _ => DefaultHandler.find(call).await,
        }
    }

    /// Uploads of one asset name are serialized, since they derive new names from it.
    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        match call.method.id.as_str() {
            INSERT | INSERT_BEFORE => assets::turn(call),
            _ => None,
        }
    }
}
