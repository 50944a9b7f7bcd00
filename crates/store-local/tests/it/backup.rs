//! Backups of a store with and without a server: their content and their destination.

use std::path::Path;

use tempfile::TempDir;
use windlass_store::{
    EndSession, Ledger, MediaLocation, SessionState, StoredMedia, StoredName, Timestamp, Vault,
    VaultError,
};
use windlass_store_local::backup::{BackedUp, BackupError, BackupEvent, backup};
use windlass_store_local::verify::{VerifyError, VerifyOptions, verify};
use windlass_store_local::{LocalStore, OpenError, Options};

use crate::directory;
use crate::sample::{
    BYTES, CANCELLED, FINISHED, FINISHING, NOW, OPEN, SMALL, cancel, flip, lease, media, path,
    session, sql, store_with_everything, upload,
};

fn make(dir: &TempDir, target: &Path) -> Result<BackedUp, BackupError> {
    backup(dir.path(), target, &mut |_| ())
}

/// Asserts that a backup is sound and has no remains.
#[track_caller]
fn assert_sound(target: &Path) {
    let options = VerifyOptions::new(NOW);
    let verified = verify(target, options, &mut |_| ()).unwrap();
    let found = (verified.damage, verified.remains);
    assert_eq!(found, (0, 0), "{verified:?}");
}

fn open(target: &Path) -> Result<LocalStore, OpenError> {
    let options = Options::default().allow_unsafe_filesystem(true);
    LocalStore::open(target, options)
}

#[tokio::test]
async fn a_backup_holds_the_whole_store_in_one_file_and_a_vault() {
    let (dir, target) = (store_with_everything().await, directory::new());
    let made = make(&dir, target.path()).unwrap();
    let counts = (made.sessions, made.resources, made.media, made.damage);
    assert_eq!(counts, (7, 2, 3, 0));
    assert_eq!(made.bytes, 3 * BYTES.len() as u64);
    assert_eq!(
        made.copied, made.bytes,
        "what is not committed stays behind"
    );
    assert_sound(target.path());
    let ledger = std::fs::read(target.path().join("ledger.sqlite")).unwrap();
    assert_eq!(ledger[18..20], [1, 1], "it has no WAL");
    let mut names: Vec<_> = std::fs::read_dir(target.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["backup", "ledger.sqlite", "lock", "vault"]);
}

#[tokio::test]
async fn a_restored_session_goes_on_from_the_offset_of_the_backup() {
    let (dir, target) = (store_with_everything().await, directory::new());
    make(&dir, target.path()).unwrap();
    let store = open(target.path()).unwrap();
    let leased = store.ledger.lease(session(OPEN)).await.unwrap().unwrap();
    let progress = leased.session.progress;
    assert_eq!(progress.offset, BYTES.len() as u64);
    let stored = StoredMedia {
        verify: progress.extent,
        ..StoredMedia::new(media(OPEN), progress.offset)
    };
    let reopened = store.vault.resume(&stored);
    reopened.await.unwrap();
    let small = store.ledger.small_media(media(SMALL)).await.unwrap();
    assert_eq!(small.unwrap(), BYTES);
}

#[tokio::test]
async fn a_backup_beside_a_server_has_the_last_commits() {
    let (dir, target) = (store_with_everything().await, directory::new());
    let store = directory::open(&dir);
    upload(&store, 40, MediaLocation::Vault).await;
    upload(&store, 41, MediaLocation::Ledger).await;
    assert_eq!(make(&dir, target.path()).unwrap().sessions, 9);
    assert_sound(target.path());
    upload(&store, 42, MediaLocation::Vault).await;
}

#[tokio::test]
async fn the_next_backup_copies_what_is_new_and_deletes_what_has_gone() {
    let (dir, target) = (store_with_everything().await, directory::new());
    make(&dir, target.path()).unwrap();
    assert_eq!(make(&dir, target.path()).unwrap().copied, 0);
    let store = directory::open(&dir);
    upload(&store, 40, MediaLocation::Vault).await;
    let held = lease(&store, OPEN).await;
    let end = store.ledger.end(session(OPEN), held, EndSession::Cancelled);
    end.await.unwrap();
    let made = make(&dir, target.path()).unwrap();
    assert_eq!((made.copied, made.deleted), (BYTES.len() as u64, 1));
    assert!(!path(&target, OPEN).exists());
    assert_sound(target.path());
    let restored = open(target.path()).unwrap();
    let gone = restored
        .ledger
        .session(session(OPEN))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(gone.state, SessionState::Cancelled);
    assert_eq!(restored.ledger.garbage(None, 10).await.unwrap(), []);
}

