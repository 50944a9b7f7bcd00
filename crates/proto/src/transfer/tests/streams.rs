use super::*;

/// Provides the requested bytes of a stream of `len` bytes. Returns whether any were requested.
fn fill(transfer: &mut Transfer, len: u64) -> bool {
    let Action::Fill { upto } = transfer.poll() else {
        return false;
    };
    transfer.filled(upto.min(len), upto > len);
    true
}

/// Returns the `Content-Range` of every request that uploads a stream of `len` bytes.
fn ranges(plan: Plan, len: u64) -> Vec<String> {
    let mut transfer = in_session(plan);
    let mut ranges = Vec::new();
    for _ in 0..100 {
        while fill(&mut transfer, len) {}
        let Action::Send(Request::Data(chunk)) = transfer.poll() else {
            break;
        };
        ranges.push(content_range(&transfer));
        let reply = match chunk.total {
            Some(total) if total == chunk.end => answer(200),
            _ => incomplete(chunk.end),
        };
        reply.to(&mut transfer);
    }
    assert_eq!(transfer.poll(), Action::Finished);
    ranges
}

fn unknown() -> Plan {
    Plan::resumable(Media::streamed(None)).with_chunking(fixed(1))
}

#[test]
fn chunk_is_sent_when_one_byte_more_is_buffered() {
    let mut transfer = in_session(unknown());
    assert_eq!(transfer.poll(), Action::Fill { upto: Q + 1 });
    transfer.filled(Q, false);
    assert_eq!(transfer.poll(), Action::Fill { upto: Q + 1 });
    transfer.filled(Q + 1, false);
    assert_eq!(content_range(&transfer), "bytes 0-262143/*");
}

#[test]
fn last_chunk_of_an_unknown_size_states_the_total() {
    assert_eq!(
        ranges(unknown(), Q + 1),
        ["bytes 0-262143/*", "bytes 262144-262144/262145"]
    );
}

#[test]
fn whole_number_of_chunks_states_the_total_in_the_last() {
    assert_eq!(ranges(unknown(), Q), ["bytes 0-262143/262144"]);
    assert_eq!(
        ranges(unknown(), 2 * Q),
        ["bytes 0-262143/*", "bytes 262144-524287/524288"]
    );
}

#[test]
fn stream_shorter_than_a_chunk_is_one_request() {
    assert_eq!(ranges(unknown(), 1), ["bytes 0-0/1"]);
    assert_eq!(ranges(unknown(), Q - 1), ["bytes 0-262142/262143"]);
}

#[test]
fn empty_stream_is_one_empty_request() {
    assert_eq!(ranges(unknown(), 0), ["bytes */0"]);
}

#[test]
fn known_size_is_stated_in_every_chunk() {
    let plan = Plan::resumable(Media::streamed(Some(2 * Q))).with_chunking(fixed(1));
    assert_eq!(
        ranges(plan, 2 * Q),
        ["bytes 0-262143/524288", "bytes 262144-524287/524288"]
    );
}

#[test]
fn stream_is_chunked_by_default() {
    let plan = Plan::resumable(Media::streamed(None));
    assert_eq!(
        ranges(plan, 64 * Q),
        ["bytes 0-8388607/*", "bytes 8388608-16777215/16777216"]
    );
}

#[test]
fn query_states_a_total_only_when_it_is_known() {
    let mut transfer = in_session(unknown());
    fill(&mut transfer, 2 * Q);
    transfer.broke(0);
    transfer.waited();
    assert_eq!(content_range(&transfer), "bytes */*");
    incomplete(Q).to(&mut transfer);
    fill(&mut transfer, 2 * Q);
    assert_eq!(transfer.total(), Some(2 * Q));
    transfer.broke(0);
    transfer.waited();
    assert_eq!(content_range(&transfer), "bytes */524288");
}

