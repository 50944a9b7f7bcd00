//! The rules of [`Ledger`].

use bytes::Bytes;

use super::samples::{FAR, Names, finish, next_version, one, progress, small_step, step};
use crate::ledger::{
    Advance, ChangeSet, EndSession, FinishSession, Ledger, LedgerError, ResourceChange,
};
use crate::records::{
    Epoch, MediaId, NewSession, Progress, Resource, Session, SessionId, SessionState, Timestamp,
};

use ResourceChange::{Delete, Insert, Replace};

/// Checks an empty ledger against every rule of the contract.
///
/// # Panics
/// When it breaks one.
pub async fn ledger(ledger: &dyn Ledger) {
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
    an_ended_session_lets_go_of_its_media(ledger).await;
    an_ended_session_takes_nothing_more(ledger).await;
    finishing_makes_the_resource_and_keeps_the_reply(ledger).await;
    a_resource_takes_small_media_over_from_its_session(ledger).await;
    finishing_without_the_lease_makes_nothing(ledger).await;
    finishing_never_moves_the_offset_back(ledger).await;
    media_that_no_resource_takes_over_is_let_go(ledger).await;
    an_insert_of_a_taken_name_changes_nothing(ledger).await;
    a_change_of_another_version_changes_nothing(ledger).await;
    changes_of_one_set_build_on_each_other(ledger).await;
    a_replaced_resource_keeps_or_lets_go_of_its_media(ledger).await;
    a_deleted_resource_lets_go_of_its_media(ledger).await;
    media_moves_between_resources_of_one_set(ledger).await;
    resources_are_listed_in_order_of_their_ids(ledger).await;
    finishing_sessions_are_listed_in_order(ledger).await;
    expiry_forgets_the_dead_but_not_the_finishing(ledger).await;
    expiry_is_bounded(ledger).await;
    garbage_is_listed_until_it_is_forgotten(ledger).await;
    media_is_unknown_when_nothing_names_it(ledger).await;
    assert!(ledger.check().await.is_ok(), "a sound ledger says so");
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
    fenced(ledger.advance(id, Epoch(1), step(0, 1, None)).await);
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
        .advance(id, first.epoch, step(0, 10, media))
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
        fenced(ledger.advance(id, stale, step(10, 20, media)).await);
        fenced(ledger.end(id, stale, EndSession::Cancelled).await);
        fenced(
            ledger
                .apply(finishing(finish(id, stale, media), vec![]))
                .await,
        );
    }
    assert_eq!(session(ledger, id).await, third);
    ledger
        .advance(id, third.epoch, step(10, 20, media))
        .await
        .unwrap();
    ledger
        .advance(id, third.epoch, step(20, 30, media))
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
    let advance = Advance {
        from: 0,
        progress: progress.clone(),
        small_media: None,
        state,
        expires: Some(expires),
    };
    ledger
        .advance(id, leased.epoch, advance.clone())
        .await
        .unwrap();
    let expected = Session {
        expires,
        state,
        progress,
        ..leased
    };
    assert_eq!(session(ledger, id).await, expected);

    let nothing_new = Advance {
        from: 1 << 40,
        expires: None,
        ..advance
    };
    ledger
        .advance(id, expected.epoch, nothing_new)
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
    ledger.advance(id, epoch, step(0, 10, media)).await.unwrap();
    let before = session(ledger, id).await;
    for (from, to) in [(0, 20), (9, 20), (11, 20), (10, 9), (10, 0)] {
        fenced(ledger.advance(id, epoch, step(from, to, media)).await);
        assert_eq!(session(ledger, id).await, before, "from {from} to {to}");
    }
}

