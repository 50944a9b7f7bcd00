//! The rules of [`Ledger`].

pub(super) mod claims;
mod clearing;
mod endings;
mod extents;
mod media;
mod resources;
mod sessions;
mod usage;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{FAR, Names, finish, progress, small_step, step};
use crate::change_set::{AddedMedia, ChangeSet, FinishSession, ResourceChange};
use crate::ledger::{EndSession, Ledger, LedgerError, OffsetCommit};
use crate::records::{
    Epoch, ExtentChanges, Garbage, Lease, LeaseId, Leased, MediaId, NewSession, Progress, Resource,
    Session, SessionId, SessionState, StoredName, Timestamp,
};

use ResourceChange::Insert;

/// Checks an empty ledger against every rule of the contract.
///
/// # Panics
/// If it breaks a rule.
pub async fn ledger(ledger: &dyn Ledger) {
    check_sessions(ledger).await;
    endings::check_endings(ledger).await;
    sessions::check_session_lists(ledger).await;
    resources::check_resources(ledger).await;
    media::check_added_media(ledger).await;
    claims::check_claims(ledger).await;
    clearing::check_clearing(ledger).await;
    extents::check_extents(ledger).await;
    usage::check_usage(ledger).await;
    assert!(ledger.check().await.is_ok(), "a sound ledger says so");
    for _ in 0..2 {
        let term = Duration::from_secs(60);
        let is_acquired = ledger.acquire_task("conformance", term).await;
        assert!(is_acquired.unwrap(), "no other process does it");
    }
    if let Some(space) = ledger.space().await.unwrap() {
        assert!(
            space.available <= space.total && space.total > 0,
            "{space:?}"
        );
    }
}

pub use clearing::{RETENTION, ledger_with_retention};

/// Checks that a ledger keeps committed changes across a restart.
///
/// `open` must open the same ledger each time. The earlier one has been dropped then. It may
/// simulate a crash in between.
///
/// # Panics
/// If the ledger has lost a change.
pub async fn ledger_restart(open: impl AsyncFn() -> Arc<dyn Ledger>) {
    let names = Names::of("ledger_restart");
    let ledger = open().await;
    for n in 0..5 {
        ledger.start(names.new_session(n)).await.unwrap();
    }
    let mut leased = Vec::new();
    for n in 0..5 {
        leased.push(lease(&*ledger, names.session(n)).await.lease);
    }
    let ids = [0, 1, 2, 3].map(|n| names.session(n));
    let large = names.large(0);
    ledger
        .commit_offset(ids[0], leased[0], step(0, 10, Some(large)))
        .await
        .unwrap();
    ledger
        .commit_offset(ids[1], leased[1], small_step(0, names.small(1), b"wind"))
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
    let last = finish(ids[3], leased[3], Some(names.small(3)));
    let changes = with_three_media(names, resource.clone(), last);
    ledger.apply(changes).await.unwrap();
    let mut before = Vec::new();
    for id in ids {
        before.push(ledger.session(id).await.unwrap());
    }
    // No change is made under the lease of session 4, so a crash may undo it.
    drop(ledger);

    let ledger = open().await;
    for (id, before) in ids.into_iter().zip(before) {
        assert_eq!(ledger.session(id).await.unwrap(), before);
    }
    let kept = ledger.resource(&names.collection(), "llama").await.unwrap();
    assert_eq!(kept, Some(resource));
    for (n, expected) in [(1, "wind"), (3, "lass"), (5, "mill")] {
        let bytes = small(&*ledger, names.media(n)).await;
        assert_eq!(bytes.as_deref(), Some(expected.as_bytes()));
    }
    let preview = [names.media(6)];
    assert_eq!(unknown(&*ledger, &preview).await, []);
    let listed = ledger.garbage(None, 10).await.unwrap();
    let listed: Vec<_> = listed.into_iter().map(|entry| entry.name.media).collect();
    assert_eq!(listed, [names.media(2)]);

    let again = lease(&*ledger, ids[0]).await;
    assert!(
        !leased.contains(&again.lease),
        "no id of a lease is given out again"
    );
    let Progress { offset, .. } = again.session.progress;
    assert_eq!((again.session.state, offset), (SessionState::Active, 10));
    ledger
        .commit_offset(ids[0], again.lease, step(10, 20, Some(large)))
        .await
        .unwrap();
    let again = lease(&*ledger, names.session(4)).await;
    assert_ne!(again.lease.id, leased[4].id, "its epoch may be the same");
    let stale = ledger.commit_offset(names.session(4), leased[4], step(0, 10, None));
    fenced(stale.await);
}

