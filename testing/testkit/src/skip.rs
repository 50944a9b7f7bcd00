//! Tests that a machine cannot carry out.
//!
//! A test that returns early passes, and its output is captured: nobody sees that a rule went
//! untested. So each says what is missing by [`skipped`], which fails where `WINDLASS_NO_SKIP` is
//! set.

/// The variable of the environment that forbids to skip.
pub const NO_SKIP: &str = "WINDLASS_NO_SKIP";

/// Says that a test is skipped because the machine lacks something.
///
/// # Panics
/// If `WINDLASS_NO_SKIP` is set to something.
#[track_caller]
pub fn skipped(lacks: &str) {
    let forbidden = std::env::var_os(NO_SKIP).is_some_and(|value| !value.is_empty());
    assert!(!forbidden, "{lacks}, and {NO_SKIP} is set");
    eprintln!("SKIPPED: {lacks}");
}
