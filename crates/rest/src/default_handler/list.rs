//! Lists of resources, page by page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use windlass_discovery::{CollectionSettings, Schema};
use windlass_store::{Resource, ResourceChange};

use super::BATCH;
use super::fields::fields_of;
use super::filter::{Condition, Scalar, parse};
use super::index::{Index, Range};
use super::index_record::{Built, Record};
use super::operation::{CallContext, is_query_parameter, not_implemented};
use super::relations::check_parent;
use super::response_shape::{ResponseShape, add_required, response_schema};
use crate::handler::{Answer, Call, FETCHED_AT_ONCE, Rejection, SearchedRows};

mod building;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;

/// Number of resources in a page by default.
const DEFAULT_PAGE: usize = 100;

/// Maximum number of resources in a page.
const MAX_PAGE: usize = 1000;

/// Size in bytes of the resources at which a page ends, whatever number was requested.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Number of examined resources at which a page ends, including resources that the filter rejects.
/// A list with a selective filter takes more pages, and no page takes long.
const MAX_EXAMINED: usize = 1000;

/// Size in bytes of the examined resources at which a page ends as well.
const MAX_EXAMINED_BYTES: usize = 4 * PAGE_BYTES;

/// Number of resources that a search reads first.
const FIRST_SEARCHED: usize = 4;

/// Bytes of resources that are read before other tasks have their turn.
const AT_ONCE: usize = 1024 * 1024;

/// A position before all others.
const BEFORE_ALL: &str = "\0";

/// Maximum number of ids in the parameter `id`.
const MAX_IDS: usize = 100;

/// Returns one page of a collection, or the resources that the parameter `id` names if the method
/// has one and the client gives it.
pub(super) async fn list(call: &Call<'_>, collection: &str) -> Result<Answer, Rejection> {
    let schema = response_schema(call).ok_or_else(|| not_implemented(call))?;
    // First: a list inside of a missing resource is 404, and not an empty page.
    check_parent(call, collection).await?;
    let context = CallContext::of(call);
    let (items_field, items_schema) =
        items(&context, schema).ok_or_else(|| not_implemented(call))?;
    let Page {
        resources,
        next,
        changes,
    } = match ids(call)? {
        Some(ids) => resources_by_id(call, collection, &ids).await?,
        None => page(call, collection).await?,
    };
    let items = resources
        .iter()
        .map(|resource| Value::Object(ResponseShape::new(&context, resource).under(items_schema)));
    let mut body = Map::new();
    if let Some(kind) = schema.kind() {
        body.insert("kind".into(), kind.into());
    }
    body.insert(items_field.to_owned(), items.collect());
    if let Some(position) = next {
        let token = URL_SAFE_NO_PAD.encode(position);
        body.insert("nextPageToken".into(), token.into());
    }
    add_required(call, schema, &mut body, call.now);
    Ok(Answer {
        changes,
        ..Answer::of(body)
    })
}

/// The resources in one page.
#[derive(Default)]
struct Page {
    resources: Vec<Resource>,
    /// Position after which the next page begins, if one may follow.
    next: Option<String>,
    /// Index rows that the list has found to be missing.
    changes: Vec<ResourceChange>,
}

/// The filter and the order of a list.
struct Selection<'a> {
    conditions: Vec<Condition>,
    index: Option<Index<'a>>,
}

impl<'a> Selection<'a> {
    fn of(call: &Call<'a>) -> Result<Self, Rejection> {
        let Some(settings) = call.api.settings().collection_of(call.method) else {
            return Ok(Self {
                conditions: Vec::new(),
                index: None,
            });
        };
        let given = |name| {
            let given = call
                .query
                .first(name)
                .filter(|text| !text.trim().is_empty());
            given.filter(|_| is_query_parameter(call.method, name))
        };
        let selection = Self::parse(settings, given("filter"), given("orderBy"));
        selection.map_err(|problem| Rejection::InvalidParameter {
            parameter: "filter".to_owned(),
            problem,
        })
    }

