//! The rules of [`Ledger`].

mod clearing;
mod media;
mod resources;
mod sessions;
mod usage;

use std::sync::Arc;

use bytes::Bytes;

use super::{FAR, Names, finish, progress, small_step, step};
use crate::change_set::{AddedMedia, ChangeSet, FinishSession, ResourceChange};
use crate::ledger::{EndSession, Ledger, LedgerError, OffsetCommit};
use crate::records::{
    Epoch, MediaId, NewSession, Progress, Resource, Session, SessionId, SessionState, Timestamp,
};

use ResourceChange::Insert;

/// Checks an empty ledger against every rule of the contract.
///
/// # Panics
/// If it breaks a rule.
pub async fn ledger(ledger: &dyn Ledger) {
    check_sessions(ledger).await;
    check_endings(ledger).await;
    sessions::check_session_lists(ledger).await;
    resources::check_resources(ledger).await;
    media::check_added_media(ledger).await;
    clearing::check_clearing(ledger).await;
    usage::check_usage(ledger).await;
    assert!(ledger.check().await.is_ok(), "a sound ledger says so");
    let space = ledger.space().await.unwrap();
    assert!(
        space.available <= space.total && space.total > 0,
        "{space:?}"
    );
}

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
    let epochs = [0, 1, 2, 3].map(|n| ledger.lease(names.session(n)));
    let mut leased = Vec::new();
    for lease in epochs {
        leased.push(lease.await.unwrap().expect("it was started").epoch);
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
    // No change is made under this lease, so a crash may undo it.
    ledger.lease(names.session(4)).await.unwrap();
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
    assert_eq!(ledger.unknown_media(&preview).await.unwrap(), []);
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
            AddedMedia::Vault(names.media(6)),
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
            let kept = (leased.owner.as_deref(), leased.dialect.as_str());
            assert_eq!(kept, (owner, dialect), "lease");
            ledger
                .commit_offset(id, leased.epoch, step(0, 10, None))
                .await
                .unwrap();
            is_kept("commit").await;
            if ending == 0 {
                ledger
                    .end(id, leased.epoch, EndSession::Cancelled)
                    .await
                    .unwrap();
            } else {
                ledger
                    .apply(finishing(finish(id, leased.epoch, None), vec![]))
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
    conflicts(ledger.start(second).await);
    assert_eq!(session(ledger, first.id).await, first);
}

async fn unknown_session_is_not_found(ledger: &dyn Ledger) {
    let names = Names::of("unknown_session_is_not_found");
    let id = names.session(0);
    assert_eq!(ledger.session(id).await.unwrap(), None);
    assert_eq!(ledger.lease(id).await.unwrap(), None);
    fenced(ledger.commit_offset(id, Epoch(1), step(0, 1, None)).await);
    fenced(ledger.end(id, Epoch(1), EndSession::Cancelled).await);
    fenced(
        ledger
            .apply(finishing(finish(id, Epoch(1), None), vec![]))
            .await,
    );
    assert_eq!(ledger.session(id).await.unwrap(), None);
}

async fn every_lease_fences_the_ones_before(ledger: &dyn Ledger) {
    let names = Names::of("every_lease_fences_the_ones_before");
    let id = start(ledger, names.new_session(0)).await.id;
    let media = Some(names.large(0));
    let first = lease(ledger, id).await;
    ledger
        .commit_offset(id, first.epoch, step(0, 10, media))
        .await
        .unwrap();
    let second = lease(ledger, id).await;
    let third = lease(ledger, id).await;
    assert!(Epoch(0) < first.epoch && first.epoch < second.epoch && second.epoch < third.epoch);
    assert_eq!(third.progress.offset, 10, "a lease shows what is committed");
    assert_eq!(
        session(ledger, id).await.epoch,
        third.epoch,
        "a lease is in force at once"
    );

    for stale in [
        Epoch(0),
        first.epoch,
        second.epoch,
        Epoch(third.epoch.0 + 1),
    ] {
        fenced(ledger.commit_offset(id, stale, step(10, 20, media)).await);
        fenced(ledger.end(id, stale, EndSession::Cancelled).await);
        fenced(
            ledger
                .apply(finishing(finish(id, stale, media), vec![]))
                .await,
        );
    }
    assert_eq!(session(ledger, id).await, third);
    ledger
        .commit_offset(id, third.epoch, step(10, 20, media))
        .await
        .unwrap();
    ledger
        .commit_offset(id, third.epoch, step(20, 30, media))
        .await
        .unwrap();
}

async fn an_ended_session_is_leased_as_it_is(ledger: &dyn Ledger) {
    let names = Names::of("an_ended_session_is_leased_as_it_is");
    let id = start(ledger, names.new_session(0)).await.id;
    let epoch = lease(ledger, id).await.epoch;
    ledger.end(id, epoch, EndSession::Cancelled).await.unwrap();
    let ended = session(ledger, id).await;
    assert_eq!(ended.epoch, epoch);
    assert_eq!(lease(ledger, id).await, ended);
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
        from: 0,
        progress: progress.clone(),
        small_media: None,
        state,
        expires: Some(expires),
    };
    ledger
        .commit_offset(id, leased.epoch, advance.clone())
        .await
        .unwrap();
    let expected = Session {
        expires,
        state,
        progress,
        ..leased
    };
    assert_eq!(session(ledger, id).await, expected);

    let nothing_new = OffsetCommit {
        from: 1 << 40,
        expires: None,
        ..advance
    };
    ledger
        .commit_offset(id, expected.epoch, nothing_new)
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
    let epoch = lease(ledger, id).await.epoch;
    let media = Some(names.large(0));
    ledger
        .commit_offset(id, epoch, step(0, 10, media))
        .await
        .unwrap();
    let before = session(ledger, id).await;
    for (from, to) in [(0, 20), (9, 20), (11, 20), (10, 9), (10, 0)] {
        fenced(ledger.commit_offset(id, epoch, step(from, to, media)).await);
        assert_eq!(session(ledger, id).await, before, "from {from} to {to}");
    }
}

