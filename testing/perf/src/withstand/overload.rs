//! Overload: twice as many uploads as the server can take.
//!
//! The peak is measured in a closed loop before and after the overload: each connection uploads
//! again when it has a reply. During the overload, uploads begin at fixed times, however many are
//! under way, like uploads of independent clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::units::float;

use super::client::{Answer, Connection};
use super::honest::quantile;

/// Numbers of connections with which the peak is looked for.
const CLOSED_LOOPS: [u32; 3] = [16, 64, 192];

/// Number of addresses of the clients.
const ADDRESSES: u32 = 64;

/// The load in units of the peak.
const FACTOR: f64 = 2.0;

// Connections above `limits.connections` would wait in the kernel until others end.
/// Maximum number of uploads under way, each on a connection.
const MAX_RUNNING: u32 = 8000;

/// The pause between two looks at the clock.
const TICK: Duration = Duration::from_millis(1);

/// The results of an overload.
#[derive(Debug, Default)]
pub(super) struct Overload {
    /// The most uploads per second in a closed loop, before the overload.
    pub(super) peak: f64,
    /// The same after it: the ledger has more rows then.
    pub(super) peak_after: f64,
    /// Uploads per second that should begin.
    pub(super) offered: f64,
    /// Uploads per second that were acknowledged while the load went on.
    pub(super) goodput: f64,
    /// Number of uploads that could not begin because [`MAX_RUNNING`] were under way.
    pub(super) unsent: u64,
    /// Processor time that the load took, in seconds of each second.
    pub(super) load_cpu: f64,
    /// The outcomes of all uploads that began.
    pub(super) outcomes: Outcomes,
}

/// The outcomes of single uploads.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// The durations of acknowledged uploads, connection included, the quickest first.
    pub(super) acknowledged: Vec<Duration>,
    /// The durations of refused uploads, from the request to the reply.
    pub(super) refused: Vec<Duration>,
    /// Number of refusals without `Retry-After`.
    pub(super) without_retry_after: u64,
    /// Number of uploads with a broken or failed connection, or without a reply in time.
    pub(super) broken: u64,
    /// Number of replies that are neither an acknowledgement nor a refusal.
    pub(super) unexpected: u64,
    /// Number of uploads that were acknowledged while the load went on.
    in_time: u64,
}

impl Outcomes {
    fn add(&mut self, start: Instant, end: Instant, uploaded: &anyhow::Result<Answer>) {
        match uploaded {
            Ok(answer) if answer.is_success() => {
                self.acknowledged.push(start.elapsed());
                self.in_time += u64::from(Instant::now() < end);
            }
            Ok(answer) if answer.is_refusal() => {
                self.refused.push(answer.took);
                self.without_retry_after += u64::from(!answer.has_retry_after);
            }
            Ok(_) => self.unexpected += 1,
            Err(_) => self.broken += 1,
        }
    }

    /// The median time of a refusal.
    pub(super) fn refusal(&self) -> Option<Duration> {
        quantile(&self.refused, 50)
    }
}

/// Measures the peak, and the throughput at twice the load. Each load runs for `length`.
///
/// # Errors
/// An upload of a closed loop is not acknowledged.
pub(super) async fn measure(server: SocketAddr, length: Duration) -> anyhow::Result<Overload> {
    let peak = peak(server, length / 3).await?;
    let mut overload = open_loop(server, FACTOR * peak, length).await;
    overload.peak = peak;
    overload.peak_after = self::peak(server, length / 3).await?;
    Ok(overload)
}

/// Returns the best rate of the closed loops. Each runs for `length`.
async fn peak(server: SocketAddr, length: Duration) -> anyhow::Result<f64> {
    let mut peak: f64 = 0.0;
    for connections in CLOSED_LOOPS {
        peak = peak.max(closed_loop(server, connections, length).await?);
    }
    Ok(peak)
}

