//! Media of a vault that chooses names: extents before it is sealed, a handle afterwards.

use bytes::Bytes;

use super::super::{Names, finish, insert_with_new, one, step};
use super::{fenced, finishing, found, lease, no_lease, session, start};
use crate::change_set::{ChangeSet, FinishSession, ResourceChange};
use crate::ledger::{EndSession, Ledger, OffsetCommit};
use crate::records::{
    Epoch, ExtentChanges, Lease, Resource, SessionId, StoredExtent, StoredName, Timestamp,
};

use ResourceChange::{Delete, Insert};

/// Checks what the ledger keeps of the names that a vault chooses.
pub(super) async fn check_extents(ledger: &dyn Ledger) {
    extents_come_and_go_with_commits(ledger).await;
    refused_commit_changes_no_extent(ledger).await;
    name_that_another_extent_has_is_no_garbage(ledger).await;
    extents_of_a_session_that_ends_are_garbage(ledger).await;
    extents_of_an_expired_session_are_garbage(ledger).await;
    sealed_media_has_a_handle_and_no_extents(ledger).await;
    handle_is_garbage_with_the_last_resource(ledger).await;
    sealed_media_that_no_resource_takes_is_garbage(ledger).await;
    digests_that_are_expected_are_kept(ledger).await;
}

fn extent(number: u32, start: u64, len: u64, name: &'static str) -> StoredExtent {
    StoredExtent {
        number,
        start,
        len,
        name: Bytes::from_static(name.as_bytes()),
    }
}

fn name(names: Names, n: u8, handle: &'static str) -> StoredName {
    StoredName {
        media: names.media(n),
        handle: Bytes::from_static(handle.as_bytes()),
    }
}

/// Commits the bytes `from..to` with these changes of the extents.
fn commit(
    names: Names,
    n: u8,
    bytes: (u64, u64),
    added: Vec<StoredExtent>,
    dropped: &[u32],
) -> OffsetCommit {
    let (from, to) = bytes;
    OffsetCommit {
        extents: ExtentChanges {
            added,
            dropped: dropped.to_vec(),
        },
        ..step(from, to, Some(names.large(n)))
    }
}

/// Starts a session whose media has the extents `a` and `b`, of 10 bytes each.
async fn with_two_extents(ledger: &dyn Ledger, names: Names, n: u8) -> (SessionId, Lease) {
    let id = start(ledger, names.new_session(n)).await.id;
    let held = lease(ledger, id).await.lease;
    let two = vec![extent(0, 0, 10, "a"), extent(1, 10, 10, "b")];
    let commit = commit(names, n, (0, 20), two, &[]);
    ledger.commit_offset(id, held, commit).await.unwrap();
    (id, held)
}

async fn extents_of(ledger: &dyn Ledger, id: SessionId) -> Vec<StoredExtent> {
    lease(ledger, id).await.extents
}

async fn garbage_of(ledger: &dyn Ledger, names: Names, n: u8) -> Vec<Bytes> {
    let garbage = ledger.garbage(None, 1_000).await.unwrap().into_iter();
    let own = garbage.filter(|entry| entry.name.media == names.media(n));
    let mut handles: Vec<_> = own.map(|entry| entry.name.handle).collect();
    handles.sort_unstable();
    handles
}

async fn is_known(ledger: &dyn Ledger, name: &StoredName) -> bool {
    let unknown = ledger.unknown_names(std::slice::from_ref(name)).await;
    unknown.unwrap().is_empty()
}

async fn extents_come_and_go_with_commits(ledger: &dyn Ledger) {
    let names = Names::of("extents_come_and_go_with_commits");
    let (id, held) = with_two_extents(ledger, names, 0).await;
    let next = vec![extent(3, 15, 15, "d"), extent(2, 10, 5, "c")];
    let commit = commit(names, 0, (20, 30), next, &[1]);
    ledger.commit_offset(id, held, commit).await.unwrap();
    let expected = [
        extent(0, 0, 10, "a"),
        extent(2, 10, 5, "c"),
        extent(3, 15, 15, "d"),
    ];
    assert_eq!(extents_of(ledger, id).await, expected);
    assert_eq!(garbage_of(ledger, names, 0).await, ["b"]);
    for handle in ["a", "b", "c", "d"] {
        assert!(is_known(ledger, &name(names, 0, handle)).await, "{handle}");
    }
    assert!(!is_known(ledger, &name(names, 0, "e")).await);
    assert!(!is_known(ledger, &name(names, 1, "a")).await);
    // A vault that knows no names asks for none.
    let id = start(ledger, names.new_session(1)).await.id;
    assert_eq!(extents_of(ledger, id).await, []);
}

async fn refused_commit_changes_no_extent(ledger: &dyn Ledger) {
    let names = Names::of("refused_commit_changes_no_extent");
    let (id, held) = with_two_extents(ledger, names, 0).await;
    let more = |from| commit(names, 0, (from, 40), vec![extent(2, 20, 20, "c")], &[0]);
    fenced(ledger.commit_offset(id, held, more(19)).await);
    fenced(ledger.commit_offset(id, no_lease(Epoch(1)), more(20)).await);
    let expected = [extent(0, 0, 10, "a"), extent(1, 10, 10, "b")];
    assert_eq!(extents_of(ledger, id).await, expected);
    assert!(garbage_of(ledger, names, 0).await.is_empty());
    assert!(!is_known(ledger, &name(names, 0, "c")).await);
}

