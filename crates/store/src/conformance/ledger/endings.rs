//! The ends of sessions, with and without a resource.

use bytes::Bytes;

use super::super::{Names, finish, small_step, step};
use super::{fenced, finishing, found, is_garbage, lease, session, small, start};
use crate::change_set::{ChangeSet, ResourceChange};
use crate::ledger::{EndSession, Ledger};
use crate::records::{Progress, Session, SessionState};

use ResourceChange::Insert;

/// Checks the ends of sessions, with and without a resource.
pub(super) async fn check_endings(ledger: &dyn Ledger) {
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
    assert_eq!(ledger.unknown_media(&[media.id]).await.unwrap(), []);
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
