//! Behaviour of the vault on a failing disk, which is simulated by devices that refuse operations.

mod copies;

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

use bytes::Bytes;
use rustix::process::{Resource, Rlimit};
use tempfile::TempDir;

use windlass_store::recorder::NoRecorder;
use windlass_store::{ExpectedSize, READ_LEN, Retention, StoredMedia, StoredName, SyncTarget};

use super::*;
use crate::file_lock::FileLock;
use crate::test_util::eventually;

fn open(dir: &TempDir, durability: Durability) -> LocalVault {
    open_with(dir, durability, "lock", false)
}

/// The vault as another process sees it.
fn open_another(dir: &TempDir, allow_shared_data: bool) -> LocalVault {
    let lock = format!("lock-{allow_shared_data}");
    open_with(dir, Durability::Os, &lock, allow_shared_data)
}

fn open_with(
    dir: &TempDir,
    durability: Durability,
    lock: &str,
    allow_shared_data: bool,
) -> LocalVault {
    let lock = FileLock::try_exclusive(&dir.path().join(lock))
        .unwrap()
        .unwrap();
    let root = dir.path().join("vault");
    filesystem::make_directories_durably(&root).unwrap();
    let shared_state = StoreShared {
        durability,
        reserve: Arc::new(crate::reserve::Reserve::open(&dir.path().join("reserve")).unwrap()),
        lock: Arc::new(DirectoryLock::new(vec![lock])),
        stop_probes: Arc::new([]),
        allow_shared_data,
        retention: Retention::default(),
        recorder: Arc::new(NoRecorder),
    };
    LocalVault::new(root, WritePolicy::Direct, shared_state)
}

/// A writer on a device. `/dev/full` refuses writes for lack of space, and no device can be synced.
fn writer_on(vault: &LocalVault, device: &str, n: u8) -> LocalWriter {
    let file = OpenOptions::new().write(true).open(device).unwrap();
    writer_to(vault, file, n)
}

fn writer_to(vault: &LocalVault, file: File, n: u8) -> LocalWriter {
    let fence = vault.shared.fences.take_over(id(n));
    LocalWriter::new(id(n), file, fence, Arc::clone(&vault.shared))
}

fn id(n: u8) -> MediaId {
    MediaId::from_bytes([n; 16])
}

fn data() -> Vec<Bytes> {
    vec![Bytes::from_static(b"wind"), Bytes::from_static(b"lass")]
}

#[track_caller]
fn is_fault<T>(result: Result<T, VaultError>) {
    assert!(matches!(result.map(drop), Err(VaultError::Fault(_))));
}

#[tokio::test]
async fn after_a_failed_sync_none_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    let sound = vault.create(id(1), ExpectedSize::default()).await.unwrap();
    sound.append(0, data()).await.unwrap();
    sound.sync(SyncTarget::at(8)).await.unwrap();
    let broken = writer_on(&vault, "/dev/null", 2);
    is_fault(broken.append_and_sync(0, data(), SyncTarget::at(8)).await);
    is_fault(broken.sync(SyncTarget::at(8)).await);
    is_fault(sound.sync(SyncTarget::at(8)).await);
    is_fault(sound.append_and_sync(8, data(), SyncTarget::at(8)).await);
    is_fault(vault.create(id(3), ExpectedSize::default()).await);
    let mut reader = vault.read(&StoredName::of(id(1)), 0..8).await.unwrap();
    assert_eq!(
        reader.next(READ_LEN).await.unwrap(),
        "windlass",
        "what is durable can still be read"
    );
    vault.delete(&StoredName::of(id(1))).await.unwrap();
}

#[tokio::test]
async fn after_a_failed_write_no_sync_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    let sound = vault.create(id(1), ExpectedSize::default()).await.unwrap();
    sound.append(0, data()).await.unwrap();
    let broken = writer_to(&vault, File::open("/dev/null").unwrap(), 2);
    is_fault(broken.append(0, data()).await);
    is_fault(sound.sync(SyncTarget::at(8)).await);
}

