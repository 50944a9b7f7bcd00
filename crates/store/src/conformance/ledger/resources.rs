//! Change sets and resources.

use bytes::Bytes;

use super::super::{Names, finish, insert_with_new, next_version, one, step};
use super::{conflicts, forget_garbage, found, is_garbage, lease, session, small, start, unknown};
use crate::change_set::{ChangeSet, Expected, ResourceChange};
use crate::ledger::{Ledger, LedgerError};
use crate::records::{MAX_KEY_LEN, Resource, StoredName};

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
    media_is_released_with_its_last_reference(ledger).await;
    new_media_that_no_resource_takes_is_garbage(ledger).await;
    resources_are_listed_in_order_of_their_ids(ledger).await;
    many_resources_are_fetched_by_their_keys(ledger).await;
    keys_have_any_bytes_up_to_the_maximum(ledger).await;
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
        finish: Some(finish(id, leased.lease, Some(media))),
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
    assert_eq!(session(ledger, id).await, leased.session);
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
        finish: Some(finish(id, leased.lease, Some(media))),
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
            assert_eq!(session(ledger, id).await, leased.session, "{wrong:?}");
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
        new_media: Some(StoredName::of(names.media(0))),
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
    forget_garbage(ledger, large.id).await;
    for media in [large, names.large(2), names.small(3)] {
        conflicts(ledger.apply(copy("late", media)).await);
        conflicts(ledger.apply(attach(media)).await);
    }
    assert_eq!(found(ledger, &names, "late").await, None);
    assert_eq!(found(ledger, &names, "other").await, Some(other));
}

/// In any order, and also of several references that one change set removes.
async fn media_is_released_with_its_last_reference(ledger: &dyn Ledger) {
    let names = Names::of("media_is_released_with_its_last_reference");
    let delete = |id: &str| Delete {
        collection: names.collection(),
        id: id.to_owned(),
        expected: 1,
    };
    let orders: [&[&[&str]]; 4] = [
        &[&["a"], &["b"], &["c"]],
        &[&["c"], &["b"], &["a"]],
        &[&["b"], &["a", "c"]],
        &[&["c", "a", "b"]],
    ];
    for (n, order) in (0..).zip(orders) {
        let (large, little) = (names.large(2 * n), names.small(2 * n + 1));
        let id = start(ledger, names.new_session(n)).await.id;
        let held = lease(ledger, id).await.lease;
        let commit = step(0, 10, Some(large));
        ledger.commit_offset(id, held, commit).await.unwrap();
        let insert = |id: &str, media| Insert(names.resource(id, Some(media)));
        let first = ChangeSet {
            small_media: Some((little.id, Bytes::from_static(b"wind"))),
            resources: vec![insert("a", large), insert("a small", little)],
            finish: Some(finish(id, held, Some(large))),
            ..ChangeSet::default()
        };
        ledger.apply(first).await.unwrap();
        let copies = ChangeSet {
            resources: vec![
                insert("b", large),
                insert("b small", little),
                insert("c", large),
                insert("c small", little),
            ],
            ..ChangeSet::default()
        };
        ledger.apply(copies).await.unwrap();
        for (nth, together) in (1..).zip(order) {
            assert!(!is_garbage(ledger, large.id).await, "{order:?}");
            assert!(small(ledger, little.id).await.is_some(), "{order:?}");
            let of_small = together.iter().map(|id| delete(&format!("{id} small")));
            let changes = ChangeSet {
                resources: together
                    .iter()
                    .map(|id| delete(id))
                    .chain(of_small)
                    .collect(),
                ..ChangeSet::default()
            };
            ledger.apply(changes).await.unwrap();
            let unknown = unknown(ledger, &[large.id, little.id]).await;
            let is_last = nth == order.len();
            assert_eq!(unknown.contains(&little.id), is_last, "{order:?}");
            assert!(!unknown.contains(&large.id), "{order:?}");
        }
        assert!(is_garbage(ledger, large.id).await, "{order:?}");
        assert_eq!(small(ledger, little.id).await, None, "{order:?}");
        forget_garbage(ledger, large.id).await;
    }
}

async fn new_media_that_no_resource_takes_is_garbage(ledger: &dyn Ledger) {
    let names = Names::of("new_media_that_no_resource_takes_is_garbage");
    let changes = ChangeSet {
        new_media: Some(StoredName::of(names.media(0))),
        ..one(Insert(names.resource("llama", None)))
    };
    ledger.apply(changes).await.unwrap();
    assert!(is_garbage(ledger, names.media(0)).await);
}

async fn many_resources_are_fetched_by_their_keys(ledger: &dyn Ledger) {
    let names = Names::of("many_resources_are_fetched_by_their_keys");
    let rows: Vec<Resource> = (0..60)
        .map(|n| Resource {
            collection: format!("{}/{}", names.collection(), n % 2),
            ..names.resource(&format!("{n}"), None)
        })
        .collect();
    let changes = ChangeSet {
        resources: rows.iter().cloned().map(Insert).collect(),
        ..ChangeSet::default()
    };
    ledger.apply(changes).await.unwrap();
    assert_eq!(ledger.fetch(&[]).await.unwrap(), []);
    let mut keys: Vec<_> = rows
        .iter()
        .map(|row| (&row.collection[..], &row.id[..]))
        .collect();
    let mut expected: Vec<_> = rows.iter().cloned().map(Some).collect();
    let elsewhere = (&rows[0].collection[..], &rows[1].id[..]);
    keys.insert(7, elsewhere);
    expected.insert(7, None);
    keys.push(keys[0]);
    expected.push(expected[0].clone());
    assert_eq!(ledger.fetch(&keys).await.unwrap(), expected);
}

async fn keys_have_any_bytes_up_to_the_maximum(ledger: &dyn Ledger) {
    let names = Names::of("keys_have_any_bytes_up_to_the_maximum");
    let rest = MAX_KEY_LEN - names.collection().len();
    let longest = "\0é".repeat(rest / 3) + &"a".repeat(rest % 3);
    let too_long = longest.clone() + "a";
    let in_order = ["", "\0", "\0\0", &longest, "a\0b"];
    for id in in_order {
        let resource = names.resource(id, None);
        ledger.apply(one(Insert(resource.clone()))).await.unwrap();
        assert_eq!(found(ledger, &names, id).await, Some(resource), "{id:?}");
    }
    let set = ChangeSet {
        resources: vec![
            Insert(names.resource("short", None)),
            Insert(names.resource(&too_long, None)),
        ],
        ..ChangeSet::default()
    };
    let refused = ledger.apply(set).await;
    assert!(
        matches!(refused, Err(LedgerError::KeyTooLong)),
        "{refused:?}"
    );
    assert_eq!(found(ledger, &names, "short").await, None, "all or nothing");
    let collection = names.collection();
    let listed = ledger.resources(&collection, Some("\0"), 10).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|resource| &resource.id[..]).collect();
    assert_eq!(listed, in_order[2..]);
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
