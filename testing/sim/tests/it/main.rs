//! The simulation, checked against its own documentation.

use std::path::Path;
use std::process::{Command, Output};

/// Seeds that every run of the tests tries.
const SEEDS: u64 = 40;

fn sim(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_windlass-sim");
    let output = Command::new(program).args(arguments).output();
    output.expect("the program can be run")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn no_seed_breaks_a_rule() {
    let output = sim(&["--seeds", &SEEDS.to_string()]);
    assert!(output.status.success(), "{}", text(&output));
}

/// The events go to the standard error output, with their times and the sums of all bytes.
#[test]
fn a_seed_run_again_gives_the_same_trace() {
    for seed in 0..12 {
        let arguments = ["--seed", &seed.to_string(), "--trace"];
        let (first, second) = (sim(&arguments), sim(&arguments));
        assert!(first.stderr.len() > 1000, "seed {seed} has events");
        assert!(first == second, "seed {seed} has two traces");
    }
}

#[test]
fn seeds_have_different_traces() {
    assert_ne!(sim(&["--seed", "1"]).stdout, sim(&["--seed", "2"]).stdout);
}

/// Checks that the simulation finds a defect that it must find.
fn finds(disk: &str, seeds: u64, rule: &str) {
    let output = sim(&["--seeds", &seeds.to_string(), "--disk", disk]);
    assert!(
        !output.status.success(),
        "a disk that {disk} goes unnoticed"
    );
    let said = text(&output);
    assert!(said.contains(rule), "{said}");
    assert!(
        said.contains(&format!("--trace --disk {disk}")),
        "the command is told: {said}"
    );
}

#[test]
fn media_that_is_not_synced_is_found_out() {
    finds("forgets-media", SEEDS, "the session is not known any more");
}

#[test]
fn names_that_are_not_synced_are_found_out() {
    finds("forgets-names", SEEDS, "which are not there");
}

#[test]
fn a_ledger_that_is_not_synced_is_found_out() {
    finds("forgets-ledger", SEEDS, "rule 1: ");
}

#[test]
fn a_ledger_that_is_ahead_of_the_media_is_found_out() {
    // It takes a cut at the one wrong moment.
    finds("syncs-media-late", 100, "the session is not known any more");
}

/// Each line of `seeds/kept.txt` is a seed and its violation.
#[test]
fn seeds_that_found_something_find_it_no_more() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds/kept.txt");
    let kept = std::fs::read_to_string(path).unwrap();
    let lines = kept.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let seed = line.split_whitespace().next().unwrap_or_default();
        let output = sim(&["--seed", seed]);
        assert!(output.status.success(), "{line}: {}", text(&output));
    }
}
