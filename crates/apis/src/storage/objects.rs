//! Methods on single objects.
//!
//! A copy names the same media as its source and does not change the source, so copies of one
//! object do not wait for each other. If the source and its media are deleted meanwhile, the ledger
//! refuses the copy, and it is tried again.

use serde_json::{Map, Value};
use windlass_rest::handler::{Answer, Call, Rejection, Uploaded};
use windlass_rest::{AccessError, Principal};

use super::acl::{Acl, Kind};
use super::bucket::{self, Bucket, no_lists};
use super::object::{self, Change, Object, ObjectName, UpdateMode, collection};
use super::projection::{self, Projection};
use super::{Access, Preconditions, number};
use crate::record::retyped;

/// Refuses an upload that cannot become an object, before its media is received.
pub(super) async fn admit(call: &Call<'_>) -> Result<(), Rejection> {
    let destination = destination(call).await?;
    let change = upload_fields(call)?;
    check_link(call)?;
    new_acl(call, &destination.bucket, "predefinedAcl", change.acl).map(drop)
}

/// Refuses an upload by a signed link that would give others access to the object, unless its
/// signer has asked for it. The holder of a link chooses all that is not signed.
fn check_link(call: &Call<'_>) -> Result<(), Rejection> {
    let Some(link) = call.principal.and_then(Principal::link) else {
        return Ok(());
    };
    let predefined = call.query.first("predefinedAcl");
    let is_predefined = predefined.is_some_and(|it| !it.is_empty());
    let is_stated = call.metadata.get("acl").is_some_and(|it| !it.is_null());
    let input = match (is_predefined && !link.signs("predefinedAcl"), is_stated) {
        (true, _) => "the parameter predefinedAcl",
        (false, true) => "the field acl",
        (false, false) => return Ok(()),
    };
    Err(Rejection::Access(AccessError::Forbidden {
        problem: format!(
            "{input} gives others access to the object, and the signed link does not have it; get a \
             link that was signed with predefinedAcl"
        ),
    }))
}

/// `objects.insert`.
pub(super) async fn insert(call: &Call<'_>, media: Option<Uploaded>) -> Result<Answer, Rejection> {
    let Some(Uploaded { media, .. }) = media else {
        return Err(Rejection::InvalidMedia {
            problem: "an object is uploaded to the same path prefixed with /upload".to_owned(),
        });
    };
    let Destination {
        bucket,
        name,
        current,
    } = destination(call).await?;
    let change = upload_fields(call)?;
    // The object has the type in the metadata. Without one, it has the type of the request.
    let stated = change.content_type.clone().filter(|it| !it.is_empty());
    let media = retyped(media, stated);
    let acl = new_acl(call, &bucket, "predefinedAcl", change.acl.clone())?;
    let object = Object::make(
        call,
        (&bucket, &name),
        media,
        change.into_fields(),
        current.as_ref(),
    );
    let object = object.with_acl(acl);
    let shown = shown_in(call, &object, &bucket)?;
    Ok(Answer {
        changes: vec![object.put(current.as_ref())],
        expect: bucket.expected(),
        body: Some(shown.into()),
        ..Answer::default()
    })
}

/// `objects.get`.
pub(super) async fn show(call: &Call<'_>) -> Result<Answer, Rejection> {
    let object = find(call).await?;
    let shown = projection::object(call, &object, Projection::NoAcl);
    Ok(Answer::of(shown.await?))
}

/// `objects.patch`.
pub(super) async fn patch(call: &Call<'_>) -> Result<Answer, Rejection> {
    change(call, UpdateMode::Patch).await
}

/// `objects.update`.
pub(super) async fn update(call: &Call<'_>) -> Result<Answer, Rejection> {
    change(call, UpdateMode::Update).await
}

/// `objects.delete`.
pub(super) async fn delete(call: &Call<'_>) -> Result<Answer, Rejection> {
    let object = named(call, Access::Write).await?;
    Ok(Answer {
        changes: vec![object.delete()],
        body: None,
        ..Answer::default()
    })
}

/// Returns the object for a read of its metadata or media.
pub(super) async fn find(call: &Call<'_>) -> Result<Object, Rejection> {
    named(call, Access::Read).await
}

/// Returns the key of the lock: calls that write the same object are serialized.
pub(super) fn turn(call: &Call<'_>) -> Option<String> {
    if call.method.http_method == http::Method::GET {
        return None;
    }
    let (bucket, object) = (value(call, "bucket"), value(call, "object"));
    let bucket = bucket.or_else(|| value(call, "destinationBucket"))?;
    let object = object
        .or_else(|| value(call, "destinationObject"))
        .or_else(|| upload_name(call))?;
    Some(format!("{}/{object}", collection(bucket)))
}

/// Returns the live object of this name, if there is one. A name that no object can have is
/// refused.
pub(super) async fn live(
    call: &Call<'_>,
    bucket: &str,
    name: &str,
) -> Result<Option<Object>, Rejection> {
    bucket::check_name(bucket)?;
    object::check_form(name)?;
    let found = call.lookup.resource(&collection(bucket), name).await?;
    if let Some(found) = &found {
        // A call may read thirty, each with a thousand values.
        call.reply_memory.hold_row(&found.body)?;
    }
    Ok(found.map(Object::read))
}