async fn one_of_several_equal_commits_succeeds(ledger: &dyn Ledger) {
    let names = Names::of("one_of_several_equal_commits_succeeds");
    let id = start(ledger, names.new_session(0)).await.id;
    let epoch = lease(ledger, id).await.epoch;
    let advance = |to| ledger.commit_offset(id, epoch, step(0, to, None));
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
    let epoch = lease(ledger, id).await.epoch;
    let media = names.small(0);
    assert_eq!(small(ledger, media.id).await, None);
    ledger
        .commit_offset(id, epoch, small_step(0, media, b"wind"))
        .await
        .unwrap();
    assert_eq!(small(ledger, media.id).await.as_deref(), Some(&b"wind"[..]));
    ledger
        .commit_offset(id, epoch, small_step(4, media, b"windlass"))
        .await
        .unwrap();
    assert_eq!(
        small(ledger, media.id).await.as_deref(),
        Some(&b"windlass"[..])
    );
    fenced(
        ledger
            .commit_offset(id, epoch, small_step(4, media, b"windmill"))
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
    ledger.commit_offset(id, epoch, unchanged).await.unwrap();
    assert_eq!(
        small(ledger, media.id).await.as_deref(),
        Some(&b"windlass"[..])
    );
}

async fn small_media_that_moves_to_the_vault_leaves_the_ledger(ledger: &dyn Ledger) {
    let names = Names::of("small_media_that_moves_to_the_vault_leaves_the_ledger");
    for (n, vault) in [(0, names.large(0)), (1, names.large(9))] {
        let id = start(ledger, names.new_session(n)).await.id;
        let epoch = lease(ledger, id).await.epoch;
        let media = names.small(n);
        ledger
            .commit_offset(id, epoch, small_step(0, media, b"wind"))
            .await
            .unwrap();
        ledger
            .commit_offset(id, epoch, step(4, 70_000, Some(vault)))
            .await
            .unwrap();
        assert_eq!(small(ledger, media.id).await, None);
        assert_eq!(session(ledger, id).await.progress.media, Some(vault));
        assert!(!is_garbage(ledger, vault.id).await);
    }
}

/// Checks the ends of sessions, with and without a resource.
async fn check_endings(ledger: &dyn Ledger) {
    ended_session_releases_its_media(ledger).await;
    ended_session_refuses_all_changes(ledger).await;
    finishing_makes_the_resource_and_keeps_the_reply(ledger).await;
    a_resource_takes_small_media_over_from_its_session(ledger).await;
    finishing_without_the_lease_makes_nothing(ledger).await;
    finishing_never_moves_the_offset_back(ledger).await;
    media_that_no_resource_takes_over_is_released(ledger).await;
}

async fn ended_session_releases_its_media(ledger: &dyn Ledger) {
    let names = Names::of("ended_session_releases_its_media");
    let ends = [
        (EndSession::Cancelled, SessionState::Cancelled),
        (EndSession::Failed, SessionState::Failed),
    ];
    for (n, (end, state)) in (0..).zip(ends) {
        let large = start(ledger, names.new_session(2 * n)).await.id;
        let epoch = lease(ledger, large).await.epoch;
        let media = names.large(2 * n);
        ledger
            .commit_offset(large, epoch, step(0, 10, Some(media)))
            .await
            .unwrap();
        ledger.end(large, epoch, end).await.unwrap();
        let ended = session(ledger, large).await;
        assert_eq!((ended.state, ended.progress.offset), (state, 10));
        assert_eq!((ended.progress.media, ended.progress.extent), (None, None));
        assert_eq!(ended.context, b"", "nobody finishes it any more");
        assert!(is_garbage(ledger, media.id).await);

        let little = start(ledger, names.new_session(2 * n + 1)).await.id;
        let epoch = lease(ledger, little).await.epoch;
        let media = names.small(2 * n + 1);
        ledger
            .commit_offset(little, epoch, small_step(0, media, b"wind"))
            .await
            .unwrap();
        ledger.end(little, epoch, end).await.unwrap();
        assert_eq!(small(ledger, media.id).await, None);
        assert!(
            !is_garbage(ledger, media.id).await,
            "only the vault has garbage"
        );
    }
}

async fn ended_session_refuses_all_changes(ledger: &dyn Ledger) {
    let names = Names::of("ended_session_refuses_all_changes");
    for n in 0..3 {
        let id = start(ledger, names.new_session(n)).await.id;
        let epoch = lease(ledger, id).await.epoch;
        match n {
            0 => ledger.end(id, epoch, EndSession::Cancelled).await.unwrap(),
            1 => ledger.end(id, epoch, EndSession::Failed).await.unwrap(),
            _ => ledger
                .apply(finishing(finish(id, epoch, None), vec![]))
                .await
                .unwrap(),
        }
        let ended = session(ledger, id).await;
        let offset = ended.progress.offset;
        fenced(
            ledger
                .commit_offset(id, epoch, step(offset, offset + 1, None))
                .await,
        );
        fenced(ledger.end(id, epoch, EndSession::Cancelled).await);
        let resource = Insert(names.resource("late", None));
        fenced(
            ledger
                .apply(finishing(finish(id, epoch, None), vec![resource]))
                .await,
        );
        assert_eq!(session(ledger, id).await, ended);
    }
    assert_eq!(
        ledger.resource(&names.collection(), "late").await.unwrap(),
        None
    );
}

async fn finishing_makes_the_resource_and_keeps_the_reply(ledger: &dyn Ledger) {
    let names = Names::of("finishing_makes_the_resource_and_keeps_the_reply");
    let id = start(ledger, names.new_session(0)).await.id;
    let leased = lease(ledger, id).await;
    let media = names.large(0);
    ledger
        .commit_offset(id, leased.epoch, step(0, 10, Some(media)))
        .await
        .unwrap();
    let resource = names.resource("llama", Some(media));
    let last = finish(id, leased.epoch, Some(media));
    ledger
        .apply(finishing(last.clone(), vec![Insert(resource.clone())]))
        .await
        .unwrap();

    assert_eq!(found(ledger, &names, "llama").await, Some(resource));
    let expected = Session {
        state: SessionState::Finished,
        progress: Progress {
            media: None,
            extent: None,
            ..last.progress
        },
        reply: Some(last.reply),
        ..leased
    };
    assert_eq!(session(ledger, id).await, expected);
    assert!(!is_garbage(ledger, media.id).await);
    assert_eq!(ledger.unknown_media(&[media.id]).await.unwrap(), []);
}

async fn a_resource_takes_small_media_over_from_its_session(ledger: &dyn Ledger) {
    let names = Names::of("a_resource_takes_small_media_over_from_its_session");
    let id = start(ledger, names.new_session(0)).await.id;
    let epoch = lease(ledger, id).await.epoch;
    let kept = names.small(0);
    ledger
        .commit_offset(id, epoch, small_step(0, kept, b"wind"))
        .await
        .unwrap();
    let resource = Insert(names.resource("kept", Some(kept)));
    ledger
        .apply(finishing(finish(id, epoch, Some(kept)), vec![resource]))
        .await
        .unwrap();
    assert_eq!(small(ledger, kept.id).await.as_deref(), Some(&b"wind"[..]));

    let id = start(ledger, names.new_session(1)).await.id;
    let epoch = lease(ledger, id).await.epoch;
    let grown = names.small(1);
    ledger
        .commit_offset(id, epoch, small_step(0, grown, b"wind"))
        .await
        .unwrap();
    let changes = ChangeSet {
        small_media: Some((grown.id, Bytes::from_static(b"windlass"))),
        ..finishing(
            finish(id, epoch, Some(grown)),
            vec![Insert(names.resource("grown", Some(grown)))],
        )
    };
    ledger.apply(changes).await.unwrap();
    assert_eq!(
        small(ledger, grown.id).await.as_deref(),
        Some(&b"windlass"[..])
    );
}

async fn finishing_without_the_lease_makes_nothing(ledger: &dyn Ledger) {
    let names = Names::of("finishing_without_the_lease_makes_nothing");
    let id = start(ledger, names.new_session(0)).await.id;
    let stale = lease(ledger, id).await.epoch;
    let leased = lease(ledger, id).await;
    let media = names.small(0);
    let changes = ChangeSet {
        small_media: Some((media.id, Bytes::from_static(b"wind"))),
        ..finishing(
            finish(id, stale, Some(media)),
            vec![Insert(names.resource("llama", Some(media)))],
        )
    };
    fenced(ledger.apply(changes).await);
    assert_eq!(found(ledger, &names, "llama").await, None);
    assert_eq!(small(ledger, media.id).await, None);
    assert_eq!(session(ledger, id).await, leased);
}

async fn finishing_never_moves_the_offset_back(ledger: &dyn Ledger) {
    let names = Names::of("finishing_never_moves_the_offset_back");
    let id = start(ledger, names.new_session(0)).await.id;
    let epoch = lease(ledger, id).await.epoch;
    ledger
        .commit_offset(id, epoch, step(0, 101, None))
        .await
        .unwrap();
    fenced(
        ledger
            .apply(finishing(finish(id, epoch, None), vec![]))
            .await,
    );
    assert_eq!(session(ledger, id).await.progress.offset, 101);
}

async fn media_that_no_resource_takes_over_is_released(ledger: &dyn Ledger) {
    let names = Names::of("media_that_no_resource_takes_over_is_released");
    let id = start(ledger, names.new_session(0)).await.id;
    let epoch = lease(ledger, id).await.epoch;
    ledger
        .commit_offset(id, epoch, step(0, 10, Some(names.large(0))))
        .await
        .unwrap();
    let changes = ChangeSet {
        small_media: Some((names.media(2), Bytes::from_static(b"wind"))),
        ..finishing(finish(id, epoch, Some(names.large(1))), vec![])
    };
    ledger.apply(changes).await.unwrap();
    assert!(
        is_garbage(ledger, names.media(0)).await,
        "what the session had"
    );
    assert!(
        is_garbage(ledger, names.media(1)).await,
        "the media that its finish brought"
    );
    assert_eq!(
        small(ledger, names.media(2)).await,
        None,
        "what the change set brought"
    );
}

async fn start(ledger: &dyn Ledger, new: NewSession) -> Session {
    let id = new.id;
    ledger.start(new).await.unwrap();
    session(ledger, id).await
}

async fn session(ledger: &dyn Ledger, id: SessionId) -> Session {
    ledger
        .session(id)
        .await
        .unwrap()
        .expect("the session is there")
}

async fn lease(ledger: &dyn Ledger, id: SessionId) -> Session {
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

async fn is_garbage(ledger: &dyn Ledger, id: MediaId) -> bool {
    ledger.garbage(None, 1_000).await.unwrap().contains(&id)
}

fn finishing(finish: FinishSession, resources: Vec<ResourceChange>) -> ChangeSet {
    ChangeSet {
        resources,
        finish: Some(finish),
        ..ChangeSet::default()
    }
}

#[track_caller]
fn fenced(result: Result<(), LedgerError>) {
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