/// Returns the acknowledged uploads per second.
async fn closed_loop(
    server: SocketAddr,
    connections: u32,
    length: Duration,
) -> anyhow::Result<f64> {
    let start = Instant::now();
    let end = start + length;
    let mut clients = JoinSet::new();
    for number in 0..connections {
        clients.spawn(async move {
            let mut connection = Connection::open(address(number), server).await?;
            let mut count: u64 = 0;
            while Instant::now() < end {
                let answer = connection.upload().await?;
                anyhow::ensure!(answer.is_success(), "status {}", answer.status);
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut count = 0;
    while let Some(client) = clients.join_next().await {
        count += client??;
    }
    Ok(float(count) / start.elapsed().as_secs_f64())
}

/// Begins `rate` uploads per second.
async fn open_loop(server: SocketAddr, rate: f64, length: Duration) -> Overload {
    let clients = Arc::new(Clients {
        server,
        end: Instant::now() + length,
        idle: Mutex::default(),
        opened: AtomicU64::default(),
        under_way: AtomicU32::default(),
        outcomes: Mutex::default(),
    });
    let start = Instant::now();
    let cpu = thread_cpu();
    let (mut begun, mut unsent): (u64, u64) = (0, 0);
    let mut uploads = JoinSet::new();
    let mut tick = start;
    while tick < clients.end {
        let due = rate * start.elapsed().as_secs_f64();
        while float(begun + unsent) < due {
            if clients.under_way.load(Ordering::Relaxed) >= MAX_RUNNING {
                unsent += 1;
                continue;
            }
            clients.under_way.fetch_add(1, Ordering::Relaxed);
            begun += 1;
            let clients = Arc::clone(&clients);
            uploads.spawn(async move { clients.upload().await });
        }
        // Joining the ended tasks frees their memory.
        while uploads.try_join_next().is_some() {}
        tick += TICK;
        sleep_until(tick).await;
    }
    let seconds = length.as_secs_f64();
    let load_cpu = (thread_cpu() - cpu) / seconds;
    while uploads.join_next().await.is_some() {}
    let outcomes = std::mem::take(&mut *lock(&clients.outcomes));
    let sorted = |mut laps: Vec<Duration>| {
        laps.sort_unstable();
        laps
    };
    Overload {
        peak: 0.0,
        peak_after: 0.0,
        offered: float(begun + unsent) / seconds,
        goodput: float(outcomes.in_time) / seconds,
        unsent,
        load_cpu,
        outcomes: Outcomes {
            acknowledged: sorted(outcomes.acknowledged),
            refused: sorted(outcomes.refused),
            ..outcomes
        },
    }
}

/// Processor time of this thread, on which all clients are, in seconds.
fn thread_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let time = Duration::try_from(time).unwrap_or_default();
    time.as_secs_f64()
}

/// The clients of an open loop. They share connections that are idle.
struct Clients {
    server: SocketAddr,
    /// When the load ends.
    end: Instant,
    idle: Mutex<Vec<Connection>>,
    opened: AtomicU64,
    under_way: AtomicU32,
    outcomes: Mutex<Outcomes>,
}

impl Clients {
    async fn upload(&self) {
        let start = Instant::now();
        let uploaded = self.try_upload().await;
        lock(&self.outcomes).add(start, self.end, &uploaded);
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    async fn try_upload(&self) -> anyhow::Result<Answer> {
        let idle = lock(&self.idle).pop();
        let mut connection = match idle {
            Some(connection) if !connection.is_closed() => connection,
            _ => {
                let number = self.opened.fetch_add(1, Ordering::Relaxed);
                let number = u32::try_from(number % u64::from(ADDRESSES)).unwrap_or_default();
                Connection::open(address(number), self.server).await?
            }
        };
        let answer = connection.upload().await?;
        if !connection.is_closed() {
            lock(&self.idle).push(connection);
        }
        Ok(answer)
    }
}

/// The address of the client with this number, from 127.2.0.0 on.
fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x7f02_0000 + number % ADDRESSES)
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, has_retry_after: bool) -> Answer {
        Answer {
            status,
            has_retry_after,
            took: Duration::from_millis(1),
        }
    }

    #[tokio::test]
    async fn refusal_without_retry_after_is_counted_and_late_upload_is_no_goodput() {
        let mut outcomes = Outcomes::default();
        let now = Instant::now();
        let later = now + Duration::from_secs(3600);
        let all = [
            (later, Ok(answer(201, false))),
            (now, Ok(answer(201, false))),
            (later, Ok(answer(503, true))),
            (later, Ok(answer(429, false))),
            (later, Ok(answer(400, false))),
            (later, Err(anyhow::anyhow!("broken"))),
        ];
        for (end, uploaded) in &all {
            outcomes.add(now, *end, uploaded);
        }
        assert_eq!((outcomes.acknowledged.len(), outcomes.in_time), (2, 1));
        assert_eq!(
            (outcomes.refused.len(), outcomes.without_retry_after),
            (2, 1)
        );
        assert_eq!((outcomes.unexpected, outcomes.broken), (1, 1));
    }
}
