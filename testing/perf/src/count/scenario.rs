//! What is uploaded.

use std::net::SocketAddr;
use std::thread;

use anyhow::{Context as _, ensure};

use super::client::{Ask, Client};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Room for the target of a session.
const TARGET: usize = 1024;

const UPLOADS: &str = "/upload/farm/v1/animals";

const BEFORE: &str = "--between\r\nContent-Type: application/json\r\n\r\n{\"name\":\"Llama\"}\r\n\
    --between\r\nContent-Type: image/png\r\n\r\n";

const BEHIND: &str = "\r\n--between--\r\n";

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
    /// And those that are counted.
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

/// Those of these names; all of them when there are none.
///
/// # Errors
/// When there is no such scenario.
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

    /// Whether uploads go on beside each other.
    pub(crate) fn is_crowded(&self) -> bool {
        self.connections > 1
    }
}

/// The connections of a scenario.
#[derive(Debug)]
pub(crate) struct Crew {
    scenario: Scenario,
    clients: Vec<(Client, String)>,
}

impl Crew {
    /// Connects.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn connect(address: SocketAddr, scenario: Scenario) -> anyhow::Result<Self> {
        let clients = (0..scenario.connections)
            .map(|_| Ok((Client::connect(address)?, String::with_capacity(TARGET))));
        Ok(Self {
            scenario,
            clients: clients.collect::<anyhow::Result<_>>()?,
        })
    }

    /// Carries out so many uploads on each connection.
    ///
    /// # Errors
    /// When one of them is not acknowledged.
    pub(crate) fn upload(&mut self, times: u64) -> anyhow::Result<()> {
        let scenario = self.scenario;
        let carry_out = move |(client, target): &mut (Client, String)| {
            (0..times).try_for_each(|_| scenario.upload(client, target))
        };
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
    fn upload(&self, client: &mut Client, target: &mut String) -> anyhow::Result<()> {
        let ask = match self.way {
            Way::Simple => Ask {
                line: ("POST", "/upload/farm/v1/animals?uploadType=media"),
                headers: format_args!("Content-Type: image/png\r\n"),
                around: ("", ""),
                media: self.size,
                status: 200,
            },
            Way::Multipart => Ask {
                line: ("POST", "/upload/farm/v1/animals?uploadType=multipart"),
                headers: format_args!("Content-Type: multipart/related; boundary=between\r\n"),
                around: (BEFORE, BEHIND),
                media: self.size,
                status: 200,
            },
            Way::Resumable(chunk) => return self.resumable(chunk, client, target),
        };
        client.ask(&ask).map(drop)
    }

    fn resumable(
        &self,
        chunk: u64,
        client: &mut Client,
        target: &mut String,
    ) -> anyhow::Result<()> {
        let begun = client.ask(&Ask {
            line: ("POST", "/upload/farm/v1/animals?uploadType=resumable"),
            headers: format_args!(
                "Content-Type: application/json\r\nX-Upload-Content-Type: image/png\r\nX-Upload-Content-Length: {}\r\n",
                self.size
            ),
            around: ("{\"name\":\"Llama\"}", ""),
            media: 0,
            status: 200,
        })?;
        let location = begun.header("location").context("no Location")?;
        let path = location.find(UPLOADS).context("a Location elsewhere")?;
        target.clear();
        target.push_str(&location[path..]);
        let mut first = 0;
        while first < self.size {
            let end = (first + chunk).min(self.size);
            client.ask(&Ask {
                line: ("PUT", target),
                headers: format_args!("Content-Range: bytes {first}-{}/{}\r\n", end - 1, self.size),
                around: ("", ""),
                media: end - first,
                status: if end < self.size { 308 } else { 201 },
            })?;
            first = end;
        }
        Ok(())
    }
}
