//! `windlass api`: the uploads of an API description, and its mistakes.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::run::{ClientDir, Ran};

/// A method by default, one with everything, and one with a name that leaves no room.
const ZOO: &str = r#"
name = "zoo"
version = "v2"
title = "Zoo API"

[schemas.Animal]
name = "string"

[methods."animals.upload"]
http = "POST"
path = "animals/{id}/media"
response = "Animal"
media = { accept = ["image/*", "application/pdf"], max_size = "35MB", resumable = false }

[methods."animals.replace"]
http = "PUT"
path = "animals/{id}"
response = "Animal"
media = { multipart = false }

[methods."houses.rooms.cages.animals.pictures.thumbnails.replaceAllOfThem"]
http = "PATCH"
path = "thumbnails"
response = "Animal"
media = { max_size = "5120GB" }

[methods.ping]
http = "GET"
path = "ping"
"#;

const TABLE: &str = "\
Zoo API (zoo:v2)

METHOD               HTTP   LARGEST   UPLOAD TYPES
zoo.animals.replace  PUT    no limit  media, resumable
    /upload/zoo/v2/animals/{id}
    */*
zoo.animals.upload   POST   35 MiB    media, multipart, resumable*
    /upload/zoo/v2/animals/{id}/media
    image/*, application/pdf
zoo.houses.rooms.cages.animals.pictures.thumbnails.replaceAllOfThem
                     PATCH  5 TiB     media, multipart, resumable
    /upload/zoo/v2/thumbnails
    */*

3 of 4 methods take media; for 2 the description has a resumable path
* resumable uploads are served all the same, at the path that is shown

METHOD    HTTP  PATH
zoo.ping  GET   /zoo/v2/ping

An upload:
    curl -X PATCH -T cow.jpg -H 'Content-Type: image/jpeg' 'http://127.0.0.1:8080/upload/zoo/v2/thumbnails?uploadType=media'
";

fn client_dir() -> ClientDir {
    let client_dir = ClientDir::new();
    client_dir.write("zoo.toml", ZOO);
    client_dir
}

/// Runs a command with a text on its standard input.
#[track_caller]
fn piped(command: &mut Command, text: &str) -> Ran {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command can be started");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    stdin.write_all(text.as_bytes()).expect("it is read");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text");
    Ran {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

#[test]
fn the_table_has_every_upload_method_and_totals() {
    let ran = client_dir().run(&["api", "show", "zoo.toml"]).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), (TABLE, ""));
}

#[test]
fn no_line_of_a_table_is_wider_than_it_must_be() {
    let accept: Vec<_> = (0..20).map(|at| format!("\"image/number-{at}\"")).collect();
    let many = format!("accept = [{}]", accept.join(", "));
    let client_dir = ClientDir::new();
    client_dir.write(
        "zoo.toml",
        ZOO.replace("accept = [\"image/*\", \"application/pdf\"]", &many),
    );
    let table = client_dir
        .run(&["api", "show", "zoo.toml"])
        .expect(0)
        .stdout;
    let mut lines = table.lines().filter(|line| !line.contains("curl"));
    assert!(lines.all(|line| line.len() <= 100), "{table}");
    assert!(table.contains("image/number-3, image/number-4,"), "{table}");
    assert!(table.contains("image/number-19\n"), "{table}");
}

