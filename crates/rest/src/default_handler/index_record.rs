//! Which indexes of a collection have all their rows.
//!
//! One row of the ledger says it for each collection: its *record*. It names the indexes for which
//! every write into the collection makes rows, and for how many resources the rows are there.
//!
//! Servers with different descriptions may write into a collection at the same time. Each write
//! relies on the record as it was read, and conflicts with a change of it. A write under a
//! description without an index of the record takes the index out of the record, in its own change
//! set. A list puts an index into the record, and adds the missing rows in *later* calls: each write
//! that is committed by then either makes rows for the index or has taken it out. So a record never
//! speaks of an index that misses a row, whichever servers run, and even if one goes on that was
//! stopped for long. No index is put back for [`TAKEN_OUT`] after a write took it out. Otherwise
//! servers with different descriptions would change the record in turn.
//!
//! If only one process can have the ledger open, and it has one description of the API, nobody
//! else writes. A write then reads the record once for each collection.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_discovery::CollectionSettings;
use windlass_store::{Expected, Resource, ResourceChange, Timestamp};

use super::index::{Index, STATE};
use crate::handler::{Call, Rejection, first_version};

/// Id of the record of a collection. The records of earlier releases, one for each index, have the
/// index's name, which has a colon. They are not read any more.
const RECORD: &str = "indexes";

/// How long lists leave an index out of the record after a write has taken it out.
const TAKEN_OUT: Duration = Duration::from_secs(60);

/// Number of rows that are read at once when all records of a collection are deleted.
const RECORDS: usize = 100;

/// The record of a collection.
pub(super) struct Record {
    /// The collection of the row.
    collection: String,
    /// The row, if there is one.
    row: Option<Resource>,
    indexes: Indexes,
}

/// The content of a record.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Indexes {
    /// The indexes for which each write makes rows, by name. The rows of resources up to this id
    /// are there, and of resources that were written since the index is named here. `None` stands
    /// for all resources.
    kept: BTreeMap<String, Option<String>>,
    /// When a write took an index out, in milliseconds, by the index's name.
    taken_out: BTreeMap<String, u64>,
}

/// For how many resources of a collection an index has rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Built {
    /// It is unknown which rows are there, and another server has just written a resource without
    /// its row.
    Hindered,
    /// It is unknown which rows are there.
    Nothing,
    /// The rows of resources up to this id, and of resources written since the index was put into
    /// the record.
    UpTo(String),
    /// The rows of all resources.
    Everything,
}

/// What a write has to do about the record of its collection.
#[derive(Default)]
pub(super) struct ForWrite {
    /// The change of the record.
    pub(super) change: Vec<ResourceChange>,
    /// The record, if it is not changed and another server may change or make it.
    pub(super) expect: Option<Expected>,
}

impl Record {
    /// Reads the record of a collection.
    pub(super) async fn read(call: &Call<'_>, collection: &str) -> Result<Self, Rejection> {
        let collection = format!("{STATE}/{collection}");
        let row = call.lookup.resource(&collection, RECORD).await?;
        // A record that cannot be read speaks of no index.
        let content = row
            .as_ref()
            .and_then(|row| serde_json::from_slice(&row.body).ok());
        Ok(Self {
            collection,
            row,
            indexes: content.unwrap_or_default(),
        })
    }

    /// Returns for how many resources an index has rows.
    pub(super) fn built(&self, call: &Call<'_>, index: &Index<'_>) -> Built {
        let name = index.name();
        match self.indexes.kept.get(&name) {
            Some(None) => Built::Everything,
            Some(Some(last)) => Built::UpTo(last.clone()),
            None if call.lookup.writes_alone(call.api.name()) => Built::Nothing,
            None => match self.indexes.taken_out.get(&name) {
                Some(at) if is_recent(*at, call.now) => Built::Hindered,
                Some(_) | None => Built::Nothing,
            },
        }
    }

