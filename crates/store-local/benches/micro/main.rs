//! Costs of the store on the disk of the target directory.

mod ledger;
mod vault;

use criterion::{criterion_group, criterion_main};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use windlass_store_local::{LocalStore, Options};

criterion_group!(store, ledger::benchmarks, vault::benchmarks);
criterion_main!(store);

/// Opens a store that syncs, in a temporary directory.
fn open() -> (LocalStore, TempDir) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("it is writable");
    let options = Options::default().allow_unsafe_filesystem(true);
    let store = LocalStore::open(directory.path(), options).expect("it is new");
    (store, directory)
}

fn runtime() -> Runtime {
    Builder::new_current_thread()
        .build()
        .expect("there is memory for a runtime")
}
