use windlass_server::ClientCertificate;

use super::*;

const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[track_caller]
fn check_error(text: &str, line: usize, said: &str) {
    let error = AuthFile::parse(text).unwrap_err();
    assert_eq!(error.line, line, "{error}");
    assert!(error.message.contains(said), "{error}");
}

#[test]
fn file_has_tokens_keys_proxies_and_grants() {
    let text = format!(
        "[[tokens]]\nsha256 = '{HASH}'\nprincipal = 'alice'\ngroups = ['staff']\n\
         scopes = ['read']\n\
         [[keys]]\nsha256 = '{HASH}'\nprincipal = 'web'\n\
         [[proxies]]\nfrom = ['10.0.0.0/8']\n\
         [[allow]]\nprincipals = ['alice']\n"
    );
    let rules = AuthFile::parse(&text).unwrap();
    let rules = rules.into_rules(&Services::none()).unwrap();
    let key = rules.keys.find("abc").expect("it is the secret");
    assert_eq!((key.id(), key.scopes()), ("web", None));
    assert_eq!(rules.proxies[0].principal_header, "x-forwarded-user");
    assert_eq!(rules.schemes.len(), 1);
}

#[test]
fn keys_of_links_have_their_secrets_in_the_file_or_in_one_of_their_own() {
    let text = format!(
        "[[links.keys]]\nid = 'new'\nsecret_file = 'new.key'\n\
         [[links.keys]]\nid = 'old'\nsecret = '{HASH}'\n\
         [[links.revoked]]\nid = 'a'\n[[links.revoked]]\nid = 'b'\nexpires = 9\n"
    );
    let keys = |read: ReadFile<'_>| AuthFile::parse(&text).unwrap().into_link_keys(read);
    let read = |path: &Path| {
        assert_eq!(path, Path::new("new.key"));
        Ok(format!("{HASH}\n"))
    };
    let shown = format!("{:?}", keys(&read).unwrap());
    assert!(!shown.contains(&HASH[..4]), "{shown}");
    let at = |id: &str| shown.find(id).expect("it has both keys");
    assert!(at("\"new\"") < at("\"old\""), "{shown}");
    for (read, said) in [
        (
            &(|_: &Path| Err(io::ErrorKind::NotFound.into())) as ReadFile<'_>,
            "cannot read new.key, the file of links.keys.secret_file",
        ),
        (
            &|_| Ok("s3cret".to_owned()),
            "in new.key must have at least 32 bytes",
        ),
    ] {
        let error = keys(read).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[test]
fn keys_of_links_that_cannot_be_used_are_errors_without_their_secret() {
    let key = |rest: &str| format!("[[links.keys]]\n{rest}");
    let short = key("id = 'a'\nsecret = 's3cret'\n");
    check_error(&short, 3, "at least 32 bytes");
    let error = AuthFile::parse(&short).unwrap_err();
    assert!(!error.to_string().contains("s3cret"), "{error}");
    for rest in [
        "id = 'a'\n".to_owned(),
        format!("id = 'a'\nsecret = '{HASH}'\nsecret_file = 'b'\n"),
    ] {
        check_error(&key(&rest), 1, "exactly one of secret and secret_file");
    }
    for id in ["", "a.b", "a b"] {
        let rest = format!("id = '{id}'\nsecret_file = 'b'\n");
        check_error(&key(&rest), 1, "letters, digits");
    }
    check_error("[links]\nkey = 1\n", 2, "unknown field `key`");
}

#[test]
fn errors_name_the_line_and_no_secret() {
    check_error(
        "\n[[tokens]]\nsha256 = 's3cret'\n",
        3,
        "64 hexadecimal digits",
    );
    let principal = format!("[[tokens]]\nsha256 = '{HASH}'\nprincipal = ''\n");
    check_error(&principal, 3, "must not be empty");
    check_error(
        "[[tokens]]\nsecret = 's3cret'\n",
        2,
        "unknown field `secret`",
    );
    check_error("[[proxies]]\nfrom = ['10.0.0.0/33']\n", 2, "IP address");
    check_error("[[allow]]\nwho = ['alice']\n", 2, "unknown field `who`");
    for empty in [
        "principals = []",
        "groups = []",
        "claims = {}",
        "apis = []",
        "collections = []",
        "methods = []",
    ] {
        check_error(&format!("[[allow]]\n{empty}\n"), 2, "it is empty");
    }
    for (entry, said) in [
        ("issuer = 'https://a.example'\n", "missing field `audience`"),
        ("issuer = ''\naudience = ['b']\n", "must not be empty"),
        ("issuer = 'a'\naudience = []\n", "at least one audience"),
        ("issuer = 'a'\naudience = ['']\n", "at least one audience"),
        ("algorithms = ['HS256']\n", "shared secret"),
        ("algorithms = ['none']\n", "known algorithms"),
        ("jwks_uri = 'http://a.example/keys'\n", "must be https"),
        ("skew = '11m'\n", "at most 10 minutes"),
        ("skew = 60\n", "expected a string"),
        ("secret = 's3cret'\n", "unknown field `secret`"),
    ] {
        let error = AuthFile::parse(&format!("[[jwt]]\n{entry}")).unwrap_err();
        assert!(error.message.contains(said), "{entry}: {error}");
    }
    let error = AuthFile::parse("[[tokens]]\nsha256 = 's3cret'\n").unwrap_err();
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[test]
fn value_of_another_type_is_not_repeated() {
    for (text, line, said) in [
        (
            "tokens = 's3cret'\n",
            1,
            "invalid type: string, expected a sequence",
        ),
        (
            "\ntokens = ['s3cret']\n",
            2,
            "invalid type: string, expected struct SecretEntry",
        ),
        (
            "[links]\nkeys = ['s3\"cret, expected ']\n",
            2,
            "invalid type: string, expected",
        ),
        (
            "[[tokens]]\nsha256 = 53\n",
            2,
            "invalid type: integer, expected a",
        ),
        (
            "introspection = 's3cret'\n",
            1,
            "invalid type: string, expected struct",
        ),
    ] {
        check_error(text, line, said);
        let message = AuthFile::parse(text).unwrap_err().to_string();
        assert!(
            !message.contains("s3") && !message.contains("53"),
            "{message}"
        );
    }
}

/// Makes the rules of a text. The file `keys` has an empty set, `text` and `lines` have
/// none.
fn rules(text: &str) -> Result<Rules, RulesError> {
    let services = Services {
        read: &|path| match path.to_str() {
            Some("keys") => Ok("{\"keys\": []}".to_owned()),
            Some("text") => Ok("s3cret\n".to_owned()),
            Some("lines") => Ok("s3cret\r\n\r\n".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        },
        ..Services::none()
    };
    AuthFile::parse(text).unwrap().into_rules(&services)
}

#[test]
fn certificates_have_principals_by_name_or_fingerprint() {
    let text = format!(
        "certificates_as_principals = true\n\
         [[certificates]]\nname = 'A.example'\nprincipal = 'alice'\nscopes = ['read']\n\
         [[certificates]]\nsha256 = '{}'\nprincipal = 'bob'\ngroups = ['staff']\n",
        vec!["0B"; 32].join(":"),
    );
    let certificates = rules(&text).unwrap().certificates;
    let find = |name: &str, byte| {
        let certificate = ClientCertificate::new([name.to_owned()], [byte; 32]);
        certificates.find(&certificate).expect("there is one")
    };
    let alice = find("a.example", 0);
    let scopes = alice.scopes().map(<[_]>::to_vec);
    assert_eq!(
        (alice.id(), scopes),
        ("alice", Some(vec!["read".to_owned()]))
    );
    let bob = find("a.example", 11);
    assert_eq!((bob.id(), bob.groups()), ("bob", &["staff".to_owned()][..]));
    assert_eq!(find("b.example", 0).id(), "b.example");
    let other = ClientCertificate::new(["b.example".to_owned()], [0; 32]);
    assert_eq!(rules("").unwrap().certificates.find(&other), None);
}

#[test]
fn certificates_that_cannot_be_told_apart_are_refused() {
    let entry = |rest: &str| format!("[[certificates]]\n{rest}principal = 'a'\n");
    check_error(&entry(""), 1, "exactly one of name and sha256");
    let both = format!("name = 'a.example'\nsha256 = '{HASH}'\n");
    check_error(&entry(&both), 1, "exactly one of name and sha256");
    check_error(&entry("name = '*.example'\n"), 2, "without a wildcard");
    check_error(&entry("sha256 = 'abc'\n"), 2, "64 hexadecimal digits");
    check_error(&entry("cn = 'a'\n"), 2, "unknown field `cn`");
    for twice in [
        [entry("name = 'a.example'\n"), entry("name = 'A.Example'\n")],
        [
            entry(&format!("sha256 = '{HASH}'\n")),
            entry(&format!("sha256 = '{HASH}'\n")),
        ],
    ] {
        let error = rules(&twice.concat()).unwrap_err().to_string();
        assert!(error.contains("has two entries"), "{error}");
    }
}

#[test]
fn schemes_are_asked_in_the_order_of_what_they_cost() {
    let issuer = "[[jwt]]\nissuer = 'https://a.example'\naudience = ['b']\n";
    let asked = "[introspection]\nurl = 'https://a.example/introspect'\nclient_id = 'c'\n";
    let all = format!("{issuer}{asked}client_secret_file = 'lines'\n");
    assert_eq!(rules(&all).unwrap().schemes.len(), 3);
    assert_eq!(rules(issuer).unwrap().schemes.len(), 2);
    assert_eq!(rules("").unwrap().schemes.len(), 1);
}

#[test]
fn entries_that_cannot_be_used_are_refused_with_the_reason() {
    let issuer =
        |name: &str, more: &str| format!("[[jwt]]\nissuer = '{name}'\naudience = ['b']\n{more}");
    let asked = "[introspection]\nurl = 'https://a.example/introspect'\nclient_id = 'c'\n";
    for (text, said) in [
        (issuer("a", ""), "is not a URL"),
        (issuer("http://a.example", ""), "is not a URL"),
        (
            issuer("a", "jwks_file = 'missing'"),
            "the file of jwks_file",
        ),
        (
            issuer("a", "jwks_file = 'text'"),
            "text is not a JSON Web Key Set",
        ),
        (issuer("https://a", "").repeat(2), "two entries"),
        (
            format!("{asked}client_secret_file = 'missing'"),
            "the file of client_secret_file",
        ),
    ] {
        let error = rules(&text).unwrap_err().to_string();
        assert!(error.contains(said), "{text}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
    assert!(rules(&issuer("a", "jwks_file = 'keys'")).is_ok());
}
