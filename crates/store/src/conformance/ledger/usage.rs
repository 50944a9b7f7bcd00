//! The usage of each principal, and quotas.

use bytes::Bytes;

use super::super::{Names, finish, insert_with_new, next_version, one, progress, step};
use super::{finishing, found, lease, session, start};
use crate::change_set::{ChangeSet, FinishSession, ResourceChange};
use crate::ledger::{EndSession, Ledger, LedgerError, OffsetCommit};
use crate::records::{Media, NewSession, OwnerQuotas, Progress, Quota, Resource, Timestamp, Usage};

use ResourceChange::{Delete, Insert, Replace};

const KIB: u64 = 1024;

/// Checks the usage of each principal, and quotas.
pub(super) async fn check_usage(ledger: &dyn Ledger) {
    open_sessions_are_counted_with_the_greater_of_two_lengths(ledger).await;
    sessions_that_end_count_what_is_remembered_of_them(ledger).await;
    resources_are_counted_with_their_media_and_their_bodies(ledger).await;
    very_long_media_does_not_overflow(ledger).await;
    session_beyond_a_quota_is_not_started(ledger).await;
    commit_and_change_set_beyond_a_quota_change_nothing(ledger).await;
    each_change_may_exceed_a_quota_by_its_tolerance(ledger).await;
    each_owner_of_a_change_set_has_its_own_quota(ledger).await;
}

/// A session of this owner, with 24 bytes of context.
fn of(names: Names, n: u8, owner: &str, total: Option<u64>) -> NewSession {
    NewSession {
        context: vec![0; 24],
        owner: Some(owner.to_owned()),
        total,
        ..names.new_session(n)
    }
}

/// A resource of this owner, with a body of this length and 42 bytes of media.
fn owned(names: Names, id: &str, owner: Option<&str>, body: usize) -> Resource {
    Resource {
        body: Bytes::from(vec![b' '; body]),
        owner: owner.map(str::to_owned),
        ..names.resource(id, Some(names.large(id.as_bytes()[0])))
    }
}

#[track_caller]
fn over_quota(result: Result<(), LedgerError>) {
    match result {
        Err(LedgerError::OverQuota) => {}
        other => panic!("this must exceed the quota: {other:?}"),
    }
}

async fn occupies(ledger: &dyn Ledger, owner: &str, sessions: u64, kib: u64) {
    let bytes = kib * KIB;
    let usage = ledger.usage(owner).await.unwrap();
    assert_eq!(usage, Usage { sessions, bytes }, "{owner}");
}

async fn open_sessions_are_counted_with_the_greater_of_two_lengths(ledger: &dyn Ledger) {
    let names = Names::of("open_sessions_are_counted_with_the_greater_of_two_lengths");
    let owner = "anna of usage";
    occupies(ledger, owner, 0, 0).await;
    start(ledger, of(names, 0, owner, Some(10_000))).await;
    occupies(ledger, owner, 1, 10).await;
    let id = start(ledger, of(names, 1, owner, None)).await.id;
    occupies(ledger, owner, 2, 11).await;
    occupies(ledger, "anna", 0, 0).await;
    let held = lease(ledger, id).await.lease;
    for (from, to, kib) in [(0, 1000, 11), (1000, 1001, 12), (1001, 50_000, 59)] {
        let commit = OffsetCommit {
            progress: Progress {
                total: None,
                ..progress(to, None)
            },
            ..step(from, to, None)
        };
        ledger.commit_offset(id, held, commit).await.unwrap();
        occupies(ledger, owner, 2, kib).await;
    }
    // The length is known now.
    let last = step(50_000, 60_000, None);
    ledger.commit_offset(id, held, last).await.unwrap();
    occupies(ledger, owner, 2, 10 + 977).await;
}

async fn sessions_that_end_count_what_is_remembered_of_them(ledger: &dyn Ledger) {
    let names = Names::of("sessions_that_end_count_what_is_remembered_of_them");
    let owner = "bert of usage";
    for n in 0..2 {
        start(ledger, of(names, n, owner, Some(1000))).await;
    }
    let dying = |n, total| NewSession {
        expires: Timestamp::from_millis(1),
        ..of(names, n, owner, total)
    };
    start(ledger, dying(2, Some(1000))).await;
    occupies(ledger, owner, 3, 3).await;
    let (ended, finished) = (names.session(0), names.session(1));
    let held = lease(ledger, ended).await.lease;
    ledger.end(ended, held, EndSession::Failed).await.unwrap();
    occupies(ledger, owner, 2, 2).await;
    let held = lease(ledger, finished).await.lease;
    let changes = finishing(finish(finished, held, None), vec![]);
    ledger.apply(changes).await.unwrap();
    // Its start and its reply.
    occupies(ledger, owner, 1, 2).await;
    let long = start(ledger, dying(3, None)).await.id;
    let held = lease(ledger, long).await.lease;
    let finish = FinishSession {
        reply: vec![b' '; 9_000],
        ..finish(long, held, None)
    };
    ledger.apply(finishing(finish, vec![])).await.unwrap();
    occupies(ledger, owner, 1, 2 + 9).await;
    while ledger.expire(Timestamp::from_millis(2), 100).await.unwrap() > 0 {}
    occupies(ledger, owner, 0, 1).await;
}

