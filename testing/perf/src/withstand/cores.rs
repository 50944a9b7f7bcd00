//! Assigns the processor cores: the server and the measured clients must not wait for the
//! attackers.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The core of the server, and the core of the load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cores {
    server: usize,
    load: usize,
}

impl Cores {
    /// The first two cores that this process may use; the same one twice if there is only one.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub(super) fn find() -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        let server = cores.next().unwrap_or_default();
        Ok(Self {
            server,
            load: cores.next().unwrap_or(server),
        })
    }

    /// Whether server and load share one core.
    pub(super) fn are_shared(self) -> bool {
        self.server == self.load
    }

    /// Keeps this thread, and processes that it starts, on the server's core.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn stay_with_server(self) -> anyhow::Result<()> {
        stay_on(self.server)
    }

    /// Keeps this thread on the core of the load.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn stay_with_load(self) -> anyhow::Result<()> {
        stay_on(self.load)
    }
}

fn stay_on(core: usize) -> anyhow::Result<()> {
    let mut only = CpuSet::new();
    only.set(core);
    Ok(sched_setaffinity(None, &only)?)
}
