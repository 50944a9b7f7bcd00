//! Commits of offsets. Those of several sessions are made in one transaction.

use std::collections::{BTreeMap, BTreeSet};

use tokio_postgres::types::Type;
use windlass_store::{Lease, OffsetCommit, Quota, Retention, SessionId, Usage};

use super::effects::{Effects, changed, lock_usage, read_usage};
use super::tips::{self, Tip, Written};
use crate::connection::Home;
use crate::failure::{Failure, Refusal};
use crate::rows;
use crate::sql;
use crate::transaction::{Change, Statement, Transaction};

/// A commit of one session.
#[derive(Debug, Clone)]
pub(super) struct Commit {
    pub(super) id: SessionId,
    pub(super) lease: Lease,
    pub(super) offset: OffsetCommit,
    pub(super) quota: Quota,
}

/// Commits of different sessions.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub(super) commits: &'a [&'a Commit],
    pub(super) home: Home,
    pub(super) retention: Retention,
}

/// The usage of owners that are closer to their quotas than this is read under a lock.
///
/// Two replicas that decide at the same time may go beyond a quota together. Far from it, they need
/// not wait for each other.
const MARGIN: u64 = 64 << 20;

impl Change for Batch<'_> {
    /// Whether each commit was made.
    type Made = Vec<Result<(), Refusal>>;

    fn len(&self) -> usize {
        self.commits.len()
    }

    async fn make(&self, transaction: &mut Transaction) -> Result<Self::Made, Failure> {
        let limited = || {
            let commits = self.commits.iter();
            commits.filter(|commit| commit.quota.bytes.is_some())
        };
        let mut reads = vec![tips::lock(self.commits.iter().map(|commit| commit.id))];
        if limited().next().is_some() {
            let ids: Vec<_> = limited().map(|it| it.id.as_bytes().to_vec()).collect();
            reads.push(Statement::new(sql::USAGE_OF_SESSIONS).with(ids, Type::BYTEA_ARRAY));
        }
        let found = transaction.read(&reads).await?;
        let locked: BTreeMap<_, _> = rows::all(&found[0], Tip::read)?
            .into_iter()
            .map(|tip| (tip.id, tip))
            .collect();
        let planned: Vec<_> = self.commits.iter().map(|it| plan(it, &locked)).collect();
        let mut usage = match found.get(1) {
            Some(found) => read_usage(found)?,
            None => BTreeMap::new(),
        };
        let near = near_quota(&planned, &usage);
        if !near.is_empty() {
            let reads = lock_usage(near.into_iter());
            let [_, exact] = &transaction.read(&reads).await?[..] else {
                unreachable!("two statements were sent");
            };
            usage.extend(read_usage(exact)?);
        }
        let admitted: Vec<_> = planned
            .into_iter()
            .map(|planned| planned.and_then(|planned| planned.within_quota(&mut usage)))
            .collect();
        let writes: Vec<_> = admitted.iter().filter_map(|it| it.as_ref().ok()).collect();
        if !writes.is_empty() {
            self.write(transaction, &writes).await?;
        }
        Ok(admitted.into_iter().map(|it| it.map(drop)).collect())
    }
}

impl Batch<'_> {
    async fn write(
        &self,
        transaction: &mut Transaction,
        writes: &[&Planned<'_>],
    ) -> Result<(), Failure> {
        let mut effects = Effects::default();
        let mut tips = Written::default();
        let mut small_media = (Vec::new(), Vec::new());
        for Planned { commit, tip, kib } in writes {
            let Commit {
                id, offset: commit, ..
            } = commit;
            let media = commit.progress.media;
            if media != tip.media {
                effects.references.removed(tip.media);
                effects.references.added(media);
            }
            effects.usage.add(tip.owner.as_ref(), 0, *kib);
            if let (Some(media), Some(bytes)) = (media, &commit.small_media) {
                small_media.0.push(media.id.as_bytes().to_vec());
                small_media.1.push(bytes.to_vec());
            }
            let holder = (!commit.releases).then_some(self.home.replica);
            tips.add(
                *id,
                commit.state,
                &commit.progress,
                commit.expires,
                tip.remembered,
                holder,
            );
        }
        let settled = effects.settle_unlimited(transaction).await?;
        let mut statements = vec![tips.write()];
        if !small_media.0.is_empty() {
            statements.push(put_small_media(small_media));
        }
        statements.extend(change_extents(writes, self.retention));
        statements.extend(settled.write(self.retention, self.home.slot));
        transaction.commit(&statements).await?;
        Ok(())
    }
}

