//! The walls of the house: which crate may know which (ARCHITECTURE.md).

use std::path::Path;

use crate::server::program;

/// Each crate with the crates of the house that it may depend on.
const MAY_KNOW: [(&str, &[&str]); 12] = [
    ("proto", &[]),
    ("discovery", &[]),
    ("store", &["proto"]),
    ("store-local", &["proto", "store"]),
    ("server", &["discovery", "proto", "store"]),
    ("apis", &["discovery", "server", "store"]),
    ("client", &["proto"]),
    (
        "cli",
        &["apis", "client", "discovery", "server", "store-local"],
    ),
    ("testkit", &[]),
    ("bench", &[]),
    ("proof", &["store", "store-local", "testkit"]),
    ("guard", &["testkit"]),
];

/// The crates of the house that a manifest names as dependencies; those of its tests do not count.
fn dependencies(name: &str) -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("it is in crates/");
    let manifest = std::fs::read_to_string(crates.join(name).join("Cargo.toml"));
    let manifest = manifest.expect("every crate has a manifest");
    let (_, rest) = manifest
        .split_once("\n[dependencies]\n")
        .expect("and dependencies");
    let section = rest.split("\n[").next().unwrap_or_default();
    let ours = section
        .lines()
        .filter_map(|line| line.strip_prefix("windlass-"));
    ours.map(|line| {
        line.split(['.', ' ', '='])
            .next()
            .unwrap_or_default()
            .to_owned()
    })
    .collect()
}

#[test]
fn arrows_only_point_down() {
    for (name, may_know) in MAY_KNOW {
        for dependency in dependencies(name) {
            assert!(
                may_know.contains(&dependency.as_str()),
                "{name} must not know {dependency}"
            );
        }
    }
}

#[test]
fn the_protocol_needs_neither_a_runtime_nor_a_clock_nor_randomness() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).expect("proto has a manifest");
    for absent in ["tokio", "hyper", "rand", "getrandom", "async"] {
        assert!(!manifest.contains(absent), "proto must not know {absent}");
    }
}

#[test]
fn no_crate_has_unsafe_code() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(workspace.join(path)).expect("it is there");
    assert!(read("Cargo.toml").contains("unsafe_code = \"forbid\""));
    for (name, _) in MAY_KNOW {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name}");
    }
}

/// The variable is named only where it is read.
#[cfg(not(feature = "failpoints"))]
#[test]
fn a_binary_that_was_not_built_for_the_proof_has_no_failpoints() {
    let binary = std::fs::read(program()).expect("it was built");
    let has = |text: &[u8]| binary.windows(text.len()).any(|window| window == text);
    assert!(has(b"WINDLASS_JOURNAL"));
    assert!(!has(b"WINDLASS_FAILPOINT"));
}
