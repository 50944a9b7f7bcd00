//! The server is killed without warning, again and again, while clients upload.
//!
//! Fault model: kill -9 at a random moment of the process, between or inside requests. Memory is
//! lost, the page cache is not. Everything that was acknowledged must be there afterwards.

use std::thread::sleep;
use std::time::{Duration, Instant};

use windlass_testkit::checker::{FarmDialects, Load, Workload};
use windlass_testkit::rng::Rng;
use windlass_testkit::wait::PATIENCE;

use crate::server::own;

const ROUNDS: u64 = 50;

#[test]
fn no_acknowledged_byte_is_lost_by_fifty_rounds_of_kill_9() {
    let mut server = own(&[]);
    let mut workload = Workload::new(FarmDialects, Load::default(), 1);
    workload.set_patience(PATIENCE);
    let mut rng = Rng::new(1);
    for _ in 0..ROUNDS {
        let delay = Duration::from_micros(rng.within(1_000..40_000));
        workload.run_while(server.address(), || {
            sleep(delay);
            server.kill9();
        });
        server.start_again();
        workload.check(server.address());
        assert!(
            workload.violations().is_empty(),
            "{:#?}",
            workload.violations()
        );
    }
    // On a slow machine the rounds may have been too short for a cancel.
    let begun = Instant::now();
    while workload.figures().cancelled == 0 && begun.elapsed() < PATIENCE {
        workload.run_while(server.address(), || sleep(Duration::from_millis(40)));
    }
    workload.finish(server.address());
    assert!(
        workload.violations().is_empty(),
        "{:#?}",
        workload.violations()
    );
    let figures = workload.figures();
    assert!(figures.finished > 0 && figures.cancelled > 0, "{figures}");
    println!("{ROUNDS} kills, {figures}");
}
