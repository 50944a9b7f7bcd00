//! `objects.list`: names in their order, in pages, with prefixes in the place of folders.

use serde_json::{Map, Value};
use windlass_server::handler::{Answer, Call, Rejection, ReplyMemoryPermit};
use windlass_store::Resource;

use super::bucket::Bucket;
use super::object::{Object, collection};
use super::page::{self, PAGE_BYTES, PAGE_ROWS, Place, Rows};

/// Lists a bucket.
pub(super) async fn list(call: &Call<'_>) -> Result<Answer, Rejection> {
    refuse_unknown(call)?;
    let bucket = Bucket::find(call, call.path.value("bucket").unwrap_or_default()).await?;
    let wanted = Wanted::parse(call)?;
    let page = if wanted.only_deleted {
        Page::default()
    } else {
        let rows = Rows::new(call, collection(bucket.name()), wanted.start.clone());
        wanted.page(rows).await?
    };
    Ok(Answer {
        changes: Vec::new(),
        body: Some(page.show(call.base_url)),
    })
}

/// Filters that are not understood: to pass over one would show what was not asked for.
fn refuse_unknown(call: &Call<'_>) -> Result<(), Rejection> {
    let given = |name: &&str| call.query.first(name).is_some_and(|it| !it.is_empty());
    match ["matchGlob", "filter"].into_iter().find(given) {
        None => Ok(()),
        Some(parameter) => Err(Rejection::InvalidParameter {
            parameter: parameter.to_owned(),
            problem: "is not supported by this server".to_owned(),
        }),
    }
}

/// What a list shall show.
struct Wanted<'a> {
    reply_memory: &'a ReplyMemoryPermit,
    size: usize,
    prefix: &'a str,
    /// Empty for none.
    delimiter: &'a str,
    /// Where it begins.
    start: Place,
    /// The first name that is not shown; empty for none.
    end: &'a str,
    /// Whether an object whose name ends in the delimiter is shown beside its prefix.
    trailing: bool,
    /// Deleted objects, of which there are none.
    only_deleted: bool,
}

/// What a list shows.
#[derive(Default)]
struct Page {
    objects: Vec<Object>,
    prefixes: Vec<String>,
    bytes: usize,
    next: Option<Place>,
}

impl<'a> Wanted<'a> {
    fn parse(call: &Call<'a>) -> Result<Self, Rejection> {
        let text = |name| call.query.first(name).unwrap_or_default();
        let flag = |name| text(name) == "1" || text(name).eq_ignore_ascii_case("true");
        let prefix = text("prefix");
        let start = Place::of_token(call)?
            .max(Place::before(prefix))
            .max(Place::before(text("startOffset")));
        Ok(Self {
            reply_memory: call.reply_memory,
            size: page::size(call)?,
            prefix,
            delimiter: text("delimiter"),
            start,
            end: text("endOffset"),
            trailing: flag("includeTrailingDelimiter"),
            only_deleted: flag("softDeleted"),
        })
    }

    async fn page(&self, mut rows: Rows<'_>) -> Result<Page, Rejection> {
        let mut page = Page::default();
        loop {
            let here = rows.place().clone();
            let Some(row) = rows.next().await?.filter(|row| self.shows(&row.id)) else {
                return Ok(page);
            };
            if page.len() >= self.size || page.bytes > PAGE_BYTES || rows.looked_at() > PAGE_ROWS {
                page.next = Some(here);
                return Ok(page);
            }
            match self.folded(&row.id).map(str::to_owned) {
                None => {
                    self.reply_memory.hold_row(&row.body)?;
                    page.take(row);
                }
                Some(prefix) => {
                    if self.trailing && row.id == prefix {
                        self.reply_memory.hold_row(&row.body)?;
                        page.take(row);
                    }
                    let behind = Place::behind_all(&prefix);
                    page.prefixes.push(prefix);
                    match behind {
                        Some(place) => rows.skip_to(place),
                        None => return Ok(page),
                    }
                }
            }
        }
    }

    /// The rows begin within the prefix, so the first one without it lies behind it.
    fn shows(&self, name: &str) -> bool {
        name.starts_with(self.prefix) && (self.end.is_empty() || name < self.end)
    }

    /// The prefix that is shown instead of the name.
    fn folded<'b>(&self, name: &'b str) -> Option<&'b str> {
        if self.delimiter.is_empty() {
            return None;
        }
        let rest = &name[self.prefix.len()..];
        let at = rest.find(self.delimiter)?;
        Some(&name[..self.prefix.len() + at + self.delimiter.len()])
    }
}

impl Page {
    fn len(&self) -> usize {
        self.objects.len() + self.prefixes.len()
    }

    fn take(&mut self, row: Resource) {
        self.bytes += row.body.len();
        self.objects.push(Object::read(row));
    }

    fn show(self, base_url: &str) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("kind".into(), "storage#objects".into());
        if let Some(next) = self.next {
            body.insert("nextPageToken".into(), next.to_token().into());
        }
        if !self.prefixes.is_empty() {
            body.insert("prefixes".into(), self.prefixes.into());
        }
        let items = self
            .objects
            .iter()
            .map(|object| Value::Object(object.show(base_url)));
        body.insert("items".into(), items.collect());
        body
    }
}