#[tokio::test]
async fn a_link_in_the_place_of_a_media_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Os);
    let writer = vault.create(id(1), ExpectedSize::default()).await.unwrap();
    writer.append(0, data()).await.unwrap();
    drop(writer);
    let (media, elsewhere) = (
        vault.shared.layout.path(id(1)),
        dir.path().join("elsewhere"),
    );
    std::fs::rename(&media, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &media).unwrap();
    vault.read(&StoredName::of(id(1)), 0..8).await.unwrap_err();
    // It would cut the file off.
    vault
        .resume(&StoredMedia {
            verify: None,
            ..StoredMedia::new(id(1), 4)
        })
        .await
        .unwrap_err();
    assert_eq!(std::fs::read(&elsewhere).unwrap(), b"windlass");
    std::fs::rename(&elsewhere, &media).unwrap();
    vault.read(&StoredName::of(id(1)), 0..8).await.unwrap();
}

#[tokio::test]
async fn media_that_everybody_can_change_is_not_used() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Os);
    let writer = vault.create(id(1), ExpectedSize::default()).await.unwrap();
    writer.append(0, data()).await.unwrap();
    drop(writer);
    let media = vault.shared.layout.path(id(1));
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let inner = media.parent().unwrap();
    for (path, open_to_all, private) in [(&*media, 0o606, 0o664), (inner, 0o703, 0o770)] {
        // Another process, as a directory is checked once.
        let vault = open_another(&dir, false);
        set(path, open_to_all);
        let error = vault
            .read(&StoredName::of(id(1)), 0..8)
            .await
            .map(drop)
            .unwrap_err();
        assert!(matches!(error, VaultError::Unavailable { .. }), "{error:?}");
        vault
            .resume(&StoredMedia {
                verify: None,
                ..StoredMedia::new(id(1), 8)
            })
            .await
            .map(drop)
            .unwrap_err();
        let insisting = open_another(&dir, true);
        insisting.read(&StoredName::of(id(1)), 0..8).await.unwrap();
        set(path, private);
        vault.read(&StoredName::of(id(1)), 0..8).await.unwrap();
    }
    set(inner, 0o707);
    let vault = open_another(&dir, false);
    let sibling = MediaId::from_bytes([[1; 15].as_slice(), &[2]].concat().try_into().unwrap());
    vault
        .create(sibling, ExpectedSize::default())
        .await
        .map(drop)
        .unwrap_err();
}

/// More bytes than a write-back waits for.
fn much() -> Vec<Bytes> {
    vec![vec![7; 4 << 20].into()]
}

#[tokio::test]
async fn write_back_starts_without_a_requested_sync() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    let writer = vault.create(id(1), ExpectedSize::default()).await.unwrap();
    let before = vault.syncs();
    writer.append(0, much()).await.unwrap();
    eventually(async || (vault.syncs() > before).then_some(())).await;
}

#[tokio::test]
async fn failed_write_back_ends_all_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    let sound = vault.create(id(1), ExpectedSize::default()).await.unwrap();
    writer_on(&vault, "/dev/null", 2)
        .append(0, much())
        .await
        .unwrap();
    eventually(async || sound.sync(SyncTarget::at(8)).await.err()).await;
    is_fault(sound.sync(SyncTarget::at(8)).await);
}

#[tokio::test]
async fn a_full_disk_is_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    let full = writer_on(&vault, "/dev/full", 2);
    for refused in [
        full.append(0, data()).await,
        full.append_and_sync(0, data(), SyncTarget::at(8)).await,
    ] {
        assert!(
            matches!(refused, Err(VaultError::NoSpace { written: 0 })),
            "{refused:?}"
        );
    }
    let sound = vault.create(id(1), ExpectedSize::default()).await.unwrap();
    sound.append(0, data()).await.unwrap();
    sound.sync(SyncTarget::at(8)).await.unwrap();
}