/// Returns the object of this name, in the generation that `parameter` asks for.
pub(super) async fn existing(
    call: &Call<'_>,
    bucket: &str,
    name: &str,
    parameter: &str,
) -> Result<Object, Rejection> {
    let generation = number(parameter, call.query.first(parameter))?;
    in_generation(call, bucket, name, generation).await
}

/// Returns the object of this name, in this generation if one is given.
pub(super) async fn in_generation(
    call: &Call<'_>,
    bucket: &str,
    name: &str,
    generation: Option<i64>,
) -> Result<Object, Rejection> {
    let wanted = |object: &Object| {
        generation.is_none_or(|wanted| u64::try_from(wanted) == Ok(object.versions().generation))
    };
    let found = live(call, bucket, name).await?.filter(wanted);
    found.ok_or_else(|| Rejection::NoSuch {
        what: "object".to_owned(),
        id: format!("{bucket}/{name}"),
    })
}

/// Returns a variable of the path.
pub(super) fn value<'a>(call: &Call<'a>, variable: &str) -> Option<&'a str> {
    call.path.value(variable)
}

async fn change(call: &Call<'_>, mode: UpdateMode) -> Result<Answer, Rejection> {
    let change = Change::parse(call.metadata)?;
    let old = named(call, Access::Write).await?;
    let acl = changed_acl(call, &old, change.acl.clone()).await?;
    let object = old.clone().changed(call, change, mode)?.with_acl(acl);
    let shown = projection::object(call, &object, Projection::Full);
    Ok(Answer {
        body: Some(shown.await?.into()),
        changes: vec![object.put(Some(&old))],
        ..Answer::default()
    })
}

/// Returns the access control list of a changed object: a predefined list, the stated list, or
/// otherwise its current list.
async fn changed_acl(
    call: &Call<'_>,
    old: &Object,
    stated: Option<Acl>,
) -> Result<Option<Acl>, Rejection> {
    let given = given_acl(call, "predefinedAcl", stated)?;
    let Some(acl) = given else {
        return Ok(old.acl().cloned());
    };
    let bucket = Bucket::find(call, old.bucket()).await?;
    bucket.check_has_lists()?;
    Ok(Some(acl))
}

/// Returns the access control list of a new object: the predefined list that the parameter names,
/// the stated list, or otherwise the bucket's default list for objects.
pub(super) fn new_acl(
    call: &Call<'_>,
    bucket: &Bucket,
    parameter: &str,
    stated: Option<Acl>,
) -> Result<Option<Acl>, Rejection> {
    let given = given_acl(call, parameter, stated)?;
    if !bucket.is_uniform() {
        return Ok(given.or_else(|| bucket.default_object_acl().cloned()));
    }
    // An empty list asks for nothing.
    match given {
        Some(acl) if acl != Acl::private() => Err(no_lists()),
        _ => Ok(None),
    }
}

fn given_acl(
    call: &Call<'_>,
    parameter: &str,
    stated: Option<Acl>,
) -> Result<Option<Acl>, Rejection> {
    match call.query.first(parameter).filter(|it| !it.is_empty()) {
        Some(name) => Acl::predefined(Kind::Object, parameter, name).map(Some),
        None => Ok(stated),
    }
}

/// Returns the JSON of a new object in its bucket.
pub(super) fn shown_in(
    call: &Call<'_>,
    object: &Object,
    bucket: &Bucket,
) -> Result<Map<String, Value>, Rejection> {
    if Projection::of_new(call.metadata).is_full(call)? {
        return projection::object_with_acl(call, object, bucket);
    }
    Ok(object.show(call.base_url))
}

/// Returns the object of the path, after the preconditions of the call are checked.
async fn named(call: &Call<'_>, access: Access) -> Result<Object, Rejection> {
    let bucket = value(call, "bucket").unwrap_or_default();
    let name = value(call, "object").unwrap_or_default();
    let object = existing(call, bucket, name, "generation").await?;
    if call.refusal.is_some() {
        let bucket = Bucket::find(call, bucket).await?;
        bucket.check_public(call, object.acl())?;
    }
    Preconditions::on_target(call)?.check(Some(object.versions()), access)?;
    call.check_conditions(&object.etag())?;
    Ok(object)
}

/// Checks the conditions of a call on the object that it makes or replaces.
pub(super) fn check_target(call: &Call<'_>, current: Option<&Object>) -> Result<(), Rejection> {
    let versions = current.map(Object::versions);
    Preconditions::on_target(call)?.check(versions, Access::Write)?;
    match current {
        Some(current) => call.check_conditions(&current.etag()),
        None => call.check_conditions_of_new(),
    }
}

/// Destination of an upload.
struct Destination {
    bucket: Bucket,
    name: ObjectName,
    /// The existing object.
    current: Option<Object>,
}

