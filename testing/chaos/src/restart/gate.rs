//! A protocol with clients that wait for each other: no client sends a byte before all have a
//! session.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::ensure;
use windlass_testkit::checker::{Answer, Dialect, Google, Listing};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{Reply, Request};

/// How often a wait looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How long the last session may take to start. After that nobody waits any more.
const OPENS_WITHIN: Duration = Duration::from_secs(60);

/// How many sessions have been started, of how many.
#[derive(Debug, Clone)]
pub(super) struct Gate {
    started: Arc<AtomicUsize>,
    wanted: usize,
}

impl Gate {
    /// Opens when this number of sessions has been started.
    pub(super) fn new(wanted: usize) -> Self {
        Self {
            started: Arc::default(),
            wanted,
        }
    }

    /// Waits until all sessions have been started.
    ///
    /// # Errors
    /// When they are not in time.
    pub(super) fn wait(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let started = || self.started.load(Ordering::Relaxed);
        while started() < self.wanted {
            ensure!(
                begun.elapsed() < OPENS_WITHIN,
                "only {} of {} sessions were started within {OPENS_WITHIN:?}",
                started(),
                self.wanted
            );
            sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

/// Google's protocol behind a gate.
#[derive(Debug)]
pub(super) struct Gated {
    google: Google,
    gate: Gate,
}

impl Gated {
    pub(super) fn new(google: Google, gate: Gate) -> Self {
        Self { google, gate }
    }
}

impl Dialect for Gated {
    fn name(&self) -> &'static str {
        self.google.name()
    }

    fn start(&self, name: &str, media: Media) -> Request {
        self.google.start(name, media)
    }

    fn append(&self, target: &str, media: Media, range: Range<u64>) -> Request {
        // If the gate stays shut, the tier reports it. The clients then only have to end.
        self.gate.wait().ok();
        self.google.append(target, media, range)
    }

    fn query(&self, target: &str) -> Request {
        self.google.query(target)
    }

    fn cancel(&self, target: &str) -> Option<Request> {
        self.google.cancel(target)
    }

    fn single_request(&self, name: &str, media: Media, multipart: bool) -> Option<Request> {
        self.google.single_request(name, media, multipart)
    }

    fn answer(&self, reply: &Reply, media: Media) -> Answer {
        let answer = self.google.answer(reply, media);
        if matches!(answer, Answer::Started(_)) {
            self.gate.started.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    fn resource(&self, target: Option<&str>, finished: &[u8]) -> Option<String> {
        self.google.resource(target, finished)
    }

    fn download(&self, resource: &str) -> Option<Request> {
        self.google.download(resource)
    }

    fn listing(&self, address: SocketAddr) -> io::Result<Option<Listing>> {
        self.google.listing(address)
    }
}
