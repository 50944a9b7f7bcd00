//! What a repair changes in a ledger that nobody else has open.

use std::path::Path;

use rusqlite::Connection;
use windlass_store::{EndSession, Epoch, MediaId, MediaLocation, MediaRef, SessionId};

use super::change::ChangeError;
use super::leases::Leases;
use super::tables::Tables;
use super::{prepare_files, schema};
use crate::directory::Identity;
use crate::{Durability, OpenError};

/// The connection that a repair writes on. Every change is a transaction of its own, durable when
/// the call returns.
#[derive(Debug)]
pub(crate) struct Repair {
    connection: Connection,
    /// None is ever given out: the caller holds the directory.
    leases: Leases,
}

impl Repair {
    /// Opens the ledger in `path`, which must exist, as a server does. It is that of the store of this
    /// identity. The caller holds the lock of the directory.
    pub(crate) fn open(path: &Path, identity: Identity) -> Result<Self, OpenError> {
        prepare_files(path, Durability::Disk).map_err(|source| OpenError::io(path, source))?;
        let connection = schema::open_writer(path, identity, Durability::Disk);
        Ok(Self {
            connection: connection.map_err(|source| source.at(path))?,
            leases: Leases::default(),
        })
    }

    /// Marks a session as failed, and lets go of its media. False when it is no longer open under
    /// `epoch`.
    pub(crate) fn fail_session(&self, id: SessionId, epoch: Epoch) -> rusqlite::Result<bool> {
        self.change(|tables| tables.end(id, epoch, EndSession::Failed))
    }

    /// Takes media off the list of garbage.
    pub(crate) fn forget_garbage(&self, id: MediaId) -> rusqlite::Result<bool> {
        self.change(|tables| tables.forget_garbage(&[id]))
    }

    /// Drops a small media, unless a row names it.
    pub(crate) fn drop_small_media(&self, id: MediaId) -> rusqlite::Result<bool> {
        let location = MediaLocation::Ledger;
        self.change(|tables| tables.let_go(MediaRef { id, location }))
    }

    fn change(
        &self,
        change: impl FnOnce(&Tables<'_>) -> Result<(), ChangeError>,
    ) -> rusqlite::Result<bool> {
        let transaction = self.connection.unchecked_transaction()?;
        let tables = Tables {
            connection: &self.connection,
            leases: &self.leases,
        };
        match change(&tables) {
            Ok(()) => transaction.commit().map(|()| true),
            Err(ChangeError::Refused(_)) => Ok(false),
            Err(ChangeError::Sqlite(error)) => Err(error),
        }
    }
}
