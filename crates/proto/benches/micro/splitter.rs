//! The multipart splitter, compared with the bare search that it is based on. The difference is the
//! cost of its states.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput};
use memchr::memmem::Finder;
use windlass_proto::related::{Boundary, RelatedLimits, Splitter, ThirdPart};

use crate::noise;

const MIB: usize = 1 << 20;

/// Length of the media.
const LEN: usize = 4 * MIB;

/// Size of pushed pieces, as read from a socket.
const PIECE: usize = 64 << 10;

/// A boundary as libraries generate it.
const BOUNDARY: &str = "===============7330845974216740156==";

pub(crate) fn benchmarks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("splitter");
    group.throughput(Throughput::Bytes(LEN as u64));
    let lines = b"a line of text, as in a message\r\n".repeat(LEN / 32);
    // All but the last byte of a delimiter, repeated.
    let near = format!("\r\n--{}", &BOUNDARY[..BOUNDARY.len() - 1]).repeat(LEN / 38);
    let medias = [
        ("noise", noise(LEN)),
        ("lines", lines),
        ("near misses", near.into_bytes()),
    ];
    for (name, mut media) in medias {
        media.resize(LEN, b' ');
        let media = Bytes::from(media);
        group.bench_with_input(BenchmarkId::new("split", name), &media, |bencher, media| {
            bencher.iter(|| split(media));
        });
        let finder = Finder::new("\n--===============7330845974216740156==");
        group.bench_with_input(
            BenchmarkId::new("memmem", name),
            &media,
            |bencher, media| {
                bencher
                    .iter(|| pieces(media).all(|piece| finder.find(black_box(&piece)).is_none()));
            },
        );
    }
    group.finish();
}

fn split(media: &Bytes) -> usize {
    let kind = format!("multipart/related; boundary=\"{BOUNDARY}\"");
    let boundary = Boundary::from_content_type(kind.as_bytes()).expect("it is valid");
    let mut splitter = Splitter::new(boundary, RelatedLimits::default(), ThirdPart::Refused);
    let head = format!("--{BOUNDARY}\r\n\r\n{{}}\r\n--{BOUNDARY}\r\n\r\n");
    let tail = format!("\r\n--{BOUNDARY}--");
    let mut found = Vec::new();
    let mut count = 0;
    let whole = [Bytes::from(head)].into_iter().chain(pieces(media));
    for piece in whole.chain([Bytes::from(tail)]) {
        splitter.push(piece, &mut found).expect("it is well formed");
        count += found.len();
        found.clear();
    }
    splitter.finish().expect("it is complete");
    count
}

fn pieces(media: &Bytes) -> impl Iterator<Item = Bytes> {
    (0..media.len())
        .step_by(PIECE)
        .map(|start| media.slice(start..(start + PIECE).min(media.len())))
}
