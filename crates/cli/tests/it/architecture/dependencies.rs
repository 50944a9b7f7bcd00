//! docs/dependencies.md has each direct dependency of every workspace, and no other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::Table;

/// The folders that contain the folders with manifests.
const MANIFESTS: [&str; 3] = ["crates", "testing", "."];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The dependencies of all manifests but those on crates of ours.
fn direct() -> BTreeSet<String> {
    let folders = MANIFESTS.iter().flat_map(|folder| {
        let entries = std::fs::read_dir(root().join(folder)).expect("the folder is there");
        entries.map(|entry| entry.expect("it can be listed").path())
    });
    let manifests =
        folders.filter_map(|folder| std::fs::read_to_string(folder.join("Cargo.toml")).ok());
    let mut names = BTreeSet::new();
    for manifest in manifests {
        let manifest: Table = manifest.parse().expect("a manifest is TOML");
        names.extend(of_manifest(&manifest));
        let targets = manifest.get("target").and_then(|it| it.as_table());
        for target in targets.into_iter().flat_map(Table::values) {
            names.extend(of_manifest(target.as_table().expect("a target is a table")));
        }
    }
    names.retain(|name| !name.starts_with("windlass-"));
    names
}

fn of_manifest(manifest: &Table) -> impl Iterator<Item = String> {
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let tables = kinds
        .into_iter()
        .filter_map(|kind| manifest.get(kind)?.as_table());
    tables.flat_map(Table::keys).cloned()
}

/// The names in the first column of the table.
fn documented() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("docs/dependencies.md")).expect("it is there");
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let names = rows.flat_map(|column| column.split('`').skip(1).step_by(2));
    let is_folder = |name: &&str| ["examples", "fuzz"].contains(name) || name.contains('/');
    names
        .filter(|name| !is_folder(name))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_table_of_dependencies_has_each_and_no_other() {
    let (direct, documented) = (direct(), documented());
    assert!(direct.len() > 50, "{direct:?}");
    let missing: Vec<_> = direct.difference(&documented).collect();
    assert!(missing.is_empty(), "docs/dependencies.md lacks {missing:?}");
    let gone: Vec<_> = documented.difference(&direct).collect();
    assert!(gone.is_empty(), "docs/dependencies.md still has {gone:?}");
}
