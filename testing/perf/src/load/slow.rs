//! Many clients in the middle of an upload, on slow lines.

use std::thread;
use std::time::{Duration, Instant};

use crate::scenario::Slow;

use super::uploader::Uploader;
use super::{Aim, Failure, Load};

/// Connections on which uploads have begun.
#[derive(Debug)]
pub(crate) struct Crowd<'a> {
    uploaders: Vec<Uploader<'a>>,
    slow: &'a Slow,
}

impl<'a> Crowd<'a> {
    /// Opens the connections, and sends the first bytes on each.
    ///
    /// # Errors
    /// The first [`Failure`].
    pub(crate) fn gather(aim: Aim<'a>, load: &'a Load, slow: &'a Slow) -> Result<Self, Failure> {
        let begun = (0..slow.connections as u64).map(|number| {
            let mut uploader = Uploader::new(aim, load);
            uploader.leave_off(number, slow.first)?;
            Ok(uploader)
        });
        Ok(Self {
            uploaders: begun.collect::<Result<_, _>>()?,
            slow,
        })
    }

    /// Goes on for as long as it should: each connection sends a little once a second, one after the other.
    ///
    /// # Errors
    /// When one is broken, or answered before all of its media was there.
    pub(crate) fn go_on(&mut self) -> Result<(), Failure> {
        let count = u32::try_from(self.slow.connections).unwrap_or(u32::MAX);
        let start = Instant::now();
        for second in 0..self.slow.seconds {
            let from = self.slow.first + u64::from(second) * self.slow.later;
            let range = from..from + self.slow.later;
            for (number, uploader) in (0..).zip(&mut self.uploaders) {
                let due =
                    Duration::from_secs(1) / count * number + Duration::from_secs(second.into());
                thread::sleep(due.saturating_sub(start.elapsed()));
                uploader.go_on(number.into(), range.clone())?;
            }
        }
        Ok(())
    }
}