async fn one_of_many_equal_advances_wins(ledger: &dyn Ledger) {
    let names = Names::of("one_of_many_equal_advances_wins");
    let id = start(ledger, names.new_session(0)).await.id;
    let epoch = lease(ledger, id).await.epoch;
    let advance = |to| ledger.advance(id, epoch, step(0, to, None));
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
        .advance(id, epoch, small_step(0, media, b"wind"))
        .await
        .unwrap();
    assert_eq!(small(ledger, media.id).await.as_deref(), Some(&b"wind"[..]));
    ledger
        .advance(id, epoch, small_step(4, media, b"windlass"))
        .await
        .unwrap();
    assert_eq!(
        small(ledger, media.id).await.as_deref(),
        Some(&b"windlass"[..])
    );
    fenced(
        ledger
            .advance(id, epoch, small_step(4, media, b"windmill"))
            .await,
    );
    assert_eq!(
        small(ledger, media.id).await.as_deref(),
        Some(&b"windlass"[..])
    );

    let unchanged = Advance {
        state: SessionState::Finishing,
        ..step(8, 8, Some(media))
    };
    ledger.advance(id, epoch, unchanged).await.unwrap();
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
            .advance(id, epoch, small_step(0, media, b"wind"))
            .await
            .unwrap();
        ledger
            .advance(id, epoch, step(4, 70_000, Some(vault)))
            .await
            .unwrap();
        assert_eq!(small(ledger, media.id).await, None);
        assert_eq!(session(ledger, id).await.progress.media, Some(vault));
        assert!(!is_garbage(ledger, vault.id).await);
    }
}

