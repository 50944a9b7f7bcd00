use super::*;

#[test]
fn session_starts_at_its_location() {
    let mut transfer = Transfer::start(seekable());
    assert_eq!(transfer.poll(), Action::Send(Request::Start));
    let location = SESSION_URI.to_owned();
    assert_eq!(
        session_start().to(&mut transfer),
        Event::Started { location }
    );
    assert_eq!(
        content_range(&transfer),
        format!("bytes 0-{}/{LEN}", LEN - 1)
    );
}

#[test]
fn any_success_with_a_location_starts_a_session() {
    for status in [200, 201, 204] {
        let mut transfer = Transfer::start(seekable());
        let location = HeaderValue::from_static(" /u?upload_id=x ");
        let event = answer(status).with(LOCATION, location).to(&mut transfer);
        let location = "/u?upload_id=x".to_owned();
        assert_eq!(event, Event::Started { location });
    }
}

#[test]
fn empty_location_starts_no_session() {
    let mut transfer = Transfer::start(seekable());
    let event = answer(200)
        .with(LOCATION, HeaderValue::from_static(" "))
        .to(&mut transfer);
    assert_eq!(event, Event::Nothing);
    assert!(matches!(
        failure(&transfer),
        Failure::Unexpected { tries: 1, .. }
    ));
}

#[test]
fn failed_start_is_repeated() {
    let mut transfer = Transfer::start(seekable());
    transfer.broke(0);
    transfer.waited();
    assert_eq!(transfer.poll(), Action::Send(Request::Start));
    answer(503).to(&mut transfer);
    transfer.waited();
    assert_eq!(transfer.poll(), Action::Send(Request::Start));
}

#[test]
fn failure_in_a_session_is_followed_by_a_query() {
    let broke = |transfer: &mut Transfer| transfer.broke(0);
    let overload = |transfer: &mut Transfer| {
        answer(502).to(transfer);
    };
    let page = |transfer: &mut Transfer| {
        page(200).to(transfer);
    };
    let meetings: [fn(&mut Transfer); 3] = [broke, overload, page];
    for meet in meetings {
        let mut transfer = sending();
        for _ in 0..3 {
            meet(&mut transfer);
            transfer.waited();
            assert_eq!(request(&transfer), Request::Query { total: Some(LEN) });
        }
    }
}

#[test]
fn lost_session_restarts_from_the_first_byte() {
    for status in [404, 410] {
        let mut transfer = querying();
        incomplete(2 * Q).to(&mut transfer);
        assert_eq!(answer(status).to(&mut transfer), Event::Lost);
        assert_eq!(transfer.poll(), Action::Send(Request::Start));
        assert_eq!((transfer.restarts(), transfer.committed()), (1, 0));
        session_start().to(&mut transfer);
        assert_eq!(
            content_range(&transfer),
            format!("bytes 0-{}/{LEN}", LEN - 1)
        );
    }
}

#[test]
fn bytes_sent_to_a_lost_session_do_not_count() {
    let mut transfer = in_session(seekable().with_chunking(fixed(1)));
    incomplete(Q).to(&mut transfer);
    incomplete(2 * Q).to(&mut transfer);
    answer(404).to(&mut transfer);
    session_start().to(&mut transfer);
    incomplete(2 * Q).to(&mut transfer);
    let beyond = Failure::OffsetBeyondSent {
        committed: 2 * Q,
        sent: Q,
    };
    assert_eq!(failure(&transfer), beyond);
}

#[test]
fn end_sent_to_a_lost_session_does_not_count() {
    let mut transfer = sending();
    // All bytes were sent twice, so chunks are used now.
    for _ in 0..2 {
        transfer.broke(0);
        transfer.waited();
        incomplete(0).to(&mut transfer);
    }
    answer(410).to(&mut transfer);
    session_start().to(&mut transfer);
    answer(200).to(&mut transfer);
    transfer.waited();
    answer(200).to(&mut transfer);
    assert_eq!(failure(&transfer), Failure::PrematureSuccess { sent: Q });
}

#[test]
fn progress_of_a_lost_session_does_not_count() {
    let mut transfer = in_session(seekable().with_chunking(fixed(1)));
    incomplete(Q).to(&mut transfer);
    incomplete(2 * Q).to(&mut transfer);
    transfer.broke(0);
    transfer.waited();
    answer(404).to(&mut transfer);
    session_start().to(&mut transfer);
    incomplete(Q).to(&mut transfer);
    transfer.broke(0);
    assert_eq!(wait(&transfer).attempt, 2, "the wait before is forgotten");
}

