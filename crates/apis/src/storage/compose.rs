//! `objects.compose`: an object that is composed of other objects of its bucket.
//!
//! The handler is called twice. The first call names the media of the sources, and the server has
//! the vault concatenate this media. The second call receives the result and makes the object.
//!
//! The rules of composed objects are from
//! <https://cloud.google.com/storage/docs/composite-objects>: they have no MD5, they count their
//! components, and all sources have one storage class, which the result inherits. Checksums in the
//! description of the destination are ignored, because Google's library for Python sends back the
//! checksums of the replaced object.

use serde_json::{Map, Value};
use windlass_discovery::ByteSize;
use windlass_rest::handler::{Answer, Call, Concatenation, Rejection, Uploaded};
use windlass_store::ResourceChange;

use super::bucket::Bucket;
use super::object::{Change, Object, ObjectName};
use super::objects::{check_target, in_generation, live, new_acl, value};
use super::{Access, Condition, Preconditions, number};
use crate::record::retyped;

/// Maximum number of sources, as in the service.
const MAX_SOURCES: usize = 32;

/// Maximum length in bytes of an object, as in the service: 5 TiB. No description states it.
const MAX_OBJECT: u64 = 5 << 40;

/// Calls of `objects.compose`. Without media it asks for it.
pub(super) async fn compose(call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
    let request = ComposeRequest::parse(call)?;
    let name = value(call, "destinationObject").unwrap_or_default();
    let name = ObjectName::parse("destinationObject", name)?;
    let bucket = value(call, "destinationBucket").unwrap_or_default();
    let bucket = Bucket::find(call, bucket).await?;
    let current = live(call, bucket.name(), name.as_str()).await?;
    check_target(call, current.as_ref())?;
    let sources = request.find_sources(call, &bucket).await?;
    let storage_class = common_storage_class(&sources)?;
    let Some(Uploaded { media, .. }) = media else {
        return Ok(Answer {
            concatenation: Some(concatenation(call, &sources)?),
            ..Answer::default()
        });
    };
    let acl = new_acl(
        call,
        &bucket,
        "destinationPredefinedAcl",
        request.destination.acl.clone(),
    )?;
    let media = retyped(media, request.destination.content_type.clone());
    let mut fields = request.destination.into_fields();
    fields
        .entry("storageClass")
        .or_insert_with(|| storage_class.into());
    let components = sources
        .iter()
        .map(|source| source.components().unwrap_or(1));
    let components = components.fold(0, i32::saturating_add);
    let object = Object::make(call, (&bucket, &name), media, fields, current.as_ref())
        .with_components(Some(components))
        .with_acl(acl);
    let mut changes = vec![object.put(current.as_ref())];
    if request.delete_sources {
        changes.extend(deletions(&sources, &object));
    }
    Ok(Answer {
        changes,
        expect: bucket.expected(),
        body: Some(object.show(call.base_url).into()),
        ..Answer::default()
    })
}

/// Returns the media to be put together.
fn concatenation(call: &Call<'_>, sources: &[Object]) -> Result<Concatenation, Rejection> {
    let media = sources.iter().map(Object::existing_media);
    let concatenation = Concatenation {
        sources: media.collect::<Result<_, _>>()?,
        expect: sources.iter().map(Object::expected).collect(),
    };
    let (length, limit) = (concatenation.length(), largest_upload(call));
    if length > limit {
        return Err(Rejection::TooLarge { length, limit });
    }
    Ok(concatenation)
}

/// Returns the maximum length in bytes of an uploaded object. Without a limit of the method, it is
/// the service's maximum. A composed object has the same maximum.
fn largest_upload(call: &Call<'_>) -> u64 {
    let insert = call.api.method("storage.objects.insert");
    let upload = insert.and_then(|insert| insert.upload.as_ref());
    let limit = upload.and_then(|upload| upload.max_size);
    limit.map_or(MAX_OBJECT, ByteSize::bytes)
}

fn common_storage_class(sources: &[Object]) -> Result<String, Rejection> {
    let mut classes = sources.iter().map(Object::storage_class);
    let first = classes.next().unwrap_or_default();
    if classes.all(|class| class == first) {
        return Ok(first.to_owned());
    }
    Err(Rejection::InvalidArgument {
        problem: "the source objects must have the same storage class".to_owned(),
    })
}

