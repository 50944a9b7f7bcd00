//! Lists of sessions.

use super::super::{Names, finish, step};
use super::{finishing, lease, session, start};
use crate::ledger::{EndSession, Ledger, OffsetCommit};
use crate::records::{NewSession, SessionId, SessionState, Timestamp};
use crate::session_list::{MAX_SESSIONS_PER_PAGE, SessionOrder, SessionQuery, SessionSummary};

use SessionOrder::{NewestFirst, OldestFirst};

/// Checks the lists of sessions.
pub(super) async fn check_session_lists(ledger: &dyn Ledger) {
    a_listed_session_has_the_values_of_its_row(ledger).await;
    sessions_are_listed_by_owner_and_state(ledger).await;
    sessions_are_listed_in_both_orders(ledger).await;
    a_page_has_at_most_the_limit(ledger).await;
    a_list_may_begin_at_any_position(ledger).await;
    pages_have_no_gaps_while_sessions_change(ledger).await;
}

async fn a_listed_session_has_the_values_of_its_row(ledger: &dyn Ledger) {
    let names = Names::of("a_listed_session_has_the_values_of_its_row");
    start_all(ledger, names, 1..=5).await;
    let without_owner = NewSession {
        owner: None,
        total: None,
        ..names.new_session(6)
    };
    start(ledger, without_owner).await;
    put_into_each_state(ledger, names).await;
    let all = SessionQuery {
        after: Some(names.session(0)),
        limit: 6,
        ..SessionQuery::default()
    };
    let page = ledger.sessions(&all).await.unwrap();
    let mut expected = Vec::new();
    for n in 1..=6 {
        let session = session(ledger, names.session(n)).await;
        expected.push(SessionSummary::from(&session));
    }
    assert_eq!(page.sessions, expected);
    assert_eq!(expected[1].offset, 10);
    assert_eq!(
        (expected[5].owner.as_deref(), expected[5].total),
        (None, None)
    );
}

/// Puts each of the sessions 2 to 5 into another state. Session 1 stays active.
async fn put_into_each_state(ledger: &dyn Ledger, names: Names) {
    for n in 2..=5 {
        let id = names.session(n);
        let held = lease(ledger, id).await.lease;
        let all_bytes = OffsetCommit {
            state: SessionState::Finishing,
            ..step(0, 10, None)
        };
        ledger.commit_offset(id, held, all_bytes).await.unwrap();
        match n {
            2 => {}
            3 => {
                let changes = finishing(finish(id, held, None), vec![]);
                ledger.apply(changes).await.unwrap();
            }
            4 => ledger.end(id, held, EndSession::Cancelled).await.unwrap(),
            _ => ledger.end(id, held, EndSession::Failed).await.unwrap(),
        }
    }
}

async fn sessions_are_listed_by_owner_and_state(ledger: &dyn Ledger) {
    let names = Names::of("sessions_are_listed_by_owner_and_state");
    start_all(ledger, names, 1..=5).await;
    put_into_each_state(ledger, names).await;
    start_all(ledger, names, 6..=7).await;
    start(ledger, of_owner(names, 8, "another owner of this check")).await;
    let states = [
        (SessionState::Active, vec![1, 6, 7]),
        (SessionState::Finishing, vec![2]),
        (SessionState::Finished, vec![3]),
        (SessionState::Cancelled, vec![4]),
        (SessionState::Failed, vec![5]),
    ];
    let mine = own(names);
    assert_eq!(walk(ledger, &mine).await, ids(names, 1..=7));
    for order in [OldestFirst, NewestFirst] {
        for (state, expected) in &states {
            let query = SessionQuery {
                state: Some(*state),
                order,
                ..mine.clone()
            };
            let listed = walk(ledger, &query).await;
            let mut expected = ids(names, expected.iter().copied());
            if order == NewestFirst {
                expected.reverse();
            }
            assert_eq!(listed, expected, "{state:?}, {order:?}");
        }
    }
    for owner in [
        "",
        "another owner of this chec",
        "Another owner of this check",
    ] {
        let query = SessionQuery {
            owner: Some(owner.to_owned()),
            ..SessionQuery::default()
        };
        let listed = walk(ledger, &query).await;
        assert!(!listed.contains(&names.session(8)), "{owner}");
    }
    let active = SessionQuery {
        state: Some(SessionState::Active),
        ..SessionQuery::default()
    };
    let listed = walk(ledger, &active).await;
    assert_eq!(of_check(names, &listed), ids(names, [1, 6, 7, 8]));
}

