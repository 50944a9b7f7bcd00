//! Lists by an index that may miss rows.
//!
//! Each such call adds missing rows. If the collection is small, its page is made of all resources,
//! without the index. Otherwise the page is empty, and the client asks for the next one until the
//! index is complete.

use windlass_store::{Resource, ResourceChange};

use super::{AT_ONCE, BATCH, BEFORE_ALL, Filling, MAX_EXAMINED, MAX_EXAMINED_BYTES, Page};
use crate::default_handler::fields::fields_of;
use crate::default_handler::index::{Index, Range, missing};
use crate::default_handler::index_record::{Built, Record};
use crate::handler::{Rejection, SearchedRows};

/// Resources in the order of their ids.
struct Examined {
    /// All resources, if the collection is small. Empty otherwise.
    all: Vec<Resource>,
    /// The memory of `all`.
    held: Option<SearchedRows>,
    /// The insertions of missing rows.
    changes: Vec<ResourceChange>,
    /// The id of the last examined resource. `None` after all resources.
    last: Option<String>,
    is_any: bool,
}

impl Filling<'_> {
    /// Fills the page with the resources that the index would show, if there are few, and adds
    /// missing rows to the index.
    pub(super) async fn and_build(
        mut self,
        index: &Index<'_>,
        collection: &str,
        token: Option<String>,
        record: Record,
    ) -> Result<Page, Rejection> {
        let built = record.built(self.call, index);
        let start = match &built {
            Built::UpTo(last) => last.clone(),
            Built::Hindered | Built::Nothing | Built::Everything => String::new(),
        };
        let rows_of = matches!(built, Built::UpTo(_)).then_some(index);
        let Examined {
            all,
            mut changes,
            last,
            is_any,
            held: _held,
        } = self.examine(collection, &start, rows_of).await?;
        if !is_any && start.is_empty() {
            // There is nothing to list and nothing to record.
            return Ok(self.page);
        }
        match built {
            Built::UpTo(_) => changes.push(record.with(self.call, index, last)),
            Built::Hindered if !all.is_empty() => {}
            Built::Hindered | Built::Nothing | Built::Everything => {
                changes.push(record.with(self.call, index, Some(String::new())));
            }
        }
        self.page.changes = changes;
        if all.is_empty() {
            self.page.next = Some(token.unwrap_or_else(|| BEFORE_ALL.to_owned()));
            return Ok(self.page);
        }
        self.sorted(index, all, token)
    }

    /// Reads resources after an id, as far as one call may. Finds the missing rows of `rows_of`.
    async fn examine(
        &self,
        collection: &str,
        start: &str,
        rows_of: Option<&Index<'_>>,
    ) -> Result<Examined, Rejection> {
        let (mut count, mut bytes) = (0, 0);
        let mut examined = Examined {
            all: Vec::new(),
            held: None,
            changes: Vec::new(),
            last: None,
            is_any: false,
        };
        let mut is_small = start.is_empty();
        let mut after = start.to_owned();
        while count < MAX_EXAMINED && bytes < MAX_EXAMINED_BYTES {
            let after_id = (!after.is_empty()).then_some(after.as_str());
            let lookup = &self.call.lookup;
            let batch = lookup.resources(collection, after_id, BATCH).await?;
            let is_end = batch.len() < BATCH;
            let _searched = self.hold(&batch)?;
            if let Some(index) = rows_of {
                examined
                    .changes
                    .extend(missing(self.call, index, &batch).await?);
            }
            count += batch.len();
            bytes += batch.iter().map(|it| it.body.len()).sum::<usize>();
            if let Some(last) = batch.last() {
                last.id.clone_into(&mut after);
                examined.is_any = true;
            }
            is_small &= bytes <= AT_ONCE;
            if is_small {
                examined.all.extend(batch);
                examined.held = Some(self.hold(&examined.all)?);
            }
            if is_end {
                if !is_small {
                    examined.all.clear();
                }
                return Ok(examined);
            }
        }
        examined.all.clear();
        examined.last = Some(after);
        Ok(examined)
    }

    /// Fills the page with those of these resources that belong to it, in the order of the index.
    fn sorted(
        mut self,
        index: &Index<'_>,
        all: Vec<Resource>,
        token: Option<String>,
    ) -> Result<Page, Rejection> {
        let Range { after, end } = index.range(&self.selection.conditions);
        let start = token.map_or(after.clone(), |token| token.max(after));
        let mut rows = Vec::new();
        for resource in all {
            let fields = fields_of(&resource);
            let row = index.row_id(&resource, &fields);
            if row > start && row < end && self.selection.holds_for(&resource, &fields) {
                rows.push((row, resource));
            }
        }
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (row, resource) in rows {
            if self.add(&row, resource, true)? {
                return Ok(self.before_next());
            }
        }
        Ok(self.page)
    }
}
