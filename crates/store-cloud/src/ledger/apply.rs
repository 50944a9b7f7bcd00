//! Change sets.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tokio_postgres::types::Type;
use windlass_store::{
    ChangeSet, FinishSession, MAX_KEY_LEN, MediaRef, OwnerQuotas, Progress, Resource,
    ResourceChange, Retention, SessionState,
};

use super::commits::put_small_media;
use super::effects::{Effects, Settled};
use super::resources::ResourceArrays;
use super::tips::{self, Tip, Written};
use crate::connection::Home;
use crate::failure::{Failure, Refusal};
use crate::rows::{self, Columns, Unreadable};
use crate::sql;
use crate::transaction::{Change, Statement, Transaction};

/// A change set.
#[derive(Debug)]
pub(super) struct Apply<'a> {
    pub(super) changes: &'a ChangeSet,
    pub(super) quotas: &'a OwnerQuotas,
    pub(super) home: Home,
    pub(super) retention: Retention,
}

/// The end of the year 9999, in milliseconds. Times that the database cannot add are later.
const LAST_TIME: i64 = 253_402_300_799_999;

/// Collection and id of a resource. They are locked in the order of their bytes.
type Key<'a> = (&'a str, &'a str);

/// All changes of one resource.
#[derive(Debug, Clone, Copy)]
struct Folded<'a> {
    /// The version that the row must have before the first change.
    before: Option<u64>,
    /// The resource after the last change.
    after: Option<&'a Resource>,
}

impl Change for Apply<'_> {
    type Made = ();

    async fn make(&self, transaction: &mut Transaction) -> Result<(), Failure> {
        let changes = self.changes;
        if changes.has_too_much_media() {
            return Err(Refusal::TooMuchMedia.into());
        }
        if changes.has_too_long_key() {
            return Err(Refusal::KeyTooLong.into());
        }
        let folded = fold(&changes.resources);
        let (tip, found) = self.lock(transaction, folded.as_ref().ok()).await?;
        let folded = folded?;
        self.check_versions(&folded, &found)?;
        let effects = self.effects(&folded, &found, tip.as_ref());
        let owners = changes.resources.iter().filter_map(ResourceChange::owner);
        let limited = owners.filter(|owner| !self.quotas.of(owner).is_unlimited());
        let limited: BTreeSet<_> = limited.collect();
        let settled = effects.settle(transaction, &limited, self.quotas).await?;
        let statements = self.write(&folded, &found, tip.as_ref(), &settled);
        transaction.commit(&statements).await?;
        Ok(())
    }
}

/// The row of a resource before the changes.
#[derive(Debug)]
struct Found {
    version: u64,
    media: Option<MediaRef>,
    owner: Option<String>,
    kib: i64,
}

type FoundRows = HashMap<(String, String), Found>;

impl<'a> Apply<'a> {
    /// Locks the session that is finished and the rows that are changed or expected.
    async fn lock(
        &self,
        transaction: &mut Transaction,
        folded: Option<&BTreeMap<Key<'a>, Folded<'a>>>,
    ) -> Result<(Option<Tip>, FoundRows), Failure> {
        let finish = self.changes.finish.as_ref();
        let mut statements: Vec<_> = finish
            .map(|finish| tips::lock([finish.id]))
            .into_iter()
            .collect();
        statements.extend(lock_resources(self.changes, folded));
        if statements.is_empty() {
            return Ok((None, FoundRows::new()));
        }
        let found = transaction.read(&statements).await?;
        let (of_session, of_resources) = found.split_at(usize::from(finish.is_some()));
        let tip = match (finish, of_session) {
            (Some(finish), [found]) => {
                let tip = Tip::leased(found, finish.lease)?;
                if finish.progress.offset < tip.offset {
                    return Err(Refusal::Fenced.into());
                }
                Some(tip)
            }
            _ => None,
        };
        let mut rows = FoundRows::new();
        for found in of_resources {
            rows.extend(rows::all(found, read_found)?);
        }
        Ok((tip, rows))
    }

