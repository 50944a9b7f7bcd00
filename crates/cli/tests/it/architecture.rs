//! The layers of the workspace (ARCHITECTURE.md): which crate may depend on which, and that the
//! modules of a crate have an order.

mod dependencies;
mod modules;
mod tokens;

use std::path::{Path, PathBuf};

/// Each crate with the crates of the workspace that it may depend on.
const LAYERS: [(&str, &[&str]); 21] = [
    ("digest", &[]),
    ("session", &[]),
    ("proto", &["digest", "session"]),
    ("discovery", &[]),
    ("store", &["digest"]),
    ("store-local", &["digest", "store"]),
    ("store-cloud", &["digest", "store"]),
    ("engine", &["digest", "session", "store"]),
    ("rest", &["digest", "discovery", "engine", "proto", "store"]),
    (
        "server",
        &["digest", "discovery", "engine", "proto", "rest", "store"],
    ),
    ("acme", &["proto", "server"]),
    ("apis", &["discovery", "rest", "store"]),
    ("auth", &["discovery", "server", "store"]),
    ("outbound", &["rest"]),
    (
        "embed",
        &["acme", "discovery", "outbound", "server", "store-local"],
    ),
    ("client", &["digest", "proto"]),
    (
        "cli",
        &[
            "acme",
            "apis",
            "auth",
            "client",
            "discovery",
            "outbound",
            "server",
            "store-local",
        ],
    ),
    ("../testing/testkit", &[]),
    ("../testing/chaos", &["store", "store-local", "testkit"]),
    ("../testing/model", &[]),
    ("../testing/perf", &["testkit"]),
];

/// The crates of the workspace that a manifest names as dependencies. Dev-dependencies do not
/// count.
fn all_dependencies(name: &str) -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("it is in crates/");
    let manifest = std::fs::read_to_string(crates.join(name).join("Cargo.toml"));
    let manifest = manifest.expect("every crate has a manifest");
    let (_, rest) = manifest
        .split_once("\n[dependencies]\n")
        .expect("and dependencies");
    let section = rest.split("\n[").next().unwrap_or_default();
    let names = section.lines().map(|line| {
        let name = line.split(['.', ' ', '=']).next();
        name.unwrap_or_default().to_owned()
    });
    names.collect()
}

/// The crates of the workspace among the dependencies of a crate.
fn dependencies(name: &str) -> Vec<String> {
    let all = all_dependencies(name).into_iter();
    all.filter_map(|name| Some(name.strip_prefix("windlass-")?.to_owned()))
        .collect()
}

#[test]
fn crates_depend_only_on_lower_layers() {
    for (name, allowed) in LAYERS {
        for dependency in dependencies(name) {
            assert!(
                allowed.contains(&dependency.as_str()),
                "{name} must not depend on {dependency}"
            );
        }
    }
}

#[test]
fn proto_depends_on_no_runtime_clock_or_randomness() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).expect("proto has a manifest");
    for absent in ["tokio", "hyper", "rand", "getrandom", "async"] {
        assert!(
            !manifest.contains(absent),
            "proto must not depend on {absent}"
        );
    }
}

#[test]
fn digests_stores_and_engine_know_no_http_and_no_json() {
    for name in [
        "digest",
        "session",
        "store",
        "store-local",
        "store-cloud",
        "engine",
    ] {
        for dependency in all_dependencies(name) {
            let is_absent = !["http", "hyper", "serde_json"].contains(&dependency.as_str());
            assert!(is_absent, "{name} must not depend on {dependency}");
        }
    }
}

/// The crates of the product. Tools for tests and measurements may be less strict.
const PRODUCT: [&str; 16] = [
    "digest",
    "session",
    "proto",
    "discovery",
    "store",
    "store-local",
    "store-cloud",
    "engine",
    "rest",
    "server",
    "acme",
    "apis",
    "auth",
    "outbound",
    "client",
    "cli",
];

#[test]
fn modules_of_a_crate_form_no_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let circles_in = |name: &str| {
        let sources = modules::read_sources(&crates.join(name).join("src"));
        assert!(!sources.is_empty(), "{name} has no sources");
        modules::circles(&sources)
            .into_iter()
            .map(move |circle| format!("{name}: {circle}"))
            .collect::<Vec<_>>()
    };
    let found: Vec<_> = PRODUCT.into_iter().flat_map(circles_in).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// A file that no module declares is not compiled: its tests never run, and no tool reports it.
#[test]
fn each_source_file_is_declared_as_a_module() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let roots = PRODUCT.into_iter().flat_map(|name| {
        [
            ("src", "lib.rs"),
            ("src", "main.rs"),
            ("tests/it", "main.rs"),
        ]
        .map(|(folder, root)| crates.join(name).join(folder).join(root))
    });
    let mut undeclared = Vec::new();
    for root in roots.filter(|root| root.is_file()) {
        let folder = root.parent().expect("it is in a folder");
        find_undeclared(folder, &root, &mut undeclared);
    }
    assert!(undeclared.is_empty(), "{undeclared:#?}");
}

/// Adds the files in a folder that the source of its module does not declare, and those further
/// inside.
fn find_undeclared(folder: &Path, module: &Path, undeclared: &mut Vec<PathBuf>) {
    let text = |path: &Path| std::fs::read_to_string(path).expect("it is text");
    let mut declaring = text(module);
    // A crate with a library and a program has two roots.
    for root in ["lib.rs", "main.rs"].map(|root| folder.join(root)) {
        if root.is_file() {
            declaring.push_str(&text(&root));
        }
    }
    for entry in std::fs::read_dir(folder).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        let is_source = path.extension().is_some_and(|it| it == "rs");
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.expect("the names of sources are UTF-8");
        if !is_source || ["lib", "main"].contains(&name) {
            continue;
        }
        if !declaring.contains(&format!("mod {name};")) {
            undeclared.push(path.clone());
        }
        let inside = folder.join(name);
        if inside.is_dir() {
            find_undeclared(&inside, &path, undeclared);
        }
    }
}

#[test]
fn every_crate_forbids_unsafe_code() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(workspace.join(path)).expect("it is there");
    for root in ["Cargo.toml", "testing/Cargo.toml"] {
        assert!(read(root).contains("unsafe_code = \"forbid\""), "{root}");
    }
    for (name, _) in LAYERS {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name}");
    }
}

/// The variable is named only where it is read.
#[cfg(not(feature = "failpoints"))]
#[test]
fn binary_without_the_failpoints_feature_has_no_failpoints() {
    let binary = std::fs::read(crate::server::program()).expect("it was built");
    let has = |text: &[u8]| binary.windows(text.len()).any(|window| window == text);
    assert!(has(b"WINDLASS_JOURNAL"));
    assert!(!has(b"WINDLASS_FAILPOINT"));
}
