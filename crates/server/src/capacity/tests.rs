use tokio::time::Instant;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(1);
const MIB: u64 = 1024 * KIB;

fn used(pool: &Pool) -> u64 {
    pool.usage().used
}

#[test]
fn dropped_permit_is_free_again() {
    let pool = Pool::of_count(LimitedResource::Requests, 2);
    let (one, two) = (pool.take().unwrap(), pool.take().unwrap());
    assert_eq!(pool.take().unwrap_err(), Full(LimitedResource::Requests));
    drop(one);
    pool.take().unwrap();
    drop(two);
    let usage = pool.usage();
    assert_eq!((usage.used, usage.limit, usage.refused), (0, 2, 1));
}

#[test]
fn permit_grows_and_shrinks() {
    let pool = Pool::of_bytes(LimitedResource::Metadata, MIB);
    let mut permit = pool.permit();
    for (amount, expected) in [(1, KIB), (100 * KIB, 100 * KIB), (60 * KIB, 60 * KIB)] {
        permit.resize(amount).unwrap();
        assert_eq!(used(&pool), expected);
    }
    let bytes = permit.with(Bytes::from_static(b"windlass"));
    assert_eq!((&bytes[..], used(&pool)), (&b"windlass"[..], 60 * KIB));
    let copy = bytes.clone();
    drop(bytes);
    assert_eq!(used(&pool), 60 * KIB);
    drop(copy);
    assert_eq!(used(&pool), 0);
}

#[test]
fn large_permits_leave_room_for_small_ones() {
    let pool = Pool::of_bytes(LimitedResource::Metadata, MIB);
    let (mut small, mut large) = (pool.permit(), pool.permit());
    small.resize(SMALL).unwrap();
    large.resize(u64::MAX).unwrap();
    assert_eq!(used(&pool), MIB / 4 * 3 + SMALL);
    assert!(pool.permit().resize(SMALL + 1).is_err());
    let mut more: Vec<_> = (0..2).map(|_| pool.permit()).collect();
    for permit in &mut more {
        permit.resize(SMALL).unwrap();
    }
    // The rest is for clients that have few requests.
    assert!(pool.permit().resize(1).is_err());
    assert!(pool.permit_for(|| Importance::Finish).resize(1).is_err());
    let mut modest = pool.permit_for(|| Importance::Modest);
    modest.resize(SMALL).unwrap();
    more.push(modest);
    assert!(pool.permit_for(|| Importance::Modest).resize(1).is_err());
    assert!(small.resize(SMALL + 1).is_err());
    assert_eq!(used(&pool), MIB, "a permit that cannot grow keeps its size");
    drop(more);
    assert!(small.resize(SMALL + 1).is_ok());
}

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

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_order_until_their_timeout() {
    let pool = Pool::for_large(LimitedResource::Reading, MIB);
    let first = pool.wait(700 * KIB, TIMEOUT).await.unwrap();
    let refused = pool.wait(u64::MAX, TIMEOUT).await.unwrap_err();
    assert_eq!(refused, Full(LimitedResource::Reading));
    let all = pool.wait(u64::MAX, TIMEOUT);
    let behind = async {
        tokio::task::yield_now().await;
        pool.wait(1, TIMEOUT).await
    };
    let end = async {
        tokio::time::sleep(TIMEOUT / 2).await;
        drop(first);
    };
    let (all, behind, ()) = tokio::join!(all, behind, end);
    assert!(
        behind.is_err(),
        "what is large is not kept waiting by what is small"
    );
    assert_eq!(
        used(&pool),
        MIB,
        "what needs more than there is has all of it"
    );
    drop(all);
    assert_eq!(used(&pool), 0);
}

#[tokio::test(start_paused = true)]
async fn growing_permit_is_refused_instead_of_a_deadlock() {
    let pool = Pool::for_large(LimitedResource::LargeBodies, MIB);
    let (mut first, mut second) = (pool.permit(), pool.permit());
    first.resize_in_time(600 * KIB, TIMEOUT).await.unwrap();
    second.resize_in_time(400 * KIB, TIMEOUT).await.unwrap();
    let begun = tokio::time::Instant::now();
    assert!(second.resize_in_time(u64::MAX, TIMEOUT).await.is_err());
    assert_eq!(begun.elapsed(), Duration::ZERO, "it has something already");
    drop(second);
    first.resize_in_time(u64::MAX, TIMEOUT).await.unwrap();
    let mut third = pool.permit();
    assert!(third.resize_in_time(1, TIMEOUT).await.is_err());
    assert_eq!(begun.elapsed(), TIMEOUT);
}

#[test]
fn json_cost_of_strings_is_low_and_of_structure_high() {
    let text = format!(r#"{{"a": "{}"}}"#, "x, [\\\" {: ".repeat(1000));
    assert!(json_cost(text.as_bytes()) < text.len() as u64 + 1000);
    for dense in [r#"{"":0},"#, "[0],", "0,", "[],"] {
        let text = dense.repeat(1000);
        assert!(
            json_cost(text.as_bytes()) > 30 * text.len() as u64,
            "{dense}"
        );
    }
}
