//! The methods of buckets.

use serde_json::{Map, Value, json};
use windlass_rest::handler::{Answer, Call, Rejection};
use windlass_rest::patched_fields;

use super::acl::{Acl, Kind};
use super::bucket::{Bucket, BucketName, COLLECTION, Lists};
use super::projection::{self, Projection};
use super::{Access, Preconditions};
use super::{bucket, listing, object};
use crate::listing::{Cursor, PAGE_BYTES, Rows};
use crate::record::set_list;

/// `buckets.insert`.
pub(super) async fn insert(call: &Call<'_>) -> Result<Answer, Rejection> {
    let name = call.metadata.get("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| Rejection::MissingField {
        field: "name".to_owned(),
    })?;
    let name = BucketName::parse(name)?;
    let fields = patched_fields(Map::new(), bucket::parse_fields(call.metadata)?);
    let lists = lists(call, Lists::default(), &fields)?;
    let bucket = Bucket::make(call, name, fields, lists)?;
    call.check_conditions_of_new()?;
    if call
        .lookup
        .resource(COLLECTION, bucket.name())
        .await?
        .is_some()
    {
        return Err(Rejection::Conflict {
            problem: format!(
                "bucket {} exists already; choose another name",
                bucket.name()
            ),
        });
    }
    let shown = projection::bucket(call, &bucket, Projection::of_new(call.metadata))?;
    Ok(Answer {
        changes: vec![bucket.insert()],
        body: Some(shown.into()),
        ..Answer::default()
    })
}

/// `buckets.get`.
pub(super) async fn show(call: &Call<'_>) -> Result<Answer, Rejection> {
    let bucket = find(call, Access::Read).await?;
    let shown = projection::bucket(call, &bucket, Projection::NoAcl)?;
    Ok(Answer::of(shown))
}

/// `buckets.getStorageLayout`: where a bucket is, and that it has no folders.
pub(super) async fn layout(call: &Call<'_>) -> Result<Answer, Rejection> {
    let bucket = find(call, Access::Read).await?;
    let shown = bucket.show(call.base_url);
    let mut body = Map::new();
    body.insert("kind".into(), "storage#storageLayout".into());
    body.insert("bucket".into(), bucket.name().into());
    for name in ["location", "locationType"] {
        body.insert(name.into(), shown.get(name).cloned().unwrap_or_default());
    }
    body.insert("hierarchicalNamespace".into(), json!({"enabled": false}));
    Ok(Answer::of(body))
}

/// `managedFolders.list`: a bucket has none. `gcloud storage rm -r` asks before it deletes a
/// bucket.
pub(super) async fn managed_folders(call: &Call<'_>) -> Result<Answer, Rejection> {
    Bucket::find(call, call.path.value("bucket").unwrap_or_default()).await?;
    let mut body = Map::new();
    body.insert("kind".into(), "storage#managedFolders".into());
    Ok(Answer::of(body))
}

/// `buckets.patch`.
pub(super) async fn patch(call: &Call<'_>) -> Result<Answer, Rejection> {
    let bucket = find(call, Access::Write).await?;
    // Nulls remove fields, so the rules are checked on the result.
    let fields = patched_fields(
        bucket.fields().clone(),
        bucket::parse_fields(call.metadata)?,
    );
    let fields = bucket::changed_fields(&bucket, fields)?;
    bucket::check_field(&fields)?;
    change(call, bucket, fields)
}

/// `buckets.update`.
pub(super) async fn update(call: &Call<'_>) -> Result<Answer, Rejection> {
    let bucket = find(call, Access::Write).await?;
    let fields = patched_fields(Map::new(), bucket::parse_fields(call.metadata)?);
    let fields = bucket::changed_fields(&bucket, fields)?;
    change(call, bucket, fields)
}

