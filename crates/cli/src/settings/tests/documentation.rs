//! docs/configuration.md agrees with the code: the same settings with the same defaults.

use std::collections::BTreeSet;

use clap::CommandFactory as _;

use super::*;
use crate::args::Args;

const DOCUMENT: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/configuration.md"
));

/// The lines with content, without comments.
pub(super) fn without_comments(toml: &str) -> Vec<&str> {
    let lines = toml
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).collect()
}

/// The flags of `windlass serve` that set something, with their dashes.
fn flags() -> BTreeSet<String> {
    let command = Args::command();
    let serve = command.find_subcommand("serve").expect("the command");
    let names = serve.get_arguments().filter_map(clap::Arg::get_long);
    names
        .filter(|name| *name != "help")
        .map(|name| format!("--{name}"))
        .collect()
}

/// A key of the reference: its heading, a paragraph with type, default and flag, and its effect.
struct Entry {
    key: &'static str,
    facts: String,
    effect: &'static str,
}

fn entries() -> impl Iterator<Item = Entry> {
    let headings = DOCUMENT.split("\n#### `").skip(1);
    headings.map(|entry| {
        let (key, rest) = entry.split_once("`\n\n").expect("a key and its text");
        let (facts, effect) = rest.split_once("\n\n").expect("an effect");
        Entry {
            key,
            facts: facts.replace('\n', " "),
            effect,
        }
    })
}

impl Entry {
    /// Returns the code behind a name such as `Default: `.
    fn fact(&self, name: &str) -> Option<&str> {
        let (_, rest) = self.facts.split_once(name)?;
        let (code, _) = rest.strip_prefix('`')?.split_once('`')?;
        Some(code)
    }
}

#[test]
fn the_reference_has_every_key_with_its_flag_and_default() {
    let documented = entries().map(|entry| {
        // Without the flag's value.
        let flag = entry
            .fact(" Flag: ")
            .and_then(|flag| flag.split(' ').next());
        let default = entry.fact(" Default: ");
        [
            entry.key,
            flag.unwrap_or_default(),
            default.unwrap_or("none"),
        ]
        .map(str::to_owned)
    });
    let defaults = Settings::default();
    let expected = KEYS.iter().map(|key| {
        let flag = key.flag.map(|flag| format!("--{flag}")).unwrap_or_default();
        let default = key.show(&defaults).unwrap_or_else(|| "none".to_owned());
        let default = default.trim_matches(['[', ']', '"']);
        // The form of a list in a variable.
        let default = default.replace("\", \"", ",");
        [key.name.to_owned(), flag, default]
    });
    assert_eq!(documented.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn every_key_has_a_type_and_an_effect() {
    for entry in entries() {
        assert!(entry.facts.starts_with("Type: "), "{}", entry.key);
        assert!(!entry.effect.starts_with(['#', '*']), "{}", entry.key);
    }
}

#[test]
fn the_small_file_sets_ten_keys() {
    let (_, section) = DOCUMENT
        .split_once("## Ten keys to start with\n")
        .expect("the section");
    let (_, file) = section.split_once("```toml\n").expect("a file");
    let (file, table) = file.split_once("```").expect("the end of the file");
    let merged = merge_file(file).expect("a configuration file");
    assert_eq!(merged.origins.len(), 10);
    let (table, _) = table.split_once("```").expect("the next block");
    for key in merged.origins.keys() {
        assert!(table.contains(&format!("[`{key}`]")), "{key}");
    }
}

#[test]
fn the_flags_that_are_mentioned_are_those_that_exist() {
    let words = DOCUMENT.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
    let mentioned = words.filter(|word| word.trim_start_matches('-').len() + 2 == word.len());
    let mentioned: BTreeSet<_> = mentioned.map(str::to_owned).collect();
    let mut known = flags();
    known.insert("--port".to_owned());
    assert_eq!(mentioned, known);
}

#[test]
fn the_flags_of_the_keys_are_those_that_exist() {
    let others = ["--config", "--check-config"].map(str::to_owned);
    let of_keys = KEYS
        .iter()
        .filter_map(|key| Some(format!("--{}", key.flag?)));
    assert_eq!(of_keys.chain(others).collect::<BTreeSet<_>>(), flags());
}