#[tokio::test]
async fn a_sync_is_counted_and_only_where_one_happens() {
    for (durability, expected) in [(Durability::Disk, 1), (Durability::Os, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let vault = open(&dir, durability);
        let writer = vault.create(id(1), ExpectedSize::default()).await.unwrap();
        let before = vault.syncs();
        writer.append(0, data()).await.unwrap();
        writer.sync(SyncTarget::at(8)).await.unwrap();
        assert_eq!(vault.syncs() - before, expected, "{durability:?}");
        writer
            .append_and_sync(8, data(), SyncTarget::at(8))
            .await
            .unwrap();
        assert_eq!(vault.syncs() - before, 2 * expected, "{durability:?}");
    }
}

#[tokio::test]
async fn dropped_writer_leaves_no_fence() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    let writer = vault.create(id(1), ExpectedSize::default()).await.unwrap();
    let newer = vault
        .resume(&StoredMedia {
            verify: None,
            ..StoredMedia::new(id(1), 0)
        })
        .await
        .unwrap();
    drop(writer);
    assert_eq!(vault.shared.fences.len(), 1);
    drop(newer);
    assert_eq!(vault.shared.fences.len(), 0);
}

#[test]
fn take_over_waits_for_a_running_write_and_refuses_later_ones() {
    let fences = Arc::<FenceMap>::default();
    let old = fences.take_over(id(1));
    let (begin, has_begun) = std::sync::mpsc::channel();
    let (go_on, wait) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        // Dropped when an assertion fails, or the writer would wait for ever.
        let go_on = go_on;
        let fence = &old;
        let writing = scope.spawn(move || {
            fence.with(|| {
                begin.send(()).unwrap();
                wait.recv().unwrap();
            })
        });
        has_begun.recv().unwrap();
        let taking_over = scope.spawn(|| fences.take_over(id(1)));
        assert!(!taking_over.is_finished());
        go_on.send(()).unwrap();
        assert!(writing.join().unwrap().is_some());
        taking_over.join().unwrap();
    });
    assert!(old.with(|| ()).is_none());
}

#[tokio::test]
async fn foreign_names_are_not_listed() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    vault
        .create(id(0xab), ExpectedSize::default())
        .await
        .unwrap();
    let root = dir.path().join("vault");
    for name in ["lost+found", "ab/cd", "ab/README"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    std::fs::write(root.join("ab/ab/abc"), "").unwrap();
    std::fs::write(root.join("ab/cd/ABABABABABABABABABABABABABABABAB"), "").unwrap();
    assert_eq!(listed(&vault).await, [id(0xab)]);
}

#[tokio::test]
async fn media_lies_where_the_layout_says_and_is_private() {
    use std::os::unix::fs::PermissionsExt;

    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    vault
        .create(id(0x2f), ExpectedSize::default())
        .await
        .unwrap();
    let paths = [
        ("2f", 0o700),
        ("2f/2f", 0o700),
        ("2f/2f/2f2f2f2f2f2f2f2f2f2f2f2f2f2f2f2f", 0o600),
    ];
    for (path, mode) in paths {
        let metadata = dir.path().join("vault").join(path).metadata().unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{path}");
    }
}

/// Runs in a separate process, because the limit applies to the whole process.
#[test]
fn a_shortage_of_descriptors_fails_a_create_and_nothing_else() {
    const STARVING: &str = "WINDLASS_TEST_STARVING";
    if std::env::var_os(STARVING).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        return runtime
            .unwrap()
            .block_on(create_while_descriptors_are_short());
    }
    let name = "vault::tests::a_shortage_of_descriptors_fails_a_create_and_nothing_else";
    windlass_testkit::alone::run(name, STARVING);
}

async fn create_while_descriptors_are_short() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    let sound = vault.create(id(0), ExpectedSize::default()).await.unwrap();
    let enough = rustix::process::getrlimit(Resource::Nofile);
    let mut failed = 0;
    for spare in 0..8 {
        // The kernel gives out the lowest free descriptor.
        let next = u64::try_from(File::open("/dev/null").unwrap().as_raw_fd()).unwrap();
        limit_descriptors(enough, Some(next + spare));
        let created = vault
            .create(
                id(0x10 + u8::try_from(spare).unwrap()),
                ExpectedSize::default(),
            )
            .await;
        limit_descriptors(enough, enough.current);
        match created {
            Ok(_) => {}
            Err(VaultError::Unavailable { .. }) => failed += 1,
            Err(error) => panic!("{spare} to spare: {error:?}"),
        }
    }
    assert!((2..8).contains(&failed), "{failed} failed");
    let listed = listed(&vault).await;
    assert_eq!(
        listed.iter().filter(|listed| **listed != id(0)).count(),
        8 - failed,
        "a create that failed leaves no file behind"
    );
    sound.append(0, data()).await.unwrap();
    sound.sync(SyncTarget::at(8)).await.unwrap();
}

