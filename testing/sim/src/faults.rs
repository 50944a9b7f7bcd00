//! The faults of a run, and their times.

use std::time::Duration;

use windlass_testkit::rng::Rng;

use crate::disk::Keeps;
use crate::oracle::LIFETIME;
use crate::os::files::End;

/// The faults of a run.
#[derive(Debug)]
pub(crate) struct Faults {
    left: u64,
    next: Duration,
    /// The longest pause between two of them, in milliseconds.
    pause: u64,
}

/// A fault. A temporary fault ends after some milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// The server's process ends.
    End(End),
    /// The server's process ends after some changes of files, in the middle of whatever it does.
    EndAfter(u64, End),
    /// After some syncs one fails.
    SyncFails(u64),
    DiskFull(u64),
    /// A client and the server do not hear each other. Messages on their way are lost.
    Partition(u64),
    /// Messages between a client and the server are held back.
    Hold(u64),
    Slow(u64),
    ClientCrash(u64),
    /// The calendar goes ahead.
    Leap(Duration),
}

impl Faults {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        Self {
            left: rng.within(3..16),
            next: Duration::from_millis(rng.below(100)),
            pause: rng.pick(&[40, 400, 1500]),
        }
    }

    /// Whether no more will come.
    pub(crate) fn are_over(&self) -> bool {
        self.left == 0
    }

    /// The next fault, when it is time for it.
    pub(crate) fn due(&mut self, now: Duration, rng: &mut Rng) -> Option<Fault> {
        if self.left == 0 || now < self.next {
            return None;
        }
        self.left -= 1;
        self.next = now + Duration::from_millis(rng.below(self.pause));
        Some(Fault::draw(rng))
    }
}

impl Fault {
    fn draw(rng: &mut Rng) -> Self {
        let millis = rng.pick(&[20, 200, 2000]);
        let millis = rng.within(millis / 10..millis);
        match rng.below(20) {
            0 | 1 => Self::End(end(rng)),
            2..=8 => Self::EndAfter(rng.below(60), end(rng)),
            9 | 10 => Self::SyncFails(rng.below(10)),
            11 => Self::DiskFull(millis),
            12 => Self::Partition(millis),
            13 | 14 => Self::Hold(millis),
            15 | 16 => Self::Slow(millis),
            17 | 18 => Self::ClientCrash(millis),
            _ => Self::Leap(leap(rng)),
        }
    }
}

fn end(rng: &mut Rng) -> End {
    if rng.once_in(3) {
        End::Kill
    } else {
        End::PowerCut(rng.pick(&Keeps::ALL))
    }
}

/// Hours; now and then so long that sessions die.
fn leap(rng: &mut Rng) -> Duration {
    if rng.once_in(4) {
        LIFETIME + Duration::from_secs(60)
    } else {
        Duration::from_secs(rng.within(60..6 * 60 * 60))
    }
}