    /// Parses the parameters `filter` and `order`.
    ///
    /// # Errors
    /// A description of the problem in the filter.
    fn parse(
        settings: &'a CollectionSettings,
        filter: Option<&str>,
        order: Option<&str>,
    ) -> Result<Self, String> {
        let conditions = filter.map(|text| parse(text, &settings.filters));
        let conditions = conditions.transpose()?.unwrap_or_default();
        // The parameter's value is already checked against the orders in the description.
        let mut orders = settings.orders.iter();
        let order = order.and_then(|written| orders.find(|it| it.to_string() == written));
        Ok(Self {
            index: Index::for_list(settings, &conditions, order),
            conditions,
        })
    }

    fn holds(&self, resource: &Resource) -> bool {
        self.conditions.is_empty() || self.holds_for(resource, &fields_of(resource))
    }

    /// Like [`Selection::holds`], for a resource with fields that are already parsed.
    fn holds_for(&self, resource: &Resource, fields: &Map<String, Value>) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.all(|it| it.holds(Scalar::of(resource, fields, &it.field).as_ref()))
    }
}

async fn page(call: &Call<'_>, collection: &str) -> Result<Page, Rejection> {
    let selection = Selection::of(call)?;
    let token = page_token(call)?;
    let filling = Filling::of(call, &selection)?;
    let Some(index) = &selection.index else {
        return filling.by_id(collection, token).await;
    };
    let record = Record::read(call, collection).await?;
    match record.built(call, index) {
        Built::Everything => filling.by_index(index, collection, token).await,
        Built::Hindered | Built::Nothing | Built::UpTo(_) => {
            filling.and_build(index, collection, token, record).await
        }
    }
}

/// A page that is being filled up to its limits of count and bytes. It gets at least one resource
/// if one is found.
struct Filling<'a> {
    call: &'a Call<'a>,
    selection: &'a Selection<'a>,
    limit: usize,
    bytes: usize,
    /// Number of examined resources, including resources that do not belong to the list.
    examined: usize,
    /// Size in bytes of the examined resources.
    examined_bytes: usize,
    /// Size of the longest examined resource.
    longest: usize,
    page: Page,
    /// Position of the last examined resource.
    last: Option<String>,
}

impl<'a> Filling<'a> {
    fn of(call: &'a Call<'a>, selection: &'a Selection<'a>) -> Result<Self, Rejection> {
        Ok(Self {
            call,
            selection,
            limit: page_size(call)?,
            bytes: 0,
            examined: 0,
            examined_bytes: 0,
            longest: 0,
            page: Page::default(),
            last: None,
        })
    }

    /// Examines the resource at a position, which may not belong to the list. Returns whether the
    /// page is full. The resource is then not in the page.
    fn add(
        &mut self,
        position: &str,
        resource: Resource,
        belongs: bool,
    ) -> Result<bool, Rejection> {
        self.examined_bytes += resource.body.len();
        self.longest = self.longest.max(resource.body.len());
        if belongs {
            self.bytes += resource.body.len();
            let found = self.page.resources.len();
            // A resource longer than a page is shown alone, because the list could not go on
            // otherwise.
            if found > 0 && (found == self.limit || self.bytes > PAGE_BYTES) {
                return Ok(true);
            }
            self.call.reply_memory.hold_row(&resource.body)?;
            self.page.resources.push(resource);
        }
        Ok(self.pass(position))
    }

    /// Moves to a position. Returns whether the page ends there.
    fn pass(&mut self, position: &str) -> bool {
        position.clone_into(self.last.get_or_insert_default());
        self.examined += 1;
        self.examined == MAX_EXAMINED || self.examined_bytes >= MAX_EXAMINED_BYTES
    }

