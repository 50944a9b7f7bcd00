use std::error::Error as _;

use super::*;

/// Loads a description from a file of this name and text.
fn load_file(name: &str, text: &str) -> Result<Vec<ServedApi>, String> {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join(name), text).expect("a file");
    let source = ApiSource::parse(name, dir.path()).expect("a source");
    source.load(&Options::default()).map_err(|error| {
        let cause = error
            .source()
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        format!("{error}{cause}").replace(&format!("{}/", dir.path().display()), "")
    })
}

const POND: &str = "name = 'pond'\nversion = 'v1'\n[collections.frogs]\n";

#[test]
fn the_end_of_a_name_tells_files_from_built_in_apis() {
    let parse = |text| ApiSource::parse(text, Path::new("conf")).ok();
    assert_eq!(parse("farm"), Some(ApiSource::BuiltIn("farm")));
    assert_eq!(
        parse("pond.toml"),
        Some(ApiSource::ShortForm("conf/pond.toml".into()))
    );
    assert_eq!(
        parse("/etc/pond.json"),
        Some(ApiSource::Document("/etc/pond.json".into()))
    );
    assert_eq!(parse("pond"), None);
    assert_eq!(parse("pond.yaml"), None);
}

#[test]
fn both_forms_are_loaded() {
    let document = r#"{"name": "lake", "version": "v2", "methods": {"ping": {
        "id": "lake.ping", "httpMethod": "GET", "path": "ping"}}}"#;
    for (file, text, name) in [("a.toml", POND, "pond"), ("b.json", document, "lake")] {
        let served = load_file(file, text).expect("an API");
        assert_eq!(served[0].api.name(), name);
    }
}

#[test]
fn what_is_wrong_is_told_with_file_line_and_key() {
    let unknown_key = format!("{POND}scheme = 3\n");
    let cases: [(&str, &str, &str); 4] = [
        ("a.toml", &unknown_key, "a.toml:4: unknown field `scheme`"),
        ("b.toml", "name = ", "b.toml:1: "),
        ("c.json", "{", "c.json: not a discovery document: EOF"),
        (
            "d.json",
            r#"{"name": "lake"}"#,
            "d.json: version: the field is missing",
        ),
    ];
    for (name, text, expected) in cases {
        let error = load_file(name, text).expect_err(name);
        assert!(error.starts_with(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let missing = ApiSource::ShortForm("nowhere/pond.toml".into());
    let error = missing
        .load(&Options::default())
        .expect_err("no file")
        .to_string();
    assert_eq!(error, "nowhere/pond.toml cannot be read");
}
