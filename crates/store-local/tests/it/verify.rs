//! The findings of a verification, and the effects of a repair.

use std::time::Duration;

use tempfile::TempDir;
use windlass_store::{ExpectedSize, Ledger, MediaLocation, SessionState, Timestamp, Vault};
use windlass_store_local::verify::{
    Fault, Severity, Verified, VerifyError, VerifyEvent, VerifyOptions, verify,
};

use crate::directory;
use crate::sample::{
    BYTES, FINISHED, FINISHING, NOW, OPEN, SMALL, cancel, flip, media, path, session, sql,
    store_with_everything, upload,
};

/// Returns the findings: `damage session rotten`, followed by `mended` after a repair.
fn found(dir: &TempDir, repair: bool) -> (Vec<String>, Verified) {
    let mut lines = Vec::new();
    let options = VerifyOptions::new(NOW).repair(repair);
    let verified = verify(dir.path(), options, &mut |event| {
        if let VerifyEvent::Finding(finding) = event {
            let severity = match finding.severity() {
                Severity::Damage => "damage",
                Severity::Remains => "remains",
            };
            let mended = if finding.is_repaired { " mended" } else { "" };
            let (subject, fault) = (finding.subject.kind(), finding.fault.name());
            lines.push(format!("{severity} {subject} {fault}{mended}"));
        }
    });
    (lines, verified.unwrap())
}

#[track_caller]
fn assert_found(dir: &TempDir, expected: &[&str]) {
    let (lines, verified) = found(dir, false);
    assert_eq!(lines, expected);
    let is_damaged = expected.iter().any(|line| line.starts_with("damage"));
    assert_eq!(verified.is_sound(), !is_damaged);
}

#[track_caller]
fn assert_repaired(dir: &TempDir, expected: &[&str]) {
    assert_eq!(found(dir, true).0, expected);
}

#[tokio::test]
async fn nothing_is_found_in_a_sound_store_with_everything_in_it() {
    let dir = store_with_everything().await;
    let (lines, verified) = found(&dir, false);
    assert_eq!(lines, [""; 0]);
    let counts = (
        verified.sessions,
        verified.resources,
        verified.media,
        verified.files,
    );
    assert_eq!(counts, (7, 2, 5, 3));
    assert_eq!(verified.bytes, 5 * BYTES.len() as u64);
    assert!(!verified.with_server);
    assert_repaired(&dir, &[]);
}

#[tokio::test]
async fn damage_to_media_is_found_wherever_it_is() {
    type Harm = fn(&TempDir);
    let cases: [(&str, Harm); 9] = [
        ("resource rotten", |dir| flip(dir, FINISHED, 0)),
        ("resource missing", |dir| {
            std::fs::remove_file(path(dir, FINISHED)).unwrap();
        }),
        ("resource short", |dir| {
            std::fs::write(path(dir, FINISHED), "the pawl").unwrap();
        }),
        ("session rotten", |dir| flip(dir, OPEN, 3)),
        ("session rotten", |dir| {
            flip(dir, FINISHING, BYTES.len() - 1);
        }),
        ("session short", |dir| {
            std::fs::write(path(dir, OPEN), "the pawl").unwrap();
        }),
        ("session missing", |dir| {
            std::fs::remove_file(path(dir, FINISHING)).unwrap();
        }),
        ("resource rotten", |dir| {
            sql(
                dir,
                "UPDATE resources SET md5 = zeroblob(16) WHERE id = '3'",
            );
        }),
        ("resource rotten", |dir| {
            sql(
                dir,
                "UPDATE resources SET sha256 = zeroblob(32) WHERE id = '7'",
            );
        }),
    ];
    for (expected, harm) in cases {
        let dir = store_with_everything().await;
        harm(&dir);
        assert_found(&dir, &[&format!("damage {expected}")]);
    }
}

#[tokio::test]
async fn rot_is_located_in_the_last_extent_or_before_it() {
    for (at, expected) in [(3, 0..8), (20, 8..BYTES.len() as u64)] {
        let dir = store_with_everything().await;
        flip(&dir, OPEN, at);
        let mut places = Vec::new();
        verify(dir.path(), VerifyOptions::new(NOW), &mut |event| {
            if let VerifyEvent::Finding(finding) = event
                && let Fault::Rotten { bytes, .. } = finding.fault
            {
                places.push(bytes);
            }
        })
        .unwrap();
        assert_eq!(places, [expected]);
    }
}

