//! The uploads that are counted.

use std::net::SocketAddr;
use std::thread;

use anyhow::{Context as _, ensure};
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Reply, Request};
use windlass_testkit::session::target_of;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// One way to upload, carried out a fixed number of times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    /// Its name.
    pub(crate) name: &'static str,
    /// How.
    way: Way,
    /// Bytes of each media.
    size: u64,
    /// Uploads at the same time.
    connections: u64,
    /// Uploads on each connection that come first.
    pub(crate) first: u64,
    /// The additional uploads on each connection, which are counted.
    pub(crate) more: u64,
}

/// How media is uploaded.
#[derive(Debug, Clone, Copy)]
enum Way {
    Simple,
    Multipart,
    /// In two requests or more: the start, then chunks of this size.
    Resumable(u64),
}

/// All scenarios.
pub(crate) const ALL: [Scenario; 6] = [
    Scenario {
        name: "simple-4k",
        way: Way::Simple,
        size: 4 * KIB,
        connections: 1,
        first: 16,
        more: 64,
    },
    Scenario {
        name: "resumable-4k",
        way: Way::Resumable(4 * KIB),
        size: 4 * KIB,
        connections: 1,
        first: 16,
        more: 64,
    },
    Scenario {
        name: "resumable-64m",
        way: Way::Resumable(64 * MIB),
        size: 64 * MIB,
        connections: 1,
        first: 1,
        more: 2,
    },
    Scenario {
        name: "chunks-16m",
        way: Way::Resumable(256 * KIB),
        size: 16 * MIB,
        connections: 1,
        first: 1,
        more: 2,
    },
    Scenario {
        name: "multipart-16m",
        way: Way::Multipart,
        size: 16 * MIB,
        connections: 1,
        first: 1,
        more: 4,
    },
    Scenario {
        name: "simple-4k-32",
        way: Way::Simple,
        size: 4 * KIB,
        connections: 32,
        first: 1,
        more: 8,
    },
];

/// Returns the scenarios with these names, or all without names.
///
/// # Errors
/// There is no scenario of this name.
pub(crate) fn named(names: &[String]) -> anyhow::Result<Vec<Scenario>> {
    for name in names {
        let is_known = ALL.iter().any(|scenario| scenario.name == name);
        ensure!(is_known, "there is no scenario {name}");
    }
    let is_wanted = |name| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let wanted = ALL.into_iter().filter(|scenario| is_wanted(scenario.name));
    Ok(wanted.collect())
}

impl Scenario {
    /// How many uploads are counted.
    pub(crate) fn counted(&self) -> u64 {
        self.connections * self.more
    }

    /// Whether uploads run at the same time.
    pub(crate) fn is_crowded(&self) -> bool {
        self.connections > 1
    }
}

/// The connections of a scenario.
#[derive(Debug)]
pub(crate) struct Connections {
    scenario: Scenario,
    clients: Vec<RawPeer>,
}

impl Connections {
    /// Connects.
    ///
    /// # Errors
    /// A connection cannot be opened.
    pub(crate) fn connect(address: SocketAddr, scenario: Scenario) -> anyhow::Result<Self> {
        let clients = (0..scenario.connections).map(|_| RawPeer::try_connect(address));
        Ok(Self {
            scenario,
            clients: clients.collect::<Result<_, _>>()?,
        })
    }

    /// Carries out this number of uploads on each connection.
    ///
    /// # Errors
    /// When one of them is not acknowledged.
    pub(crate) fn upload(&mut self, times: u64) -> anyhow::Result<()> {
        let scenario = self.scenario;
        let carry_out =
            move |client: &mut RawPeer| (0..times).try_for_each(|_| scenario.upload(client));
        if let [alone] = &mut self.clients[..] {
            return carry_out(alone);
        }
        thread::scope(|scope| {
            let clients = self.clients.iter_mut();
            let threads: Vec<_> = clients
                .map(|client| scope.spawn(move || carry_out(client)))
                .collect();
            let mut ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
            ended.try_for_each(|result| result.expect("a client does not panic"))
        })
    }
}

impl Scenario {
    fn upload(&self, client: &mut RawPeer) -> anyhow::Result<()> {
        let media = Media::new(1, self.size);
        let request = match self.way {
            Way::Simple => farm::simple(media),
            Way::Multipart => farm::multipart("Llama", media),
            Way::Resumable(chunk) => return resumable(chunk, media, client),
        };
        exchange(client, &request, 200).map(drop)
    }
}

fn resumable(chunk: u64, media: Media, client: &mut RawPeer) -> anyhow::Result<()> {
    let start = farm::start(&farm::named("Llama")).header("X-Upload-Content-Length", media.len());
    let begun = exchange(client, &start, 200)?;
    let target = target_of(&begun).context("no Location")?;
    let mut first = 0;
    while first < media.len() {
        let end = (first + chunk).min(media.len());
        let request = Request::new("PUT", &target)
            .header(
                "Content-Range",
                format!("bytes {first}-{}/{}", end - 1, media.len()),
            )
            .body(media.bytes(first..end));
        exchange(client, &request, if end < media.len() { 308 } else { 201 })?;
        first = end;
    }
    Ok(())
}

/// Sends a request in one piece, so that the server finds as much of it as fits at its first read,
/// and reads the reply.
///
/// # Errors
/// When the connection breaks, or the status is another one.
fn exchange(client: &mut RawPeer, request: &Request, status: u16) -> anyhow::Result<Reply> {
    client.try_send(request.to_bytes())?;
    let reply = client.try_reply()?;
    ensure!(reply.status == status, "{}: {reply:?}", request.verb());
    Ok(reply)
}
