//! What a ledger promises that several processes have open.

use std::time::Duration;

use super::ledger::claims::{claim, due, insert};
use super::ledger::{fenced, finishing, lease, no_lease, session};
use super::{Names, finish, one, step};
use crate::change_set::{ChangeSet, ResourceChange};
use crate::ledger::{EndSession, Ledger, LedgerError, OffsetCommit, Takeover};
use crate::records::{Epoch, Lease, Leased, SessionId, SessionState, Timestamp};

/// Longer than any of the checks takes.
const LONG: Duration = Duration::from_secs(3600);

/// Checks what a ledger promises to two processes. `first` and `second` are the same ledger, as two
/// processes have it open.
///
/// # Panics
/// If it breaks a rule.
pub async fn ledger_of_processes(first: &dyn Ledger, second: &dyn Ledger) {
    session_that_nobody_works_on_is_leased_at_once(first, second).await;
    holder_is_asked_and_commits_before_it_releases(first, second).await;
    released_session_keeps_its_lease_until_the_next_one(first, second).await;
    lease_is_taken_after_idle_time(first, second).await;
    ended_session_is_held_by_nobody(first, second).await;
    finishing_session_is_left_to_the_process_that_works_on_it(first, second).await;
    only_the_newest_lease_is_renewed(first, second).await;
    row_is_claimed_by_one_process(first, second).await;
    task_is_done_by_one_process(first, second).await;
    late_change_set_is_refused(first, second).await;
}

async fn session_that_nobody_works_on_is_leased_at_once(first: &dyn Ledger, second: &dyn Ledger) {
    let names = Names::of("session_that_nobody_works_on_is_leased_at_once");
    let id = names.session(0);
    let started = first.start(names.new_session(0)).await.unwrap();
    let taken = asks(second, id).await.expect("nobody works on it");
    fenced(first.commit_offset(id, started, some_bytes(0)).await);
    second
        .commit_offset(id, taken, some_bytes(0))
        .await
        .unwrap();
}

async fn holder_is_asked_and_commits_before_it_releases(first: &dyn Ledger, second: &dyn Ledger) {
    let names = Names::of("holder_is_asked_and_commits_before_it_releases");
    let id = names.session(0);
    first.start(names.new_session(0)).await.unwrap();
    let held = lease(first, id).await.lease;
    let more = OffsetCommit {
        releases: false,
        ..some_bytes(0)
    };
    first.commit_offset(id, held, more).await.unwrap();
    assert!(asks(second, id).await.is_none(), "it is worked on");
    assert_eq!(first.takeover_requests().await, [id]);
    first.commit_offset(id, held, some_bytes(10)).await.unwrap();
    let taken = asks(second, id).await.expect("it is released");
    assert_eq!(session(second, id).await.progress.offset, 20);
    fenced(first.commit_offset(id, held, some_bytes(20)).await);
    second
        .commit_offset(id, taken, some_bytes(20))
        .await
        .unwrap();
}

async fn released_session_keeps_its_lease_until_the_next_one(
    first: &dyn Ledger,
    second: &dyn Ledger,
) {
    let names = Names::of("released_session_keeps_its_lease_until_the_next_one");
    let id = names.session(0);
    first.start(names.new_session(0)).await.unwrap();
    let held = lease(first, id).await.lease;
    second.release(&[(id, held)]).await.unwrap();
    assert!(asks(second, id).await.is_none(), "it is not the second's");
    let another = no_lease(held.epoch);
    first.release(&[(id, another)]).await.unwrap();
    assert!(asks(second, id).await.is_none(), "it is another lease");
    first.release(&[(id, held)]).await.unwrap();
    let more = OffsetCommit {
        releases: false,
        ..some_bytes(0)
    };
    first.commit_offset(id, held, more).await.unwrap();
    assert!(asks(second, id).await.is_none(), "it is worked on again");
    first.release(&[(id, held)]).await.unwrap();
    assert!(asks(second, id).await.is_some());
    fenced(first.commit_offset(id, held, some_bytes(10)).await);
}

async fn lease_is_taken_after_idle_time(first: &dyn Ledger, second: &dyn Ledger) {
    let names = Names::of("lease_is_taken_after_idle_time");
    let id = names.session(0);
    first.start(names.new_session(0)).await.unwrap();
    let held = lease(first, id).await.lease;
    let waits = Takeover::IfIdle(LONG);
    assert!(takes(second, id, waits).await.is_none());
    let at_once = Takeover::IfIdle(Duration::ZERO);
    assert!(takes(second, id, at_once).await.is_some());
    fenced(first.commit_offset(id, held, some_bytes(0)).await);
    let held = takes(first, id, at_once).await.expect("at once");
    assert!(takes(first, id, waits).await.is_some(), "it is its own");
    fenced(first.commit_offset(id, held, some_bytes(0)).await);
}

