//! Opening a data directory: the created files, and the refused directories.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::TempDir;
use windlass_store::{ExpectedSize, Ledger, MediaId, StoredMedia, Vault};
use windlass_store_local::verify::{VerifyError, VerifyOptions, verify};
use windlass_store_local::{
    Durability, IdentityMismatch, LocalStore, OpenError, Options, SharedDirectory,
};
use windlass_testkit::skip::skipped;

use crate::directory;
use crate::sample::{self, NOW, store_with_everything};

#[tokio::test]
async fn a_new_store_is_made_with_all_its_directories_for_its_owner_only() {
    let dir = directory::new();
    let data = dir.path().join("a/b/c");
    let options = Options::default().allow_unsafe_filesystem(true);
    let store = LocalStore::open(&data, options).unwrap();
    store.ledger.check().await.unwrap();
    let names = [
        (".", 0o700),
        ("vault", 0o700),
        ("vault/identity", 0o600),
        ("ledger.sqlite", 0o600),
        ("lock", 0o600),
    ];
    for (name, mode) in names {
        let permissions = data.join(name).metadata().unwrap().permissions();
        assert_eq!(permissions.mode() & 0o777, mode, "{name}");
    }
}

#[tokio::test]
async fn a_directory_is_open_once_and_free_again_afterwards() {
    let dir = directory::new();
    let options = Options::default().allow_unsafe_filesystem(true);
    let LocalStore { ledger, vault } = directory::open(&dir);
    let in_use = || {
        let second = LocalStore::open(dir.path(), options.clone());
        matches!(second, Err(OpenError::InUse { dir: of }) if of == dir.path())
    };
    assert!(in_use());
    drop(ledger);
    assert!(in_use(), "the vault holds it as well");
    let writer = vault
        .create(MediaId::from_bytes([1; 16]), ExpectedSize::default())
        .await
        .unwrap();
    drop(vault);
    assert!(in_use(), "and so does a writer");
    drop(writer);
    directory::open(&dir);
}

#[tokio::test]
async fn a_vault_is_open_once_whatever_data_directory_leads_to_it() {
    let (first, second) = (directory::new(), directory::new());
    let store = directory::open(&first);
    let vault = second.path().join("vault");
    std::os::unix::fs::symlink(first.path().join("vault"), &vault).unwrap();
    let mark = || std::fs::read(vault.join("identity")).unwrap();
    let before = mark();
    let is_in_use = |error: &OpenError| matches!(error, OpenError::InUse { dir } if *dir == vault);
    let refused = open(&second).unwrap_err();
    assert!(is_in_use(&refused), "a new store: {refused:?}");
    assert_eq!(mark(), before);
    assert!(!second.path().join("ledger.sqlite").exists());

    let ledger = |dir: &TempDir| dir.path().join("ledger.sqlite");
    drop(store);
    std::fs::copy(ledger(&first), ledger(&second)).unwrap();
    let store = directory::open(&first);
    let refused = open(&second).unwrap_err();
    assert!(is_in_use(&refused), "a copy of the store: {refused:?}");
    let repair = VerifyOptions::new(NOW).repair(true);
    let refused = verify(second.path(), repair, &mut |_| ()).unwrap_err();
    assert!(
        matches!(&refused, VerifyError::Open(error) if is_in_use(error)),
        "a repair of the copy: {refused:?}"
    );
    // A verification without repair changes nothing, so it does not take the vault's lock.
    let look = VerifyOptions::new(NOW);
    assert!(verify(second.path(), look, &mut |_| ()).unwrap().is_sound());
    drop(store);
    open(&second).unwrap();
}

#[test]
fn a_file_system_in_memory_is_refused_unless_the_operator_insists() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return skipped("there is no tmpfs at /dev/shm");
    };
    if !is_tmpfs(Path::new("/dev/shm")) {
        return skipped("/dev/shm is no tmpfs");
    }
    let refused = LocalStore::open(dir.path(), Options::default()).unwrap_err();
    assert!(
        matches!(&refused, OpenError::UnsafeFilesystem { reason, .. } if reason.contains("tmpfs"))
    );
    assert!(!dir.path().join("ledger.sqlite").exists());

    let insisting = Options::default().allow_unsafe_filesystem(true);
    LocalStore::open(dir.path(), insisting).unwrap();
    // Without the promise to survive power cuts no file system is refused.
    let scratch = Options::default().durability(Durability::Os);
    LocalStore::open(dir.path(), scratch).unwrap();
}

