//! Whatever goes wrong, it comes to an end, and to a good one where that can be.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::Config;
use windlass_proto::session::CHUNK_GRANULARITY;
use windlass_proto::transfer::{Failure, RetryPolicy};

use crate::pair::Pair;
use crate::schedule::{Schedule, any_faults, bearable_faults, unending_faults};

fn config(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}

/// Without a fault: a start, the chunks, and one request when all is there but the end. A fault makes
/// all of it necessary again, and a question.
fn most_requests(case: &Schedule) -> usize {
    let chunks = usize::try_from(case.len / CHUNK_GRANULARITY + 1).expect("a few MiB");
    (case.faults.len() + 1) * (chunks + 3)
}

/// No wait is longer than a minute, unless the server asks for it.
fn longest(requests: usize) -> Duration {
    let longest = RetryPolicy::default().longest_retry_after;
    longest * u32::try_from(requests).expect("not that many")
}

proptest! {
    #![proptest_config(config(6000))]

    #[test]
    fn any_schedule_ends_in_the_media_or_in_a_failure_that_it_explains(case in any_faults()) {
        let end = Pair::new(&case, RetryPolicy::default()).run(most_requests(&case));
        prop_assert!(end.elapsed <= longest(end.requests));
    }
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn unending_faults_come_to_an_end(case in unending_faults()) {
        let end = Pair::new(&case, RetryPolicy::default()).run(10_000);
        prop_assert!(end.elapsed <= longest(end.requests));
    }
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn faults_that_do_not_exhaust_patience_in_a_row_bring_the_media_up(case in bearable_faults()) {
        let end = Pair::new(&case, case.enough_patience()).run(most_requests(&case));
        // A page in answer to a start or to all of the media: the server may have acted.
        let not_the_protocol = |failure: &Failure| matches!(failure, Failure::Unexpected { tries: 1, .. });
        prop_assert_eq!(end.failure.filter(|failure| !not_the_protocol(failure)), None);
    }
}
