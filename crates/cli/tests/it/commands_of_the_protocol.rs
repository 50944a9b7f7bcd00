//! The curl commands of docs/protocol.md, without curl: its request is sent, and the reply has the
//! lines that the document shows below the command. `...` stands for any lines.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use windlass_testkit::raw::{Reply, Request, exchange};

use crate::server::own;

/// The server of the document.
const BASE: &str = "http://127.0.0.1:8080";

/// A command, and the lines that are shown below it.
struct Shown {
    command: String,
    lines: Vec<String>,
}

/// The commands of all blocks in `console`.
fn commands() -> Vec<Shown> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let page = std::fs::read_to_string(path).expect("it is readable");
    let blocks = page.split("\n```console\n").skip(1);
    let mut commands: Vec<Shown> = Vec::new();
    for block in blocks {
        let (block, _) = block.split_once("\n```").expect("a block ends");
        for line in block.lines() {
            let command = line.strip_prefix("$ ").map(str::to_owned);
            match (commands.last_mut(), command) {
                (_, Some(command)) => commands.push(Shown {
                    command,
                    lines: Vec::new(),
                }),
                (Some(last), None) if last.command.ends_with('\\') => {
                    last.command.pop();
                    last.command.push_str(line);
                }
                (Some(last), None) => last.lines.push(line.to_owned()),
                (None, None) => panic!("a block begins with a command: {line}"),
            }
        }
    }
    commands
}

/// Splits a command as a shell does: quotes, and variables outside of single ones.
fn words(command: &str, variables: &BTreeMap<String, String>) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut rest = command.chars().peekable();
    while let Some(next) = rest.next() {
        match (quote, next) {
            (None, ' ') => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(next);
                word.get_or_insert_default();
            }
            (Some(open), next) if open == next => quote = None,
            (None | Some('"'), '$') => {
                let mut name = String::new();
                while let Some(letter) = rest.next_if(char::is_ascii_uppercase) {
                    name.push(letter);
                }
                word.get_or_insert_default().push_str(&variables[&name]);
            }
            (_, next) => word.get_or_insert_default().push(next),
        }
    }
    words.extend(word);
    words
}

/// The request that curl sends. Redirected output is the URI of a session.
fn request(words: &[String], address: SocketAddr) -> Request {
    let (mut verb, mut url, mut headers, mut body) = (None, None, Vec::new(), None);
    let mut words = words.iter().map(String::as_str);
    assert_eq!(words.next(), Some("curl"));
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("the option has a value");
        match word {
            "-i" => {}
            "--head" => verb = Some("HEAD"),
            "-X" => verb = Some(value()),
            "-H" => headers.extend(value().split_once(": ")),
            "--data-binary" => body = Some(value()),
            "-w" => assert_eq!(value(), "%header{location}"),
            _ if word.starts_with("http://") => url = Some(word),
            _ => panic!("write what {word} does"),
        }
    }
    let url = url.expect("there is a URL").replace(BASE, "");
    let target = url.replace(&format!("http://{address}"), "");
    let mut request = Request::new(verb.expect("the command names its method"), target);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    match body {
        Some(body) => request.body(body),
        None => request,
    }
}

fn printed(reply: &Reply) -> Vec<String> {
    let status_line = format!("{} {} {}", reply.version, reply.status, reply.reason);
    let headers = reply.headers.iter();
    let headers = headers.map(|(name, value)| format!("{}: {value}", name.to_lowercase()));
    let body = reply.text().lines().map(str::to_owned);
    [status_line]
        .into_iter()
        .chain(headers)
        .chain(body)
        .collect()
}

#[track_caller]
fn check(command: &str, shown: &[String], printed: &[String]) {
    let mut rest = printed.iter();
    let mut may_skip = false;
    for line in shown {
        if line == "..." {
            may_skip = true;
            continue;
        }
        let is_printed = if may_skip {
            rest.any(|it| it == line)
        } else {
            rest.next() == Some(line)
        };
        assert!(is_printed, "{command}\n{line}\n{printed:#?}");
        may_skip = false;
    }
}

#[test]
fn commands_of_the_protocol_have_the_shown_replies() {
    let server = own(&["--api", "files"]);
    let mut variables = BTreeMap::new();
    let commands = commands();
    assert!(commands.len() >= 12, "{} commands", commands.len());
    for Shown { command, lines } in commands {
        let assigned = command.split_once("=$(");
        let inner = assigned.map_or(&*command, |(_, inner)| inner.trim_end_matches(')'));
        let request = request(&words(inner, &variables), server.address());
        let reply = exchange(server.address(), &request);
        assert!((200..300).contains(&reply.status), "{command}\n{reply:?}");
        if let Some((name, _)) = assigned {
            let location = reply.header("location").expect("it starts a session");
            variables.insert(name.to_owned(), location.to_owned());
        } else {
            assert!(
                !lines.is_empty(),
                "the document shows what it prints: {command}"
            );
            check(&command, &lines, &printed(&reply));
        }
    }
    let list = exchange(server.address(), &Request::new("GET", "/files")).expect(200);
    let files = list.field("items");
    let sizes: Vec<_> = files
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["size"])
        .collect();
    assert_eq!(sizes, ["11", "11"], "each dialect has made a file");
}