async fn resources_are_counted_with_their_media_and_their_bodies(ledger: &dyn Ledger) {
    let names = Names::of("resources_are_counted_with_their_media_and_their_bodies");
    let (owner, other) = ("cleo of usage", "dora of usage");
    let first = owned(names, "a", Some(owner), 3000);
    ledger.apply(insert_with_new(first.clone())).await.unwrap();
    occupies(ledger, owner, 0, 3).await;
    let longer = Resource {
        body: Bytes::from(vec![b' '; 4000]),
        ..next_version(&first)
    };
    let replace = |resource: &Resource| Replace {
        resource: resource.clone(),
        expected: resource.version - 1,
    };
    ledger.apply(one(replace(&longer))).await.unwrap();
    occupies(ledger, owner, 0, 4).await;
    let given = Resource {
        owner: Some(other.to_owned()),
        ..next_version(&longer)
    };
    ledger.apply(one(replace(&given))).await.unwrap();
    occupies(ledger, owner, 0, 0).await;
    occupies(ledger, other, 0, 4).await;
    let nobodys = Resource {
        owner: None,
        ..next_version(&given)
    };
    ledger.apply(one(replace(&nobodys))).await.unwrap();
    occupies(ledger, other, 0, 0).await;
    let again = Resource {
        owner: Some(owner.to_owned()),
        ..next_version(&nobodys)
    };
    ledger.apply(one(replace(&again))).await.unwrap();
    occupies(ledger, owner, 0, 4).await;
    let delete = Delete {
        collection: names.collection(),
        id: "a".to_owned(),
        expected: again.version,
    };
    ledger.apply(one(delete)).await.unwrap();
    occupies(ledger, owner, 0, 0).await;
}

async fn very_long_media_does_not_overflow(ledger: &dyn Ledger) {
    let names = Names::of("very_long_media_does_not_overflow");
    let owner = "emil of usage";
    for n in 0..4 {
        start(ledger, of(names, n, owner, Some(u64::MAX >> 1))).await;
    }
    occupies(ledger, owner, 4, 4 * ((16 << 30) + 1)).await;
    for n in 0..4 {
        let id = names.session(n);
        let held = lease(ledger, id).await.lease;
        ledger.end(id, held, EndSession::Cancelled).await.unwrap();
    }
    occupies(ledger, owner, 0, 0).await;
}

async fn session_beyond_a_quota_is_not_started(ledger: &dyn Ledger) {
    let names = Names::of("session_beyond_a_quota_is_not_started");
    let owner = "fred of usage";
    let two = Quota {
        sessions: Some(2),
        bytes: Some(20 * KIB),
        ..Quota::default()
    };
    let start = async |n, total| {
        let new = of(names, n, owner, total);
        ledger.start_within(new, two).await
    };
    start(0, Some(15_000)).await.unwrap();
    over_quota(start(1, Some(6_000)).await.map(drop));
    start(1, Some(5_000)).await.unwrap();
    over_quota(start(2, None).await.map(drop));
    assert!(ledger.session(names.session(2)).await.unwrap().is_none());
    occupies(ledger, owner, 2, 20).await;
    // Those without an owner, and others, have nothing to do with it.
    let nobodys = NewSession {
        owner: None,
        ..of(names, 3, owner, Some(1 << 30))
    };
    ledger.start_within(nobodys, two).await.unwrap();
    let others = of(names, 4, "gina of usage", Some(20_000));
    ledger.start_within(others, two).await.unwrap();
}