/// Returns a change set that finishes a session with this resource, which has the media 3. It adds
/// the media 5 in the ledger and the media 6 in the vault, with a resource each.
fn with_three_media(names: Names, resource: Resource, last: FinishSession) -> ChangeSet {
    ChangeSet {
        resources: vec![
            Insert(resource),
            Insert(names.resource("thumbnail", Some(names.small(5)))),
            Insert(names.resource("preview", Some(names.large(6)))),
        ],
        small_media: Some((names.media(3), Bytes::from_static(b"lass"))),
        added_media: vec![
            AddedMedia::Small {
                id: names.media(5),
                bytes: Bytes::from_static(b"mill"),
            },
            AddedMedia::Vault(StoredName::of(names.media(6))),
        ],
        finish: Some(last),
        ..ChangeSet::default()
    }
}

/// Checks starts, leases and commits of sessions.
async fn check_sessions(ledger: &dyn Ledger) {
    a_started_session_is_active_and_empty(ledger).await;
    owner_and_dialect_of_a_session_stay_as_they_were_started(ledger).await;
    taken_session_id_is_refused(ledger).await;
    unknown_session_is_not_found(ledger).await;
    every_lease_fences_the_ones_before(ledger).await;
    an_ended_session_is_leased_as_it_is(ledger).await;
    commit_stores_all_fields_of_the_progress(ledger).await;
    commit_from_another_offset_is_fenced(ledger).await;
    one_of_several_equal_commits_succeeds(ledger).await;
    small_media_grows_with_its_session(ledger).await;
    small_media_that_moves_to_the_vault_leaves_the_ledger(ledger).await;
}

async fn a_started_session_is_active_and_empty(ledger: &dyn Ledger) {
    let names = Names::of("a_started_session_is_active_and_empty");
    let new = names.new_session(0);
    let session = start(ledger, new.clone()).await;
    let expected = Session {
        id: new.id,
        context: new.context,
        created: new.created,
        expires: new.expires,
        state: SessionState::Active,
        epoch: Epoch(0),
        progress: Progress::none(new.total),
        reply: None,
        owner: new.owner,
        dialect: new.dialect,
    };
    assert_eq!(session, expected);

    let without_total = start(
        ledger,
        NewSession {
            total: None,
            ..names.new_session(1)
        },
    )
    .await;
    assert_eq!(without_total.progress, Progress::none(None));
}

async fn owner_and_dialect_of_a_session_stay_as_they_were_started(ledger: &dyn Ledger) {
    let names = Names::of("owner_and_dialect_of_a_session_stay_as_they_were_started");
    let starts = [
        (None, "google"),
        (Some(""), ""),
        (Some("user:żółw@example.com"), "tus"),
    ];
    for (n, (owner, dialect)) in (0..).zip(starts) {
        for ending in 0..2 {
            let new = NewSession {
                owner: owner.map(str::to_owned),
                dialect: dialect.to_owned(),
                ..names.new_session(2 * n + ending)
            };
            let id = start(ledger, new).await.id;
            let is_kept = async |step: &str| {
                let session = session(ledger, id).await;
                let kept = (session.owner.as_deref(), session.dialect.as_str());
                assert_eq!(kept, (owner, dialect), "{step}");
            };
            is_kept("start").await;
            let leased = lease(ledger, id).await;
            let kept = (
                leased.session.owner.as_deref(),
                leased.session.dialect.as_str(),
            );
            assert_eq!(kept, (owner, dialect), "lease");
            ledger
                .commit_offset(id, leased.lease, step(0, 10, None))
                .await
                .unwrap();
            is_kept("commit").await;
            if ending == 0 {
                ledger
                    .end(id, leased.lease, EndSession::Cancelled)
                    .await
                    .unwrap();
            } else {
                ledger
                    .apply(finishing(finish(id, leased.lease, None), vec![]))
                    .await
                    .unwrap();
            }
            is_kept("end").await;
        }
    }
}

