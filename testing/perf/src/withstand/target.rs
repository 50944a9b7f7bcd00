//! The attacked server: its settings, its memory and its counters.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use windlass_testkit::exposition::Exposition;
use windlass_testkit::process::open_files;
use windlass_testkit::raw::{RawPeer, Request};

use crate::data_dirs::DataDirs;
use crate::server::{Launch, Server, free_port};
use crate::units::{GIB, KIB, MIB};

/// Memory of a connection, as docs/configuration.md says.
const CONNECTION: u64 = 48 * KIB;

/// Memory of everything else.
const BASE: u64 = 64 * MIB;

/// Time limit for the server to close connections that its clients have closed.
const CLOSES_WITHIN: Duration = Duration::from_secs(15);

/// Variables of the environment of a server: keys of its configuration with their values.
pub(super) type Settings = [(&'static str, &'static str)];

/// A server with a new data directory.
#[derive(Debug)]
pub(super) struct Target {
    server: Server,
    /// Where it serves its metrics. Clients cannot take their connections.
    metrics: SocketAddr,
}

/// Counters of the server by series.
pub(super) type Counts = BTreeMap<String, f64>;

impl Target {
    /// Starts a server with these settings.
    ///
    /// # Errors
    /// When it does not start.
    pub(super) fn start(
        binary: &Path,
        data_dirs: &mut DataDirs,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let data = data_dirs.new_dir(GIB)?;
        let metrics = free_port()?;
        let mut command = Command::new(binary);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .env("WINDLASS_METRICS_LISTEN", metrics.to_string())
            .envs(settings.iter().copied());
        let launch = Launch {
            command,
            address: None,
        };
        let server = Server::start(launch, &data.with_extension("log"), data_dirs.path())?;
        Ok(Self { server, metrics })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Resets the peak memory to the current memory.
    pub(super) fn forget_peak(&self) {
        self.server.forget_peak();
    }

    /// The most memory that it has held, in bytes.
    pub(super) fn peak(&self) -> u64 {
        self.server.usage().peak
    }

    /// The memory that it may hold with all of its connections, in bytes.
    pub(super) fn memory_limit(&self) -> u64 {
        let limit = self
            .scrape()
            .value("windlass_capacity_limit{resource=\"connections\"}");
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the number of connections is a small integer"
        )]
        let connections = limit as u64;
        connections * CONNECTION + BASE
    }

    /// Its open files and sockets.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn open_files(&self) -> anyhow::Result<usize> {
        Ok(open_files(self.server.id())?)
    }

    /// Its open files and sockets when they are as few as `before`, or do not become so in time.
    ///
    /// # Errors
    /// When it has ended.
    pub(super) fn open_files_after(&self, before: usize) -> anyhow::Result<usize> {
        let start = Instant::now();
        loop {
            let now = self.open_files()?;
            if now <= before || start.elapsed() > CLOSES_WITHIN {
                return Ok(now);
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Returns the server's counters of refusals, ended connections and unanswered requests so far.
    pub(super) fn counts(&self) -> Counts {
        let samples = self.scrape().samples;
        let told = samples.into_iter().filter_map(|sample| {
            let name = match sample.name.as_str() {
                "windlass_limited_total" => sample.labels.get("limit")?.clone(),
                "windlass_capacity_refusals_total" => {
                    format!("refused for {}", sample.labels.get("resource")?)
                }
                "windlass_requests_total" => match sample.labels.get("status")?.as_str() {
                    "2xx" | "3xx" => return None,
                    status => format!("requests {status}"),
                },
                _ => return None,
            };
            Some((name, sample.value))
        });
        let mut counts = Counts::new();
        for (name, value) in told {
            *counts.entry(name).or_default() += value;
        }
        counts
    }

    fn scrape(&self) -> Exposition {
        let reply = RawPeer::connect(self.metrics).exchange(&Request::new("GET", "/metrics"));
        Exposition::parse(reply.expect(200).text())
    }
}

/// Describes the increase of the counters, in words.
pub(super) fn counted(before: &Counts, after: &Counts) -> String {
    let grown = after.iter().filter_map(|(name, value)| {
        let more = value - before.get(name).copied().unwrap_or_default();
        (more > 0.0).then(|| format!("{name} {more}"))
    });
    let grown: Vec<_> = grown.collect();
    if grown.is_empty() {
        "nothing".to_owned()
    } else {
        grown.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_have_grown_are_told_and_others_are_not() {
        let counts = |pairs: &[(&str, f64)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value));
            pairs.collect::<Counts>()
        };
        let before = counts(&[("min_rate", 2.0), ("requests 5xx", 1.0)]);
        let after = counts(&[
            ("min_rate", 5.0),
            ("requests 4xx", 1.0),
            ("requests 5xx", 1.0),
        ]);
        assert_eq!(counted(&before, &after), "min_rate 3, requests 4xx 1");
        assert_eq!(counted(&after, &after), "nothing");
    }
}