/// `buckets.delete`. An object that is inserted meanwhile refuses the deletion; otherwise it would
/// reappear in a new bucket of the same name.
pub(super) async fn delete(call: &Call<'_>) -> Result<Answer, Rejection> {
    let bucket = find(call, Access::Write).await?;
    let objects = object::collection(bucket.name());
    if !call.lookup.resources(&objects, None, 1).await?.is_empty() {
        return Err(Rejection::Conflict {
            problem: format!(
                "bucket {} is not empty; delete its objects first",
                bucket.name()
            ),
        });
    }
    Ok(Answer {
        changes: vec![bucket.delete()],
        expect_empty: vec![objects],
        ..Answer::default()
    })
}

/// `buckets.list`: the buckets of a project.
pub(super) async fn list(call: &Call<'_>) -> Result<Answer, Rejection> {
    let (size, prefix) = (
        listing::page_size(call)?,
        call.query.first("prefix").unwrap_or_default(),
    );
    let project = bucket::project(call)?;
    let start = Cursor::from_token(call)?.max(Cursor::before(prefix));
    let mut rows = Rows::new(call, COLLECTION.to_owned(), start);
    let mut looked_at = 0_usize;
    let (mut items, mut bytes) = (Vec::new(), 0);
    let mut body = Map::new();
    body.insert("kind".into(), "storage#buckets".into());
    loop {
        let here = rows.cursor().clone();
        let Some(row) = rows.next().await?.filter(|row| row.id.starts_with(prefix)) else {
            break;
        };
        let is_full = items.len() == size || bytes > PAGE_BYTES;
        // With one row at least, so that the next page begins elsewhere.
        if is_full || (looked_at > 0 && rows.is_enough()) {
            body.insert("nextPageToken".into(), here.to_token().into());
            break;
        }
        looked_at += 1;
        let stored = row.body.clone();
        let bucket = Bucket::read(row);
        if !bucket.is_in(project) {
            continue;
        }
        call.reply_memory.hold_row(&stored)?;
        bytes += stored.len();
        let shown = projection::bucket(call, &bucket, Projection::NoAcl)?;
        items.push(Value::Object(shown));
    }
    set_list(&mut body, "items", items);
    Ok(Answer::of(body))
}

/// Returns the bucket of the path, after the preconditions of the call are checked.
async fn find(call: &Call<'_>, access: Access) -> Result<Bucket, Rejection> {
    let bucket = Bucket::find(call, call.path.value("bucket").unwrap_or_default()).await?;
    Preconditions::on_target(call)?.check(Some(bucket.versions()), access)?;
    call.check_conditions(&bucket.etag())?;
    Ok(bucket)
}

fn change(
    call: &Call<'_>,
    bucket: Bucket,
    fields: Map<String, Value>,
) -> Result<Answer, Rejection> {
    let lists = lists(call, bucket.lists().clone(), &fields)?;
    let (bucket, change) = bucket.changed(call, fields, lists);
    let shown = projection::bucket(call, &bucket, Projection::Full)?;
    Ok(Answer {
        changes: vec![change],
        body: Some(shown.into()),
        ..Answer::default()
    })
}

/// Returns the lists of a bucket with these fields: predefined lists, the lists in the metadata, or
/// otherwise the `current` lists.
fn lists(call: &Call<'_>, current: Lists, fields: &Map<String, Value>) -> Result<Lists, Rejection> {
    let given = |kind, parameter, field| {
        let name = call.query.first(parameter).filter(|name| !name.is_empty());
        let acl = match (name, call.metadata.get(field)) {
            (Some(name), _) => Acl::predefined(kind, parameter, name)?,
            (None, Some(list)) => Acl::parse(kind, field, list)?,
            (None, None) => return Ok(None),
        };
        // An empty list asks for nothing.
        if bucket::is_uniform(fields) && acl != Acl::private() {
            return Err(bucket::no_lists());
        }
        Ok(Some(acl))
    };
    let acl = given(Kind::Bucket, "predefinedAcl", "acl")?;
    let default_object_acl = given(
        Kind::Object,
        "predefinedDefaultObjectAcl",
        "defaultObjectAcl",
    )?;
    Ok(Lists {
        acl: acl.or(current.acl),
        default_object_acl: default_object_acl.or(current.default_object_acl),
    })
}
