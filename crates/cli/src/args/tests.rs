use std::collections::BTreeSet;

use clap::CommandFactory as _;

use super::*;
use crate::exit::Code;
use crate::settings::RawValue;

fn parse(words: &str) -> Result<Command, clap::Error> {
    Ok(Args::try_parse_from(words.split(' '))?.command)
}

fn serve(words: &str) -> ServeArgs {
    match parse(words) {
        Ok(Command::Serve(args)) => args,
        other => panic!("{words}: {other:?}"),
    }
}

fn upload(words: &str) -> UploadArgs {
    match parse(words) {
        Ok(Command::Upload(args)) => args,
        other => panic!("{words}: {other:?}"),
    }
}

fn text(text: &str) -> RawValue {
    RawValue::Text(text.to_owned())
}

/// The long help of a command, as in a terminal of 100 columns.
fn help(name: &str) -> Vec<String> {
    let mut command = Args::command().term_width(100);
    command.build();
    let command = command.find_subcommand_mut(name).expect("the command");
    let help = command.render_long_help().to_string();
    help.lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

#[test]
fn command_line_definition_is_consistent() {
    Args::command().debug_assert();
}

/// Help texts are reviewed like code. After a change, put the new text into the file.
#[test]
fn help_equals_the_reviewed_text() {
    let cases = [
        ("serve", include_str!("serve_help.txt")),
        ("upload", include_str!("upload_help.txt")),
    ];
    for (name, reviewed) in cases {
        let help = help(name);
        let reviewed: Vec<_> = reviewed.lines().collect();
        assert!(help == reviewed, "it is now:\n{}", help.join("\n"));
    }
}

#[test]
fn the_commands_of_the_client_document_their_exit_codes_and_give_examples() {
    for name in [
        "upload", "resume", "uploads", "status", "cancel", "download",
    ] {
        let help = help(name).join("\n");
        assert!(help.contains(crate::exit::CODES), "{name}: {help}");
        assert!(
            help.contains(&format!("\n  windlass {name} ")),
            "{name}: {help}"
        );
    }
}

#[test]
fn the_commands_about_stores_document_their_exit_codes_and_give_examples() {
    for name in ["backup", "verify"] {
        let help = help(name).join("\n");
        for code in [
            Code::Success,
            Code::Failure,
            Code::Usage,
            Code::CannotBegin,
            Code::Damaged,
        ] {
            let line = format!("\n  {}  ", code.number());
            assert!(help.contains(&line), "{name}: {help}");
        }
        let example = format!("\n  windlass {name} ");
        assert!(help.contains(&example), "{name}: {help}");
    }
}

#[test]
fn absent_flags_give_no_values() {
    assert_eq!(serve("windlass serve").raw_values(), []);
}

#[test]
fn a_flag_gives_its_text_and_api_may_be_repeated() {
    let args = serve("windlass serve --listen x --api farm --api a.toml");
    let apis = RawValue::List(vec!["farm".to_owned(), "a.toml".to_owned()]);
    assert_eq!(args.raw_values(), [("listen", text("x")), ("api", apis)]);
}

#[test]
fn port_is_another_name_of_listen() {
    let args = serve("windlass serve --port 8080");
    assert_eq!(args.raw_values(), [("listen", text("8080"))]);
}

#[test]
fn a_switch_needs_no_value_and_can_be_switched_off() {
    let cases = [
        ("windlass serve --trust-forwarded --data d", "true"),
        ("windlass serve --data d --trust-forwarded=false", "false"),
    ];
    for (words, expected) in cases {
        let expected = [("data", text("d")), ("trust-forwarded", text(expected))];
        assert_eq!(serve(words).raw_values(), expected, "{words}");
    }
}

#[test]
fn the_last_word_of_an_upload_is_the_url_and_those_before_are_sources() {
    let cases: [(&str, &[&str]); 4] = [
        ("windlass upload cow.jpg http://x/u", &["cow.jpg"]),
        (
            "windlass upload a.jpg b.jpg - http://x/u --quiet",
            &["a.jpg", "b.jpg", "-"],
        ),
        (
            "windlass upload --type media a.jpg b.jpg http://x/u",
            &["a.jpg", "b.jpg"],
        ),
        (
            "windlass upload a.jpg --type media b.jpg --quiet http://x/u",
            &["a.jpg", "b.jpg"],
        ),
    ];
    for (words, sources) in cases {
        let args = upload(words);
        let given: Vec<_> = args
            .positional
            .sources
            .iter()
            .filter_map(|path| path.to_str())
            .collect();
        assert_eq!(given, sources, "{words}");
        assert_eq!(args.positional.url.as_str(), "http://x/u");
    }
}

#[test]
fn invalid_command_lines_are_refused() {
    for words in [
        "windlass upload cow.jpg",
        "windlass upload http://x/u",
        "windlass upload cow.jpg ftp://x/u",
        "windlass upload cow.jpg http://x/u --chunk-size 100K",
        "windlass upload cow.jpg http://x/u --type big",
        "windlass upload cow.jpg http://x/u --method GET",
        "windlass upload cow.jpg http://x/u --max-rate 0",
        "windlass upload cow.jpg http://x/u --timeout soon",
        "windlass upload cow.jpg http://x/u --concurrency 0",
        "windlass upload cow.jpg http://x/u --resume --restart",
        "windlass upload cow.jpg http://x/u --no-journal --restart",
        "windlass resume mzxw --all",
        "windlass cancel ftp://x",
        "windlass upload cow.jpg http://x/u --include *.jpg",
        "windlass upload -r herd http://x/u --include [",
        "windlass upload -r herd http://x/u --max-depth 0",
        "windlass status ftp://x",
        "windlass completions tcsh",
    ] {
        let error = parse(words).expect_err(words);
        assert_eq!(error.exit_code(), 2, "{words}");
    }
}

#[test]
fn http_methods_are_case_insensitive() {
    for verb in ["PUT", "put", "Put"] {
        let args = upload(&format!("windlass upload a http://x/u --method {verb}"));
        assert_eq!(args.method, client::VerbArg::Put);
    }
}

/// docs/cli.md mentions every flag of the client, and none that does not exist.
#[test]
fn the_flags_in_the_document_are_those_that_exist() {
    let document = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md"));
    let command = Args::command();
    let of_the_client = command
        .get_subcommands()
        .filter(|command| command.get_name() != "serve");
    let with_inner =
        |command| std::iter::once(command).chain(clap::Command::get_subcommands(command));
    let flags: BTreeSet<_> = of_the_client
        .flat_map(with_inner)
        .flat_map(clap::Command::get_arguments)
        .filter_map(clap::Arg::get_long)
        .map(|name| format!("--{name}"))
        .collect();
    let words = document.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
    let flag = |word: &&str| word.starts_with("--") && word.len() > 2 && !word.starts_with("---");
    let mentioned: BTreeSet<_> = words.filter(flag).map(str::to_owned).collect();
    assert_eq!(mentioned, flags);
}

#[test]
fn rates_are_sizes_with_or_without_a_second() {
    let cases = [
        ("1", 1),
        ("256K", 256 << 10),
        ("256k/s", 256 << 10),
        ("10MB/s", 10 << 20),
        ("10 MiB/s", 10 << 20),
        (" 1G ", 1 << 30),
        ("2TB", 2 << 40),
    ];
    for (text, bytes) in cases {
        assert_eq!(
            text.parse::<Rate>().map(|rate| rate.0.get()),
            Ok(bytes),
            "{text}"
        );
    }
    for text in [
        "",
        "fast",
        "0",
        "0MB/s",
        "5 cows",
        "-1",
        "1.5M",
        "99999999999T",
    ] {
        assert!(text.parse::<Rate>().is_err(), "{text}");
    }
}

#[test]
fn a_url_is_one_of_a_web_server() {
    assert!(parse_url("http://127.0.0.1:8080/upload/farm/v1/animals").is_ok());
    assert_eq!(parse_url("cow.jpg"), Err(NotAUrl::Syntax));
    let scheme = "ftp".to_owned();
    assert_eq!(parse_url("ftp://x/y"), Err(NotAUrl::Scheme { scheme }));
    assert!(parse_url("localhost:8080/upload").is_err());
}

#[test]
fn status_argument_with_colon_is_a_session_uri() {
    assert_eq!("mzxw".parse(), Ok(Target::Id("mzxw".to_owned())));
    let session = "https://up.example.com/u?upload_id=x".parse::<Target>();
    assert!(matches!(session, Ok(Target::Session(_))));
    assert!("ftp://x".parse::<Target>().is_err());
}
