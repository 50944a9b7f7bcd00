//! Properties: every fault schedule ends, and with success where that is possible.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::Config;
use windlass_proto::session::CHUNK_GRANULARITY;
use windlass_proto::transfer::{Failure, RetryPolicy};

use crate::schedule::{Schedule, any_faults, endless_faults, recoverable_faults};
use crate::simulation::Simulation;

fn config(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}

/// Returns the maximum number of requests. Without a fault: a start, the chunks, and one request
/// when only the end is missing. Each fault can make all of them necessary again, and a query.
fn most_requests(case: &Schedule) -> usize {
    let chunks = usize::try_from(case.len / CHUNK_GRANULARITY + 1).expect("a few MiB");
    (case.faults.len() + 1) * (chunks + 3)
}

/// Returns the maximum duration. No wait exceeds a minute, unless the server asks for it.
fn longest(requests: usize) -> Duration {
    let longest = RetryPolicy::default().longest_retry_after;
    longest * u32::try_from(requests).expect("not that many")
}

proptest! {
    #![proptest_config(config(12_000))]

    #[test]
    fn any_fault_schedule_ends_with_the_media_or_an_expected_failure(case in any_faults()) {
        let end = Simulation::new(&case, RetryPolicy::default()).run(most_requests(&case));
        prop_assert!(end.elapsed <= longest(end.requests));
    }
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn endless_faults_end_the_transfer(case in endless_faults()) {
        let end = Simulation::new(&case, RetryPolicy::default()).run(10_000);
        prop_assert!(end.elapsed <= longest(end.requests));
    }
}

proptest! {
    #![proptest_config(config(8000))]

    #[test]
    fn faults_within_the_retry_policy_do_not_fail_the_upload(case in recoverable_faults()) {
        let end = Simulation::new(&case, case.sufficient_retry_policy()).run(most_requests(&case));
        // An HTML page in reply to a start or to the whole media: the server may have acted.
        let not_the_protocol = |failure: &Failure| matches!(failure, Failure::Unexpected { tries: 1, .. });
        prop_assert_eq!(end.failure.filter(|failure| !not_the_protocol(failure)), None);
    }
}
