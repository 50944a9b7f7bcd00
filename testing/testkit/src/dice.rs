//! Chance that follows from a seed.

use std::ops::Range;

/// A generator of numbers: the same seed gives the same numbers (splitmix64).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice whose throws follow from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Dice of their own for the `index`th of many, far from those of its neighbours.
    #[must_use]
    pub fn fork(&self, index: u64) -> Self {
        let mut fork = Self(self.0 ^ index.wrapping_mul(0xd134_2543_de82_ef95));
        fork.throw();
        fork
    }

    /// The next number.
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of a range that is not empty.
    #[track_caller]
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.throw() % (range.end - range.start)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.within(0..times) == 0
    }

    /// One of a list that is not empty.
    #[track_caller]
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let index = self.within(0..from.len() as u64);
        &from[usize::try_from(index).expect("an index")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_others() {
        let throws = |seed| {
            let mut dice = Dice::new(seed);
            [dice.throw(), dice.throw(), dice.within(5..9)]
        };
        assert_eq!(throws(1), throws(1));
        assert_ne!(throws(1), throws(2));
        assert_ne!(Dice::new(1).fork(0).throw(), Dice::new(1).fork(1).throw());
    }

    #[test]
    fn every_number_of_a_range_comes_up() {
        let mut dice = Dice::new(7);
        let mut seen = [false; 4];
        for _ in 0..200 {
            seen[usize::try_from(dice.within(3..7)).unwrap() - 3] = true;
        }
        assert_eq!(seen, [true; 4]);
    }
}