    /// Takes memory for examined resources, some of which may not belong to the list. Without
    /// conditions all of them belong to the list, and their memory is taken as part of the page.
    fn hold_searched<'r>(
        &self,
        batch: impl IntoIterator<Item = &'r Resource>,
    ) -> Result<Option<SearchedRows>, Rejection> {
        let is_search = !self.selection.conditions.is_empty();
        is_search.then(|| self.hold(batch)).transpose()
    }

    fn hold<'r>(
        &self,
        batch: impl IntoIterator<Item = &'r Resource>,
    ) -> Result<SearchedRows, Rejection> {
        let bytes = batch.into_iter().map(|it| it.body.len() as u64).sum();
        self.call.reply_memory.hold_while_searched(bytes)
    }

    /// Yields to other tasks before this resource is read, if many bytes were read since the last
    /// yield.
    async fn give_way(&self, resource: &Resource) {
        let before = self.examined_bytes / AT_ONCE;
        if (self.examined_bytes + resource.body.len()) / AT_ONCE > before {
            // The JSON is parsed on this thread, on which other requests wait.
            tokio::task::yield_now().await;
        }
    }

    /// Returns the page. Another page may follow.
    fn before_next(mut self) -> Page {
        self.page.next = self.last;
        self.page
    }

    /// Returns how many resources to read at once: one more than the page can still hold, so that
    /// it is known whether another page follows.
    fn batch(&self) -> usize {
        let wanted = BATCH.min(self.limit + 1 - self.page.resources.len());
        if self.selection.conditions.is_empty() {
            return wanted;
        }
        // Starts with few resources, and reads fewer the longer they are. A batch takes memory
        // before it is known which of its resources the page shows.
        let fitting = AT_ONCE / self.longest.max(1);
        let most = self.examined.max(FIRST_SEARCHED);
        wanted.min(fitting.clamp(1, most))
    }

    /// Fills the page in the order of the ids.
    async fn by_id(mut self, collection: &str, token: Option<String>) -> Result<Page, Rejection> {
        loop {
            let wanted = self.batch();
            let after = self.last.as_deref().or(token.as_deref());
            let batch = self
                .call
                .lookup
                .resources(collection, after, wanted)
                .await?;
            let more = batch.len() == wanted;
            let mut searched = self.hold_searched(&batch)?;
            for resource in batch {
                self.give_way(&resource).await;
                if let Some(searched) = &mut searched {
                    searched.release(resource.body.len() as u64);
                }
                let belongs = self.selection.holds(&resource);
                if self.add(&resource.id.clone(), resource, belongs)? {
                    return Ok(self.before_next());
                }
            }
            if !more {
                return Ok(self.page);
            }
        }
    }

    /// Fills the page in the order of an index.
    async fn by_index(
        mut self,
        index: &Index<'_>,
        collection: &str,
        token: Option<String>,
    ) -> Result<Page, Rejection> {
        let Range { after, end } = index.range(&self.selection.conditions);
        // Clients can write a token: it must not lead to a position before the range.
        let start = token.map_or(after.clone(), |token| token.max(after));
        let rows_of = index.collection(collection);
        loop {
            let wanted = self.batch();
            let after = self.last.as_deref().unwrap_or(&start);
            let rows = self
                .call
                .lookup
                .resources(&rows_of, Some(after), wanted)
                .await?;
            let more = rows.len() == wanted;
            let is_past = rows.last().is_some_and(|row| row.id >= end);
            let rows: Vec<_> = rows.into_iter().take_while(|row| row.id < end).collect();
            let resources = self.listed(&rows, collection).await?;
            let _searched = self.hold_searched(resources.iter().flatten())?;
            for (row, resource) in rows.iter().zip(resources) {
                // Otherwise the row is outdated, or the resource has changed since the row was
                // read.
                let read = resource.map(|it| (fields_of(&it), it));
                let is_end = match read.filter(|(fields, it)| index.row_id(it, fields) == row.id) {
                    Some((fields, resource)) => {
                        let belongs = self.selection.holds_for(&resource, &fields);
                        self.add(&row.id, resource, belongs)?
                    }
                    None => self.pass(&row.id),
                };
                if is_end {
                    return Ok(self.before_next());
                }
            }
            if !more || is_past {
                return Ok(self.page);
            }
        }
    }

    /// Returns the resource of each row of an index, or `None` if it is gone.
    async fn listed(
        &self,
        rows: &[Resource],
        collection: &str,
    ) -> Result<Vec<Option<Resource>>, Rejection> {
        let ids: Vec<_> = rows
            .iter()
            .map(|row| String::from_utf8_lossy(&row.body))
            .collect();
        let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
        self.call.lookup.fetch(collection, &ids).await
    }
}