#[test]
fn openapi_document_has_what_only_the_short_form_says() {
    let client_dir = client_dir();
    // Not by `run`: the document has a parameter `upload_id`, which no other command prints.
    let statuses = |file: &str| {
        let mut command = client_dir.command(&["api", "show", file, "--openapi"]);
        let output = command.output().expect("the command can be run");
        let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let session = &document["paths"]["/resumable/upload/zoo/v2/animals/{id}/media"]["put"];
        let responses = session["responses"].as_object().expect("it is described");
        responses.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(statuses("zoo.toml"), ["201", "308", "default"]);
    let json = client_dir.run(&["api", "show", "zoo.toml", "--json"]);
    client_dir.write("zoo.json", &json.expect(0).stdout);
    assert_eq!(statuses("zoo.json"), ["200", "308", "default"]);
    let both = ["api", "show", "zoo.toml", "--openapi", "--json"];
    client_dir.run(&both).expect(2);
}

#[test]
fn every_source_and_form_gives_the_same_table() {
    let client_dir = client_dir();
    let json = client_dir
        .run(&["api", "show", "zoo.toml", "--json"])
        .expect(0)
        .stdout;
    client_dir.write("zoo.json", &json);
    assert_eq!(
        client_dir
            .run(&["api", "show", "zoo.json"])
            .expect(0)
            .stdout,
        TABLE
    );
    for text in [ZOO, &json] {
        let ran = piped(&mut client_dir.command(&["api", "show", "-"]), text).expect(0);
        assert_eq!(ran.stdout, TABLE);
    }
    let farm = client_dir.run(&["api", "show", "farm"]).expect(0).stdout;
    assert!(
        farm.contains("\nfarm.animals.insert  POST   50 GiB   media, "),
        "{farm}"
    );
}

#[test]
fn the_printed_document_is_the_one_that_clients_are_served() {
    let client_dir = client_dir();
    let document = client_dir
        .run(&["api", "show", "zoo.toml", "--json"])
        .expect(0)
        .json();
    assert_eq!(document["kind"], "discovery#restDescription");
    assert_eq!(document["rootUrl"], "http://127.0.0.1:8080/");
    let upload = &document["resources"]["animals"]["methods"]["upload"]["mediaUpload"];
    assert_eq!(upload["maxSize"], "36700160");
    let words = [
        "api",
        "show",
        "zoo.toml",
        "--json",
        "--root-url",
        "https://zoo.example/",
    ];
    let document = client_dir.run(&words).expect(0).json();
    assert_eq!(document["baseUrl"], "https://zoo.example/zoo/v2/");
    client_dir
        .run(&["api", "show", "zoo.toml", "--root-url", "zoo"])
        .expect(2);
}

#[test]
fn an_api_without_uploads_has_totals_only() {
    let client_dir = ClientDir::new();
    let lines = "name = 'a'\nversion = 'v1'\n[methods.ping]\nhttp = 'GET'\npath = 'ping'";
    client_dir.write("a.toml", lines);
    let ran = client_dir.run(&["api", "show", "a.toml"]).expect(0);
    let totals = "a API (a:v1)\n\n0 of 1 methods take media; for 0 the description has a resumable path\n\n\
         METHOD  HTTP  PATH\na.ping  GET   /a/v1/ping\n";
    assert_eq!(ran.stdout, totals);
}

#[test]
fn check_prints_all_findings_and_fails_for_errors_only() {
    let client_dir = client_dir();
    let ran = client_dir.run(&["api", "check", "zoo.toml"]).expect(0);
    for (line, warning) in [
        (15, "there is no `maxSize`, so media of any size is taken"),
        (27, "`ping` is not implemented and returns 501"),
        (
            21,
            "`houses.rooms.cages.animals.pictures.thumbnails.replaceAllOfThem` is not implemented and returns 501",
        ),
    ] {
        let place = format!("\n  --> zoo.toml:{line}:10\n");
        let after = ran.stdout.split_once(&format!("warning: {warning}"));
        assert!(
            after.is_some_and(|(_, rest)| rest.contains(&place)),
            "{}",
            ran.stdout
        );
    }
    assert_eq!(ran.stderr, "no errors, 3 warnings\n");
    let ran = client_dir.run(&["api", "check", "farm"]).expect(0);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("", "no errors, no warnings\n")
    );

    client_dir.write(
        "bad.json",
        r#"{"name": "a", "methods": {"x": {"id": "a.x", "path": "{y"}}}"#,
    );
    let ran = client_dir.run(&["api", "check", "bad.json"]).expect(1);
    assert_eq!(
        ran.stdout,
        "error: version: the field is missing\n\
         error: methods.x.path: the segment `{y` is neither a literal nor one {variable}\n\
         error: methods.x.httpMethod: the field is missing\n"
    );
    assert_eq!(ran.stderr, "3 errors, no warnings\n");
}