    fn check_versions(
        &self,
        folded: &BTreeMap<Key<'a>, Folded<'a>>,
        found: &FoundRows,
    ) -> Result<(), Refusal> {
        let version = |(collection, id): Key<'_>| {
            let key = (collection.to_owned(), id.to_owned());
            found.get(&key).map(|row| row.version)
        };
        let mut expected = self.changes.expect.iter();
        let is_expected = expected.all(|it| version((&it.collection, &it.id)) == it.version);
        let mut changed = folded.iter();
        if is_expected && changed.all(|(key, folded)| version(*key) == folded.before) {
            Ok(())
        } else {
            Err(Refusal::Conflict)
        }
    }

    fn effects(
        &self,
        folded: &BTreeMap<Key<'a>, Folded<'a>>,
        found: &FoundRows,
        tip: Option<&Tip>,
    ) -> Effects {
        let changes = self.changes;
        let mut effects = Effects::default();
        let Effects { references, usage } = &mut effects;
        let incoming: BTreeSet<_> = changes.incoming_media().map(media_key).collect();
        changes
            .incoming_media()
            .for_each(|media| references.arrives(media));
        changes.names().for_each(|name| references.named(&name));
        let referenced = changes.resources.iter().filter_map(ResourceChange::media);
        for media in referenced.filter(|media| !incoming.contains(&media_key(*media))) {
            references.expected(media);
        }
        for ((collection, id), folded) in folded {
            let key = ((*collection).to_owned(), (*id).to_owned());
            if let Some(before) = found.get(&key) {
                references.removed(before.media);
                usage.add(before.owner.as_ref(), 0, -before.kib);
            }
            if let Some(after) = folded.after {
                references.added(after.media.as_ref().map(|media| media.at));
                usage.add(after.owner.as_ref(), 0, kib_of(after));
            }
        }
        if let (Some(tip), Some(finish)) = (tip, &changes.finish) {
            references.removed(tip.media);
            let kib = rows::session_kib(SessionState::Finished, 0, None, remembered(tip, finish));
            usage.add(tip.owner.as_ref(), -1, kib - tip.kib());
        }
        effects
    }

    fn write(
        &self,
        folded: &BTreeMap<Key<'a>, Folded<'a>>,
        found: &FoundRows,
        tip: Option<&Tip>,
        settled: &Settled,
    ) -> Vec<Statement<'a>> {
        let changes = self.changes;
        let mut statements = self.write_resources(folded, found);
        if !changes.expect_empty.is_empty() {
            let collections = changes.expect_empty.iter();
            let collections: Vec<_> = collections.map(String::as_bytes).collect();
            let expect = Statement::new(sql::EXPECT_EMPTY).with(collections, Type::BYTEA_ARRAY);
            statements.push(expect.or(Refusal::Conflict));
        }
        // The last bytes of a media count.
        let small: BTreeMap<_, _> = changes.incoming_small_media().collect();
        if !small.is_empty() {
            let small = small.into_iter();
            let small = small.map(|(id, bytes)| (id.as_bytes().to_vec(), bytes.to_vec()));
            statements.push(put_small_media(small.unzip()));
        }
        if let (Some(tip), Some(finish)) = (tip, &changes.finish) {
            statements.extend(self.finish(tip, finish));
        }
        statements.extend(settled.write(self.retention, self.home.slot));
        if let Some(last) = changes.not_after {
            // The last statement, since those before may wait for locks.
            let last = rows::sql_time(last).min(LAST_TIME);
            let expect = Statement::new(sql::EXPECT_IN_TIME).with(last, Type::INT8);
            statements.push(expect.or(Refusal::Fenced));
        }
        statements
    }

    /// Returns the statements that write the resources, in the order of their keys.
    ///
    /// A row that must be absent is inserted and deleted again. So of two change sets of which each
    /// inserts what the other one expects to be absent, one waits for the other at the unique index
    /// and then fails.
    fn write_resources(
        &self,
        folded: &BTreeMap<Key<'a>, Folded<'a>>,
        found: &FoundRows,
    ) -> Vec<Statement<'a>> {
        let exists =
            |(collection, id): Key<'_>| found.contains_key(&(collection.to_owned(), id.to_owned()));
        let mut inserted: BTreeMap<Key<'a>, Option<&'a Resource>> = BTreeMap::new();
        let mut replaced = ResourceArrays::default();
        let mut deleted: Vec<Key<'a>> = Vec::new();
        for (key, folded) in folded {
            match (folded.after, exists(*key)) {
                (Some(resource), true) => replaced.add(resource),
                (Some(resource), false) => drop(inserted.insert(*key, Some(resource))),
                (None, true) => deleted.push(*key),
                (None, false) => drop(inserted.insert(*key, None)),
            }
        }
        for expected in &self.changes.expect {
            let key = (&expected.collection[..], &expected.id[..]);
            let is_possible = key.0.len() + key.1.len() <= MAX_KEY_LEN;
            if expected.version.is_none() && is_possible {
                inserted.entry(key).or_insert(None);
            }
        }
        let mut statements = Vec::new();
        if !inserted.is_empty() {
            let mut rows = ResourceArrays::default();
            for (key, resource) in &inserted {
                if let Some(resource) = resource {
                    rows.add(resource);
                } else {
                    rows.add_empty(*key);
                    deleted.push(*key);
                }
            }
            statements.push(rows.statement(sql::INSERT_RESOURCES).or(Refusal::Conflict));
        }
        if !replaced.is_empty() {
            statements.push(replaced.statement(sql::REPLACE_RESOURCES));
        }
        if !deleted.is_empty() {
            statements.push(with_keys(sql::DELETE_RESOURCES, deleted));
        }
        statements
    }

    /// Returns the statements that finish a session. The references are counted elsewhere.
    fn finish(&self, tip: &Tip, finish: &'a FinishSession) -> Vec<Statement<'a>> {
        let mut written = Written::default();
        let progress = Progress {
            media: None,
            extent: None,
            expected_digests: Vec::new(),
            ..finish.progress.clone()
        };
        let remembered = remembered(tip, finish);
        let state = SessionState::Finished;
        written.add(finish.id, state, &progress, None, remembered, None);
        let reply = Statement::new(sql::WRITE_REPLY)
            .with(&finish.id.as_bytes()[..], Type::BYTEA)
            .with(&finish.reply[..], Type::BYTEA);
        let mut statements = vec![written.write(), reply];
        if let Some(media) = tip.media
            && !finish.handle.is_empty()
        {
            let left: Vec<_> = finish.left.iter().copied().map(i64::from).collect();
            statements.push(
                Statement::new(sql::SEAL_EXTENTS)
                    .with(media.id.as_bytes().to_vec(), Type::BYTEA)
                    .with(left, Type::INT8_ARRAY)
                    .with(self.retention.keep.as_secs_f64(), Type::FLOAT8),
            );
        }
        statements
    }
}

