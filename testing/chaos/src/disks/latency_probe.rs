//! A client that asks the same thing again and again, and notes how long each answer took.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use windlass_testkit::raw::{RawPeer, Reply, Request};

/// The pause between an answer and the next question.
const PAUSE: Duration = Duration::from_millis(20);

/// A request and its outcome.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// When it was asked.
    pub(super) asked: Instant,
    /// How long it took.
    pub(super) took: Duration,
    /// The status of the answer; none when the connection broke or could not be made.
    pub(super) status: Option<u16>,
}

/// A client that asks, until it is stopped, on one connection as long as that lasts.
#[derive(Debug)]
pub(super) struct LatencyProbe {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sample>>,
}

impl LatencyProbe {
    /// Begins to ask.
    pub(super) fn start(address: SocketAddr, question: Request) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread = spawn(move || {
            let (mut samples, mut peer) = (Vec::new(), None);
            while !stopped.load(Ordering::Relaxed) {
                samples.push(sample(&mut peer, address, &question));
                sleep(PAUSE);
            }
            samples
        });
        Self { stop, thread }
    }

    /// Asks for the server's health.
    pub(super) fn of_health(address: SocketAddr) -> Self {
        Self::start(address, Request::new("GET", "/healthz"))
    }

    /// Stops, and returns the samples.
    pub(super) fn stop(self) -> Vec<Sample> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

/// Sends one request on a new connection. A server that refuses may answer before it has read the
/// whole request.
///
/// # Errors
/// The connection breaks.
pub(super) fn ask_once(address: SocketAddr, question: &Request) -> std::io::Result<Reply> {
    let mut peer = RawPeer::try_connect(address)?;
    let sent = peer.try_send(question.to_bytes());
    peer.try_reply()
        .map_err(|error| sent.err().unwrap_or(error))
}

fn sample(peer: &mut Option<RawPeer>, address: SocketAddr, question: &Request) -> Sample {
    let asked = Instant::now();
    let status = ask(peer, address, question).ok();
    if status.is_none() {
        *peer = None;
    }
    Sample {
        asked,
        took: asked.elapsed(),
        status,
    }
}

fn ask(
    peer: &mut Option<RawPeer>,
    address: SocketAddr,
    question: &Request,
) -> std::io::Result<u16> {
    let peer = match peer {
        Some(peer) => peer,
        none => none.insert(RawPeer::try_connect(address)?),
    };
    peer.try_send(question.to_bytes())?;
    let reply = peer.try_reply()?;
    Ok(reply.status)
}

/// The longest that an answer took.
pub(super) fn slowest(samples: &[Sample]) -> Duration {
    samples
        .iter()
        .map(|sample| sample.took)
        .max()
        .unwrap_or_default()
}
