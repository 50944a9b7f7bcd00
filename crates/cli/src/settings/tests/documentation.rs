//! docs/configuration.md says what the code does: no setting more, none less, no other default.

use std::collections::BTreeSet;

use clap::CommandFactory as _;

use super::*;
use crate::args::Args;

const DOCUMENT: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/configuration.md"
));

/// The lines that say something, without what follows `#`.
pub(super) fn without_comments(toml: &str) -> Vec<&str> {
    let lines = toml
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).collect()
}

/// The example of a complete file.
fn example() -> &'static str {
    let (_, section) = DOCUMENT
        .split_once("## A complete file\n")
        .expect("the section");
    let (_, example) = section.split_once("```toml\n").expect("an example");
    example.split_once("```").expect("the end of the example").0
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

/// `| key | flag | variable | default |`, without marks and without the flag's value.
fn row(cells: [&str; 4]) -> String {
    cells.join(" | ")
}

#[test]
fn the_tables_list_every_key_with_its_flag_variable_and_default() {
    let documented = DOCUMENT.replace("\\|", "/").replace('`', "");
    let rows = documented
        .lines()
        .filter(|line| line.contains(" WINDLASS_") && line.starts_with("| "))
        .map(|line| {
            let mut cells = line.trim_matches('|').split('|').map(str::trim);
            let mut cell = || cells.next().unwrap_or_default();
            let [key, flag, variable, default] = [cell(), cell(), cell(), cell()];
            row([
                key,
                flag.split(' ').next().unwrap_or_default(),
                variable,
                default,
            ])
        });
    let defaults = Settings::default();
    let expected = KEYS.iter().map(|key| {
        let flag = key.flag.map(|flag| format!("--{flag}")).unwrap_or_default();
        let default = key.show(&defaults).unwrap_or_else(|| "none".to_owned());
        let default = default.trim_matches(['[', ']', '"']);
        // As a variable lists them.
        let default = default.replace("\", \"", ",");
        row([key.name, &flag, &key.variable(), &default])
    });
    assert_eq!(rows.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn every_key_is_explained() {
    for key in KEYS {
        assert!(
            DOCUMENT.contains(&format!("**`{}`**", key.name)),
            "{}",
            key.name
        );
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

#[test]
fn the_complete_file_is_complete_and_holds_the_defaults() {
    let merged = merge_file(example()).expect("a configuration file");
    let default = Merged::default();
    for key in KEYS {
        let shown = key.show(&merged.settings);
        assert_eq!(
            shown.is_some(),
            merged.origins.contains_key(key.name),
            "{}",
            key.name
        );
        if shown.is_none() {
            let line = format!("\n# {} = ", key.leaf());
            assert!(example().contains(&line), "{}", key.name);
        }
        if key.name != "data" {
            assert_eq!(shown, key.show(&default.settings), "{}", key.name);
        }
    }
    assert!(example().contains("\ndata = \"./windlass-data\"\n"));
}
