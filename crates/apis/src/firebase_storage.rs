//! Cloud Storage for Firebase: objects, as the libraries of Firebase keep them.
//!
//! Buckets exist by being named. The libraries put the state of an upload into headers
//! (`X-Goog-Upload-*`), and upload to the path of the objects itself, without `/upload`.

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use windlass_discovery::{Api, Method};
use windlass_rest::handler::{Answer, ApiHandler, Call, Refusal, RefusalKind, Rejection, Uploaded};
use windlass_rest::{AccessError, ServedApi, patched_fields};
use windlass_store::{Resource, ResourceChange};

use crate::listing::{Cursor, NameFilter, Rows};
use crate::record::{
    self, Fields, HEADER_FIELDS, etag, fields_of, found, header_fields, removing, replacing,
    retyped, rfc3339, text,
};
use crate::storage::fault_of_name;
use crate::{ApiProvider, description};

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "firebasestorage",
    inputs: include_str!("firebase_storage/inputs.toml"),
    built_in: |_| {
        let text = include_str!("firebase_storage/firebase_storage.toml");
        vec![served(description(text))]
    },
    // The published document is about the administration of buckets, and has no objects.
    from_document: |api, _| ServedApi::with_default_handler(api),
};

const GET: &str = "firebasestorage.objects.get";
const INSERT: &str = "firebasestorage.objects.insert";

/// Maximum length of the name of an object in bytes, as in the service.
const MAX_NAME_LEN: usize = 1024;

/// Maximum length in bytes of all fields together that clients write, as JSON.
const MAX_FIELDS_LEN: usize = 16 * 1024;

/// Maximum number of objects and prefixes on a page, as in the service.
const MAX_RESULTS: usize = 1000;

fn served(api: Api) -> ServedApi {
    ServedApi::new(api, Arc::new(FirebaseStorage))
}

#[derive(Debug)]
struct FirebaseStorage;

#[async_trait]
impl ApiHandler for FirebaseStorage {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        check_bucket(call)?;
        let name = name_of_upload(call)?;
        written_fields(call)?;
        check_tokens(call, None)?;
        replaced(call, &collection(call), name).await.map(drop)
    }

    async fn run(&self, call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
        match (call.method.id.as_str(), media) {
            (INSERT, Some(media)) => insert(call, media).await,
            (GET, _) => {
                let object = readable(call).await?;
                call.check_conditions(&etag(&object))?;
                Ok(Answer::of(show(call, &object)))
            }
            ("firebasestorage.objects.list", _) => list(call).await,
            ("firebasestorage.objects.patch", _) => patch(call).await,
            ("firebasestorage.objects.delete", _) => {
                let object = named(call).await?;
                call.check_conditions(&etag(&object))?;
                Ok(Answer {
                    changes: vec![removing(&object)],
                    ..Answer::default()
                })
            }
            (INSERT, None) => Err(Rejection::InvalidArgument {
                problem: "an object needs media; send it with the headers of an upload".to_owned(),
            }),
            _ => Err(call.not_implemented()),
        }
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        readable(call).await
    }

    /// The token in a download URL is itself a credential.
    fn guards(&self, method: &Method) -> bool {
        method.id == GET
    }

    /// A caller who has the token has a credential.
    fn is_public(&self, _: &Call<'_>) -> bool {
        false
    }

    fn lock_key(&self, call: &Call<'_>) -> Option<String> {
        let name = match call.method.id.as_str() {
            INSERT => name_of_upload(call).ok()?,
            "firebasestorage.objects.patch" | "firebasestorage.objects.delete" => object(call),
            _ => return None,
        };
        Some(format!("{}/{name}", collection(call)))
    }

    fn media_headers(&self, resource: &Resource) -> HeaderMap {
        header_fields(&fields_of(resource))
    }
}

fn collection(call: &Call<'_>) -> String {
    let bucket = call.path.value("bucket").unwrap_or_default();
    format!("firebasestorage/{bucket}")
}

fn object<'a>(call: &Call<'a>) -> &'a str {
    call.path.value("object").unwrap_or_default()
}

/// Refuses a bucket name that Cloud Storage would not accept. Here each bucket exists as soon as it
/// contains an object.
fn check_bucket(call: &Call<'_>) -> Result<(), Rejection> {
    let bucket = call.path.value("bucket").unwrap_or_default();
    let Some(problem) = fault_of_name(bucket) else {
        return Ok(());
    };
    Err(Rejection::InvalidParameter {
        parameter: "bucket".to_owned(),
        problem: problem.to_owned(),
    })
}

/// The name in the query, or in the metadata.
fn name_of_upload<'a>(call: &Call<'a>) -> Result<&'a str, Rejection> {
    let name = call.query.first("name").filter(|name| !name.is_empty());
    let name = name
        .or_else(|| text(call.metadata, "name").filter(|name| !name.is_empty()))
        .ok_or_else(|| Rejection::MissingField {
            field: "name".to_owned(),
        })?;
    if name.len() > MAX_NAME_LEN || name.contains(['\r', '\n']) || matches!(name, "." | "..") {
        let problem = format!("must be 1 to {MAX_NAME_LEN} bytes without line ends");
        return Err(Rejection::invalid_field("name", problem));
    }
    Ok(name)
}

