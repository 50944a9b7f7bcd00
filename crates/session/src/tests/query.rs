use super::*;

#[track_caller]
fn check(table: &[(Snapshot, &str, Result<Step, SessionError>)]) {
    for (snapshot, range, expected) in table {
        for body in [BodyLength::Exact(0), BodyLength::Unknown] {
            let found = step(snapshot, &Rules::default(), &request(range, body));
            assert_eq!(found, *expected, "{range} on {snapshot:?}");
        }
    }
}

#[test]
fn query_reports_the_committed_bytes() {
    check(&[
        (active(0, None), "bytes */*", Ok(Step::Report)),
        (active(43, None), "bytes */*", Ok(Step::Report)),
        (active(43, Some(100)), "bytes */*", Ok(Step::Report)),
        (active(43, Some(100)), "bytes */100", Ok(Step::Report)),
        (active(43, None), "bytes */100", Ok(Step::Report)),
    ]);
}

#[test]
fn query_with_another_total_changes_nothing() {
    check(&[
        (
            active(2 * Q, Some(3 * Q)),
            "bytes */262144",
            Ok(Step::Report),
        ),
        (active(Q, Some(3 * Q)), "bytes */524288", Ok(Step::Report)),
        (
            active(3 * Q, Some(3 * Q)),
            "bytes */524288",
            Ok(Step::Report),
        ),
    ]);
}

#[test]
fn query_with_the_committed_size_finishes() {
    check(&[
        (
            active(Q, None),
            "bytes */262144",
            Ok(Step::Finish { total: Q }),
        ),
        (
            active(Q, Some(Q)),
            "bytes */262144",
            Ok(Step::Finish { total: Q }),
        ),
        (active(0, None), "bytes */0", Ok(Step::Finish { total: 0 })),
        (
            active(0, None),
            "bytes 0--1/0",
            Ok(Step::Finish { total: 0 }),
        ),
        (
            active(Q, None),
            "bytes 262144-262143/262144",
            Ok(Step::Finish { total: Q }),
        ),
    ]);
}

#[test]
fn open_query_finishes_when_the_known_total_is_committed() {
    check(&[(
        active(Q, Some(Q)),
        "bytes */*",
        Ok(Step::Finish { total: Q }),
    )]);
}

#[test]
fn finish_below_the_declared_size_is_refused_and_session_continues() {
    let truncated = |stated, known| SessionError::Truncated { stated, known };
    check(&[
        (
            active(Q, Some(2 * Q)),
            "bytes */262144",
            Err(truncated(Q, 2 * Q)),
        ),
        (active(0, Some(100)), "bytes */0", Err(truncated(0, 100))),
    ]);
    assert!(!truncated(Q, 2 * Q).ends_session());
}

#[test]
fn query_with_a_body_is_refused() {
    for range in ["bytes */*", "bytes */10", "bytes 0--1/0"] {
        let found = step(
            &active(10, None),
            &Rules::default(),
            &request(range, BodyLength::Exact(1)),
        );
        assert_eq!(found, Err(SessionError::QueryWithBody), "{range}");
    }
    assert!(!SessionError::QueryWithBody.ends_session());
}
