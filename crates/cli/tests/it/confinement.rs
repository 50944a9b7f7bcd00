//! A confined server cannot do everything that its user may: it opens no unneeded files and leaves
//! no core dumps. It also refuses a data directory that other users can change.
//!
//! The unit tests list the allowed operations by file (`cli: commands::serve::confinement`). All
//! other tests of this suite run confined as well.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tempfile::TempDir;
use windlass_testkit::farm;
use windlass_testkit::process::{ServerProcess, wait_for_end};
use windlass_testkit::raw::exchange;
use windlass_testkit::skip::skipped;
use windlass_testkit::wait::{self, PATIENCE};

use crate::authentication::bearing;
use crate::credentials::{Signer, now};
use crate::server::{own, program, scratch};

const TOKEN: &str = "token-of-the-server";
const NEXT: &str = "token-that-replaces-it";
const ELSEWHERE: &str = "token-of-another-directory";

/// A server with its configuration, keys of tokens and audit log in separate directories.
struct Confined {
    server: ServerProcess,
    root: TempDir,
}

impl Confined {
    fn new(lines: &str, keys: &Signer) -> Self {
        let root = TempDir::new_in(scratch()).expect("it is writable");
        let path = |name: &str| root.path().join(name);
        for name in ["etc", "keys", "log", "elsewhere"] {
            fs::create_dir(path(name)).expect("it is writable");
        }
        replace(&path("etc/token"), TOKEN);
        replace(&path("elsewhere/token"), ELSEWHERE);
        replace(&path("keys/keys.json"), &keys.keys().to_string());
        let issuer = format!(
            "[[jwt]]\nissuer = 'issuer'\naudience = ['windlass']\njwks_file = '{}'\n",
            path("keys/keys.json").display()
        );
        replace(&path("etc/auth.toml"), &issuer);
        let config = format!(
            "{lines}\n[auth]\ntoken_file = 'token'\nfile = 'auth.toml'\n[audit]\nfile = '{}'\n",
            path("log/audit.log").display()
        );
        replace(&path("etc/windlass.toml"), &config);
        let config = path("etc/windlass.toml");
        let config = config.to_str().expect("it is UTF-8");
        Self {
            server: own(&["--config", config]),
            root,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Sends SIGHUP, and waits until the log has this once more.
    #[track_caller]
    fn reload(&self, expected: &str) {
        let count = || self.server.stderr().matches(expected).count();
        let before = count();
        self.server.hang_up();
        wait::until("it is in the log", || count() > before);
    }

    #[track_caller]
    fn check(&self, token: &str, status: u16) {
        let list = bearing(&farm::list(""), token);
        exchange(self.server.address(), &list).expect(status);
    }
}

/// Replaces a file at once, as an operator should.
fn replace(path: &Path, text: &str) {
    let fresh = path.with_extension("fresh");
    fs::write(&fresh, text).expect("it is writable");
    fs::rename(fresh, path).expect("it is the same directory");
}

fn token_of(signer: &Signer) -> String {
    let claims = json!({"iss": "issuer", "aud": "windlass", "sub": "carol", "exp": now() + 3600});
    signer.token(&json!({"alg": "EdDSA", "kid": "k1"}), &claims)
}

const READ_AGAIN: &str = "the file of credentials was read again";

/// Whether the kernel can confine a process. The thread that asks is confined, and ends.
#[cfg(target_os = "linux")]
fn kernel_confines() -> bool {
    use landlock::{AccessFs, Ruleset, RulesetAttr as _, RulesetStatus};

    let ask = || {
        let ruleset = Ruleset::default().handle_access(AccessFs::Execute)?;
        ruleset.create()?.restrict_self()
    };
    let status = std::thread::spawn(ask).join().expect("it does not panic");
    let confines = status.expect("it is only asked").ruleset != RulesetStatus::NotEnforced;
    if !confines {
        skipped("this kernel has no Landlock");
    }
    confines
}

#[cfg(not(target_os = "linux"))]
fn kernel_confines() -> bool {
    false
}

#[test]
fn files_that_are_replaced_are_read_again_by_a_confined_server() {
    let (old, new) = (Signer::new(), Signer::new());
    let confined = Confined::new("", &old);
    confined.check(TOKEN, 200);
    confined.check(&token_of(&old), 200);
    replace(&confined.path("etc/token"), NEXT);
    replace(&confined.path("keys/keys.json"), &new.keys().to_string());
    let audit = confined.path("log/audit.log");
    fs::rename(&audit, confined.path("log/audit.log.1")).expect("it is rotated");
    confined.reload(READ_AGAIN);
    confined.check(TOKEN, 401);
    confined.check(NEXT, 200);
    confined.check(&token_of(&old), 401);
    confined.check(&token_of(&new), 200);
    let entries = fs::read_to_string(audit).expect("there is a new one");
    assert!(entries.contains("the file of credentials"), "{entries}");
    let log = confined.server.stderr();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
    let says_so = log.contains("Landlock confines the server");
    assert_eq!(says_so, kernel_confines(), "{log}");
}

#[test]
fn file_elsewhere_is_refused_although_the_user_may_read_it() {
    if !kernel_confines() {
        return;
    }
    let signer = Signer::new();
    let confined = Confined::new("", &signer);
    let link = |of: &Confined| {
        fs::remove_file(of.path("etc/token")).expect("it is there");
        symlink(of.path("elsewhere/token"), of.path("etc/token")).expect("it is writable");
    };
    link(&confined);
    confined.reload("the file of credentials cannot be used");
    let log = confined.server.stderr();
    assert!(log.contains("Permission denied"), "{log}");
    confined.check(ELSEWHERE, 401);
    confined.check(TOKEN, 200);
    // The same is read where that is turned off, so it was Landlock.
    let free = Confined::new("landlock = false", &signer);
    link(&free);
    free.reload(READ_AGAIN);
    free.check(ELSEWHERE, 200);
    let log = free.server.stderr();
    assert!(!log.contains("Landlock"), "{log}");
}

/// The limit on core dumps of a process, as Linux prints it.
#[cfg(target_os = "linux")]
fn core_limit(process: &str) -> String {
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).expect("it runs");
    let of_core = limits.lines().find(|line| line.starts_with("Max core"));
    let words: Vec<_> = of_core.expect("a limit").split_whitespace().collect();
    words[4..6].join(" ")
}

#[cfg(target_os = "linux")]
#[test]
fn server_leaves_no_core_dump_unless_it_may() {
    let server = own(&[]);
    assert_eq!(core_limit(&server.id().to_string()), "0 0");
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/impatient.toml");
    let server = own(&["--config", config]);
    assert_eq!(core_limit(&server.id().to_string()), core_limit("self"));
}

/// Starts a server that refuses its data directory, and returns its error output.
#[track_caller]
fn refused(data: &Path) -> String {
    let mut serve = Command::new(program())
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--allow-unsafe-filesystem",
            "--data",
        ])
        .arg(data)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let ended = wait_for_end(&mut serve, PATIENCE).expect("it can be waited for");
    serve.kill().ok();
    let said = serve.wait_with_output().expect("it has ended").stderr;
    let said = String::from_utf8(said).expect("it is UTF-8");
    let code = ended.and_then(|status| status.code());
    assert_eq!(code, Some(3), "{said}");
    said
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn data_directory_that_others_can_write_to_is_refused_with_what_to_do() {
    let root = TempDir::new_in(scratch()).expect("it is writable");
    let data = root.path().join("data");
    fs::create_dir(&data).expect("it is writable");
    set_mode(&data, 0o777);
    let said = refused(&data);
    let command = format!("chmod go-w '{}'", data.display());
    assert!(
        said.contains("its permissions are 0777") && said.contains(&command),
        "{said}"
    );
    assert_eq!(fs::read_dir(&data).expect("it is there").count(), 0);
}

#[test]
fn file_of_the_store_that_others_can_write_to_is_refused_with_what_to_do() {
    let mut server = own(&[]);
    server.kill9();
    for name in [
        "lock",
        "ledger.sqlite",
        "ledger.sqlite-wal",
        "ledger.sqlite-shm",
        "vault/identity",
    ] {
        let file = server.data().join(name);
        let before = fs::read(&file).expect("it is there");
        set_mode(&file, 0o666);
        let said = refused(&server.data());
        let command = format!("chmod go-w '{}'", file.display());
        assert!(
            said.contains("its permissions are 0666") && said.contains(&command),
            "{said}"
        );
        assert_eq!(fs::read(&file).expect("it is there"), before, "{name}");
        set_mode(&file, 0o600);
    }
    server.start_again();
    let log = server.stderr();
    assert!(!log.contains("other users can change"), "{log}");
}