async fn each_change_may_exceed_a_quota_by_its_tolerance(ledger: &dyn Ledger) {
    let names = Names::of("each_change_may_exceed_a_quota_by_its_tolerance");
    let owner = "kurt of usage";
    let quota = Quota {
        bytes: Some(10 * KIB),
        tolerance: 2 * KIB,
        ..Quota::default()
    };
    let insert = async |id: &str, body| {
        let changes = insert_with_new(owned(names, id, Some(owner), body));
        ledger.apply_within(changes, quota.into()).await
    };
    insert("a", 9_900).await.unwrap();
    over_quota(insert("b", 2_100).await);
    insert("b", 2_000).await.unwrap();
    insert("c", 2_000).await.unwrap();
    over_quota(insert("d", 2_100).await);
    occupies(ledger, owner, 0, 14).await;
}

async fn each_owner_of_a_change_set_has_its_own_quota(ledger: &dyn Ledger) {
    let names = Names::of("each_owner_of_a_change_set_has_its_own_quota");
    let of_bytes = |bytes| Quota {
        bytes: Some(bytes),
        ..Quota::default()
    };
    let (small, large, other) = ("lena of usage", "mona of usage", "nils of usage");
    let quotas = OwnerQuotas::from(of_bytes(4 * KIB))
        .with(small, of_bytes(2 * KIB))
        .with(large, of_bytes(8 * KIB));
    let insert = async |bodies: [(&str, &str, usize); 2]| {
        let resources = bodies.map(|(id, owner, body)| {
            let resource = owned(names, id, Some(owner), body);
            Resource {
                media: None,
                ..resource
            }
        });
        let changes = ChangeSet {
            resources: resources.map(Insert).into(),
            ..ChangeSet::default()
        };
        ledger.apply_within(changes, quotas.clone()).await
    };
    over_quota(insert([("a", large, 7_000), ("b", small, 3_000)]).await);
    over_quota(insert([("a", other, 5_000), ("b", large, 1)]).await);
    assert!(found(ledger, &names, "b").await.is_none());
    insert([("a", large, 7_000), ("b", other, 3_000)])
        .await
        .unwrap();
}

async fn commit_and_change_set_beyond_a_quota_change_nothing(ledger: &dyn Ledger) {
    let names = Names::of("commit_and_change_set_beyond_a_quota_change_nothing");
    let owner = "hugo of usage";
    let quota = Quota {
        bytes: Some(10 * KIB),
        ..Quota::default()
    };
    let id = start(ledger, of(names, 0, owner, None)).await.id;
    let held = lease(ledger, id).await.lease;
    let commit = |from, to| OffsetCommit {
        progress: Progress {
            total: None,
            ..progress(to, None)
        },
        ..step(from, to, None)
    };
    let within = async |from, to| {
        let commit = commit(from, to);
        ledger.commit_offset_within(id, held, commit, quota).await
    };
    within(0, 9_000).await.unwrap();
    over_quota(within(9_000, 20_000).await);
    assert_eq!(session(ledger, id).await.progress.offset, 9_000);

    let insert = |id: &str, body| insert_with_new(owned(names, id, Some(owner), body));
    let apply = async |changes| ledger.apply_within(changes, quota.into()).await;
    apply(insert("b", 900)).await.unwrap();
    over_quota(apply(insert("c", 900)).await);
    assert!(found(ledger, &names, "c").await.is_none());
    // Without a quota the same change is made. A change that does not increase the usage is
    // possible above the quota.
    ledger.apply(insert("c", 9_000)).await.unwrap();
    occupies(ledger, owner, 1, 19).await;
    let replaced = next_version(&found(ledger, &names, "c").await.unwrap());
    let replace = Replace {
        resource: replaced.clone(),
        expected: 1,
    };
    apply(one(replace)).await.unwrap();
    within(9_000, 9_100).await.unwrap();
    over_quota(apply(insert("d", 1)).await);
    // Nor may a resource of another owner grow beyond the quota.
    let others = owned(names, "f", Some("ines of usage"), 9_000);
    ledger.apply(insert_with_new(others.clone())).await.unwrap();
    let longer = Resource {
        body: Bytes::from(vec![b' '; 11_000]),
        ..next_version(&others)
    };
    let replace = Replace {
        resource: longer.clone(),
        expected: 1,
    };
    over_quota(apply(one(replace)).await);
    // An owner with room for it may take it over.
    let replace = Replace {
        resource: Resource {
            body: others.body,
            owner: Some("jens of usage".to_owned()),
            ..longer
        },
        expected: 1,
    };
    apply(one(replace)).await.unwrap();
    let unowned = owned(names, "e", None, 1);
    let media = unowned.media.as_ref().map(Media::name);
    let mut changes = one(Insert(unowned));
    changes.new_media = media;
    apply(changes).await.unwrap();
}
