//! The honest client: small uploads in a loop, each of which must be acknowledged.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::{Answer, Connection};

/// Its address, which no attacker has.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// The pause between two uploads: the client is no load.
const PAUSE: Duration = Duration::from_millis(10);

/// How the client connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connecting {
    /// Once.
    Once,
    /// Again for each upload.
    EachTime,
}

impl Connecting {
    /// Both ways.
    pub(super) const ALL: [Self; 2] = [Self::Once, Self::EachTime];

    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Once => "kept",
            Self::EachTime => "new",
        }
    }
}

/// The results of the uploads.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    /// The durations of the acknowledged uploads, connection included, the quickest first.
    pub(super) laps: Vec<Duration>,
    /// The errors of the failed uploads.
    pub(super) failures: Vec<String>,
}

impl Uploads {
    /// The time within which this share of the uploads was acknowledged.
    pub(super) fn quantile(&self, percent: usize) -> Option<Duration> {
        quantile(&self.laps, percent)
    }
}

/// The value below which this share of sorted values is.
pub(super) fn quantile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let index = sorted.len() * percent / 100;
    sorted
        .get(index.min(sorted.len().saturating_sub(1)))
        .copied()
}

/// Uploads in both ways at the same time while `goes_on`.
pub(super) async fn upload(server: SocketAddr, goes_on: impl Fn() -> bool) -> [Uploads; 2] {
    let [kept, new] = Connecting::ALL.map(|connecting| repeat(server, connecting, &goes_on));
    tokio::join!(kept, new).into()
}

async fn repeat(
    server: SocketAddr,
    connecting: Connecting,
    goes_on: &impl Fn() -> bool,
) -> Uploads {
    let mut uploads = Uploads::default();
    let mut connection = None;
    while goes_on() {
        let start = Instant::now();
        match once(server, &mut connection).await {
            Ok(answer) if answer.is_success() => uploads.laps.push(start.elapsed()),
            Ok(answer) => uploads.failures.push(format!("status {}", answer.status)),
            Err(error) => {
                connection = None;
                uploads.failures.push(format!("{error:#}"));
            }
        }
        if connecting == Connecting::EachTime
            || connection.as_ref().is_some_and(Connection::is_closed)
        {
            connection = None;
        }
        sleep(PAUSE).await;
    }
    uploads.laps.sort_unstable();
    uploads
}

async fn once(server: SocketAddr, connection: &mut Option<Connection>) -> anyhow::Result<Answer> {
    let open = match connection {
        Some(open) => open,
        closed => closed.insert(Connection::open(ADDRESS, server).await?),
    };
    open.upload().await
}
