//! How much work tests make of a rule: a little in every run, a lot on demand.

use std::env;

/// Set to `1`, tests that try many cases try many more.
pub const LONG: &str = "WINDLASS_LONG";

/// Names the one case that is to be tried, as a failure told it.
pub const CASE: &str = "WINDLASS_CASE";

/// How many times more cases are tried when time does not matter.
const MORE: u32 = 20;

/// Whether time does not matter.
pub fn is_long() -> bool {
    env::var_os(LONG).is_some_and(|value| value == "1")
}

/// How many random cases to try.
pub fn cases(usual: u32) -> u32 {
    if is_long() { usual * MORE } else { usual }
}

/// Whether this case is to be tried: all are, unless one is named.
pub fn is_wanted(case: &str) -> bool {
    env::var(CASE).map_or(true, |wanted| wanted == case)
}

/// Whether a single case is named, so that all further cases are left out.
pub fn is_single() -> bool {
    env::var_os(CASE).is_some()
}
