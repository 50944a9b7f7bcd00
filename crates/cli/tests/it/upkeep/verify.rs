//! `windlass verify`.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use windlass_testkit::checker::{Google, Load, Workload};
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Request, exchange};
use windlass_testkit::session::{CHUNK_GRANULARITY, Session};

use super::{assert_sound, run};
use crate::server::{own, program, scratch};

/// Media for the vault.
const LARGE: Media = Media::new(1, 3 * CHUNK_GRANULARITY + 5);

/// A server with uploads in every state, and the session that is not finished.
fn busy() -> (ServerProcess, Session) {
    let server = own(&[]);
    let address = server.address();
    for media in [LARGE, Media::new(2, 40_000), Media::new(3, 0)] {
        farm::upload(address, media);
    }
    for media in [LARGE, Media::new(4, 100_000)] {
        let session = farm::begin(address, "finished");
        session.append(media, 0..media.len()).expect(201);
    }
    farm::begin(address, "empty");
    let cancelled = farm::begin(address, "cancelled");
    cancelled.append(LARGE, 0..CHUNK_GRANULARITY).expect(308);
    cancelled.cancel().expect(499);
    let open = farm::begin(address, "open");
    open.append(LARGE, 0..2 * CHUNK_GRANULARITY).expect(308);
    (server, open)
}

