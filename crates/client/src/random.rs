//! Random numbers, drawn again each time.

/// 32 random bits.
pub(crate) fn random() -> u32 {
    getrandom::u32().expect("the system has random numbers")
}