fn limit_descriptors(enough: Rlimit, current: Option<u64>) {
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current, ..enough }).unwrap();
}

#[tokio::test]
async fn media_that_was_unlinked_while_it_was_written_is_not_acknowledged() {
    for durability in [Durability::Disk, Durability::Os] {
        let dir = tempfile::tempdir().unwrap();
        let vault = open(&dir, durability);
        let [unlinked, sound] = [
            vault.create(id(1), ExpectedSize::default()).await.unwrap(),
            vault.create(id(2), ExpectedSize::default()).await.unwrap(),
        ];
        unlinked.append(0, data()).await.unwrap();
        vault.delete(&StoredName::of(id(1))).await.unwrap();
        let synced = unlinked.sync(SyncTarget::at(8)).await;
        assert!(
            matches!(synced, Err(VaultError::Damaged { .. })),
            "{durability:?}: {synced:?}"
        );
        sound.append(0, data()).await.unwrap();
        sound.sync(SyncTarget::at(8)).await.unwrap();
    }
}

#[tokio::test]
async fn a_create_whose_sync_fails_leaves_no_file_behind() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    is_fault(
        writer_on(&vault, "/dev/null", 2)
            .sync(SyncTarget::at(8))
            .await,
    );
    is_fault(vault.create(id(1), ExpectedSize::default()).await);
    assert_eq!(listed(&vault).await, []);
}

#[tokio::test]
async fn media_that_is_being_written_is_not_listed() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    let writer = vault.create(id(1), ExpectedSize::default()).await.unwrap();
    vault.create(id(2), ExpectedSize::default()).await.unwrap();
    assert_eq!(listed(&vault).await, [id(2)]);
    drop(writer);
    assert_eq!(listed(&vault).await, [id(1), id(2)]);
}

#[tokio::test]
async fn listing_of_empty_directories_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    for n in 1..=9 {
        vault.create(id(n), ExpectedSize::default()).await.unwrap();
        if n < 9 {
            vault.delete(&StoredName::of(id(n))).await.unwrap();
        }
    }
    let mut next = None;
    for _ in 0..2 {
        let behind = next
            .as_ref()
            .map(|next: &ListPosition| next.media().unwrap());
        let listing = vault.list(next, 4).await.unwrap();
        assert_eq!(listing.stored, []);
        let reached = listing.next.as_ref().map(|next| next.media().unwrap());
        assert!(reached > behind && reached < Some(id(9)));
        next = listing.next;
    }
    let rest = vault.list(next, 4).await.unwrap();
    assert_eq!(rest.stored.len(), 1);
    assert_eq!(rest.next, None);
}

async fn listed(vault: &LocalVault) -> Vec<MediaId> {
    let listing = vault.list(None, 100).await.unwrap();
    assert_eq!(listing.next, None);
    let stored = listing.stored.iter();
    stored.map(|stored| stored.name.media).collect()
}

#[tokio::test]
async fn directories_that_were_removed_are_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    let id = MediaId::from_bytes([1; 16]);
    drop(vault.create(id, ExpectedSize::default()).await.unwrap());
    vault.delete(&StoredName::of(id)).await.unwrap();
    let outer = dir.path().join("vault/01");
    std::fs::remove_dir_all(&outer).unwrap();
    vault.create(id, ExpectedSize::default()).await.unwrap();
    assert!(outer.join("01").join(id.to_string()).exists());
}

#[tokio::test]
async fn begin_is_refused_while_no_thread_is_free() {
    let pool = BlockingPool::new(1);
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    assert!(pool.begin(move || held.recv().unwrap_or_default()));
    assert!(!pool.begin(|| ()));
    drop(let_go);
    assert_eq!(pool.run(|| 3).await.unwrap(), 3);
}

#[tokio::test]
async fn panicking_work_returns_an_error_and_frees_its_thread() {
    let pool = BlockingPool::new(1);
    pool.run(|| panic!("on purpose")).await.unwrap_err();
    assert_eq!(pool.run(|| 1).await.unwrap(), 1);
}
