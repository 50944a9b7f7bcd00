//! The server is killed without warning, again and again, while clients upload.
//!
//! Fault model: kill -9 at a random moment of the process, between or inside requests. Memory is
//! lost, the page cache is not. Everything that was acknowledged must be there afterwards.

use std::thread::sleep;
use std::time::{Duration, Instant};

use windlass_testkit::checker::{Fleet, Google, Load};
use windlass_testkit::rng::Rng;
use windlass_testkit::wait::PATIENCE;

use crate::server::own;

const ROUNDS: u64 = 50;

#[test]
fn no_acknowledged_byte_is_lost_by_fifty_rounds_of_kill_9() {
    let mut server = own(&[]);
    let mut fleet = Fleet::new(Google::farm(), Load::default(), 1);
    fleet.set_patience(PATIENCE);
    let mut rng = Rng::new(1);
    for _ in 0..ROUNDS {
        let delay = Duration::from_micros(rng.within(1_000..40_000));
        fleet.run_while(server.address(), || {
            sleep(delay);
            server.kill9();
        });
        server.start_again();
        fleet.check(server.address());
        assert!(fleet.violations().is_empty(), "{:#?}", fleet.violations());
    }
    // On a slow machine the rounds may have been too short for a cancel.
    let begun = Instant::now();
    while fleet.figures().cancelled == 0 && begun.elapsed() < PATIENCE {
        fleet.run_while(server.address(), || sleep(Duration::from_millis(40)));
    }
    fleet.finish(server.address());
    assert!(fleet.violations().is_empty(), "{:#?}", fleet.violations());
    let figures = fleet.figures();
    assert!(figures.finished > 0 && figures.cancelled > 0, "{figures}");
    println!("{ROUNDS} kills, {figures}");
}
