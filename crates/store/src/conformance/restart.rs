//! What must be there again after the end of the process.

use std::sync::Arc;

use bytes::Bytes;

use super::samples::{Names, crc32c, finish, one, small_step, step};
use super::vault::{create, read, write};
use crate::ledger::{ChangeSet, EndSession, Ledger, ResourceChange};
use crate::records::{Extent, SessionState};
use crate::vault::Vault;

/// Checks that a ledger keeps over a restart what it has committed.
///
/// `open` opens the same ledger each time; the one before has been dropped then. It may let a crash
/// happen in between.
///
/// # Panics
/// When the ledger has lost something.
pub async fn ledger_restart(open: impl AsyncFn() -> Arc<dyn Ledger>) {
    let names = Names::of("ledger_restart");
    let ledger = open().await;
    for n in 0..5 {
        ledger.start(names.new_session(n)).await.unwrap();
    }
    let epochs = [0, 1, 2, 3].map(|n| ledger.lease(names.session(n)));
    let mut leased = Vec::new();
    for lease in epochs {
        leased.push(lease.await.unwrap().expect("it was started").epoch);
    }
    let ids = [0, 1, 2, 3].map(|n| names.session(n));
    let (large, small) = (names.large(0), names.small(1));
    ledger
        .commit_offset(ids[0], leased[0], step(0, 10, Some(large)))
        .await
        .unwrap();
    ledger
        .commit_offset(ids[1], leased[1], small_step(0, small, b"wind"))
        .await
        .unwrap();
    ledger
        .commit_offset(ids[2], leased[2], step(0, 10, Some(names.large(2))))
        .await
        .unwrap();
    ledger
        .end(ids[2], leased[2], EndSession::Cancelled)
        .await
        .unwrap();
    let resource = names.resource("llama", Some(names.small(3)));
    let changes = ChangeSet {
        small_media: Some((names.media(3), Bytes::from_static(b"lass"))),
        finish: Some(finish(ids[3], leased[3], Some(names.small(3)))),
        ..one(ResourceChange::Insert(resource.clone()))
    };
    ledger.apply(changes).await.unwrap();
    let mut before = Vec::new();
    for id in ids {
        before.push(ledger.session(id).await.unwrap());
    }
    // A lease that nothing was done under, and that a crash may take back.
    ledger.lease(names.session(4)).await.unwrap();
    drop(ledger);

    let ledger = open().await;
    for (id, before) in ids.into_iter().zip(before) {
        assert_eq!(ledger.session(id).await.unwrap(), before);
    }
    let kept = ledger.resource(&names.collection(), "llama").await.unwrap();
    assert_eq!(kept, Some(resource));
    let bytes = ledger.small_media(names.media(3)).await.unwrap();
    assert_eq!(bytes.as_deref(), Some(&b"lass"[..]));
    let bytes = ledger.small_media(small.id).await.unwrap();
    assert_eq!(bytes.as_deref(), Some(&b"wind"[..]));
    assert_eq!(ledger.garbage(None, 10).await.unwrap(), [names.media(2)]);

    let again = ledger.lease(ids[0]).await.unwrap().expect("it is there");
    assert!(
        again.epoch > leased[0],
        "an epoch that was used is not given out again"
    );
    assert_eq!(
        (again.state, again.progress.offset),
        (SessionState::Active, 10)
    );
    ledger
        .commit_offset(ids[0], again.epoch, step(10, 20, Some(large)))
        .await
        .unwrap();
}

/// Checks that a vault keeps over a restart what it has synced.
///
/// `open` opens the same vault each time; the one before has been dropped then. It may let a crash
/// happen in between.
///
/// # Panics
/// When the vault has lost something.
pub async fn vault_restart(open: impl AsyncFn() -> Arc<dyn Vault>) {
    let names = Names::of("vault_restart");
    let vault = open().await;
    let writer = create(&*vault, names.media(0), b"windlass").await;
    write(&*writer, 8, &[b"not synced"]).await;
    vault.create(names.media(1)).await.unwrap();
    drop(writer);
    drop(vault);

    let vault = open().await;
    let extent = Extent {
        start: 4,
        crc32c: crc32c(b"lass"),
    };
    let writer = vault.reopen(names.media(0), 8, Some(extent)).await.unwrap();
    assert_eq!(read(&*vault, names.media(0), 0..8).await, b"windlass");
    write(&*writer, 8, &[b"es"]).await;
    writer.sync().await.unwrap();
    drop(writer);
    drop(vault);

    let vault = open().await;
    vault.reopen(names.media(0), 10, None).await.unwrap();
    assert_eq!(read(&*vault, names.media(0), 0..10).await, b"windlasses");
    vault.reopen(names.media(1), 0, None).await.unwrap();
}
