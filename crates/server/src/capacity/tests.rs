use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn request_waits_a_moment_for_a_place_and_no_more_wait_than_there_are_connections() {
    let capacity = Capacity::new(&Limits {
        requests: 1,
        connections: 2,
        ..Limits::default()
    });
    let wait = || capacity.wait_for_request(Importance::Finish);
    let only = capacity.requests.take().unwrap();
    let begun = Instant::now();
    assert_eq!(wait().await.unwrap_err(), Full(LimitedResource::Requests));
    assert_eq!(begun.elapsed(), PLACE_WAIT);

    let begun = Instant::now();
    let end = async {
        tokio::time::sleep(PLACE_WAIT / 2).await;
        drop(only);
    };
    let (first, second, third, ()) = tokio::join!(wait(), wait(), wait(), end);
    assert!(third.is_err(), "two wait already");
    assert!(first.is_ok() && second.is_err(), "there is one place");
    assert_eq!(begun.elapsed(), PLACE_WAIT);
    let refused = [&capacity.requests, &capacity.waiting_requests].map(|it| it.usage().refused);
    assert_eq!(refused, [2, 1]);
}

#[tokio::test(start_paused = true)]
async fn request_does_not_wait_behind_one_that_must_leave_the_last_places() {
    let capacity = Capacity::new(&Limits {
        requests: 16,
        ..Limits::default()
    });
    let mut all: Vec<_> = (0..16).map(|_| capacity.requests.take().unwrap()).collect();
    let begun = Instant::now();
    let modest = async {
        let modest = capacity.wait_for_request(Importance::Modest).await;
        (modest, begun.elapsed())
    };
    let end = async {
        tokio::task::yield_now().await;
        all.pop();
    };
    let start = capacity.wait_for_request(Importance::Start);
    let (start, (modest, waited), ()) = tokio::join!(start, modest, end);
    assert!(start.is_err(), "what was free is not for a start");
    assert!(modest.is_ok());
    assert_eq!(waited, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn free_place_wakes_a_waiter_of_each_importance() {
    for importance in [
        Importance::Start,
        Importance::Query,
        Importance::Append,
        Importance::Finish,
        Importance::Modest,
    ] {
        let capacity = Capacity::new(&Limits {
            requests: 16,
            ..Limits::default()
        });
        let mut all: Vec<_> = (0..16).map(|_| capacity.requests.take().unwrap()).collect();
        let begun = Instant::now();
        let waiter = async {
            let place = capacity.wait_for_request(importance).await;
            (place, begun.elapsed())
        };
        let end = async {
            tokio::task::yield_now().await;
            // One more than it leaves to others.
            all.truncate(15 - importance.leaves() as usize);
        };
        let ((place, delay), ()) = tokio::join!(waiter, end);
        assert!(place.is_ok(), "{importance:?}");
        assert_eq!(delay, Duration::ZERO, "{importance:?}");
    }
}
