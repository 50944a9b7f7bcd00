//! The signals that stop a command.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit;
use crate::output;

/// Lets a write beyond the limit of file sizes fail, as on a full disk. Without it the system ends the process (SIGXFSZ).
pub(super) fn ignore_file_size_signal() -> io::Result<()> {
    // Once caught it stays caught; nobody has to listen.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// SIGTERM and SIGINT, caught.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches the signals from now on.
    pub(super) fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one.
    ///
    /// # Cancel safety
    ///
    /// A signal that comes while nobody waits is not lost.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Ends the process at the next one. Runs as long as the process.
    pub(super) async fn end_process(mut self, code: exit::Code) {
        self.next().await;
        output::warning("stopped at once by a second signal", None);
        exit::at_once(code);
    }
}
