//! Sessions: their start, leases and ends, and reads.

use std::time::Duration;

use tokio_postgres::types::Type;
use windlass_store::session_list::MAX_SESSIONS_READ_PER_PAGE;
use windlass_store::{
    EndSession, Epoch, Lease, Leased, LedgerError, NewSession, Quota, Retention, Session,
    SessionId, SessionOrder, SessionPage, SessionQuery, SessionState, Takeover, Usage,
};

use super::effects::{self, Effects, changed, lock_usage, read_usage};
use super::tips::{self, Tip};
use crate::connection::Home;
use crate::failure::{Failure, Refusal};
use crate::rows::{self, Columns};
use crate::sql;
use crate::transaction::{Change, Database, Statement, Transaction};

/// The start of a session.
#[derive(Debug)]
pub(super) struct Start<'a> {
    pub(super) new: &'a NewSession,
    pub(super) quota: Quota,
    pub(super) lease: Lease,
    pub(super) slot: i16,
}

impl Change for Start<'_> {
    type Made = ();

    async fn make(&self, transaction: &mut Transaction) -> Result<(), Failure> {
        let new = self.new;
        let id = &new.id.as_bytes()[..];
        let remembered = new.context.len() as u64;
        let kib = rows::session_kib(SessionState::Active, 0, new.total, remembered);
        let mut usage = effects::UsageChanges::default();
        usage.add(new.owner.as_ref(), 1, kib);
        if let Some(owner) = &new.owner
            && !self.quota.is_unlimited()
        {
            let exists = Statement::new(sql::SESSION_EXISTS).with(id, Type::BYTEA);
            let [lock, read] = lock_usage([owner.as_str()].into_iter());
            let found = transaction.read(&[exists, lock, read]).await?;
            if !found[0].is_empty() {
                return Err(Refusal::Conflict.into());
            }
            let before = read_usage(&found[2])?;
            let before = before.get(owner).copied().unwrap_or_default();
            if !self.quota.admits(before, changed(before, (1, kib))) {
                return Err(Refusal::OverQuota.into());
            }
        }
        let session = Statement::new(sql::START_SESSION)
            .with(id, Type::BYTEA)
            .with(rows::sql_time(new.created), Type::INT8)
            .with(rows::sql_optional(new.owner.as_ref()), Type::BYTEA)
            .with(new.dialect.as_bytes(), Type::BYTEA)
            .with(&new.context[..], Type::BYTEA)
            .or(Refusal::Conflict);
        let tip = Statement::new(sql::START_TIP)
            .with(id, Type::BYTEA)
            .with(self.lease.id.as_bytes().to_vec(), Type::BYTEA)
            .with(new.total.map(u64::cast_signed), Type::INT8)
            .with(rows::sql_time(new.expires), Type::INT8)
            .with(rows::sql_hour(new.expires), Type::INT4)
            .with(remembered.cast_signed(), Type::INT8)
            .or(Refusal::Conflict);
        let mut statements = vec![session, tip];
        statements.extend(usage.write(self.slot));
        transaction.commit(&statements).await?;
        Ok(())
    }
}

/// The end of a session without a resource.
#[derive(Debug)]
pub(super) struct End {
    pub(super) id: SessionId,
    pub(super) lease: Lease,
    pub(super) how: EndSession,
    pub(super) home: Home,
    pub(super) retention: Retention,
}

impl Change for End {
    type Made = ();

    async fn make(&self, transaction: &mut Transaction) -> Result<(), Failure> {
        let found = transaction.read(&[tips::lock([self.id])]).await?;
        let tip = Tip::leased(&found[0], self.lease)?;
        let state = match self.how {
            EndSession::Cancelled => SessionState::Cancelled,
            EndSession::Failed => SessionState::Failed,
        };
        let mut effects = Effects::default();
        effects.references.removed(tip.media);
        effects.usage.add(tip.owner.as_ref(), -1, -tip.kib());
        let settled = effects.settle_unlimited(transaction).await?;
        let id = &self.id.as_bytes()[..];
        let mut statements = vec![
            Statement::new(sql::END_TIP)
                .with(id, Type::BYTEA)
                .with(rows::sql_state(state), Type::INT2)
                .or(Refusal::Fenced),
            Statement::new(sql::FORGET_CONTEXT).with(id, Type::BYTEA),
        ];
        statements.extend(settled.write(self.retention, self.home.slot));
        transaction.commit(&statements).await?;
        Ok(())
    }
}

/// A lease of an open session. It gives `None` if there is no such session, or if it is not open,
/// or if another replica works on it.
#[derive(Debug)]
struct Take {
    id: SessionId,
    lease: Lease,
    replica: i64,
    takeover: Takeover,
}

impl Change for Take {
    type Made = Option<Leased>;

