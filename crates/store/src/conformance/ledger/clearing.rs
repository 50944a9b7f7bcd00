//! The rules that the sweep and the recovery of finishing sessions rely on.

use std::time::Duration;

use super::super::{FAR, Names, finish, insert_with_new, small_step, step};
use super::{
    fenced, finishing, forget_garbage, found, garbage_of, is_garbage, lease, session, small, start,
    unknown,
};
use crate::change_set::ResourceChange;
use crate::ledger::{EndSession, Ledger, OffsetCommit};
use crate::records::{MediaId, NewSession, Retention, SessionState, Timestamp};

use ResourceChange::Insert;

/// Checks the rules that the sweep and the recovery of finishing sessions rely on.
pub(super) async fn check_clearing(ledger: &dyn Ledger) {
    finishing_sessions_are_listed_in_order(ledger).await;
    expiry_deletes_expired_sessions_except_finishing_ones(ledger).await;
    expiry_is_bounded(ledger).await;
    expired_session_leaves_nothing_behind(ledger).await;
    garbage_is_listed_until_it_is_forgotten(ledger).await;
    media_is_unknown_when_nothing_names_it(ledger).await;
}

async fn finishing_sessions_are_listed_in_order(ledger: &dyn Ledger) {
    let names = Names::of("finishing_sessions_are_listed_in_order");
    for n in [3, 1, 4, 2] {
        let id = start(ledger, names.new_session(n)).await.id;
        if n != 4 {
            let held = lease(ledger, id).await.lease;
            let last = OffsetCommit {
                state: SessionState::Finishing,
                ..step(0, 10, None)
            };
            ledger.commit_offset(id, held, last).await.unwrap();
        }
    }
    let mine = [names.session(1), names.session(2), names.session(3)];
    let listed = ledger
        .finishing(Some(names.session(0)), 2, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(listed, mine[..2]);
    let all = ledger.finishing(None, 1_000, Duration::ZERO).await.unwrap();
    assert!(all.is_sorted() && mine.iter().all(|id| all.contains(id)));
    assert!(
        !all.contains(&names.session(4)),
        "an active session is not finishing"
    );

    let leased = lease(ledger, mine[0]).await;
    ledger
        .apply(finishing(
            finish(leased.session.id, leased.lease, None),
            vec![],
        ))
        .await
        .unwrap();
    let left = ledger
        .finishing(Some(names.session(0)), 2, Duration::ZERO)
        .await
        .unwrap();
    assert_eq!(left, mine[1..], "a finished session is not finishing");
}

async fn expiry_deletes_expired_sessions_except_finishing_ones(ledger: &dyn Ledger) {
    let names = Names::of("expiry_deletes_expired_sessions_except_finishing_ones");
    let expires = Timestamp::from_millis(10_000);
    let expiring = |n, expires| NewSession {
        expires,
        ..names.new_session(n)
    };
    let dying = |n| expiring(n, expires);
    let step_to = |n, state| OffsetCommit {
        state,
        ..step(0, 10, Some(names.large(n)))
    };
    let active = start(ledger, dying(0)).await.id;
    let held = lease(ledger, active).await.lease;
    ledger
        .commit_offset(active, held, step_to(0, SessionState::Active))
        .await
        .unwrap();
    let unfinished = start(ledger, dying(1)).await.id;
    let held_1 = lease(ledger, unfinished).await.lease;
    ledger
        .commit_offset(unfinished, held_1, step_to(1, SessionState::Finishing))
        .await
        .unwrap();
    let ended = start(ledger, dying(2)).await.id;
    let held_2 = lease(ledger, ended).await.lease;
    let resource = names.resource("llama", Some(names.large(2)));
    let last = finish(ended, held_2, Some(names.large(2)));
    ledger
        .apply(finishing(last, vec![Insert(resource.clone())]))
        .await
        .unwrap();
    let little = start(ledger, dying(3)).await.id;
    let held_3 = lease(ledger, little).await.lease;
    ledger
        .commit_offset(little, held_3, small_step(0, names.small(3), b"wind"))
        .await
        .unwrap();
    let later = start(ledger, expiring(4, FAR)).await.id;
    let never = Timestamp::from_millis(u64::MAX);
    let never = start(ledger, expiring(5, never)).await.id;

    assert_eq!(
        ledger.expire(expires, 100).await.unwrap(),
        0,
        "not before its moment has passed"
    );
    let after = Timestamp::from_millis(10_001);
    assert_eq!(ledger.expire(after, 100).await.unwrap(), 3);
    assert_eq!(ledger.expire(after, 100).await.unwrap(), 0);
    for id in [active, ended, little] {
        assert_eq!(ledger.session(id).await.unwrap(), None);
    }
    for id in [unfinished, later, never] {
        session(ledger, id).await;
    }
    assert!(is_garbage(ledger, names.media(0)).await);
    assert!(!is_garbage(ledger, names.media(1)).await);
    assert!(!is_garbage(ledger, names.media(2)).await);
    assert_eq!(small(ledger, names.media(3)).await, None);
    assert_eq!(
        found(ledger, &names, "llama").await,
        Some(resource),
        "it outlives its session"
    );
    fenced(
        ledger
            .commit_offset(active, held, step(10, 20, Some(names.large(0))))
            .await,
    );
}

async fn expiry_is_bounded(ledger: &dyn Ledger) {
    let names = Names::of("expiry_is_bounded");
    let expires = Timestamp::from_millis(10_000);
    for n in 0..5 {
        start(
            ledger,
            NewSession {
                expires,
                ..names.new_session(n)
            },
        )
        .await;
    }
    let after = Timestamp::from_millis(10_001);
    for expected in [2, 2, 1, 0] {
        assert_eq!(ledger.expire(after, 2).await.unwrap(), expected);
    }
}

async fn expired_session_leaves_nothing_behind(ledger: &dyn Ledger) {
    let names = Names::of("expired_session_leaves_nothing_behind");
    let expires = Timestamp::from_millis(10_000);
    let dying = NewSession {
        expires,
        ..names.new_session(0)
    };
    let first = start(ledger, dying.clone()).await;
    lease(ledger, first.id).await;
    let after = Timestamp::from_millis(10_001);
    assert_eq!(ledger.expire(after, 100).await.unwrap(), 1);
    assert_eq!(start(ledger, dying).await, first, "not even its lease");
    assert_eq!(ledger.expire(after, 100).await.unwrap(), 1);
}

async fn garbage_is_listed_until_it_is_forgotten(ledger: &dyn Ledger) {
    let names = Names::of("garbage_is_listed_until_it_is_forgotten");
    for n in 0..3 {
        let id = start(ledger, names.new_session(n)).await.id;
        let held = lease(ledger, id).await.lease;
        ledger
            .commit_offset(id, held, step(0, 10, Some(names.large(n))))
            .await
            .unwrap();
        ledger.end(id, held, EndSession::Cancelled).await.unwrap();
    }
    assert_eq!(ledger.garbage(None, 2).await.unwrap().len(), 2, "bounded");
    let all = ledger.garbage(None, 1_000).await.unwrap();
    for (n, entry) in all.iter().enumerate() {
        assert_eq!(entry.attempt, 0);
        let behind = ledger.garbage(Some(&entry.id), 1_000).await.unwrap();
        assert_eq!(behind, all[n + 1..], "all that is behind");
    }
    let mut of_each = Vec::new();
    for n in 0..3 {
        let entry = garbage_of(ledger, names.media(n)).await;
        of_each.push(entry.expect("it was released").id);
    }
    ledger.deleted(&of_each[..2], None).await.unwrap();
    ledger.deleted(&of_each[1..2], None).await.unwrap();
    ledger.deleted(&[], None).await.unwrap();
    let behind_a_gap = ledger.garbage(Some(&of_each[0]), 1_000).await.unwrap();
    let at = all.iter().position(|entry| entry.id == of_each[0]).unwrap();
    let left = all[at..]
        .iter()
        .filter(|entry| !of_each[..2].contains(&entry.id));
    assert!(behind_a_gap.iter().eq(left), "the entry itself is gone");
    for (n, is_there) in [(0, false), (1, false), (2, true)] {
        assert_eq!(
            is_garbage(ledger, names.media(n)).await,
            is_there,
            "media {n}"
        );
    }
}

async fn media_is_unknown_when_nothing_names_it(ledger: &dyn Ledger) {
    let names = Names::of("media_is_unknown_when_nothing_names_it");
    let id = start(ledger, names.new_session(0)).await.id;
    let held = lease(ledger, id).await.lease;
    ledger
        .commit_offset(id, held, step(0, 10, Some(names.large(0))))
        .await
        .unwrap();
    ledger
        .apply(insert_with_new(
            names.resource("llama", Some(names.large(1))),
        ))
        .await
        .unwrap();
    let id = start(ledger, names.new_session(2)).await.id;
    let held = lease(ledger, id).await.lease;
    ledger
        .commit_offset(id, held, step(0, 10, Some(names.large(2))))
        .await
        .unwrap();
    ledger.end(id, held, EndSession::Cancelled).await.unwrap();

    let ids: Vec<MediaId> = [4, 0, 1, 2, 3].map(|n| names.media(n)).into();
    assert_eq!(
        unknown(ledger, &ids).await,
        [names.media(4), names.media(3)],
        "session, resource, garbage name theirs"
    );
    forget_garbage(ledger, names.media(2)).await;
    assert_eq!(unknown(ledger, &ids[3..4]).await, [names.media(2)]);
    assert_eq!(unknown(ledger, &[]).await, []);
}

/// The retention with which a ledger for [`ledger_with_retention`] is opened.
pub const RETENTION: Retention = Retention {
    keep: Duration::from_secs(7 * 24 * 60 * 60),
    again_after: Some(Duration::from_secs(4 * 60 * 60)),
};

/// Checks that a ledger which was opened with [`RETENTION`] keeps released media, and has it
/// deleted twice. `advance` lets the clock of the ledger go on.
///
/// # Panics
/// If it breaks a rule.
pub async fn ledger_with_retention(ledger: &dyn Ledger, advance: impl AsyncFn(Duration)) {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let names = Names::of("ledger_with_retention");
    let Retention { keep, again_after } = RETENTION;
    assert_eq!(ledger.retention(), RETENTION);
    let again = again_after.expect("it is deleted twice");
    let release = async |n, commit| {
        let id = start(ledger, names.new_session(n)).await.id;
        let held = lease(ledger, id).await.lease;
        ledger.commit_offset(id, held, commit).await.unwrap();
        ledger.end(id, held, EndSession::Cancelled).await.unwrap();
    };
    let media = names.media(0);
    let is_known = async || unknown(ledger, &[media]).await.is_empty();
    release(0, step(0, 10, Some(names.large(0)))).await;
    release(1, small_step(0, names.small(1), b"wind")).await;
    assert_eq!(
        small(ledger, names.media(1)).await,
        None,
        "it is deleted at once"
    );
    assert_eq!(garbage_of(ledger, media).await, None);
    assert!(is_known().await, "it is on the list");

    let nearly = |time: Duration| time.saturating_sub(HOUR);
    advance(nearly(keep)).await;
    assert_eq!(garbage_of(ledger, media).await, None);
    release(2, step(0, 10, Some(names.large(2)))).await;
    advance(HOUR).await;
    assert_eq!(
        garbage_of(ledger, names.media(2)).await,
        None,
        "it was released later"
    );
    let first = garbage_of(ledger, media).await.expect("it is due");
    assert_eq!(first.attempt, 0);

    let deleted = [first.id.clone()];
    ledger.deleted(&deleted, again_after).await.unwrap();
    ledger.deleted(&deleted, again_after).await.unwrap();
    assert_eq!(garbage_of(ledger, media).await, None);
    assert!(is_known().await, "the second call has an id that is void");
    advance(nearly(again)).await;
    assert_eq!(garbage_of(ledger, media).await, None);
    advance(HOUR).await;
    let second = garbage_of(ledger, media).await.expect("it is due again");
    assert_eq!((second.attempt, &second.name), (1, &first.name));
    ledger.deleted(&deleted, again_after).await.unwrap();
    assert_eq!(garbage_of(ledger, media).await.as_ref(), Some(&second));
    ledger.deleted(&[second.id], again_after).await.unwrap();
    assert!(!is_known().await);
}
