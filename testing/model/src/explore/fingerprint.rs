//! A fingerprint: 128 bits that stand for a state. If the bits are as good as random, two of 100
//! million states have the same fingerprint with a probability of about 10^-23. The search
//! would then miss one of the two states.

use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::state::State;

/// 2^64 divided by the golden ratio, made odd. A multiplication with it spreads bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The search keeps this much of each state that it has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fingerprint {
    high: u64,
    low: u64,
}

/// The hasher of a set of fingerprints.
pub(crate) type FingerprintHasher = BuildHasherDefault<HalfOfFingerprint>;

impl Fingerprint {
    pub(crate) fn of(state: &State) -> Self {
        let mut mixer = Mixer {
            high: 1,
            low: 0xDEAD_BEEF_0BAD_CAFE,
        };
        state.hash(&mut mixer);
        Self {
            high: mixer.high,
            low: mixer.low,
        }
    }
}

impl Hash for Fingerprint {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.low);
    }
}

/// Mixes all fields of a state into both halves of a fingerprint.
struct Mixer {
    high: u64,
    low: u64,
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.low
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.high = mix(self.high, value);
        self.low = mix(self.low, value);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

fn mix(state: u64, value: u64) -> u64 {
    (state.rotate_left(23) ^ value).wrapping_mul(SPREAD) ^ state >> 29
}

/// Hashes one half of a fingerprint. One round is enough, because its bits are mixed already.
#[derive(Debug, Default)]
pub(crate) struct HalfOfFingerprint(u64);

impl Hasher for HalfOfFingerprint {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0, value);
    }
}
