use clap::CommandFactory as _;

use super::*;

fn parse(words: &str) -> ServeArgs {
    let Command::Serve(args) = Args::parse_from(words.split(' ')).command;
    args
}

fn text(text: &str) -> Given {
    Given::Text(text.to_owned())
}

#[test]
fn clap_finds_no_contradiction() {
    Args::command().debug_assert();
}

/// What people read is reviewed like code. After a change, put the new text into the file.
#[test]
fn the_help_is_the_reviewed_one() {
    let mut command = Args::command().term_width(100);
    command.build();
    let serve = command.find_subcommand_mut("serve").expect("the command");
    let help = serve.render_long_help().to_string();
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    let reviewed: Vec<_> = include_str!("serve_help.txt").lines().collect();
    assert!(help == reviewed, "it is now:\n{}", help.join("\n"));
}

#[test]
fn flags_that_are_not_given_say_nothing() {
    assert_eq!(parse("windlass serve").given(), []);
}

#[test]
fn a_flag_gives_its_text_and_api_may_be_repeated() {
    let args = parse("windlass serve --listen x --api farm --api a.toml");
    let apis = Given::List(vec!["farm".to_owned(), "a.toml".to_owned()]);
    assert_eq!(args.given(), [("listen", text("x")), ("api", apis)]);
}

#[test]
fn a_switch_needs_no_value_and_can_be_switched_off() {
    let cases = [
        ("windlass serve --trust-forwarded --data d", "true"),
        ("windlass serve --data d --trust-forwarded=false", "false"),
    ];
    for (words, expected) in cases {
        let expected = [("data", text("d")), ("trust-forwarded", text(expected))];
        assert_eq!(parse(words).given(), expected, "{words}");
    }
}
