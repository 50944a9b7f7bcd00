use super::*;

#[track_caller]
fn refused(snapshot: Snapshot, range: &str, expected: SessionError, ends_session: bool) {
    assert_eq!(
        ranged(snapshot, range),
        Err(expected),
        "{range} on {snapshot:?}"
    );
    assert_eq!(expected.ends_session(), ends_session, "{expected:?}");
}

#[test]
fn next_chunk_is_stored_and_reported() {
    let filter = filter(ranged(active(Q, None), "bytes 262144-524287/*"));
    assert_eq!((filter.total(), filter.remaining_hint()), (None, Some(Q)));
    assert_eq!(send(filter, Q), (Q, Ok(Outcome::Committed)));
}

#[test]
fn last_chunk_of_any_size_finishes() {
    let filter = filter(ranged(active(Q, None), "bytes 262144-262150/262151"));
    assert_eq!(
        (filter.total(), filter.remaining_hint()),
        (Some(Q + 7), Some(7))
    );
    assert_eq!(send(filter, 7), (7, Ok(Outcome::Finished { total: Q + 7 })));
}

#[test]
fn chunk_that_reaches_the_declared_size_is_the_last() {
    let filter = filter(ranged(active(Q, Some(Q + 7)), "bytes 262144-262150/*"));
    assert_eq!(send(filter, 7), (7, Ok(Outcome::Finished { total: Q + 7 })));
}

#[test]
fn repeated_bytes_are_skipped() {
    let filter = filter(ranged(active(Q + 10, None), "bytes 0-524287/*"));
    assert_eq!(filter.remaining_hint(), Some(Q - 10));
    assert_eq!(send(filter, 2 * Q), (Q - 10, Ok(Outcome::Committed)));
}

#[test]
fn chunk_without_new_bytes_is_reported() {
    for (range, len) in [
        ("bytes 0-262143/*", Q),
        ("bytes 0-9/*", 10),
        ("bytes 524280-524287/*", 8),
        ("bytes 262144-524287/600000", Q),
    ] {
        let filter = filter(ranged(active(2 * Q, None), range));
        assert_eq!(filter.remaining_hint(), Some(0));
        assert_eq!(send(filter, len), (0, Ok(Outcome::Committed)), "{range}");
    }
}

#[test]
fn repeated_last_chunk_finishes_without_new_bytes() {
    let filter = filter(ranged(active(Q + 7, None), "bytes 262144-262150/262151"));
    assert_eq!(send(filter, 7), (0, Ok(Outcome::Finished { total: Q + 7 })));
}

#[test]
fn gap_is_refused_with_the_text_that_clients_match() {
    let gap = SessionError::Gap {
        first: 2 * Q,
        committed: Q,
    };
    refused(active(Q, None), "bytes 524288-786431/*", gap, false);
    refused(active(Q, None), "bytes 524288-*/*", gap, false);
    assert_eq!(
        gap.to_string(),
        "Invalid request.  According to the Content-Range header, the upload offset is 524288 byte(s), \
         which exceeds already uploaded size of 262144 byte(s)."
    );
}

#[test]
fn small_chunk_after_a_gap_is_refused_as_a_gap() {
    refused(
        active(Q, None),
        "bytes 524288-524290/*",
        SessionError::Gap {
            first: 2 * Q,
            committed: Q,
        },
        false,
    );
}

#[test]
fn small_chunk_that_is_not_the_last_ends_the_session() {
    let small = |length| SessionError::ChunkTooSmall { length };
    refused(active(0, None), "bytes 0-262142/*", small(Q - 1), true);
    refused(active(0, None), "bytes 0-0/2", small(1), true);
    refused(
        active(Q, Some(3 * Q)),
        "bytes 262144-262145/*",
        small(2),
        true,
    );
    assert!(small(1).to_string().contains("at least 262144 bytes"));
}

#[test]
fn bytes_of_a_chunk_beyond_a_multiple_are_dropped() {
    let table = [
        ("bytes 0-262156/*", 0, Q + 13, Q),
        ("bytes 0-2499999/3000000", 0, 2_500_000, 9 * Q),
    ];
    for (range, offset, length, stored) in table {
        let filter = filter(ranged(active(offset, None), range));
        assert_eq!(filter.remaining_hint(), Some(stored), "{range}");
        assert_eq!(
            send(filter, length),
            (stored, Ok(Outcome::Committed)),
            "{range}"
        );
    }
}

