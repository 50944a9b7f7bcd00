//! The Play Games Services Publishing API: icons of achievements and leaderboards.
//!
//! The published document no longer has the methods on images. The description here has them, and a
//! method to read an image back, at the `url` of a reply. All other methods of a document are
//! served by the default handler.

use async_trait::async_trait;
use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use windlass_discovery::Api;
use windlass_rest::handler::{
    Answer, ApiHandler, Call, MediaSource, Rejection, Uploaded, first_version,
};
use windlass_rest::{DefaultHandler, ServedApi};
use windlass_store::{Media, Resource, ResourceChange};

use crate::inspect::{Format, ImageHeader, ImageHeaderError, inspect, invalid, refusal};
use crate::{ApiProvider, augmented, description};

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "gamesConfiguration",
    inputs: include_str!("games_configuration/inputs.toml"),
    built_in: |_| vec![served(own())],
    from_document: |api, _| {
        served(augmented(
            crate::answering_created(api),
            &own(),
            &[UPLOAD, GET],
        ))
    },
};

const UPLOAD: &str = "gamesConfiguration.imageConfigurations.upload";

const GET: &str = "gamesConfiguration.imageConfigurations.get";

/// Types of images that a resource can have.
const IMAGE_TYPES: [&str; 2] = ["ACHIEVEMENT_ICON", "LEADERBOARD_ICON"];

const COLLECTION: &str = "gamesConfiguration/images";

fn own() -> Api {
    description(include_str!("games_configuration/games_configuration.toml"))
}

fn served(api: Api) -> ServedApi {
    ServedApi::new(api, std::sync::Arc::new(ImageConfigurations))
}

/// Handler of images. A resource has one of each type, and an upload replaces it.
#[derive(Debug)]
struct ImageConfigurations;

#[async_trait]
impl ApiHandler for ImageConfigurations {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        match call.method.id.as_str() {
            UPLOAD => ImageKey::from_call(call).map(drop),
            _ => DefaultHandler.admit(call).await,
        }
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        match call.method.id.as_str() {
            UPLOAD => upload(call, media).await,
            GET => get(call).await,
            _ => DefaultHandler.run(call, media).await,
        }
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        match call.method.id.as_str() {
            GET => find(call, &ImageKey::from_call(call)?).await,
            _ => DefaultHandler.find(call).await,
        }
    }

    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        let key = ImageKey::from_call(call)
            .ok()
            .filter(|_| call.method.id == UPLOAD)?;
        Some(format!("{COLLECTION}/{}", key.id()))
    }

    /// An image keeps its URL when it is replaced, so caches must revalidate it.
    fn media_headers(&self, resource: &Resource) -> HeaderMap {
        if resource.collection != COLLECTION {
            return DefaultHandler.media_headers(resource);
        }
        HeaderMap::from_iter([(CACHE_CONTROL, HeaderValue::from_static("no-cache"))])
    }
}

/// The resource and the type of an image, which identify it.
struct ImageKey<'a> {
    resource_id: &'a str,
    image_type: &'a str,
}

impl<'a> ImageKey<'a> {
    fn from_call(call: &Call<'a>) -> Result<Self, Rejection> {
        let key = Self {
            resource_id: call.path.value("resourceId").unwrap_or_default(),
            image_type: call.path.value("imageType").unwrap_or_default(),
        };
        if IMAGE_TYPES.contains(&key.image_type) {
            return Ok(key);
        }
        Err(Rejection::InvalidParameter {
            parameter: "imageType".to_owned(),
            problem: format!("must be one of {}", IMAGE_TYPES.join(", ")),
        })
    }

    fn id(&self) -> String {
        format!("{}/{}", self.image_type, self.resource_id)
    }

