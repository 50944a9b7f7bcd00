//! Digests, alone and as in an upload.

use std::hint::black_box;
use std::thread;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use windlass_digest::{Crc32c, Crc32cHasher, Md5Sha256Hasher, Wanted};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Size of reads from a socket, and of writes.
const PIECE: usize = 64 * KIB;
const BATCH: usize = MIB;

const MD5: Wanted = Wanted {
    md5: true,
    sha256: false,
};
const SHA256: Wanted = Wanted {
    md5: false,
    sha256: true,
};

criterion_group!(digests, benchmarks);
criterion_main!(digests);

fn benchmarks(criterion: &mut Criterion) {
    alone(criterion);
    of_an_upload(criterion);
}

fn alone(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("digest");
    for size in [4 * KIB, 16 * KIB, PIECE, BATCH] {
        let data = noise(size);
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_with_input(BenchmarkId::new("crc32c", size), &data, |bencher, data| {
            bencher.iter(|| crc32c(black_box(data)));
        });
        for (name, wanted) in [("md5", MD5), ("sha256", SHA256)] {
            group.bench_with_input(BenchmarkId::new(name, size), &data, |bencher, data| {
                bencher.iter(|| slow(wanted, black_box(data)));
            });
        }
    }
    group.throughput(Throughput::Elements(1));
    // Of the bytes before a checkpoint, and of those after it.
    for (name, first) in [
        ("after nothing", Crc32c(0)),
        ("after a checkpoint", Crc32c(0x1234_5678)),
    ] {
        group.bench_with_input(
            BenchmarkId::new("combine", name),
            &first,
            |bencher, first| {
                bencher.iter(|| black_box(*first).combine(Crc32c(0x9abc_def0), black_box(4096)));
            },
        );
    }
    group.finish();
}

/// CRC32C in line, piece by piece; MD5 and SHA-256 on another thread, batch by batch.
fn of_an_upload(criterion: &mut Criterion) {
    let data = noise(4 * MIB);
    let mut group = criterion.benchmark_group("digests of an upload");
    group.throughput(Throughput::Bytes(data.len() as u64));
    group.bench_function("crc32c", |bencher| bencher.iter(|| in_line(&data)));
    for (name, wanted) in [("crc32c beside md5", MD5), ("crc32c beside sha256", SHA256)] {
        group.bench_function(name, |bencher| bencher.iter(|| in_parallel(wanted, &data)));
    }
    group.finish();
}

fn crc32c(data: &[u8]) -> u32 {
    let mut hasher = Crc32cHasher::default();
    hasher.update(data);
    hasher.value().0
}

fn slow(wanted: Wanted, data: &[u8]) -> Md5Sha256Hasher {
    let mut hasher = Md5Sha256Hasher::new(wanted);
    hasher.update(data);
    hasher
}

fn in_line(data: &[u8]) -> u32 {
    let mut hasher = Crc32cHasher::default();
    data.chunks(PIECE).for_each(|piece| hasher.update(piece));
    hasher.value().0
}

fn in_parallel(wanted: Wanted, data: &[u8]) -> (u32, Md5Sha256Hasher) {
    thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let mut hasher = Md5Sha256Hasher::new(wanted);
            data.chunks(BATCH).for_each(|batch| hasher.update(batch));
            hasher
        });
        let crc32c = in_line(data);
        (crc32c, slow.join().expect("it does not panic"))
    })
}

/// Returns bytes in which every value occurs, without a pattern.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(len).collect()
}
