//! The ends of sessions, with and without a resource.

use bytes::Bytes;

use super::super::{Names, finish, small_step, step};
use super::{fenced, finishing, found, is_garbage, lease, session, small, start, unknown};
use crate::change_set::{ChangeSet, ResourceChange};
use crate::ledger::{EndSession, Ledger};
use crate::records::{Leased, NewSession, Progress, Session, SessionState, Timestamp};

use ResourceChange::Insert;

/// Checks the ends of sessions, with and without a resource.
pub(super) async fn check_endings(ledger: &dyn Ledger) {
    ended_session_releases_its_media(ledger).await;
    context_of_any_length_is_kept_until_its_session_ends(ledger).await;
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
        let held = lease(ledger, large).await.lease;
        let media = names.large(2 * n);
        ledger
            .commit_offset(large, held, step(0, 10, Some(media)))
            .await
            .unwrap();
        ledger.end(large, held, end).await.unwrap();
        let ended = session(ledger, large).await;
        assert_eq!((ended.state, ended.progress.offset), (state, 10));
        assert_eq!((ended.progress.media, ended.progress.extent), (None, None));
        assert_eq!(ended.context, b"", "nobody finishes it any more");
        assert!(is_garbage(ledger, media.id).await);

        let little = start(ledger, names.new_session(2 * n + 1)).await.id;
        let held = lease(ledger, little).await.lease;
        let media = names.small(2 * n + 1);
        ledger
            .commit_offset(little, held, small_step(0, media, b"wind"))
            .await
            .unwrap();
        ledger.end(little, held, end).await.unwrap();
        assert_eq!(small(ledger, media.id).await, None);
        assert!(
            !is_garbage(ledger, media.id).await,
            "only the vault has garbage"
        );
    }
}

async fn context_of_any_length_is_kept_until_its_session_ends(ledger: &dyn Ledger) {
    const KIB: usize = 1024;
    let names = Names::of("context_of_any_length_is_kept_until_its_session_ends");
    let owner = "owner of contexts";
    let expires = Timestamp::from_millis(10_000);
    for (n, len) in (0_u8..).zip([0_usize, 1_000, 2_000, 8_000, KIB * KIB]) {
        let context: Vec<u8> = (0..251).cycle().take(len).collect();
        let new = |which| NewSession {
            context: context.clone(),
            owner: Some(owner.to_owned()),
            total: Some(0),
            expires,
            ..names.new_session(4 * n + which)
        };
        let occupied = async || ledger.usage(owner).await.unwrap().bytes;
        let before = occupied().await;
        let mut held = Vec::new();
        for which in 0..3 {
            let id = start(ledger, new(which)).await.id;
            let Leased { session, lease, .. } = lease(ledger, id).await;
            assert!(session.context == context, "{len}");
            held.push((id, lease));
        }
        let counted = len.next_multiple_of(KIB) as u64;
        assert_eq!(occupied().await - before, 3 * counted, "{len}");

        let kept = |session: Session| assert!(session.context == context, "{len}");
        let [
            (active, active_lease),
            (finished, last_lease),
            (ended, end_lease),
        ] = held[..]
        else {
            panic!("three are started");
        };
        let commit = step(0, 10, None);
        ledger
            .commit_offset(active, active_lease, commit)
            .await
            .unwrap();
        kept(session(ledger, active).await);
        let last = finish(finished, last_lease, None);
        ledger.apply(finishing(last, vec![])).await.unwrap();
        kept(session(ledger, finished).await);
        ledger
            .end(ended, end_lease, EndSession::Failed)
            .await
            .unwrap();
        assert_eq!(session(ledger, ended).await.context, b"");

        let after = Timestamp::from_millis(10_001);
        assert_eq!(ledger.expire(after, 100).await.unwrap(), 3);
        assert_eq!(occupied().await, before, "{len}");
        start(ledger, new(0)).await;
        kept(session(ledger, active).await);
        assert_eq!(ledger.expire(after, 100).await.unwrap(), 1);
    }
}

