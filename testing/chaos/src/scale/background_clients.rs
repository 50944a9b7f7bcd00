//! Clients with ordinary requests at a steady pace. They record how long each request took.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Reply, Request};
use windlass_testkit::rng::Rng;
use windlass_testkit::session::{CHUNK_GRANULARITY, content_range, target_of};

/// The pause between two requests of a client.
const PAUSE: Duration = Duration::from_millis(5);

/// Clients, each on a separate thread.
pub(super) struct BackgroundClients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<anyhow::Result<Vec<Wait>>>>,
}

/// How long a request waited for its reply.
#[derive(Debug, Clone, Copy)]
struct Wait {
    what: &'static str,
    took: Duration,
}

/// How long all requests waited.
#[derive(Debug)]
pub(super) struct Waits(Vec<Wait>);

impl BackgroundClients {
    /// They come and begin at once.
    pub(super) fn arrive(address: SocketAddr, clients: usize, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..clients as u64).map(|client| {
            let stop = Arc::clone(&stop);
            let rng = Rng::new(seed).fork(client);
            std::thread::spawn(move || BackgroundClient::new(address, rng)?.stay(&stop))
        });
        Self {
            threads: threads.collect(),
            stop,
        }
    }

    /// Lets the clients finish their current requests, and ends them.
    ///
    /// # Errors
    /// A client did not receive the expected reply.
    pub(super) fn leave(self) -> anyhow::Result<Waits> {
        self.stop.store(true, Ordering::Relaxed);
        let mut waits = Vec::new();
        for thread in self.threads {
            waits.extend(thread.join().expect("clients do not panic")?);
        }
        ensure!(!waits.is_empty(), "no request was answered");
        waits.sort_by_key(|wait| wait.took);
        Ok(Waits(waits))
    }
}

impl Waits {
    /// The longest.
    pub(super) fn slowest(&self) -> Duration {
        self.0.last().map_or(Duration::ZERO, |wait| wait.took)
    }

    fn quantile(&self, thousandths: usize) -> Duration {
        self.0[(self.0.len() - 1) * thousandths / 1000].took
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |took: Duration| took.as_secs_f64() * 1e3;
        write!(
            f,
            "{} requests: median {:.1} ms, p99 {:.1} ms, p99.9 {:.1} ms, slowest {:.1} ms ({})",
            self.0.len(),
            millis(self.quantile(500)),
            millis(self.quantile(990)),
            millis(self.quantile(999)),
            millis(self.slowest()),
            self.0.last().map_or("none", |wait| wait.what),
        )
    }
}

/// One client with its connection.
struct BackgroundClient {
    peer: RawPeer,
    rng: Rng,
    waits: Vec<Wait>,
}

impl BackgroundClient {
    fn new(address: SocketAddr, rng: Rng) -> anyhow::Result<Self> {
        Ok(Self {
            peer: RawPeer::try_connect(address)?,
            rng,
            waits: Vec::new(),
        })
    }

    fn stay(mut self, stop: &AtomicBool) -> anyhow::Result<Vec<Wait>> {
        while !stop.load(Ordering::Relaxed) {
            self.visit()?;
        }
        Ok(self.waits)
    }

    /// One upload from its start to the end of its resource.
    fn visit(&mut self) -> anyhow::Result<()> {
        let media = Media::new(self.rng.next_u64(), CHUNK_GRANULARITY + 100);
        let name = farm::named("background");
        let started = self.ask("start", &farm::start(&name), 200)?;
        let target = target_of(&started).context("a started session has a URI")?;
        let put = |range| {
            let request = Request::new("PUT", &*target);
            let request = request.header("Content-Range", content_range(media, &range));
            request.body(media.bytes(range))
        };
        self.ask("append", &put(0..CHUNK_GRANULARITY), 308)?;
        self.ask("query", &put(0..0), 308)?;
        let finished = self.ask("finish", &put(CHUNK_GRANULARITY..media.len()), 201)?;
        let id = farm::id(&finished);
        let download = self.ask("download", &farm::download(&id), 200)?;
        media.compare(0..media.len(), &download.body[..])?;
        let list = format!("{}?maxResults=20", farm::ANIMALS);
        self.ask("list", &Request::new("GET", list), 200)?;
        let small = Media::new(self.rng.next_u64(), 1000);
        self.ask("simple upload", &farm::simple(small), 200)?;
        self.ask("delete", &Request::new("DELETE", farm::animal(&id)), 204)?;
        Ok(())
    }

    fn ask(&mut self, what: &'static str, request: &Request, status: u16) -> anyhow::Result<Reply> {
        let bytes = request.to_bytes();
        std::thread::sleep(PAUSE);
        let begun = Instant::now();
        self.peer.try_send(&bytes)?;
        let reply = self.peer.try_reply()?;
        let took = begun.elapsed();
        ensure!(
            reply.status == status,
            "a {what} is answered by {}: {}",
            reply.status,
            reply.reason
        );
        self.waits.push(Wait { what, took });
        Ok(reply)
    }
}
