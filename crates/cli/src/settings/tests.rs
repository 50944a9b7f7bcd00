use std::ffi::OsString;
use std::time::Duration;

use tempfile::TempDir;

use super::*;

mod documentation;

/// A configuration file in a temporary directory.
fn config(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("windlass.toml");
    std::fs::write(&path, text).expect("a file");
    (dir, path)
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    let variables = variables
        .iter()
        .map(|(name, value)| (name.into(), value.into()));
    Environment::new(variables.collect::<Vec<(OsString, OsString)>>()).expect("Unicode")
}

fn flag(name: &'static str, value: &str) -> (&'static str, RawValue) {
    (name, RawValue::Text(value.to_owned()))
}

/// The settings of a file alone, or its error and hint.
fn merge_file(text: &str) -> Result<Merged, (String, Option<String>)> {
    let (dir, path) = config(text);
    let sources = Sources {
        config: Some(path),
        ..Sources::default()
    };
    sources.merge().map_err(|error| {
        let dir = format!("{}/", dir.path().display());
        (error.to_string().replace(&dir, ""), error.hint())
    })
}

#[test]
fn a_port_in_the_file_may_be_a_number() {
    let merged = merge_file("listen = 8081").expect("good settings");
    assert_eq!(merged.settings.listen, ([127, 0, 0, 1], 8081).into());
}

#[test]
fn flags_override_environment_file_and_defaults_in_this_order() {
    let (_dir, path) = config("listen = '127.0.0.1:3'");
    let from_file = format!("file {}:1", path.display());
    let cases = [
        ([true, true, true], 1, "flag --listen"),
        ([true, true, false], 1, "flag --listen"),
        ([true, false, true], 1, "flag --listen"),
        ([true, false, false], 1, "flag --listen"),
        ([false, true, true], 2, "env WINDLASS_LISTEN"),
        ([false, true, false], 2, "env WINDLASS_LISTEN"),
        ([false, false, true], 3, &from_file),
        ([false, false, false], 8080, "default"),
    ];
    for ([by_flag, by_variable, by_file], port, origin) in cases {
        let variable = [("WINDLASS_LISTEN", "127.0.0.1:2")];
        let sources = Sources {
            config: by_file.then(|| path.clone()),
            flags: by_flag
                .then(|| flag("listen", "127.0.0.1:1"))
                .into_iter()
                .collect(),
            environment: environment(if by_variable { &variable } else { &[] }),
        };
        let merged = sources.merge().expect("good settings");
        assert_eq!(merged.settings.listen.port(), port, "{origin}");
        assert_eq!(merged.origin("listen").to_string(), origin);
    }
}

#[test]
fn a_variable_may_name_the_file_and_the_flag_wins_over_it() {
    let (_one, by_variable) = config("log = 'warn'");
    let (_other, by_flag) = config("log = 'error'");
    let variables = [("WINDLASS_CONFIG", by_variable.to_str().expect("Unicode"))];
    let mut sources = Sources {
        environment: environment(&variables),
        ..Sources::default()
    };
    assert_eq!(
        sources.merge().expect("good").settings.log.to_string(),
        "warn"
    );
    sources.config = Some(by_flag);
    assert_eq!(
        sources.merge().expect("good").settings.log.to_string(),
        "error"
    );
}

#[test]
fn keys_of_the_file_reach_the_settings() {
    let merged =
        merge_file("free_space.hard = 0\n[sessions]\nidle = '1d'\n[limits]\nconnections = 7");
    let settings = merged.expect("good settings").settings.server;
    assert_eq!(settings.free_space.hard, 0);
    assert_eq!(
        settings.session_idle,
        Some(Duration::from_secs(24 * 60 * 60))
    );
    assert_eq!(settings.limits.connections, 7);
}

#[test]
fn paths_in_the_file_are_relative_to_it() {
    let (dir, path) = config("data = 'media'\napis = ['farm', 'pond.toml']");
    let sources = Sources {
        config: Some(path),
        ..Sources::default()
    };
    let settings = sources.merge().expect("good settings").settings;
    assert_eq!(settings.data, dir.path().join("media"));
    assert_eq!(
        settings.apis[1],
        ApiSource::ShortForm(dir.path().join("pond.toml")).into()
    );
}