async fn ended_session_is_held_by_nobody(first: &dyn Ledger, second: &dyn Ledger) {
    let names = Names::of("ended_session_is_held_by_nobody");
    for n in 0..2 {
        let id = names.session(n);
        first.start(names.new_session(n)).await.unwrap();
        let held = lease(first, id).await.lease;
        if n == 0 {
            first.end(id, held, EndSession::Failed).await.unwrap();
        } else {
            let changes = finishing(finish(id, held, None), vec![]);
            first.apply(changes).await.unwrap();
        }
        let seen = session(first, id).await;
        let taken = second.lease_by(id, Takeover::Ask).await.unwrap();
        let Leased { session, lease, .. } = taken.expect("it is there");
        assert_eq!(session, seen);
        fenced(second.end(id, lease, EndSession::Failed).await);
    }
}

async fn finishing_session_is_left_to_the_process_that_works_on_it(
    first: &dyn Ledger,
    second: &dyn Ledger,
) {
    let names = Names::of("finishing_session_is_left_to_the_process_that_works_on_it");
    let id = names.session(0);
    first.start(names.new_session(0)).await.unwrap();
    let held = lease(first, id).await.lease;
    let last = OffsetCommit {
        state: SessionState::Finishing,
        releases: false,
        ..some_bytes(0)
    };
    first.commit_offset(id, held, last).await.unwrap();
    let is_listed = async |ledger: &dyn Ledger, idle| {
        let listed = ledger.finishing(None, 1_000, idle).await.unwrap();
        listed.contains(&id)
    };
    assert!(!is_listed(second, LONG).await);
    assert!(is_listed(second, Duration::ZERO).await);
    assert!(is_listed(first, LONG).await, "it knows what it works on");
    first.release(&[(id, held)]).await.unwrap();
    assert!(is_listed(second, LONG).await);
    let changes = finishing(finish(id, held, Some(names.large(0))), vec![]);
    first.apply(changes).await.expect("the lease is in force");
    assert!(!is_listed(second, Duration::ZERO).await);
}

async fn only_the_newest_lease_is_renewed(first: &dyn Ledger, second: &dyn Ledger) {
    let names = Names::of("only_the_newest_lease_is_renewed");
    let id = names.session(0);
    let started = first.start(names.new_session(0)).await.unwrap();
    let unknown = (names.session(1), started);
    first.renew(&[unknown, (id, started)]).await.unwrap();
    assert!(asks(second, id).await.is_none(), "the first works on it");
    let taken = lease(second, id).await.lease;
    let earlier = (id, started);
    let another = (id, no_lease(Epoch(1)));
    first.renew(&[earlier, another]).await.unwrap();
    assert!(asks(first, id).await.is_none(), "the second works on it");
    second.renew(&[(id, taken)]).await.unwrap();
    second
        .commit_offset(id, taken, some_bytes(0))
        .await
        .unwrap();
    assert!(asks(first, id).await.is_some());
}

async fn row_is_claimed_by_one_process(first: &dyn Ledger, second: &dyn Ledger) {
    let names = Names::of("row_is_claimed_by_one_process");
    let rows = ["a", "b"].map(|id| due(names, id, 10));
    insert(first, rows.into()).await;
    assert_eq!(claim(first, names, [10, 20], 1).await, ["a"]);
    assert_eq!(claim(second, names, [10, 20], 9).await, ["b"]);
    let claimant = async |id| {
        let row = second.resource(&names.collection(), id).await.unwrap();
        row.unwrap().claimed_by.expect("it is claimed")
    };
    assert_ne!(claimant("a").await, claimant("b").await);
    assert_eq!(claim(second, names, [19, 30], 9).await, [""; 0]);
    assert_eq!(claim(second, names, [20, 30], 9).await, ["a", "b"]);
}

async fn task_is_done_by_one_process(first: &dyn Ledger, second: &dyn Ledger) {
    let acquires = async |ledger: &dyn Ledger, task| ledger.acquire_task(task, LONG).await.unwrap();
    assert!(acquires(first, "one").await);
    assert!(!acquires(second, "one").await);
    assert!(acquires(second, "another").await);
    assert!(!acquires(first, "another").await);
    assert!(acquires(first, "one").await, "it goes on with it");
}

async fn late_change_set_is_refused(first: &dyn Ledger, second: &dyn Ledger) {
    let names = Names::of("late_change_set_is_refused");
    let not_after = |time| ChangeSet {
        not_after: time,
        ..one(ResourceChange::Insert(names.resource("row", None)))
    };
    let now = first
        .deadline(Duration::ZERO)
        .expect("the ledger is shared");
    let past = Timestamp::from_millis(now.as_millis() - 1);
    fenced(second.apply(not_after(Some(past))).await);
    let row = first.resource(&names.collection(), "row").await.unwrap();
    assert!(row.is_none());
    let later = second.deadline(LONG);
    first.apply(not_after(later)).await.unwrap();
}

/// Commits ten bytes, which are the last ones of a request.
fn some_bytes(from: u64) -> OffsetCommit {
    step(from, from + 10, None)
}

async fn asks(ledger: &dyn Ledger, id: SessionId) -> Option<Lease> {
    takes(ledger, id, Takeover::Ask).await
}

/// Returns a lease, or `None` if another process works on the session.
async fn takes(ledger: &dyn Ledger, id: SessionId, takeover: Takeover) -> Option<Lease> {
    match ledger.lease_by(id, takeover).await {
        Ok(leased) => Some(leased.expect("it was started").lease),
        Err(LedgerError::Held) => None,
        Err(error) => panic!("{error:?}"),
    }
}
