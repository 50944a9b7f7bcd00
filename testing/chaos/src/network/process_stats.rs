//! The descriptors and the memory of a process.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::bail;

use crate::server_under_test::Server;

/// Memory that may stay when connections have gone: the uploads' shared memory (32 MiB), caches of
/// the ledger, and the allocator's reserve.
const MEMORY_THAT_MAY_STAY: u64 = 96 << 20;

/// Descriptors that may stay: the ledger's connections open the database and its log when they are
/// first used. Faults open more.
const DESCRIPTORS_THAT_MAY_STAY: usize = 6;

const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The descriptors and the memory of a server at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessStats {
    /// Open descriptors.
    pub(super) descriptors: usize,
    /// Resident memory, in bytes.
    resident: u64,
}

impl fmt::Display for ProcessStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.resident >> 20;
        write!(f, "{} descriptors and {mib} MiB", self.descriptors)
    }
}

impl ProcessStats {
    /// As it is now.
    ///
    /// # Errors
    /// When the process has ended.
    pub(super) fn of(server: &Server) -> anyhow::Result<Self> {
        Ok(Self {
            descriptors: server.descriptors()?,
            resident: server.memory()?.now,
        })
    }

    /// As it is when nothing changes any more.
    ///
    /// # Errors
    /// The same as of [`ProcessStats::of`].
    pub(super) fn settled(server: &Server) -> anyhow::Result<Self> {
        let mut last = Self::of(server)?;
        loop {
            sleep(LOOK_AGAIN * 10);
            let now = Self::of(server)?;
            if now.descriptors >= last.descriptors {
                return Ok(now);
            }
            last = now;
        }
    }

    /// Waits until the server holds no more descriptors and memory than here, apart from the
    /// amounts that may stay.
    ///
    /// # Errors
    /// The server still holds more after `limit`: something has leaked.
    pub(super) fn come_back(&self, server: &Server, limit: Duration) -> anyhow::Result<Self> {
        let begun = Instant::now();
        loop {
            let now = Self::of(server)?;
            let has_room = now.resident <= self.resident + MEMORY_THAT_MAY_STAY;
            if now.descriptors <= self.descriptors + DESCRIPTORS_THAT_MAY_STAY && has_room {
                return Ok(now);
            }
            if begun.elapsed() > limit {
                bail!("the server holds {now} after {limit:?}, where it held {self} before");
            }
            sleep(LOOK_AGAIN);
        }
    }
}
