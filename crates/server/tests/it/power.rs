//! Stores that can lose power.

use std::num::NonZeroU64;
use std::sync::Arc;

use tempfile::TempDir;
use windlass_server::Stores;
use windlass_store::memory::{MemoryLedger, MemoryVault, ObjectVault};
use windlass_store_local::{Durability, LocalStore, Options};
use windlass_testkit::test_scale::is_long;

/// Stores that can lose power.
pub(crate) trait PoweredStores {
    /// The name of the stores.
    const NAME: &str;

    /// Creates empty stores.
    fn new() -> Self;

    /// The stores, as a server has them. No copy may outlive the power.
    fn stores(&self) -> Stores;

    /// The power goes out and comes back. Of the writes that no sync had made durable, these
    /// survive.
    fn crash(&mut self, survivors: Survivors);
}

/// The unsynced writes that reached the disk before the power failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Survivors {
    None,
    All,
    /// About half of the writes.
    Some {
        seed: u64,
    },
}

impl Survivors {
    /// Returns a function that decides for each write in turn whether it survives.
    fn choice(self) -> impl FnMut() -> bool {
        let mut state = match self {
            Self::None | Self::All => 0,
            Self::Some { seed } => seed,
        };
        move || match self {
            Self::None => false,
            Self::All => true,
            Self::Some { .. } => {
                // The constants of Knuth's generator; its high bits are good enough to toss with.
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                state >> 63 == 1
            }
        }
    }
}

/// Stores in memory. A crash loses all unsynced data.
pub(crate) struct MemoryStores {
    ledger: Arc<MemoryLedger>,
    vault: MemoryVault,
}

impl PoweredStores for MemoryStores {
    const NAME: &str = "memory";

    fn new() -> Self {
        Self {
            ledger: Arc::default(),
            vault: MemoryVault::new(),
        }
    }

    fn stores(&self) -> Stores {
        Stores {
            ledger: Arc::clone(&self.ledger) as Arc<_>,
            vault: Arc::new(self.vault.clone()),
        }
    }

    fn crash(&mut self, survivors: Survivors) {
        let mut survives = survivors.choice();
        self.ledger.crash();
        self.vault.crash_keeping(|_| survives());
    }
}

/// A ledger in memory over a vault that behaves like an object store. A crash loses the leases, and
/// what the writers have in memory. `CELL` is the length of an object.
pub(crate) struct ObjectStores<const CELL: u64> {
    ledger: Arc<MemoryLedger>,
    vault: ObjectVault,
}

impl<const CELL: u64> PoweredStores for ObjectStores<CELL> {
    const NAME: &str = "objects";

    fn new() -> Self {
        Self {
            ledger: Arc::default(),
            vault: ObjectVault::new(NonZeroU64::new(CELL).expect("it is not zero")),
        }
    }

    fn stores(&self) -> Stores {
        Stores {
            ledger: Arc::clone(&self.ledger) as Arc<_>,
            vault: Arc::new(self.vault.clone()),
        }
    }

    fn crash(&mut self, _: Survivors) {
        self.ledger.crash();
    }
}

/// The local store, closed and opened again. Data in the operating system survives, as after `kill
/// -9`. A sync therefore changes only the time of a test, and syncs are off unless time does not
/// matter.
pub(crate) struct LocalStores {
    directory: TempDir,
    open: Option<Stores>,
}

impl LocalStores {
    fn open(directory: &TempDir) -> Stores {
        let durability = if is_long() {
            Durability::Disk
        } else {
            Durability::Os
        };
        let options = Options::default()
            .durability(durability)
            .allow_unsafe_filesystem(true);
        let store = LocalStore::open(directory.path(), options);
        let store = store.expect("nobody else has it");
        Stores {
            ledger: Arc::new(store.ledger),
            vault: Arc::new(store.vault),
        }
    }
}

impl PoweredStores for LocalStores {
    const NAME: &str = "local";

    fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"));
        let directory = directory.expect("it can be written to");
        let open = Some(Self::open(&directory));
        Self { directory, open }
    }

    fn stores(&self) -> Stores {
        self.open.clone().expect("open but for a moment")
    }

    fn crash(&mut self, _: Survivors) {
        self.open = None;
        self.open = Some(Self::open(&self.directory));
    }
}
