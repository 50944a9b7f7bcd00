//! A vault in trouble.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::{Faults, InjectedFault, scheduled};
use crate::records::{Extent, MediaId};
use crate::vault::{Listing, MediaReader, MediaWriter, Space, Vault, VaultError};

/// A [`Vault`] whose calls, and those of its writers and readers, fail on schedule.
pub struct FaultyVault {
    inner: Arc<dyn Vault>,
    faults: Arc<Faults>,
}

impl FaultyVault {
    /// Puts a schedule in front of a vault.
    pub fn new(inner: Arc<dyn Vault>, faults: Arc<Faults>) -> Self {
        Self { inner, faults }
    }

    fn writer(&self, inner: Box<dyn MediaWriter>) -> Box<dyn MediaWriter> {
        let faults = Arc::clone(&self.faults);
        Box::new(FaultyWriter { inner, faults })
    }
}

impl fmt::Debug for FaultyVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyVault")
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Vault for FaultyVault {
    async fn create(&self, id: MediaId) -> Result<Box<dyn MediaWriter>, VaultError> {
        let full = || VaultError::NoSpace { written: 0 };
        let created = change(&self.faults, "create", self.inner.create(id), Some(full)).await?;
        Ok(self.writer(created))
    }

    async fn reopen(
        &self,
        id: MediaId,
        committed: u64,
        verify: Option<Extent>,
    ) -> Result<Box<dyn MediaWriter>, VaultError> {
        let reopened = read(
            &self.faults,
            "reopen",
            id,
            self.inner.reopen(id, committed, verify),
        )
        .await?;
        Ok(self.writer(reopened))
    }

    async fn read(
        &self,
        id: MediaId,
        range: Range<u64>,
    ) -> Result<Box<dyn MediaReader>, VaultError> {
        let inner = read(&self.faults, "read", id, self.inner.read(id, range)).await?;
        let faults = Arc::clone(&self.faults);
        Ok(Box::new(FaultyReader { inner, id, faults }))
    }

    async fn delete(&self, id: MediaId) -> Result<(), VaultError> {
        read(&self.faults, "delete", id, self.inner.delete(id)).await
    }

    async fn list(&self, after: Option<MediaId>, limit: usize) -> Result<Listing, VaultError> {
        let from = after.unwrap_or(MediaId::from_bytes([0; 16]));
        read(&self.faults, "list", from, self.inner.list(after, limit)).await
    }

    async fn space(&self) -> Result<Space, VaultError> {
        change(&self.faults, "space", self.inner.space(), NEEDS_NO_ROOM).await
    }
}

#[derive(Debug)]
struct FaultyWriter {
    inner: Box<dyn MediaWriter>,
    faults: Arc<Faults>,
}

impl FaultyWriter {
    /// Writes the first half of the bytes. Returns how many that are.
    async fn write_half(&self, offset: u64, data: &[Bytes]) -> Result<u64, VaultError> {
        let len: usize = data.iter().map(Bytes::len).sum();
        let mut rest = len / 2;
        let mut half = Vec::new();
        for piece in data {
            let take = piece.len().min(rest);
            half.push(piece.slice(..take));
            rest -= take;
        }
        self.inner.write(offset, half).await?;
        Ok(len as u64 / 2)
    }
}

#[async_trait]
impl MediaWriter for FaultyWriter {
    async fn write(&self, offset: u64, data: Vec<Bytes>) -> Result<(), VaultError> {
        let fault = || Err(VaultError::Fault(scheduled()));
        match self.faults.next("write").await {
            None | Some(InjectedFault::Slow(_)) => self.inner.write(offset, data).await,
            Some(InjectedFault::Fault | InjectedFault::Panic) => fault(),
            Some(InjectedFault::Torn) => {
                self.write_half(offset, &data).await?;
                fault()
            }
            Some(InjectedFault::Lost) => {
                self.inner.write(offset, data).await?;
                fault()
            }
            Some(InjectedFault::NoSpace) => {
                let written = self.write_half(offset, &data).await?;
                Err(VaultError::NoSpace { written })
            }
        }
    }

    async fn sync(&self) -> Result<(), VaultError> {
        change(&self.faults, "sync", self.inner.sync(), NEEDS_NO_ROOM).await
    }
}

#[derive(Debug)]
struct FaultyReader {
    inner: Box<dyn MediaReader>,
    id: MediaId,
    faults: Arc<Faults>,
}

#[async_trait]
impl MediaReader for FaultyReader {
    async fn next(&mut self, most: usize) -> Result<Bytes, VaultError> {
        read(&self.faults, "next", self.id, self.inner.next(most)).await
    }
}

/// What a call that needs no room says when there is none.
const NEEDS_NO_ROOM: Option<fn() -> VaultError> = None;

/// A call whose failure is a fault.
async fn change<T>(
    faults: &Faults,
    name: &'static str,
    change: impl Future<Output = Result<T, VaultError>>,
    full: Option<fn() -> VaultError>,
) -> Result<T, VaultError> {
    match (faults.next(name).await, full) {
        (Some(InjectedFault::NoSpace), Some(full)) => Err(full()),
        (None | Some(InjectedFault::Slow(_) | InjectedFault::NoSpace), _) => change.await,
        (Some(InjectedFault::Fault | InjectedFault::Torn | InjectedFault::Panic), _) => {
            Err(VaultError::Fault(scheduled()))
        }
        (Some(InjectedFault::Lost), _) => {
            change.await?;
            Err(VaultError::Fault(scheduled()))
        }
    }
}

/// A call whose failure concerns its media only.
async fn read<T>(
    faults: &Faults,
    name: &'static str,
    id: MediaId,
    read: impl Future<Output = Result<T, VaultError>>,
) -> Result<T, VaultError> {
    let unreadable = || VaultError::Unreadable {
        id,
        cause: scheduled(),
    };
    match faults.next(name).await {
        None | Some(InjectedFault::NoSpace | InjectedFault::Slow(_)) => read.await,
        Some(InjectedFault::Fault | InjectedFault::Torn | InjectedFault::Panic) => {
            Err(unreadable())
        }
        Some(InjectedFault::Lost) => {
            read.await?;
            Err(unreadable())
        }
    }
}
