use super::*;

/// The source and the host that a text names, or what is wrong with it.
fn parse(text: &str) -> Result<(String, Option<String>), String> {
    let entry = ApiEntry::parse(text, Path::new("conf")).map_err(|error| error.to_string())?;
    let host = entry.host.map(String::from);
    Ok((entry.source.to_string(), host))
}

#[track_caller]
fn check(text: &str, source: &str, host: Option<&str>) {
    let expected = (source.to_owned(), host.map(str::to_owned));
    assert_eq!(parse(text), Ok(expected), "{text}");
}

#[test]
fn what_follows_the_last_at_sign_is_a_host() {
    check("farm", "farm", None);
    check("farm@Barn.example", "farm", Some("barn.example"));
    check("a.json@[::1]", "conf/a.json", Some("[::1]"));
    check(
        "me@home/a.toml@10.0.0.1",
        "conf/me@home/a.toml",
        Some("10.0.0.1"),
    );
}

#[test]
fn an_at_sign_may_be_in_a_path() {
    check("a@b.toml", "conf/a@b.toml", None);
    check("me@home/a.toml", "conf/me@home/a.toml", None);
    check("farm.json@home/a.toml", "conf/farm.json@home/a.toml", None);
}

#[test]
fn what_is_neither_is_told() {
    for (text, expected) in [
        ("fram@barn.example", "no built-in API `fram`"),
        (
            "farm@barn.example:80",
            "`barn.example:80` is not the name of a host",
        ),
        ("farm@", "`` is not the name of a host"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

const POND: &str = "name = 'pond'\nversion = 'v1'\n[collections.frogs]\n";

/// Loads these descriptions, each from a file of its own, `a.toml`, `b.toml`, on these hosts.
fn load_all(files: &[(&str, &str)]) -> Result<String, (String, Option<&'static str>)> {
    let dir = tempfile::tempdir().expect("a directory");
    let entries = ('a'..).zip(files).map(|(name, (text, host))| {
        let name = format!("{name}.toml");
        std::fs::write(dir.path().join(&name), text).expect("a file");
        ApiEntry::parse(&format!("{name}{host}"), dir.path()).expect("an entry")
    });
    let entries: Vec<_> = entries.collect();
    let registry = load(&entries, &Options::default()).map_err(|error| {
        let text = error.to_string();
        let text = text.replace(&format!("{}/", dir.path().display()), "");
        (text, error.hint())
    });
    registry.map(|registry| format!("{registry:?}"))
}

#[test]
fn the_same_api_twice_is_refused_unless_it_is_on_two_hosts() {
    let (error, hint) = load_all(&[(POND, ""), (POND, "")]).expect_err("a conflict");
    assert_eq!(error, "b.toml describes pond v1, as a.toml does");
    assert!(hint.is_some_and(|hint| hint.contains("FILE@HOST")));
    let (error, _) = load_all(&[(POND, "@one"), (POND, "")]).expect_err("a conflict");
    assert_eq!(error, "b.toml describes pond v1, as a.toml@one does");
    let loaded = load_all(&[(POND, "@one"), (POND, "@two")]);
    let expected = "[ServedApi(pond:v1@one), ServedApi(pond:v1@two)]";
    assert_eq!(loaded.as_deref(), Ok(expected));
}

#[test]
fn apis_with_the_same_paths_are_refused_and_the_methods_named() {
    let lake = format!(
        "service_path = 'pond/v1/'\n{}",
        POND.replacen("pond", "lake", 1)
    );
    let (error, hint) = load_all(&[(POND, ""), (&lake, "")]).expect_err("a conflict");
    let expected = "pond.frogs.delete of pond:v1 and lake.frogs.delete of lake:v1 both answer \
                    DELETE /pond/v1/frogs/{frogId}";
    assert_eq!(error, expected);
    assert!(hint.is_some_and(|hint| hint.contains("FILE@HOST")));
    load_all(&[(POND, "@one"), (&lake, "@two")]).expect("two APIs");
}
