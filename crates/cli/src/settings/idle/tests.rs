use std::collections::BTreeSet;

use super::super::Sources;
use super::super::key::KEYS;
use super::*;

/// Settings with an effect that depends on no other setting, or only on facts that the running
/// process knows, such as the file system of the data.
const ALWAYS: &[&str] = &[
    "listen",
    "data",
    "apis",
    "created_status",
    "public_url",
    "trust_forwarded",
    "proxy_protocol",
    "hosts",
    "batches",
    "log",
    "durability",
    "page_cache",
    "allow_unsafe_filesystem",
    "allow_shared_data",
    "dev_tokens",
    "landlock",
    "core_dumps",
    "acme.domains",
    "auth.token_file",
    "auth.file",
    "audit.file",
    "cors.origins",
    "cors.apis",
    "downloads.inline",
    "downloads.resource_policy",
    "downloads.host",
    "sessions.lifetime",
    "sessions.chunks",
    "sessions.bind_origin",
    "limits.small_media",
    "limits.head",
    "limits.part_headers",
    "limits.metadata",
    "limits.json_values",
    "limits.json_depth",
    "limits.media_memory",
    "limits.reading_memory",
    "limits.metadata_memory",
    "limits.reply_memory",
    "limits.connections",
    "limits.copies_per_hour",
    "limits.requests_per_address",
    "limits.min_rate",
    "limits.requests",
    "limits.streams",
    "limits.window",
    "limits.uploads",
    "limits.downloads",
    "limits.head_timeout",
    "limits.body_timeout",
    "limits.takeover_timeout",
    "limits.gzip_ratio",
    "limits.linger",
    "limits.drain",
    "checkpoints.bytes",
    "checkpoints.interval",
    "free_space.soft",
    "free_space.hard",
    "metrics.listen",
];

/// Settings that are refused without the settings that they need.
const REFUSED: &[&str] = &[
    "tls_cert",
    "tls_key",
    "tls_client_crl",
    "acme.contact",
    "acme.root_file",
    "webhooks.finished",
];

const NOTHING: Surroundings = Surroundings {
    has_principals: false,
    has_certificates: false,
    calls_services: false,
    serves_files: false,
    serves_gmail: false,
};

const EVERYTHING: Surroundings = Surroundings {
    has_principals: true,
    has_certificates: true,
    calls_services: true,
    serves_files: true,
    serves_gmail: true,
};

fn idle(text: &str, around: Surroundings) -> Vec<String> {
    let directory = tempfile::tempdir().expect("it is writable");
    let path = directory.path().join("windlass.toml");
    std::fs::write(&path, text).expect("it is writable");
    let sources = Sources {
        config: Some(path),
        ..Sources::default()
    };
    let merged = sources.merge().expect("good settings");
    merged.idle(around).map(|it| it.to_string()).collect()
}