async fn taken_session_id_is_refused(ledger: &dyn Ledger) {
    let names = Names::of("taken_session_id_is_refused");
    let first = start(ledger, names.new_session(0)).await;
    let second = NewSession {
        context: b"another".to_vec(),
        ..names.new_session(0)
    };
    conflicts(ledger.start(second).await.map(drop));
    assert_eq!(session(ledger, first.id).await, first);
}

async fn unknown_session_is_not_found(ledger: &dyn Ledger) {
    let names = Names::of("unknown_session_is_not_found");
    let id = names.session(0);
    assert_eq!(ledger.session(id).await.unwrap(), None);
    assert_eq!(ledger.lease(id).await.unwrap(), None);
    let unknown = no_lease(Epoch(1));
    fenced(ledger.commit_offset(id, unknown, step(0, 1, None)).await);
    fenced(ledger.end(id, unknown, EndSession::Cancelled).await);
    let changes = finishing(finish(id, unknown, None), vec![]);
    fenced(ledger.apply(changes).await);
    assert_eq!(ledger.session(id).await.unwrap(), None);
}

async fn every_lease_fences_the_ones_before(ledger: &dyn Ledger) {
    let names = Names::of("every_lease_fences_the_ones_before");
    let id = names.session(0);
    let media = Some(names.large(0));
    let first = ledger.start(names.new_session(0)).await.unwrap();
    ledger
        .commit_offset(id, first, step(0, 5, media))
        .await
        .expect("a start gives out a lease");
    let second = lease(ledger, id).await.lease;
    ledger
        .commit_offset(id, second, step(5, 10, media))
        .await
        .unwrap();
    let third = lease(ledger, id).await.lease;
    let Leased {
        session: row,
        lease: newest,
        ..
    } = lease(ledger, id).await;
    let epochs = [first, second, third, newest].map(|lease| lease.epoch);
    assert!(epochs.is_sorted_by(|a, b| a < b), "{epochs:?}");
    assert_eq!(row.progress.offset, 10, "a lease shows what is committed");
    assert_eq!(row.epoch, newest.epoch);
    assert_eq!(
        session(ledger, id).await,
        row,
        "a lease is in force at once"
    );

    let same_epoch = no_lease(newest.epoch);
    let next_epoch = no_lease(Epoch(newest.epoch.0 + 1));
    for stale in [first, second, third, same_epoch, next_epoch] {
        fenced(ledger.commit_offset(id, stale, step(10, 20, media)).await);
        fenced(ledger.end(id, stale, EndSession::Cancelled).await);
        fenced(
            ledger
                .apply(finishing(finish(id, stale, media), vec![]))
                .await,
        );
    }
    assert_eq!(session(ledger, id).await, row);
    for from in [10, 20] {
        let commit = step(from, from + 10, media);
        ledger.commit_offset(id, newest, commit).await.unwrap();
    }
}

async fn an_ended_session_is_leased_as_it_is(ledger: &dyn Ledger) {
    let names = Names::of("an_ended_session_is_leased_as_it_is");
    let id = start(ledger, names.new_session(0)).await.id;
    let held = lease(ledger, id).await.lease;
    ledger.end(id, held, EndSession::Cancelled).await.unwrap();
    let ended = session(ledger, id).await;
    assert_eq!(ended.epoch, held.epoch);
    let again = lease(ledger, id).await;
    assert_eq!(again.session, ended);
    fenced(ledger.end(id, again.lease, EndSession::Failed).await);
}

