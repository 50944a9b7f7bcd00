//! Change sets, and resources by themselves.

use bytes::Bytes;

use super::super::samples::{Names, finish, insert_with_new, next_version, one};
use super::{conflicts, found, is_garbage, lease, session, small, start};
use crate::ledger::{ChangeSet, Ledger, ResourceChange};
use crate::records::Resource;

use ResourceChange::{Delete, Insert, Replace};

pub(super) async fn checks(ledger: &dyn Ledger) {
    an_insert_of_a_taken_name_changes_nothing(ledger).await;
    a_change_of_another_version_changes_nothing(ledger).await;
    changes_of_one_set_build_on_each_other(ledger).await;
    a_replaced_resource_keeps_or_lets_go_of_its_media(ledger).await;
    a_deleted_resource_lets_go_of_its_media(ledger).await;
    media_moves_between_resources_of_one_set(ledger).await;
    media_that_one_set_names_and_unnames_is_let_go(ledger).await;
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

async fn a_replaced_resource_keeps_or_lets_go_of_its_media(ledger: &dyn Ledger) {
    let names = Names::of("a_replaced_resource_keeps_or_lets_go_of_its_media");
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

async fn media_that_one_set_names_and_unnames_is_let_go(ledger: &dyn Ledger) {
    let names = Names::of("media_that_one_set_names_and_unnames_is_let_go");
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