#[test]
fn a_check_for_programs_is_one_object_a_line() {
    let client_dir = client_dir();
    let check = |name: &str, code| {
        let ran = client_dir
            .run(&["api", "check", name, "--json"])
            .expect(code);
        let lines = ran.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect::<Vec<Value>>()
    };
    client_dir.write("bad.json", r#"{"methods": {"x": {"scopes": [5]}}}"#);
    let message = "invalid type: integer `5`, expected a string at line 1 column 31";
    let expected = json!({"severity": "error", "path": "methods.x.scopes[0]", "message": message});
    assert_eq!(check("bad.json", 1), [expected]);
    client_dir.write("bad.toml", "name = 'a'\nversion = 3");
    let message = "invalid type: integer `3`, expected a string";
    let expected = json!({"severity": "error", "path": "version", "message": message, "line": 2, "column": 11});
    assert_eq!(check("bad.toml", 1)[0], expected);
    assert_eq!(check("zoo.toml", 0)[0]["severity"], "warning");
}

#[test]
fn unusable_description_is_reported_on_one_line() {
    let client_dir = ClientDir::new();
    let pair = "name = 'a'\nversion = 'v1'\n[methods.x]\nhttp = 'GET'\npath = 'x'\n";
    client_dir.write("a.toml", pair.replace("'x'\n", "'x'\nrequest = 'Y'"));
    client_dir.write("b.json", r#"{"name": "a", "version": "v1"}"#);
    client_dir.write("c.json", "{");
    client_dir.write("d.json", [0xff]);
    for (name, code, said) in [
        (
            "a.toml",
            1,
            "error: a.toml:6:11: `methods.x.request`: there is no schema `Y`\n\
             hint: `windlass api check` tells all that is wrong with it\n",
        ),
        (
            "b.json",
            1,
            "error: b.json: resources: there are no methods\n\
             hint: `windlass api check` tells all that is wrong with it\n",
        ),
        (
            "c.json",
            1,
            "error: c.json: not a discovery document: EOF while parsing an object at line 1 column 1\n",
        ),
        (
            "d.json",
            3,
            "error: d.json cannot be read: stream did not contain valid UTF-8\n\
             hint: the file must exist and be readable\n",
        ),
        (
            "e.json",
            3,
            "error: e.json cannot be read: No such file or directory (os error 2)\n\
             hint: the file must exist and be readable\n",
        ),
    ] {
        let ran = client_dir.run(&["api", "show", name]).expect(code);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", said));
    }
    client_dir
        .run(&["api", "show", "zoo"])
        .expect(2)
        .says("there is no built-in API `zoo`");
}

#[test]
fn texts_of_a_description_are_escaped() {
    let client_dir = ClientDir::new();
    let odd = "\u{1b}[2J\nerror: forged";
    let document = json!({"name": "a", "version": "v1", "title": odd, "methods": {odd: {
        "id": format!("a.{odd}"), "httpMethod": "POST", "path": format!("x{odd}"), "supportsMediaUpload": true,
        "mediaUpload": {"protocols": {"simple": {"path": odd}}}, "response": {"$ref": odd},
    }}});
    client_dir.write("a.json", document.to_string());
    let ran = client_dir.run(&["api", "check", "a.json"]).expect(1);
    assert!(
        !ran.stdout.contains('\u{1b}') && !ran.stdout.contains("\nerror: forged"),
        "{}",
        ran.stdout
    );
    let mut document = document;
    document["schemas"] = json!({odd: {}});
    client_dir.write("a.json", document.to_string());
    let ran = client_dir.run(&["api", "show", "a.json"]).expect(0);
    assert!(
        !ran.stdout.contains('\u{1b}') && !ran.stdout.contains("\nerror: forged"),
        "{}",
        ran.stdout
    );
}