async fn ended_session_refuses_all_changes(ledger: &dyn Ledger) {
    let names = Names::of("ended_session_refuses_all_changes");
    for n in 0..3 {
        let id = start(ledger, names.new_session(n)).await.id;
        let held = lease(ledger, id).await.lease;
        match n {
            0 => ledger.end(id, held, EndSession::Cancelled).await.unwrap(),
            1 => ledger.end(id, held, EndSession::Failed).await.unwrap(),
            _ => ledger
                .apply(finishing(finish(id, held, None), vec![]))
                .await
                .unwrap(),
        }
        let ended = session(ledger, id).await;
        let offset = ended.progress.offset;
        fenced(
            ledger
                .commit_offset(id, held, step(offset, offset + 1, None))
                .await,
        );
        fenced(ledger.end(id, held, EndSession::Cancelled).await);
        let resource = Insert(names.resource("late", None));
        fenced(
            ledger
                .apply(finishing(finish(id, held, None), vec![resource]))
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
        .commit_offset(id, leased.lease, step(0, 10, Some(media)))
        .await
        .unwrap();
    let resource = names.resource("llama", Some(media));
    let last = finish(id, leased.lease, Some(media));
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
        ..leased.session
    };
    assert_eq!(session(ledger, id).await, expected);
    assert!(!is_garbage(ledger, media.id).await);
    assert_eq!(unknown(ledger, &[media.id]).await, []);
}

async fn a_resource_takes_small_media_over_from_its_session(ledger: &dyn Ledger) {
    let names = Names::of("a_resource_takes_small_media_over_from_its_session");
    let id = start(ledger, names.new_session(0)).await.id;
    let held = lease(ledger, id).await.lease;
    let kept = names.small(0);
    ledger
        .commit_offset(id, held, small_step(0, kept, b"wind"))
        .await
        .unwrap();
    let resource = Insert(names.resource("kept", Some(kept)));
    ledger
        .apply(finishing(finish(id, held, Some(kept)), vec![resource]))
        .await
        .unwrap();
    assert_eq!(small(ledger, kept.id).await.as_deref(), Some(&b"wind"[..]));

    let id = start(ledger, names.new_session(1)).await.id;
    let held = lease(ledger, id).await.lease;
    let grown = names.small(1);
    ledger
        .commit_offset(id, held, small_step(0, grown, b"wind"))
        .await
        .unwrap();
    let changes = ChangeSet {
        small_media: Some((grown.id, Bytes::from_static(b"windlass"))),
        ..finishing(
            finish(id, held, Some(grown)),
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
    let stale = lease(ledger, id).await.lease;
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
    assert_eq!(session(ledger, id).await, leased.session);
}

async fn finishing_never_moves_the_offset_back(ledger: &dyn Ledger) {
    let names = Names::of("finishing_never_moves_the_offset_back");
    let id = start(ledger, names.new_session(0)).await.id;
    let held = lease(ledger, id).await.lease;
    ledger
        .commit_offset(id, held, step(0, 101, None))
        .await
        .unwrap();
    fenced(
        ledger
            .apply(finishing(finish(id, held, None), vec![]))
            .await,
    );
    assert_eq!(session(ledger, id).await.progress.offset, 101);
}

async fn media_that_no_resource_takes_over_is_released(ledger: &dyn Ledger) {
    let names = Names::of("media_that_no_resource_takes_over_is_released");
    let id = start(ledger, names.new_session(0)).await.id;
    let held = lease(ledger, id).await.lease;
    ledger
        .commit_offset(id, held, step(0, 10, Some(names.large(0))))
        .await
        .unwrap();
    let changes = ChangeSet {
        small_media: Some((names.media(2), Bytes::from_static(b"wind"))),
        ..finishing(finish(id, held, Some(names.large(1))), vec![])
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
