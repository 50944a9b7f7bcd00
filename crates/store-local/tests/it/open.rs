//! What opening a data directory makes of it, and when it refuses.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use windlass_store::{Ledger, MediaId, Vault};
use windlass_store_local::{Durability, LocalStore, OpenError, Options};

use crate::directory;

#[tokio::test]
async fn a_new_store_is_made_with_all_its_directories_for_its_owner_only() {
    let dir = directory::new();
    let data = dir.path().join("a/b/c");
    let options = Options {
        allow_unsafe_filesystem: true,
        ..Options::default()
    };
    let store = LocalStore::open(&data, options).unwrap();
    store.ledger.check().await.unwrap();
    let names = [
        (".", 0o700),
        ("vault", 0o700),
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
    let options = Options {
        allow_unsafe_filesystem: true,
        ..Options::default()
    };
    let LocalStore { ledger, vault } = directory::open(&dir);
    let in_use = || {
        let second = LocalStore::open(dir.path(), options);
        matches!(second, Err(OpenError::InUse { dir: of }) if of == dir.path())
    };
    assert!(in_use());
    drop(ledger);
    assert!(in_use(), "the vault holds it as well");
    let writer = vault.create(MediaId::from_bytes([1; 16])).await.unwrap();
    drop(vault);
    assert!(in_use(), "and so does a writer");
    drop(writer);
    directory::open(&dir);
}

#[test]
fn a_file_system_in_memory_is_refused_unless_the_operator_insists() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        println!("SKIPPED: there is no tmpfs at /dev/shm");
        return;
    };
    if !is_tmpfs(Path::new("/dev/shm")) {
        println!("SKIPPED: /dev/shm is no tmpfs");
        return;
    }
    let refused = LocalStore::open(dir.path(), Options::default()).unwrap_err();
    assert!(
        matches!(&refused, OpenError::UnsafeFilesystem { reason, .. } if reason.contains("tmpfs"))
    );
    assert!(!dir.path().join("ledger.sqlite").exists());

    let insisting = Options {
        allow_unsafe_filesystem: true,
        ..Options::default()
    };
    LocalStore::open(dir.path(), insisting).unwrap();
    // Who does not ask for a power cut to be survived is not refused for it.
    let scratch = Options {
        durability: Durability::Os,
        ..Options::default()
    };
    LocalStore::open(dir.path(), scratch).unwrap();
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let dir = directory::new();
    let path = dir.path().join("ledger.sqlite");
    let text = b"this is somebody's letter, and longer than a header of a hundred bytes".repeat(3);
    std::fs::write(&path, &text).unwrap();
    let options = Options {
        allow_unsafe_filesystem: true,
        ..Options::default()
    };
    let refused = LocalStore::open(dir.path(), options).unwrap_err();
    assert!(
        matches!(&refused, OpenError::Ledger { path: of, .. } if *of == path),
        "{refused:?}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), text);
}

fn is_tmpfs(path: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let path = path.to_string_lossy();
    mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(1);
        fields.next() == Some(&*path) && fields.next() == Some("tmpfs")
    })
}