async fn commit_stores_all_fields_of_the_progress(ledger: &dyn Ledger) {
    let names = Names::of("commit_stores_all_fields_of_the_progress");
    let id = start(ledger, names.new_session(0)).await.id;
    let leased = lease(ledger, id).await;
    let (state, expires) = (
        SessionState::Finishing,
        Timestamp::from_millis(FAR.as_millis() + 1),
    );
    let progress = progress(1 << 40, Some(names.large(0)));
    let advance = OffsetCommit {
        extents: ExtentChanges::default(),
        from: 0,
        progress: progress.clone(),
        small_media: None,
        state,
        expires: Some(expires),
        releases: true,
    };
    ledger
        .commit_offset(id, leased.lease, advance.clone())
        .await
        .unwrap();
    let expected = Session {
        expires,
        state,
        progress,
        ..leased.session
    };
    assert_eq!(session(ledger, id).await, expected);

    let nothing_new = OffsetCommit {
        from: 1 << 40,
        expires: None,
        ..advance
    };
    ledger
        .commit_offset(id, leased.lease, nothing_new)
        .await
        .unwrap();
    assert_eq!(
        session(ledger, id).await,
        expected,
        "without a new expiry the old one stays"
    );
}

async fn commit_from_another_offset_is_fenced(ledger: &dyn Ledger) {
    let names = Names::of("commit_from_another_offset_is_fenced");
    let id = start(ledger, names.new_session(0)).await.id;
    let held = lease(ledger, id).await.lease;
    let media = Some(names.large(0));
    ledger
        .commit_offset(id, held, step(0, 10, media))
        .await
        .unwrap();
    let before = session(ledger, id).await;
    for (from, to) in [(0, 20), (9, 20), (11, 20), (10, 9), (10, 0)] {
        fenced(ledger.commit_offset(id, held, step(from, to, media)).await);
        assert_eq!(session(ledger, id).await, before, "from {from} to {to}");
    }
}

async fn one_of_several_equal_commits_succeeds(ledger: &dyn Ledger) {
    let names = Names::of("one_of_several_equal_commits_succeeds");
    let id = start(ledger, names.new_session(0)).await.id;
    let held = lease(ledger, id).await.lease;
    let advance = |to| ledger.commit_offset(id, held, step(0, to, None));
    let (a, b, c, d) = tokio::join!(advance(1), advance(2), advance(3), advance(4));
    let won: Vec<u64> = [(1, a), (2, b), (3, c), (4, d)]
        .into_iter()
        .filter_map(|(to, result)| result.is_ok().then_some(to))
        .collect();
    assert_eq!(won, [session(ledger, id).await.progress.offset]);
}

async fn small_media_grows_with_its_session(ledger: &dyn Ledger) {
    let names = Names::of("small_media_grows_with_its_session");
    let id = start(ledger, names.new_session(0)).await.id;
    let held = lease(ledger, id).await.lease;
    let media = names.small(0);
    assert_eq!(small(ledger, media.id).await, None);
    ledger
        .commit_offset(id, held, small_step(0, media, b"wind"))
        .await
        .unwrap();
    assert_eq!(small(ledger, media.id).await.as_deref(), Some(&b"wind"[..]));
    ledger
        .commit_offset(id, held, small_step(4, media, b"windlass"))
        .await
        .unwrap();
    assert_eq!(
        small(ledger, media.id).await.as_deref(),
        Some(&b"windlass"[..])
    );
    fenced(
        ledger
            .commit_offset(id, held, small_step(4, media, b"windmill"))
            .await,
    );
    assert_eq!(
        small(ledger, media.id).await.as_deref(),
        Some(&b"windlass"[..])
    );

    let unchanged = OffsetCommit {
        state: SessionState::Finishing,
        ..step(8, 8, Some(media))
    };
    ledger.commit_offset(id, held, unchanged).await.unwrap();
    assert_eq!(
        small(ledger, media.id).await.as_deref(),
        Some(&b"windlass"[..])
    );
}

