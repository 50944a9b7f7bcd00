//! The audit log: a line for each start, finish, cancel, change, deletion and refusal.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Request, exchange};
use windlass_testkit::session::Session;
use windlass_testkit::wait;

use crate::authentication::{CAROL, CREDENTIALS, DAVE, bearing};
use crate::server::{own, replace_by_fifo, scratch};

const MEDIA: Media = Media::new(63, 300_000);

struct Audited {
    server: ServerProcess,
    directory: TempDir,
}

impl Audited {
    fn new() -> Self {
        let directory = TempDir::new_in(scratch()).expect("it is writable");
        std::fs::write(directory.path().join("auth.toml"), CREDENTIALS).expect("it is writable");
        let config = directory.path().join("windlass.toml");
        let text =
            "apis = ['farm', 'gmail']\n[auth]\nfile = 'auth.toml'\n[audit]\nfile = 'audit.log'\n";
        std::fs::write(&config, text).expect("it is writable");
        Self {
            server: own(&["--config", config.to_str().expect("it is UTF-8")]),
            directory,
        }
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("audit.log")
    }

    fn ask(&self, request: &Request) -> u16 {
        exchange(self.server.address(), request).status
    }
}

fn entries(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).expect("it is readable");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a line is a JSON object"))
        .collect()
}

fn resumable() -> Request {
    let request = Request::new("POST", format!("{UPLOADS}?uploadType=resumable"));
    request.header("content-length", 0)
}

