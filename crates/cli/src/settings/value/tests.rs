use super::*;
use crate::settings::Settings;
use crate::settings::key::Key;

/// Sets a key and returns its value as shown.
fn set(key: &str, text: &str) -> Result<Option<String>, ValueError> {
    let key = Key::named(key).expect(key);
    let mut settings = Settings::default();
    key.set(
        &mut settings,
        &RawValue::Text(text.to_owned()),
        Path::new("conf"),
    )?;
    Ok(key.show(&settings))
}

#[test]
fn values_of_every_kind_are_read_and_written() {
    let cases = [
        ("listen", "[::]:0", r#""[::]:0""#),
        ("listen", "8080", r#""127.0.0.1:8080""#),
        ("listen", ":8080", r#""127.0.0.1:8080""#),
        ("listen", "localhost:8080", r#""127.0.0.1:8080""#),
        ("metrics.listen", "9090", r#""127.0.0.1:9090""#),
        ("data", "media", r#""conf/media""#),
        ("tls_cert", "cert.pem", r#""conf/cert.pem""#),
        ("tls_key", "/etc/key.pem", r#""/etc/key.pem""#),
        ("data", "/var/lib/windlass", r#""/var/lib/windlass""#),
        (
            "apis",
            "farm, a.toml,/b.json@B.example",
            r#"["farm", "conf/a.toml", "/b.json@b.example"]"#,
        ),
        (
            "created_status",
            "gmail = 200,farm=201",
            r#"["gmail=200", "farm=201"]"#,
        ),
        (
            "access",
            "drive = shared,farm=owner",
            r#"["drive=shared", "farm=owner"]"#,
        ),
        (
            "public_url",
            "https://up.example.com/base/",
            r#""https://up.example.com/base""#,
        ),
        ("auth.unowned", "alice@farm.test", r#""alice@farm.test""#),
        ("trust_forwarded", "true", "true"),
        ("log", "debug", r#""debug""#),
        ("durability", "os", r#""os""#),
        ("page_cache", "true", "true"),
        ("sessions.chunks", "lenient", r#""lenient""#),
        ("sessions.lifetime", "36h", r#""1day 12h""#),
        ("sessions.idle", "500ms", r#""500ms""#),
        ("limits.small_media", "4KiB", r#""4KB""#),
        ("limits.metadata", "65537", r#""65537B""#),
        ("limits.gzip_ratio", "7", "7"),
        ("limits.connections", "12", "12"),
    ];
    for (key, text, expected) in cases {
        let shown = set(key, text).unwrap_or_else(|error| panic!("{key} = {text}: {error}"));
        assert_eq!(shown.as_deref(), Some(expected), "{key} = {text}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_its_reason() {
    let cases = [
        ("listen", "farm.example:8080", "neither an IP address and a"),
        ("listen", "127.0.0.1", "nor a port, such as 8080"),
        ("listen", "localhost", "neither an IP address and a port"),
        ("listen", ":", "neither an IP address and a port"),
        ("listen", ":+80", "neither an IP address and a port"),
        ("listen", "65536", "neither an IP address and a port"),
        ("listen", "", "empty"),
        (
            "created_status",
            "gmail",
            "`gmail` is not the name of an API with",
        ),
        ("created_status", "gmail=204", "a status of 200 or 201"),
        ("created_status", "=200", "a status of 200 or 201"),
        ("access", "drive", "`drive` is not the name of an API with"),
        ("access", "drive=mine", "owner or shared"),
        ("access", "=owner", "owner or shared"),
        ("apis", "fram", "no built-in API `fram` (there is "),
        ("gmail.me", "cow", "\"cow\" is not an address"),
        ("gmail.domains", "a b", "`a b` is not a domain"),
        ("gmail.relay", "mail.test", "it is not a URL such as smtp:"),
        (
            "gmail.relay",
            "smtp://cow:moo@mail.test",
            "a password does not belong in the URL",
        ),
        ("apis", "farm@a:1", "`a:1` is not the name of a host"),
        ("auth.unowned", "", "empty"),
        ("tls_cert", "", "empty"),
        ("public_url", "up.example.com", "not a URL"),
        ("public_url", "ftp://up.example.com", "not a URL"),
        ("public_url", "https://up.example.com/?a=b", "not a URL"),
        (
            "public_url",
            "https://me:secret@up.example.com",
            "not a URL",
        ),
        ("trust_forwarded", "yes", "neither true nor false"),
        ("log", "verbose", "not a log level"),
        ("durability", "full", "neither disk nor os"),
        ("limits.drain", "30", "not a duration such as 30s"),
        ("limits.drain", "11y", "longer than ten years"),
        ("limits.metadata", "1XB", "not a size such as 64KB"),
        ("limits.connections", "-1", "not a whole number"),
    ];
    for (key, text, expected) in cases {
        let error = set(key, text).expect_err(text).to_string();
        assert!(error.contains(expected), "{key} = {text}: {error}");
    }
}

#[test]
fn a_list_is_for_apis_only() {
    let list = RawValue::List(vec!["info".to_owned()]);
    let key = Key::named("log").expect("a key");
    let result = key.set(&mut Settings::default(), &list, Path::new(""));
    assert!(matches!(result, Err(ValueError::List)));
}

#[test]
fn levels_and_directives_are_filters_and_other_words_are_not() {
    for text in [
        "info",
        "OFF",
        "warn,windlass_server=debug",
        "windlass[{session}]=trace",
    ] {
        let filter: LogFilter = text.parse().expect(text);
        assert_eq!(filter.to_string(), text);
        filter.env_filter();
    }
    for text in ["verbose", "info,loud", "windlass=loud"] {
        assert!(text.parse::<LogFilter>().is_err(), "{text}");
    }
    LogFilter::default().env_filter();
}
