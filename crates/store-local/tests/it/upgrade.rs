//! Stores of an earlier schema, as releases have left them on disks.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use rusqlite::Connection;
use tempfile::TempDir;
use windlass_store::{
    ChangeSet, Ledger, MediaId, MediaLocation, MediaRef, READ_LEN, Resource, ResourceChange,
    SessionId, SessionState, StoredMedia, StoredName, Timestamp, Usage, Vault,
};
use windlass_store_local::backup::backup;
use windlass_store_local::verify::{VerifyOptions, verify};
use windlass_store_local::{LocalStore, OpenError, Options};

use crate::directory;
use crate::sample::NOW;

/// The earlier versions of the schema. There is a fixture of each.
const EARLIER: [i32; 4] = [1, 2, 3, 4];

/// The sessions of the fixtures, in the order of their starts: the letter of the media, the state,
/// and the committed bytes. Version 1 has no session `v`, whose context is long.
const SESSIONS: [(char, SessionState, usize); 7] = [
    ('a', SessionState::Active, 4096),
    ('b', SessionState::Active, 300),
    ('c', SessionState::Cancelled, 2000),
    ('d', SessionState::Finished, 3000),
    ('f', SessionState::Finished, 700),
    ('v', SessionState::Active, 1600),
    ('k', SessionState::Finishing, 2500),
];

/// The resources of the fixtures, in the order of their ids: the letter and the length of the media.
const RESOURCES: [(char, usize); 4] = [('s', 600), ('l', 5000), ('d', 3000), ('f', 700)];

/// Length of the header of a WAL, and of a frame with its header.
const WAL_HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

/// Returns a copy of the fixture. The last process that used the fixture was killed.
fn fixture(version: i32) -> TempDir {
    let fixtures = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"));
    let dir = directory::new();
    let data = fixtures.join(format!("schema-{version}/data"));
    windlass_testkit::directory::copy(&data, dir.path());
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

/// The version of the schema, and all columns, indexes and triggers.
type Schema = (i32, BTreeSet<String>);

fn schema(dir: &Path) -> Schema {
    const NAMES: &str = "SELECT tables.name || ': ' || columns.cid || columns.name || ' '
            || columns.type || columns.\"notnull\" || ifnull(columns.dflt_value, '-') || columns.pk
        FROM sqlite_schema AS tables, pragma_table_xinfo(tables.name) AS columns
        UNION SELECT type || ' ' || name || ' on ' || tbl_name FROM sqlite_schema";
    ask(dir, |connection| {
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0));
        let mut statement = connection.prepare(NAMES).unwrap();
        let names = statement.query_map([], |row| row.get(0)).unwrap();
        (version.unwrap(), names.collect::<Result<_, _>>().unwrap())
    })
}

/// The schema of a new store.
fn newest() -> Schema {
    let dir = directory::new();
    drop(open(dir.path()).unwrap());
    schema(dir.path())
}

/// What is in a fixture, read before the upgrade.
#[derive(Debug)]
struct Before {
    version: i32,
    schema: Schema,
    /// Ids and contexts, in the order of their starts.
    sessions: Vec<(SessionId, Vec<u8>)>,
    garbage: Vec<MediaId>,
}

impl Before {
    fn of(version: i32, dir: &Path) -> Self {
        let schema = schema(dir);
        assert_eq!(schema.0, version);
        ask(dir, |connection| {
            let sql = "SELECT id, context FROM sessions ORDER BY rowid";
            let mut statement = connection.prepare(sql).unwrap();
            let sessions = statement.query_map([], |row| {
                Ok((SessionId::from_bytes(row.get(0)?), row.get(1)?))
            });
            let sessions: Vec<_> = sessions.unwrap().collect::<Result<_, _>>().unwrap();
            let mut statement = connection.prepare("SELECT media FROM garbage").unwrap();
            let garbage = statement.query_map([], |row| row.get(0)).unwrap();
            let garbage = garbage.map(|id| MediaId::from_bytes(id.unwrap())).collect();
            Self {
                version,
                schema,
                sessions,
                garbage,
            }
        })
    }

    /// The sessions of this version, with their contexts.
    fn sessions(
        &self,
    ) -> impl Iterator<Item = (&(SessionId, Vec<u8>), (char, SessionState, usize))> {
        let of_version =
            move |(letter, ..): &(char, SessionState, usize)| self.is_full() || *letter != 'v';
        self.sessions
            .iter()
            .zip(SESSIONS.into_iter().filter(of_version))
    }

