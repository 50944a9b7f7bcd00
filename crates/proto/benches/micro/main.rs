//! The cost of the protocol without sockets, disks and threads.

mod heads;
mod sessions;
mod splitter;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    protocol,
    heads::benchmarks,
    sessions::benchmarks,
    splitter::benchmarks
);
criterion_main!(protocol);

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