#[test]
fn a_directory_that_everybody_can_write_to_is_refused_and_left_alone() {
    let root = directory::new();
    let data = root.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let set = |dir: &Path, mode| {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let options = || Options::default().allow_unsafe_filesystem(true);
    let refused = |of: &Path, expected: u32| {
        let error = LocalStore::open(&data, options()).unwrap_err();
        let is_right = matches!(
            &error,
            OpenError::Shared { path, why: SharedDirectory::Writable { mode } }
                if path == of && *mode == expected
        );
        assert!(is_right, "{error:?}");
    };
    for mode in [0o702, 0o777, 0o1777] {
        set(&data, mode);
        refused(&data, mode);
        assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "{mode:o}");
    }
    // A volume of a container belongs to a group.
    set(&data, 0o2775);
    LocalStore::open(&data, options()).unwrap();
    let vault = data.join("vault");
    set(&vault, 0o707);
    refused(&vault, 0o707);
    LocalStore::open(&data, options().allow_shared_data(true)).unwrap();
    set(&vault, 0o700);
    LocalStore::open(&data, options()).unwrap();
}

#[test]
fn vault_directory_open_to_everybody_is_refused() {
    let dir = directory::new();
    let options = || Options::default().allow_unsafe_filesystem(true);
    drop(directory::open(&dir));
    let outer = dir.path().join("vault/2f");
    std::fs::create_dir(&outer).unwrap();
    let set = |mode| std::fs::set_permissions(&outer, Permissions::from_mode(mode)).unwrap();
    set(0o703);
    let error = LocalStore::open(dir.path(), options()).unwrap_err();
    let is_right = matches!(&error, OpenError::Shared { path, .. } if *path == outer);
    assert!(is_right, "{error:?}");
    LocalStore::open(dir.path(), options().allow_shared_data(true)).unwrap();
    set(0o770);
    LocalStore::open(dir.path(), options()).unwrap();
}

#[test]
fn named_pipe_in_the_place_of_a_file_is_refused() {
    let dir = directory::new();
    drop(directory::open(&dir));
    for name in [
        "lock",
        "ledger.sqlite",
        "ledger.sqlite-wal",
        "ledger.sqlite-shm",
        "reserve",
        "vault/identity",
    ] {
        let (path, aside) = (dir.path().join(name), dir.path().join("aside"));
        let was_there = std::fs::rename(&path, &aside).is_ok();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let options = Options::default().allow_unsafe_filesystem(true);
        let error = LocalStore::open(dir.path(), options).unwrap_err();
        let text = format!("{error:?}");
        assert!(text.contains("Pipe"), "{name}: {text}");
        std::fs::remove_file(&path).unwrap();
        if was_there {
            std::fs::rename(&aside, &path).unwrap();
        }
        drop(directory::open(&dir));
    }
}