#[test]
fn fully_buffered_stream_can_rewind_and_restart() {
    let mut transfer = in_session(unknown());
    fill(&mut transfer, 2 * Q);
    incomplete(Q).to(&mut transfer);
    fill(&mut transfer, 2 * Q);
    transfer.broke(0);
    transfer.waited();
    incomplete(5).to(&mut transfer);
    assert_eq!(
        content_range(&transfer),
        format!("bytes 5-262148/{}", 2 * Q)
    );
    answer(404).to(&mut transfer);
    session_start().to(&mut transfer);
    assert_eq!(
        content_range(&transfer),
        format!("bytes 0-262143/{}", 2 * Q)
    );
    assert_eq!(transfer.kept_from(), 0);
}

#[test]
fn no_request_exceeds_the_window() {
    for chunking in [Chunking::Adaptive, fixed(8)] {
        let media = Media::streamed(None).with_window(2 * Q + 17);
        let plan = Plan::resumable(media).with_chunking(chunking);
        assert_eq!(
            ranges(plan, 3 * Q),
            ["bytes 0-524287/*", "bytes 524288-786431/786432"]
        );
    }
}

#[test]
fn window_is_at_least_256_kib() {
    let plan = Plan::resumable(Media::streamed(None).with_window(1));
    let mut transfer = in_session(plan);
    assert_eq!(transfer.poll(), Action::Fill { upto: Q + 1 });
    fill(&mut transfer, 2 * Q);
    assert_eq!(content_range(&transfer), "bytes 0-262143/*");
}

/// Returns a windowed transfer of three chunks, the first of which is committed.
fn windowed() -> Transfer {
    let plan = Plan::resumable(Media::streamed(None).with_window(Q));
    let mut transfer = in_session(plan);
    fill(&mut transfer, 3 * Q);
    incomplete(Q).to(&mut transfer);
    transfer
}

#[test]
fn window_keeps_uncommitted_bytes() {
    let mut transfer = windowed();
    assert_eq!(transfer.kept_from(), Q);
    assert_eq!(transfer.poll(), Action::Fill { upto: 2 * Q + 1 });
    fill(&mut transfer, 3 * Q);
    transfer.broke(0);
    transfer.waited();
    incomplete(Q + 1).to(&mut transfer);
    assert_eq!(transfer.kept_from(), Q + 1);
}

#[test]
fn rewinding_before_the_window_fails() {
    let forgotten = |committed| Failure::SessionRewound {
        committed,
        kept_from: Q,
    };
    let mut transfer = windowed();
    fill(&mut transfer, 3 * Q);
    incomplete(Q - 1).to(&mut transfer);
    assert_eq!(failure(&transfer), forgotten(Q - 1));
    assert!(failure(&transfer).session_survives());

    let mut transfer = windowed();
    fill(&mut transfer, 3 * Q);
    incomplete(0).to(&mut transfer);
    assert_eq!(failure(&transfer), forgotten(0));
}

#[test]
fn session_lost_after_the_window_moved_is_not_replaced() {
    let mut transfer = windowed();
    fill(&mut transfer, 3 * Q);
    assert_eq!(answer(404).to(&mut transfer), Event::Nothing);
    assert!(matches!(failure(&transfer), Failure::SessionRewound { .. }));
    assert!(!failure(&transfer).session_survives());
}

#[test]
fn session_lost_before_the_window_moves_is_replaced() {
    let plan = Plan::resumable(Media::streamed(None).with_window(Q));
    let mut transfer = in_session(plan);
    fill(&mut transfer, 3 * Q);
    assert_eq!(answer(404).to(&mut transfer), Event::Lost);
}

#[test]
fn resumed_stream_begins_at_the_committed_offset() {
    let plan = Plan::resumable(Media::streamed(None).with_window(Q));
    let mut transfer = Transfer::resume(plan);
    assert_eq!(content_range(&transfer), "bytes */*");
    incomplete(2 * Q).to(&mut transfer);
    assert_eq!(transfer.kept_from(), 2 * Q);
    assert_eq!(transfer.poll(), Action::Fill { upto: 3 * Q + 1 });
    fill(&mut transfer, 3 * Q);
    assert_eq!(content_range(&transfer), "bytes 524288-786431/786432");
}