    async fn make(&self, transaction: &mut Transaction) -> Result<Option<Leased>, Failure> {
        // An idle time that never is enough.
        const NEVER: Duration = Duration::from_secs(1 << 32);
        let (idle, by_force) = match self.takeover {
            Takeover::Ask => (NEVER, false),
            Takeover::IfIdle(idle) => (idle.min(NEVER), idle.is_zero()),
        };
        let id = &self.id.as_bytes()[..];
        let take = Statement::new(sql::LEASE)
            .with(id, Type::BYTEA)
            .with(self.lease.id.as_bytes().to_vec(), Type::BYTEA)
            .with(self.replica, Type::INT8)
            .with(idle.as_secs_f64(), Type::FLOAT8)
            .with(by_force, Type::BOOL);
        // Not in one statement: its extents would be those of before it has waited for the row.
        let extents = Statement::new(sql::EXTENTS_OF_SESSION).with(id, Type::BYTEA);
        let found = transaction.commit(&[take, extents]).await?;
        let Some(row) = found[0].first() else {
            return Ok(None);
        };
        let session = Columns(row).session()?;
        let lease = Lease {
            epoch: session.epoch,
            ..self.lease
        };
        Ok(Some(Leased {
            session,
            lease,
            extents: rows::all(&found[1], rows::extent)?,
        }))
    }
}

impl Database {
    /// Gives out a lease.
    pub(super) async fn lease(
        &self,
        id: SessionId,
        takeover: Takeover,
        replica: i64,
    ) -> Result<Option<Leased>, LedgerError> {
        let take = Take {
            id,
            lease: rows::new_lease(Epoch(0)),
            replica,
            takeover,
        };
        if let Some(leased) = self.make(&take).await? {
            return Ok(Some(leased));
        }
        let Some(session) = self.session(id).await? else {
            return Ok(None);
        };
        if !rows::is_open(session.state) {
            return Ok(Some(Leased {
                lease: rows::new_lease(session.epoch),
                session,
                extents: Vec::new(),
            }));
        }
        if takeover == Takeover::Ask {
            let ask = Statement::new(sql::ASK).with(id.as_bytes().to_vec(), Type::BYTEA);
            self.change(ask).await?;
        }
        Err(LedgerError::Held)
    }

    pub(super) async fn session(&self, id: SessionId) -> Result<Option<Session>, Failure> {
        let statement = Statement::new(sql::SESSION).with(id.as_bytes().to_vec(), Type::BYTEA);
        let found = self.read(statement).await?;
        let session = found.first().map(|row| Columns(row).session());
        Ok(session.transpose()?)
    }

    pub(super) async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, Failure> {
        let is_newest_first = query.order == SessionOrder::NewestFirst;
        let sql = match (is_newest_first, &query.owner) {
            (false, None) => sql::SESSIONS_OLDEST_FIRST,
            (true, None) => sql::SESSIONS_NEWEST_FIRST,
            (false, Some(_)) => sql::SESSIONS_OF_OWNER_OLDEST_FIRST,
            (true, Some(_)) => sql::SESSIONS_OF_OWNER_NEWEST_FIRST,
        };
        // An id has 32 bytes: no bytes are before all ids, and 33 are behind all.
        let after = match query.after {
            Some(after) => after.as_bytes().to_vec(),
            None if is_newest_first => vec![u8::MAX; 33],
            None => Vec::new(),
        };
        let read = if query.state.is_some() {
            MAX_SESSIONS_READ_PER_PAGE
        } else {
            query.page_len()
        };
        let mut statement = Statement::new(sql)
            .with(after, Type::BYTEA)
            .with(rows::sql_limit(read), Type::INT8);
        if let Some(owner) = &query.owner {
            statement = statement.with(owner.as_bytes(), Type::BYTEA);
        }
        let found = self.read(statement).await?;
        let mut page = SessionPage::default();
        for (count, row) in (1..).zip(&found) {
            let row = Columns(row);
            // A row that cannot be read is left out, but the list goes on behind it.
            let Ok(id) = row.session_id("id") else {
                continue;
            };
            if let Ok(session) = row.summary()
                && query.selects(&session)
            {
                page.sessions.push(session);
            }
            if page.sessions.len() == query.page_len() || count == read {
                page.next = Some(id);
                break;
            }
        }
        Ok(page)
    }

    pub(super) async fn usage(&self, owner: &str) -> Result<Usage, Failure> {
        let statement = Statement::new(sql::USAGE).with(owner.as_bytes(), Type::BYTEA);
        let found = self.read(statement).await?;
        let usage = found.first().map(|row| effects::usage(Columns(row)));
        Ok(usage.transpose()?.unwrap_or_default())
    }

    pub(super) async fn finishing(
        &self,
        after: Option<SessionId>,
        limit: usize,
        idle: Duration,
        replica: i64,
    ) -> Result<Vec<SessionId>, Failure> {
        let after = after.map(|id| id.as_bytes().to_vec()).unwrap_or_default();
        let statement = Statement::new(sql::FINISHING)
            .with(after, Type::BYTEA)
            .with(rows::sql_limit(limit), Type::INT8)
            .with(replica, Type::INT8)
            .with(idle.as_secs_f64(), Type::FLOAT8);
        let found = self.read(statement).await?;
        Ok(rows::all(&found, |row| row.session_id("id"))?)
    }

    /// Prolongs or releases leases.
    pub(super) async fn change_leases(
        &self,
        sql: &'static str,
        leases: &[(SessionId, Lease)],
        replica: i64,
    ) -> Result<(), Failure> {
        if leases.is_empty() {
            return Ok(());
        }
        let (ids, leases): (Vec<_>, Vec<_>) = leases
            .iter()
            .map(|(id, lease)| (&id.as_bytes()[..], &lease.id.as_bytes()[..]))
            .unzip();
        let statement = Statement::new(sql)
            .with(ids, Type::BYTEA_ARRAY)
            .with(leases, Type::BYTEA_ARRAY)
            .with(replica, Type::INT8);
        self.change(statement).await.map(drop)
    }
}