/// Returns the resources with these ids, in this order. Ids without a resource are skipped.
async fn resources_by_id(
    call: &Call<'_>,
    collection: &str,
    ids: &[&str],
) -> Result<Page, Rejection> {
    let mut resources = Vec::new();
    for ids in ids.chunks(FETCHED_AT_ONCE) {
        for resource in call
            .lookup
            .fetch(collection, ids)
            .await?
            .into_iter()
            .flatten()
        {
            call.reply_memory.hold_row(&resource.body)?;
            resources.push(resource);
        }
    }
    Ok(Page {
        resources,
        ..Page::default()
    })
}

/// Returns the requested ids, which may be separated by commas or given in a parameter each.
fn ids<'a>(call: &Call<'a>) -> Result<Option<Vec<&'a str>>, Rejection> {
    if !is_query_parameter(call.method, "id") {
        return Ok(None);
    }
    let given = call.query.iter().filter(|(name, _)| *name == "id");
    let ids = given.flat_map(|(_, value)| value.split(','));
    let ids: Vec<_> = ids.filter(|id| !id.is_empty()).collect();
    if ids.len() > MAX_IDS {
        return Err(Rejection::InvalidParameter {
            parameter: "id".to_owned(),
            problem: format!("has more than {MAX_IDS} ids"),
        });
    }
    Ok((!ids.is_empty()).then_some(ids))
}

/// Returns the field of a list's response that holds the resources, with the resources' schema. It
/// is the array that is named like the collection, or otherwise the first array of objects.
fn items<'a>(context: &CallContext<'a>, schema: &'a Schema) -> Option<(&'a str, &'a Schema)> {
    let array = |(name, property): (&'a String, &'a Schema)| {
        property.items.as_ref()?;
        let element = context.element(property)?;
        let is_object = element.json_type.as_deref() == Some("object");
        is_object.then_some((name.as_str(), element))
    };
    let mut arrays = schema.properties.iter().filter_map(array);
    let named = arrays
        .clone()
        .find(|(name, _)| context.names_the_collection(name));
    named.or_else(|| arrays.next())
}

fn page_size(call: &Call<'_>) -> Result<usize, Rejection> {
    let given = ["maxResults", "pageSize", "max_results", "page_size"]
        .into_iter()
        .find_map(|name| call.query.first(name).map(|text| (name, text)));
    let Some((name, text)) = given else {
        return Ok(DEFAULT_PAGE);
    };
    match text.parse::<usize>() {
        // A larger number is no error in Google's APIs (AIP-158).
        Ok(size) if size > 0 => Ok(size.min(MAX_PAGE)),
        _ => Err(Rejection::InvalidParameter {
            parameter: name.to_owned(),
            problem: "must be a positive number".to_owned(),
        }),
    }
}

fn page_token(call: &Call<'_>) -> Result<Option<String>, Rejection> {
    let Some(token) = call
        .query
        .first("pageToken")
        .filter(|token| !token.is_empty())
    else {
        return Ok(None);
    };
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    let id = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    id.map(Some).ok_or_else(|| Rejection::InvalidParameter {
        parameter: "pageToken".to_owned(),
        problem: "is not a token of this list".to_owned(),
    })
}