#[test]
fn a_file_that_everybody_can_write_to_is_refused_and_left_alone() {
    let dir = directory::new();
    let options = || Options::default().allow_unsafe_filesystem(true);
    drop(directory::open(&dir));
    for name in [
        "lock",
        "ledger.sqlite",
        "ledger.sqlite-wal",
        "ledger.sqlite-shm",
        "vault/identity",
    ] {
        let path = dir.path().join(name);
        let file = File::options().append(true).create(true).open(&path);
        let file = file.unwrap();
        let set = |mode| file.set_permissions(Permissions::from_mode(mode)).unwrap();
        set(0o666);
        let before = (std::fs::read(&path).unwrap(), path.metadata().unwrap());
        let error = LocalStore::open(dir.path(), options()).unwrap_err();
        let is_right = matches!(
            &error,
            OpenError::Shared { path: of, why: SharedDirectory::Writable { mode: 0o666 } }
                if *of == path
        );
        assert!(is_right, "{name}: {error:?}");
        let (content, metadata) = (std::fs::read(&path).unwrap(), path.metadata().unwrap());
        assert!(content == before.0, "{name} was changed");
        assert_eq!(metadata.mode() & 0o7777, 0o666, "{name}");
        assert_eq!(metadata.modified().unwrap(), before.1.modified().unwrap());
        LocalStore::open(dir.path(), options().allow_shared_data(true)).unwrap();
        // SQLite removes its own when it closes the ledger.
        for mode in [0o664, 0o600] {
            set(mode);
            directory::open(&dir);
        }
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let dir = directory::new();
    let path = dir.path().join("ledger.sqlite");
    let text = b"this is somebody's letter, and longer than a header of a hundred bytes".repeat(3);
    std::fs::write(&path, &text).unwrap();
    let options = Options::default().allow_unsafe_filesystem(true);
    let refused = LocalStore::open(dir.path(), options).unwrap_err();
    assert!(
        matches!(&refused, OpenError::Ledger { path: of, .. } if *of == path),
        "{refused:?}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), text);
}

fn open(dir: &TempDir) -> Result<LocalStore, OpenError> {
    let options = Options::default().allow_unsafe_filesystem(true);
    LocalStore::open(dir.path(), options)
}

/// Returns names, lengths and times of all files in the directory, except an index of the WAL and
/// an empty WAL, which reading creates.
fn listing(dir: &Path) -> Vec<(PathBuf, u64, SystemTime)> {
    let mut found = Vec::new();
    for entry in dir.read_dir().unwrap() {
        let (path, metadata) = entry.map(|it| (it.path(), it.metadata().unwrap())).unwrap();
        if path.is_dir() {
            found.extend(listing(&path));
        } else {
            found.push((path, metadata.len(), metadata.modified().unwrap()));
        }
    }
    found.retain(|(path, len, _)| {
        let name = path.to_string_lossy();
        !name.ends_with("-shm") && (*len > 0 || !name.ends_with("-wal"))
    });
    found.sort();
    found
}

#[track_caller]
fn assert_refused(dir: &TempDir, expected: IdentityMismatch) {
    let before = listing(dir.path());
    let refused = open(dir).unwrap_err();
    let of = dir.path().join("vault");
    assert!(
        matches!(&refused, OpenError::Vault { vault, why } if *vault == of && *why == expected),
        "{refused:?}"
    );
    assert_eq!(listing(dir.path()), before, "nothing is changed");
}

#[tokio::test]
async fn a_store_whose_vault_is_not_there_is_refused_and_opens_again_when_it_is() {
    let dir = store_with_everything().await;
    let (vault, aside) = (dir.path().join("vault"), dir.path().join("aside"));
    std::fs::rename(&vault, &aside).unwrap();
    assert_refused(&dir, IdentityMismatch::Unmarked);
    assert!(!vault.exists());
    // The mount point of a disk that is not mounted.
    std::fs::create_dir(&vault).unwrap();
    assert_refused(&dir, IdentityMismatch::Unmarked);
    std::fs::remove_dir(&vault).unwrap();
    std::fs::rename(&aside, &vault).unwrap();
    let store = open(&dir).unwrap();
    let leased = store.ledger.lease(sample::session(sample::OPEN)).await;
    let progress = leased.unwrap().unwrap().session.progress;
    let media = sample::media(sample::OPEN);
    let stored = StoredMedia {
        verify: progress.extent,
        ..StoredMedia::new(media, progress.offset)
    };
    let reopened = store.vault.resume(&stored);
    reopened.await.unwrap();
}

#[tokio::test]
async fn the_vault_of_another_store_is_refused() {
    let (dir, other) = (store_with_everything().await, store_with_everything().await);
    let vault = dir.path().join("vault");
    std::fs::rename(&vault, dir.path().join("aside")).unwrap();
    std::fs::rename(other.path().join("vault"), &vault).unwrap();
    assert_refused(&dir, IdentityMismatch::Marked);
}

#[tokio::test]
async fn media_without_a_ledger_is_not_taken_for_a_new_store() {
    let dir = store_with_everything().await;
    std::fs::remove_file(dir.path().join("ledger.sqlite")).unwrap();
    let before = listing(dir.path());
    let refused = open(&dir).unwrap_err();
    assert!(matches!(refused, OpenError::NoLedger { .. }), "{refused:?}");
    assert_eq!(listing(dir.path()), before);
}

#[test]
fn store_opens_after_a_crash_at_any_step_of_its_creation() {
    let interruptions: [fn(&Path); 6] = [
        |data| std::fs::remove_file(data.join("vault/identity")).unwrap(),
        |data| std::fs::write(data.join("vault/identity"), "").unwrap(),
        |data| std::fs::write(data.join("vault/identity"), "0123").unwrap(),
        |data| std::fs::write(data.join("vault/identity"), [0; 33]).unwrap(),
        |data| std::fs::remove_dir_all(data.join("vault")).unwrap(),
        |data| std::fs::write(data.join("ledger.sqlite"), "").unwrap(),
    ];
    for (n, interrupt) in interruptions.into_iter().enumerate() {
        let dir = directory::new();
        drop(open(&dir).unwrap());
        std::fs::remove_file(dir.path().join("ledger.sqlite")).unwrap();
        interrupt(dir.path());
        for _ in 0..2 {
            open(&dir).unwrap_or_else(|error| panic!("{n}: {error:?}"));
        }
    }
}

#[test]
fn vault_with_the_identity_printed_by_sqlite_is_accepted() {
    let dir = directory::new();
    drop(open(&dir).unwrap());
    let connection = rusqlite::Connection::open(dir.path().join("ledger.sqlite")).unwrap();
    let printed = connection.query_row("SELECT hex(identity) FROM store", [], |row| {
        row.get::<_, String>(0)
    });
    std::fs::write(dir.path().join("vault/identity"), printed.unwrap() + "\n").unwrap();
    open(&dir).unwrap();
}

fn is_tmpfs(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let path = path.to_string_lossy();
    mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(1);
        fields.next() == Some(&*path) && fields.next() == Some("tmpfs")
    })
}