async fn an_ended_session_lets_go_of_its_media(ledger: &dyn Ledger) {
    let names = Names::of("an_ended_session_lets_go_of_its_media");
    let ends = [
        (EndSession::Cancelled, SessionState::Cancelled),
        (EndSession::Failed, SessionState::Failed),
    ];
    for (n, (end, state)) in (0..).zip(ends) {
        let large = start(ledger, names.new_session(2 * n)).await.id;
        let epoch = lease(ledger, large).await.epoch;
        let media = names.large(2 * n);
        ledger
            .advance(large, epoch, step(0, 10, Some(media)))
            .await
            .unwrap();
        ledger.end(large, epoch, end).await.unwrap();
        let ended = session(ledger, large).await;
        assert_eq!((ended.state, ended.progress.offset), (state, 10));
        assert_eq!((ended.progress.media, ended.progress.extent), (None, None));
        assert!(is_garbage(ledger, media.id).await);

        let little = start(ledger, names.new_session(2 * n + 1)).await.id;
        let epoch = lease(ledger, little).await.epoch;
        let media = names.small(2 * n + 1);
        ledger
            .advance(little, epoch, small_step(0, media, b"wind"))
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

async fn an_ended_session_takes_nothing_more(ledger: &dyn Ledger) {
    let names = Names::of("an_ended_session_takes_nothing_more");
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
                .advance(id, epoch, step(offset, offset + 1, None))
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
        .advance(id, leased.epoch, step(0, 10, Some(media)))
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
        .advance(id, epoch, small_step(0, kept, b"wind"))
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
        .advance(id, epoch, small_step(0, grown, b"wind"))
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
    ledger.advance(id, epoch, step(0, 101, None)).await.unwrap();
    fenced(
        ledger
            .apply(finishing(finish(id, epoch, None), vec![]))
            .await,
    );
    assert_eq!(session(ledger, id).await.progress.offset, 101);
}

async fn media_that_no_resource_takes_over_is_let_go(ledger: &dyn Ledger) {
    let names = Names::of("media_that_no_resource_takes_over_is_let_go");
    let id = start(ledger, names.new_session(0)).await.id;
    let epoch = lease(ledger, id).await.epoch;
    ledger
        .advance(id, epoch, step(0, 10, Some(names.large(0))))
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
        "what it came to have at its end"
    );
    assert_eq!(
        small(ledger, names.media(2)).await,
        None,
        "what the change set brought"
    );
}

async fn an_insert_of_a_taken_name_changes_nothing(ledger: &dyn Ledger) {
    let names = Names::of("an_insert_of_a_taken_name_changes_nothing");
    let first = names.resource("llama", None);
    ledger.apply(one(Insert(first.clone()))).await.unwrap();
    let id = start(ledger, names.new_session(0)).await.id;
    let leased = lease(ledger, id).await;
    let media = names.small(0);
    let changes = ChangeSet {
        resources: vec![
            Insert(names.resource("alpaca", Some(media))),
            Insert(names.resource("llama", Some(media))),
        ],
        small_media: Some((media.id, Bytes::from_static(b"wind"))),
        finish: Some(finish(id, leased.epoch, Some(media))),
    };
    conflicts(ledger.apply(changes).await);
    assert_eq!(
        found(ledger, &names, "alpaca").await,
        None,
        "all or nothing"
    );
    assert_eq!(found(ledger, &names, "llama").await, Some(first));
    assert_eq!(small(ledger, media.id).await, None);
    assert_eq!(session(ledger, id).await, leased);
}

async fn a_change_of_another_version_changes_nothing(ledger: &dyn Ledger) {
    let names = Names::of("a_change_of_another_version_changes_nothing");
    let first = names.resource("llama", Some(names.large(0)));
    ledger.apply(one(Insert(first.clone()))).await.unwrap();
    let delete = |id: &str, expected| {
        let (collection, id) = (names.collection(), id.to_owned());
        one(Delete {
            collection,
            id,
            expected,
        })
    };
    let replace = |resource, expected| one(Replace { resource, expected });
    conflicts(ledger.apply(replace(next_version(&first), 2)).await);
    conflicts(ledger.apply(replace(next_version(&first), 0)).await);
    conflicts(
        ledger
            .apply(replace(names.resource("absent", None), 1))
            .await,
    );
    conflicts(ledger.apply(delete("llama", 2)).await);
    conflicts(ledger.apply(delete("absent", 1)).await);
    assert_eq!(found(ledger, &names, "llama").await, Some(first));
    assert!(!is_garbage(ledger, names.media(0)).await);
}

async fn changes_of_one_set_build_on_each_other(ledger: &dyn Ledger) {
    let names = Names::of("changes_of_one_set_build_on_each_other");
    let first = names.resource("llama", None);
    let second = next_version(&first);
    let third = next_version(&second);
    let resources = vec![
        Insert(first),
        Replace {
            resource: second,
            expected: 1,
        },
        Replace {
            resource: third.clone(),
            expected: 2,
        },
    ];
    ledger
        .apply(ChangeSet {
            resources,
            ..ChangeSet::default()
        })
        .await
        .unwrap();
    assert_eq!(found(ledger, &names, "llama").await, Some(third));

    let gone = Delete {
        collection: names.collection(),
        id: "llama".to_owned(),
        expected: 3,
    };
    let again = names.resource("llama", None);
    let resources = vec![gone, Insert(again.clone())];
    ledger
        .apply(ChangeSet {
            resources,
            ..ChangeSet::default()
        })
        .await
        .unwrap();
    assert_eq!(found(ledger, &names, "llama").await, Some(again));
}

async fn a_replaced_resource_keeps_or_lets_go_of_its_media(ledger: &dyn Ledger) {
    let names = Names::of("a_replaced_resource_keeps_or_lets_go_of_its_media");
    let first = names.resource("llama", Some(names.large(0)));
    ledger.apply(one(Insert(first.clone()))).await.unwrap();
    let same = next_version(&first);
    ledger
        .apply(one(Replace {
            resource: same.clone(),
            expected: 1,
        }))
        .await
        .unwrap();
    assert_eq!(found(ledger, &names, "llama").await, Some(same.clone()));
    assert!(!is_garbage(ledger, names.media(0)).await);

    let other = Resource {
        version: 3,
        ..names.resource("llama", Some(names.small(1)))
    };
    let changes = ChangeSet {
        small_media: Some((names.media(1), Bytes::from_static(b"wind"))),
        ..one(Replace {
            resource: other.clone(),
            expected: 2,
        })
    };
    ledger.apply(changes).await.unwrap();
    assert!(is_garbage(ledger, names.media(0)).await);
    assert_eq!(
        small(ledger, names.media(1)).await.as_deref(),
        Some(&b"wind"[..])
    );

    let without = Resource {
        version: 4,
        ..names.resource("llama", None)
    };
    ledger
        .apply(one(Replace {
            resource: without.clone(),
            expected: 3,
        }))
        .await
        .unwrap();
    assert_eq!(found(ledger, &names, "llama").await, Some(without));
    assert_eq!(small(ledger, names.media(1)).await, None);
}

async fn a_deleted_resource_lets_go_of_its_media(ledger: &dyn Ledger) {
    let names = Names::of("a_deleted_resource_lets_go_of_its_media");
    let delete = |id: &str| {
        let (collection, id) = (names.collection(), id.to_owned());
        one(Delete {
            collection,
            id,
            expected: 1,
        })
    };
    ledger
        .apply(one(Insert(names.resource("large", Some(names.large(0))))))
        .await
        .unwrap();
    ledger.apply(delete("large")).await.unwrap();
    assert_eq!(found(ledger, &names, "large").await, None);
    assert!(is_garbage(ledger, names.media(0)).await);

    let changes = ChangeSet {
        small_media: Some((names.media(1), Bytes::from_static(b"wind"))),
        ..one(Insert(names.resource("small", Some(names.small(1)))))
    };
    ledger.apply(changes).await.unwrap();
    ledger.apply(delete("small")).await.unwrap();
    assert_eq!(small(ledger, names.media(1)).await, None);
}

async fn media_moves_between_resources_of_one_set(ledger: &dyn Ledger) {
    let names = Names::of("media_moves_between_resources_of_one_set");
    let media = names.large(0);
    ledger
        .apply(one(Insert(names.resource("draft", Some(media)))))
        .await
        .unwrap();
    let resources = vec![
        Delete {
            collection: names.collection(),
            id: "draft".to_owned(),
            expected: 1,
        },
        Insert(names.resource("sent", Some(media))),
    ];
    ledger
        .apply(ChangeSet {
            resources,
            ..ChangeSet::default()
        })
        .await
        .unwrap();
    assert!(!is_garbage(ledger, media.id).await);
    assert!(found(ledger, &names, "sent").await.is_some());
}

async fn resources_are_listed_in_order_of_their_ids(ledger: &dyn Ledger) {
    let names = Names::of("resources_are_listed_in_order_of_their_ids");
    let other = Names::of("resources_are_listed_in_order_of_their_ids, others");
    ledger
        .apply(one(Insert(other.resource("a", None))))
        .await
        .unwrap();
    for id in ["b", "a", "Z", "", "aa", "é"] {
        ledger
            .apply(one(Insert(names.resource(id, None))))
            .await
            .unwrap();
    }
    let collection = names.collection();
    let list = async |after: Option<&str>, limit| -> Vec<String> {
        let listed = ledger.resources(&collection, after, limit).await.unwrap();
        listed.into_iter().map(|resource| resource.id).collect()
    };
    assert_eq!(
        list(None, 100).await,
        ["", "Z", "a", "aa", "b", "é"],
        "bytewise"
    );
    assert_eq!(list(None, 2).await, ["", "Z"]);
    assert_eq!(list(Some(""), 2).await, ["Z", "a"]);
    assert_eq!(list(Some("a"), 2).await, ["aa", "b"]);
    assert_eq!(
        list(Some("ab"), 1).await,
        ["b"],
        "the id to go on from need not exist"
    );
    assert!(list(Some("é"), 2).await.is_empty());
    assert!(list(None, 0).await.is_empty());
}

async fn finishing_sessions_are_listed_in_order(ledger: &dyn Ledger) {
    let names = Names::of("finishing_sessions_are_listed_in_order");
    for n in [3, 1, 4, 2] {
        let id = start(ledger, names.new_session(n)).await.id;
        if n != 4 {
            let epoch = lease(ledger, id).await.epoch;
            let last = Advance {
                state: SessionState::Finishing,
                ..step(0, 10, None)
            };
            ledger.advance(id, epoch, last).await.unwrap();
        }
    }
    let mine = [names.session(1), names.session(2), names.session(3)];
    let listed = ledger.finishing(Some(names.session(0)), 2).await.unwrap();
    assert_eq!(listed, mine[..2]);
    let all = ledger.finishing(None, 1_000).await.unwrap();
    assert!(all.is_sorted() && mine.iter().all(|id| all.contains(id)));
    assert!(
        !all.contains(&names.session(4)),
        "an active session is not finishing"
    );

    let leased = lease(ledger, mine[0]).await;
    ledger
        .apply(finishing(finish(leased.id, leased.epoch, None), vec![]))
        .await
        .unwrap();
    let left = ledger.finishing(Some(names.session(0)), 2).await.unwrap();
    assert_eq!(left, mine[1..], "a finished session is not finishing");
}

async fn expiry_forgets_the_dead_but_not_the_finishing(ledger: &dyn Ledger) {
    let names = Names::of("expiry_forgets_the_dead_but_not_the_finishing");
    let expires = Timestamp::from_millis(10_000);
    let dying = |n| NewSession {
        expires,
        ..names.new_session(n)
    };
    let step_to = |n, state| Advance {
        state,
        ..step(0, 10, Some(names.large(n)))
    };
    let active = start(ledger, dying(0)).await.id;
    let epoch = lease(ledger, active).await.epoch;
    ledger
        .advance(active, epoch, step_to(0, SessionState::Active))
        .await
        .unwrap();
    let unfinished = start(ledger, dying(1)).await.id;
    let epoch_1 = lease(ledger, unfinished).await.epoch;
    ledger
        .advance(unfinished, epoch_1, step_to(1, SessionState::Finishing))
        .await
        .unwrap();
    let ended = start(ledger, dying(2)).await.id;
    let epoch_2 = lease(ledger, ended).await.epoch;
    let resource = names.resource("llama", Some(names.large(2)));
    let last = finish(ended, epoch_2, Some(names.large(2)));
    ledger
        .apply(finishing(last, vec![Insert(resource.clone())]))
        .await
        .unwrap();
    let little = start(ledger, dying(3)).await.id;
    let epoch_3 = lease(ledger, little).await.epoch;
    ledger
        .advance(little, epoch_3, small_step(0, names.small(3), b"wind"))
        .await
        .unwrap();
    let later = start(
        ledger,
        NewSession {
            expires: FAR,
            ..names.new_session(4)
        },
    )
    .await
    .id;
    let never = Timestamp::from_millis(u64::MAX);
    let never = start(
        ledger,
        NewSession {
            expires: never,
            ..names.new_session(5)
        },
    )
    .await
    .id;

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
            .advance(active, epoch, step(10, 20, Some(names.large(0))))
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

async fn garbage_is_listed_until_it_is_forgotten(ledger: &dyn Ledger) {
    let names = Names::of("garbage_is_listed_until_it_is_forgotten");
    for n in 0..3 {
        let id = start(ledger, names.new_session(n)).await.id;
        let epoch = lease(ledger, id).await.epoch;
        ledger
            .advance(id, epoch, step(0, 10, Some(names.large(n))))
            .await
            .unwrap();
        ledger.end(id, epoch, EndSession::Cancelled).await.unwrap();
    }
    assert_eq!(ledger.garbage(2).await.unwrap().len(), 2, "bounded");
    ledger
        .forget_garbage(&[names.media(0), names.media(1)])
        .await
        .unwrap();
    ledger
        .forget_garbage(&[names.media(1), names.media(9)])
        .await
        .unwrap();
    ledger.forget_garbage(&[]).await.unwrap();
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
    let epoch = lease(ledger, id).await.epoch;
    ledger
        .advance(id, epoch, step(0, 10, Some(names.large(0))))
        .await
        .unwrap();
    ledger
        .apply(one(Insert(names.resource("llama", Some(names.large(1))))))
        .await
        .unwrap();
    let id = start(ledger, names.new_session(2)).await.id;
    let epoch = lease(ledger, id).await.epoch;
    ledger
        .advance(id, epoch, step(0, 10, Some(names.large(2))))
        .await
        .unwrap();
    ledger.end(id, epoch, EndSession::Cancelled).await.unwrap();

    let ids: Vec<MediaId> = [4, 0, 1, 2, 3].map(|n| names.media(n)).into();
    let unknown = ledger.unknown_media(&ids).await.unwrap();
    assert_eq!(
        unknown,
        [names.media(4), names.media(3)],
        "session, resource, garbage name theirs"
    );
    ledger.forget_garbage(&[names.media(2)]).await.unwrap();
    assert_eq!(
        ledger.unknown_media(&ids[3..4]).await.unwrap(),
        [names.media(2)]
    );
    assert_eq!(ledger.unknown_media(&[]).await.unwrap(), []);
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
    ledger.garbage(1_000).await.unwrap().contains(&id)
}

fn finishing(finish: FinishSession, resources: Vec<ResourceChange>) -> ChangeSet {
    ChangeSet {
        resources,
        small_media: None,
        finish: Some(finish),
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
