//! Random numbers that follow from a seed.

use std::ops::Range;

/// A generator (splitmix64). The same seed gives the same numbers, on every machine.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The generator of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The generator of `seed` for one purpose. Generators of other purposes do not disturb it: one
    /// more draw of one of them changes nothing here.
    pub const fn for_purpose(seed: u64, purpose: u64) -> Self {
        let mut rng = Self(seed ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        rng.next_u64();
        rng
    }

    /// A separate generator for the `index`th of many, far from its neighbours' generators.
    #[must_use]
    pub fn fork(&self, index: u64) -> Self {
        let mut fork = Self(self.0 ^ index.wrapping_mul(0xd134_2543_de82_ef95));
        fork.next_u64();
        fork
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number from 0 to `end - 1`; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64().checked_rem(end).unwrap_or(0)
    }

    /// A number of a range; its start when the range is empty.
    #[track_caller]
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One element of a list that is not empty.
    #[track_caller]
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let index = self.below(from.len() as u64);
        from[usize::try_from(index).expect("an index")]
    }

    /// Fills a buffer.
    pub fn fill(&mut self, buf: &mut [u8]) {
        for piece in buf.chunks_mut(8) {
            piece.copy_from_slice(&self.next_u64().to_le_bytes()[..piece.len()]);
        }
    }
}

/// The distance of two successive states.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of a state.
pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_same_numbers_and_other_seeds_give_others() {
        let draws = |seed| {
            let mut rng = Rng::new(seed);
            [rng.next_u64(), rng.next_u64(), rng.within(5..9)]
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        assert_ne!(
            Rng::new(1).fork(0).next_u64(),
            Rng::new(1).fork(1).next_u64()
        );
        assert_ne!(
            Rng::for_purpose(1, 0).next_u64(),
            Rng::for_purpose(1, 1).next_u64()
        );
    }

    #[test]
    fn every_number_of_a_range_is_drawn() {
        let mut rng = Rng::new(7);
        let mut seen = [false; 4];
        for _ in 0..200 {
            seen[usize::try_from(rng.within(3..7)).unwrap() - 3] = true;
        }
        assert_eq!(seen, [true; 4]);
    }
}
