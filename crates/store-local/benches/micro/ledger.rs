//! Commits of the ledger, by the number of concurrent callers.

use criterion::{BenchmarkId, Criterion, Throughput};
use tokio::task::JoinSet;
use windlass_store::{Ledger as _, NewSession, SessionId, Timestamp};

use std::sync::Arc;

use crate::{open, runtime};

pub(crate) fn benchmarks(criterion: &mut Criterion) {
    let runtime = runtime();
    let (store, _directory) = open();
    let ledger = Arc::new(store.ledger);
    let mut names = 0u64;
    let mut group = criterion.benchmark_group("ledger");
    for waiters in [1, 8, 32, 256] {
        group.throughput(Throughput::Elements(waiters));
        let id = BenchmarkId::new("start sessions at once", waiters);
        group.bench_with_input(id, &waiters, |bencher, waiters| {
            bencher.iter(|| {
                runtime.block_on(async {
                    let mut starts = JoinSet::new();
                    for _ in 0..*waiters {
                        names += 1;
                        let (ledger, session) = (Arc::clone(&ledger), session(names));
                        starts.spawn(async move { ledger.start(session).await });
                    }
                    starts.join_all().await
                })
            });
        });
    }
    group.finish();
}

/// Returns a session like the sessions of requests. Its id begins with the time of its start,
/// followed by a hash.
fn session(number: u64) -> NewSession {
    let created = Timestamp::from_millis(number);
    let mut name = [0; 32];
    let (moment, hash) = name.split_at_mut(8);
    moment[..6].copy_from_slice(&created.to_sortable_bytes());
    for (index, word) in hash.chunks_mut(8).enumerate() {
        let mixed = (number + index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word.copy_from_slice(&(mixed ^ (mixed >> 29)).to_be_bytes());
    }
    NewSession {
        id: SessionId::from_bytes(name),
        context: vec![b'x'; 400],
        created,
        expires: Timestamp::from_millis(number + 604_800_000),
        total: None,
        owner: None,
        dialect: "google".to_owned(),
    }
}