async fn sessions_are_listed_in_both_orders(ledger: &dyn Ledger) {
    let names = Names::of("sessions_are_listed_in_both_orders");
    start_all(ledger, names, [3, 1, 4, 2]).await;
    let newest_first = SessionQuery {
        order: NewestFirst,
        ..SessionQuery::default()
    };
    let listed = walk(ledger, &SessionQuery::default()).await;
    assert!(listed.is_sorted());
    assert_eq!(of_check(names, &listed), ids(names, 1..=4));
    let mut reversed = walk(ledger, &newest_first).await;
    reversed.reverse();
    assert_eq!(reversed, listed);
}

async fn a_page_has_at_most_the_limit(ledger: &dyn Ledger) {
    let names = Names::of("a_page_has_at_most_the_limit");
    start_all(ledger, names, 1..=5).await;
    for limit in 0..=7 {
        for order in [OldestFirst, NewestFirst] {
            let query = SessionQuery {
                order,
                limit,
                ..own(names)
            };
            let mut listed = walk(ledger, &query).await;
            listed.sort_unstable();
            assert_eq!(listed, ids(names, 1..=5), "{limit}, {order:?}");
        }
    }

    start_all(ledger, names, 6..=254).await;
    start_all(ledger, Names::of("a_page_is_full"), 0..=9).await;
    let greedy = SessionQuery {
        limit: usize::MAX,
        ..SessionQuery::default()
    };
    assert_eq!(greedy.page_len(), MAX_SESSIONS_PER_PAGE);
    let page = ledger.sessions(&greedy).await.unwrap();
    assert_eq!(page.sessions.len(), MAX_SESSIONS_PER_PAGE);
    assert_ne!(page.next, None);
}

async fn a_list_may_begin_at_any_position(ledger: &dyn Ledger) {
    let names = Names::of("a_list_may_begin_at_any_position");
    start_all(ledger, names, [10, 20, 30]).await;
    let positions: [(u8, &[u8], &[u8]); 4] = [
        (0, &[10, 20, 30], &[]),
        (15, &[20, 30], &[10]),
        (20, &[30], &[10]),
        (31, &[], &[30, 20, 10]),
    ];
    for (position, later, earlier) in positions {
        for (order, expected) in [(OldestFirst, later), (NewestFirst, earlier)] {
            let query = SessionQuery {
                after: Some(names.session(position)),
                order,
                ..own(names)
            };
            let listed = walk(ledger, &query).await;
            let expected = ids(names, expected.iter().copied());
            assert_eq!(listed, expected, "{position}, {order:?}");
        }
    }
    for (byte, order) in [(u8::MAX, OldestFirst), (0, NewestFirst)] {
        let behind_the_end = SessionQuery {
            after: Some(SessionId::from_bytes([byte; 32])),
            order,
            ..SessionQuery::default()
        };
        let page = ledger.sessions(&behind_the_end).await.unwrap();
        assert_eq!((page.sessions, page.next), (vec![], None));
    }
}

async fn pages_have_no_gaps_while_sessions_change(ledger: &dyn Ledger) {
    let names = Names::of("pages_have_no_gaps_while_sessions_change");
    for state in [None, Some(SessionState::Active)] {
        for order in [OldestFirst, NewestFirst] {
            let query = SessionQuery {
                state,
                order,
                limit: 1,
                ..own(names)
            };
            walk_while_sessions_change(ledger, names, query).await;
        }
    }
}