/// A setting, the other settings that it needs, and a value that switches it off.
const EXAMPLES: &[(&str, &str, Option<&str>)] = &[
    (
        "tls_client_ca = 'ca'\ntls_cert = 'c'\ntls_key = 'k'\n[auth]\nfile = 'a'",
        "",
        None,
    ),
    (
        "tls_client_certificates = 'optional'",
        "tls_cert = 'c'\ntls_key = 'k'\ntls_client_ca = 'ca'\n[auth]\nfile = 'a'",
        None,
    ),
    ("access = ['farm=owner']", "", Some("access = []")),
    (
        "hsts = '1d'",
        "tls_cert = 'c'\ntls_key = 'k'",
        Some("hsts = '0s'"),
    ),
    ("hsts = '1d'", "public_url = 'https://up.example.com'", None),
    ("hsts = '1d'", "trust_forwarded = true", None),
    (
        "allow_unauthenticated = true",
        "listen = '0.0.0.0:80'",
        Some("allow_unauthenticated = false"),
    ),
    (
        "[acme]\nagree_to_terms = true",
        "domains = ['up.example.com']",
        Some("[acme]\nagree_to_terms = false"),
    ),
    (
        "[acme]\ndirectory = 'https://ca.example/dir'",
        "domains = ['up.example.com']\nagree_to_terms = true",
        None,
    ),
    ("[auth]\nunowned = 'carol'", "", None),
    ("[backends]\nsecret_file = 's'", "", None),
    (
        "[backends]\nprivate_addresses = true",
        "",
        Some("[backends]\nprivate_addresses = false"),
    ),
    ("[backends]\ntimeout = '9s'", "", None),
    (
        "[cors]\ncredentials = true",
        "origins = ['https://app.example']",
        Some("[cors]\ncredentials = false"),
    ),
    (
        "[cors]\nmax_age = '9s'",
        "origins = ['https://app.example']",
        None,
    ),
    ("[sessions]\nidle = '7d'", "lifetime = '8d'", None),
    (
        "[sessions]\nauth = 'owner'",
        "",
        Some("[sessions]\nauth = 'uri'"),
    ),
    (
        "[limits]\nconnections_per_address = 9000",
        "connections = 9001",
        Some("[limits]\nconnections_per_address = 0"),
    ),
    (
        "[limits]\nrequests_per_principal = 9",
        "",
        Some("[limits]\nrequests_per_principal = 0"),
    ),
    (
        "[limits]\nsessions_per_principal = 9",
        "",
        Some("[limits]\nsessions_per_principal = 0"),
    ),
    (
        "[limits]\nbytes_per_principal = 9",
        "",
        Some("[limits]\nbytes_per_principal = 0"),
    ),
    ("[files]\npath = '/uploads'", "", None),
    #[cfg(feature = "gmail")]
    ("[gmail]\nme = 'me@example.com'", "", None),
    #[cfg(feature = "gmail")]
    ("[gmail]\ndomains = ['example.com']", "", None),
    #[cfg(feature = "gmail")]
    ("[gmail]\nrelay = 'smtps://mail.example.com'", "", None),
    #[cfg(feature = "gmail")]
    (
        "[gmail]\nrelay_password_file = 'p'\nrelay = 'smtps://carol@mail.example.com'",
        "",
        None,
    ),
];

/// Returns the key that a text sets first.
fn key_of(text: &str) -> String {
    let (table, line) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]\n").expect("a line follows"),
        None => ("", text),
    };
    let leaf = line.split(" = ").next().unwrap_or_default();
    match table {
        "" => leaf.to_owned(),
        table => format!("{table}.{leaf}"),
    }
}

#[test]
fn setting_without_what_it_needs_is_named() {
    for (text, needs, off) in EXAMPLES {
        let key = key_of(text);
        let named = |found: &[String]| found.iter().any(|it| it.starts_with(&format!("{key} (")));
        let found = idle(text, NOTHING);
        assert!(named(&found), "{text}: {found:?}");
        if let Some(off) = off {
            let found = idle(off, NOTHING);
            assert!(!named(&found), "{off}: {found:?}");
        }
        let whole = format!("{text}\n{needs}");
        let found = idle(&whole, EVERYTHING);
        assert!(!named(&found), "{whole}: {found:?}");
    }
}

#[test]
fn setting_that_another_makes_moot_is_named() {
    let resets = "trust_forwarded = true\n[limits]\nresets_per_address = 9";
    let found = idle(resets, EVERYTHING);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("windlass.toml:3) has no effect: trust_forwarded turns it off"));
    assert!(idle("[limits]\nresets_per_address = 9", EVERYTHING).is_empty());
    let shorter = "[sessions]\nidle = '2d'\nlifetime = '3d'";
    assert!(idle(shorter, EVERYTHING).is_empty());
    let guarded = "listen = '0.0.0.0:80'\nallow_unauthenticated = true\n[auth]\ntoken_file = 't'";
    assert_eq!(idle(guarded, EVERYTHING).len(), 1);
}

#[test]
fn defaults_are_never_named() {
    assert!(idle("", NOTHING).is_empty());
    assert!(idle("", EVERYTHING).is_empty());
}

#[test]
fn each_setting_has_its_case_or_needs_none() {
    let with_case: BTreeSet<_> = CASES.iter().map(|case| case.key).collect();
    let shown: BTreeSet<_> = EXAMPLES.iter().map(|(text, ..)| key_of(text)).collect();
    for key in &with_case {
        assert!(
            shown.contains(*key) || *key == "limits.resets_per_address",
            "{key}"
        );
    }
    for key in KEYS {
        let lists = [
            with_case.contains(key.name),
            ALWAYS.contains(&key.name),
            REFUSED.contains(&key.name),
        ];
        let count = lists.into_iter().filter(|is_in| *is_in).count();
        assert_eq!(count, 1, "{}", key.name);
    }
}
