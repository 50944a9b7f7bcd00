//! What a publisher relies on (RELEASING.md): placeholders occur where the list says, and the
//! workflows name exact versions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A text that stands for something that only the publisher knows.
struct Placeholder {
    text: &'static str,
    /// All files that have it until it is replaced.
    files: &'static [&'static str],
}

// `concat!` keeps the texts out of this file.
const PLACEHOLDERS: [Placeholder; 2] = [
    Placeholder {
        text: concat!("example.org", "/windlass"),
        files: &["Cargo.toml", "release/systemd/windlass.service"],
    },
    Placeholder {
        text: concat!("windlass", ".example"),
        files: &["SECURITY.md"],
    },
];

/// The file that says what replaces each placeholder.
const GUIDE: &str = "RELEASING.md";

/// The note next to each placeholder. `release/check` refuses a tree with one.
const NOTE: &str = concat!("RELEASING.md", "#before-the-first-release");

/// Folders that no commit contains.
const NOT_IN_COMMITS: [&str; 6] = [
    ".git",
    ".venv",
    "__pycache__",
    "node_modules",
    "target",
    "windlass-data",
];

/// Texts by their paths below the root of the repository.
type Tree = BTreeMap<String, String>;

fn repository() -> Tree {
    let mut tree = Tree::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    read_into(&mut tree, &root, "");
    tree
}

fn read_into(tree: &mut Tree, root: &Path, folder: &str) {
    for entry in std::fs::read_dir(root.join(folder)).expect("it can be read") {
        let entry = entry.expect("it can be read");
        let name = entry.file_name().into_string().expect("names are UTF-8");
        let kind = entry.file_type().expect("it has a type");
        let path = format!("{folder}{name}");
        if kind.is_dir() && !NOT_IN_COMMITS.contains(&name.as_str()) {
            read_into(tree, root, &format!("{path}/"));
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).expect("it can be read");
            tree.insert(path, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}

/// Returns the files of a tree that contain a text, without the guide.
fn files_with<'a>(tree: &'a Tree, text: &str) -> BTreeSet<&'a str> {
    let files = tree.iter().filter(|(_, content)| content.contains(text));
    let paths = files.map(|(path, _)| path.as_str());
    paths.filter(|path| *path != GUIDE).collect()
}

/// Returns what is wrong with the placeholders of a tree. Each of them is either in all of its
/// files or replaced in all of them.
fn mistakes(tree: &Tree) -> Vec<String> {
    let mut mistakes = Vec::new();
    let mut left = BTreeSet::new();
    for Placeholder { text, files } in &PLACEHOLDERS {
        let found = files_with(tree, text);
        if found.is_empty() {
            continue;
        }
        left.extend(found.iter().copied());
        let listed: BTreeSet<_> = files.iter().copied().collect();
        for path in found.difference(&listed) {
            mistakes.push(format!("{path} has {text}, and is not in the list"));
        }
        for path in listed.difference(&found) {
            mistakes.push(format!("{path} has no {text}, but {found:?} have it"));
        }
        let guide = tree.get(GUIDE).map_or("", String::as_str);
        let row = guide.lines().find(|line| line.contains(text));
        for path in *files {
            if !row.is_some_and(|row| row.contains(path)) {
                mistakes.push(format!("the row of {text} in {GUIDE} does not name {path}"));
            }
        }
    }
    let noted = files_with(tree, NOTE);
    for path in left.difference(&noted) {
        mistakes.push(format!("{path} has a placeholder, but no note {NOTE}"));
    }
    for path in noted.difference(&left) {
        mistakes.push(format!("{path} has the note {NOTE}, but no placeholder"));
    }
    mistakes
}

#[test]
fn placeholders_are_in_the_listed_files_or_replaced() {
    let mistakes = mistakes(&repository());
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// A tree with only the files of the placeholders and their guide.
fn unreplaced() -> Tree {
    let mut tree = Tree::new();
    let mut rows = Vec::new();
    for Placeholder { text, files } in &PLACEHOLDERS {
        rows.push(format!("| `{text}` | {} |", files.join(", ")));
        for path in *files {
            tree.insert((*path).to_owned(), format!("{text} # {NOTE}"));
        }
    }
    tree.insert(GUIDE.to_owned(), rows.join("\n"));
    tree
}

#[test]
fn a_tree_with_all_placeholders_replaced_has_no_mistakes() {
    let mut tree = unreplaced();
    assert_eq!(mistakes(&tree), Vec::<String>::new());
    for (path, content) in &mut tree {
        if path != GUIDE {
            *content = "the publisher's own".to_owned();
        }
    }
    assert_eq!(mistakes(&tree), Vec::<String>::new());
    tree.remove(GUIDE);
    assert_eq!(mistakes(&tree), Vec::<String>::new());
}

#[test]
fn each_mistake_with_a_placeholder_is_named() {
    let [repository, address] = &PLACEHOLDERS;
    let changed = |path: &str, content: &str| {
        let mut tree = unreplaced();
        tree.insert(path.to_owned(), content.to_owned());
        mistakes(&tree).join("\n")
    };
    let elsewhere = changed("docs/new.md", &format!("{} # {NOTE}", address.text));
    assert!(elsewhere.contains("docs/new.md has"), "{elsewhere}");
    let half = changed(repository.files[0], "replaced");
    assert!(half.contains("Cargo.toml has no"), "{half}");
    let without_note = changed(address.files[0], address.text);
    assert!(without_note.contains("no note"), "{without_note}");
    let note_alone = changed(address.files[0], NOTE);
    assert!(note_alone.contains("no placeholder"), "{note_alone}");
    let not_in_guide = changed(GUIDE, "");
    assert!(
        not_in_guide.contains("does not name SECURITY.md"),
        "{not_in_guide}"
    );
}

/// The texts behind a key of YAML, without quotes and comments.
fn values<'a>(workflow: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    workflow.lines().filter_map(move |line| {
        let line = line.trim_start().trim_start_matches("- ");
        line.strip_prefix(key)?.strip_prefix(": ")
    })
}

#[test]
fn workflows_pin_actions_images_and_the_compiler() {
    let tree = repository();
    let workflows: Vec<_> = tree
        .iter()
        .filter(|(path, _)| path.starts_with(".github/workflows/"))
        .collect();
    assert!(!workflows.is_empty());
    let guide = &tree[GUIDE];
    for (path, workflow) in workflows {
        assert!(workflow.contains("\npermissions:\n  contents: read\n"));
        for action in values(workflow, "uses") {
            let (_, pin) = action.split_once('@').expect("an action has a version");
            let (commit, version) = pin.split_once(" # v").unwrap_or((pin, ""));
            let is_commit = commit.len() == 40 && commit.bytes().all(|it| it.is_ascii_hexdigit());
            assert!(is_commit && !version.is_empty(), "{path}: {action}");
        }
        let images = values(workflow, "image").map(|image| {
            assert!(image.contains("@sha256:"), "{path}: {image}");
            let tag = image.strip_prefix("rust:").expect("an image of Rust");
            tag.split('-').next().unwrap_or_default()
        });
        let toolchains = values(workflow, "RUSTUP_TOOLCHAIN");
        for compiler in images.chain(toolchains) {
            let tested = guide.contains(&format!("rustc {compiler} stable"));
            assert!(tested, "{path}: rustc {compiler} is not that of {GUIDE}");
        }
    }
}
