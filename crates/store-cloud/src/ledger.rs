//! The ledger on PostgreSQL.

mod apply;
mod commits;
mod committer;
mod effects;
mod maintenance;
mod replica;
mod resources;
mod sessions;
mod tips;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use deadpool::managed::Pool;
use tokio::task::JoinSet;
use tokio_postgres::types::Type;
use windlass_store::{
    ChangeSet, EndSession, Epoch, Garbage, GarbageId, Lease, Leased, Ledger, LedgerError, MediaId,
    NewSession, OffsetCommit, OwnerQuotas, Quota, Resource, Retention, Session, SessionId,
    SessionPage, SessionQuery, Space, StoredName, Takeover, Timestamp, Usage,
};

use crate::connection::{self, Connector, Home};
use crate::open::OpenError;
use crate::options::{self, Options};
use crate::transaction::{Database, Statement};
use crate::{rows, schema, sql};

use commits::Commit;
use committer::Committer;
use replica::{Clock, Requests};

/// A [`Ledger`] on PostgreSQL, which several processes may have open.
///
/// Each opening counts as a process of its own. When it is dropped, other processes take its
/// sessions and its claims over after 6 s, or at once after [`CloudLedger::close`].
#[derive(Debug)]
pub struct CloudLedger {
    database: Arc<Database>,
    home: Home,
    retention: Retention,
    committer: Committer,
    requests: Arc<Requests>,
    clock: Arc<Clock>,
    /// The committers and the signs of life. They end when it is dropped.
    tasks: JoinSet<()>,
}

impl CloudLedger {
    /// Opens the ledger in the database at `url`, such as `postgres://user:password@host/database`,
    /// or creates it in an empty database. Several hosts are separated by commas; the one that
    /// accepts changes is used.
    ///
    /// # Errors
    /// See [`OpenError`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the tables may have been created.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub async fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        let config = options::parse(url, &options)?;
        let patience = options.patience;
        let connector = Connector {
            config,
            tls: options.tls.clone(),
            durability: options.durability,
            home: OnceLock::new(),
        };
        let (home, clock) = connection::within(patience, register(&connector)).await?;
        let clock = Arc::new(clock);
        connector.home.set(home).expect("nobody else has it yet");
        let with_connections = |connections| {
            let pool = Pool::builder(connector.clone())
                .max_size(connections)
                .runtime(deadpool::Runtime::Tokio1)
                .build()
                .expect("the runtime is given");
            Arc::new(Database {
                pool,
                patience,
                recorder: Arc::clone(&options.recorder),
            })
        };
        let database = with_connections(options.connections.max(2));
        // Of their own: a replica that is busy must not seem to have ended.
        let of_replica = with_connections(1);
        let (requests, mut tasks) = (Arc::default(), JoinSet::new());
        let committer = Committer::start(&database, home, options.retention, &mut tasks);
        let (of_requests, of_clock) = (Arc::clone(&requests), Arc::clone(&clock));
        tasks.spawn(replica::live(of_replica, home, of_requests, of_clock));
        Ok(Self {
            database,
            home,
            retention: options.retention,
            committer,
            requests,
            clock,
            tasks,
        })
    }

    /// Returns the identity of the store, which was chosen when it was created.
    pub fn identity(&self) -> [u8; 16] {
        self.home.identity
    }

    /// Ends the process as the ledger knows it: others take its sessions and its claims over at
    /// once.
    ///
    /// # Errors
    /// If the database cannot be asked. Others take them over later then.
    pub async fn close(mut self) -> Result<(), LedgerError> {
        self.tasks.shutdown().await;
        let deregister = Statement::new(sql::DEREGISTER).with(self.home.replica, Type::INT8);
        self.database.change(deregister).await?;
        Ok(())
    }
}

/// Makes the first connection: reads or creates the tables, and notes the replica.
async fn register(connector: &Connector) -> Result<(Home, Clock), OpenError> {
    let connection = connector.connect().await?;
    let client = &connection.client;
    let store = schema::read_or_create(client).await?;
    let version = env!("CARGO_PKG_VERSION");
    let registered = client
        .query_typed_one(sql::REGISTER, &[(&version, Type::TEXT)])
        .await
        .map_err(OpenError::unreachable)?;
    let id = registered.try_get("id").map_err(OpenError::unreachable)?;
    let slot = registered.try_get("slot").map_err(OpenError::unreachable)?;
    let clock: i64 = registered
        .try_get("clock")
        .map_err(OpenError::unreachable)?;
    let home = Home {
        identity: store.identity,
        replica: id,
        slot,
    };
    Ok((
        home,
        Clock::new(Timestamp::from_millis(clock.cast_unsigned())),
    ))
}

#[async_trait]
impl Ledger for CloudLedger {
    fn deadline(&self, after: Duration) -> Option<Timestamp> {
        Some(self.clock.after(after))
    }

    async fn start_within(&self, session: NewSession, quota: Quota) -> Result<Lease, LedgerError> {
        let start = sessions::Start {
            new: &session,
            quota,
            lease: rows::new_lease(Epoch(0)),
            slot: self.home.slot,
        };
        self.database.make(&start).await?;
        Ok(start.lease)
    }

