//! Clients that come while the server stops.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use windlass_testkit::farm;
use windlass_testkit::raw::RawPeer;

/// The pause between two of them.
const PAUSE: Duration = Duration::from_millis(5);

/// The results of the late clients.
#[derive(Debug, Default)]
pub(super) struct LateClients {
    /// Number of clients that could not connect, or were answered by 503.
    pub(super) refused: u64,
    /// One was served after another had been refused.
    pub(super) served_too_late: bool,
}

impl LateClients {
    /// Connects clients in sequence while `work` runs.
    pub(super) fn knock_while<T>(address: SocketAddr, work: impl FnOnce() -> T) -> (T, Self) {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let knocking = scope.spawn(|| {
                let mut late_clients = Self::default();
                while !stop.load(Ordering::Relaxed) {
                    late_clients.note(is_served(address));
                    sleep(PAUSE);
                }
                late_clients
            });
            let done = work();
            stop.store(true, Ordering::Relaxed);
            (done, knocking.join().expect("clients do not panic"))
        })
    }

    fn note(&mut self, served: Option<bool>) {
        match served {
            Some(true) => self.served_too_late |= self.refused > 0,
            Some(false) => self.refused += 1,
            None => {}
        }
    }
}

/// Whether a new client gets a session. `None` when it came just in time to be cut off.
fn is_served(address: SocketAddr) -> Option<bool> {
    let mut peer = match RawPeer::try_connect(address) {
        Ok(peer) => peer,
        Err(error) => return (error.kind() == ErrorKind::ConnectionRefused).then_some(false),
    };
    peer.try_send(farm::start(&farm::named("late")).to_bytes())
        .ok()?;
    match peer.try_reply().ok()?.status {
        200 => Some(true),
        503 => Some(false),
        _ => None,
    }
}
