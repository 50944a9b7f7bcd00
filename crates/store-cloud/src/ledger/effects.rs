//! What a change does besides writing its own rows: references to media, garbage, and usage.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use windlass_store::{MediaId, MediaLocation, MediaRef, OwnerQuotas, Retention, StoredName, Usage};

use crate::failure::{Failure, Refusal};
use crate::rows::{self, Columns, Unreadable};
use crate::sql;
use crate::transaction::{Statement, Transaction};

/// The order of locks: that of the rows of `media`.
type MediaKey = (MediaId, i16);

fn key_of(media: MediaRef) -> MediaKey {
    (media.id, rows::sql_location(media.location))
}

/// The references that a change adds and removes, and the media that comes with it.
#[derive(Debug, Default)]
pub(super) struct References {
    by_media: BTreeMap<MediaKey, Counted>,
    /// Media that a resource references after the change, and that does not come with it.
    expected: BTreeSet<MediaKey>,
}

/// The references to one media.
#[derive(Debug, Default)]
struct Counted {
    /// The handle of sealed media. Empty if its id is enough, or if the change does not say it.
    handle: Bytes,
    /// Number of added references, less the removed ones.
    net: i64,
    /// Whether a row that the change has locked has referenced the media.
    is_removed: bool,
}

impl Counted {
    /// Whether it can be said without the count that a reference is left: a locked row has had one,
    /// and another row has it now.
    fn passes_on(&self) -> bool {
        self.is_removed && self.net == 0
    }
}

impl References {
    /// Media comes with the change. It is released at the end if nothing references it.
    pub(super) fn arrives(&mut self, media: MediaRef) {
        self.by_media.entry(key_of(media)).or_default();
    }

    /// The change says what names media in the vault.
    pub(super) fn named(&mut self, name: &StoredName) {
        let key = (name.media, rows::sql_location(MediaLocation::Vault));
        self.by_media.entry(key).or_default().handle = name.handle.clone();
    }

    /// A row must have referenced the media before the change.
    pub(super) fn expected(&mut self, media: MediaRef) {
        self.by_media.entry(key_of(media)).or_default();
        self.expected.insert(key_of(media));
    }

    pub(super) fn added(&mut self, media: Option<MediaRef>) {
        if let Some(media) = media {
            self.by_media.entry(key_of(media)).or_default().net += 1;
        }
    }

    pub(super) fn removed(&mut self, media: Option<MediaRef>) {
        if let Some(media) = media {
            let counted = self.by_media.entry(key_of(media)).or_default();
            counted.net -= 1;
            counted.is_removed = true;
        }
    }

    /// Returns the statement that locks the counts, unless they need not be known.
    fn lock(&self) -> Option<Statement<'static>> {
        let is_needed = |(key, counted): &(&MediaKey, &Counted)| {
            self.expected.contains(key) || counted.net <= 0 && !counted.passes_on()
        };
        let needed = self.by_media.iter().filter(is_needed);
        let (ids, places) = columns(needed.map(|(key, _)| key));
        if ids.is_empty() {
            return None;
        }
        Some(
            Statement::new(sql::LOCK_MEDIA)
                .with(ids, Type::BYTEA_ARRAY)
                .with(places, Type::INT2_ARRAY),
        )
    }
}

fn columns<'a>(keys: impl Iterator<Item = &'a MediaKey>) -> (Vec<Vec<u8>>, Vec<i16>) {
    keys.map(|(id, place)| (id.as_bytes().to_vec(), *place))
        .unzip()
}

/// The counts that were locked.
#[derive(Debug, Default)]
struct Counts(BTreeMap<MediaKey, (i64, Bytes)>);

impl Counts {
    fn read(rows: &[Row]) -> Result<Self, Unreadable> {
        let counts = rows::all(rows, |row| {
            let key = (
                MediaId::from_bytes(row.array("id")?),
                row.value::<i16>("place")?,
            );
            Ok((key, (row.value("refs")?, row.bytes("handle")?)))
        });
        Ok(Self(counts?.into_iter().collect()))
    }

    fn references(&self, key: &MediaKey) -> i64 {
        self.0.get(key).map_or(0, |(refs, _)| *refs)
    }
}

/// How the usage of each owner changes.
#[derive(Debug, Default)]
pub(super) struct UsageChanges(BTreeMap<String, (i64, i64)>);

