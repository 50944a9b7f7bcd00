use super::*;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the waits of a transfer. Every request breaks, and each wait gets the next random
/// number.
fn waits(transfer: &mut Transfer, randoms: &[u32]) -> Vec<Duration> {
    let wait = |random: &u32| {
        transfer.broke(*random);
        let delay = wait(transfer).delay;
        transfer.waited();
        delay
    };
    randoms.iter().map(wait).collect()
}

#[test]
fn waits_double_from_one_second_with_random_milliseconds_each() {
    for kind in [
        Transfer::start(seekable()),
        sending(),
        querying_without_failures(),
    ] {
        let mut transfer = kind;
        let waits = waits(&mut transfer, &[7, 1000, 0, 500, 1001 + 3]);
        let expected = [1007, 3000, 4000, 8500, 16_003].map(millis);
        assert_eq!(waits, expected);
    }
}

/// Returns a transfer that waits for the reply to a query, without earlier failures.
fn querying_without_failures() -> Transfer {
    Transfer::resume(seekable())
}

#[test]
fn upload_fails_after_six_attempts_without_progress() {
    let mut transfer = sending();
    let (tries, failure) = run_until_failure(&mut transfer, |transfer| transfer.broke(0));
    assert_eq!(tries, 6);
    let expected = Failure::GaveUp {
        cause: Cause::Broken,
        tries: 6,
        session: true,
        retry_after: None,
    };
    assert_eq!(failure, expected);
}

#[test]
fn wait_states_the_next_attempt_and_the_cause() {
    let mut transfer = Transfer::start(seekable());
    transfer.broke(0);
    let first = wait(&transfer);
    assert_eq!((first.attempt, first.of), (2, 6));
    assert_eq!(first.cause, Cause::Broken);
    transfer.waited();
    answer(503).to(&mut transfer);
    let second = wait(&transfer);
    assert_eq!((second.attempt, second.of), (3, 6));
    assert!(matches!(second.cause, Cause::Reply(reply) if reply.status == 503));
}

#[test]
fn progress_resets_the_waits() {
    let mut transfer = sending();
    waits(&mut transfer, &[0; 5]);
    incomplete(1).to(&mut transfer);
    assert_eq!(
        waits(&mut transfer, &[0; 5]),
        [1000, 2000, 4000, 8000, 16_000].map(millis)
    );
}

#[test]
fn offset_reached_before_is_not_progress() {
    let mut transfer = sending();
    waits(&mut transfer, &[0]);
    incomplete(2 * Q).to(&mut transfer);
    waits(&mut transfer, &[0]);
    incomplete(0).to(&mut transfer);
    waits(&mut transfer, &[0]);
    incomplete(2 * Q).to(&mut transfer);
    assert_eq!(waits(&mut transfer, &[0]), [millis(4000)]);
}

#[test]
fn start_of_a_session_is_not_progress() {
    let mut transfer = Transfer::start(seekable());
    waits(&mut transfer, &[0; 3]);
    session_start().to(&mut transfer);
    assert_eq!(waits(&mut transfer, &[0]), [millis(8000)]);
}

#[test]
fn overload_backs_off() {
    let limited = |reason| refusal(403, reason);
    for answer in [
        answer(408),
        answer(429),
        answer(500),
        answer(501),
        answer(502),
        answer(503),
        answer(504),
        answer(599),
        page(503),
        limited("rateLimitExceeded"),
        limited("userRateLimitExceeded"),
    ] {
        for transfer in [
            Transfer::start(seekable()),
            sending(),
            querying_without_failures(),
        ] {
            let mut transfer = transfer;
            let (tries, failure) = run_until_failure(&mut transfer, |transfer| {
                answer.to(transfer);
            });
            assert_eq!(tries, 6, "{answer:?}");
            assert!(
                matches!(failure, Failure::GaveUp { .. }),
                "{answer:?}: {failure:?}"
            );
        }
    }
}

#[track_caller]
fn delay_after(answer: &Answer) -> Duration {
    let mut transfer = sending();
    transfer.replied(&answer.reply(), 250);
    wait(&transfer).delay
}

