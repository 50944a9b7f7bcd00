//! 128 bits that stand for a state. With 100 million states two of them are equal by chance with a
//! probability of 10^-23, if the bits are as good as random.

use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::state::State;

/// The odd constant of 2^64 divided by the golden ratio, which spreads bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// What is kept of a state that was seen.
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

/// Takes the fingerprint as it is: its bits are mixed already.
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