    async fn usage(&self, owner: &str) -> Result<Usage, LedgerError> {
        Ok(self.database.usage(owner).await?)
    }

    async fn session(&self, id: SessionId) -> Result<Option<Session>, LedgerError> {
        Ok(self.database.session(id).await?)
    }

    async fn sessions(&self, query: &SessionQuery) -> Result<SessionPage, LedgerError> {
        Ok(self.database.sessions(query).await?)
    }

    async fn lease_by(
        &self,
        id: SessionId,
        takeover: Takeover,
    ) -> Result<Option<Leased>, LedgerError> {
        self.database.lease(id, takeover, self.home.replica).await
    }

    async fn renew(&self, leases: &[(SessionId, Lease)]) -> Result<(), LedgerError> {
        let renewed = self
            .database
            .change_leases(sql::RENEW, leases, self.home.replica);
        Ok(renewed.await?)
    }

    async fn release(&self, leases: &[(SessionId, Lease)]) -> Result<(), LedgerError> {
        let released = self
            .database
            .change_leases(sql::RELEASE, leases, self.home.replica);
        Ok(released.await?)
    }

    async fn takeover_requests(&self) -> Vec<SessionId> {
        self.requests.take().await
    }

    async fn commit_offset_within(
        &self,
        id: SessionId,
        lease: Lease,
        commit: OffsetCommit,
        quota: Quota,
    ) -> Result<(), LedgerError> {
        let commit = Commit {
            id,
            lease,
            offset: commit,
            quota,
        };
        self.committer.commit(commit).await
    }

    async fn end(&self, id: SessionId, lease: Lease, end: EndSession) -> Result<(), LedgerError> {
        let end = sessions::End {
            id,
            lease,
            how: end,
            home: self.home,
            retention: self.retention,
        };
        self.database.make(&end).await
    }

    async fn apply_within(
        &self,
        changes: ChangeSet,
        quotas: OwnerQuotas,
    ) -> Result<(), LedgerError> {
        let apply = apply::Apply {
            changes: &changes,
            quotas: &quotas,
            home: self.home,
            retention: self.retention,
        };
        self.database.make(&apply).await
    }

    async fn resource(&self, collection: &str, id: &str) -> Result<Option<Resource>, LedgerError> {
        Ok(self.database.resource(collection, id).await?)
    }

    async fn resources(
        &self,
        collection: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError> {
        Ok(self.database.resources(collection, after, limit).await?)
    }

    async fn fetch(&self, keys: &[(&str, &str)]) -> Result<Vec<Option<Resource>>, LedgerError> {
        Ok(self.database.fetch(keys).await?)
    }

    async fn claim(
        &self,
        collection: &str,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Resource>, LedgerError> {
        let claimed = self
            .database
            .claim(collection, [now, until], limit, self.home.replica);
        claimed.await
    }

    async fn next_due(&self, collection: &str) -> Result<Option<Timestamp>, LedgerError> {
        Ok(self.database.next_due(collection).await?)
    }

    async fn count_due(&self, collection: &str) -> Result<u64, LedgerError> {
        Ok(self.database.count_due(collection).await?)
    }

    async fn small_media(&self, id: MediaId) -> Result<Option<Bytes>, LedgerError> {
        Ok(self.database.small_media(id).await?)
    }

    async fn finishing(
        &self,
        after: Option<SessionId>,
        limit: usize,
        idle: Duration,
    ) -> Result<Vec<SessionId>, LedgerError> {
        let finishing = self
            .database
            .finishing(after, limit, idle, self.home.replica);
        Ok(finishing.await?)
    }

    async fn expire(&self, now: Timestamp, limit: usize) -> Result<usize, LedgerError> {
        let expire = maintenance::Expire {
            now,
            limit,
            home: self.home,
            retention: self.retention,
        };
        self.database.make(&expire).await
    }

    fn retention(&self) -> Retention {
        self.retention
    }

    async fn garbage(
        &self,
        after: Option<&GarbageId>,
        limit: usize,
    ) -> Result<Vec<Garbage>, LedgerError> {
        Ok(self.database.garbage(after, limit).await?)
    }

    async fn deleted(
        &self,
        entries: &[GarbageId],
        again_after: Option<Duration>,
    ) -> Result<(), LedgerError> {
        let deleted = maintenance::Deleted {
            entries,
            again_after,
        };
        self.database.make(&deleted).await
    }

    async fn unknown_names(&self, names: &[StoredName]) -> Result<Vec<StoredName>, LedgerError> {
        Ok(self.database.unknown_names(names).await?)
    }

    async fn acquire_task(&self, name: &str, term: Duration) -> Result<bool, LedgerError> {
        let replica = self.home.replica;
        Ok(self.database.acquire_task(name, term, replica).await?)
    }

    async fn space(&self) -> Result<Option<Space>, LedgerError> {
        Ok(None)
    }

    async fn check(&self) -> Result<(), LedgerError> {
        self.database.read(Statement::new(sql::CHECK)).await?;
        Ok(())
    }
}
