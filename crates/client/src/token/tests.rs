use super::*;

fn command_that_counts(directory: &tempfile::TempDir) -> TokenSource {
    let count = directory.path().join("count");
    let count = count.display();
    TokenSource::command(format!(
        "echo . >> '{count}'; echo token-$(($(wc -l < '{count}')))"
    ))
}

async fn token(source: &TokenSource) -> String {
    let token = source.token().await.unwrap();
    assert!(token.is_sensitive());
    token.to_str().unwrap().to_owned()
}

/// Returns all that an error would show in a log.
fn shown(error: &(dyn StdError + 'static)) -> String {
    let cause = error.source().map(shown).unwrap_or_default();
    format!("{error} {error:?} {cause}")
}

#[tokio::test]
async fn fixed_token_is_a_sensitive_header_and_cannot_be_refreshed() {
    let source = TokenSource::fixed(" ya29.abc-_~+/= \n").unwrap();
    assert_eq!(token(&source).await, "Bearer ya29.abc-_~+/=");
    assert!(!source.refresh().await.unwrap());
    assert_eq!(token(&source).await, "Bearer ya29.abc-_~+/=");
}

#[test]
fn invalid_token_is_refused_and_not_shown() {
    let long = "x".repeat(MAX_TOKEN_LEN + 1);
    for text in ["", " ", "secret secret", "secret\r\nX: y", "sécret", &long] {
        let error = TokenSource::fixed(text).unwrap_err();
        assert!(matches!(error, TokenError::NotAToken { .. }));
        assert!(!shown(&error).contains("cret"), "{}", shown(&error));
    }
}

#[tokio::test]
async fn token_file_is_read_once_and_again_after_a_refusal() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "first\n").unwrap();
    let source = TokenSource::file(file.path());
    assert_eq!(token(&source).await, "Bearer first");
    std::fs::write(file.path(), "second\n").unwrap();
    assert_eq!(token(&source).await, "Bearer first");
    assert!(source.refresh().await.unwrap());
    assert_eq!(token(&source).await, "Bearer second");
}

#[tokio::test]
async fn missing_or_invalid_token_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    let source = TokenSource::file(&path);
    let error = source.token().await.unwrap_err();
    assert!(matches!(&error, TokenError::File { path: named, .. } if *named == path));

    std::fs::write(&path, "secret secret").unwrap();
    let error = source.token().await.unwrap_err();
    assert!(shown(&error).contains("file:"), "{}", shown(&error));
    assert!(!shown(&error).contains("secret"), "{}", shown(&error));
}

#[tokio::test]
async fn token_is_read_from_an_environment_variable() {
    let source = TokenSource::environment("CARGO_PKG_NAME");
    assert_eq!(token(&source).await, "Bearer windlass-client");
    let source = TokenSource::environment("WINDLASS_THAT_NOBODY_SETS");
    let error = source.token().await.unwrap_err();
    assert!(matches!(error, TokenError::NotSet { .. }));
}

#[tokio::test]
async fn token_command_runs_once_for_concurrent_callers() {
    let directory = tempfile::tempdir().unwrap();
    let source = command_that_counts(&directory);
    let (one, other) = (source.clone(), source.clone());
    let tokens = tokio::join!(token(&source), token(&one), token(&other));
    let first = "Bearer token-1".to_owned();
    assert_eq!(tokens, (first.clone(), first.clone(), first));

    let refreshed = tokio::join!(source.refresh(), one.refresh(), other.refresh());
    assert!(refreshed.0.unwrap() && refreshed.1.unwrap() && refreshed.2.unwrap());
    assert_eq!(token(&source).await, "Bearer token-2");

    assert!(one.refresh().await.unwrap());
    assert_eq!(token(&other).await, "Bearer token-3");
}

#[tokio::test]
async fn failed_command_is_reported_with_the_first_line_of_its_stderr() {
    for (command, expected) in [
        (
            "echo secret; printf '\\n gone\\tbad \\n more' >&2; exit 3",
            "gonebad",
        ),
        ("exit 3", "exit status: 3"),
    ] {
        let error = TokenSource::command(command).token().await.unwrap_err();
        match &error {
            TokenError::CommandFailed { message } => assert_eq!(message, expected),
            other => panic!("{other:?}"),
        }
        assert!(!shown(&error).contains("secret"), "{}", shown(&error));
    }
}

#[tokio::test]
async fn failure_is_not_cached() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    let source = TokenSource::command(format!("cat '{}'", path.display()));
    assert!(source.token().await.is_err());
    std::fs::write(&path, "late").unwrap();
    assert_eq!(token(&source).await, "Bearer late");
    std::fs::remove_file(&path).unwrap();
    assert!(source.refresh().await.is_err());
    std::fs::write(&path, "later").unwrap();
    assert_eq!(token(&source).await, "Bearer later");
}

#[tokio::test(start_paused = true)]
async fn hanging_command_is_killed() {
    let error = TokenSource::command("exec sleep 60").token().await;
    let error = error.unwrap_err();
    assert!(matches!(error, TokenError::Timeout { limit, .. } if limit == FETCH_TIMEOUT));
}

#[tokio::test]
async fn oversized_command_output_is_refused() {
    let source = TokenSource::command("head -c 1000000 /dev/zero | tr '\\0' x");
    let error = source.token().await.unwrap_err();
    assert!(matches!(error, TokenError::NotAToken { .. }), "{error:?}");
}

#[test]
fn sources_are_parsed_and_shown_without_secrets() {
    for (text, shown) in [
        ("file:/run/token", "file:/run/token"),
        ("env:TOKEN", "env:TOKEN"),
        ("command:echo secret", "command"),
        ("cmd:echo secret", "command"),
        ("google", "google"),
        ("google:https://mail.google.com/, https://b", "google"),
        ("literal:secret", "literal"),
    ] {
        let source = TokenSource::parse(text).unwrap();
        assert_eq!(format!("{source:?}"), format!("TokenSource({shown})"));
    }
}

#[test]
fn scopes_are_the_given_ones_or_cloud_platform() {
    for (text, expected) in [
        ("google", vec![CLOUD_PLATFORM]),
        (
            "google:https://mail.google.com/, b",
            vec!["https://mail.google.com/", "b"],
        ),
    ] {
        match &TokenSource::parse(text).unwrap().0.kind {
            TokenSourceKind::Google(scopes) => assert_eq!(*scopes, expected),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn bare_token_is_refused_with_a_hint() {
    for (text, expected) in [
        ("ya29.secret", InvalidTokenSource::Bare),
        ("secret:secret", InvalidTokenSource::Bare),
        ("", InvalidTokenSource::Bare),
        ("file:", InvalidTokenSource::Empty { kind: "file" }),
        ("cmd:", InvalidTokenSource::Empty { kind: "cmd" }),
        ("google:", InvalidTokenSource::Empty { kind: "google" }),
        ("literal:two words", InvalidTokenSource::NotAToken),
    ] {
        let error = TokenSource::parse(text).unwrap_err();
        assert_eq!(error, expected, "{text}");
        assert!(!error.to_string().contains("secret"));
    }
}
