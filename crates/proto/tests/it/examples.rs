//! Named fault schedules. A schedule that failed is added here as it was printed.

use windlass_proto::session::CHUNK_GRANULARITY;
use windlass_proto::transfer::{Failure, RetryPolicy};

use crate::fault::Fault::{
    Cancel, Fine, Kill, Lost, NoRange, ReplyLost, Restart, SessionDies, Torn, Unauthorized,
    Unexpected,
};
use crate::fault::Keep::{All, Floor, Nothing};
use crate::schedule::{Dialect, Finish, Habits, Schedule, Source};
use crate::simulation::{End, Simulation};

const Q: u64 = CHUNK_GRANULARITY;

const LEN: u64 = 5 * Q + 1;

fn run(case: &Schedule) -> End {
    Simulation::new(case, RetryPolicy::default()).run(100)
}

#[track_caller]
fn succeeds(case: &Schedule, requests: usize) {
    let end = run(case);
    assert_eq!(end.failure, None);
    assert_eq!(end.requests, requests);
}

#[test]
fn upload_without_faults_takes_one_request() {
    for len in [0, 1, Q, LEN] {
        succeeds(&Schedule::new(len, &[]), 2);
    }
}

#[test]
fn stream_of_unknown_size_takes_one_request_per_chunk() {
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
fn lost_final_reply_costs_one_query() {
    succeeds(&Schedule::new(LEN, &[Fine, ReplyLost { late: 0 }]), 3);
}

#[test]
fn bytes_of_a_stale_writer_after_the_query_are_not_sent_twice() {
    let torn = |late| Torn {
        after: 900,
        keep: All,
        late,
    };
    // Visible with the next data request, and with the query after another break.
    succeeds(&Schedule::new(LEN, &[Fine, torn(2)]), 4);
    succeeds(&Schedule::new(LEN, &[Fine, torn(3), Fine, torn(0)]), 6);
}

#[test]
fn stale_writer_may_finish_the_upload() {
    let case = Schedule::new(LEN, &[Fine, ReplyLost { late: 2 }]);
    succeeds(&case, 4);
}

#[test]
fn server_that_keeps_only_multiples_gets_the_rest() {
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
fn killed_client_continues_its_session() {
    for effect in [false, true] {
        let case = Schedule {
            chunk: Some(2),
            ..Schedule::new(LEN, &[Fine, Fine, Kill { effect }])
        };
        succeeds(&case, 6 - usize::from(effect));
    }
}

#[test]
fn reply_without_range_is_queried_again() {
    let case = Schedule {
        chunk: Some(2),
        ..Schedule::new(LEN, &[Fine, Fine, NoRange])
    };
    succeeds(&case, 5);
}

#[test]
fn bytes_lost_in_a_server_restart_are_resent() {
    let case = Schedule {
        chunk: Some(2),
        ..Schedule::new(LEN, &[Fine, Fine, Fine, Restart { left: 0 }])
    };
    succeeds(&case, 8);
}

#[test]
fn server_restart_after_the_window_moved_fails() {
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
fn finished_session_lost_before_the_reply_makes_a_second_resource() {
    let faults = [Fine, ReplyLost { late: 0 }, SessionDies { status: 404 }];
    succeeds(&Schedule::new(LEN, &faults), 5);
}

#[test]
fn six_consecutive_broken_connections_take_half_a_minute() {
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
fn five_broken_connections_between_any_two_chunks_are_tolerated() {
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
fn expired_token_costs_one_query() {
    succeeds(&Schedule::new(LEN, &[Fine, Unauthorized]), 4);
}

#[test]
fn html_page_during_an_upload_costs_one_query() {
    let page = Unexpected {
        status: 200,
        effect: true,
    };
    succeeds(&Schedule::new(LEN, &[Fine, page]), 3);
}

#[test]
fn cancelled_upload_stays_cancelled() {
    let end = run(&Schedule::new(LEN, &[Fine, Cancel]));
    assert_eq!(end.failure, Some(Failure::Cancelled));
}

#[test]
fn single_request_upload_is_resent_as_a_whole() {
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

/// `X-Goog-Upload`, as a library speaks it that ends an upload with its last chunk and asks for the
/// offset after a failure.
const ASKS: Habits = Habits {
    repeats: false,
    rounds: false,
    finish: Finish::WithData,
};

fn x_goog_upload(habits: Habits, case: Schedule) -> Schedule {
    Schedule {
        dialect: Dialect::XGoogUpload(habits),
        ..case
    }
}

#[test]
fn x_goog_upload_ends_with_its_last_chunk_or_with_a_request_of_its_own() {
    for len in [0, 1, Q, LEN] {
        for (finish, requests) in [
            (Finish::WithData, 2),
            (Finish::Alone, 3),
            (Finish::AloneAtOffset, 3),
        ] {
            let requests = requests - usize::from(len == 0 && finish != Finish::WithData);
            let case = x_goog_upload(Habits { finish, ..ASKS }, Schedule::new(len, &[]));
            succeeds(&case, requests);
            let streamed = Schedule {
                source: Source::Streamed { total_known: false },
                ..case
            };
            succeeds(&streamed, requests);
        }
    }
}

#[test]
fn lost_reply_of_x_goog_upload_costs_one_query_or_one_repetition() {
    let case = Schedule::new(LEN, &[Fine, ReplyLost { late: 0 }]);
    for repeats in [false, true] {
        succeeds(&x_goog_upload(Habits { repeats, ..ASKS }, case.clone()), 3);
    }
}

#[test]
fn chunk_of_x_goog_upload_that_breaks_off_is_continued_repeated_or_rounded() {
    let torn = Torn {
        after: 500,
        keep: All,
        late: 0,
    };
    let case = Schedule::new(LEN, &[Fine, torn]);
    let rounds = Habits {
        rounds: true,
        ..ASKS
    };
    let repeats = Habits {
        repeats: true,
        ..ASKS
    };
    succeeds(&x_goog_upload(ASKS, case.clone()), 4);
    succeeds(&x_goog_upload(rounds, case.clone()), 4);
    // The repetition is the last request.
    succeeds(&x_goog_upload(repeats, case), 3);
}

#[test]
fn repetition_beyond_the_bytes_of_a_restarted_server_is_told_the_offset() {
    let case = Schedule {
        chunk: Some(2),
        ..Schedule::new(LEN, &[Fine, Fine, Fine, Restart { left: 0 }])
    };
    let repeats = Habits {
        repeats: true,
        ..ASKS
    };
    succeeds(&x_goog_upload(repeats, case), 8);
}

#[test]
fn cancelled_x_goog_upload_stays_cancelled() {
    let end = run(&x_goog_upload(ASKS, Schedule::new(LEN, &[Fine, Cancel])));
    assert_eq!(end.failure, Some(Failure::Cancelled));
}
