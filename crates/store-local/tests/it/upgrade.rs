//! Stores of an earlier schema, as releases have left them on disks.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use rusqlite::Connection;
use tempfile::TempDir;
use windlass_store::{Ledger, READ_LEN, Session, SessionId, SessionState, Usage, Vault};
use windlass_store_local::backup::backup;
use windlass_store_local::verify::{VerifyOptions, verify};
use windlass_store_local::{LocalStore, OpenError, Options};

use crate::directory;
use crate::sample::NOW;

/// The sessions of the fixture, in the order of their starts: the letter of the media, the state,
/// and the committed bytes.
const SESSIONS: [(char, SessionState, usize); 6] = [
    ('a', SessionState::Active, 4096),
    ('b', SessionState::Active, 300),
    ('c', SessionState::Cancelled, 2000),
    ('d', SessionState::Finished, 3000),
    ('f', SessionState::Finished, 700),
    ('k', SessionState::Finishing, 2500),
];

/// The resources of the fixture, in the order of their ids: the letter and the length of the media.
const RESOURCES: [(char, usize); 4] = [('s', 600), ('l', 5000), ('d', 3000), ('f', 700)];

/// Length of the header of a WAL, and of a frame with its header.
const WAL_HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

/// Returns a copy of the fixture. The last process that used the fixture was killed.
fn schema_1() -> TempDir {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/schema-1/data");
    let dir = directory::new();
    windlass_testkit::directory::copy(Path::new(fixture), dir.path());
    dir
}

/// Runs a query on a copy of the ledger, so that the ledger itself stays as it is.
fn ask<T>(dir: &Path, query: impl FnOnce(&Connection) -> T) -> T {
    let aside = directory::new();
    for name in ["ledger.sqlite", "ledger.sqlite-wal"] {
        if dir.join(name).exists() {
            fs::copy(dir.join(name), aside.path().join(name)).unwrap();
        }
    }
    query(&Connection::open(aside.path().join("ledger.sqlite")).unwrap())
}

/// The version of the schema, and the columns that version 1 does not have.
fn schema(dir: &Path) -> (i32, BTreeSet<String>) {
    const COLUMNS: &str = "SELECT tables.name || '.' || columns.name
        FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
        WHERE columns.name IN ('owner', 'dialect')";
    ask(dir, |connection| {
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
        let mut statement = connection.prepare(COLUMNS).unwrap();
        let columns = statement.query_map([], |row| row.get(0)).unwrap();
        (version.unwrap(), columns.collect::<Result<_, _>>().unwrap())
    })
}

fn old() -> (i32, BTreeSet<String>) {
    (1, BTreeSet::new())
}

fn new() -> (i32, BTreeSet<String>) {
    let columns = [
        "resources.owner",
        "sessions.dialect",
        "sessions.owner",
        "usage.owner",
    ];
    (4, columns.map(str::to_owned).into())
}

fn session_ids(dir: &Path) -> Vec<SessionId> {
    ask(dir, |connection| {
        let mut statement = connection
            .prepare("SELECT id FROM sessions ORDER BY rowid")
            .unwrap();
        let ids = statement.query_map([], |row| row.get(0)).unwrap();
        ids.map(|id| SessionId::from_bytes(id.unwrap())).collect()
    })
}

/// The first `len` bytes of the media of this letter: numbered lines.
fn media(letter: char, len: usize) -> Vec<u8> {
    let lines = (0..=len / 8).map(|line| format!("{letter}{line:06}\n"));
    lines.collect::<String>().into_bytes()[..len].to_vec()
}

/// Verifies the store, and returns the counts of sessions, resources and findings.
fn verified(dir: &Path, repair: bool) -> (u64, u64, u64) {
    let options = VerifyOptions::new(NOW).repair(repair);
    let verified = verify(dir, options, &mut |_| ()).unwrap();
    let found = verified.damage + verified.remains;
    (verified.sessions, verified.resources, found)
}

fn open(dir: &Path) -> Result<LocalStore, OpenError> {
    LocalStore::open(dir, Options::default().allow_unsafe_filesystem(true))
}

