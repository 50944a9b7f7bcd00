use super::*;

fn refreshable() -> Transfer {
    in_session(seekable().with_refreshable_token(true))
}

#[track_caller]
fn refused(transfer: &Transfer) {
    assert!(
        matches!(failure(transfer), Failure::Refused(refusal) if refusal.status == 401),
        "{:?}",
        transfer.poll()
    );
}

#[test]
fn a_401_asks_for_another_token_and_then_what_is_committed() {
    let mut transfer = refreshable();
    answer(401).to(&mut transfer);
    assert_eq!(transfer.poll(), Action::RefreshToken);
    transfer.token_refreshed();
    assert_eq!(content_range(&transfer), format!("bytes */{LEN}"));
}

#[test]
fn a_401_before_the_session_starts_again() {
    let mut transfer = Transfer::start(seekable().with_refreshable_token(true));
    answer(401).to(&mut transfer);
    assert_eq!(transfer.poll(), Action::RefreshToken);
    transfer.token_refreshed();
    assert_eq!(transfer.poll(), Action::Send(Request::Start));
}

#[test]
fn a_401_is_final_when_there_is_no_other_token() {
    let mut transfer = sending();
    answer(401).to(&mut transfer);
    refused(&transfer);
}

#[test]
fn two_401_in_a_row_are_final() {
    let mut transfer = refreshable();
    answer(401).to(&mut transfer);
    transfer.token_refreshed();
    answer(401).to(&mut transfer);
    refused(&transfer);
}

#[test]
fn a_broken_connection_between_two_401_makes_no_difference() {
    let mut transfer = refreshable();
    answer(401).to(&mut transfer);
    transfer.token_refreshed();
    transfer.broke(0);
    transfer.waited();
    answer(401).to(&mut transfer);
    refused(&transfer);
}

#[test]
fn a_token_that_was_good_for_something_may_be_renewed_again() {
    let mut transfer = refreshable();
    for committed in [Q, 2 * Q, 3 * Q] {
        answer(401).to(&mut transfer);
        assert_eq!(transfer.poll(), Action::RefreshToken);
        transfer.token_refreshed();
        incomplete(committed).to(&mut transfer);
    }
}

#[test]
fn a_token_that_only_starts_a_session_may_be_renewed_again() {
    let mut transfer = Transfer::start(seekable().with_refreshable_token(true));
    answer(401).to(&mut transfer);
    transfer.token_refreshed();
    session_start().to(&mut transfer);
    answer(401).to(&mut transfer);
    assert_eq!(transfer.poll(), Action::RefreshToken);
}

#[test]
fn a_server_that_answers_questions_but_takes_no_token_for_data_is_given_up() {
    let mut transfer = refreshable();
    for _ in 0..2 {
        answer(401).to(&mut transfer);
        transfer.token_refreshed();
        incomplete(0).to(&mut transfer);
    }
    refused(&transfer);
}