/// The fields of the metadata that a client may write.
fn written_fields(call: &Call<'_>) -> Result<Fields, Rejection> {
    let mut fields = Fields::new();
    for (name, value) in call.metadata {
        let is_header = || HEADER_FIELDS.iter().any(|(field, _)| field == name);
        let fault = match name.as_str() {
            "metadata" => fault_of_metadata(value),
            "contentType" => fault_of_header(value).or_else(|| fault_of_length(value)),
            _ if is_header() => fault_of_header(value),
            _ => continue,
        };
        if let Some(problem) = fault {
            return Err(Rejection::invalid_field(name.as_str(), problem));
        }
        fields.insert(name.clone(), value.clone());
    }
    Ok(fields)
}

/// Refuses download tokens other than the object's own token. Clients may send the own token back.
fn check_tokens(call: &Call<'_>, own: Option<&str>) -> Result<(), Rejection> {
    match call.metadata.get("downloadTokens") {
        None => Ok(()),
        Some(Value::String(stated)) if Some(&**stated) == own => Ok(()),
        Some(_) => {
            let problem = "downloadTokens is not supported: an object has one token, which cannot be \
                           changed";
            let refusal = Refusal::new(RefusalKind::NotImplemented, "notImplemented", problem);
            Err(refusal.at_field("downloadTokens").into())
        }
    }
}

/// Returns the problem with a field that a download shows in a header. Null removes the field.
fn fault_of_header(value: &Value) -> Option<&'static str> {
    match value {
        Value::Null => None,
        Value::String(text) => {
            let is_invalid = HeaderValue::from_str(text).is_err();
            is_invalid.then_some("must be a header value")
        }
        _ => Some("must be a string"),
    }
}

/// Returns the problem with a media type. The limit on the total length of the fields does not
/// cover the media type.
fn fault_of_length(value: &Value) -> Option<&'static str> {
    let length = value.as_str().map_or(0, str::len);
    (length > MAX_NAME_LEN).then_some("must be at most 1024 bytes")
}

/// Returns the problem with custom metadata. Null removes all custom metadata, or one of its
/// entries.
fn fault_of_metadata(value: &Value) -> Option<&'static str> {
    let is_valid = match value {
        Value::Null => true,
        Value::Object(entries) => {
            let mut values = entries.values();
            values.all(|value| value.is_string() || value.is_null())
        }
        _ => false,
    };
    (!is_valid).then_some("must be an object of strings")
}

/// Refuses fields that are too long together.
fn check_length(fields: &Fields) -> Result<(), Rejection> {
    let length = Value::Object(fields.clone()).to_string().len();
    if length <= MAX_FIELDS_LEN {
        return Ok(());
    }
    let problem = format!("all fields together are at most {MAX_FIELDS_LEN} bytes of JSON");
    Err(Rejection::invalid_field("metadata", problem))
}

/// `objects.insert`: the object takes the place of one of the same name.
async fn insert(call: &Call<'_>, media: Uploaded) -> Result<Answer, Rejection> {
    let name = name_of_upload(call)?;
    let mut fields = patched_fields(Fields::new(), written_fields(call)?);
    fields.remove("contentType");
    check_length(&fields)?;
    fields.insert("metageneration".to_owned(), 1.into());
    fields.insert("downloadTokens".to_owned(), token(call).into());
    let collection = collection(call);
    let media = Some(media.media);
    let old = replaced(call, &collection, name).await?;
    let generation = generation(call, old.as_ref());
    fields.insert("generation".to_owned(), generation.to_string().into());
    let (object, change) = match old {
        None => {
            let object = record::new(call, collection, name, &fields, media);
            (object.clone(), ResourceChange::Insert(object))
        }
        Some(old) => {
            let mut object = record::next(call, old, &fields, media);
            // The server makes the sender the object's owner, as for every resource with replaced
            // media.
            object.created = call.now;
            (object.clone(), replacing(object))
        }
    };
    Ok(Answer {
        changes: vec![change],
        ..Answer::of(show(call, &object))
    })
}

/// Returns the object that an upload replaces, if it exists. The call's conditions are checked
/// first.
async fn replaced(
    call: &Call<'_>,
    collection: &str,
    name: &str,
) -> Result<Option<Resource>, Rejection> {
    let old = call.lookup.resource(collection, name).await?;
    match &old {
        Some(old) => call.check_conditions(&etag(old))?,
        None => call.check_conditions_of_new()?,
    }
    Ok(old)
}

/// Returns a generation: microseconds, as in the service, and above the generation of the replaced
/// object.
fn generation(call: &Call<'_>, old: Option<&Resource>) -> u64 {
    let before = old.and_then(|old| text(&fields_of(old), "generation")?.parse().ok());
    let before = before.map_or(0, |before: u64| before.saturating_add(1));
    before.max(call.now.as_millis().saturating_mul(1000))
}