async fn name_that_another_extent_has_is_no_garbage(ledger: &dyn Ledger) {
    let names = Names::of("name_that_another_extent_has_is_no_garbage");
    let (id, held) = with_two_extents(ledger, names, 0).await;
    // The object under the name has grown, as a run of parts does.
    let grown = vec![extent(2, 10, 20, "b")];
    let commit_grown = commit(names, 0, (20, 30), grown, &[1]);
    ledger.commit_offset(id, held, commit_grown).await.unwrap();
    assert!(garbage_of(ledger, names, 0).await.is_empty());
    // An extent that comes and goes before it was ever committed.
    let brief = vec![extent(3, 30, 5, "x"), extent(4, 30, 10, "y")];
    let commit_brief = commit(names, 0, (30, 40), brief, &[3]);
    ledger.commit_offset(id, held, commit_brief).await.unwrap();
    assert_eq!(garbage_of(ledger, names, 0).await, ["x"]);
}

async fn extents_of_a_session_that_ends_are_garbage(ledger: &dyn Ledger) {
    let names = Names::of("extents_of_a_session_that_ends_are_garbage");
    let (id, held) = with_two_extents(ledger, names, 0).await;
    ledger.end(id, held, EndSession::Cancelled).await.unwrap();
    assert_eq!(garbage_of(ledger, names, 0).await, ["a", "b"]);
    assert_eq!(extents_of(ledger, id).await, []);
}

async fn extents_of_an_expired_session_are_garbage(ledger: &dyn Ledger) {
    let names = Names::of("extents_of_an_expired_session_are_garbage");
    let (id, held) = with_two_extents(ledger, names, 0).await;
    let soon = OffsetCommit {
        expires: Some(Timestamp::from_millis(10_000)),
        ..commit(names, 0, (20, 20), Vec::new(), &[])
    };
    ledger.commit_offset(id, held, soon).await.unwrap();
    let after = Timestamp::from_millis(10_001);
    assert_eq!(ledger.expire(after, 1_000).await.unwrap(), 1);
    assert_eq!(garbage_of(ledger, names, 0).await, ["a", "b"]);
}

/// Returns a change set that finishes a session with media of this handle, and makes a resource.
fn sealed(names: Names, id: SessionId, held: Lease, left: &[u32], changed: bool) -> ChangeSet {
    let mut resource = names.resource("sealed", Some(names.large(0)));
    let media = resource.media.as_mut().expect("it was given");
    media.handle = Bytes::from_static(b"whole");
    let finish = FinishSession {
        handle: media.handle.clone(),
        left: left.to_vec(),
        ..finish(id, held, Some(names.large(0)))
    };
    let resources = if changed {
        vec![Insert(resource)]
    } else {
        Vec::new()
    };
    finishing(finish, resources)
}

async fn sealed_media_has_a_handle_and_no_extents(ledger: &dyn Ledger) {
    let names = Names::of("sealed_media_has_a_handle_and_no_extents");
    let (id, held) = with_two_extents(ledger, names, 0).await;
    let changes = sealed(names, id, held, &[1], true);
    ledger.apply(changes).await.unwrap();
    let made = found(ledger, &names, "sealed").await.expect("it was made");
    let media = made.media.expect("it has media");
    assert_eq!(media.handle, "whole");
    assert_eq!(garbage_of(ledger, names, 0).await, ["b"], "what is left");
    assert!(is_known(ledger, &name(names, 0, "whole")).await);
    assert!(!is_known(ledger, &name(names, 0, "a")).await);
    assert_eq!(extents_of(ledger, id).await, []);
}

async fn handle_is_garbage_with_the_last_resource(ledger: &dyn Ledger) {
    let names = Names::of("handle_is_garbage_with_the_last_resource");
    let with_handle = |id: &str| {
        let mut resource: Resource = names.resource(id, Some(names.large(0)));
        resource.media.as_mut().expect("it was given").handle = Bytes::from_static(b"whole");
        resource
    };
    ledger
        .apply(insert_with_new(with_handle("first")))
        .await
        .unwrap();
    ledger
        .apply(one(Insert(with_handle("copy"))))
        .await
        .unwrap();
    for (id, is_last) in [("first", false), ("copy", true)] {
        let delete = Delete {
            collection: names.collection(),
            id: id.to_owned(),
            expected: 1,
        };
        ledger.apply(one(delete)).await.unwrap();
        let garbage = garbage_of(ledger, names, 0).await;
        assert_eq!(garbage == ["whole"], is_last, "{garbage:?}");
    }
}

async fn sealed_media_that_no_resource_takes_is_garbage(ledger: &dyn Ledger) {
    let names = Names::of("sealed_media_that_no_resource_takes_is_garbage");
    let (id, held) = with_two_extents(ledger, names, 0).await;
    let changes = sealed(names, id, held, &[], false);
    ledger.apply(changes).await.unwrap();
    assert_eq!(garbage_of(ledger, names, 0).await, ["whole"]);
}

async fn digests_that_are_expected_are_kept(ledger: &dyn Ledger) {
    let names = Names::of("digests_that_are_expected_are_kept");
    let (id, held) = with_two_extents(ledger, names, 0).await;
    let expected = || b"stated last".to_vec();
    let mut last = commit(names, 0, (20, 20), Vec::new(), &[]);
    last.progress.expected_digests = expected();
    ledger.commit_offset(id, held, last).await.unwrap();
    let progress = session(ledger, id).await.progress;
    assert_eq!(progress.expected_digests, expected());
    ledger
        .apply(sealed(names, id, held, &[], true))
        .await
        .unwrap();
    let progress = session(ledger, id).await.progress;
    assert!(progress.expected_digests.is_empty(), "they were checked");
}
