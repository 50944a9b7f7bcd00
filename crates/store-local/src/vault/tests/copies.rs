//! Media made of other media, on disks that fail.

use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use windlass_store::{ExpectedSize, Part};

use super::*;

/// More than two slices, and no whole number of blocks.
const LONG: u64 = (20 << 20) + 5;

/// The callback `copied` of a caller that ignores progress.
const UNSEEN: &(dyn Fn(u64) + Send + Sync) = &|_| {};

fn part(n: u8, length: u64) -> Part {
    let media = StoredName::of(id(n));
    Part::Media { media, length }
}

fn path(dir: &TempDir, n: u8) -> PathBuf {
    layout::media_path(&dir.path().join("vault"), id(n))
}

/// Puts media into the vault. Bytes are different everywhere, so that misplaced ones are seen.
async fn put(vault: &LocalVault, n: u8, length: u64) -> Vec<u8> {
    let words = (0..length.div_ceil(8)).flat_map(|word| (word ^ u64::from(n) << 56).to_le_bytes());
    let bytes: Vec<u8> = words.take(usize::try_from(length).unwrap()).collect();
    let writer = vault.create(id(n), ExpectedSize::default()).await.unwrap();
    writer
        .append_and_sync(0, vec![bytes.clone().into()], SyncTarget::at(8))
        .await
        .unwrap();
    bytes
}

#[tokio::test]
async fn sources_of_many_slices_are_copied_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    let (first, second) = (put(&vault, 1, LONG).await, put(&vault, 2, LONG - 1).await);
    let steps = Mutex::new(Vec::new());
    let copied = |bytes| steps.lock().unwrap().push(bytes);
    let parts = vec![part(1, LONG), Part::Bytes("cow".into()), part(2, LONG - 1)];
    vault.concat(id(3), parts, &copied).await.unwrap();
    let expected = [&first[..], b"cow", &second].concat();
    assert!(std::fs::read(path(&dir, 3)).unwrap() == expected);
    let steps = steps.into_inner().unwrap();
    assert!(
        steps.len() > 6 && steps.iter().sum::<u64>() == expected.len() as u64,
        "{steps:?}"
    );
}

#[tokio::test]
async fn hole_of_a_source_is_read_as_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    drop(vault.create(id(1), ExpectedSize::default()).await.unwrap());
    let file = OpenOptions::new().write(true).open(path(&dir, 1)).unwrap();
    file.write_all_at(b"cow", LONG - 3).unwrap();
    vault
        .concat(id(2), vec![part(1, LONG), part(1, LONG)], UNSEEN)
        .await
        .unwrap();
    let source = std::fs::read(path(&dir, 1)).unwrap();
    assert!(std::fs::read(path(&dir, 2)).unwrap() == [source.clone(), source].concat());
}

#[tokio::test]
async fn media_is_not_listed_while_it_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    put(&vault, 1, LONG).await;
    let shared = &vault.shared;
    let seen = || {
        let listing = shared
            .layout
            .list(None, 100, |id| shared.fences.is_open(id));
        listing
            .unwrap()
            .stored
            .iter()
            .map(|stored| stored.name.media)
            .collect::<Vec<_>>()
    };
    let copied = |_| assert_eq!(seen(), [id(1)]);
    vault
        .concat(id(2), vec![part(1, LONG)], &copied)
        .await
        .unwrap();
    assert_eq!(listed(&vault).await, [id(1), id(2)]);
}

#[tokio::test]
async fn source_that_is_deleted_between_two_slices_is_missing_and_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    put(&vault, 1, LONG).await;
    let copied = |_| filesystem::remove(&path(&dir, 1)).unwrap();
    let refused = vault.concat(id(2), vec![part(1, LONG)], &copied).await;
    assert!(matches!(refused, Err(VaultError::Missing(missing)) if missing == id(1)));
    is_sound(&vault).await;
}

#[tokio::test]
async fn source_that_is_cut_between_two_slices_is_damaged_and_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    put(&vault, 1, LONG).await;
    let source = OpenOptions::new().write(true).open(path(&dir, 1)).unwrap();
    let copied = |_| source.set_len(LONG - 1).unwrap();
    let refused = vault.concat(id(2), vec![part(1, LONG)], &copied).await;
    assert!(matches!(refused, Err(VaultError::Damaged { id: damaged, .. }) if damaged == id(1)));
    is_sound(&vault).await;
}

/// A directory can be opened as a file, and not be read.
#[tokio::test]
async fn source_that_cannot_be_read_is_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    std::fs::create_dir_all(path(&dir, 1)).unwrap();
    let refused = vault.concat(id(2), vec![part(1, 10)], UNSEEN).await;
    assert!(
        matches!(refused, Err(VaultError::Unavailable { id: unreadable, .. }) if unreadable == Some(id(1))),
        "{refused:?}"
    );
    is_sound(&vault).await;
}

#[tokio::test]
async fn copy_to_a_full_disk_is_no_fault() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    put(&vault, 1, 100_000).await;
    let full = writer_on(&vault, "/dev/full", 2);
    let refused = full.fill(vec![part(1, 100_000)], UNSEEN).await;
    assert!(
        matches!(refused, Err(VaultError::NoSpace { .. })),
        "{refused:?}"
    );
    is_sound(&vault).await;
}

async fn is_sound(vault: &LocalVault) {
    let sound = vault.create(id(9), ExpectedSize::default()).await.unwrap();
    sound
        .append_and_sync(0, data(), SyncTarget::at(8))
        .await
        .unwrap();
}

#[tokio::test]
async fn after_a_copy_that_cannot_be_written_no_sync_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    put(&vault, 1, 100_000).await;
    let sound = vault.create(id(2), ExpectedSize::default()).await.unwrap();
    // Opened for reading only: every write fails.
    let broken = writer_to(&vault, File::open(path(&dir, 1)).unwrap(), 3);
    is_fault(broken.fill(vec![part(1, 100_000)], UNSEEN).await);
    is_fault(sound.sync(SyncTarget::at(8)).await);
    is_fault(vault.concat(id(4), vec![part(1, 100_000)], UNSEEN).await);
    assert_eq!(
        listed(&vault).await,
        [id(1)],
        "nothing but what has no writer"
    );
}

#[tokio::test]
async fn copy_whose_sync_fails_ends_all_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    put(&vault, 1, 10).await;
    let sound = vault.create(id(2), ExpectedSize::default()).await.unwrap();
    // Takes all bytes, and cannot be synced.
    let broken = writer_on(&vault, "/dev/null", 3);
    is_fault(broken.fill(vec![part(1, 10)], UNSEEN).await);
    is_fault(sound.sync(SyncTarget::at(8)).await);
}

#[tokio::test]
async fn dropped_copy_ends_after_its_slice() {
    let dir = tempfile::tempdir().unwrap();
    let vault = open(&dir, Durability::Disk);
    let length = 50 * LONG;
    drop(vault.create(id(1), ExpectedSize::default()).await.unwrap());
    // A hole takes no space.
    let source = OpenOptions::new().write(true).open(path(&dir, 1)).unwrap();
    source.set_len(length).unwrap();
    let has_begun = Mutex::new(false);
    let copied = |_| *has_begun.lock().unwrap() = true;
    let mut copy = Box::pin(vault.concat(id(2), vec![part(1, length)], &copied));
    while !*has_begun.lock().unwrap() {
        tokio::select! {
            biased;
            done = &mut copy => panic!("it is not done so soon: {done:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    drop(copy);
    eventually(async || (vault.shared.fences.len() == 0).then_some(())).await;
    assert!(path(&dir, 2).metadata().unwrap().len() < length);
}
