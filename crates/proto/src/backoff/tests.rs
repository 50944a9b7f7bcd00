use std::time::Duration;

use proptest::prelude::*;

use super::{Backoff, Schedule};

fn all(schedule: Schedule, random: u32) -> Vec<Duration> {
    let mut backoff = Backoff::new(schedule);
    std::iter::from_fn(|| backoff.next(random)).collect()
}

fn millis(millis: &[u64]) -> Vec<Duration> {
    millis.iter().copied().map(Duration::from_millis).collect()
}

#[test]
fn default_schedule_is_five_doubling_waits_and_then_gives_up() {
    let schedule = Schedule::default();
    assert_eq!(all(schedule, 0), millis(&[1000, 2000, 4000, 8000, 16_000]));
    assert_eq!(
        all(schedule, 1000),
        millis(&[2000, 3000, 5000, 9000, 17_000])
    );
}

#[test]
fn default_waits_total_31_to_36_seconds() {
    let total = |random| all(Schedule::default(), random).iter().sum::<Duration>();
    assert_eq!(total(0), Duration::from_secs(31));
    assert_eq!(total(1000), Duration::from_secs(36));
}

#[test]
fn random_part_is_0_to_1000_milliseconds() {
    let wait = |random| Schedule::default().wait(0, random);
    assert_eq!(wait(1000), Duration::from_secs(2));
    assert_eq!(wait(1001), Duration::from_secs(1));
}

#[test]
fn additional_waits_grow_up_to_the_longest() {
    let schedule = Schedule {
        waits: 8,
        ..Schedule::default()
    };
    assert_eq!(
        all(schedule, 0),
        millis(&[1000, 2000, 4000, 8000, 16_000, 32_000, 32_000, 32_000])
    );
}

#[test]
fn unit_scales_all_waits() {
    let schedule = Schedule {
        unit: Duration::from_millis(10),
        ..Schedule::default()
    };
    assert_eq!(all(schedule, 500), millis(&[15, 25, 45, 85, 165]));
}

#[test]
fn progress_resets_the_schedule() {
    let mut backoff = Backoff::new(Schedule::default());
    for _ in 0..4 {
        backoff.next(0);
    }
    backoff.reset();
    assert_eq!(
        all_of(&mut backoff),
        millis(&[1000, 2000, 4000, 8000, 16_000])
    );
}

fn all_of(backoff: &mut Backoff) -> Vec<Duration> {
    std::iter::from_fn(|| backoff.next(0)).collect()
}

proptest! {
    #[test]
    fn no_wait_reaches_a_minute(n: u32, random: u32, unit: u64, longest: u64) {
        let schedule = Schedule {
            unit: Duration::from_millis(unit),
            waits: u32::MAX,
            longest: Duration::from_secs(longest),
        };
        prop_assert!(schedule.wait(n, random) <= Schedule::MAX_WAIT);
    }
}