impl UsageChanges {
    /// Adds to the number of sessions and to the KiB of an owner.
    pub(super) fn add(&mut self, owner: Option<&String>, sessions: i64, kib: i64) {
        if let Some(owner) = owner
            && (sessions, kib) != (0, 0)
        {
            let change = self.0.entry(owner.clone()).or_default();
            change.0 += sessions;
            change.1 += kib;
        }
    }

    fn of(&self, owner: &str) -> (i64, i64) {
        self.0.get(owner).copied().unwrap_or_default()
    }

    /// Returns the statement that writes the changes, if there are any.
    pub(super) fn write(&self, slot: i16) -> Option<Statement<'static>> {
        let changes = self.0.iter().filter(|(_, change)| **change != (0, 0));
        let (mut owners, mut sessions, mut kib) = (Vec::new(), Vec::new(), Vec::new());
        for (owner, change) in changes {
            owners.push(owner.clone().into_bytes());
            sessions.push(change.0);
            kib.push(change.1);
        }
        (!owners.is_empty()).then(|| {
            Statement::new(sql::ADD_USAGE)
                .with(owners, Type::BYTEA_ARRAY)
                .with(sessions, Type::INT8_ARRAY)
                .with(kib, Type::INT8_ARRAY)
                .with(slot, Type::INT2)
        })
    }
}

/// Reads the usage of owners.
pub(super) fn read_usage(rows: &[Row]) -> Result<BTreeMap<String, Usage>, Unreadable> {
    let of_owners = rows::all(rows, |row| Ok((row.text("owner")?, usage(row)?)));
    Ok(of_owners?.into_iter().collect())
}

/// Reads one usage.
pub(super) fn usage(row: Columns<'_>) -> Result<Usage, Unreadable> {
    let (sessions, kib): (i64, i64) = (row.value("sessions")?, row.value("kib")?);
    Ok(Usage {
        sessions: u64::try_from(sessions).unwrap_or(0),
        bytes: u64::try_from(kib).unwrap_or(0).saturating_mul(1024),
    })
}

/// Returns a usage after a change.
pub(super) fn changed(usage: Usage, (sessions, kib): (i64, i64)) -> Usage {
    let bytes = kib.saturating_mul(1024);
    Usage {
        sessions: usage.sessions.saturating_add_signed(sessions),
        bytes: usage.bytes.saturating_add_signed(bytes),
    }
}

/// Locks the decision about the quotas of owners, and reads their usage.
pub(super) fn lock_usage<'a>(owners: impl Iterator<Item = &'a str>) -> [Statement<'static>; 2] {
    let owners: BTreeSet<_> = owners.collect();
    let owners: Vec<_> = owners
        .into_iter()
        .map(|owner| owner.as_bytes().to_vec())
        .collect();
    [sql::LOCK_USAGE, sql::USAGE_OF_OWNERS]
        .map(|sql| Statement::new(sql).with(owners.clone(), Type::BYTEA_ARRAY))
}

/// The effects of a change.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) references: References,
    pub(super) usage: UsageChanges,
}

/// What a change needs to know to settle its effects.
#[derive(Debug)]
pub(super) struct Settled {
    effects: Effects,
    counts: Counts,
}

impl Effects {
    /// As [`Effects::settle`], without quotas.
    pub(super) async fn settle_unlimited(
        self,
        transaction: &mut Transaction,
    ) -> Result<Settled, Failure> {
        let (limited, quotas) = (BTreeSet::new(), OwnerQuotas::default());
        self.settle(transaction, &limited, &quotas).await
    }

    /// Locks what the effects depend on, and refuses a change that names media which nothing
    /// references, or that goes beyond the quota of one of these owners.
    pub(super) async fn settle(
        self,
        transaction: &mut Transaction,
        limited: &BTreeSet<&str>,
        quotas: &OwnerQuotas,
    ) -> Result<Settled, Failure> {
        let mut statements = Vec::new();
        if !limited.is_empty() {
            statements.extend(lock_usage(limited.iter().copied()));
        }
        let lock = self.references.lock();
        let locks_media = lock.is_some();
        statements.extend(lock);
        let rows = if statements.is_empty() {
            Vec::new()
        } else {
            transaction.read(&statements).await?
        };
        let counts = match rows.last() {
            Some(rows) if locks_media => Counts::read(rows)?,
            _ => Counts::default(),
        };
        let is_referenced = |key: &MediaKey| counts.references(key) > 0;
        if !self.references.expected.iter().all(is_referenced) {
            return Err(Refusal::Conflict.into());
        }
        if !limited.is_empty() {
            // The answer to the second statement of `lock_usage`.
            let usage = rows
                .get(1)
                .map_or(Ok(BTreeMap::new()), |it| read_usage(it))?;
            for owner in limited {
                let before = usage.get(*owner).copied().unwrap_or_default();
                let after = changed(before, self.usage.of(owner));
                if !quotas.of(owner).admits(before, after) {
                    return Err(Refusal::OverQuota.into());
                }
            }
        }
        Ok(Settled {
            effects: self,
            counts,
        })
    }
}

