//! The files of the Gemini API, as its libraries upload them for prompts: versions v1 and v1beta,
//! with the same files in both.
//!
//! A file is active at once and does not expire. There are no models.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_discovery::Api;
use windlass_rest::ServedApi;
use windlass_rest::handler::{Answer, ApiHandler, Call, Rejection, Uploaded};
use windlass_store::{Resource, ResourceChange};

use crate::record::{self, Fields, etag, fields_of, removing, rfc3339, text};
use crate::{ApiProvider, description};

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "generativelanguage",
    inputs: include_str!("generative_language/inputs.toml"),
    built_in: |_| vec![served(own("v1")), served(own("v1beta"))],
    // The published document has other parts of paths for a file, and methods of models.
    from_document: |api, _| ServedApi::with_default_handler(api),
};

const UPLOAD: &str = "generativelanguage.media.upload";

const FILES: &str = "generativelanguage/files";

/// Maximum number of characters of a chosen name, after `files/`, as in the service.
const MAX_NAME_LEN: usize = 40;

/// Maximum number of characters of a display name, as in the service.
const MAX_DISPLAY_NAME_LEN: usize = 512;

fn own(version: &str) -> Api {
    let text = include_str!("generative_language/generative_language.toml");
    description(&text.replace("v1beta", version))
}

fn served(api: Api) -> ServedApi {
    ServedApi::new(api, Arc::new(Files))
}

#[derive(Debug)]
struct Files;

#[async_trait]
impl ApiHandler for Files {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        match call.method.id.as_str() {
            UPLOAD => NewFile::of(call).await.map(drop),
            _ => Err(call.not_implemented()),
        }
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        match (call.method.id.as_str(), media) {
            (UPLOAD, Some(media)) => create(call, media).await,
            (UPLOAD, None) => Err(Rejection::InvalidArgument {
                problem: "a file needs media; upload it to the same path prefixed with /upload"
                    .to_owned(),
            }),
            ("generativelanguage.files.get", _) => {
                let file = named(call).await?;
                Ok(Answer::of(show(call, &file)))
            }
            ("generativelanguage.files.list", _) => list(call).await,
            ("generativelanguage.files.delete", _) => {
                let file = named(call).await?;
                call.check_conditions(&etag(&file))?;
                Ok(Answer {
                    changes: vec![removing(&file)],
                    ..Answer::of(Fields::new())
                })
            }
            _ => Err(call.not_implemented()),
        }
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        named(call).await
    }
}

/// The properties of a new file.
struct NewFile<'a> {
    /// The name, without `files/`.
    id: &'a str,
    display_name: Option<&'a str>,
}

impl<'a> NewFile<'a> {
    /// Checks the properties that the metadata states, and that the name is free.
    async fn of(call: &Call<'a>) -> Result<Self, Rejection> {
        let file = call.metadata.get("file");
        let field = |name: &str| file.and_then(|file| file.get(name)?.as_str());
        let chosen = field("name").filter(|name| !name.is_empty());
        let new = Self {
            id: chosen.map_or(Ok(call.fresh_id), chosen_id)?,
            display_name: field("displayName").filter(|name| !name.is_empty()),
        };
        if new
            .display_name
            .is_some_and(|name| name.chars().count() > MAX_DISPLAY_NAME_LEN)
        {
            let problem = format!("must have at most {MAX_DISPLAY_NAME_LEN} characters");
            return Err(Rejection::invalid_field("file.displayName", problem));
        }
        match call.lookup.resource(FILES, new.id).await? {
            None => Ok(new),
            Some(_) => Err(Rejection::AlreadyExists {
                what: "file".to_owned(),
                id: format!("files/{}", new.id),
            }),
        }
    }
}

/// The id in a name that a client has chosen, with or without `files/`.
fn chosen_id(name: &str) -> Result<&str, Rejection> {
    let id = name.strip_prefix("files/").unwrap_or(name);
    let is_valid = (1..=MAX_NAME_LEN).contains(&id.len())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !id.starts_with('-')
        && !id.ends_with('-');
    if is_valid {
        return Ok(id);
    }
    let problem = format!(
        "must be files/ and 1 to {MAX_NAME_LEN} lower-case letters, digits and hyphens, none of the \
         hyphens at an end"
    );
    Err(Rejection::invalid_field("file.name", problem))
}

/// `media.upload`
async fn create(call: &Call<'_>, media: Uploaded) -> Result<Answer, Rejection> {
    let new = NewFile::of(call).await?;
    let mut fields = Fields::new();
    if let Some(name) = new.display_name {
        fields.insert("displayName".to_owned(), name.into());
    }
    let file = record::new(call, FILES, new.id, &fields, Some(media.media));
    let mut body = Fields::new();
    body.insert("file".to_owned(), show(call, &file).into());
    Ok(Answer {
        changes: vec![ResourceChange::Insert(file)],
        ..Answer::of(body)
    })
}

/// `files.list`: in the order of their names.
async fn list(call: &Call<'_>) -> Result<Answer, Rejection> {
    let page = record::page(call, FILES, 10).await?;
    let mut body = Fields::new();
    if let Some(next) = page.next {
        body.insert("nextPageToken".to_owned(), next.into());
    }
    let files = page.rows.iter().map(|file| show(call, file).into());
    record::set_list(&mut body, "files", files.collect());
    Ok(Answer::of(body))
}

async fn named(call: &Call<'_>) -> Result<Resource, Rejection> {
    let id = call.path.value("file").unwrap_or_default();
    let file = call.lookup.resource(FILES, id).await?;
    file.ok_or_else(|| Rejection::NotFound {
        what: "file".to_owned(),
        id: format!("files/{id}"),
    })
}

/// A file as the API shows it.
fn show(call: &Call<'_>, file: &Resource) -> Fields {
    let name = format!("files/{}", file.id);
    let uri = format!("{}/{}/{name}", call.base_url, call.api.version());
    let mut shown = Fields::new();
    let mut add = |name: &str, value: Value| shown.insert(name.to_owned(), value);
    add("name", name.into());
    if let Some(display_name) = text(&fields_of(file), "displayName") {
        add("displayName", display_name.into());
    }
    if let Some(media) = &file.media {
        add("mimeType", media.content_type.clone().into());
        add("sizeBytes", media.length.to_string().into());
        if let Some(sha256) = media.digests.sha256 {
            add("sha256Hash", sha256.to_string().into());
        }
    }
    add("createTime", rfc3339(file.created).into());
    add("updateTime", rfc3339(file.updated).into());
    add("downloadUri", format!("{uri}:download?alt=media").into());
    add("uri", uri.into());
    add("state", "ACTIVE".into());
    add("source", "UPLOADED".into());
    shown
}