async fn destination(call: &Call<'_>) -> Result<Destination, Rejection> {
    let name = upload_name(call).ok_or_else(|| Rejection::MissingField {
        field: "name".to_owned(),
    })?;
    let name = ObjectName::parse("name", name)?;
    let bucket = Bucket::find(call, value(call, "bucket").unwrap_or_default()).await?;
    let current = live(call, bucket.name(), name.as_str()).await?;
    check_target(call, current.as_ref())?;
    Ok(Destination {
        bucket,
        name,
        current,
    })
}

/// Returns the name of an upload. The parameter takes precedence over the metadata.
fn upload_name<'a>(call: &Call<'a>) -> Option<&'a str> {
    let stated = call.metadata.get("name").and_then(Value::as_str);
    call.query.first("name").or(stated)
}

/// Returns the fields of an upload: the fields in the metadata and the equivalent parameters.
fn upload_fields(call: &Call<'_>) -> Result<Change, Rejection> {
    let mut metadata = call.metadata.clone();
    if let Some(value) = call.query.first("contentEncoding") {
        metadata.insert("contentEncoding".to_owned(), value.into());
    }
    Change::parse(&metadata)
}

/// `objects.copy`.
pub(super) async fn copy(call: &Call<'_>) -> Result<Answer, Rejection> {
    let Copied {
        copy,
        current,
        bucket,
        ..
    } = copied(call).await?;
    Ok(Answer {
        body: Some(shown_in(call, &copy, &bucket)?.into()),
        changes: vec![copy.put(current.as_ref())],
        expect: bucket.expected(),
        ..Answer::default()
    })
}

/// `objects.rewrite`: completes in one call, whatever the size.
pub(super) async fn rewrite(call: &Call<'_>) -> Result<Answer, Rejection> {
    let Copied {
        copy,
        current,
        bucket,
        ..
    } = copied(call).await?;
    let shown = shown_in(call, &copy, &bucket)?;
    let size = copy.media().map_or(0, |media| media.length).to_string();
    let mut body = Map::new();
    body.insert("kind".into(), "storage#rewriteResponse".into());
    body.insert("totalBytesRewritten".into(), size.clone().into());
    body.insert("objectSize".into(), size.into());
    body.insert("done".into(), true.into());
    body.insert("resource".into(), shown.into());
    Ok(Answer {
        body: Some(body.into()),
        changes: vec![copy.put(current.as_ref())],
        expect: bucket.expected(),
        ..Answer::default()
    })
}

/// `objects.move`.
pub(super) async fn rename(call: &Call<'_>) -> Result<Answer, Rejection> {
    let Copied {
        source,
        copy,
        current,
        bucket,
    } = copied(call).await?;
    if copy.is_at(&source) {
        return Err(Rejection::InvalidParameter {
            parameter: "destinationObject".to_owned(),
            problem: "is the name that the object has".to_owned(),
        });
    }
    // It is the same object, to the same readers.
    let acl = source.acl().filter(|_| !bucket.is_uniform());
    let copy = copy.with_acl(acl.cloned());
    Ok(Answer {
        body: Some(shown_in(call, &copy, &bucket)?.into()),
        changes: vec![copy.put(current.as_ref()), source.delete()],
        expect: bucket.expected(),
        ..Answer::default()
    })
}

/// An object that was copied.
struct Copied {
    source: Object,
    copy: Object,
    /// The object that the copy replaces.
    current: Option<Object>,
    /// The bucket of the copy.
    bucket: Bucket,
}

async fn copied(call: &Call<'_>) -> Result<Copied, Rejection> {
    let change = Change::parse(call.metadata)?;
    let in_bucket = value(call, "bucket").unwrap_or_default();
    let source_bucket = value(call, "sourceBucket").unwrap_or(in_bucket);
    let source_name = value(call, "sourceObject").unwrap_or_default();
    let source = existing(call, source_bucket, source_name, "sourceGeneration").await?;
    let conditions = Preconditions::on_source(call)?;
    conditions.check(Some(source.versions()), Access::Write)?;

    let bucket = value(call, "destinationBucket").unwrap_or(in_bucket);
    let bucket = Bucket::find(call, bucket).await?;
    let name = value(call, "destinationObject").unwrap_or_default();
    let name = ObjectName::parse("destinationObject", name)?;
    let current = live(call, bucket.name(), name.as_str()).await?;
    check_target(call, current.as_ref())?;

    let media = retyped(source.existing_media()?, change.content_type.clone());
    let acl = new_acl(
        call,
        &bucket,
        "destinationPredefinedAcl",
        change.acl.clone(),
    )?;
    // The fields of the source, unless the client sends others.
    let fields = if change.is_empty() {
        source.fields().clone()
    } else {
        change.into_fields()
    };
    let copy = Object::make(call, (&bucket, &name), media, fields, current.as_ref());
    // In another storage class a composite object has one component, as in the service.
    let is_same_class = copy.storage_class() == source.storage_class();
    let components = source.components();
    let components = components.map(|count| if is_same_class { count } else { 1 });
    let copy = copy.with_components(components).with_acl(acl);
    Ok(Copied {
        source,
        copy,
        current,
        bucket,
    })
}