/// Checks the last entry, and that it names time, address and request.
#[track_caller]
fn assert_last(audited: &Audited, number: usize, expected: [(&str, Value); 5]) -> Value {
    let entries = entries(&audited.log());
    assert_eq!(entries.len(), number, "{entries:#?}");
    let last = entries.last().expect("there is one").clone();
    for (name, value) in expected {
        assert_eq!(last[name], value, "{name} of {last}");
    }
    assert_eq!(last["address"], "127.0.0.1");
    assert_eq!(last["request"].as_str().map(str::len), Some(16), "{last}");
    assert!(
        last["time"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z'))
    );
    last
}

#[test]
fn each_start_finish_cancel_change_deletion_and_refusal_is_a_line_that_says_who() {
    let audited = Audited::new();
    let address = audited.server.address();
    let insert = Value::from("farm.animals.insert");
    let of_carol = |action: &str, method: &Value| {
        [
            ("action", Value::from(action)),
            ("outcome", "done".into()),
            ("principal", "carol".into()),
            ("method", method.clone()),
            ("path", ANIMALS.into()),
        ]
    };
    let started = exchange(address, &bearing(&resumable(), CAROL)).expect(200);
    let start = assert_last(&audited, 1, of_carol("start", &insert));
    assert_eq!(start["session"].as_str().map(str::len), Some(8), "{start}");
    // The session URI is all that these requests have.
    let session = Session::of_reply(address, &started);
    session.append(MEDIA, 0..262_144).expect(308);
    session.query().expect(308);
    let animal = session.append(MEDIA, 262_144..MEDIA.len()).expect(201);
    let last = assert_last(&audited, 2, of_carol("finish", &insert));
    assert_eq!(last["resource"], farm::id(&animal));
    assert_eq!(last["session"], start["session"]);
    // A final reply that is repeated is no second finish.
    session.query().expect(201);

    let simple = Request::new("POST", format!("{UPLOADS}?uploadType=media"));
    let simple = simple.header("content-type", "image/png").body("a cow");
    exchange(address, &bearing(&simple, CAROL)).expect(200);
    let last = assert_last(&audited, 3, of_carol("finish", &insert));
    assert_eq!(last["session"], Value::Null);

    let started = exchange(address, &bearing(&resumable(), CAROL)).expect(200);
    Session::of_reply(address, &started).cancel().expect(499);
    let mut cancel = of_carol("cancel", &insert);
    // Every client with the URI can cancel.
    cancel[2].1 = Value::Null;
    assert_last(&audited, 5, cancel);

    let path = format!("{ANIMALS}/{}", farm::id(&animal));
    let rename = Request::new("PATCH", path.clone()).header("Content-Type", "application/json");
    let rename = rename.body("{\"name\": \"Bella\"}");
    let mut expected = of_carol("change", &"farm.animals.patch".into());
    expected[4].1 = path.clone().into();
    exchange(address, &bearing(&rename, CAROL)).expect(200);
    assert_last(&audited, 6, expected);

    let delete = Request::new("DELETE", path.clone());
    let mut expected = of_carol("delete", &"farm.animals.delete".into());
    expected[4].1 = path.clone().into();
    exchange(address, &bearing(&delete, CAROL)).expect(204);
    assert_last(&audited, 7, expected.clone());

    expected[0].1 = "authorize".into();
    expected[1].1 = "refused".into();
    expected[3].1 = Value::Null;
    let refused = |principal: Value| {
        let mut expected = expected.clone();
        expected[2].1 = principal;
        expected
    };
    assert_eq!(audited.ask(&delete), 401);
    let last = assert_last(&audited, 8, refused(Value::Null));
    assert_eq!(last["status"], 401);
    assert_eq!(audited.ask(&bearing(&delete, "wrong")), 401);
    assert_last(&audited, 9, refused(Value::Null));
    assert_eq!(audited.ask(&bearing(&delete, DAVE)), 403);
    let last = assert_last(&audited, 10, refused("dave".into()));
    assert_eq!(last["status"], 403);

    let text = std::fs::read_to_string(audited.log()).expect("it is readable");
    for secret in [CAROL, DAVE, "wrong", "upload_id", session.upload_id()] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

/// A new name replaces the row of the old one.
#[test]
fn renaming_is_a_change_and_no_deletion() {
    let audited = Audited::new();
    let ask = |method: &str, path: &str, name: &str| {
        let request = Request::new(method, format!("/gmail/v1/users/me/labels{path}"))
            .header("Content-Type", "application/json")
            .body(format!("{{\"name\": \"{name}\"}}"));
        exchange(audited.server.address(), &bearing(&request, CAROL))
    };
    let label = format!("/{}", farm::id(&ask("POST", "", "hay").expect(200)));
    ask("PATCH", &label, "straw").expect(200);
    ask("DELETE", &label, "").expect(204);
    let entries = entries(&audited.log());
    let actions: Vec<_> = entries.iter().map(|entry| &entry["action"]).collect();
    assert_eq!(actions, ["change", "change", "delete"]);
}

#[test]
fn sessions_are_revoked_by_the_id_in_the_log_or_by_their_principal_and_time() {
    let audited = Audited::new();
    let address = audited.server.address();
    let start = || {
        let started = exchange(address, &bearing(&resumable(), CAROL)).expect(200);
        let session = Session::of_reply(address, &started);
        session.append(MEDIA, 0..262_144).expect(308);
        let entries = entries(&audited.log());
        (
            session,
            entries.last().expect("the start")["session"].clone(),
        )
    };
    let (named, id) = start();
    let (other, _) = start();
    let of_dave = exchange(address, &bearing(&resumable(), DAVE)).expect(200);
    let of_dave = Session::of_reply(address, &of_dave);
    let revoke = |rows: &str, session: &Session| {
        let file = audited.directory.path().join("auth.toml");
        std::fs::write(file, format!("{CREDENTIALS}{rows}")).expect("it is writable");
        audited.server.hang_up();
        wait::until("the session has been revoked", || {
            session.query().status == 404
        });
    };
    revoke(&format!("[[sessions.revoked]]\nsession = {id}\n"), &named);
    // Found in the cache, and in the ledger.
    for session in [&other, &of_dave] {
        session.query().expect(308);
    }
    named.append(MEDIA, 262_144..MEDIA.len()).expect(404);

    let before = "before = 9999-01-01T00:00:00Z";
    let rows = format!("[[sessions.revoked]]\nprincipal = 'carol'\n{before}\n");
    revoke(&rows, &other);
    other.append(MEDIA, 262_144..MEDIA.len()).expect(404);
    other.cancel().expect(404);
    of_dave.append(MEDIA, 0..MEDIA.len()).expect(201);
    // The first one is not in the file any more.
    named.query().expect(404);
    // Three starts, two times two files that were read again, and a finish.
    wait::until("all of it is there", || entries(&audited.log()).len() == 8);
}

#[test]
fn log_is_opened_again_on_sighup_and_says_so() {
    let audited = Audited::new();
    let rotated = audited.directory.path().join("audit.log.1");
    std::fs::rename(audited.log(), &rotated).expect("it can be renamed");
    audited.server.hang_up();
    wait::until("the file is there again", || audited.log().exists());
    wait::until("both reloads are in it", || {
        entries(&audited.log()).len() == 2
    });
    let written = entries(&audited.log());
    for (entry, what) in written
        .iter()
        .zip(["the audit log", "the file of credentials"])
    {
        assert_eq!(entry["action"], "reload", "{entry}");
        assert_eq!(entry["outcome"], "done", "{entry}");
        assert_eq!(entry["resource"], what, "{entry}");
    }
    assert_eq!(entries(&rotated), Vec::<Value>::new());
}

#[test]
fn log_is_kept_while_a_fifo_is_in_its_place_and_opened_again_afterwards() {
    let audited = Audited::new();
    replace_by_fifo(&audited.log());
    audited.server.hang_up();
    wait::until("it is refused and the rest is read again", || {
        let said = audited.server.stderr();
        said.contains("the audit log cannot be used; the old one stays in use")
            && said.contains("the file of credentials was read again")
    });
    std::fs::remove_file(audited.log()).expect("it is there");
    audited.server.hang_up();
    wait::until("the file is there again", || audited.log().exists());
    wait::until("both reloads are in it", || {
        entries(&audited.log()).len() == 2
    });
}