#[test]
fn fourth_lost_session_fails() {
    let mut transfer = sending();
    let mut restarts = 0;
    let (requests, failure) = run_until_failure(&mut transfer, |transfer| {
        if matches!(request(transfer), Request::Start) {
            session_start().to(transfer);
            restarts += 1;
        } else {
            answer(410).to(transfer);
        }
    });
    assert_eq!((restarts, requests), (3, 7));
    let expected = Failure::SessionsLost {
        restarts: 3,
        status: StatusCode::GONE,
    };
    assert_eq!(failure, expected);
}

#[test]
fn progress_does_not_reset_the_count_of_restarts() {
    let mut transfer = sending();
    for _ in 0..3 {
        incomplete(Q).to(&mut transfer);
        answer(404).to(&mut transfer);
        session_start().to(&mut transfer);
    }
    incomplete(Q).to(&mut transfer);
    answer(404).to(&mut transfer);
    assert!(matches!(failure(&transfer), Failure::SessionsLost { .. }));
}

#[test]
fn cancelled_session_is_not_replaced() {
    let mut transfer = sending();
    answer(499).to(&mut transfer);
    assert_eq!(failure(&transfer), Failure::Cancelled);
}

#[test]
fn session_of_another_process_is_queried_first() {
    let mut transfer = Transfer::resume(seekable());
    assert_eq!(content_range(&transfer), format!("bytes */{LEN}"));
    incomplete(Q + 1).to(&mut transfer);
    let rest = format!("bytes {}-{}/{LEN}", Q + 1, LEN - 1);
    assert_eq!(content_range(&transfer), rest);
}

#[test]
fn session_of_another_process_may_be_finished_or_lost() {
    let mut transfer = Transfer::resume(seekable());
    assert_eq!(answer(200).to(&mut transfer), Event::Finished);
    let mut transfer = Transfer::resume(seekable());
    assert_eq!(answer(404).to(&mut transfer), Event::Lost);
    assert_eq!(transfer.poll(), Action::Send(Request::Start));
}

#[test]
fn session_of_another_process_beyond_the_media_size_fails() {
    let mut transfer = Transfer::resume(seekable());
    incomplete(LEN + 1).to(&mut transfer);
    let beyond = Failure::OffsetBeyondSent {
        committed: LEN + 1,
        sent: LEN,
    };
    assert_eq!(failure(&transfer), beyond);
}

#[test]
fn session_beyond_the_end_of_a_stream_fails() {
    let beyond = Failure::OffsetBeyondSent {
        committed: 2 * Q,
        sent: Q,
    };
    let mut transfer = Transfer::resume(Plan::resumable(Media::streamed(None)));
    incomplete(2 * Q).to(&mut transfer);
    transfer.filled(Q, true);
    assert_eq!(failure(&transfer), beyond);

    let mut transfer = Transfer::resume(Plan::resumable(Media::streamed(None)));
    transfer.filled(Q, true);
    incomplete(2 * Q).to(&mut transfer);
    assert_eq!(failure(&transfer), beyond);
}

#[test]
fn single_request_upload_is_resent_as_a_whole() {
    for upload_type in [UploadType::Media, UploadType::Multipart] {
        let mut transfer = Transfer::start(Plan::new(upload_type, Media::seekable(LEN)));
        assert_eq!(transfer.poll(), Action::Send(Request::SingleRequest));
        transfer.broke(0);
        transfer.waited();
        assert_eq!(transfer.poll(), Action::Send(Request::SingleRequest));
        page(503).to(&mut transfer);
        transfer.waited();
        assert_eq!(transfer.poll(), Action::Send(Request::SingleRequest));
        assert_eq!(answer(200).to(&mut transfer), Event::Finished);
    }
}

#[test]
fn failed_single_request_upload_leaves_no_session() {
    let mut transfer = Transfer::start(Plan::new(UploadType::Media, Media::seekable(LEN)));
    let (tries, failure) = run_until_failure(&mut transfer, |transfer| transfer.broke(0));
    assert_eq!(tries, 6);
    assert!(!failure.session_survives());
}

#[test]
fn requests_outside_a_session_have_no_content_range() {
    assert_eq!(Request::SingleRequest.content_range(), None);
    assert_eq!(Request::Start.content_range(), None);
}