    /// Returns the change that records the rows of an index up to the resource `last`, or all rows.
    /// An index that the record does not name is put into it with `last` before all resources.
    pub(super) fn with(
        mut self,
        call: &Call<'_>,
        index: &Index<'_>,
        last: Option<String>,
    ) -> ResourceChange {
        let name = index.name();
        self.indexes.taken_out.remove(&name);
        self.indexes.kept.insert(name, last);
        self.written(call)
    }

    fn written(self, call: &Call<'_>) -> ResourceChange {
        let body = serde_json::to_vec(&self.indexes).expect("names and numbers are JSON");
        let expected = self.row.map(|row| row.version);
        let resource = Resource {
            collection: self.collection,
            id: RECORD.to_owned(),
            version: expected.map_or_else(first_version, |version| version + 1),
            body: body.into(),
            media: None,
            created: call.now,
            updated: call.now,
            due: None,
            claimed_by: None,
            owner: None,
        };
        match expected {
            None => ResourceChange::Insert(resource),
            Some(expected) => ResourceChange::Replace { resource, expected },
        }
    }

    fn expected(self) -> Expected {
        Expected {
            version: self.row.map(|row| row.version),
            collection: self.collection,
            id: RECORD.to_owned(),
        }
    }
}

fn is_recent(millis: u64, now: Timestamp) -> bool {
    let age = now.as_millis().saturating_sub(millis);
    u128::from(age) < TAKEN_OUT.as_millis()
}

/// Returns what a write of a resource has to do about the record, besides making rows for the
/// indexes of its own description.
pub(super) async fn for_write(
    call: &Call<'_>,
    settings: Option<&CollectionSettings>,
    collection: &str,
) -> Result<ForWrite, Rejection> {
    let is_alone = call.lookup.writes_alone(call.api.name());
    if is_alone && call.lookup.is_settled(collection) {
        return Ok(ForWrite::default());
    }
    let indexes = settings.map(Index::of).unwrap_or_default();
    let own: Vec<_> = indexes.iter().map(Index::name).collect();
    let mut record = Record::read(call, collection).await?;
    let before = record.indexes.kept.len();
    record.indexes.kept.retain(|name, _| {
        let is_own = own.contains(name);
        if !is_own {
            let now = call.now.as_millis();
            record.indexes.taken_out.insert(name.clone(), now);
        }
        is_own
    });
    if record.indexes.kept.len() < before {
        // Times that say nothing any more are forgotten.
        let taken_out = &mut record.indexes.taken_out;
        taken_out.retain(|_, at| is_recent(*at, call.now));
        return Ok(ForWrite {
            change: vec![record.written(call)],
            expect: None,
        });
    }
    if record.row.is_some() || own.is_empty() {
        // A record that has just been written is certain only once it is committed.
        call.lookup.settle(collection);
        return Ok(ForWrite {
            change: Vec::new(),
            expect: (!is_alone).then(|| record.expected()),
        });
    }
    let mut change = forget(call, collection).await?;
    // Another server may be about to write the first resource.
    let is_first = is_alone && call.lookup.resources(collection, None, 1).await?.is_empty();
    let last = (!is_first).then(String::new);
    record.indexes.kept = own.into_iter().map(|name| (name, last.clone())).collect();
    change.push(record.written(call));
    Ok(ForWrite {
        change,
        expect: None,
    })
}

/// Returns the deletions of all records of a collection, including those of earlier releases.
pub(super) async fn forget(
    call: &Call<'_>,
    collection: &str,
) -> Result<Vec<ResourceChange>, Rejection> {
    let state = format!("{STATE}/{collection}");
    let mut records: Vec<Resource> = Vec::new();
    loop {
        let after = records.last().map(|record| record.id.as_str());
        let batch = call.lookup.resources(&state, after, RECORDS).await?;
        let is_end = batch.len() < RECORDS;
        records.extend(batch);
        if is_end {
            let records = records.into_iter();
            return Ok(records.map(deletion).collect());
        }
    }
}

fn deletion(record: Resource) -> ResourceChange {
    ResourceChange::Delete {
        collection: record.collection,
        id: record.id,
        expected: record.version,
    }
}
