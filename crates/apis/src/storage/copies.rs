//! The methods that make one object of another: the copy names the same media.
//!
//! A copy does not change its source, so copies of one object do not wait for each other. If the source and its
//! media are deleted meanwhile, the ledger refuses the copy, and it is tried again.

use serde_json::{Map, Value};
use windlass_server::handler::{Answer, Call, Rejection};

use super::bucket::Bucket;
use super::fields::Change;
use super::object::{Object, retyped};
use super::object_name::ObjectName;
use super::objects::{existing, live, value};
use super::preconditions::{Access, Preconditions};

/// `objects.copy`.
pub(super) async fn copy(call: &Call<'_>) -> Result<Answer, Rejection> {
    let Copied { copy, current, .. } = copied(call).await?;
    Ok(Answer {
        body: Some(copy.show(call.base_url)),
        changes: vec![copy.put(current.as_ref())],
    })
}

/// `objects.rewrite`: all at once, whatever the size.
pub(super) async fn rewrite(call: &Call<'_>) -> Result<Answer, Rejection> {
    let Copied { copy, current, .. } = copied(call).await?;
    let size = copy.media().map_or(0, |media| media.length).to_string();
    let mut body = Map::new();
    body.insert("kind".into(), "storage#rewriteResponse".into());
    body.insert("totalBytesRewritten".into(), size.clone().into());
    body.insert("objectSize".into(), size.into());
    body.insert("done".into(), true.into());
    body.insert("resource".into(), Value::Object(copy.show(call.base_url)));
    Ok(Answer {
        body: Some(body),
        changes: vec![copy.put(current.as_ref())],
    })
}

/// `objects.move`.
pub(super) async fn rename(call: &Call<'_>) -> Result<Answer, Rejection> {
    let Copied {
        source,
        copy,
        current,
    } = copied(call).await?;
    if copy.is_at(&source) {
        return Err(Rejection::InvalidParameter {
            parameter: "destinationObject".to_owned(),
            problem: "is the name that the object has".to_owned(),
        });
    }
    Ok(Answer {
        body: Some(copy.show(call.base_url)),
        changes: vec![copy.put(current.as_ref()), source.delete()],
    })
}

/// An object made of another.
struct Copied {
    source: Object,
    copy: Object,
    /// What the copy takes the place of.
    current: Option<Object>,
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
    let versions = current.as_ref().map(Object::versions);
    Preconditions::on_target(call)?.check(versions, Access::Write)?;

    let media = source.media().cloned().ok_or_else(|| Rejection::NotFound {
        what: "media of object".to_owned(),
        id: source.name().to_owned(),
    })?;
    let media = retyped(media, change.content_type.clone());
    // The source's fields, unless the client gives others.
    let fields = if change.is_empty() {
        source.fields().clone()
    } else {
        change.into_fields()
    };
    let copy = Object::make(call, (&bucket, &name), media, fields, current.as_ref());
    Ok(Copied {
        source,
        copy,
        current,
    })
}