/// Deletes all sources except the source that the new object replaces.
fn deletions(sources: &[Object], object: &Object) -> Vec<ResourceChange> {
    let mut others: Vec<_> = sources.iter().filter(|it| !it.is_at(object)).collect();
    others.sort_unstable_by_key(|source| source.name());
    others.dedup_by_key(|source| source.name());
    others.into_iter().map(Object::delete).collect()
}

/// The JSON of a call.
struct ComposeRequest {
    sources: Vec<Source>,
    destination: Change,
    delete_sources: bool,
}

/// A source and its conditions.
struct Source {
    name: String,
    generation: Option<i64>,
    conditions: Preconditions,
}

impl ComposeRequest {
    fn parse(call: &Call<'_>) -> Result<Self, Rejection> {
        let sources = match call.metadata.get("sourceObjects") {
            None | Some(Value::Null) => &[],
            Some(Value::Array(sources)) => &sources[..],
            Some(_) => {
                return Err(Rejection::invalid_field(
                    "sourceObjects",
                    "must be an array",
                ));
            }
        };
        if sources.is_empty() {
            return Err(Rejection::MissingField {
                field: "sourceObjects".to_owned(),
            });
        }
        if sources.len() > MAX_SOURCES {
            return Err(Rejection::invalid_field(
                "sourceObjects",
                format!("has at most {MAX_SOURCES} objects"),
            ));
        }
        let sources = sources.iter().enumerate();
        let sources =
            sources.map(|(at, source)| Source::parse(&format!("sourceObjects[{at}]"), source));
        Ok(Self {
            sources: sources.collect::<Result<_, _>>()?,
            destination: destination(call)?,
            delete_sources: match call.metadata.get("deleteSourceObjects") {
                None | Some(Value::Null) => false,
                Some(Value::Bool(delete)) => *delete,
                Some(_) => {
                    let problem = "must be of type boolean";
                    return Err(Rejection::invalid_field("deleteSourceObjects", problem));
                }
            },
        })
    }

    /// Returns the sources. Their generations and conditions are checked.
    async fn find_sources(
        &self,
        call: &Call<'_>,
        bucket: &Bucket,
    ) -> Result<Vec<Object>, Rejection> {
        let mut found = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            let object =
                in_generation(call, bucket.name(), &source.name, source.generation).await?;
            source
                .conditions
                .check(Some(object.versions()), Access::Write)?;
            found.push(object);
        }
        Ok(found)
    }
}

/// Returns the fields of the new object.
fn destination(call: &Call<'_>) -> Result<Change, Rejection> {
    let fields = match call.metadata.get("destination") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(fields)) => fields.clone(),
        Some(_) => return Err(Rejection::invalid_field("destination", "must be an object")),
    };
    Change::parse(&fields)
}

impl Source {
    fn parse(field: &str, source: &Value) -> Result<Self, Rejection> {
        let Value::Object(source) = source else {
            return Err(Rejection::invalid_field(field, "must be an object"));
        };
        let name = match source.get("name") {
            Some(Value::String(name)) if !name.is_empty() => name.clone(),
            None | Some(Value::Null | Value::String(_)) => {
                return Err(Rejection::MissingField {
                    field: format!("{field}.name"),
                });
            }
            Some(_) => {
                let problem = "must be of type string";
                return Err(Rejection::invalid_field(format!("{field}.name"), problem));
            }
        };
        let conditions = match source.get("objectPreconditions") {
            None | Some(Value::Null) => None,
            Some(Value::Object(conditions)) => conditions.get("ifGenerationMatch"),
            Some(_) => {
                let field = format!("{field}.objectPreconditions");
                return Err(Rejection::invalid_field(field, "must be an object"));
            }
        };
        let equal = format!("{field}.objectPreconditions.ifGenerationMatch");
        Ok(Self {
            name,
            generation: int64(&format!("{field}.generation"), source.get("generation"))?,
            conditions: Preconditions {
                generation: Condition {
                    equal: int64(&equal, conditions)?,
                    other_than: None,
                },
                metageneration: Condition::default(),
            },
        })
    }
}

/// Reads a number of 64 bits, which is a string in the JSON of Google's libraries.
fn int64(field: &str, value: Option<&Value>) -> Result<Option<i64>, Rejection> {
    let read = match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => number(field, Some(text)).map_err(drop),
        Some(value) => value.as_i64().map(Some).ok_or(()),
    };
    read.map_err(|()| Rejection::invalid_field(field, "must be a number of 64 bits"))
}