impl Settled {
    /// Returns the statements that write the effects. `slot` is that of the replica.
    pub(super) fn write(&self, retention: Retention, slot: i16) -> Vec<Statement<'static>> {
        let mut counted = Vec::new();
        let mut uncounted = Vec::new();
        let mut released = Released::default();
        for (key, change) in &self.effects.references.by_media {
            let before = self.counts.references(key);
            let is_left = change.passes_on() || before + change.net > 0;
            if is_left && (change.net != 0 || !change.handle.is_empty()) {
                counted.push((key, change));
            }
            if !is_left {
                let written = self.counts.0.get(key).map(|(_, handle)| handle);
                if written.is_some() {
                    uncounted.push(key);
                }
                let handle = if change.handle.is_empty() {
                    written.cloned().unwrap_or_default()
                } else {
                    change.handle.clone()
                };
                released.add(*key, handle);
            }
        }
        let mut statements = Vec::new();
        let (known, new): (Vec<_>, Vec<_>) = counted
            .into_iter()
            .partition(|(key, it)| it.net <= 0 || self.counts.0.contains_key(key));
        for (sql, counted) in [(sql::CHANGE_REFERENCES, known), (sql::ADD_REFERENCES, new)] {
            if counted.is_empty() {
                continue;
            }
            let (ids, places) = columns(counted.iter().map(|(key, _)| *key));
            let net: Vec<_> = counted.iter().map(|(_, change)| change.net).collect();
            let handles = counted.iter().map(|(_, change)| change.handle.to_vec());
            let handles: Vec<_> = handles.collect();
            statements.push(
                Statement::new(sql)
                    .with(ids, Type::BYTEA_ARRAY)
                    .with(places, Type::INT2_ARRAY)
                    .with(net, Type::INT8_ARRAY)
                    .with(handles, Type::BYTEA_ARRAY),
            );
        }
        if !uncounted.is_empty() {
            let (ids, places) = columns(uncounted.into_iter());
            statements.push(
                Statement::new(sql::DELETE_COUNTS)
                    .with(ids, Type::BYTEA_ARRAY)
                    .with(places, Type::INT2_ARRAY),
            );
        }
        statements.extend(released.write(retention));
        statements.extend(self.effects.usage.write(slot));
        statements
    }
}

/// Media without a reference.
#[derive(Debug, Default)]
struct Released {
    small: Vec<Vec<u8>>,
    unsealed: Vec<Vec<u8>>,
    sealed: (Vec<Vec<u8>>, Vec<Vec<u8>>),
}

impl Released {
    fn add(&mut self, (id, place): MediaKey, handle: Bytes) {
        let id = id.as_bytes().to_vec();
        if place == rows::sql_location(MediaLocation::Ledger) {
            self.small.push(id);
        } else if handle.is_empty() {
            self.unsealed.push(id);
        } else {
            self.sealed.0.push(id);
            self.sealed.1.push(handle.into());
        }
    }

    fn write(self, retention: Retention) -> Vec<Statement<'static>> {
        let keep = retention.keep.as_secs_f64();
        let mut statements = Vec::new();
        if !self.small.is_empty() {
            let deletion = Statement::new(sql::DELETE_SMALL_MEDIA);
            statements.push(deletion.with(self.small, Type::BYTEA_ARRAY));
        }
        if !self.unsealed.is_empty() {
            statements.push(
                Statement::new(sql::RELEASE_UNSEALED)
                    .with(self.unsealed, Type::BYTEA_ARRAY)
                    .with(keep, Type::FLOAT8),
            );
        }
        if !self.sealed.0.is_empty() {
            statements.push(
                Statement::new(sql::RELEASE_SEALED)
                    .with(self.sealed.0, Type::BYTEA_ARRAY)
                    .with(self.sealed.1, Type::BYTEA_ARRAY)
                    .with(keep, Type::FLOAT8),
            );
        }
        statements
    }
}
