//! Change sets, resources, and what the sweep and the recovery of finishing sessions rely on.

use bytes::Bytes;

use super::super::{FAR, Names, finish, insert_with_new, next_version, one, small_step, step};
use super::{conflicts, fenced, finishing, found, is_garbage, lease, session, small, start};
use crate::ledger::{ChangeSet, EndSession, Expected, Ledger, OffsetCommit, ResourceChange};
use crate::records::{MediaId, NewSession, Resource, SessionState, Timestamp};

use ResourceChange::{Delete, Insert, Replace};

/// Checks change sets and resources.
pub(super) async fn check_resources(ledger: &dyn Ledger) {
    an_insert_of_a_taken_name_changes_nothing(ledger).await;
    a_change_of_another_version_changes_nothing(ledger).await;
    changes_of_one_set_build_on_each_other(ledger).await;
    change_set_with_another_row_than_expected_changes_nothing(ledger).await;
    rows_are_expected_as_they_were_before_the_changes(ledger).await;
    collection_that_is_not_empty_afterwards_changes_nothing(ledger).await;
    one_of_two_change_sets_that_expect_each_others_rows_succeeds(ledger).await;
    replace_writes_the_owner_of_the_new_version(ledger).await;
    replaced_resource_keeps_or_releases_its_media(ledger).await;
    deleted_resource_releases_its_media(ledger).await;
    media_moves_between_resources_of_one_set(ledger).await;
    media_referenced_and_unreferenced_by_one_set_is_released(ledger).await;
    media_that_may_be_deleted_is_not_named_again(ledger).await;
    new_media_that_no_resource_takes_is_garbage(ledger).await;
    resources_are_listed_in_order_of_their_ids(ledger).await;
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
        ..ChangeSet::default()
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
    ledger.apply(insert_with_new(first.clone())).await.unwrap();
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

async fn change_set_with_another_row_than_expected_changes_nothing(ledger: &dyn Ledger) {
    let names = Names::of("change_set_with_another_row_than_expected_changes_nothing");
    let herd = next_version(&names.resource("herd", None));
    ledger.apply(one(Insert(herd.clone()))).await.unwrap();
    let id = start(ledger, names.new_session(0)).await.id;
    let leased = lease(ledger, id).await;
    let media = names.small(0);
    let expecting = |expect: Vec<Expected>| ChangeSet {
        expect,
        small_media: Some((media.id, Bytes::from_static(b"wind"))),
        finish: Some(finish(id, leased.epoch, Some(media))),
        ..one(Insert(names.resource("llama", Some(media))))
    };
    let version = |id: &str, version| Expected {
        version,
        ..Expected::absent(names.collection(), id)
    };
    let elsewhere = Expected {
        collection: Names::of("nowhere").collection(),
        ..Expected::unchanged(&herd)
    };
    for wrong in [
        version("herd", Some(1)),
        version("herd", Some(3)),
        version("herd", None),
        version("absent", Some(0)),
        version("absent", Some(2)),
        elsewhere,
    ] {
        for expect in [
            vec![wrong.clone()],
            vec![Expected::unchanged(&herd), wrong.clone()],
        ] {
            conflicts(ledger.apply(expecting(expect)).await);
            assert_eq!(found(ledger, &names, "llama").await, None, "{wrong:?}");
            assert_eq!(small(ledger, media.id).await, None, "{wrong:?}");
            assert_eq!(session(ledger, id).await, leased, "{wrong:?}");
        }
    }
    let right = vec![Expected::unchanged(&herd), version("absent", None)];
    ledger.apply(expecting(right)).await.unwrap();
    assert!(found(ledger, &names, "llama").await.is_some());
    assert_eq!(found(ledger, &names, "herd").await, Some(herd));
}

async fn rows_are_expected_as_they_were_before_the_changes(ledger: &dyn Ledger) {
    let names = Names::of("rows_are_expected_as_they_were_before_the_changes");
    let first = names.resource("llama", None);
    let insert = ChangeSet {
        expect: vec![Expected::absent(names.collection(), "llama")],
        ..one(Insert(first.clone()))
    };
    ledger.apply(insert).await.unwrap();
    let second = next_version(&first);
    let replace = |expect| ChangeSet {
        expect: vec![expect],
        ..one(Replace {
            resource: second.clone(),
            expected: 1,
        })
    };
    conflicts(ledger.apply(replace(Expected::unchanged(&second))).await);
    ledger
        .apply(replace(Expected::unchanged(&first)))
        .await
        .unwrap();
    assert_eq!(found(ledger, &names, "llama").await, Some(second));
}

async fn collection_that_is_not_empty_afterwards_changes_nothing(ledger: &dyn Ledger) {
    let names = Names::of("collection_that_is_not_empty_afterwards_changes_nothing");
    let herd = Names::of("collection_that_is_not_empty_afterwards_changes_nothing, herd");
    let delete = |id: &str| Delete {
        collection: herd.collection(),
        id: id.to_owned(),
        expected: 1,
    };
    let emptying = |resources| ChangeSet {
        resources,
        expect_empty: vec![herd.collection()],
        ..ChangeSet::default()
    };
    let (farm, shed) = (names.resource("farm", None), names.resource("shed", None));
    ledger.apply(emptying(vec![Insert(farm)])).await.unwrap();
    for id in ["", "llama"] {
        ledger
            .apply(one(Insert(herd.resource(id, None))))
            .await
            .unwrap();
    }
    for resources in [
        vec![Insert(shed.clone())],
        vec![Insert(shed.clone()), delete("")],
        vec![Insert(shed.clone()), delete("llama")],
        vec![
            delete(""),
            delete("llama"),
            Insert(shed.clone()),
            Insert(herd.resource("alpaca", None)),
        ],
    ] {
        conflicts(ledger.apply(emptying(resources)).await);
        assert_eq!(found(ledger, &names, "shed").await, None);
        for id in ["", "llama"] {
            assert!(found(ledger, &herd, id).await.is_some(), "{id:?}");
        }
    }
    let all = vec![delete("llama"), Insert(shed.clone()), delete("")];
    ledger.apply(emptying(all)).await.unwrap();
    assert_eq!(found(ledger, &names, "shed").await, Some(shed));
}

async fn one_of_two_change_sets_that_expect_each_others_rows_succeeds(ledger: &dyn Ledger) {
    let names = Names::of("one_of_two_change_sets_that_expect_each_others_rows_succeeds");
    let (left, right) = (names.resource("left", None), names.resource("right", None));
    for resource in [&left, &right] {
        ledger.apply(one(Insert(resource.clone()))).await.unwrap();
    }
    let change = |changed: &Resource, read: &Resource| ChangeSet {
        expect: vec![Expected::unchanged(read)],
        ..one(Replace {
            resource: next_version(changed),
            expected: 1,
        })
    };
    let (one, other) = tokio::join!(
        ledger.apply(change(&left, &right)),
        ledger.apply(change(&right, &left))
    );
    assert!(one.is_ok() != other.is_ok(), "{one:?}, {other:?}");
    conflicts(if one.is_ok() { other } else { one });
}

async fn replace_writes_the_owner_of_the_new_version(ledger: &dyn Ledger) {
    let names = Names::of("replace_writes_the_owner_of_the_new_version");
    let mut resource = Resource {
        owner: None,
        ..names.resource("llama", None)
    };
    ledger.apply(one(Insert(resource.clone()))).await.unwrap();
    for owner in [Some("one"), Some("another"), None] {
        let next = Resource {
            owner: owner.map(str::to_owned),
            ..next_version(&resource)
        };
        let expected = resource.version;
        resource = next.clone();
        let replace = Replace {
            resource: next,
            expected,
        };
        ledger.apply(one(replace)).await.unwrap();
        let found = found(ledger, &names, "llama").await;
        assert_eq!(found, Some(resource.clone()));
    }
    let listed = ledger.resources(&names.collection(), None, 1).await;
    assert_eq!(listed.unwrap(), [resource]);
}

async fn replaced_resource_keeps_or_releases_its_media(ledger: &dyn Ledger) {
    let names = Names::of("replaced_resource_keeps_or_releases_its_media");
    let first = names.resource("llama", Some(names.large(0)));
    ledger.apply(insert_with_new(first.clone())).await.unwrap();
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

async fn deleted_resource_releases_its_media(ledger: &dyn Ledger) {
    let names = Names::of("deleted_resource_releases_its_media");
    let delete = |id: &str| {
        let (collection, id) = (names.collection(), id.to_owned());
        one(Delete {
            collection,
            id,
            expected: 1,
        })
    };
    ledger
        .apply(insert_with_new(
            names.resource("large", Some(names.large(0))),
        ))
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
        .apply(insert_with_new(names.resource("draft", Some(media))))
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

async fn media_referenced_and_unreferenced_by_one_set_is_released(ledger: &dyn Ledger) {
    let names = Names::of("media_referenced_and_unreferenced_by_one_set_is_released");
    let named_and_deleted = |id: &str, media| {
        vec![
            Insert(names.resource(id, Some(media))),
            Delete {
                collection: names.collection(),
                id: id.to_owned(),
                expected: 1,
            },
        ]
    };
    let large = ChangeSet {
        resources: named_and_deleted("large", names.large(0)),
        new_media: Some(names.media(0)),
        ..ChangeSet::default()
    };
    ledger.apply(large).await.unwrap();
    assert!(is_garbage(ledger, names.media(0)).await);

    let small_media = ChangeSet {
        small_media: Some((names.media(1), Bytes::from_static(b"wind"))),
        resources: named_and_deleted("small", names.small(1)),
        ..ChangeSet::default()
    };
    ledger.apply(small_media).await.unwrap();
    assert_eq!(small(ledger, names.media(1)).await, None);
}

async fn media_that_may_be_deleted_is_not_named_again(ledger: &dyn Ledger) {
    let names = Names::of("media_that_may_be_deleted_is_not_named_again");
    let (large, small_media) = (names.large(0), names.small(1));
    let first = names.resource("large", Some(large));
    ledger.apply(insert_with_new(first)).await.unwrap();
    let changes = ChangeSet {
        small_media: Some((small_media.id, Bytes::from_static(b"wind"))),
        ..one(Insert(names.resource("small", Some(small_media))))
    };
    ledger.apply(changes).await.unwrap();
    let other = names.resource("other", None);
    ledger.apply(one(Insert(other.clone()))).await.unwrap();
    let copy = |id: &str, media| one(Insert(names.resource(id, Some(media))));
    let attach = |media| {
        let other = names.resource("other", Some(media));
        one(Replace {
            resource: next_version(&other),
            expected: 1,
        })
    };
    let delete = |id: &str| {
        let (collection, id) = (names.collection(), id.to_owned());
        one(Delete {
            collection,
            id,
            expected: 1,
        })
    };
    ledger.apply(copy("copy", large)).await.unwrap();
    ledger.apply(delete("large")).await.unwrap();
    ledger.apply(copy("copy of the copy", large)).await.unwrap();
    for id in ["copy", "copy of the copy", "small"] {
        ledger.apply(delete(id)).await.unwrap();
    }

    assert!(is_garbage(ledger, large.id).await);
    assert_eq!(small(ledger, small_media.id).await, None);
    for media in [large, small_media] {
        conflicts(ledger.apply(copy("late", media)).await);
        conflicts(ledger.apply(attach(media)).await);
    }
    ledger.forget_garbage(&[large.id]).await.unwrap();
    for media in [large, names.large(2), names.small(3)] {
        conflicts(ledger.apply(copy("late", media)).await);
        conflicts(ledger.apply(attach(media)).await);
    }
    assert_eq!(found(ledger, &names, "late").await, None);
    assert_eq!(found(ledger, &names, "other").await, Some(other));
}

async fn new_media_that_no_resource_takes_is_garbage(ledger: &dyn Ledger) {
    let names = Names::of("new_media_that_no_resource_takes_is_garbage");
    let changes = ChangeSet {
        new_media: Some(names.media(0)),
        ..one(Insert(names.resource("llama", None)))
    };
    ledger.apply(changes).await.unwrap();
    assert!(is_garbage(ledger, names.media(0)).await);
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

/// Checks what the sweep and the recovery of finishing sessions rely on.
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
            let epoch = lease(ledger, id).await.epoch;
            let last = OffsetCommit {
                state: SessionState::Finishing,
                ..step(0, 10, None)
            };
            ledger.commit_offset(id, epoch, last).await.unwrap();
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

async fn expiry_deletes_expired_sessions_except_finishing_ones(ledger: &dyn Ledger) {
    let names = Names::of("expiry_deletes_expired_sessions_except_finishing_ones");
    let expires = Timestamp::from_millis(10_000);
    let dying = |n| NewSession {
        expires,
        ..names.new_session(n)
    };
    let step_to = |n, state| OffsetCommit {
        state,
        ..step(0, 10, Some(names.large(n)))
    };
    let active = start(ledger, dying(0)).await.id;
    let epoch = lease(ledger, active).await.epoch;
    ledger
        .commit_offset(active, epoch, step_to(0, SessionState::Active))
        .await
        .unwrap();
    let unfinished = start(ledger, dying(1)).await.id;
    let epoch_1 = lease(ledger, unfinished).await.epoch;
    ledger
        .commit_offset(unfinished, epoch_1, step_to(1, SessionState::Finishing))
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
        .commit_offset(little, epoch_3, small_step(0, names.small(3), b"wind"))
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
            .commit_offset(active, epoch, step(10, 20, Some(names.large(0))))
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
        let epoch = lease(ledger, id).await.epoch;
        ledger
            .commit_offset(id, epoch, step(0, 10, Some(names.large(n))))
            .await
            .unwrap();
        ledger.end(id, epoch, EndSession::Cancelled).await.unwrap();
    }
    assert_eq!(ledger.garbage(None, 2).await.unwrap().len(), 2, "bounded");
    let mut ids: Vec<MediaId> = (0..3).map(|n| names.media(n)).collect();
    ids.sort_unstable();
    for (n, id) in ids.iter().enumerate() {
        let behind = ledger.garbage(Some(*id), 1_000).await.unwrap();
        assert!(behind.is_sorted() && behind.iter().all(|other| other > id));
        let ours = behind.into_iter().filter(|other| ids.contains(other));
        assert!(ours.eq(ids[n + 1..].iter().copied()), "all that is behind");
    }
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
        .commit_offset(id, epoch, step(0, 10, Some(names.large(0))))
        .await
        .unwrap();
    ledger
        .apply(insert_with_new(
            names.resource("llama", Some(names.large(1))),
        ))
        .await
        .unwrap();
    let id = start(ledger, names.new_session(2)).await.id;
    let epoch = lease(ledger, id).await.epoch;
    ledger
        .commit_offset(id, epoch, step(0, 10, Some(names.large(2))))
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
