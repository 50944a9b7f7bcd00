//! Warnings about a configuration that may not do what its author expects, and about the scopes of
//! credentials.

use std::process::Command;

use tempfile::TempDir;
use windlass_testkit::raw::{Request, exchange};

use crate::authentication::bearing;
use crate::server::{own, program, scratch};

/// The SHA-256 of "abc".
const TOKEN: &str = "\
[[tokens]]
sha256 = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
principal = 'carol'
";

const READ_ONLY: &str = "scopes = ['https://www.googleapis.com/auth/devstorage.read_only']\n";

fn directory(config: &str, credentials: &str) -> TempDir {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    std::fs::write(directory.path().join("auth.toml"), credentials).expect("it is writable");
    std::fs::write(directory.path().join("windlass.toml"), config).expect("it is writable");
    directory
}

/// The output of `--check-config` for people.
fn checked(config: &str, credentials: &str, arguments: &[&str]) -> String {
    let directory = directory(config, credentials);
    let output = Command::new(program())
        .args(["serve", "--check-config", "--config", "windlass.toml"])
        .args(arguments)
        .current_dir(directory.path())
        .output()
        .expect("it can be run");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn setting_without_an_effect_is_a_warning() {
    let quota = "[limits]\nbytes_per_principal = '1GB'\n[auth]\nfile = 'auth.toml'\n";
    let said = checked("[limits]\nbytes_per_principal = '1GB'\n", "", &[]);
    let expected = "warning: limits.bytes_per_principal (file windlass.toml:2) has no effect: \
                    no credentials are configured (auth.file, auth.token_file), so requests have no principal\n";
    assert_eq!(said, expected);
    assert_eq!(checked(quota, TOKEN, &[]), "");
    // A file that lets nobody in by a name.
    let anonymous = "[[allow]]\nanonymous = true\nmethods = ['get']\n";
    assert_eq!(checked(quota, anonymous, &[]), expected);
    assert_eq!(
        checked("[limits]\nbytes_per_principal = '0'\n", "", &[]),
        ""
    );
    let certificates = "certificates_as_principals = true\n";
    let said = checked("[auth]\nfile = 'auth.toml'\n", certificates, &[]);
    assert!(said.contains("without tls_client_ca"), "{said}");
    let gmail = "[gmail]\ndomains = ['example.com']\n";
    assert!(checked(gmail, "", &[]).contains("the API gmail is not served"));
    assert_eq!(checked(gmail, "", &["--api", "gmail"]), "");
}

#[test]
fn start_says_the_same_warnings() {
    let directory = directory("[limits]\nsessions_per_principal = 3\n", "");
    let config = directory.path().join("windlass.toml");
    let server = own(&["--config", config.to_str().expect("it is UTF-8")]);
    let said = server.stderr();
    assert!(said.contains("limits.sessions_per_principal ("), "{said}");
}

#[test]
fn methods_that_scopes_do_not_limit_are_a_warning() {
    let config = "[auth]\nfile = 'auth.toml'\n";
    let scoped = format!("{TOKEN}{READ_ONLY}");
    let said = checked(config, &scoped, &["--api", "farm", "--api", "storage"]);
    assert!(
        said.starts_with("warning: the scopes of credentials do not limit these methods of farm")
    );
    assert!(!said.contains("storage"), "{said}");
    assert_eq!(checked(config, &scoped, &["--api", "storage"]), "");
    assert_eq!(checked(config, TOKEN, &["--api", "farm"]), "");
}

#[test]
fn api_without_requests_at_the_path_of_files_is_a_warning() {
    let both = ["--api", "files", "--api", "storage"];
    let said = checked("", "", &both);
    let expected = "warning: requests to /files and below are for the API files, not for storage v1, which has such \
                    paths too\n\
                    hint: the key files.path moves the API files, for example to /uploads\n";
    assert_eq!(said, expected);
    let said = checked("[files]\npath = '/uploads'\n", "", &both);
    assert!(said.contains("requests to /uploads and below"), "{said}");
    assert_eq!(checked("", "", &["--api", "files", "--api", "farm"]), "");
    let apart = ["--api", "files@a.example", "--api", "storage@b.example"];
    assert_eq!(checked("", "", &apart), "");
    assert_eq!(checked("", "", &["--api", "storage"]), "");
    let idle = checked("[files]\npath = '/uploads'\n", "", &["--api", "farm"]);
    assert!(
        idle.contains("files.path (file windlass.toml:2) has no effect"),
        "{idle}"
    );
}

#[test]
fn scopes_limit_the_methods_of_built_in_apis() {
    let config = "[auth]\nfile = 'auth.toml'\n";
    let directory = directory(config, &format!("{TOKEN}{READ_ONLY}"));
    let config = directory.path().join("windlass.toml");
    let config = config.to_str().expect("it is UTF-8");
    let server = own(&["--config", config, "--api", "storage"]);
    let send = |request: &Request| exchange(server.address(), &bearing(request, "abc"));
    let insert = "/upload/storage/v1/b/barn/o?name=cow&uploadType=";
    for request in [
        Request::new("POST", format!("{insert}media")).body("moo"),
        Request::new("POST", format!("{insert}resumable")).body("{}"),
        Request::new("DELETE", "/storage/v1/b/barn/o/cow"),
    ] {
        let reply = send(&request).expect(403);
        let error = &reply.json()["error"]["errors"][0];
        assert_eq!(error["reason"], "insufficientPermissions", "{request:?}");
    }
    send(&Request::new("GET", "/storage/v1/b?project=p")).expect(200);
    send(&Request::new("GET", "/storage/v1/b/barn/o/cow")).expect(404);
}
