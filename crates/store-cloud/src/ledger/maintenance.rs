//! What the sweep asks for: expired sessions, garbage, unknown names, tasks.

use std::time::Duration;

use bytes::Bytes;
use tokio_postgres::types::Type;
use windlass_store::{Garbage, GarbageId, MediaId, Retention, SessionState, StoredName, Timestamp};

use super::effects::Effects;
use super::resources::position;
use super::tips::Tip;
use crate::connection::Home;
use crate::failure::Failure;
use crate::rows::{self, Columns, Unreadable};
use crate::sql;
use crate::transaction::{Change, Database, Statement, Transaction};

/// Deletes expired sessions.
#[derive(Debug)]
pub(super) struct Expire {
    pub(super) now: Timestamp,
    pub(super) limit: usize,
    pub(super) home: Home,
    pub(super) retention: Retention,
}

impl Change for Expire {
    /// Number of deleted sessions.
    type Made = usize;

    async fn make(&self, transaction: &mut Transaction) -> Result<usize, Failure> {
        let lock = Statement::new(sql::LOCK_EXPIRED)
            .with(rows::sql_hour(self.now), Type::INT4)
            .with(rows::sql_time(self.now), Type::INT8)
            .with(rows::sql_limit(self.limit), Type::INT8);
        let found = transaction.read(&[lock]).await?;
        // A damaged row is left to an operator.
        let expired = found[0]
            .iter()
            .filter_map(|row| Tip::read(Columns(row)).ok());
        let expired: Vec<_> = expired.collect();
        if expired.is_empty() {
            return Ok(0);
        }
        let mut effects = Effects::default();
        for tip in &expired {
            effects.references.removed(tip.media);
            let is_open = rows::is_open(tip.state);
            debug_assert_ne!(tip.state, SessionState::Finishing, "it is not selected");
            let sessions = -i64::from(is_open);
            effects.usage.add(tip.owner.as_ref(), sessions, -tip.kib());
        }
        let ids: Vec<_> = expired
            .iter()
            .map(|tip| tip.id.as_bytes().to_vec())
            .collect();
        let settled = effects.settle_unlimited(transaction).await?;
        let mut statements: Vec<_> = [sql::DELETE_TIPS, sql::DELETE_SESSIONS]
            .map(|sql| Statement::new(sql).with(ids.clone(), Type::BYTEA_ARRAY))
            .into();
        statements.extend(settled.write(self.retention, self.home.slot));
        transaction.commit(&statements).await?;
        Ok(expired.len())
    }
}

/// Says that the vault has deleted what entries of the garbage list name.
#[derive(Debug)]
pub(super) struct Deleted<'a> {
    pub(super) entries: &'a [GarbageId],
    pub(super) again_after: Option<Duration>,
}

impl Change for Deleted<'_> {
    type Made = ();

    async fn make(&self, transaction: &mut Transaction) -> Result<(), Failure> {
        let numbers: Vec<_> = self.entries.iter().filter_map(number_of).collect();
        let is_last = self.again_after.is_none();
        let forget = Statement::new(sql::FORGET_GARBAGE)
            .with(numbers.clone(), Type::INT8_ARRAY)
            .with(is_last, Type::BOOL);
        let mut statements = vec![forget];
        if let Some(pause) = self.again_after {
            statements.push(
                Statement::new(sql::DELETE_AGAIN)
                    .with(numbers, Type::INT8_ARRAY)
                    .with(pause.as_secs_f64(), Type::FLOAT8),
            );
        }
        transaction.commit(&statements).await?;
        Ok(())
    }
}

/// Returns the id of an entry: the time from which it is due, in microseconds, and its number. The
/// list is in this order.
fn id_of(due: i64, number: i64) -> GarbageId {
    let id = [due.to_be_bytes(), number.to_be_bytes()].concat();
    GarbageId::from_bytes(Bytes::from(id))
}

/// Returns time and number of an entry.
fn parts_of(id: &GarbageId) -> Option<(i64, i64)> {
    let (due, number) = id.as_bytes().split_first_chunk()?;
    let due = i64::from_be_bytes(*due);
    Some((due, i64::from_be_bytes(number.try_into().ok()?)))
}

fn number_of(id: &GarbageId) -> Option<i64> {
    parts_of(id).map(|(_, number)| number)
}

fn read_garbage(row: Columns<'_>) -> Result<Garbage, Unreadable> {
    let attempt: i16 = row.value("attempt")?;
    Ok(Garbage {
        id: id_of(row.value("due")?, row.value("n")?),
        name: StoredName {
            media: MediaId::from_bytes(row.array("media")?),
            handle: row.bytes("handle")?,
        },
        attempt: u8::try_from(attempt).map_err(|_| Unreadable)?,
    })
}

impl Database {
    pub(super) async fn garbage(
        &self,
        after: Option<&GarbageId>,
        limit: usize,
    ) -> Result<Vec<Garbage>, Failure> {
        let (due, number) = after.and_then(parts_of).unwrap_or((0, 0));
        let statement = Statement::new(sql::GARBAGE)
            .with(due, Type::INT8)
            .with(number, Type::INT8)
            .with(rows::sql_limit(limit), Type::INT8);
        let found = self.read(statement).await?;
        Ok(rows::all(&found, read_garbage)?)
    }

    pub(super) async fn unknown_names(
        &self,
        names: &[StoredName],
    ) -> Result<Vec<StoredName>, Failure> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let (media, handles): (Vec<_>, Vec<_>) = names
            .iter()
            .map(|name| (&name.media.as_bytes()[..], &name.handle[..]))
            .unzip();
        let statement = Statement::new(sql::UNKNOWN_NAMES)
            .with(media, Type::BYTEA_ARRAY)
            .with(handles, Type::BYTEA_ARRAY);
        let found = self.read(statement).await?;
        let unknown = rows::all(&found, |row| {
            let index = position(row.unsigned("n")?, names.len())?;
            Ok(names[index].clone())
        });
        Ok(unknown?)
    }

    pub(super) async fn acquire_task(
        &self,
        name: &str,
        term: Duration,
        replica: i64,
    ) -> Result<bool, Failure> {
        let statement = Statement::new(sql::ACQUIRE_TASK)
            .with(name.as_bytes(), Type::BYTEA)
            .with(replica, Type::INT8)
            .with(term.as_secs_f64(), Type::FLOAT8);
        let acquired = self.change(statement).await?;
        Ok(!acquired.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_garbage_are_in_the_order_of_the_list() {
        let ids = [(0, 1), (1, 0), (1, 2), (1 << 50, 3)].map(|(due, n)| id_of(due, n));
        assert!(ids.is_sorted());
        assert_eq!(parts_of(&ids[2]), Some((1, 2)));
        let foreign = GarbageId::from_bytes(Bytes::from_static(b"short"));
        assert_eq!(number_of(&foreign), None);
    }
}