/// Walks over the sessions 10, 20, .. 90. In the middle of the walk, sessions before and behind the
/// position are started and ended, and the session at the position is deleted.
async fn walk_while_sessions_change(ledger: &dyn Ledger, names: Names, mut query: SessionQuery) {
    let dead = Timestamp::from_millis(1);
    let expiring = |n: u8| NewSession {
        expires: dead,
        ..own_session(names, n)
    };
    for n in (10..100).step_by(10) {
        start(ledger, expiring(n)).await;
    }
    let mut listed = Vec::new();
    while listed.len() < 4 {
        let page = ledger.sessions(&query).await.unwrap();
        listed.extend(page.sessions.into_iter().map(|session| session.id));
        query.after = page.next;
    }
    let position = *listed.last().expect("four sessions are listed");
    for n in [35, 65] {
        start(ledger, expiring(n)).await;
    }
    for n in [20, 80] {
        let held = lease(ledger, names.session(n)).await.lease;
        let end = EndSession::Cancelled;
        ledger.end(names.session(n), held, end).await.unwrap();
    }
    // Only the session at the position expires: all others are given more time first.
    for n in [10, 30, 35, 40, 50, 60, 65, 70, 90] {
        let id = names.session(n);
        let held = lease(ledger, id).await.lease;
        let later = Timestamp::from_millis(100);
        let more_time = OffsetCommit {
            expires: (id != position).then_some(later),
            ..step(0, 1, None)
        };
        ledger.commit_offset(id, held, more_time).await.unwrap();
    }
    ledger.expire(Timestamp::from_millis(2), 100).await.unwrap();
    assert_eq!(ledger.session(position).await.unwrap(), None);

    listed.extend(walk(ledger, &query).await);
    let steady = [10, 30, 40, 50, 60, 70, 90].map(|n| names.session(n));
    for id in steady {
        let times = listed.iter().filter(|other| **other == id).count();
        assert_eq!(times, 1, "{id:?} of {listed:?}");
    }
    match query.order {
        OldestFirst => assert!(listed.is_sorted_by(|a, b| a < b), "{listed:?}"),
        NewestFirst => assert!(listed.is_sorted_by(|a, b| a > b), "{listed:?}"),
    }
    let (started_ahead, started_before) = match query.order {
        OldestFirst => (65, 35),
        NewestFirst => (35, 65),
    };
    assert!(listed.contains(&names.session(started_ahead)));
    assert!(!listed.contains(&names.session(started_before)));
    ledger
        .expire(Timestamp::from_millis(101), 100)
        .await
        .unwrap();
}

/// Returns the ids of all sessions that a query selects from its position on, page by page.
async fn walk(ledger: &dyn Ledger, query: &SessionQuery) -> Vec<SessionId> {
    let mut query = query.clone();
    let mut listed = Vec::new();
    loop {
        let page = ledger.sessions(&query).await.unwrap();
        assert!(page.sessions.len() <= query.page_len(), "{query:?}");
        listed.extend(page.sessions.iter().map(|session| session.id));
        let Some(next) = page.next else {
            return listed;
        };
        let advances = query.after.is_none_or(|after| match query.order {
            OldestFirst => next > after,
            NewestFirst => next < after,
        });
        assert!(advances, "{next:?} after {query:?}");
        query.after = Some(next);
    }
}

/// Returns a query for the sessions that [`start_all`] starts.
fn own(names: Names) -> SessionQuery {
    SessionQuery {
        owner: Some(names.0.to_owned()),
        ..SessionQuery::default()
    }
}

async fn start_all(ledger: &dyn Ledger, names: Names, all: impl IntoIterator<Item = u8>) {
    for n in all {
        ledger.start(own_session(names, n)).await.unwrap();
    }
}

fn own_session(names: Names, n: u8) -> NewSession {
    of_owner(names, n, names.0)
}

fn of_owner(names: Names, n: u8, owner: &str) -> NewSession {
    NewSession {
        owner: Some(owner.to_owned()),
        ..names.new_session(n)
    }
}

fn ids(names: Names, of: impl IntoIterator<Item = u8>) -> Vec<SessionId> {
    of.into_iter().map(|n| names.session(n)).collect()
}

/// Returns the ids that belong to the check.
fn of_check(names: Names, listed: &[SessionId]) -> Vec<SessionId> {
    let all = names.session(0)..=names.session(u8::MAX);
    let mine = listed.iter().filter(|id| all.contains(id));
    mine.copied().collect()
}