/// A token for download URLs, in the form of a UUID.
fn token(call: &Call<'_>) -> String {
    let id = call.fresh_id;
    let parts = [0..8, 8..12, 12..16, 16..20, 20..id.len()];
    parts.map(|range| &id[range]).join("-")
}

/// `objects.patch`: null removes a field.
async fn patch(call: &Call<'_>) -> Result<Answer, Rejection> {
    let old = named(call).await?;
    call.check_conditions(&etag(&old))?;
    let mut fields = fields_of(&old);
    check_tokens(call, text(&fields, "downloadTokens"))?;
    fields = patched_fields(fields, written_fields(call)?);
    fields.remove("contentType");
    let content_type = call.metadata.get("contentType");
    let content_type = content_type.map(|it| it.as_str().unwrap_or_default().to_owned());
    let media = old.media.clone().map(|media| retyped(media, content_type));
    let changes = fields.get("metageneration").and_then(Value::as_u64);
    fields.insert(
        "metageneration".to_owned(),
        (changes.unwrap_or(1) + 1).into(),
    );
    check_length(&fields)?;
    let object = record::next(call, old, &fields, media);
    Ok(Answer {
        changes: vec![replacing(object.clone())],
        ..Answer::of(show(call, &object))
    })
}

/// Returns the object to read. The token of a download URL must be right. Without a token, the
/// object is returned only if authorization allows the call.
async fn readable(call: &Call<'_>) -> Result<Resource, Rejection> {
    let object = named(call).await?;
    // Hashes are compared, so that the duration of a comparison reveals nothing about the token.
    let hash = |token: &str| <[u8; 32]>::from(Sha256::digest(token));
    let token = call.query.first("token").map(hash);
    let fields = fields_of(&object);
    let right = text(&fields, "downloadTokens").map(hash);
    call.check_public(token.is_some() && token == right)?;
    if token.is_some() && token != right {
        return Err(Rejection::Access(AccessError::Forbidden {
            problem: "the token of the download URL is not that of the object".to_owned(),
        }));
    }
    Ok(object)
}

async fn named(call: &Call<'_>) -> Result<Resource, Rejection> {
    found(call, "object", &collection(call), object(call)).await
}

/// `objects.list`: in the order of names. Names that have the delimiter after the prefix are shown
/// as one prefix.
async fn list(call: &Call<'_>) -> Result<Answer, Rejection> {
    let parameter = |name| call.query.first(name).unwrap_or_default();
    let names = NameFilter {
        size: most_results(call)?,
        prefix: parameter("prefix"),
        delimiter: parameter("delimiter"),
        end: "",
        trailing: false,
        is_left_out: is_unnameable,
    };
    let start = Cursor::from_token(call)?.max(Cursor::before(names.prefix));
    let rows = Rows::new(call, collection(call), start);
    let page = names.page(rows, call.reply_memory).await?;
    let bucket = call.path.value("bucket").unwrap_or_default();
    let items = page.rows.into_iter();
    let items: Vec<_> = items
        .map(|row| json!({"name": row.id, "bucket": bucket}))
        .collect();
    let mut body = Fields::new();
    body.insert("prefixes".to_owned(), page.prefixes.into());
    body.insert("items".to_owned(), items.into());
    if let Some(next) = page.next {
        body.insert("nextPageToken".to_owned(), next.to_token().into());
    }
    Ok(Answer::of(body))
}

/// Whether the libraries cannot name an object or a folder, because a segment of its path is empty.
/// The service omits such names from lists ("Firebase Storage does not support objects whose paths
/// end with / or contain two consecutive /s", reference of `list`).
fn is_unnameable(path: &str) -> bool {
    path.split('/').any(str::is_empty)
}

fn most_results(call: &Call<'_>) -> Result<usize, Rejection> {
    let most = call.query.first("maxResults").unwrap_or("1000");
    let most = most.parse().ok().filter(|most| *most > 0);
    most.map(|most: usize| most.min(MAX_RESULTS))
        .ok_or_else(|| Rejection::InvalidParameter {
            parameter: "maxResults".to_owned(),
            problem: "must be a number above 0".to_owned(),
        })
}

/// An object as the API shows it.
fn show(call: &Call<'_>, object: &Resource) -> Fields {
    let mut shown = fields_of(object);
    let metageneration = shown.get("metageneration").map(ToString::to_string);
    let mut add = |name: &str, value: Value| shown.insert(name.to_owned(), value);
    add("name", object.id.clone().into());
    add(
        "bucket",
        call.path.value("bucket").unwrap_or_default().into(),
    );
    add("metageneration", metageneration.into());
    if let Some(media) = &object.media {
        add("contentType", media.content_type.clone().into());
        add("size", media.length.to_string().into());
        add("crc32c", media.digests.crc32c.to_string().into());
        if let Some(md5) = media.digests.md5 {
            add("md5Hash", md5.to_string().into());
        }
    }
    add("etag", etag(object).into());
    add("timeCreated", rfc3339(object.created).into());
    add("updated", rfc3339(object.updated).into());
    shown
}
