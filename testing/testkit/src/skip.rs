//! Tests that a machine cannot carry out.
//!
//! A test that returns early passes, and its output is captured: nobody sees that a rule went
//! untested. So each test names the missing thing by [`skipped`], which fails where `NO_SKIP` is
//! set. Where skipping is allowed, `.ci/run` lists the test. Neither variable begins with `WINDLASS_`: a
//! server would warn of it, and tests read what a server says.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

/// The variable of the environment that forbids to skip.
pub const NO_SKIP: &str = "NO_SKIP";

/// The variable that names a list of what is skipped, for `.ci/run`.
const LIST: &str = "SKIPPED_LIST";

/// Says that a test is skipped because the machine lacks something.
///
/// # Panics
/// If `NO_SKIP` is set to something, or the list cannot be written.
#[track_caller]
#[expect(
    clippy::print_stderr,
    reason = "a person who runs the test alone sees why it was skipped"
)]
pub fn skipped(lacks: &str) {
    let forbidden = std::env::var_os(NO_SKIP).is_some_and(|value| !value.is_empty());
    assert!(!forbidden, "{lacks}, and {NO_SKIP} is set");
    let line = format!("SKIPPED: {lacks}\n");
    eprint!("{line}");
    if let Some(list) = std::env::var_os(LIST) {
        append(Path::new(&list), &line);
    }
}

fn append(list: &Path, line: &str) {
    let file = File::options().append(true).create(true).open(list);
    let mut file = file.expect("the list can be opened");
    // One write, so that lines of several tests do not mix.
    file.write_all(line.as_bytes())
        .expect("the list can be written");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_that_are_skipped_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = folder.path().join("list");
        append(&list, "SKIPPED: one\n");
        append(&list, "SKIPPED: two\n");
        let text = std::fs::read_to_string(list).expect("it is there");
        assert_eq!(text, "SKIPPED: one\nSKIPPED: two\n");
    }
}