/// Returns the statement that writes small media: ids, and the bytes of each.
pub(super) fn put_small_media((ids, bytes): (Vec<Vec<u8>>, Vec<Vec<u8>>)) -> Statement<'static> {
    Statement::new(sql::PUT_SMALL_MEDIA)
        .with(ids, Type::BYTEA_ARRAY)
        .with(bytes, Type::BYTEA_ARRAY)
}

/// A commit that the row of its session admits.
#[derive(Debug)]
struct Planned<'a> {
    commit: &'a Commit,
    tip: &'a Tip,
    /// How the usage of its owner changes.
    kib: i64,
}

fn plan<'a>(
    commit: &'a Commit,
    locked: &'a BTreeMap<SessionId, Tip>,
) -> Result<Planned<'a>, Refusal> {
    let tip = locked.get(&commit.id).ok_or(Refusal::Fenced)?;
    tip.check(commit.lease)?;
    let OffsetCommit {
        from,
        progress,
        state,
        ..
    } = &commit.offset;
    if tip.offset != *from || progress.offset < *from {
        return Err(Refusal::Fenced);
    }
    let after = rows::session_kib(*state, progress.offset, progress.total, tip.remembered);
    Ok(Planned {
        commit,
        tip,
        kib: after - tip.kib(),
    })
}

impl Planned<'_> {
    /// Counts the commit, or refuses it if it goes beyond its quota.
    fn within_quota(self, usage: &mut BTreeMap<String, Usage>) -> Result<Self, Refusal> {
        let Some(owner) = &self.tip.owner else {
            return Ok(self);
        };
        let before = usage.get(owner).copied().unwrap_or_default();
        let after = changed(before, (0, self.kib));
        if !self.commit.quota.admits(before, after) {
            return Err(Refusal::OverQuota);
        }
        usage.insert(owner.clone(), after);
        Ok(self)
    }
}

/// Returns the owners that come close to their quotas.
fn near_quota<'a>(
    planned: &[Result<Planned<'a>, Refusal>],
    usage: &BTreeMap<String, Usage>,
) -> BTreeSet<&'a str> {
    let mut near = BTreeSet::new();
    for Planned { commit, tip, kib } in planned.iter().flatten() {
        if let (Some(owner), Some(limit)) = (&tip.owner, commit.quota.bytes)
            && *kib > 0
        {
            let grown = kib.cast_unsigned().saturating_mul(1024);
            let before = usage.get(owner).copied().unwrap_or_default().bytes;
            // Other replicas may add as much at the same time.
            let reached = before.saturating_add(grown.saturating_mul(16));
            if reached.saturating_add(MARGIN) > limit {
                near.insert(owner.as_str());
            }
        }
    }
    near
}

/// Returns the statements that change the extents of media.
fn change_extents(writes: &[&Planned<'_>], retention: Retention) -> Vec<Statement<'static>> {
    let (mut added_to, mut numbers, mut starts, mut lens, mut names) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut dropped_from, mut dropped) = (Vec::new(), Vec::new());
    for Planned { commit, .. } in writes {
        let Some(media) = commit.offset.progress.media else {
            continue;
        };
        let media = media.id.as_bytes();
        for extent in &commit.offset.extents.added {
            added_to.push(media.to_vec());
            numbers.push(i64::from(extent.number));
            starts.push(extent.start.cast_signed());
            lens.push(extent.len.cast_signed());
            names.push(extent.name.to_vec());
        }
        for number in &commit.offset.extents.dropped {
            dropped_from.push(media.to_vec());
            dropped.push(i64::from(*number));
        }
    }
    let mut statements = Vec::new();
    if !numbers.is_empty() {
        statements.push(
            Statement::new(sql::ADD_EXTENTS)
                .with(added_to, Type::BYTEA_ARRAY)
                .with(numbers, Type::INT8_ARRAY)
                .with(starts, Type::INT8_ARRAY)
                .with(lens, Type::INT8_ARRAY)
                .with(names, Type::BYTEA_ARRAY),
        );
    }
    if !dropped.is_empty() {
        statements.push(
            Statement::new(sql::DROP_EXTENTS)
                .with(dropped_from, Type::BYTEA_ARRAY)
                .with(dropped, Type::INT8_ARRAY)
                .with(retention.keep.as_secs_f64(), Type::FLOAT8),
        );
    }
    statements
}