/// The only file in the vault that is so long.
#[track_caller]
fn media_of(data: &Path, len: u64) -> PathBuf {
    let mut waiting = vec![data.join("vault")];
    while let Some(path) = waiting.pop() {
        if path.is_file() && path.metadata().expect("it exists").len() == len {
            return path;
        }
        if path.is_dir() {
            let entries = path.read_dir().expect("a directory");
            waiting.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
    }
    panic!("no media of {len} bytes");
}

/// The exit code and the output of a server that does not start.
fn refusal(data: &Path) -> (Option<i32>, String) {
    let mut server = Command::new(program())
        .args([
            "serve",
            "--allow-unsafe-filesystem",
            "--listen",
            "127.0.0.1:0",
            "--data",
        ])
        .arg(data)
        .env_remove("WINDLASS_CONFIG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary can be started");
    // It says where it listens when it has started, and nothing otherwise.
    let starts = server.stdout.take().expect("it is piped").read(&mut [0]);
    if starts.expect("a pipe") > 0 {
        server.kill().expect("it runs");
    }
    let ended = server.wait_with_output().expect("it has ended");
    let said = String::from_utf8(ended.stderr).expect("text");
    (ended.status.code(), said)
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("it exists");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("it is ours");
}

#[test]
fn a_store_is_sound_beside_its_server_after_its_end_and_after_its_death() {
    let (mut server, open) = busy();
    assert_eq!(assert_sound(&server.data()), 0);
    open.append(LARGE, 2 * CHUNK_GRANULARITY..LARGE.len())
        .expect(201);
    server.kill9();
    assert_sound(&server.data());
    server.start_again();
    assert!(server.terminate().success());
    assert_sound(&server.data());
}

#[test]
fn a_store_is_sound_while_clients_upload_and_whenever_its_server_is_killed() {
    let mut server = own(&[]);
    let mut workload = Workload::new(Google::farm(), Load::default(), 1);
    for _ in 0..3 {
        workload.run_while(server.address(), || {
            assert_sound(&server.data());
            server.kill9();
        });
        assert_sound(&server.data());
        server.start_again();
    }
    assert!(workload.figures().uploads > 0, "{}", workload.figures());
}

/// An API that keeps an index for each field of `filter_by`.
const ALBUM: &str = r#"
name = "album"
version = "v1"
[collections.photos]
schema = { title = "string", stars = "integer" }
filter_by = ["title", "stars"]
"#;

#[test]
fn resources_are_counted_without_the_rows_of_their_indexes() {
    let directory = tempfile::tempdir_in(scratch()).expect("it is writable");
    let description = directory.path().join("album.toml");
    fs::write(&description, ALBUM).expect("it is ours");
    let mut server = own(&["--api", description.to_str().expect("UTF-8")]);
    for title in ["a cow", "a goat"] {
        let photo = format!(r#"{{"title":"{title}","stars":3}}"#);
        let insert = Request::new("POST", "/album/v1/photos")
            .header("Content-Type", "application/json")
            .body(photo);
        exchange(server.address(), &insert).expect(200);
    }
    server.terminate();
    let verified = run("verify", &server.data(), &["--json"]).summary();
    assert_eq!(verified["resources"], 2, "{verified}");
    let rows = verified["rows"].as_u64().expect("a number");
    assert!(rows > 2, "{verified}");
    let copy = directory.path().join("copy");
    let copy = copy.to_str().expect("UTF-8");
    let backed_up = run("backup", &server.data(), &["--json", copy]).summary();
    assert_eq!(backed_up["resources"], 2, "{backed_up}");
    assert_eq!(backed_up["rows"], rows, "{backed_up}");
    let text = run("verify", &server.data(), &[]).stdout;
    assert!(
        text.contains(&format!("2 resources ({rows} rows)")),
        "{text}"
    );
}

#[test]
fn a_flipped_byte_in_a_resource_is_damage_that_no_repair_deletes() {
    let (mut server, _) = busy();
    server.terminate();
    let path = media_of(&server.data(), LARGE.len());
    flip(&path, 1000);
    for arguments in [&["--json"][..], &["--json", "--repair"]] {
        let ran = run("verify", &server.data(), arguments);
        assert_eq!(ran.code, Some(6), "{ran:?}");
        let finding = &ran.events()[0];
        assert_eq!(finding["fault"], "rotten");
        assert_eq!(finding["subject"], "resource");
        assert_eq!(finding["mended"], false);
        assert_eq!(
            finding["media"],
            path.file_name().unwrap().to_str().unwrap()
        );
    }
    assert!(path.exists());
}

#[test]
fn a_repair_ends_a_session_whose_committed_bytes_have_rotted() {
    let (mut server, open) = busy();
    server.terminate();
    flip(&media_of(&server.data(), 2 * CHUNK_GRANULARITY), 7);
    let ran = run("verify", &server.data(), &[]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(ran.stdout.starts_with("damage: session "), "{ran:?}");
    assert!(ran.stdout.contains("--repair ends the session"), "{ran:?}");
    let ran = run("verify", &server.data(), &["--repair"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.contains("damage: 1, of which 1 repaired"),
        "{ran:?}"
    );
    assert_eq!(assert_sound(&server.data()), 0);
    server.start_again();
    open.moved_to(server.address()).query().expect(410);
}

#[test]
fn a_repair_is_refused_while_a_server_runs() {
    let (server, _) = busy();
    let ran = run("verify", &server.data(), &["--repair"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(
        ran.stderr
            .contains("is in use by another process\nhint: stop the server"),
        "{ran:?}"
    );
}

#[test]
fn server_without_its_vault_does_not_start_and_loses_nothing() {
    let (mut server, open) = busy();
    server.terminate();
    let (vault, aside) = (server.data().join("vault"), server.beside_data("aside"));
    fs::rename(&vault, &aside).unwrap();
    let (code, said) = refusal(&server.data());
    assert_eq!(code, Some(3), "{said}");
    let expected =
        "is not the vault of this store: it has no mark of a store\nhint: is its disk mounted?";
    assert!(said.contains(expected), "{said}");
    let ran = run("verify", &server.data(), &["--repair"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(ran.stdout.starts_with("damage: vault: "), "{ran:?}");
    assert!(!vault.exists());
    fs::rename(&aside, &vault).unwrap();
    assert_sound(&server.data());
    server.start_again();
    let open = open.moved_to(server.address());
    open.append(LARGE, 2 * CHUNK_GRANULARITY..LARGE.len())
        .expect(201);
}

#[test]
fn command_without_a_store_creates_nothing() {
    let (server, _) = busy();
    let absent = server.beside_data("absent");
    let ran = run("verify", &absent, &[]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("there is no store in"), "{ran:?}");
    assert!(!absent.exists());
}
