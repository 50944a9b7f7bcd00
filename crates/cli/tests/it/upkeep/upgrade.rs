//! A server on a data directory that an earlier release has left.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Reply, exchange};
use windlass_testkit::session::Session;
use windlass_testkit::wait;
use windlass_testkit::{directory, farm};

use super::assert_sound;
use crate::server::own;

/// The directory of the fixture with this version of the schema.
fn fixture(version: u8) -> PathBuf {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../store-local/tests/fixtures");
    Path::new(fixtures).join(format!("schema-{version}"))
}

/// An upload of the fixture.
#[derive(Debug)]
struct Upload {
    media: Vec<u8>,
    committed: usize,
    target: String,
    reply: String,
}

impl Upload {
    fn of(version: u8, name: &str) -> Self {
        let path = fixture(version).join("uploads.json");
        let uploads: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let upload = &uploads[name];
        let number = |name| {
            upload[name]
                .as_u64()
                .and_then(|it| usize::try_from(it).ok())
        };
        let text = |name| upload[name].as_str().unwrap_or_default();
        let len = number("length").unwrap();
        let letter = text("media");
        let lines = (0..=len / 8).map(|line| format!("{letter}{line:06}\n"));
        Self {
            media: lines.collect::<String>().into_bytes()[..len].to_vec(),
            committed: number("committed").unwrap(),
            target: text("target").to_owned(),
            reply: text("reply").to_owned(),
        }
    }

    fn session(&self, server: &ServerProcess) -> Session {
        Session::at(server.address(), &self.target)
    }

    #[track_caller]
    fn assert_media(&self, address: SocketAddr, reply: &[u8]) {
        let resource: Value = serde_json::from_slice(reply).unwrap();
        let id = resource["id"].as_str().unwrap();
        let download = exchange(address, &farm::download(id)).expect(200);
        assert!(download.body == self.media, "{self:?}");
    }
}

/// A server on the data of the fixture.
fn upgraded(version: u8) -> ServerProcess {
    let mut server = own(&[]);
    server.kill9();
    let data = server.beside_data("earlier");
    directory::copy(&fixture(version).join("data"), &data);
    server.replace_data(&data);
    // Of an object that was deleted just before the end.
    let garbage = u64::from(version > 1);
    assert_eq!(assert_sound(&server.data()), garbage);
    server.start_again();
    server
}

fn finish(upload: &Upload, session: &Session) -> Reply {
    let (from, len) = (upload.committed, upload.media.len());
    let range = format!("bytes {from}-{}/{len}", len - 1);
    session.put(&range, &upload.media[from..]).expect(201)
}

#[test]
fn data_of_each_earlier_schema_is_upgraded_and_every_upload_continues() {
    for version in 1..=4 {
        upgrade_from(version);
    }
}

fn upgrade_from(version: u8) {
    let mut server = upgraded(version);
    let address = server.address();
    assert!(
        server
            .stderr()
            .contains("the schema of the ledger was upgraded"),
        "{}",
        server.stderr()
    );
    for name in ["small resource", "large resource"] {
        let upload = Upload::of(version, name);
        upload.assert_media(address, upload.reply.as_bytes());
    }
    for name in ["done in the vault", "finished in the ledger"] {
        let upload = Upload::of(version, name);
        let reply = upload.session(&server).query().expect(201);
        assert_eq!(reply.text(), upload.reply);
        upload.assert_media(address, &reply.body);
    }
    let cancelled = Upload::of(version, "cancelled");
    cancelled.session(&server).query().expect(499);
    let mut active = vec!["active in the vault", "begun in the ledger"];
    // A session with a long context.
    active.extend((version > 1).then_some("verbose"));
    for name in active {
        let upload = Upload::of(version, name);
        let session = upload.session(&server);
        let committed = session.query().expect(308).committed();
        assert_eq!(committed, upload.committed as u64, "{name}");
        let reply = finish(&upload, &session);
        upload.assert_media(address, &reply.body);
    }
    let name = "killed while it finishes";
    wait::until("the left-over session is finished", || {
        farm::count(address, name) == 1
    });
    let left_over = Upload::of(version, name);
    let reply = left_over.session(&server).query().expect(201);
    left_over.assert_media(address, &reply.body);

    assert!(server.terminate().success());
    assert_eq!(assert_sound(&server.data()), 0);
    server.start_again();
    let again = left_over.session(&server).query().expect(201);
    assert_eq!(again.body, reply.body);
    assert_eq!(
        server.stderr().matches("the schema of the ledger").count(),
        1
    );
}
