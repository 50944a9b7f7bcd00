//! The cost of a page of sessions, and damaged rows.

use windlass_store::session_list::MAX_SESSIONS_READ_PER_PAGE;
use windlass_store::{SessionOrder, SessionPage};

use super::*;
use crate::ledger::rows::session_list_sql;

/// Starts this number of sessions of the owner `many`, with ascending ids.
async fn start_many(test: &TestLedger, count: usize) {
    let sql = format!(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count})
         INSERT INTO sessions
             (id, context, created, expires, state, epoch, offset, total, crc32c, slow_digests,
              owner)
         SELECT unhex(printf('%064x', n)), x'', n, n, 0, 0, 0, 0, 0, x'', 'many' FROM n"
    );
    let insert = move |connection: &rusqlite::Connection| connection.execute_batch(&sql);
    test.do_any(insert).await.unwrap();
}

async fn page(test: &TestLedger, query: &SessionQuery) -> SessionPage {
    test.ledger.sessions(query).await.unwrap()
}

#[tokio::test]
async fn a_page_reads_a_bounded_number_of_rows() {
    let test = TestLedger::new();
    start_many(&test, MAX_SESSIONS_READ_PER_PAGE).await;
    let last = NewSession {
        owner: Some("few".to_owned()),
        ..new_session(u8::MAX)
    };
    test.ledger.start(last).await.unwrap();
    let oldest_first = SessionQuery {
        owner: Some("few".to_owned()),
        ..SessionQuery::default()
    };
    let empty = page(&test, &oldest_first).await;
    assert_eq!(empty.sessions, []);
    let after = empty.next.expect("the list continues");
    let rest = page(
        &test,
        &SessionQuery {
            after: Some(after),
            ..oldest_first.clone()
        },
    )
    .await;
    assert_eq!((rest.sessions.len(), rest.next), (1, None));

    let newest_first = SessionQuery {
        order: SessionOrder::NewestFirst,
        ..oldest_first
    };
    let short = page(&test, &newest_first).await;
    assert_eq!(short.sessions, rest.sessions);
    assert!(short.next.is_some(), "one session was not read");
}

#[tokio::test]
async fn finishing_sessions_are_found_by_their_index() {
    let test = TestLedger::new();
    start_many(&test, MAX_SESSIONS_READ_PER_PAGE).await;
    test.start(u8::MAX).await.unwrap();
    let held = test.ledger.lease(id(u8::MAX)).await.unwrap().unwrap().lease;
    let all_bytes = OffsetCommit {
        state: SessionState::Finishing,
        ..append(0, 1)
    };
    let commit = test.ledger.commit_offset(id(u8::MAX), held, all_bytes);
    commit.await.unwrap();
    let finishing = SessionQuery {
        state: Some(SessionState::Finishing),
        ..SessionQuery::default()
    };
    let found = page(&test, &finishing).await;
    assert_eq!((found.sessions.len(), found.next), (1, None));
}

#[test]
fn no_page_sorts_or_scans_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let (_, connection) = new_database(&dir);
    for order in [SessionOrder::OldestFirst, SessionOrder::NewestFirst] {
        let indexes = [
            (None, "sqlite_autoindex_sessions_1"),
            (Some(SessionState::Active), "sqlite_autoindex_sessions_1"),
            (Some(SessionState::Finishing), "sessions_finishing"),
        ];
        for (state, index) in indexes {
            let query = SessionQuery {
                state,
                order,
                ..SessionQuery::default()
            };
            let sql = format!("EXPLAIN QUERY PLAN {}", session_list_sql(&query));
            let mut statement = connection.prepare(&sql).unwrap();
            let steps = statement.query_map(params![vec![0_u8; 32], 1], |row| row.get("detail"));
            let steps: Vec<String> = steps.unwrap().map(Result::unwrap).collect();
            let [step] = &steps[..] else {
                panic!("{steps:?}")
            };
            let search = format!("SEARCH sessions USING INDEX {index} (id");
            assert!(step.starts_with(&search), "{query:?}: {step}");
        }
    }
}

#[tokio::test]
async fn an_unreadable_row_is_left_out_of_a_list() {
    let test = TestLedger::new();
    for n in 1..=4 {
        test.start(n).await.unwrap();
    }
    let damage = |connection: &rusqlite::Connection| {
        connection.execute_batch(
            "UPDATE sessions SET state = 9 WHERE context = x'01';
             UPDATE sessions SET id = x'02' WHERE context = x'02';
             UPDATE sessions SET dialect = CAST(x'ff' AS TEXT) WHERE context = x'03'",
        )
    };
    test.do_any(damage).await.unwrap();
    let listed = page(&test, &SessionQuery::default()).await;
    let listed: Vec<_> = listed.sessions.iter().map(|session| session.id).collect();
    assert_eq!(listed, [id(4)]);
    assert!(test.ledger.check().await.is_ok());
}