#[tokio::test]
async fn damage_to_small_media_is_found() {
    let dir = store_with_everything().await;
    sql(&dir, "UPDATE small_media SET bytes = zeroblob(38)");
    assert_found(&dir, &["damage session rotten", "damage resource rotten"]);
    sql(&dir, "UPDATE small_media SET bytes = x'00'");
    assert_found(&dir, &["damage session short", "damage resource short"]);
    sql(&dir, "DELETE FROM small_media");
    assert_found(&dir, &["damage session missing", "damage resource missing"]);
}

#[tokio::test]
async fn remains_of_crashes_are_not_damage_and_a_repair_deletes_them() {
    let dir = store_with_everything().await;
    let orphan = path(&dir, 0xab);
    std::fs::create_dir_all(orphan.parent().unwrap()).unwrap();
    std::fs::write(&orphan, "nobody's").unwrap();
    let garbage = path(&dir, 0xcd);
    std::fs::create_dir_all(garbage.parent().unwrap()).unwrap();
    std::fs::write(&garbage, "let go of").unwrap();
    sql(
        &dir,
        &format!("INSERT INTO garbage VALUES (x'{}', x'', 0, 0)", media(0xcd)),
    );
    assert_found(&dir, &["remains media garbage", "remains media unnamed"]);
    assert!(orphan.exists() && garbage.exists(), "only a repair deletes");
    let mended = [
        "remains media garbage mended",
        "remains media unnamed mended",
    ];
    assert_repaired(&dir, &mended);
    assert!(!orphan.exists() && !garbage.exists());
    assert_found(&dir, &[]);
}

#[tokio::test]
async fn foreign_names_are_reported_and_kept() {
    let dir = store_with_everything().await;
    let names = ["vault/notes.txt", "vault/01/01/notes.txt", "vault/zz"];
    for name in names {
        std::fs::write(dir.path().join(name), "mine").unwrap();
    }
    // The name of a media in the directory of another one.
    let lost = dir.path().join("vault/01/01").join(media(9).to_string());
    std::fs::write(&lost, "mine").unwrap();
    assert_found(&dir, &["remains path foreign"; 4]);
    assert_repaired(&dir, &["remains path foreign"; 4]);
    assert!(lost.exists() && names.iter().all(|name| dir.path().join(name).exists()));
}