const PRINTS_ALL: &str =
    "`windlass serve --check-config` without the file prints one with all settings";

#[test]
fn error_in_a_file_is_reported_with_its_line() {
    let cases = [
        (
            "\n[limits]\ndarin = '3s'",
            "windlass.toml:3: there is no setting `limits.darin`",
            Some("did you mean `limits.drain`?"),
        ),
        (
            "head_timeout = '3s'",
            "windlass.toml:1: there is no setting `head_timeout`",
            Some("did you mean `limits.head_timeout`?"),
        ),
        (
            "limitz = 3",
            "windlass.toml:1: there is no setting `limitz`",
            Some("did you mean `limits`?"),
        ),
        (
            "limits = 3",
            "windlass.toml:1: `limits` is a table, not a setting",
            Some(
                "write its settings below a line [limits]; `windlass serve --check-config` prints all settings",
            ),
        ),
        (
            "[zoo]\nkeeper = 1",
            "windlass.toml:1: there is no setting `zoo`",
            Some("`windlass serve --check-config` prints all settings"),
        ),
        (
            "[log]",
            "windlass.toml:1: `log` takes text, a number, true or false",
            Some(PRINTS_ALL),
        ),
        (
            "apis = [1]",
            "windlass.toml:1: `apis` takes text, a number, true or false",
            Some(PRINTS_ALL),
        ),
        (
            "log = ",
            "windlass.toml:1: string values must be quoted, expected literal string, in `log =`",
            Some(PRINTS_ALL),
        ),
        ("\nlog = 'loud'", "log (file windlass.toml:2)", None),
    ];
    for (text, expected, expected_hint) in cases {
        let (error, hint) = merge_file(text).expect_err(text);
        assert_eq!((error.as_str(), hint.as_deref()), (expected, expected_hint));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of rules")]
fn violated_rules_are_errors() {
    let cases = [
        (
            "apis = []",
            "apis (file windlass.toml:1): must name at least one API",
        ),
        (
            "tls_cert = 'cert.pem'",
            "tls_cert (file windlass.toml:1): requires tls_key",
        ),
        (
            "tls_key = 'key.pem'",
            "tls_key (file windlass.toml:1): requires tls_cert",
        ),
        ("tls_cert = 'a'\ntls_key = 'b'", ""),
        (
            "tls_cert = 'a'\ntls_key = 'b'\n[acme]\ndomains = ['a.example']\nagree_to_terms = true",
            "acme.domains (file windlass.toml:4): must not be set together with tls_cert",
        ),
        (
            "[acme]\ndomains = ['a.example']",
            "acme.agree_to_terms (default): must be true: Let's Encrypt issues certificates to those who \
             agree to its terms; read them at https://letsencrypt.org/repository/",
        ),
        (
            "[acme]\ndomains = ['a.example']\ndirectory = 'https://ca.example/dir'\nagree_to_terms = false",
            "acme.agree_to_terms (file windlass.toml:4): must be true: an authority issues certificates to \
             those who agree to its terms; their address is `termsOfService` in the document at \
             acme.directory",
        ),
        (
            "[acme]\ncontact = ['ops@a.example']",
            "acme.contact (file windlass.toml:2): requires acme.domains",
        ),
        (
            "[acme]\nroot_file = 'root.pem'",
            "acme.root_file (file windlass.toml:2): requires acme.domains",
        ),
        ("[acme]\ndomains = ['a.example']\nagree_to_terms = true", ""),
        (
            "[webhooks]\nfinished = 'https://a.example/'",
            "webhooks.finished (file windlass.toml:2): requires backends.secret_file, the secret that signs \
             requests",
        ),
        (
            "sessions.idle = '8d'",
            "sessions.idle (file windlass.toml:1): must not be longer than sessions.lifetime, which \
             ends a session anyway",
        ),
        (
            "free_space.soft = '1MB'",
            "free_space.hard (default): must not be more than free_space.soft; set both",
        ),
        (
            "limits.small_media = '65KB'",
            "limits.small_media (file windlass.toml:1): must be at most 64KB; larger media is stored \
             in files",
        ),
        ("limits.drain = '0s'", ""),
        (
            "[cors]\norigins = ['*']\ncredentials = true",
            "cors.credentials (file windlass.toml:3): must not be true for the origin * in cors.origins; \
             name the origins",
        ),
        (
            "[cors]\ncredentials = true\napis = ['farm=*']",
            "cors.apis (file windlass.toml:3): must not allow credentials to the origin *; name the \
             origins, or add credentials=false",
        ),
        (
            "[cors]\ncredentials = true\napis = ['farm=* credentials=false']",
            "",
        ),
    ];
    for (text, expected) in cases {
        let error = merge_file(text).map_or_else(|(error, _)| error, |_| String::new());
        assert_eq!(error, expected, "{text}");
    }
}

#[test]
fn a_variable_that_is_no_setting_is_ignored_and_an_empty_one_not_set() {
    let environment = environment(&[
        ("HOME", "/root"),
        ("WINDLASS_CONFIG", ""),
        ("WINDLASS_LIMIT_DRAIN", "3s"),
        ("WINDLASS_LISTEN", ""),
        ("WINDLASS_PORT_8080_TCP_PROTO", "tcp"),
    ]);
    let ignored: Vec<_> = environment
        .ignored()
        .map(|ignored| (ignored.variable, ignored.nearest))
        .collect();
    let drain = Some("WINDLASS_LIMITS_DRAIN".to_owned());
    let expected = [
        ("WINDLASS_LIMIT_DRAIN".to_owned(), drain),
        ("WINDLASS_PORT_8080_TCP_PROTO".to_owned(), None),
    ];
    assert_eq!(ignored, expected);
    let sources = Sources {
        environment,
        ..Sources::default()
    };
    assert_eq!(
        *sources.merge().expect("defaults").origin("listen"),
        Origin::Default
    );
}

#[test]
fn the_printed_configuration_tells_the_origins_and_reads_back_as_the_same() {
    let sources = Sources {
        config: None,
        flags: vec![flag("data", "/var/lib/windlass")],
        environment: environment(&[("WINDLASS_APIS", "farm,/etc/pond.toml")]),
    };
    let printed = sources.merge().expect("good settings").to_toml();
    let beginning = r#"
listen = "127.0.0.1:8080"               # default
# tls_cert is not set                   # default
# tls_key is not set                    # default
# tls_client_ca is not set              # default
tls_client_certificates = "optional"    # default
# tls_client_crl is not set             # default
data = "/var/lib/windlass"              # flag --data
apis = ["farm", "/etc/pond.toml"]       # env WINDLASS_APIS
# created_status is not set             # default
# access is not set                     # default
# public_url is not set                 # default
trust_forwarded = false                 # default
"#;
    assert!(printed.starts_with(beginning.trim_start()), "{printed}");
    let again = merge_file(&printed)
        .expect("a configuration file")
        .to_toml();
    assert_eq!(
        documentation::without_comments(&again),
        documentation::without_comments(&printed)
    );
}

#[test]
fn every_variable_finds_its_key_and_the_keys_of_a_table_stand_together() {
    for key in KEYS {
        assert_eq!(
            Key::of_variable(&key.variable()).map(|key| key.name),
            Some(key.name)
        );
    }
    let tables: Vec<_> = KEYS
        .chunk_by(|a, b| a.table() == b.table())
        .map(|keys| keys[0].table())
        .collect();
    let expected = [
        None,
        Some("acme"),
        Some("auth"),
        Some("backends"),
        Some("webhooks"),
        Some("audit"),
        Some("cors"),
        Some("downloads"),
        Some("sessions"),
        Some("limits"),
        Some("checkpoints"),
        Some("free_space"),
        Some("metrics"),
        Some("files"),
        Some("gmail"),
    ];
    assert_eq!(tables, expected);
}