fn media_key(media: MediaRef) -> (windlass_store::MediaId, i16) {
    (media.id, rows::sql_location(media.location))
}

/// Returns the length of the request and the reply of a finished session.
fn remembered(tip: &Tip, finish: &FinishSession) -> u64 {
    tip.remembered + finish.reply.len() as u64
}

fn kib_of(resource: &Resource) -> i64 {
    let media = resource.media.as_ref().map_or(0, |media| media.length);
    rows::counted_kib(media, resource.body.len() as u64)
}

fn read_found(row: Columns<'_>) -> Result<((String, String), Found), Unreadable> {
    let media_len: Option<i64> = row.value("length")?;
    let media_len = media_len.unwrap_or_default().cast_unsigned();
    let found = Found {
        version: row.value::<i64>("version")?.cast_unsigned(),
        media: row.media()?,
        owner: row.optional_text("owner")?,
        kib: rows::counted_kib(media_len, row.unsigned("body_len")?),
    };
    Ok(((row.text("collection")?, row.text("id")?), found))
}

/// Folds the changes of each resource. Refuses changes that do not build on each other.
fn fold(changes: &[ResourceChange]) -> Result<BTreeMap<Key<'_>, Folded<'_>>, Refusal> {
    let mut folded: BTreeMap<Key<'_>, Folded<'_>> = BTreeMap::new();
    for change in changes {
        let (key, expected, after) = match change {
            ResourceChange::Insert(new) => ((&new.collection[..], &new.id[..]), None, Some(new)),
            ResourceChange::Replace { resource, expected } => (
                (&resource.collection[..], &resource.id[..]),
                Some(*expected),
                Some(resource),
            ),
            ResourceChange::Delete {
                collection,
                id,
                expected,
            } => ((&collection[..], &id[..]), Some(*expected), None),
        };
        match folded.entry(key) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Folded {
                    before: expected,
                    after,
                });
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                let version = entry.get().after.map(|resource| resource.version);
                if version != expected {
                    return Err(Refusal::Conflict);
                }
                entry.get_mut().after = after;
            }
        }
    }
    Ok(folded)
}

/// Returns statements that lock the rows of a change set in the order of their keys, so that two
/// change sets do not wait for each other. Rows that are only read are locked so that others may
/// read them, too.
fn lock_resources<'a>(
    changes: &'a ChangeSet,
    folded: Option<&BTreeMap<Key<'a>, Folded<'a>>>,
) -> Vec<Statement<'a>> {
    let mut strengths: BTreeMap<Key<'a>, &'static str> = BTreeMap::new();
    for expected in &changes.expect {
        let key = (&expected.collection[..], &expected.id[..]);
        strengths.insert(key, sql::LOCK_EXPECTED);
    }
    for key in folded.into_iter().flat_map(BTreeMap::keys) {
        strengths.insert(*key, sql::LOCK_CHANGED);
    }
    let strengths: Vec<_> = strengths.into_iter().collect();
    let groups = strengths.chunk_by(|(_, one), (_, other)| one == other);
    groups
        .map(|group| with_keys(group[0].1, group.iter().map(|(key, _)| *key).collect()))
        .collect()
}

fn with_keys<'a>(sql: &'static str, keys: Vec<Key<'a>>) -> Statement<'a> {
    let (collections, ids): (Vec<_>, Vec<_>) = keys
        .into_iter()
        .map(|(collection, id)| (collection.as_bytes(), id.as_bytes()))
        .unzip();
    Statement::new(sql)
        .with(collections, Type::BYTEA_ARRAY)
        .with(ids, Type::BYTEA_ARRAY)
}