/// Checks that all rows and media of the fixture are there.
async fn check(store: &LocalStore, ids: &[SessionId]) {
    for (id, (letter, state, committed)) in ids.iter().zip(SESSIONS) {
        let Session {
            state: found,
            progress,
            reply,
            owner,
            dialect,
            ..
        } = store.ledger.session(*id).await.unwrap().unwrap();
        assert_eq!(
            (found, progress.offset),
            (state, committed as u64),
            "{letter}"
        );
        assert_eq!((owner, dialect.as_str()), (None, "google"), "{letter}");
        assert_eq!(reply.is_some(), state == SessionState::Finished, "{letter}");
        match (letter, progress.media) {
            ('b', Some(at)) => {
                let bytes = store.ledger.small_media(at.id).await.unwrap().unwrap();
                assert_eq!(bytes, media(letter, committed));
            }
            ('a' | 'k', Some(at)) => {
                let reopened = store.vault.reopen(at.id, progress.offset, progress.extent);
                reopened.await.unwrap();
                let mut reader = store.vault.read(at.id, 0..progress.offset).await.unwrap();
                assert_eq!(
                    reader.next(READ_LEN).await.unwrap(),
                    media(letter, committed)
                );
            }
            (_, named) => assert_eq!(named, None, "{letter}"),
        }
    }
    let resources = store
        .ledger
        .resources("farm/farm/v1/animals", None, 10)
        .await;
    let resources = resources.unwrap();
    assert_eq!(resources.len(), RESOURCES.len());
    for (resource, (letter, len)) in resources.into_iter().zip(RESOURCES) {
        assert_eq!(resource.owner, None);
        let described = resource.media.unwrap();
        assert_eq!(described.length, len as u64);
        let bytes = if len <= 1024 {
            store.ledger.small_media(described.at.id).await.unwrap()
        } else {
            let mut reader = store
                .vault
                .read(described.at.id, 0..described.length)
                .await
                .unwrap();
            Some(reader.next(READ_LEN).await.unwrap())
        };
        assert_eq!(bytes.unwrap(), media(letter, len), "{letter}");
    }
}

#[tokio::test]
async fn store_of_schema_1_is_upgraded_with_all_that_is_in_it() {
    let dir = schema_1();
    assert_eq!(schema(dir.path()), old());
    let ids = session_ids(dir.path());
    assert_eq!(ids.len(), SESSIONS.len());
    for _ in 0..2 {
        let store = open(dir.path()).unwrap();
        check(&store, &ids).await;
        drop(store);
        assert_eq!(schema(dir.path()), new());
        assert_eq!(verified(dir.path(), false), (6, 4, 0));
    }
}

#[test]
fn verification_reads_schema_1_and_leaves_it() {
    let dir = schema_1();
    assert_eq!(verified(dir.path(), false), (6, 4, 0));
    assert_eq!(schema(dir.path()), old());
    // A repair writes, and opens the ledger as a server does.
    assert_eq!(verified(dir.path(), true), (6, 4, 0));
    assert_eq!(schema(dir.path()), new());
}

#[tokio::test]
async fn backup_of_schema_1_stays_as_it_is_until_a_server_opens_it() {
    let (dir, target) = (schema_1(), directory::new());
    let made = backup(dir.path(), target.path(), &mut |_| ()).unwrap();
    assert_eq!((made.sessions, made.resources, made.damage), (6, 4, 0));
    assert_eq!(schema(dir.path()), old());
    // The way back, should the upgrade not be wanted.
    assert_eq!(schema(target.path()), old());
    assert_eq!(verified(target.path(), false), (6, 4, 0));
    let ids = session_ids(target.path());
    let store = open(target.path()).unwrap();
    check(&store, &ids).await;
    drop(store);
    assert_eq!(schema(target.path()), new());
}

#[test]
fn backup_of_an_upgraded_store_is_upgraded_too() {
    let (dir, target) = (schema_1(), directory::new());
    backup(dir.path(), target.path(), &mut |_| ()).unwrap();
    drop(open(dir.path()).unwrap());
    // Into the backup that was made before.
    let made = backup(dir.path(), target.path(), &mut |_| ()).unwrap();
    assert_eq!((made.sessions, made.resources, made.damage), (6, 4, 0));
    assert_eq!(schema(target.path()), new());
}

#[tokio::test]
async fn upgrade_that_is_interrupted_leaves_either_schema_and_is_made_again() {
    let (dir, crashed) = (schema_1(), directory::new());
    let ids = session_ids(dir.path());
    let name = "ledger.sqlite-wal";
    let len_before = fs::metadata(dir.path().join(name)).unwrap().len();
    let store = open(dir.path()).unwrap();
    windlass_testkit::directory::copy(dir.path(), crashed.path());
    drop(store);
    let wal = fs::read(crashed.path().join(name)).unwrap();
    assert!(wal.len() as u64 > len_before, "the upgrade is in the WAL");
    let mut seen = Vec::new();
    let from = usize::try_from(len_before).unwrap();
    assert_eq!((from - WAL_HEADER) % FRAME, 0);
    // Whole frames, and frames that are torn.
    for end in (from..=wal.len()).step_by(FRAME / 2) {
        let dir = directory::new();
        windlass_testkit::directory::copy(crashed.path(), dir.path());
        fs::write(dir.path().join(name), &wal[..end]).unwrap();
        let found = schema(dir.path());
        assert!(found == old() || found == new(), "at {end}: {found:?}");
        seen.push(found.0);
        let store = open(dir.path()).unwrap();
        check(&store, &ids).await;
        drop(store);
        assert_eq!(schema(dir.path()), new(), "at {end}");
    }
    assert!(
        seen.is_sorted() && seen.contains(&1) && seen.contains(&4),
        "{seen:?}"
    );
}

