//! Decisions of a session about requests and pieces of bodies.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput};
use windlass_proto::command::{BodyLength, SessionAction, SessionRequest};
use windlass_proto::content_range::ContentRange;
use windlass_proto::session::{BodyFilter, Rules, Snapshot, State, step};

const CHUNK: u64 = 8 << 20;

pub(crate) fn benchmarks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("session");
    let snapshot = Snapshot {
        state: State::Active,
        offset: CHUNK,
        total: Some(4 * CHUNK),
    };
    let requests = [
        ("query", "bytes */*", 0),
        ("chunk", "bytes 8388608-16777215/33554432", CHUNK),
        ("last chunk", "bytes 8388608-33554431/33554432", 3 * CHUNK),
        ("gap", "bytes 16777216-33554431/33554432", 2 * CHUNK),
    ];
    for (name, range, length) in requests {
        let request = SessionRequest {
            action: SessionAction::Ranged(ContentRange::parse(range.as_bytes()).map(Some)),
            body: BodyLength::Exact(length),
        };
        group.bench_with_input(
            BenchmarkId::new("step", name),
            &request,
            |bencher, request| {
                bencher.iter(|| step(black_box(&snapshot), &Rules::default(), black_box(request)));
            },
        );
    }

    let piece = Bytes::from(vec![0; 64 << 10]);
    let pieces = CHUNK / piece.len() as u64;
    group.throughput(Throughput::Elements(pieces));
    group.bench_function("intake of 128 pieces", |bencher| {
        bencher.iter(|| {
            let mut intake = BodyFilter::single_request(None, BodyLength::Exact(CHUNK))?;
            (0..pieces).try_for_each(|_| intake.accept(piece.clone()).map(drop))
        });
    });
    group.finish();
}
