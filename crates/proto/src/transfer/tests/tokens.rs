use super::*;

fn refreshable() -> Transfer {
    in_session(seekable().with_refreshable_token(true))
}

#[track_caller]
fn refused(transfer: &Transfer) {
    assert!(
        matches!(failure(transfer), Failure::Refused(reply) if reply.status == 401),
        "{:?}",
        transfer.poll()
    );
}

#[test]
fn unauthorized_in_a_session_refreshes_the_token_and_queries() {
    let mut transfer = refreshable();
    answer(401).to(&mut transfer);
    assert_eq!(transfer.poll(), Action::RefreshToken);
    transfer.token_refreshed();
    assert_eq!(content_range(&transfer), format!("bytes */{LEN}"));
}

#[test]
fn unauthorized_start_is_repeated_after_a_refresh() {
    let mut transfer = Transfer::start(seekable().with_refreshable_token(true));
    answer(401).to(&mut transfer);
    assert_eq!(transfer.poll(), Action::RefreshToken);
    transfer.token_refreshed();
    assert_eq!(transfer.poll(), Action::Send(Request::Start));
}

#[test]
fn unauthorized_without_a_refreshable_token_fails() {
    let mut transfer = sending();
    answer(401).to(&mut transfer);
    refused(&transfer);
}

#[test]
fn two_consecutive_unauthorized_replies_fail() {
    let mut transfer = refreshable();
    answer(401).to(&mut transfer);
    transfer.token_refreshed();
    answer(401).to(&mut transfer);
    refused(&transfer);
}

#[test]
fn broken_connection_between_unauthorized_replies_does_not_reset_them() {
    let mut transfer = refreshable();
    answer(401).to(&mut transfer);
    transfer.token_refreshed();
    transfer.broke(0);
    transfer.waited();
    answer(401).to(&mut transfer);
    refused(&transfer);
}

#[test]
fn token_refreshes_again_after_progress() {
    let mut transfer = refreshable();
    for committed in [Q, 2 * Q, 3 * Q] {
        answer(401).to(&mut transfer);
        assert_eq!(transfer.poll(), Action::RefreshToken);
        transfer.token_refreshed();
        incomplete(committed).to(&mut transfer);
    }
}

#[test]
fn token_refreshes_again_after_starting_a_session() {
    let mut transfer = Transfer::start(seekable().with_refreshable_token(true));
    answer(401).to(&mut transfer);
    transfer.token_refreshed();
    session_start().to(&mut transfer);
    answer(401).to(&mut transfer);
    assert_eq!(transfer.poll(), Action::RefreshToken);
}

#[test]
fn server_that_accepts_tokens_only_for_queries_is_given_up() {
    let mut transfer = refreshable();
    for _ in 0..2 {
        answer(401).to(&mut transfer);
        transfer.token_refreshed();
        incomplete(0).to(&mut transfer);
    }
    refused(&transfer);
}
