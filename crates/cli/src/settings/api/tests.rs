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
        (
            "a.toml",
            &unknown_key,
            "a.toml:4:1: `collections.frogs.scheme`: unknown key",
        ),
        ("b.toml", "name = ", "b.toml:1:8: "),
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

/// Returns the source and the host that a text names, or the error.
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
fn text_after_the_last_at_sign_is_a_host() {
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

/// Loads these descriptions on these hosts. Each is a separate file: `a.toml`, `b.toml` and so on.
fn load_all(files: &[(&str, &str)]) -> Result<String, (String, &'static str)> {
    let dir = tempfile::tempdir().expect("a directory");
    let entries = ('a'..).zip(files).map(|(name, (text, host))| {
        let name = format!("{name}.toml");
        std::fs::write(dir.path().join(&name), text).expect("a file");
        ApiEntry::parse(&format!("{name}{host}"), dir.path()).expect("an entry")
    });
    let entries: Vec<_> = entries.collect();
    let by_name = SettingsByName {
        created_status: &[],
        access: access(&[]),
        cors: &CorsSettings::default(),
        backends: None,
    };
    let registry = load(&entries, &Options::default(), &by_name).map_err(|error| {
        let text = error.to_string();
        let text = text.replace(&format!("{}/", dir.path().display()), "");
        (text, error.hint())
    });
    registry.map(|registry| format!("{registry:?}"))
}

fn access(configured: &[ForApi<Access>]) -> ApiAccess<'_> {
    ApiAccess {
        configured,
        has_principals: true,
    }
}

#[test]
fn what_is_set_for_an_api_that_is_not_served_is_refused() {
    let farm = [ApiSource::BuiltIn("farm").into()];
    let options = Options::default();
    let check = |key: &str, load: &dyn Fn(&str) -> Result<Registry, ApiError>, value: &str| {
        load(&format!("farm={value}")).expect("it is served");
        let error = load(&format!("cows={value}")).expect_err("it is not served");
        let expected = format!("{key} names cows, and no API of this name is served");
        assert_eq!(error.to_string(), expected);
    };
    let cors = CorsSettings::default();
    let nothing = SettingsByName {
        created_status: &[],
        access: access(&[]),
        cors: &cors,
        backends: None,
    };
    let status = |text: &str| {
        let created_status = &[text.parse().expect(text)];
        let by_name = SettingsByName {
            created_status,
            ..nothing
        };
        load(&farm, &options, &by_name)
    };
    check("created_status", &status, "200");
    let of_access = |text: &str| {
        let configured = [text.parse().expect(text)];
        let by_name = SettingsByName {
            access: access(&configured),
            ..nothing
        };
        load(&farm, &options, &by_name)
    };
    check("access", &of_access, "owner");
    let origins = |text: &str| {
        let cors = CorsSettings {
            apis: vec![text.parse().expect(text)],
            ..CorsSettings::default()
        };
        let by_name = SettingsByName {
            cors: &cors,
            ..nothing
        };
        load(&farm, &options, &by_name)
    };
    check("cors.apis", &origins, "https://app.example");
}

#[test]
fn access_is_the_last_of_the_configuration_or_that_of_the_description() {
    let configured: [ForApi<Access>; 3] =
        ["farm=shared", "pond=shared", "farm=owner"].map(|text| text.parse().expect(text));
    let table = [
        ("farm", Access::Shared, Access::Owner),
        ("pond", Access::Owner, Access::Shared),
        ("gmail", Access::Owner, Access::Owner),
        ("storage", Access::Shared, Access::Shared),
    ];
    for (name, described, expected) in table {
        let access = access(&configured);
        assert_eq!(access.to(name, described), expected, "{name}");
        let has_principals = false;
        let of_nobody = ApiAccess {
            has_principals,
            ..access
        };
        assert_eq!(of_nobody.to(name, described), Access::Shared, "{name}");
    }
}

#[test]
fn the_same_api_twice_is_refused_unless_it_is_on_two_hosts() {
    let (error, hint) = load_all(&[(POND, ""), (POND, "")]).expect_err("a conflict");
    assert_eq!(error, "pond v1 is described twice: by a.toml and by b.toml");
    assert!(hint.contains("FILE@HOST"));
    let (error, _) = load_all(&[(POND, "@one"), (POND, "")]).expect_err("a conflict");
    assert_eq!(
        error,
        "pond v1 is described twice: by a.toml@one and by b.toml"
    );
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
    assert!(hint.contains("FILE@HOST"));
    load_all(&[(POND, "@one"), (&lake, "@two")]).expect("two APIs");
}