    fn show(&self, call: &Call<'_>) -> Result<Map<String, Value>, Rejection> {
        let get = call.api.method(GET).ok_or_else(|| not_described(GET))?;
        let path = get.template.expand(call.path);
        let path = path.expect("both methods have the same variables");
        let shown = json!({
            "kind": "gamesConfiguration#imageConfiguration",
            "url": format!("{}{path}?alt=media", call.base_url),
            "resourceId": self.resource_id,
            "imageType": self.image_type,
        });
        Ok(shown.as_object().cloned().unwrap_or_default())
    }
}

async fn upload(call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
    let key = ImageKey::from_call(call)?;
    let Some(Uploaded { media, source }) = media else {
        return Err(invalid(
            "the call has no media; send the image to the upload URI",
        ));
    };
    check(&media, &source).await?;
    let (collection, id) = (COLLECTION.to_owned(), key.id());
    let old = call.lookup.resource(&collection, &id).await?;
    let resource = Resource {
        collection,
        id,
        version: old
            .as_ref()
            .map_or_else(first_version, |old| old.version + 1),
        body: bytes::Bytes::from_static(b"{}"),
        media: Some(media),
        created: old.as_ref().map_or(call.now, |old| old.created),
        updated: call.now,
        due: None,
        claimed_by: None,
        owner: call.owner(),
    };
    let change = match old {
        None => ResourceChange::Insert(resource),
        Some(old) => ResourceChange::Replace {
            resource,
            expected: old.version,
        },
    };
    Ok(Answer {
        changes: vec![change],
        body: Some(key.show(call)?.into()),
        ..Answer::default()
    })
}

async fn get(call: &Call<'_>) -> Result<Answer, Rejection> {
    let key = ImageKey::from_call(call)?;
    find(call, &key).await?;
    Ok(Answer::of(key.show(call)?))
}

async fn find(call: &Call<'_>, key: &ImageKey<'_>) -> Result<Resource, Rejection> {
    let found = call.lookup.resource(COLLECTION, &key.id()).await?;
    found.ok_or_else(|| Rejection::NotFound {
        what: key.image_type.to_owned(),
        id: key.resource_id.to_owned(),
    })
}

/// Checks that an icon is a PNG or a JPEG image, and that its declared type is right.
async fn check(media: &Media, source: &MediaSource) -> Result<(), Rejection> {
    let image_header = inspect(source, |mut media| {
        ImageHeader::read(&mut media).map_err(unreadable)
    });
    let format = image_header.await?.format;
    if format == Format::Gif {
        return Err(invalid(
            "it is a GIF image; an icon is a PNG or a JPEG image",
        ));
    }
    let declared = media.content_type.split(';').next().unwrap_or_default();
    if names_format(declared.trim(), format) {
        return Ok(());
    }
    Err(invalid(format!(
        "it is a {format} image, declared as {declared}"
    )))
}

fn unreadable(error: ImageHeaderError) -> Rejection {
    match error {
        ImageHeaderError::Io(error) => refusal(error),
        other => invalid(other.to_string()),
    }
}

/// Returns whether a declared media type means this format. Old names are still in use.
fn names_format(declared: &str, format: Format) -> bool {
    let names: &[&str] = match format {
        Format::Png => &["image/png", "image/x-png"],
        Format::Jpeg => &["image/jpeg", "image/jpg", "image/pjpeg"],
        Format::Gif => &["image/gif"],
    };
    names.iter().any(|name| declared.eq_ignore_ascii_case(name))
}

fn not_described(method: &str) -> Rejection {
    Rejection::NotImplemented {
        method: method.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_type_names_format_in_any_spelling() {
        let table = [
            ("image/png", Format::Png, true),
            ("IMAGE/PNG", Format::Png, true),
            ("image/jpg", Format::Jpeg, true),
            ("image/pjpeg", Format::Jpeg, true),
            ("image/png", Format::Jpeg, false),
            ("image/jpeg", Format::Png, false),
            ("image/webp", Format::Png, false),
            ("", Format::Png, false),
        ];
        for (declared, format, expected) in table {
            assert_eq!(
                names_format(declared, format),
                expected,
                "{declared} {format}"
            );
        }
    }
}
