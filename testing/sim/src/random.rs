//! Numbers that follow from the seed.

/// A generator (`SplitMix64`). The same seed gives the same numbers, on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The generator of a seed for one purpose. Generators of other purposes do not disturb it: a thread
    /// more does not change the faults.
    pub(crate) const fn new(seed: u64, purpose: u64) -> Self {
        let mut random = Self(seed ^ purpose.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        random.next();
        random
    }

    /// 64 bits.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number from 0 to `end - 1`; 0 when `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }

    /// A number of a range, its end not included.
    pub(crate) fn within(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// Whether something happens that happens once in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these, of which there must be one.
    pub(crate) fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        let index = usize::try_from(self.below(among.len() as u64)).expect("an index");
        among[index]
    }

    /// Fills a buffer.
    pub(crate) fn fill(&mut self, buf: &mut [u8]) {
        for piece in buf.chunks_mut(8) {
            piece.copy_from_slice(&self.next().to_le_bytes()[..piece.len()]);
        }
    }
}