#[test]
fn chunk_rule_applies_to_the_length_and_not_the_offset() {
    let filter = filter(ranged(active(43, None), "bytes 43-262186/300000"));
    assert_eq!(send(filter, Q), (Q, Ok(Outcome::Committed)));
}

#[test]
fn dropped_bytes_never_reduce_committed_bytes() {
    let filter = filter(ranged(active(Q + 10, None), "bytes 0-262163/*"));
    assert_eq!(send(filter, Q + 20), (0, Ok(Outcome::Committed)));
}

#[test]
fn lenient_rule_stores_any_chunk() {
    let rules = Rules::default().with_chunks(ChunkRule::Lenient);
    for (range, length) in [("bytes 0-9/*", 10), ("bytes 0-262156/*", Q + 13)] {
        let filter = filter(step(
            &active(0, None),
            &rules,
            &request(range, BodyLength::Exact(length)),
        ));
        assert_eq!(
            send(filter, length),
            (length, Ok(Outcome::Committed)),
            "{range}"
        );
    }
}

#[test]
fn data_request_with_another_total_ends_the_session() {
    let changed = |stated, known| SessionError::TotalChanged { stated, known };
    refused(
        active(0, Some(3 * Q)),
        "bytes 0-262143/524288",
        changed(2 * Q, 3 * Q),
        true,
    );
    refused(
        active(0, Some(3 * Q)),
        "bytes 0-*/524288",
        changed(2 * Q, 3 * Q),
        true,
    );
}

#[test]
fn range_past_the_declared_size_is_refused_before_its_body() {
    let past = SessionError::PastTotal {
        end: 2 * Q,
        total: Q + 5,
    };
    refused(active(0, Some(Q + 5)), "bytes 0-524287/*", past, false);
}

#[test]
fn total_below_the_committed_bytes_is_refused_and_session_continues() {
    let below = SessionError::EndsBeforeCommitted {
        total: Q,
        committed: 2 * Q,
    };
    refused(active(2 * Q, None), "bytes 0-262143/262144", below, false);
    refused(active(2 * Q, None), "bytes 0-*/262144", below, false);
}

#[test]
fn malformed_range_ends_the_session() {
    refused(active(0, None), "*/*", ContentRangeError::Unit.into(), true);
    let inverted = ContentRangeError::Inverted {
        first: Q,
        last: 37_855,
    };
    refused(
        active(Q, None),
        "bytes 262144-37855/300000",
        inverted.into(),
        true,
    );
}

#[test]
fn length_that_disagrees_with_the_range_is_refused_before_the_body() {
    for body in [Q - 1, Q + 1] {
        let found = step(
            &active(0, None),
            &Rules::default(),
            &request("bytes 0-262143/*", BodyLength::Exact(body)),
        );
        let error = SessionError::LengthDisagrees {
            body,
            expected: Q,
            first: 0,
        };
        assert_eq!(found, Err(error));
        assert!(!error.ends_session());
    }
}

#[test]
fn body_of_unknown_length_must_match_its_range() {
    let filter = || filter(ranged(active(0, None), "bytes 0-262143/*"));
    let short = SessionError::LengthDisagrees {
        body: Q - 1,
        expected: Q,
        first: 0,
    };
    assert_eq!(send(filter(), Q - 1), (Q - 1, Err(short)));
    let long = SessionError::LengthDisagrees {
        body: Q + 1,
        expected: Q,
        first: 0,
    };
    assert_eq!(send(filter(), Q + 1), (0, Err(long)));
}

#[test]
fn broken_connection_keeps_the_received_bytes() {
    let mut filter = filter(ranged(active(0, None), "bytes 0-262143/262144"));
    assert_eq!(
        filter
            .accept(Bytes::from_static(b"abc"))
            .expect("it fits")
            .len(),
        3
    );
    assert_eq!(filter.remaining_hint(), Some(Q - 3));
    assert_eq!(filter.end(Ending::Broken), Ok(Outcome::Interrupted));
}
