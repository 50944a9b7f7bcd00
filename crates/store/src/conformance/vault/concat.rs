//! The rules of [`Vault::concat`].

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Names, damaged, listed, missing, read, sealed};
use crate::records::{MediaId, StoredName};
use crate::vault::{Part, Vault};

pub(super) async fn all(vault: &dyn Vault) {
    parts_follow_each_other(vault).await;
    all_bytes_of_long_sources_are_copied(vault).await;
    bytes_behind_the_length_of_a_part_are_left_out(vault).await;
    media_of_no_parts_is_empty(vault).await;
    media_outlives_its_sources(vault).await;
    sources_must_be_there(vault).await;
}

/// Makes `id` of a source that begins with `windmill`, and of `wind`.
pub(super) async fn before_a_restart(
    vault: &dyn Vault,
    source: &StoredName,
    id: MediaId,
) -> StoredName {
    concat(vault, id, vec![media(source, 8), media(source, 4)]).await
}

async fn parts_follow_each_other(vault: &dyn Vault) {
    let names = Names::of("parts_follow_each_other");
    let wind = sealed(vault, names.media(0), b"wind").await;
    let parts = vec![
        media(&wind, 4),
        Part::Bytes("lass".into()),
        Part::Bytes("".into()),
        media(&wind, 4),
        media(&wind, 4),
    ];
    let made = concat(vault, names.media(2), parts).await;
    assert_eq!(read(vault, &made, 0..16).await, b"windlasswindwind");
    damaged(vault.read(&made, 0..17).await);
    assert_eq!(read(vault, &wind, 0..4).await, b"wind");
    assert!(listed(vault).await.iter().any(|stored| stored.name == made));
}

async fn all_bytes_of_long_sources_are_copied(vault: &dyn Vault) {
    let names = Names::of("all_bytes_of_long_sources_are_copied");
    let bytes = super::long_bytes();
    // Parts of odd lengths, so that the later ones begin at odd offsets.
    let odd = &bytes[..1_000_001];
    let long = sealed(vault, names.media(0), &bytes).await;
    let short = sealed(vault, names.media(1), odd).await;
    let parts = vec![
        media(&short, odd.len()),
        media(&long, bytes.len()),
        media(&short, odd.len()),
    ];
    let made = concat(vault, names.media(2), parts).await;
    let expected = [odd, &bytes, odd].concat();
    let range = 0..expected.len() as u64;
    assert!(read(vault, &made, range).await == expected);
}

async fn bytes_behind_the_length_of_a_part_are_left_out(vault: &dyn Vault) {
    let names = Names::of("bytes_behind_the_length_of_a_part_are_left_out");
    let source = sealed(vault, names.media(0), b"windmill").await;
    let parts = vec![media(&source, 4), Part::Bytes("lass".into())];
    let made = concat(vault, names.media(1), parts).await;
    assert_eq!(read(vault, &made, 0..8).await, b"windlass");
}

async fn media_of_no_parts_is_empty(vault: &dyn Vault) {
    let id = Names::of("media_of_no_parts_is_empty").media(0);
    let made = concat(vault, id, Vec::new()).await;
    assert_eq!(read(vault, &made, 0..0).await, b"");
    damaged(vault.read(&made, 0..1).await);
}

async fn media_outlives_its_sources(vault: &dyn Vault) {
    let names = Names::of("media_outlives_its_sources");
    let source = sealed(vault, names.media(0), b"wind").await;
    let parts = vec![media(&source, 4), Part::Bytes("lass".into())];
    let made = concat(vault, names.media(1), parts).await;
    vault.delete(&source).await.unwrap();
    assert_eq!(read(vault, &made, 0..8).await, b"windlass");
}

async fn sources_must_be_there(vault: &dyn Vault) {
    let names = Names::of("sources_must_be_there");
    let source = sealed(vault, names.media(0), b"windlass").await;
    let gone = sealed(vault, names.media(1), b"windlass").await;
    vault.delete(&gone).await.unwrap();
    let with = |part| vec![media(&source, 8), part];
    let refused = vault.concat(names.media(2), with(media(&gone, 1)), &|_| {});
    missing(refused.await, &gone);
    let refused = vault.concat(names.media(3), with(media(&source, 9)), &|_| {});
    damaged(refused.await);
}

/// Makes a media, and checks that all its bytes were reported.
async fn concat(vault: &dyn Vault, id: MediaId, parts: Vec<Part>) -> StoredName {
    let expected: u64 = parts.iter().map(Part::len).sum();
    let reported = AtomicU64::new(0);
    let copied = |bytes| {
        reported.fetch_add(bytes, Ordering::Relaxed);
    };
    let handle = vault.concat(id, parts, &copied).await.unwrap();
    assert_eq!(reported.into_inner(), expected);
    StoredName { media: id, handle }
}

fn media(name: &StoredName, length: impl TryInto<u64>) -> Part {
    let length = length.try_into().ok().unwrap();
    let media = name.clone();
    Part::Media { media, length }
}