#[tokio::test]
async fn damaged_media_of_a_backup_is_copied_again() {
    let (dir, target) = (store_with_everything().await, directory::new());
    make(&dir, target.path()).unwrap();
    flip(&target, FINISHED, 5);
    std::fs::write(path(&target, FINISHING), &BYTES[..9]).unwrap();
    std::fs::remove_file(path(&target, OPEN)).unwrap();
    let made = make(&dir, target.path()).unwrap();
    assert_eq!(made.damage, 0);
    assert_eq!(made.copied, 3 * BYTES.len() as u64 - 9);
    assert_sound(target.path());
}

#[tokio::test]
async fn damage_in_the_store_is_reported_and_does_not_reach_an_earlier_backup() {
    let (dir, target) = (store_with_everything().await, directory::new());
    make(&dir, target.path()).unwrap();
    flip(&dir, FINISHED, 5);
    assert_eq!(make(&dir, target.path()).unwrap().damage, 0);
    assert_sound(target.path());
    let fresh = directory::new();
    let mut told = Vec::new();
    let made = backup(dir.path(), fresh.path(), &mut |event| {
        if let BackupEvent::Finding(finding) = event {
            told.push((finding.subject.kind(), finding.fault.name()));
        }
    });
    assert_eq!(made.unwrap().damage, 1);
    assert_eq!(told, [("resource", "rotten")]);
}

#[tokio::test]
async fn a_backup_whose_vault_is_not_there_is_not_made() {
    let (dir, target) = (store_with_everything().await, directory::new());
    std::fs::rename(dir.path().join("vault"), dir.path().join("aside")).unwrap();
    let refused = make(&dir, target.path());
    let is_refused = |error: &_| matches!(error, BackupError::Open(OpenError::Vault { .. }));
    assert!(refused.as_ref().is_err_and(is_refused), "{refused:?}");
    assert_eq!(target.path().read_dir().unwrap().count(), 0);
}

#[tokio::test]
async fn a_backup_of_another_store_is_not_written_over() {
    let (dir, other) = (store_with_everything().await, store_with_everything().await);
    let target = directory::new();
    make(&other, target.path()).unwrap();
    let refused = make(&dir, target.path());
    assert!(
        matches!(refused, Err(BackupError::OfAnother { .. })),
        "{refused:?}"
    );
    assert_sound(target.path());
    open(target.path()).unwrap();
}

#[tokio::test]
async fn a_restored_store_goes_on_being_backed_up_where_it_was() {
    let (dir, first, second) = (
        store_with_everything().await,
        directory::new(),
        directory::new(),
    );
    make(&dir, first.path()).unwrap();
    make(&dir, second.path()).unwrap();
    drop(open(first.path()).unwrap());
    assert_eq!(make(&first, second.path()).unwrap().copied, 0);
    assert_sound(second.path());
}

#[tokio::test]
async fn a_damaged_ledger_replaces_no_backup() {
    let (dir, target) = (store_with_everything().await, directory::new());
    make(&dir, target.path()).unwrap();
    let ledger = || std::fs::read(target.path().join("ledger.sqlite")).unwrap();
    let before = ledger();
    sql(
        &dir,
        "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET rootpage = 9999 WHERE name = 'garbage'",
    );
    make(&dir, target.path()).unwrap_err();
    assert!(ledger() == before);
    assert_eq!(
        open(target.path())
            .map(drop)
            .map_err(|error| error.to_string()),
        Ok(())
    );
}

#[tokio::test]
async fn deletion_is_refused_during_a_backup_and_possible_afterwards() {
    let dir = store_with_everything().await;
    let store = directory::open(&dir);
    let deletion_lock = std::fs::File::create(dir.path().join("hold")).unwrap();
    deletion_lock.lock_shared().unwrap();
    let refused = store.vault.delete(&StoredName::of(media(OPEN))).await;
    assert!(
        matches!(refused, Err(VaultError::Unavailable { .. })),
        "{refused:?}"
    );
    assert!(path(&dir, OPEN).exists());
    drop(deletion_lock);
    store
        .vault
        .delete(&StoredName::of(media(OPEN)))
        .await
        .unwrap();
    assert!(!path(&dir, OPEN).exists());
}