#[test]
fn longer_retry_after_replaces_the_wait() {
    assert_eq!(delay_after(&answer(503).retry_after(20)), millis(20_000));
    assert_eq!(delay_after(&answer(429).retry_after(600)), millis(600_000));
}

#[test]
fn shorter_retry_after_is_ignored() {
    assert_eq!(delay_after(&answer(503).retry_after(1)), millis(1250));
    assert_eq!(delay_after(&answer(503).retry_after(0)), millis(1250));
}

#[test]
fn retry_after_over_the_limit_gives_up_at_once() {
    let mut transfer = sending();
    answer(503).retry_after(601).to(&mut transfer);
    let failure = failure(&transfer);
    assert!(matches!(
        failure,
        Failure::GaveUp {
            tries: 1,
            session: true,
            retry_after: Some(_),
            ..
        }
    ));
    assert!(
        failure.to_string().ends_with("it asks to wait 601 s"),
        "{failure}"
    );
}

#[test]
fn unexpected_reply_is_retried_after_a_pause_or_its_retry_after() {
    for (asks, waits) in [(None, 1000), (Some(40), 40_000), (Some(100_000), 600_000)] {
        let mut transfer = sending();
        let reply = Reply {
            retry_after: asks.map(Duration::from_secs),
            ..Reply::empty(StatusCode::CONFLICT)
        };
        transfer.replied(&reply, 0);
        assert_eq!(wait(&transfer).delay, millis(waits));
    }
}

#[test]
fn retry_policy_of_the_plan_applies() {
    let retry_policy = RetryPolicy {
        schedule: crate::backoff::Schedule {
            waits: 1,
            ..Default::default()
        },
        other_tries: 2,
        restarts: 0,
        longest_retry_after: Duration::from_secs(1),
    };
    let plan = seekable().with_retry_policy(retry_policy);
    let tries = |meet: fn(&mut Transfer)| run_until_failure(&mut in_session(plan.clone()), meet).0;
    assert_eq!(tries(|transfer| transfer.broke(0)), 2);
    let unexpected = |transfer: &mut Transfer| {
        page(200).to(transfer);
    };
    assert_eq!(tries(unexpected), 2);
    let lost = |transfer: &mut Transfer| {
        answer(404).to(transfer);
    };
    assert_eq!(tries(lost), 1);
    let asks_for_two_seconds = |transfer: &mut Transfer| {
        answer(503).retry_after(2).to(transfer);
    };
    assert_eq!(tries(asks_for_two_seconds), 1);
}

#[test]
fn unexpected_replies_are_retried_up_to_ten_attempts_a_second_apart() {
    let mut transfer = sending();
    for attempt in 2..=10 {
        transfer.replied(&page(200).reply(), 1000);
        let wait = wait(&transfer);
        assert_eq!(wait.delay, millis(2000));
        assert_eq!((wait.attempt, wait.of), (attempt, 10));
        transfer.waited();
    }
    page(200).to(&mut transfer);
    assert!(matches!(
        failure(&transfer),
        Failure::Unexpected {
            tries: 10,
            session: true,
            ..
        }
    ));
}

#[test]
fn progress_resets_the_count_of_unexpected_replies() {
    let mut transfer = querying();
    for _ in 0..9 {
        page(200).to(&mut transfer);
        transfer.waited();
    }
    incomplete(Q).to(&mut transfer);
    let (tries, _) = run_until_failure(&mut transfer, |transfer| {
        page(200).to(transfer);
    });
    assert_eq!(tries, 10);
}

#[test]
fn unexpected_replies_and_broken_connections_are_counted_separately() {
    let mut transfer = sending();
    let mut turn = 0;
    let (tries, failure) = run_until_failure(&mut transfer, |transfer| {
        turn += 1;
        if turn % 2 == 0 {
            transfer.broke(0);
        } else {
            page(200).to(transfer);
        }
    });
    assert_eq!(tries, 12, "the sixth break");
    assert!(matches!(failure, Failure::GaveUp { tries: 6, .. }));
}
