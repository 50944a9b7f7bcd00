//! Appends to a media, by their size.

use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput};
use tokio::runtime::Runtime;
use windlass_store::{ExpectedSize, MediaId, MediaWriter, StoredName, SyncTarget, Vault as _};
use windlass_store_local::LocalVault;

use crate::{open, runtime};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Maximum length of a media. Creating the next one is not measured.
const MAX_LEN: usize = 64 * MIB;

/// Maximum size of the pieces in which bytes arrive.
const PIECE: usize = 64 * KIB;

pub(crate) fn benchmarks(criterion: &mut Criterion) {
    let runtime = runtime();
    let (store, _directory) = open();
    let mut fixture = Fixture {
        vault: store.vault,
        made: 0,
    };
    let mut group = criterion.benchmark_group("vault");
    group.sample_size(10);
    for is_synced in [false, true] {
        let name = if is_synced {
            "append and sync"
        } else {
            "append"
        };
        for size in [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB] {
            group.throughput(Throughput::Bytes(size as u64));
            group.bench_function(BenchmarkId::new(name, size), |bencher| {
                bencher.iter_custom(|times| fixture.append(&runtime, size, is_synced, times));
            });
        }
    }
    group.finish();
}

struct Fixture {
    vault: LocalVault,
    /// Number of media created.
    made: u128,
}

impl Fixture {
    /// Appends the given number of times, to as many media as needed, and returns the time it took.
    fn append(&mut self, runtime: &Runtime, size: usize, is_synced: bool, times: u64) -> Duration {
        let data: Vec<_> = (0..size.div_ceil(PIECE))
            .map(|_| Bytes::from(vec![7; size.min(PIECE)]))
            .collect();
        let mut taken = Duration::ZERO;
        let mut left = times;
        while left > 0 {
            let now = left.min((MAX_LEN / size) as u64);
            taken += runtime.block_on(async {
                let (id, writer) = self.create().await;
                let start = Instant::now();
                for index in 0..now {
                    let offset = index * size as u64;
                    let written = writer.append(offset, data.clone()).await;
                    written.expect("there is room");
                    if is_synced {
                        writer
                            .sync(SyncTarget::at(8))
                            .await
                            .expect("the disk is well");
                    }
                }
                let taken = start.elapsed();
                drop(writer);
                self.vault
                    .delete(&StoredName::of(id))
                    .await
                    .expect("it can be deleted");
                taken
            });
            left -= now;
        }
        taken
    }

    async fn create(&mut self) -> (MediaId, Box<dyn MediaWriter>) {
        self.made += 1;
        let id = MediaId::from_bytes(self.made.to_be_bytes());
        let writer = self
            .vault
            .create(id, ExpectedSize::default())
            .await
            .expect("the name is new");
        (id, writer)
    }
}
