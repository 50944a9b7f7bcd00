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
