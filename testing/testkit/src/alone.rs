//! Tests that run again in a separate process, because they change state of the whole process.

use std::process::Command;

/// Runs the test `name` of the same program in a separate process, with `variable` set.
///
/// ```no_run
/// # fn what_needs_a_process() {}
/// const ALONE: &str = "TEST_OF_LIMITS";
/// if std::env::var_os(ALONE).is_some() {
///     return what_needs_a_process();
/// }
/// windlass_testkit::alone::run("limits::tests::limit_of_a_process", ALONE);
/// ```
///
/// # Panics
/// If the test fails, or none has this name.
#[track_caller]
pub fn run(name: &str, variable: &str) {
    let program = std::env::current_exe().expect("it has a path");
    run_by(Command::new(program), name, variable);
}

/// Like [`run`], with a command that receives the arguments of the test program.
#[track_caller]
pub fn run_by(mut command: Command, name: &str, variable: &str) {
    command.args([name, "--exact"]).env(variable, "1");
    let output = command.output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    // A test program without a test of this name succeeds.
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{name}: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
