//! Rows that are due, and the processes that claim them.

use super::super::{Names, insert_with_new, next_version, one};
use super::{conflicts, found, is_garbage};
use crate::change_set::{ChangeSet, ResourceChange};
use crate::ledger::Ledger;
use crate::records::{Resource, Timestamp};

use ResourceChange::{Delete, Insert, Replace};

/// Checks rows that are due, and their claims by one process.
pub(super) async fn check_claims(ledger: &dyn Ledger) {
    due_rows_are_claimed_in_the_order_of_their_times(ledger).await;
    claimed_row_is_free_again_at_its_time(ledger).await;
    claim_ends_with_the_row_or_by_a_change(ledger).await;
    claimed_row_keeps_all_other_fields(ledger).await;
    no_row_is_claimed_twice_at_a_time(ledger).await;
}

const fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(in super::super) fn due(names: Names, id: &str, millis: u64) -> Resource {
    Resource {
        due: Some(at(millis)),
        ..names.resource(id, None)
    }
}

pub(in super::super) async fn insert(ledger: &dyn Ledger, rows: Vec<Resource>) {
    let changes = ChangeSet {
        resources: rows.into_iter().map(Insert).collect(),
        ..ChangeSet::default()
    };
    ledger.apply(changes).await.unwrap();
}

/// Claims up to `limit` rows and returns their ids.
pub(in super::super) async fn claim(
    ledger: &dyn Ledger,
    names: Names,
    [now, until]: [u64; 2],
    limit: usize,
) -> Vec<String> {
    let collection = names.collection();
    let claimed = ledger.claim(&collection, at(now), at(until), limit);
    let claimed = claimed.await.unwrap();
    claimed.into_iter().map(|row| row.id).collect()
}

async fn due_rows_are_claimed_in_the_order_of_their_times(ledger: &dyn Ledger) {
    let names = Names::of("due_rows_are_claimed_in_the_order_of_their_times");
    let collection = names.collection();
    assert_eq!(ledger.next_due(&collection).await.unwrap(), None);
    let never = names.resource("never", None);
    let elsewhere = Resource {
        collection: format!("{collection}/more"),
        ..due(names, "elsewhere", 0)
    };
    let rows = vec![
        due(names, "b", 20),
        never,
        due(names, "c", 10),
        due(names, "a", 31),
        due(names, "d", 30),
        elsewhere,
    ];
    insert(ledger, rows).await;
    assert_eq!(ledger.next_due(&collection).await.unwrap(), Some(at(10)));
    assert_eq!(ledger.count_due(&collection).await.unwrap(), 4);
    assert_eq!(claim(ledger, names, [9, 100], 9).await, [""; 0]);
    assert_eq!(claim(ledger, names, [30, 100], 2).await, ["c", "b"]);
    assert_eq!(ledger.next_due(&collection).await.unwrap(), Some(at(30)));
    assert_eq!(claim(ledger, names, [30, 100], 2).await, ["d"]);
    assert_eq!(claim(ledger, names, [30, 100], 2).await, [""; 0]);
    assert_eq!(claim(ledger, names, [31, 100], 0).await, [""; 0]);
    assert_eq!(claim(ledger, names, [99, 100], 9).await, ["a"]);
    assert_eq!(ledger.next_due(&collection).await.unwrap(), Some(at(100)));
    assert_eq!(ledger.count_due(&collection).await.unwrap(), 4);
}

async fn claimed_row_is_free_again_at_its_time(ledger: &dyn Ledger) {
    let names = Names::of("claimed_row_is_free_again_at_its_time");
    insert(ledger, vec![due(names, "a", 10)]).await;
    assert_eq!(claim(ledger, names, [10, 20], 9).await, ["a"]);
    let held = found(ledger, &names, "a").await.unwrap();
    let renewed = Resource {
        due: Some(at(30)),
        ..next_version(&held)
    };
    let replace = |resource: &Resource| {
        one(Replace {
            resource: resource.clone(),
            expected: resource.version - 1,
        })
    };
    ledger.apply(replace(&renewed)).await.unwrap();
    assert_eq!(found(ledger, &names, "a").await, Some(renewed.clone()));
    assert_eq!(claim(ledger, names, [29, 40], 9).await, [""; 0]);
    assert_eq!(claim(ledger, names, [30, 40], 9).await, ["a"]);
    let late = next_version(&renewed);
    conflicts(ledger.apply(replace(&late)).await);
}

async fn claim_ends_with_the_row_or_by_a_change(ledger: &dyn Ledger) {
    let names = Names::of("claim_ends_with_the_row_or_by_a_change");
    insert(ledger, vec![due(names, "a", 10), due(names, "b", 10)]).await;
    assert_eq!(claim(ledger, names, [10, 20], 9).await, ["a", "b"]);
    let held = found(ledger, &names, "a").await.unwrap();
    assert!(held.claimed_by.is_some());
    let given_up = Resource {
        due: Some(at(15)),
        claimed_by: None,
        ..next_version(&held)
    };
    let deletion = Delete {
        collection: names.collection(),
        id: "b".to_owned(),
        expected: 2,
    };
    let changes = ChangeSet {
        resources: vec![
            Replace {
                resource: given_up.clone(),
                expected: held.version,
            },
            deletion,
        ],
        ..ChangeSet::default()
    };
    ledger.apply(changes).await.unwrap();
    assert_eq!(found(ledger, &names, "a").await, Some(given_up.clone()));
    assert_eq!(claim(ledger, names, [14, 20], 9).await, [""; 0]);
    assert_eq!(claim(ledger, names, [15, 20], 9).await, ["a"]);
    let never = Resource {
        due: None,
        claimed_by: None,
        version: 5,
        ..given_up
    };
    let changes = one(Replace {
        resource: never,
        expected: 4,
    });
    ledger.apply(changes).await.unwrap();
    assert_eq!(claim(ledger, names, [1000, 2000], 9).await, [""; 0]);
    assert_eq!(ledger.count_due(&names.collection()).await.unwrap(), 0);
}

async fn claimed_row_keeps_all_other_fields(ledger: &dyn Ledger) {
    let names = Names::of("claimed_row_keeps_all_other_fields");
    let row = Resource {
        due: Some(at(10)),
        ..names.resource("llama", Some(names.large(0)))
    };
    ledger.apply(insert_with_new(row.clone())).await.unwrap();
    let collection = names.collection();
    let claimed = ledger.claim(&collection, at(10), at(20), 1);
    let claimed = claimed.await.unwrap();
    let [only] = &claimed[..] else {
        panic!("one row: {claimed:?}");
    };
    let expected = Resource {
        due: Some(at(20)),
        claimed_by: only.claimed_by,
        ..next_version(&row)
    };
    assert_eq!(*only, expected);
    assert_eq!(found(ledger, &names, "llama").await.as_ref(), Some(only));
    assert!(!is_garbage(ledger, names.media(0)).await);
}

async fn no_row_is_claimed_twice_at_a_time(ledger: &dyn Ledger) {
    let names = Names::of("no_row_is_claimed_twice_at_a_time");
    let ids = ["a", "b", "c", "d", "e"];
    insert(ledger, ids.map(|id| due(names, id, 10)).into()).await;
    let claims = || claim(ledger, names, [10, 20], 2);
    let (one, two, three, four) = tokio::join!(claims(), claims(), claims(), claims());
    let mut all = [one, two, three, four].concat();
    all.sort();
    assert_eq!(all, ids);
}
