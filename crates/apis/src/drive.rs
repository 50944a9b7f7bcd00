//! Google Drive, version 3: files with media up to 5120 GB, in folders that can be searched.
//!
//! Files, folders, the trash and searches behave as in the service. There is one user, the owner of
//! all files, and no conversion to other formats. Permissions, comments and replies are stored as
//! clients write them and have no effect.

use async_trait::async_trait;
use serde_json::{Value, json};
use windlass_discovery::settings::Digest;
use windlass_discovery::{Api, ByteSize};
use windlass_rest::handler::{Answer, ApiHandler, Call, Rejection, Uploaded};
use windlass_rest::{DefaultHandler, ServedApi};
use windlass_store::Resource;

use crate::record::{Fields, fields_of};
use crate::{ApiProvider, description};

mod deletion;
mod file;
mod files;
mod list;
mod query;
mod refusals;
mod scope;
mod tree;

#[cfg(feature = "fuzzing")]
pub use query::fuzzing::DriveQuery;

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "drive",
    inputs: include_str!("drive/inputs.toml"),
    built_in: |_| vec![served(description(include_str!("drive/drive.toml")))],
    from_document: |api, _| {
        let api = crate::kept_apart(api);
        match api.version() {
            "v3" => served(with_digests(api)),
            _ => ServedApi::with_default_handler(api),
        }
    },
};

/// Maximum number of ids that one call generates, as in the service.
const MAX_IDS: u64 = 1000;

/// Methods on resources of a file that are stored as clients write them.
const ATTACHED: [&str; 3] = ["drive.permissions.", "drive.comments.", "drive.replies."];

fn served(api: Api) -> ServedApi {
    let handler = std::sync::Arc::new(Drive);
    ServedApi::new(api, handler)
}

/// Adds the checksums of files, which published documents do not have.
fn with_digests(api: Api) -> Api {
    let digests = vec![Digest::Md5, Digest::Sha256];
    api.map_settings(|settings| {
        settings.digests.insert("files".to_owned(), digests);
    })
}

#[derive(Debug)]
struct Drive;

#[async_trait]
impl ApiHandler for Drive {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        match call.method.id.as_str() {
            "drive.files.create" => files::admit_creation(call).await,
            "drive.files.update" => files::admit_update(call).await,
            _ => Err(call.not_implemented()),
        }
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        match call.method.id.as_str() {
            "drive.files.create" => files::create(call, media).await,
            "drive.files.update" => files::update(call, media).await,
            "drive.files.copy" => files::copy(call).await,
            "drive.files.get" => get(call).await,
            "drive.files.list" => list::list(call).await,
            "drive.files.delete" => deletion::delete(call).await,
            "drive.files.emptyTrash" => deletion::empty_trash(call).await,
            "drive.files.generateIds" => generate_ids(call),
            "drive.about.get" => about(call),
            id if is_attached(id) => {
                tree::named(call).await?;
                DefaultHandler.run(call, media).await
            }
            _ => Err(call.not_implemented()),
        }
    }

    /// One lock for all files: whether a file may be moved depends on the folders above. Deletions
    /// have other locks, because they may read thousands of files: the ledger refuses one if
    /// something in it has changed meanwhile.
    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        match call.method.http_method {
            http::Method::GET => None,
            http::Method::DELETE => call.lock_key_by_path(),
            _ => Some(tree::FILES.to_owned()),
        }
    }

    /// A deletion that has met a change takes the lock, so that the next change waits for it.
    fn retry_lock_key(&self, call: &Call<'_>) -> Option<String> {
        (call.method.http_method != http::Method::GET).then(|| tree::FILES.to_owned())
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        match call.method.id.as_str() {
            "drive.files.get" => downloadable(tree::named(call).await?),
            "drive.files.export" => exported(&tree::named(call).await?),
            _ => Err(call.not_implemented()),
        }
    }
}

async fn get(call: &Call<'_>) -> Result<Answer, Rejection> {
    let acknowledged = call.query.first("acknowledgeAbuse");
    if acknowledged.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Err(refusals::abuse_without_download());
    }
    let file = tree::named(call).await?;
    files::answer(call, &file, Vec::new()).await
}

fn downloadable(file: Resource) -> Result<Resource, Rejection> {
    match &file.media {
        None if file::is_without_media(&fields_of(&file)) => Err(refusals::not_downloadable()),
        _ => Ok(file::as_download(file)),
    }
}

/// `files.export`: a file with media needs no conversion, and no other one is converted.
fn exported(file: &Resource) -> Result<Resource, Rejection> {
    if file::is_without_media(&fields_of(file)) {
        let problem = "this server converts no files of Google's editors";
        return Err(refusals::not_implemented(problem).into());
    }
    Err(refusals::not_exportable())
}

fn generate_ids(call: &Call<'_>) -> Result<Answer, Rejection> {
    scope::check_spaces(call, "space")?;
    let kind = call.query.first("type").unwrap_or("files");
    if !["files", "shortcuts"].contains(&kind) {
        let problem = format!("{kind:?} is none of files and shortcuts");
        return Err(refusals::invalid_value("type", problem));
    }
    let count = call.query.first("count").unwrap_or("10").parse::<u64>();
    let count = count.ok().filter(|count| (1..=MAX_IDS).contains(count));
    let count = count.ok_or_else(|| Rejection::InvalidParameter {
        parameter: "count".to_owned(),
        problem: format!("must be between 1 and {MAX_IDS}"),
    })?;
    let ids: Vec<_> = (0..count).map(|nth| file::fresh_id(call, nth)).collect();
    let space = call.query.first("space").unwrap_or("drive");
    Ok(shown(
        json!({"kind": "drive#generatedIds", "space": space, "ids": ids}),
    ))
}

/// `about.get`: shows the upload limit of the description. Free disk space is not shown.
fn about(call: &Call<'_>) -> Result<Answer, Rejection> {
    if call.query.first("fields").is_none_or(str::is_empty) {
        return Err(refusals::fields_required());
    }
    let create = call.api.method("drive.files.create");
    let limit = create.and_then(|method| method.upload.as_ref()?.max_size);
    let mut about = json!({
        "kind": "drive#about",
        "user": file::owner(),
        "storageQuota": {},
        "importFormats": {},
        "exportFormats": {},
        "canCreateDrives": false,
    });
    if let Some(limit) = limit.map(ByteSize::bytes) {
        about["maxUploadSize"] = limit.to_string().into();
    }
    Ok(shown(about))
}

fn is_attached(method: &str) -> bool {
    ATTACHED.iter().any(|prefix| method.starts_with(prefix))
}

/// Returns an answer without changes.
fn shown(body: Value) -> Answer {
    let body = match body {
        Value::Object(fields) => fields,
        _ => Fields::new(),
    };
    Answer::of(body)
}
