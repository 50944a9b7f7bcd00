use super::*;

/// Returns a transfer in every phase.
fn phases() -> Vec<Transfer> {
    let mut waiting = sending();
    waiting.broke(0);
    let mut renewing = in_session(seekable().with_refreshable_token(true));
    answer(401).to(&mut renewing);
    let mut finished = sending();
    answer(200).to(&mut finished);
    let mut failed = sending();
    answer(400).to(&mut failed);
    vec![
        Transfer::start(seekable()),
        Transfer::start(Plan::new(UploadType::Media, Media::seekable(LEN))),
        in_session(Plan::resumable(Media::streamed(None))),
        sending(),
        querying(),
        waiting,
        renewing,
        finished,
        failed,
    ]
}

#[test]
fn repeated_poll_returns_the_same_action() {
    for transfer in phases() {
        assert_eq!(transfer.poll(), transfer.poll());
    }
}

/// Returns whether the transfer is in a phase in which no request is sent.
fn silent(transfer: &Transfer) -> bool {
    !matches!(transfer.poll(), Action::Send(_))
}

#[test]
fn reply_without_a_request_changes_nothing() {
    for transfer in phases().into_iter().filter(silent) {
        for answer in [
            incomplete(Q),
            answer(200),
            answer(404),
            answer(503),
            page(200),
        ] {
            let mut told = transfer.clone();
            assert_eq!(answer.to(&mut told), Event::Nothing);
            assert_eq!(told.poll(), transfer.poll());
            assert_eq!(told.committed(), transfer.committed());
        }
    }
}

#[test]
fn break_without_a_request_changes_nothing() {
    for transfer in phases().into_iter().filter(silent) {
        let mut told = transfer.clone();
        told.broke(0);
        assert_eq!(told.poll(), transfer.poll());
    }
}

#[test]
fn waited_ends_only_a_wait() {
    for transfer in phases() {
        let mut told = transfer.clone();
        told.waited();
        let waited = matches!(transfer.poll(), Action::Wait(_));
        assert_eq!(told.poll() != transfer.poll(), waited);
    }
}

#[test]
fn token_refreshed_ends_only_a_token_refresh() {
    for transfer in phases() {
        let mut told = transfer.clone();
        told.token_refreshed();
        assert_eq!(
            told.poll() != transfer.poll(),
            transfer.poll() == Action::RefreshToken
        );
    }
}

#[test]
fn finished_or_failed_transfer_stays_so() {
    for transfer in phases() {
        if !matches!(transfer.poll(), Action::Finished | Action::Failed(_)) {
            continue;
        }
        let mut told = transfer.clone();
        told.waited();
        told.token_refreshed();
        told.broke(0);
        told.filled(1, true);
        session_start().to(&mut told);
        assert_eq!(told.poll(), transfer.poll());
    }
}
