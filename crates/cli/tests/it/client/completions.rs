//! Completions, manual pages, and the client's variables in the environment of `windlass serve`.

use std::fs;
use std::process::Command;

use super::run::{ClientDir, Ran};
use crate::server::program;

#[test]
fn completions_are_printed_for_every_shell() {
    let client_dir = ClientDir::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = client_dir.run(&["completions", shell]).expect(0);
        for word in [
            "upload",
            "resume",
            "api",
            "show",
            "--max-rate",
            "--root-url",
        ] {
            let word = if shell == "fish" {
                word.trim_start_matches('-')
            } else {
                word
            };
            assert!(ran.stdout.contains(word), "{shell}: no {word}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let client_dir = ClientDir::new();
    client_dir.run(&["man", "man1"]).expect(0);
    let pages = fs::read_dir(client_dir.path("man1")).expect("it is made");
    let mut pages: Vec<_> = pages
        .filter_map(|page| page.ok()?.file_name().into_string().ok())
        .collect();
    pages.sort();
    let commands = [
        "",
        "-api",
        "-api-check",
        "-api-new",
        "-api-show",
        "-backup",
        "-cancel",
        "-completions",
        "-download",
        "-man",
        "-resume",
        "-serve",
        "-sign",
        "-status",
        "-upload",
        "-uploads",
        "-verify",
    ];
    let mut expected = commands.map(|command| format!("windlass{command}.1"));
    expected.sort();
    assert_eq!(pages, expected);
    let page = fs::read_to_string(client_dir.path("man1/windlass-upload.1")).expect("text");
    assert!(
        page.contains("EXIT STATUS") && page.contains("Upload media"),
        "{page}"
    );
    let main = client_dir.run(&["man"]).expect(0).stdout;
    assert!(main.contains(".TH windlass 1"), "{main}");
}

#[test]
fn the_server_does_not_wonder_about_the_variables_of_the_client() {
    let mut serve = Command::new(program());
    serve
        .args(["serve", "--check-config"])
        .env("WINDLASS_TOKEN", "google")
        .env("WINDLASS_JOURNAL", "/var/empty");
    assert_eq!(Ran::of(&mut serve).expect(0).stderr, "");
}
