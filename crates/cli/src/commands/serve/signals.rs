//! The signals that stop the server.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::exit;
use crate::output;

/// SIGTERM and SIGINT, caught.
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

    /// Asks the server to stop at the first signal, and ends the process at the second. Runs as
    /// long as the process.
    pub(super) async fn stop_server(mut self, stop: Arc<Notify>) {
        self.next().await;
        stop.notify_one();
        self.next().await;
        output::warning("stopped at once by a second signal", None);
        exit::at_once(exit::Code::Failure);
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
