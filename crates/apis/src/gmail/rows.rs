//! What a call has read and wants changed: a notebook between a handler and the ledger.
//!
//! A call reads rows, changes some of them, reads its own changes, and in the end everything becomes
//! one list of changes, each resting on the version that was read.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_server::handler::{Rejection, StoreReader, first_version};
use windlass_store::{Media, Resource, ResourceChange, Timestamp};

/// Rows by collection and id, as the call sees them.
#[derive(Debug)]
pub(super) struct Rows<'a> {
    lookup: StoreReader<'a>,
    now: Timestamp,
    held: BTreeMap<(String, String), Row>,
}

#[derive(Debug, Default)]
struct Row {
    /// As the ledger has it; `None` when it has none.
    found: Option<Resource>,
    /// What the call has made of it; `None` when it has only looked.
    made: Option<Made>,
}

#[derive(Debug)]
enum Made {
    Written { body: Bytes, media: Option<Media> },
    Deleted,
}

impl Row {
    fn body(&self) -> Option<&[u8]> {
        match (&self.made, &self.found) {
            (Some(Made::Written { body, .. }), _) => Some(body),
            (Some(Made::Deleted), _) => None,
            (None, found) => found.as_ref().map(|found| &found.body[..]),
        }
    }

    fn media(&self) -> Option<&Media> {
        match (&self.made, &self.found) {
            (Some(Made::Written { media, .. }), _) => media.as_ref(),
            (Some(Made::Deleted), _) => None,
            (None, found) => found.as_ref()?.media.as_ref(),
        }
    }
}

impl<'a> Rows<'a> {
    pub(super) fn new(lookup: StoreReader<'a>, now: Timestamp) -> Self {
        Self {
            lookup,
            now,
            held: BTreeMap::new(),
        }
    }

    pub(super) fn lookup(&self) -> StoreReader<'a> {
        self.lookup
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// The row, if there is one. One that cannot be read, which no version of this code has written,
    /// counts as none.
    pub(super) async fn read<T: DeserializeOwned>(
        &mut self,
        collection: &str,
        id: &str,
    ) -> Result<Option<T>, Rejection> {
        let row = self.row(collection, id).await?;
        Ok(row.body().and_then(|body| parse(collection, id, body)))
    }

    /// The row as the ledger has it, not kept in mind: for calls that look at many.
    pub(super) async fn peek<T: DeserializeOwned>(
        &self,
        collection: &str,
        id: &str,
    ) -> Result<Option<T>, Rejection> {
        let found = self.lookup.resource(collection, id).await?;
        Ok(found.and_then(|found| parse(collection, id, &found.body)))
    }

    /// The media that the row describes.
    pub(super) async fn media(
        &mut self,
        collection: &str,
        id: &str,
    ) -> Result<Option<Media>, Rejection> {
        Ok(self.row(collection, id).await?.media().cloned())
    }

    /// Up to `limit` rows as the ledger has them, in the order of their ids after `after`.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, T)>, Rejection> {
        let found = self.lookup.resources(collection, after, limit).await?;
        let rows = found.into_iter().filter_map(|resource| {
            let row = parse(collection, &resource.id, &resource.body)?;
            Some((resource.id, row))
        });
        Ok(rows.collect())
    }

    /// Writes a row; its media stays what it was. A row that was not read is taken to be new.
    pub(super) fn write<T: Serialize>(&mut self, collection: &str, id: &str, row: &T) {
        let row_of = self.entry(collection, id);
        let media = row_of.media().cloned();
        row_of.made = Some(Made::Written {
            body: to_bytes(row),
            media,
        });
    }

    /// Writes a row with what it describes.
    pub(super) fn write_with<T: Serialize>(
        &mut self,
        collection: &str,
        id: &str,
        row: &T,
        media: Option<Media>,
    ) {
        self.entry(collection, id).made = Some(Made::Written {
            body: to_bytes(row),
            media,
        });
    }

    /// Deletes a row that was read.
    pub(super) fn delete(&mut self, collection: &str, id: &str) {
        self.entry(collection, id).made = Some(Made::Deleted);
    }

    /// What is to be changed. Deletes come last, so that media that goes from one row to another always
    /// has an owner.
    pub(super) fn into_changes(self) -> Vec<ResourceChange> {
        let now = self.now;
        let rows = self.held.into_iter();
        let mut changes: Vec<_> = rows
            .filter_map(|(key, row)| change(key, row, now))
            .collect();
        changes.sort_by_key(|change| matches!(change, ResourceChange::Delete { .. }));
        changes
    }

    fn entry(&mut self, collection: &str, id: &str) -> &mut Row {
        let key = (collection.to_owned(), id.to_owned());
        self.held.entry(key).or_default()
    }

    async fn row(&mut self, collection: &str, id: &str) -> Result<&Row, Rejection> {
        let key = (collection.to_owned(), id.to_owned());
        if !self.held.contains_key(&key) {
            let found = self.lookup.resource(collection, id).await?;
            self.held.insert(key, Row { found, made: None });
        }
        Ok(self.entry(collection, id))
    }
}

fn change(key: (String, String), row: Row, now: Timestamp) -> Option<ResourceChange> {
    let (collection, id) = key;
    match (row.made?, row.found) {
        (Made::Deleted, None) => None,
        (Made::Deleted, Some(found)) => Some(ResourceChange::Delete {
            collection,
            id,
            expected: found.version,
        }),
        (Made::Written { body, media }, None) => Some(ResourceChange::Insert(Resource {
            collection,
            id,
            version: first_version(),
            body,
            media,
            created: now,
            updated: now,
        })),
        (Made::Written { body, media }, Some(found)) => Some(ResourceChange::Replace {
            expected: found.version,
            resource: Resource {
                version: found.version + 1,
                body,
                media,
                updated: now,
                ..found
            },
        }),
    }
}

fn parse<T: DeserializeOwned>(collection: &str, id: &str, body: &[u8]) -> Option<T> {
    let parsed = serde_json::from_slice(body);
    parsed
        .inspect_err(|error| tracing::error!(collection, id, %error, "a row cannot be read"))
        .ok()
}

fn to_bytes<T: Serialize>(row: &T) -> Bytes {
    serde_json::to_vec(row).expect("rows can be written").into()
}