async fn small_media_that_moves_to_the_vault_leaves_the_ledger(ledger: &dyn Ledger) {
    let names = Names::of("small_media_that_moves_to_the_vault_leaves_the_ledger");
    for (n, vault) in [(0, names.large(0)), (1, names.large(9))] {
        let id = start(ledger, names.new_session(n)).await.id;
        let held = lease(ledger, id).await.lease;
        let media = names.small(n);
        ledger
            .commit_offset(id, held, small_step(0, media, b"wind"))
            .await
            .unwrap();
        ledger
            .commit_offset(id, held, step(4, 70_000, Some(vault)))
            .await
            .unwrap();
        assert_eq!(small(ledger, media.id).await, None);
        assert_eq!(session(ledger, id).await.progress.media, Some(vault));
        assert!(!is_garbage(ledger, vault.id).await);
    }
}

async fn start(ledger: &dyn Ledger, new: NewSession) -> Session {
    let id = new.id;
    ledger.start(new).await.unwrap();
    session(ledger, id).await
}

pub(super) async fn session(ledger: &dyn Ledger, id: SessionId) -> Session {
    ledger
        .session(id)
        .await
        .unwrap()
        .expect("the session is there")
}

/// A lease with this epoch that no ledger has given out.
pub(super) fn no_lease(epoch: Epoch) -> Lease {
    let id = LeaseId::from_bytes([0xAA; 16]);
    Lease { id, epoch }
}

pub(super) async fn lease(ledger: &dyn Ledger, id: SessionId) -> Leased {
    ledger
        .lease(id)
        .await
        .unwrap()
        .expect("the session is there")
}

async fn found(ledger: &dyn Ledger, names: &Names, id: &str) -> Option<Resource> {
    ledger.resource(&names.collection(), id).await.unwrap()
}

async fn small(ledger: &dyn Ledger, id: MediaId) -> Option<Bytes> {
    ledger.small_media(id).await.unwrap()
}

/// Returns the ids that name nothing.
async fn unknown(ledger: &dyn Ledger, ids: &[MediaId]) -> Vec<MediaId> {
    let names: Vec<_> = ids.iter().copied().map(StoredName::of).collect();
    let unknown = ledger.unknown_names(&names).await.unwrap();
    unknown.into_iter().map(|name| name.media).collect()
}

/// Returns the entry of the garbage list with this media, if it is due.
async fn garbage_of(ledger: &dyn Ledger, id: MediaId) -> Option<Garbage> {
    let mut listed = ledger.garbage(None, 1_000).await.unwrap().into_iter();
    listed.find(|entry| entry.name == StoredName::of(id))
}

async fn is_garbage(ledger: &dyn Ledger, id: MediaId) -> bool {
    garbage_of(ledger, id).await.is_some()
}

/// Forgets a media on the garbage list.
async fn forget_garbage(ledger: &dyn Ledger, id: MediaId) {
    let entry = garbage_of(ledger, id).await.expect("it is on the list");
    ledger.deleted(&[entry.id], None).await.unwrap();
}

pub(super) fn finishing(finish: FinishSession, resources: Vec<ResourceChange>) -> ChangeSet {
    ChangeSet {
        resources,
        finish: Some(finish),
        ..ChangeSet::default()
    }
}

#[track_caller]
pub(super) fn fenced(result: Result<(), LedgerError>) {
    match result {
        Err(LedgerError::Fenced) => {}
        other => panic!("this must be fenced: {other:?}"),
    }
}

#[track_caller]
fn conflicts(result: Result<(), LedgerError>) {
    match result {
        Err(LedgerError::Conflict) => {}
        other => panic!("this must conflict: {other:?}"),
    }
}
