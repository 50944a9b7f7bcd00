use super::*;

/// Far more than the largest chunk.
const HUGE: u64 = 4096 * Q;

fn huge() -> Transfer {
    in_session(Plan::resumable(Media::seekable(HUGE)))
}

#[track_caller]
fn chunk(transfer: &Transfer) -> Chunk {
    match request(transfer) {
        Request::Data(chunk) => chunk,
        other => panic!("{other:?} brings nothing"),
    }
}

/// Breaks the request after `kept` of its bytes are committed.
#[track_caller]
fn breaks(transfer: &mut Transfer, kept: u64) {
    let first = chunk(transfer).first;
    transfer.broke(0);
    transfer.waited();
    incomplete(first + kept).to(transfer);
}

#[track_caller]
fn succeeds(transfer: &mut Transfer) {
    let end = chunk(transfer).end;
    incomplete(end).to(transfer);
}

#[test]
fn all_bytes_are_sent_in_one_request_while_none_breaks() {
    let mut transfer = huge();
    assert_eq!(chunk(&transfer).len(), HUGE);
    breaks(&mut transfer, 40 * Q);
    assert_eq!(
        chunk(&transfer).len(),
        HUGE - 40 * Q,
        "one break changes nothing"
    );
}

#[test]
fn two_consecutive_breaks_make_chunks_of_half_the_committed_bytes() {
    let mut transfer = huge();
    breaks(&mut transfer, 40 * Q);
    breaks(&mut transfer, 41 * Q + 77);
    assert_eq!(chunk(&transfer).len(), 20 * Q);
}

#[test]
fn chunks_shrink_to_the_smallest_while_nothing_is_committed() {
    let mut transfer = huge();
    breaks(&mut transfer, Q);
    breaks(&mut transfer, 0);
    let mut sizes = vec![chunk(&transfer).len()];
    for _ in 0..3 {
        breaks(&mut transfer, 0);
        sizes.push(chunk(&transfer).len());
    }
    assert_eq!(sizes, [64 * Q, 16 * Q, 4 * Q, Q]);
    breaks(&mut transfer, 0);
    assert_eq!(chunk(&transfer).len(), Q);
}

#[test]
fn every_chunk_size_is_a_multiple_of_256_kib_at_any_break() {
    for kept in [1, 1000, Q - 1, Q + 1, 3 * Q, 7 * Q - 1, 99 * Q + 5] {
        let mut transfer = huge();
        breaks(&mut transfer, kept);
        breaks(&mut transfer, kept);
        let len = chunk(&transfer).len();
        assert!(
            len > 0 && len.is_multiple_of(Q) && len <= kept.max(2 * Q) / 2,
            "{kept}: {len}"
        );
    }
}

#[test]
fn reply_resets_the_count_of_breaks() {
    let mut transfer = huge();
    breaks(&mut transfer, Q);
    breaks(&mut transfer, 16 * Q);
    assert_eq!(chunk(&transfer).len(), 8 * Q);
    succeeds(&mut transfer);
    breaks(&mut transfer, Q);
    assert_eq!(chunk(&transfer).len(), 16 * Q, "one break changes nothing");
}

#[test]
fn chunks_grow_while_they_succeed_up_to_one_request() {
    let mut transfer = huge();
    breaks(&mut transfer, Q);
    breaks(&mut transfer, 1);
    let mut multiples = Vec::new();
    for _ in 0..9 {
        multiples.push(chunk(&transfer).len() / Q);
        succeeds(&mut transfer);
    }
    assert_eq!(multiples, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    assert_eq!(chunk(&transfer).end, HUGE);
}

#[test]
fn chunks_do_not_exceed_what_the_server_keeps() {
    let mut transfer = huge();
    breaks(&mut transfer, Q);
    breaks(&mut transfer, 8 * Q);
    let first = chunk(&transfer).first;
    incomplete(first + Q).to(&mut transfer);
    for _ in 0..3 {
        assert_eq!(chunk(&transfer).len(), Q);
        succeeds(&mut transfer);
    }
}

#[test]
fn server_that_keeps_a_part_of_a_request_gets_chunks_of_that_size() {
    let mut transfer = huge();
    incomplete(4 * Q).to(&mut transfer);
    assert_eq!(chunk(&transfer).len(), 4 * Q);
}

#[test]
fn almost_no_progress_backs_off() {
    let mut transfer = huge();
    incomplete(1).to(&mut transfer);
    assert_eq!(wait(&transfer).cause, Cause::Stalled);
}

#[test]
fn refusal_during_the_body_counts_as_a_break() {
    let mut transfer = huge();
    for _ in 0..2 {
        answer(503).to(&mut transfer);
        transfer.waited();
        incomplete(0).to(&mut transfer);
    }
    assert_eq!(chunk(&transfer).len(), 64 * Q);
}

#[test]
fn broken_query_does_not_count_as_a_break_of_data() {
    let mut transfer = huge();
    transfer.broke(0);
    transfer.waited();
    transfer.broke(0);
    transfer.waited();
    incomplete(Q).to(&mut transfer);
    assert_eq!(chunk(&transfer).end, HUGE);
}

#[test]
fn fixed_chunk_size_does_not_change() {
    let plan = Plan::resumable(Media::seekable(HUGE)).with_chunking(fixed(3));
    let mut transfer = in_session(plan);
    for _ in 0..3 {
        breaks(&mut transfer, Q);
        assert_eq!(chunk(&transfer).len(), 3 * Q);
    }
    for _ in 0..3 {
        succeeds(&mut transfer);
        assert_eq!(chunk(&transfer).len(), 3 * Q);
    }
}

#[test]
fn chunk_size_over_the_media_size_is_one_request() {
    let transfer = in_session(seekable().with_chunking(fixed(100)));
    assert_eq!(chunk(&transfer).len(), LEN);
}
