//! Many clients in the middle of an upload, on slow lines.

use std::thread;
use std::time::{Duration, Instant};

use super::uploader::Uploader;
use super::{Failure, Load, LoadTarget};

/// Clients on slow lines.
#[derive(Debug, Clone)]
pub(crate) struct Slow {
    /// How many.
    pub(crate) connections: usize,
    /// Bytes of each upload.
    pub(crate) size: u64,
    /// How much of it comes at once.
    pub(crate) first: u64,
    /// How much comes each second from then on.
    pub(crate) later: u64,
    /// For how many seconds.
    pub(crate) seconds: u32,
}

impl Slow {
    /// Bytes of each upload that are sent in the end.
    pub(crate) fn sent(&self) -> u64 {
        self.first + u64::from(self.seconds) * self.later
    }
}

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
    pub(crate) fn gather(
        load_target: LoadTarget<'a>,
        load: &'a Load,
        slow: &'a Slow,
    ) -> Result<Self, Failure> {
        let begun = (0..slow.connections as u64).map(|number| {
            let mut uploader = Uploader::new(load_target, load);
            uploader.leave_off(number, slow.first)?;
            Ok(uploader)
        });
        Ok(Self {
            uploaders: begun.collect::<Result<_, _>>()?,
            slow,
        })
    }

    /// Continues for the configured time: once a second, each connection in turn sends a little.
    ///
    /// # Errors
    /// A connection is broken, or was answered before all of its media was there.
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