#[tokio::test]
async fn a_backup_holds_media_from_the_copy_of_the_ledger_on() {
    let (dir, target) = (store_with_everything().await, directory::new());
    let store = directory::open(&dir);
    let new_ledger = target.path().join("ledger.sqlite.new");
    let (mut before, mut during) = (Vec::new(), Vec::new());
    backup(dir.path(), target.path(), &mut |_| {
        if new_ledger.exists() {
            &mut during
        } else {
            &mut before
        }
        .push(is_free(&dir));
    })
    .unwrap();
    assert!(before.iter().all(|free| *free) && !before.is_empty());
    assert!(!during[0], "{during:?}");
    assert!(
        during.last().unwrap(),
        "it is let go of while all is read back"
    );
    drop(store);
}

#[tokio::test]
async fn a_repair_waits_for_a_backup() {
    let dir = store_with_everything().await;
    let deletion_lock = std::fs::File::create(dir.path().join("hold")).unwrap();
    deletion_lock.lock_shared().unwrap();
    let repair = VerifyOptions::new(NOW).repair(true);
    let refused = verify(dir.path(), repair, &mut |_| ());
    assert!(
        matches!(refused, Err(VerifyError::DeletionLocked { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn only_an_empty_directory_or_a_backup_is_written_to() {
    let (dir, target) = (store_with_everything().await, directory::new());
    std::fs::write(target.path().join("letter"), "mine").unwrap();
    let refused = make(&dir, target.path());
    assert!(
        matches!(refused, Err(BackupError::NotABackup { .. })),
        "{refused:?}"
    );
    let other = store_with_everything().await;
    let refused = make(&dir, other.path());
    assert!(
        matches!(refused, Err(BackupError::NotABackup { .. })),
        "{refused:?}"
    );
    for inside in [dir.path().to_owned(), dir.path().join("vault/copy")] {
        let refused = make(&dir, &inside);
        assert!(
            matches!(refused, Err(BackupError::Inside { .. })),
            "{refused:?}"
        );
    }
    assert!(!dir.path().join("vault/copy").exists());
    assert_sound(dir.path());
}

#[tokio::test]
async fn no_backup_is_made_into_a_vault_that_is_elsewhere_behind_a_link() {
    let (dir, elsewhere) = (store_with_everything().await, directory::new());
    let (vault, real) = (dir.path().join("vault"), elsewhere.path().join("media"));
    std::fs::rename(&vault, &real).unwrap();
    std::os::unix::fs::symlink(&real, &vault).unwrap();
    for inside in [real.clone(), real.join("copy"), vault.join("copy")] {
        let refused = make(&dir, &inside);
        assert!(
            matches!(refused, Err(BackupError::Inside { .. })),
            "{inside:?}: {refused:?}"
        );
    }
    assert!(!real.join("copy").exists());
    let near = elsewhere.path().join("copy");
    make(&dir, &near).unwrap();
    assert_sound(&near);
}

#[tokio::test]
async fn a_backup_that_is_served_is_a_store_and_no_backup_any_more() {
    let (dir, target) = (store_with_everything().await, directory::new());
    make(&dir, target.path()).unwrap();
    let store = open(target.path()).unwrap();
    let refused = make(&dir, target.path());
    assert!(
        matches!(refused, Err(BackupError::NotABackup { .. })),
        "{refused:?}"
    );
    drop(store);
    make(&dir, target.path()).unwrap_err();
}

#[tokio::test]
async fn interrupted_first_backup_is_not_a_store_and_can_be_continued() {
    let (dir, target) = (store_with_everything().await, directory::new());
    interrupt(&dir, target.path());
    let refused = open(target.path()).map(drop);
    assert!(
        matches!(refused, Err(OpenError::IncompleteBackup { .. })),
        "{refused:?}"
    );
    let refused = verify(target.path(), VerifyOptions::new(NOW), &mut |_| ());
    let is_incomplete = |error: &VerifyError| error.to_string().contains("not completed");
    assert!(refused.is_err_and(|error| is_incomplete(&error)));
    make(&dir, target.path()).unwrap();
    assert_sound(target.path());
}

#[tokio::test]
async fn interrupted_later_backup_leaves_the_earlier_one_complete() {
    let (dir, target) = (store_with_everything().await, directory::new());
    make(&dir, target.path()).unwrap();
    let store = directory::open(&dir);
    upload(&store, 40, MediaLocation::Vault).await;
    let held = lease(&store, OPEN).await;
    let end = store.ledger.end(session(OPEN), held, EndSession::Cancelled);
    end.await.unwrap();
    interrupt(&dir, target.path());
    let options = VerifyOptions::new(Timestamp::from_millis(0));
    let verified = verify(target.path(), options, &mut |_| ()).unwrap();
    assert!(
        verified.is_sound() && verified.sessions == 7,
        "{verified:?}"
    );
    let restored = open(target.path()).unwrap();
    let whole = restored
        .ledger
        .session(session(OPEN))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(whole.state, SessionState::Active);
    assert!(!target.path().join("ledger.sqlite.new").exists());
}

#[tokio::test]
async fn garbage_and_ended_sessions_need_no_media() {
    let (dir, target) = (store_with_everything().await, directory::new());
    sql(
        &dir,
        &format!(
            "INSERT INTO garbage VALUES (x'{}', x'', 0, 0)",
            media(CANCELLED)
        ),
    );
    make(&dir, target.path()).unwrap();
    assert_sound(target.path());
}

/// Interrupts a backup after it has copied the ledger.
fn interrupt(dir: &TempDir, target: &Path) {
    let new_ledger = target.join("ledger.sqlite.new");
    let cut = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        backup(dir.path(), target, &mut |_| {
            assert!(!new_ledger.exists(), "the power goes out here");
        })
    }));
    assert!(cut.is_err());
}

#[tokio::test]
async fn media_deleted_before_the_lock_is_neither_in_the_backup_nor_missed() {
    let (dir, target) = (store_with_everything().await, directory::new());
    let store = directory::open(&dir);
    let made = backup(dir.path(), target.path(), &mut |event| {
        if let BackupEvent::Progress(so_far) = event
            && so_far.copied == BYTES.len() as u64
        {
            cancel(&dir, OPEN);
            cancel(&dir, FINISHING);
        }
    });
    let made = made.unwrap();
    assert_eq!((made.media, made.damage, made.deleted), (1, 0, 1));
    assert_sound(target.path());
    drop(store);
}

#[tokio::test]
async fn sound_bytes_of_a_backup_are_not_replaced_by_damaged_ones() {
    let (dir, target) = (store_with_everything().await, directory::new());
    make(&dir, target.path()).unwrap();
    std::fs::write(path(&target, OPEN), &BYTES[..20]).unwrap();
    std::fs::write(path(&dir, OPEN), &BYTES[..5]).unwrap();
    assert_eq!(make(&dir, target.path()).unwrap().damage, 1);
    assert_eq!(std::fs::read(path(&target, OPEN)).unwrap(), &BYTES[..20]);
}

#[tokio::test]
async fn media_created_before_the_lock_and_deleted_after_it_is_in_the_backup() {
    let (dir, target) = (store_with_everything().await, directory::new());
    let mut is_new = true;
    let made = backup(dir.path(), target.path(), &mut |_| {
        if std::mem::take(&mut is_new) {
            another(&dir, 40);
        }
        if target.path().join("ledger.sqlite.new").exists() && is_free(&dir) {
            std::fs::remove_file(path(&dir, 40)).ok();
        }
    });
    assert_eq!(made.unwrap().media, 4);
    assert!(path(&target, 40).exists() && !path(&dir, 40).exists());
    assert_sound(target.path());
}

/// Returns whether media may be deleted.
fn is_free(dir: &TempDir) -> bool {
    let deletion_lock = std::fs::File::create(dir.path().join("hold")).unwrap();
    deletion_lock.try_lock().is_ok()
}

/// Adds a session with the same columns as [`OPEN`].
fn another(dir: &TempDir, number: u8) {
    let (file, like) = (path(dir, number), path(dir, OPEN));
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::copy(like, file).unwrap();
    let same =
        "context, created, expires, state, epoch, offset, total, crc32c, slow_digests, place,
                extent_start, extent_crc32c, reply";
    let media = media(number);
    sql(
        dir,
        &format!(
            "BEGIN IMMEDIATE;
             INSERT INTO sessions (id, media, {same})
             SELECT randomblob(32), x'{media}', {same} FROM sessions WHERE rowid = {OPEN};
             INSERT INTO media (id, place, refs) VALUES (x'{media}', 1, 1);
             COMMIT;"
        ),
    );
}
