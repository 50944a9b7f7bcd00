//! Tests of the vault over S3, which `tests/s3/run` starts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::num::NonZeroU64;
use std::sync::Arc;

use bytes::Bytes;
use object_store::RetryConfig;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use windlass_store::{
    ExpectedSize, MediaId, READ_LEN, Sealed, StoredMedia, StoredName, SyncTarget, Vault,
    conformance,
};
use windlass_store_cloud::CloudVault;

/// The least length of a part in S3.
const CELL: u64 = 5 << 20;

fn store() -> Arc<AmazonS3> {
    // The client is not used for TLS, but does not start without it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let endpoint = std::env::var("S3_ENDPOINT");
    let endpoint = endpoint.expect("tests/s3/run starts a server and sets S3_ENDPOINT");
    let store = AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_region("us-east-1")
        .with_bucket_name("vault")
        .with_access_key_id("test")
        .with_secret_access_key("test")
        .with_retry(RetryConfig {
            max_retries: 0,
            ..RetryConfig::default()
        });
    Arc::new(store.build().unwrap())
}

fn vault(prefix: &str) -> CloudVault {
    CloudVault::new(store(), Path::from(prefix)).with_cell(NonZeroU64::new(CELL).unwrap())
}

#[tokio::test]
async fn the_vault_keeps_the_contract() {
    conformance::vault(&vault("contract")).await;
}

#[tokio::test]
async fn the_vault_keeps_what_it_synced_over_a_restart() {
    let open = async || Arc::new(vault("restart")) as Arc<dyn Vault>;
    conformance::vault_restart(open).await;
}

#[tokio::test]
async fn cells_and_pieces_become_one_object() {
    let vault = vault("long");
    let all: Vec<u8> = (0..4_500_000_u32).flat_map(u32::to_le_bytes).collect();
    let media = MediaId::from_bytes([1; 16]);
    let mut writer = vault.create(media, ExpectedSize::default()).await.unwrap();
    let mut stored = StoredMedia::new(media, 0);
    for (n, chunk) in all.chunks(1_900_001).enumerate() {
        let bytes = vec![Bytes::copy_from_slice(chunk)];
        let end = stored.length + chunk.len() as u64;
        let synced = writer.append_and_sync(stored.length, bytes, SyncTarget::at(end));
        synced.await.unwrap();
        stored.length = end;
        stored.change(&writer.take_changes());
        if n % 3 == 2 {
            writer = vault.resume(&stored).await.unwrap();
        }
    }
    let composed = vault.seal(&stored).await.unwrap();
    let Sealed::Composed(changes) = composed else {
        panic!("it has several extents: {composed:?}");
    };
    stored.change(&changes);
    let sealed = vault.seal(&stored).await.unwrap();
    let Sealed::Media { handle, .. } = sealed else {
        panic!("it is one object: {sealed:?}");
    };
    let name = StoredName { media, handle };
    let range = 1_000_003..all.len() as u64 - 7;
    let mut reader = vault.read(&name, range).await.unwrap();
    let mut read = Vec::new();
    loop {
        let next = reader.next(READ_LEN).await.unwrap();
        if next.is_empty() {
            break;
        }
        read.extend_from_slice(&next);
    }
    assert!(read == all[1_000_003..all.len() - 7]);
}
