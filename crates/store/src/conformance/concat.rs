//! The rules of [`Vault::concat`].

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Names, create, damaged, listed, read};
use crate::records::MediaId;
use crate::vault::{Part, Vault, VaultError};

pub(super) async fn all(vault: &dyn Vault) {
    parts_follow_each_other(vault).await;
    all_bytes_of_long_sources_are_copied(vault).await;
    bytes_behind_the_length_of_a_source_are_left_out(vault).await;
    media_of_no_parts_is_empty(vault).await;
    media_outlives_its_sources(vault).await;
    media_may_be_continued(vault).await;
    taken_id_is_refused(vault).await;
    sources_must_be_there(vault).await;
}

/// Makes `id` of `source`, which begins with `windlass`, and of `wind`.
pub(super) async fn before_a_restart(vault: &dyn Vault, source: MediaId, id: MediaId) {
    concat(vault, id, vec![media(source, 8), media(source, 4)]).await;
}

async fn parts_follow_each_other(vault: &dyn Vault) {
    let names = Names::of("parts_follow_each_other");
    create(vault, names.media(0), b"wind").await;
    create(vault, names.media(1), b"").await;
    let parts = vec![
        media(names.media(0), 4),
        Part::Bytes("lass".into()),
        media(names.media(1), 0),
        Part::Bytes("".into()),
        media(names.media(0), 4),
        media(names.media(0), 4),
    ];
    concat(vault, names.media(2), parts).await;
    assert_eq!(
        read(vault, names.media(2), 0..16).await,
        b"windlasswindwind"
    );
    damaged(vault.read(names.media(2), 0..17).await);
    assert_eq!(read(vault, names.media(0), 0..4).await, b"wind");
    assert!(is_listed(vault, names.media(2)).await);
}

async fn all_bytes_of_long_sources_are_copied(vault: &dyn Vault) {
    let names = Names::of("all_bytes_of_long_sources_are_copied");
    let long: Vec<u8> = (0..700_000_u32).flat_map(u32::to_le_bytes).collect();
    // Parts of odd lengths, so that the later ones begin at odd offsets.
    let odd = &long[..1_000_001];
    create(vault, names.media(0), &long).await;
    create(vault, names.media(1), odd).await;
    let parts = vec![
        media(names.media(1), odd.len()),
        media(names.media(0), long.len()),
        media(names.media(1), odd.len()),
    ];
    concat(vault, names.media(2), parts).await;
    let expected = [odd, &long, odd].concat();
    let range = 0..expected.len() as u64;
    assert!(read(vault, names.media(2), range).await == expected);
}

/// A broken upload leaves such bytes. They are not committed.
async fn bytes_behind_the_length_of_a_source_are_left_out(vault: &dyn Vault) {
    let names = Names::of("bytes_behind_the_length_of_a_source_are_left_out");
    create(vault, names.media(0), b"windmill").await;
    let parts = vec![media(names.media(0), 4), Part::Bytes("lass".into())];
    concat(vault, names.media(1), parts).await;
    assert_eq!(read(vault, names.media(1), 0..8).await, b"windlass");
}

async fn media_of_no_parts_is_empty(vault: &dyn Vault) {
    let id = Names::of("media_of_no_parts_is_empty").media(0);
    concat(vault, id, Vec::new()).await;
    assert_eq!(read(vault, id, 0..0).await, b"");
    damaged(vault.read(id, 0..1).await);
}

async fn media_outlives_its_sources(vault: &dyn Vault) {
    let names = Names::of("media_outlives_its_sources");
    create(vault, names.media(0), b"wind").await;
    let parts = vec![media(names.media(0), 4), Part::Bytes("lass".into())];
    concat(vault, names.media(1), parts).await;
    vault.delete(names.media(0)).await.unwrap();
    assert_eq!(read(vault, names.media(1), 0..8).await, b"windlass");
}

async fn media_may_be_continued(vault: &dyn Vault) {
    let id = Names::of("media_may_be_continued").media(0);
    concat(vault, id, vec![Part::Bytes("windlass".into())]).await;
    let writer = vault.reopen(id, 8, None).await.unwrap();
    super::write(&*writer, 8, &[b"es"]).await;
    assert_eq!(read(vault, id, 0..10).await, b"windlasses");
}

async fn taken_id_is_refused(vault: &dyn Vault) {
    let names = Names::of("concat::taken_id_is_refused");
    create(vault, names.media(0), b"windlass").await;
    let parts = vec![Part::Bytes("mill".into())];
    damaged(vault.concat(names.media(0), parts, &|_| {}).await);
    assert_eq!(read(vault, names.media(0), 0..8).await, b"windlass");
}

async fn sources_must_be_there(vault: &dyn Vault) {
    let names = Names::of("sources_must_be_there");
    create(vault, names.media(0), b"windlass").await;
    let with = |source| vec![media(names.media(0), 8), source];
    let missing = with(media(names.media(1), 1));
    let refused = vault.concat(names.media(2), missing, &|_| {}).await;
    assert!(matches!(refused, Err(VaultError::Missing(id)) if id == names.media(1)));
    let short = with(media(names.media(0), 9));
    let refused = vault.concat(names.media(3), short, &|_| {}).await;
    assert!(matches!(refused, Err(VaultError::Damaged { id, .. }) if id == names.media(0)));
}

/// Makes a media, and checks that all its bytes were reported.
async fn concat(vault: &dyn Vault, id: MediaId, parts: Vec<Part>) {
    let length = |part: &Part| match part {
        Part::Media { length, .. } => *length,
        Part::Bytes(bytes) => bytes.len() as u64,
    };
    let expected: u64 = parts.iter().map(length).sum();
    let reported = AtomicU64::new(0);
    let copied = |bytes| {
        reported.fetch_add(bytes, Ordering::Relaxed);
    };
    vault.concat(id, parts, &copied).await.unwrap();
    assert_eq!(reported.into_inner(), expected);
}

fn media(id: MediaId, length: impl TryInto<u64>) -> Part {
    let length = length.try_into().ok().unwrap();
    Part::Media { id, length }
}

async fn is_listed(vault: &dyn Vault, id: MediaId) -> bool {
    listed(vault).await.iter().any(|stored| stored.id == id)
}
