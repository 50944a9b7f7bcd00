//! `objects.list`: objects in the order of names, in pages, with prefixes instead of folders.

use serde_json::{Map, Value};
use windlass_rest::handler::{Answer, Call, Rejection};

use super::bucket::Bucket;
use super::object::{Object, collection};
use super::projection::{self, Projection};
use crate::listing::{Cursor, NameFilter, Page, Rows};
use crate::record::set_list;

/// Maximum and default number of items of a page.
const MAX_PAGE: usize = 1000;

/// Lists a bucket.
pub(super) async fn list(call: &Call<'_>) -> Result<Answer, Rejection> {
    let bucket = Bucket::find(call, call.path.value("bucket").unwrap_or_default()).await?;
    bucket.check_public(call, bucket.acl())?;
    let is_full = Projection::NoAcl.is_full(call)?;
    let query = ListQuery::parse(call)?;
    let page = if query.only_deleted {
        Page::default()
    } else {
        let rows = Rows::new(call, collection(bucket.name()), query.start);
        query.names.page(rows, call.reply_memory).await?
    };
    let shown_of = |object: &Object| {
        if is_full {
            return projection::object_with_acl(call, object, &bucket);
        }
        Ok(object.show(call.base_url))
    };
    Ok(Answer::of(show(page, shown_of)?))
}

/// Parameters of a list.
struct ListQuery<'a> {
    names: NameFilter<'a>,
    /// Position of the first item.
    start: Cursor,
    /// Whether only soft-deleted objects are listed. This server has no soft-deleted objects.
    only_deleted: bool,
}

impl<'a> ListQuery<'a> {
    fn parse(call: &Call<'a>) -> Result<Self, Rejection> {
        let text = |name| call.query.first(name).unwrap_or_default();
        let flag = |name| text(name) == "1" || text(name).eq_ignore_ascii_case("true");
        let prefix = text("prefix");
        let start = Cursor::from_token(call)?
            .max(Cursor::before(prefix))
            .max(Cursor::before(text("startOffset")));
        Ok(Self {
            names: NameFilter {
                size: page_size(call)?,
                prefix,
                delimiter: text("delimiter"),
                end: text("endOffset"),
                trailing: flag("includeTrailingDelimiter"),
                is_left_out: |_| false,
            },
            start,
            only_deleted: flag("softDeleted"),
        })
    }
}

/// Returns the JSON of a page. `shown_of` makes the JSON of an object.
fn show(
    page: Page,
    shown_of: impl Fn(&Object) -> Result<Map<String, Value>, Rejection>,
) -> Result<Map<String, Value>, Rejection> {
    let mut body = Map::new();
    body.insert("kind".into(), "storage#objects".into());
    if let Some(next) = page.next {
        body.insert("nextPageToken".into(), next.to_token().into());
    }
    if !page.prefixes.is_empty() {
        body.insert("prefixes".into(), page.prefixes.into());
    }
    let objects = page.rows.into_iter().map(Object::read);
    let items = objects.map(|object| shown_of(&object).map(Value::Object));
    set_list(&mut body, "items", items.collect::<Result<_, _>>()?);
    Ok(body)
}

/// Returns the number of items of a page.
pub(super) fn page_size(call: &Call<'_>) -> Result<usize, Rejection> {
    let Some(text) = call.query.first("maxResults").filter(|it| !it.is_empty()) else {
        return Ok(MAX_PAGE);
    };
    match text.parse::<usize>() {
        // In the service 0 means the default.
        Ok(0) => Ok(MAX_PAGE),
        Ok(size) => Ok(size.min(MAX_PAGE)),
        Err(_) => Err(Rejection::InvalidParameter {
            parameter: "maxResults".to_owned(),
            problem: "must be a number that is not negative".to_owned(),
        }),
    }
}