#[tokio::test]
async fn a_repair_fails_sessions_whose_bytes_are_gone_and_deletes_no_resource() {
    let dir = store_with_everything().await;
    flip(&dir, OPEN, 3);
    std::fs::remove_file(path(&dir, FINISHING)).unwrap();
    flip(&dir, FINISHED, 3);
    let expected = [
        "damage session rotten mended",
        "damage session missing mended",
        "damage resource rotten",
        "remains media garbage mended",
        "remains media garbage mended",
    ];
    assert_repaired(&dir, &expected);
    assert!(!path(&dir, OPEN).exists() && path(&dir, FINISHED).exists());
    assert_found(&dir, &["damage resource rotten"]);
    let store = directory::open(&dir);
    for number in [OPEN, FINISHING] {
        let session = store
            .ledger
            .session(session(number))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(session.state, SessionState::Failed);
        assert_eq!(session.progress.media, None);
    }
    assert!(
        store
            .ledger
            .resource("farm/v1/animals", "3")
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn media_that_a_row_names_is_taken_off_the_garbage_list_before_a_sweep_deletes_it() {
    let dir = store_with_everything().await;
    sql(
        &dir,
        &format!(
            "INSERT INTO garbage VALUES (x'{}', x'', 0, 0)",
            media(FINISHED)
        ),
    );
    assert_found(&dir, &["damage media named_garbage"]);
    assert_repaired(&dir, &["damage media named_garbage mended"]);
    assert!(path(&dir, FINISHED).exists());
    assert_found(&dir, &[]);
}

#[tokio::test]
async fn small_media_that_no_row_names_is_found_and_dropped() {
    let dir = store_with_everything().await;
    sql(
        &dir,
        &format!("INSERT INTO small_media VALUES (x'{}', x'00')", media(0xee)),
    );
    assert_found(&dir, &["damage media unnamed_in_ledger"]);
    assert_repaired(&dir, &["damage media unnamed_in_ledger mended"]);
    assert_found(&dir, &[]);
}

#[tokio::test]
async fn references_are_counted_and_wrong_numbers_are_found() {
    let counts = |dir: &TempDir| {
        let ledger = rusqlite::Connection::open(dir.path().join("ledger.sqlite")).unwrap();
        let mut statement = ledger
            .prepare("SELECT id, refs FROM media ORDER BY id")
            .unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap()
            .collect::<Result<Vec<(Vec<u8>, i64)>, _>>()
            .unwrap()
    };
    let dir = store_with_everything().await;
    let sound = counts(&dir);
    let (finished, small) = (media(FINISHED), media(SMALL));
    sql(
        &dir,
        &format!(
            "UPDATE media SET refs = 2 WHERE id = x'{finished}';
             DELETE FROM media WHERE id = x'{small}';"
        ),
    );
    let (lines, verified) = found(&dir, false);
    let unnamed = "damage media unnamed_in_ledger";
    let wrong = "damage media miscounted";
    assert_eq!(lines, [wrong, wrong, unnamed]);
    assert!(!verified.is_sound());
    // The counts come first: small media that a row references is not deleted.
    let repaired = "damage media miscounted mended";
    assert_repaired(&dir, &[repaired, repaired]);
    assert_found(&dir, &[]);
    assert_eq!(counts(&dir), sound);

    let absent = format!(
        "INSERT INTO media (id, place, refs) VALUES (x'{}', 1, 1);",
        media(0xee)
    );
    sql(&dir, &absent);
    assert_found(&dir, &[wrong]);
    assert_repaired(&dir, &[repaired, "remains media garbage mended"]);
    assert_found(&dir, &[]);
    assert_eq!(counts(&dir), sound);
}

#[tokio::test]
async fn unreadable_rows_are_found_and_end_the_repair() {
    let dir = store_with_everything().await;
    sql(&dir, "UPDATE sessions SET state = 9 WHERE rowid = 1");
    std::fs::write(path(&dir, 1), "whoever names this cannot be told").unwrap();
    std::fs::remove_file(path(&dir, FINISHING)).unwrap();
    let expected = ["damage row row", "damage session missing"];
    assert_found(&dir, &expected);
    assert_repaired(&dir, &expected);
    assert!(path(&dir, 1).exists());
}

#[tokio::test]
async fn contradictory_rows_end_the_repair() {
    let dir = store_with_everything().await;
    sql(
        &dir,
        "UPDATE sessions SET media = NULL, place = NULL WHERE rowid = 1",
    );
    let expected = ["damage session contradiction", "damage media miscounted"];
    assert_found(&dir, &expected);
    assert_repaired(&dir, &expected);
    assert!(path(&dir, OPEN).exists(), "it has the session's bytes");
}

#[tokio::test]
async fn a_repair_fails_no_session_whose_bytes_cannot_be_read_just_now() {
    let dir = store_with_everything().await;
    let (media, aside) = (path(&dir, OPEN), dir.path().join("aside"));
    std::fs::rename(&media, &aside).unwrap();
    std::os::unix::fs::symlink(&media, &media).unwrap();
    let expected = ["damage session unreadable", "remains path foreign"];
    assert_repaired(&dir, &expected);
    std::fs::rename(&aside, &media).unwrap();
    assert_found(&dir, &[]);
}

#[tokio::test]
async fn named_pipe_in_the_place_of_media_is_told_and_not_waited_for() {
    let dir = store_with_everything().await;
    let (media, aside) = (path(&dir, OPEN), dir.path().join("aside"));
    std::fs::rename(&media, &aside).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&media).status();
    assert!(made.unwrap().success());
    let expected = ["damage session unreadable", "remains path foreign"];
    assert_found(&dir, &expected);
    assert_repaired(&dir, &expected);
    std::fs::remove_file(&media).unwrap();
    std::fs::rename(&aside, &media).unwrap();
    assert_found(&dir, &[]);
    // SQLite would wait as well.
    let ledger = dir.path().join("ledger.sqlite");
    std::fs::rename(&ledger, &aside).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&ledger).status();
    assert!(made.unwrap().success());
    for repair in [false, true] {
        let options = VerifyOptions::new(NOW).repair(repair);
        let error = verify(dir.path(), options, &mut |_| ()).unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let text = format!("{error} {cause:?} {error:?}");
        assert!(
            text.contains("named pipe") || text.contains("Pipe"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_repair_fails_no_session_because_the_whole_vault_is_elsewhere() {
    let dir = store_with_everything().await;
    let (vault, aside) = (dir.path().join("vault"), dir.path().join("aside"));
    std::fs::rename(&vault, &aside).unwrap();
    sql(
        &dir,
        &format!("INSERT INTO garbage VALUES (x'{}', x'', 0, 0)", media(0xcd)),
    );
    let expected = [
        "damage vault stranger",
        "damage session missing",
        "damage session missing",
        "damage resource missing",
        "remains media garbage",
    ];
    assert_repaired(&dir, &expected);
    std::fs::create_dir(&vault).unwrap();
    assert_repaired(&dir, &expected);
    std::fs::remove_dir(&vault).unwrap();
    std::fs::rename(&aside, &vault).unwrap();
    assert_found(&dir, &["remains media garbage"]);
}

#[tokio::test]
async fn a_repair_deletes_nothing_from_the_vault_of_another_store() {
    let (dir, other) = (store_with_everything().await, store_with_everything().await);
    let vault = dir.path().join("vault");
    std::fs::rename(&vault, dir.path().join("aside")).unwrap();
    std::fs::rename(other.path().join("vault"), &vault).unwrap();
    std::fs::remove_file(path(&dir, OPEN)).unwrap();
    let orphan = path(&dir, 0xab);
    std::fs::create_dir_all(orphan.parent().unwrap()).unwrap();
    std::fs::write(&orphan, "the other's").unwrap();
    let expected = ["damage vault stranger", "damage session missing"];
    assert_repaired(&dir, &expected);
    assert!(orphan.exists());
}

#[tokio::test]
async fn media_that_is_lost_with_all_its_directories_is_lost() {
    let dir = store_with_everything().await;
    for entry in dir.path().join("vault").read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        }
    }
    let (lines, _) = found(&dir, true);
    assert_eq!(lines[0], "damage session missing mended");
}

#[tokio::test]
async fn rows_that_contradict_themselves_are_found() {
    let cases = [
        "UPDATE sessions SET media = NULL, place = NULL WHERE rowid = 1",
        "UPDATE sessions SET total = 1 WHERE rowid = 1",
        "UPDATE sessions SET extent_start = 1000 WHERE rowid = 1",
        "UPDATE sessions SET state = 4 WHERE rowid = 1",
        "UPDATE sessions SET reply = NULL WHERE rowid = 3",
    ];
    for case in cases {
        let dir = store_with_everything().await;
        sql(&dir, case);
        let (lines, _) = found(&dir, false);
        assert_eq!(lines[0], "damage session contradiction", "{case}");
    }
}

#[tokio::test]
async fn a_damaged_database_is_found_and_nothing_is_mended_in_it() {
    let dir = store_with_everything().await;
    let orphan = path(&dir, 0xab);
    std::fs::create_dir_all(orphan.parent().unwrap()).unwrap();
    std::fs::write(&orphan, "nobody's").unwrap();
    sql(
        &dir,
        "PRAGMA writable_schema = 1;
         UPDATE sqlite_schema SET sql = replace(sql, '(expires)', '(created)')
         WHERE name = 'sessions_expires';",
    );
    let (lines, verified) = found(&dir, true);
    assert_eq!(lines[0], "damage ledger database", "{lines:?}");
    assert!(verified.ledger_is_damaged && !verified.is_sound());
    assert!(orphan.exists());
}

#[tokio::test]
async fn a_store_in_use_is_verified_and_not_repaired() {
    let dir = store_with_everything().await;
    let store = directory::open(&dir);
    // One of an upload that has not committed yet, and one of an upload that never will.
    store
        .vault
        .create(media(0xab), ExpectedSize::default())
        .await
        .unwrap();
    let mut seen = 0;
    let options = VerifyOptions::new(Timestamp::from_millis(0));
    let mut count = |event| seen += u32::from(matches!(event, VerifyEvent::Finding(_)));
    let verified = verify(dir.path(), options, &mut count).unwrap();
    assert!(verified.with_server && verified.is_sound());
    let past_grace = VerifyOptions::new(NOW).grace(Duration::ZERO);
    verify(dir.path(), past_grace, &mut count).unwrap();
    assert_eq!(seen, 1, "only the one whose grace is over");
    let repair = options.repair(true);
    let refused = verify(dir.path(), repair, &mut |_| ()).unwrap_err();
    assert!(refused.to_string().contains("in use"), "{refused}");
    drop(store);
}

#[tokio::test]
async fn a_verification_changes_no_file() {
    let dir = store_with_everything().await;
    flip(&dir, FINISHED, 0);
    let ledger = || std::fs::read(dir.path().join("ledger.sqlite")).unwrap();
    let before = ledger();
    found(&dir, false);
    assert!(ledger() == before);
}

#[test]
fn a_directory_without_a_store_is_refused_and_left_alone() {
    let dir = directory::new();
    for data in [dir.path().join("absent"), dir.path().to_owned()] {
        let refused = verify(&data, VerifyOptions::new(NOW), &mut |_| ());
        assert!(matches!(refused, Err(VerifyError::NoStore { dir }) if dir == data));
    }
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}

#[tokio::test]
async fn a_repair_takes_no_empty_file_for_a_ledger() {
    let dir = store_with_everything().await;
    std::fs::write(dir.path().join("ledger.sqlite"), "").unwrap();
    let repair = VerifyOptions::new(NOW).repair(true);
    let refused = verify(dir.path(), repair, &mut |_| ());
    assert!(matches!(refused, Err(VerifyError::Open(_))), "{refused:?}");
    assert!(path(&dir, FINISHED).exists());
}

#[tokio::test]
async fn media_released_during_its_check_is_not_a_finding() {
    let dir = store_with_everything().await;
    let store = directory::open(&dir);
    let mut findings = 0;
    let verified = verify(
        dir.path(),
        VerifyOptions::new(NOW),
        &mut |event| match event {
            // The first media has been read, and so have the rows of all further media.
            VerifyEvent::Progress(so_far) if so_far.media == 1 => cancel(&dir, FINISHING),
            VerifyEvent::Progress(_) => {}
            VerifyEvent::Finding(_) => findings += 1,
        },
    );
    assert_eq!((findings, verified.unwrap().media), (0, 5));
    drop(store);
}

#[tokio::test]
async fn the_wal_of_a_server_that_died_is_left_as_it_is() {
    let (dir, dead) = (store_with_everything().await, directory::new());
    let store = directory::open(&dir);
    upload(&store, SMALL + 40, MediaLocation::Ledger).await;
    for name in ["ledger.sqlite", "ledger.sqlite-wal"] {
        std::fs::copy(dir.path().join(name), dead.path().join(name)).unwrap();
    }
    drop(store);
    std::fs::rename(dir.path().join("vault"), dead.path().join("vault")).unwrap();
    let wal = || std::fs::read(dead.path().join("ledger.sqlite-wal")).unwrap();
    let before = wal();
    assert!(!before.is_empty());
    let (lines, verified) = found(&dead, false);
    assert_eq!((lines.len(), verified.sessions), (0, 8), "{lines:?}");
    assert!(wal() == before);
}

#[tokio::test]
async fn ledger_of_many_pages_is_scanned_to_its_end() {
    let dir = store_with_everything().await;
    let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)";
    sql(
        &dir,
        &format!("{many} INSERT INTO garbage SELECT randomblob(16), x'', 0, 0 FROM n"),
    );
    sql(
        &dir,
        &format!("{many} INSERT INTO small_media SELECT randomblob(16), x'00' FROM n"),
    );
    let (_, verified) = found(&dir, false);
    assert_eq!((verified.damage, verified.remains), (1000, 1000));
}
