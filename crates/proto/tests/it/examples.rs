//! Schedules with a name. One that failed is put here, as it was printed.

use windlass_proto::session::CHUNK_GRANULARITY;
use windlass_proto::transfer::{Failure, RetryPolicy};

use crate::fault::Fault::{
    Cancel, Fine, Kill, Lost, NoRange, ReplyLost, Restart, SessionDies, Torn, Unauthorized,
    Unexpected,
};
use crate::fault::Keep::{All, Floor, Nothing};
use crate::pair::{End, Pair};
use crate::schedule::{Schedule, Source};

const Q: u64 = CHUNK_GRANULARITY;

const LEN: u64 = 5 * Q + 1;

fn run(case: &Schedule) -> End {
    Pair::new(case, RetryPolicy::default()).run(100)
}

#[track_caller]
fn succeeds(case: &Schedule, requests: usize) {
    let end = run(case);
    assert_eq!(end.failure, None);
    assert_eq!(end.requests, requests);
}

#[test]
fn without_faults_one_request_brings_the_media_up() {
    for len in [0, 1, Q, LEN] {
        succeeds(&Schedule::new(len, &[]), 2);
    }
}

#[test]
fn a_stream_of_unknown_size_needs_no_request_more_than_it_has_chunks() {
    for (len, chunks) in [(0, 1), (Q - 1, 1), (Q, 1), (Q + 1, 2), (3 * Q, 3), (LEN, 6)] {
        let case = Schedule {
            source: Source::Streamed { total_known: false },
            chunk: Some(1),
            ..Schedule::new(len, &[])
        };
        succeeds(&case, 1 + chunks);
    }
}

#[test]
fn a_reply_that_is_lost_at_the_end_costs_a_question() {
    succeeds(&Schedule::new(LEN, &[Fine, ReplyLost { late: 0 }]), 3);
}

#[test]
fn what_a_stale_writer_brings_after_the_question_is_not_brought_twice() {
    let torn = |late| Torn {
        after: 900,
        keep: All,
        late,
    };
    // Visible with the next data request, and with the question after another break.
    succeeds(&Schedule::new(LEN, &[Fine, torn(2)]), 4);
    succeeds(&Schedule::new(LEN, &[Fine, torn(3), Fine, torn(0)]), 6);
}

#[test]
fn a_stale_writer_may_finish_the_upload() {
    let case = Schedule::new(LEN, &[Fine, ReplyLost { late: 2 }]);
    succeeds(&case, 4);
}

#[test]
fn a_server_that_keeps_multiples_or_nothing_gets_the_rest() {
    for keep in [All, Floor, Nothing] {
        let torn = Torn {
            after: 500,
            keep,
            late: 0,
        };
        succeeds(&Schedule::new(LEN, &[Fine, torn]), 4);
    }
}

#[test]
fn a_client_that_is_killed_goes_on_in_its_session() {
    for effect in [false, true] {
        let case = Schedule {
            chunk: Some(2),
            ..Schedule::new(LEN, &[Fine, Fine, Kill { effect }])
        };
        succeeds(&case, 6 - usize::from(effect));
    }
}

#[test]
fn a_server_that_forgets_range_once_is_asked_again() {
    let case = Schedule {
        chunk: Some(2),
        ..Schedule::new(LEN, &[Fine, Fine, NoRange])
    };
    succeeds(&case, 5);
}

#[test]
fn what_a_server_lost_in_a_restart_is_sent_again() {
    let case = Schedule {
        chunk: Some(2),
        ..Schedule::new(LEN, &[Fine, Fine, Fine, Restart { left: 0 }])
    };
    succeeds(&case, 8);
}

#[test]
fn a_restart_behind_a_window_is_the_end() {
    let case = Schedule {
        source: Source::Windowed {
            total_known: true,
            window: 1,
        },
        ..Schedule::new(LEN, &[Fine, Fine, Fine, Restart { left: 0 }])
    };
    let forgotten = Failure::SessionRewound {
        committed: 0,
        kept_from: 2 * Q,
    };
    assert_eq!(run(&case).failure, Some(forgotten));
}

#[test]
fn a_finished_session_that_is_lost_before_the_reply_makes_a_second_resource() {
    let faults = [Fine, ReplyLost { late: 0 }, SessionDies { status: 404 }];
    succeeds(&Schedule::new(LEN, &faults), 5);
}

#[test]
fn six_broken_connections_in_a_row_take_half_a_minute() {
    let end = run(&Schedule::new(LEN, &[Lost; 6]));
    assert!(matches!(
        end.failure,
        Some(Failure::GaveUp {
            tries: 6,
            session: false,
            ..
        })
    ));
    let seconds = end.elapsed.as_secs();
    assert!((31..=36).contains(&seconds), "{seconds} s");
}

#[test]
fn five_broken_connections_between_any_two_chunks_are_borne() {
    let mut faults = vec![Fine];
    for _ in 0..5 {
        faults.extend([Lost; 5]);
        faults.extend([Fine; 2]);
    }
    let case = Schedule {
        chunk: Some(1),
        ..Schedule::new(5 * Q, &faults)
    };
    succeeds(&case, 1 + 5 * 7);
}

#[test]
fn a_token_that_expires_costs_a_question() {
    succeeds(&Schedule::new(LEN, &[Fine, Unauthorized]), 4);
}

#[test]
fn a_page_in_the_middle_costs_a_question() {
    let page = Unexpected {
        status: 200,
        effect: true,
    };
    succeeds(&Schedule::new(LEN, &[Fine, page]), 3);
}

#[test]
fn a_cancelled_upload_stays_cancelled() {
    let end = run(&Schedule::new(LEN, &[Fine, Cancel]));
    assert_eq!(end.failure, Some(Failure::Cancelled));
}

#[test]
fn a_one_shot_upload_is_brought_up_again_as_a_whole() {
    let torn = Torn {
        after: 500,
        keep: All,
        late: 0,
    };
    let case = Schedule {
        single_request: true,
        ..Schedule::new(LEN, &[torn, Lost])
    };
    succeeds(&case, 3);
}