    /// Whether it has all that version 1 lacks: a long context, shared media, events and garbage.
    fn is_full(&self) -> bool {
        self.version > 1
    }

    /// The counts of a verification: sessions, resources and findings, which are the garbage.
    fn verified(&self) -> (u64, u64, u64) {
        if self.is_full() {
            (7, 25, 1)
        } else {
            (6, 4, 0)
        }
    }
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
async fn check(store: &LocalStore, before: &Before) {
    for ((id, context), (letter, state, committed)) in before.sessions() {
        let session = store.ledger.session(*id).await.unwrap().unwrap();
        let found = (session.state, session.progress.offset);
        assert_eq!(found, (state, committed as u64), "{letter}");
        let started = (session.owner, session.dialect.as_str());
        assert_eq!(started, (None, "google"), "{letter}");
        assert!(session.context == *context, "{letter}");
        assert_eq!(context.len() > 10_000, letter == 'v', "{letter}");
        let is_finished = state == SessionState::Finished;
        assert_eq!(session.reply.is_some(), is_finished, "{letter}");
        let progress = session.progress;
        match (letter, progress.media) {
            ('b', Some(at)) => {
                let bytes = store.ledger.small_media(at.id).await.unwrap().unwrap();
                assert_eq!(bytes, media(letter, committed));
            }
            ('a' | 'k' | 'v', Some(at)) => {
                let stored = StoredMedia {
                    verify: progress.extent,
                    ..StoredMedia::new(at.id, progress.offset)
                };
                let reopened = store.vault.resume(&stored);
                reopened.await.unwrap();
                assert_eq!(
                    read(store, at, progress.offset).await,
                    media(letter, committed)
                );
            }
            (_, named) => assert_eq!(named, None, "{letter}"),
        }
    }
    let animals = resources(store, "farm/farm/v1/animals").await;
    assert_eq!(animals.len(), RESOURCES.len());
    for (resource, (letter, len)) in animals.into_iter().zip(RESOURCES) {
        assert_eq!(resource.owner, None);
        let described = resource.media.unwrap();
        assert_eq!(described.length, len as u64);
        assert_eq!(
            read(store, described.at, described.length).await,
            media(letter, len)
        );
    }
    let garbage = store.ledger.garbage(None, 10).await.unwrap();
    let listed: Vec<_> = garbage.iter().map(|entry| entry.name.media).collect();
    assert_eq!(listed, before.garbage);
    assert!(
        garbage
            .iter()
            .all(|entry| entry.attempt == 0 && entry.name.handle.is_empty())
    );
}

async fn read(store: &LocalStore, at: MediaRef, len: u64) -> Bytes {
    match at.location {
        MediaLocation::Ledger => store.ledger.small_media(at.id).await.unwrap().unwrap(),
        MediaLocation::Vault => {
            let mut reader = store
                .vault
                .read(&StoredName::of(at.id), 0..len)
                .await
                .unwrap();
            reader.next(READ_LEN).await.unwrap()
        }
    }
}

async fn resources(store: &LocalStore, collection: &str) -> Vec<Resource> {
    let listed = store.ledger.resources(collection, None, 100).await;
    listed.unwrap()
}

#[tokio::test]
async fn store_of_each_earlier_schema_is_upgraded_with_all_that_is_in_it() {
    for version in EARLIER {
        let dir = fixture(version);
        let before = Before::of(version, dir.path());
        for _ in 0..2 {
            let store = open(dir.path()).unwrap();
            check(&store, &before).await;
            drop(store);
            assert_eq!(schema(dir.path()), newest());
            assert_eq!(verified(dir.path(), false), before.verified());
        }
    }
}

#[tokio::test]
async fn references_are_counted_when_a_store_is_upgraded() {
    for version in &EARLIER[1..] {
        let dir = fixture(*version);
        let store = open(dir.path()).unwrap();
        let objects = resources(&store, "storage/b/barn").await;
        let [large, large_copy, small, small_copy] = &objects[..] else {
            panic!("two objects and their copies: {objects:?}");
        };
        for (first, last) in [(large, large_copy), (small_copy, small)] {
            let at = first.media.as_ref().unwrap().at;
            assert_eq!(last.media.as_ref().unwrap().at, at);
            let is_unknown = async || {
                !store
                    .ledger
                    .unknown_names(&[StoredName::of(at.id)])
                    .await
                    .unwrap()
                    .is_empty()
            };
            delete(&store, first).await;
            read(&store, at, 1).await;
            assert!(!is_unknown().await);
            delete(&store, last).await;
            match at.location {
                MediaLocation::Ledger => assert!(is_unknown().await),
                MediaLocation::Vault => {
                    let garbage = store.ledger.garbage(None, 10).await.unwrap();
                    assert!(garbage.iter().any(|entry| entry.name.media == at.id));
                }
            }
        }
    }
}

/// What the rows of the outbox say: the recipient, the time, and the fields of the body.
async fn events(store: &LocalStore) -> Vec<(String, Option<Timestamp>, String)> {
    const PARTS: &str = "SELECT json_extract(?1, '$.payload.recipients[0]'), group_concat(key)
        FROM json_each(?1)";
    let json = Connection::open_in_memory().unwrap();
    let event = |row: Resource| {
        assert_eq!(row.claimed_by, None);
        let body = std::str::from_utf8(&row.body).unwrap();
        let parts = json.query_row(PARTS, [body], |parts| Ok((parts.get(0)?, parts.get(1)?)));
        let (recipient, fields) = parts.unwrap();
        (recipient, row.due, fields)
    };
    let rows = resources(store, ".outbox/gmail").await;
    rows.into_iter().map(event).collect()
}

#[tokio::test]
async fn times_of_events_become_a_column_when_a_store_is_upgraded() {
    const DUE: &str = "SELECT json_extract(CAST(body AS TEXT), '$.due') FROM resources
        WHERE collection = '.outbox/gmail' ORDER BY id";
    for version in &EARLIER[1..] {
        let dir = fixture(*version);
        let connection = Connection::open(dir.path().join("ledger.sqlite")).unwrap();
        let due: i64 = connection.query_row(DUE, [], |row| row.get(0)).unwrap();
        assert!(due > 1_700_000_000_000);
        // Rows that no worker could read, and rows that are no events.
        connection
            .execute_batch(
                "INSERT INTO resources (collection, id, version, body, created, updated) VALUES
                     ('.outbox/odd', '1', 1, x'00ff', 0, 0),
                     ('.outbox/odd', '2', 1, CAST('[]' AS BLOB), 0, 0),
                     ('.outbox/odd', '3', 1, CAST('{\"due\":\"now\"}' AS BLOB), 0, 0),
                     ('.outbox/odd', '4', 1, CAST('{\"due\":18446744073709551615}' AS BLOB), 0, 0),
                     ('.outbox', '5', 1, CAST('{\"due\":7}' AS BLOB), 0, 0),
                     ('things', '6', 1, CAST('{\"due\":7}' AS BLOB), 0, 0);",
            )
            .unwrap();
        drop(connection);
        let store = open(dir.path()).unwrap();
        let at = |millis: i64| Some(Timestamp::from_millis(millis.cast_unsigned()));
        let event = |to: &str, due| {
            let fields = "created,failures,payload".to_owned();
            (format!("{to}@far.example"), due, fields)
        };
        let expected = [event("postponed", at(due)), event("claimed", at(0))];
        assert_eq!(events(&store).await, expected);
        let odd = resources(&store, ".outbox/odd").await;
        assert!(
            odd.len() == 4 && odd.iter().all(|row| row.due == at(0)),
            "{odd:?}"
        );
        assert_eq!(odd[2].body, r#"{"due":"now"}"#);
        for other in ["things", ".outbox"] {
            let rows = resources(&store, other).await;
            assert_eq!(
                (rows[0].due, &rows[0].body[..]),
                (None, &br#"{"due":7}"#[..])
            );
        }
        let now = Timestamp::from_millis(1);
        let claimed = store
            .ledger
            .claim(".outbox/gmail", now, now, 9)
            .await
            .unwrap();
        assert_eq!(claimed.len(), 1, "the mail of the process that was killed");
    }
}

async fn delete(store: &LocalStore, resource: &Resource) {
    let deletion = ResourceChange::Delete {
        collection: resource.collection.clone(),
        id: resource.id.clone(),
        expected: resource.version,
    };
    let changes = ChangeSet {
        resources: vec![deletion],
        ..ChangeSet::default()
    };
    store.ledger.apply(changes).await.unwrap();
}

#[test]
fn verification_reads_each_earlier_schema_and_leaves_it() {
    for version in EARLIER {
        let dir = fixture(version);
        let before = Before::of(version, dir.path());
        assert_eq!(verified(dir.path(), false), before.verified());
        assert_eq!(schema(dir.path()), before.schema);
        // A repair writes, and opens the ledger as a server does.
        assert_eq!(verified(dir.path(), true), before.verified());
        assert_eq!(schema(dir.path()), newest());
        let (.., found) = verified(dir.path(), true);
        assert_eq!(found, 0, "the garbage is deleted");
    }
}

#[tokio::test]
async fn backup_of_an_earlier_schema_stays_as_it_is_until_a_server_opens_it() {
    for version in EARLIER {
        let (dir, target) = (fixture(version), directory::new());
        let mut before = Before::of(version, dir.path());
        let (sessions, resources, _) = before.verified();
        let made = backup(dir.path(), target.path(), &mut |_| ()).unwrap();
        let counts = (made.sessions, made.resources, made.damage);
        assert_eq!(counts, (sessions, resources, 0));
        assert_eq!(schema(dir.path()), before.schema);
        // The way back, should the upgrade not be wanted.
        assert_eq!(schema(target.path()), before.schema);
        assert_eq!(verified(target.path(), false), (sessions, resources, 0));
        before.garbage.clear();
        let store = open(target.path()).unwrap();
        check(&store, &before).await;
        drop(store);
        assert_eq!(schema(target.path()), newest());
    }
}

#[test]
fn backup_of_an_upgraded_store_is_upgraded_too() {
    for version in EARLIER {
        let (dir, target) = (fixture(version), directory::new());
        let (sessions, resources, _) = Before::of(version, dir.path()).verified();
        backup(dir.path(), target.path(), &mut |_| ()).unwrap();
        drop(open(dir.path()).unwrap());
        // Into the backup that was made before.
        let made = backup(dir.path(), target.path(), &mut |_| ()).unwrap();
        let counts = (made.sessions, made.resources, made.damage);
        assert_eq!(counts, (sessions, resources, 0));
        assert_eq!(schema(target.path()), newest());
    }
}

#[tokio::test]
async fn upgrade_that_is_interrupted_leaves_either_schema_and_is_made_again() {
    for version in EARLIER {
        interrupt_the_upgrade_from(version).await;
    }
}

async fn interrupt_the_upgrade_from(version: i32) {
    let (dir, crashed) = (fixture(version), directory::new());
    let before = Before::of(version, dir.path());
    let (old, new) = (&before.schema, &newest());
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
        assert!(found == *old || found == *new, "at {end}: {found:?}");
        seen.push(found.0);
        let store = open(dir.path()).unwrap();
        check(&store, &before).await;
        drop(store);
        assert_eq!(schema(dir.path()), *new, "at {end}");
    }
    let has_both = seen.contains(&old.0) && seen.contains(&new.0);
    assert!(seen.is_sorted() && has_both, "{seen:?}");
}

#[tokio::test]
async fn usage_is_counted_when_a_store_of_schema_2_is_opened() {
    usage_is_counted_in(2, "").await;
}

#[tokio::test]
async fn usage_is_counted_again_when_a_store_of_schema_3_is_opened() {
    usage_is_counted_in(3, "UPDATE usage SET kib = 7;").await;
}

#[tokio::test]
async fn usage_stays_the_same_when_a_store_of_schema_4_is_opened() {
    usage_is_counted_in(4, "").await;
}

/// Gives rows an owner, runs these statements, and opens the store. Compares the usage with a count.
async fn usage_is_counted_in(version: i32, statements: &str) {
    let dir = fixture(version);
    let owners = "UPDATE sessions SET owner = 'ann';
        UPDATE resources SET owner = 'ann' WHERE collection = 'farm/farm/v1/animals';";
    let counted = {
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
        counted.sessions == 4 && counted.bytes > 20 * 1024,
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
    let (dir, target) = (fixture(1), directory::new());
    drop(open(dir.path()).unwrap());
    let ledger = dir.path().join("ledger.sqlite");
    let connection = Connection::open(&ledger).unwrap();
    connection.pragma_update(None, "user_version", 6).unwrap();
    drop(connection);
    let before = fs::read(&ledger).unwrap();
    let refusals = [
        causes(&open(dir.path()).map(drop).unwrap_err()),
        causes(&verify(dir.path(), VerifyOptions::new(NOW), &mut |_| ()).unwrap_err()),
        causes(&backup(dir.path(), target.path(), &mut |_| ()).unwrap_err()),
    ];
    for refusal in refusals {
        assert!(refusal.contains("its schema has version 6"), "{refusal}");
    }
    assert!(fs::read(&ledger).unwrap() == before);
}
