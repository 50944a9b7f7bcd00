use super::*;

#[test]
fn every_form_of_range_is_parsed() {
    for (range, committed) in [
        ("bytes=0-42", 43),
        ("bytes 0-42", 43),
        ("0-42", 43),
        ("BYTES=0-0", 1),
    ] {
        let mut transfer = querying();
        let event = ranged(range).to(&mut transfer);
        assert_eq!(event, Event::Committed { offset: committed }, "{range}");
        assert_eq!(
            content_range(&transfer),
            format!("bytes {committed}-{}/{LEN}", LEN - 1)
        );
    }
}

#[test]
fn missing_range_means_zero_committed_bytes() {
    let mut transfer = querying();
    assert_eq!(
        incomplete(0).to(&mut transfer),
        Event::Committed { offset: 0 }
    );
    assert_eq!(
        content_range(&transfer),
        format!("bytes 0-{}/{LEN}", LEN - 1)
    );
}

#[test]
fn malformed_range_is_unexpected_and_changes_nothing() {
    for range in [
        "",
        "bytes=1-42",
        "bytes=0-",
        "bytes=0--1",
        "bytes=0-42/100",
        "bytes=0-18446744073709551615",
        "items=0-42",
    ] {
        let mut transfer = querying();
        incomplete(Q).to(&mut transfer);
        assert_eq!(ranged(range).to(&mut transfer), Event::Nothing, "{range}");
        assert_eq!(transfer.committed(), Q);
        assert_eq!(wait(&transfer).of, 10, "{range}");
        transfer.waited();
        assert_eq!(content_range(&transfer), format!("bytes */{LEN}"));
    }
}

#[test]
fn next_chunk_begins_at_the_committed_offset() {
    let mut transfer = in_session(seekable().with_chunking(fixed(2)));
    assert_eq!(content_range(&transfer), format!("bytes 0-524287/{LEN}"));
    // Less than was sent, and not a multiple of 256 KiB.
    let kept = Q + 43;
    incomplete(kept).to(&mut transfer);
    let (next, last) = (kept + 2 * Q, LEN - 1);
    let end = last.min(next - 1);
    assert_eq!(
        content_range(&transfer),
        format!("bytes {kept}-{end}/{LEN}")
    );
    incomplete(next).to(&mut transfer);
    assert_eq!(
        content_range(&transfer),
        format!("bytes {next}-{last}/{LEN}")
    );
    answer(201).to(&mut transfer);
    assert_eq!(transfer.poll(), Action::Finished);
}

#[test]
fn query_with_a_lower_offset_resends_from_there() {
    let mut transfer = in_session(seekable().with_chunking(fixed(8)));
    incomplete(2 * Q).to(&mut transfer);
    transfer.broke(0);
    transfer.waited();
    let event = incomplete(Q).to(&mut transfer);
    assert_eq!(event, Event::Committed { offset: Q });
    assert_eq!(
        content_range(&transfer),
        format!("bytes {Q}-{}/{LEN}", LEN - 1)
    );
}

#[test]
fn chunk_without_committed_bytes_backs_off_and_queries() {
    let mut transfer = in_session(seekable().with_chunking(fixed(1)));
    incomplete(Q).to(&mut transfer);
    for committed in [Q, 5, 0] {
        let event = incomplete(committed).to(&mut transfer);
        assert_eq!(event, Event::Committed { offset: committed });
        assert_eq!(wait(&transfer).cause, Cause::Stalled);
        transfer.waited();
        assert_eq!(content_range(&transfer), format!("bytes */{LEN}"));
        incomplete(Q).to(&mut transfer);
    }
}

#[test]
fn server_that_commits_nothing_is_given_up() {
    let mut transfer = sending();
    let (requests, failure) = run_until_failure(&mut transfer, |transfer| {
        incomplete(0).to(transfer);
    });
    assert_eq!(
        requests, 11,
        "six times the data, and the question in between"
    );
    assert!(matches!(
        failure,
        Failure::GaveUp {
            cause: Cause::Stalled,
            tries: 6,
            ..
        }
    ));
}

#[test]
fn offset_beyond_the_sent_bytes_fails() {
    let mut transfer = in_session(seekable().with_chunking(fixed(1)));
    incomplete(Q + 1).to(&mut transfer);
    assert_eq!(
        failure(&transfer),
        Failure::OffsetBeyondSent {
            committed: Q + 1,
            sent: Q
        }
    );
}

#[test]
fn offset_within_an_earlier_larger_request_is_accepted() {
    // The server may still read the first request when later chunks are smaller.
    let mut transfer = querying();
    incomplete(0).to(&mut transfer);
    transfer.broke(0);
    transfer.waited();
    incomplete(0).to(&mut transfer);
    assert_eq!(content_range(&transfer), format!("bytes 0-{}/{LEN}", Q - 1));
    incomplete(3 * Q).to(&mut transfer);
    assert_eq!(
        content_range(&transfer),
        format!("bytes {}-{}/{LEN}", 3 * Q, LEN - 1)
    );
}

#[test]
fn upload_finished_before_its_last_byte_is_sent_fails() {
    let mut transfer = in_session(seekable().with_chunking(fixed(1)));
    answer(200).to(&mut transfer);
    // The reply may belong to another request, so the session is queried.
    transfer.waited();
    assert_eq!(content_range(&transfer), format!("bytes */{LEN}"));
    answer(200).to(&mut transfer);
    assert_eq!(failure(&transfer), Failure::PrematureSuccess { sent: Q });
}

#[test]
fn upload_with_its_last_byte_sent_may_finish_with_any_request() {
    let mut transfer = sending();
    for _ in 0..2 {
        transfer.broke(0);
        transfer.waited();
        incomplete(0).to(&mut transfer);
    }
    assert_eq!(content_range(&transfer), format!("bytes 0-{}/{LEN}", Q - 1));
    assert_eq!(answer(200).to(&mut transfer), Event::Finished);
}

#[test]
fn all_bytes_committed_without_an_end_are_finished_by_an_empty_request() {
    let mut transfer = sending();
    incomplete(LEN).to(&mut transfer);
    let Request::Data(chunk) = request(&transfer) else {
        panic!("it only asks")
    };
    assert!(chunk.is_empty());
    assert_eq!(content_range(&transfer), format!("bytes */{LEN}"));
    assert_eq!(answer(200).to(&mut transfer), Event::Finished);
}

#[test]
fn empty_media_is_one_empty_request() {
    let mut transfer = in_session(Plan::resumable(Media::seekable(0)));
    assert_eq!(content_range(&transfer), "bytes */0");
    transfer.broke(0);
    transfer.waited();
    assert_eq!(
        request(&transfer),
        Request::Query { total: Some(0) },
        "which says the same"
    );
    assert_eq!(content_range(&transfer), "bytes */0");
    assert_eq!(answer(201).to(&mut transfer), Event::Finished);
}
