//! Starting, leasing and advancing a session.

use super::super::samples::{FAR, Names, finish, progress, small_step, step};
use super::{conflicts, fenced, finishing, is_garbage, lease, session, small, start};
use crate::ledger::{EndSession, Ledger, OffsetCommit};
use crate::records::{Epoch, NewSession, Progress, Session, SessionState, Timestamp};

pub(super) async fn checks(ledger: &dyn Ledger) {
    a_started_session_is_active_and_empty(ledger).await;
    a_session_id_is_taken_once(ledger).await;
    an_unknown_session_is_nowhere(ledger).await;
    every_lease_fences_the_ones_before(ledger).await;
    an_ended_session_is_leased_as_it_is(ledger).await;
    an_advance_commits_all_it_says(ledger).await;
    an_advance_from_another_offset_is_fenced(ledger).await;
    one_of_many_equal_advances_wins(ledger).await;
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

async fn a_session_id_is_taken_once(ledger: &dyn Ledger) {
    let names = Names::of("a_session_id_is_taken_once");
    let first = start(ledger, names.new_session(0)).await;
    let second = NewSession {
        context: b"another".to_vec(),
        ..names.new_session(0)
    };
    conflicts(ledger.start(second).await);
    assert_eq!(session(ledger, first.id).await, first);
}

async fn an_unknown_session_is_nowhere(ledger: &dyn Ledger) {
    let names = Names::of("an_unknown_session_is_nowhere");
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

async fn an_advance_commits_all_it_says(ledger: &dyn Ledger) {
    let names = Names::of("an_advance_commits_all_it_says");
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

async fn an_advance_from_another_offset_is_fenced(ledger: &dyn Ledger) {
    let names = Names::of("an_advance_from_another_offset_is_fenced");
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

async fn one_of_many_equal_advances_wins(ledger: &dyn Ledger) {
    let names = Names::of("one_of_many_equal_advances_wins");
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