#[test]
fn upgraded_tables_are_those_of_a_new_store() {
    const COLUMNS: &str = "SELECT tables.name || ': ' || columns.cid || columns.name || ' '
            || columns.type || columns.\"notnull\" || ifnull(columns.dflt_value, '-') || columns.pk
        FROM sqlite_schema AS tables, pragma_table_xinfo(tables.name) AS columns ORDER BY 1";
    let columns = |dir: &TempDir| -> Vec<String> {
        drop(open(dir.path()).unwrap());
        ask(dir.path(), |connection| {
            let mut statement = connection.prepare(COLUMNS).unwrap();
            let columns = statement.query_map([], |row| row.get(0)).unwrap();
            columns.collect::<Result<_, _>>().unwrap()
        })
    };
    assert_eq!(columns(&schema_1()), columns(&directory::new()));
}

#[tokio::test]
async fn usage_is_counted_when_a_store_of_schema_2_is_opened() {
    usage_is_counted_after(
        "DROP TABLE usage; DROP TRIGGER session_started; DROP TRIGGER session_changed; DROP TRIGGER session_deleted;
        DROP TRIGGER resource_inserted; DROP TRIGGER resource_changed; DROP TRIGGER resource_deleted;
        PRAGMA user_version = 2;",
    )
    .await;
}

#[tokio::test]
async fn usage_is_counted_again_when_a_store_of_schema_3_is_opened() {
    usage_is_counted_after("UPDATE usage SET kib = 7; PRAGMA user_version = 3;").await;
}

/// Opens a store after these statements, and compares the usage with a count.
async fn usage_is_counted_after(statements: &str) {
    let dir = schema_1();
    let owners =
        "UPDATE sessions SET owner = 'ann'; UPDATE resources SET owner = 'ann' WHERE rowid < 3;";
    let counted = {
        let store = open(dir.path()).unwrap();
        let before = store.ledger.usage("ann").await.unwrap();
        assert_eq!(before, Usage::default());
        drop(store);
        let connection = Connection::open(dir.path().join("ledger.sqlite")).unwrap();
        connection.execute_batch(owners).unwrap();
        connection.execute_batch(statements).unwrap();
        let sql = "SELECT sum(state < 2), sum((iif(state < 2, max(coalesce(total, 0), offset), 0)
                + length(context) + coalesce(length(reply), 0) + 1023) / 1024)
            FROM sessions";
        let of_sessions = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
        let (sessions, kib): (u32, u32) = of_sessions.unwrap();
        let sql =
            "SELECT sum((length + length(body) + 1023) / 1024) FROM resources WHERE owner = 'ann'";
        let more: u32 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        Usage {
            sessions: sessions.into(),
            bytes: u64::from(kib + more) * 1024,
        }
    };
    assert!(
        counted.sessions == 3 && counted.bytes > 3 * 1024,
        "{counted:?}"
    );
    let store = open(dir.path()).unwrap();
    assert_eq!(store.ledger.usage("ann").await.unwrap(), counted);
}

/// The messages of an error and of its causes.
fn causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let messages: Vec<String> = causes.map(ToString::to_string).collect();
    messages.join(": ")
}

#[test]
fn store_of_a_newer_schema_is_refused_by_server_verification_and_backup() {
    let (dir, target) = (schema_1(), directory::new());
    drop(open(dir.path()).unwrap());
    let ledger = dir.path().join("ledger.sqlite");
    let connection = Connection::open(&ledger).unwrap();
    connection.pragma_update(None, "user_version", 5).unwrap();
    drop(connection);
    let before = fs::read(&ledger).unwrap();
    let refusals = [
        causes(&open(dir.path()).map(drop).unwrap_err()),
        causes(&verify(dir.path(), VerifyOptions::new(NOW), &mut |_| ()).unwrap_err()),
        causes(&backup(dir.path(), target.path(), &mut |_| ()).unwrap_err()),
    ];
    for refusal in refusals {
        assert!(refusal.contains("its schema has version 5"), "{refusal}");
    }
    assert!(fs::read(&ledger).unwrap() == before);
}
