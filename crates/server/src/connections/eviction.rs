//! Chooses the connection that ends when all places are taken and other connections may wait.
//!
//! A connection keeps its place for as long as its request lasts, and a client can make a request
//! last for hours at little cost. If no place is left, the server ends the slowest connection of the
//! network with the most connections, if that network has more than its share. On a listener for one
//! request per connection, the server ends the oldest connection that only waits for its client: the
//! client has not sent the request, or has the reply and does not close.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::callers::{AddressShare, Network};

/// How long the progress of a connection is watched before it is judged.
const WATCHED: Duration = Duration::from_secs(10);

/// The progress of a connection is measured anew after this time.
const MEASURED: Duration = Duration::from_secs(60);

/// Number of bytes a second above which a connection is not slow.
const SLOW: u64 = 16 * 1024;

/// The open connections of one listener, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenConnections(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    connections: BTreeMap<u64, Open>,
    next: u64,
}

/// An open connection in the table.
#[derive(Debug)]
struct Open {
    progress: Arc<Progress>,
    /// The network with its share. `None` if connections of networks are not counted.
    network: Option<(Network, usize)>,
    /// When the measurement began, and the bytes that had been moved by then.
    since: (Instant, u64),
    end: CancellationToken,
}

/// The progress of a connection.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Bytes that were read and written.
    moved: AtomicU64,
    has_request: AtomicBool,
    /// Whether its last reply was written, so that it only waits for the client to close.
    is_closing: AtomicBool,
}

/// An open connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    table: OpenConnections,
    number: u64,
    pub(super) progress: Arc<Progress>,
    /// Cancelled when the connection has to end.
    pub(super) end: CancellationToken,
}

// Relaxed everywhere: the values guard no other data.
impl Progress {
    pub(super) fn record_moved(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn record_request(&self) {
        self.has_request.store(true, Ordering::Relaxed);
    }

    pub(super) fn record_closing(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Whether a request is received or answered.
    fn is_answering(&self) -> bool {
        self.has_request.load(Ordering::Relaxed) && !self.is_closing.load(Ordering::Relaxed)
    }
}

impl OpenConnections {
    /// Adds a connection that begins.
    pub(super) fn enter(&self) -> Entry {
        let (progress, end) = (Arc::<Progress>::default(), CancellationToken::new());
        let open = Open {
            progress: Arc::clone(&progress),
            network: None,
            since: (Instant::now(), 0),
            end: end.clone(),
        };
        let mut table = self.lock();
        let number = table.next;
        table.next += 1;
        table.connections.insert(number, open);
        drop(table);
        Entry {
            table: self.clone(),
            number,
            progress,
            end,
        }
    }

    /// Ends the oldest connection that has not sent its request, or has its reply. Returns whether
    /// there was one.
    pub(super) fn end_oldest_idle(&self) -> bool {
        let mut table = self.lock();
        let is_idle = |(_, open): &(&u64, &Open)| !open.progress.is_answering();
        let oldest = table.connections.iter().find(is_idle);
        let Some(number) = oldest.map(|(number, _)| *number) else {
            return false;
        };
        table.end(number);
        true
    }

    /// Ends the slowest connection of the network that has the most, if it has more than its share.
    /// Returns whether there was one.
    pub(super) fn end_slowest(&self) -> bool {
        let mut table = self.lock();
        let mut counts = HashMap::<Network, usize>::new();
        let networks = table.connections.values().filter_map(|open| open.network);
        for (network, _) in networks.clone() {
            *counts.entry(network).or_default() += 1;
        }
        let above = networks.filter(|(network, share)| counts[network] > *share);
        let Some((widest, _)) = above.max_by_key(|(network, _)| counts[network]) else {
            return false;
        };
        let now = Instant::now();
        let of_widest = table
            .connections
            .iter_mut()
            .filter(|(_, open)| open.network.is_some_and(|(network, _)| network == widest));
        let slow = of_widest.filter_map(|(number, open)| Some((open.slow_rate(now)?, *number)));
        let Some((_, number)) = slow.min() else {
            return false;
        };
        table.end(number);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn end(&mut self, number: u64) {
        // Removed at once: it must not be chosen again while it ends.
        if let Some(open) = self.connections.remove(&number) {
            open.end.cancel();
        }
    }
}

impl Open {
    /// Returns the bytes a second of a slow connection; `None` if it is not slow, or was not watched
    /// for long enough.
    fn slow_rate(&mut self, now: Instant) -> Option<u64> {
        let (since, before) = self.since;
        let watched = now.duration_since(since);
        let moved = self.progress.moved.load(Ordering::Relaxed);
        if watched >= MEASURED {
            // Bytes that moved long ago say nothing about the pace now.
            self.since = (now, moved);
            return None;
        }
        let rate = (moved - before) / watched.as_secs().max(1);
        (watched >= WATCHED && rate < SLOW).then_some(rate)
    }
}

impl Entry {
    /// Counts the connection among those of its network.
    pub(super) fn set_share(&self, share: Option<&AddressShare>) {
        let network = share.map(AddressShare::widest);
        if let Some(open) = self.table.lock().connections.get_mut(&self.number) {
            open.network = network;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.table.lock().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::callers::{AddressLimits, CallerMetrics, ConnectionPermit};
    use crate::config::Settings;

    /// Connections, with a share of one connection for each network.
    struct Clients {
        open: OpenConnections,
        limits: AddressLimits,
    }

    impl Clients {
        fn new() -> Self {
            let mut settings = Settings::default();
            settings.limits.connections_per_address = 3;
            Self {
                open: OpenConnections::default(),
                limits: AddressLimits::of(&settings, &CallerMetrics::default()),
            }
        }

        fn connect(&self, ip: &str) -> (Entry, ConnectionPermit) {
            let ip: IpAddr = ip.parse().unwrap();
            let (entry, address_permit) = (self.open.enter(), self.limits.admit(ip).unwrap());
            entry.set_share(address_permit.share().as_ref());
            (entry, address_permit)
        }
    }

    fn are_ended(connections: &[&(Entry, ConnectionPermit)]) -> Vec<bool> {
        let ended = connections
            .iter()
            .map(|(entry, _)| entry.end.is_cancelled());
        ended.collect()
    }

    #[tokio::test(start_paused = true)]
    async fn slowest_connection_of_the_widest_network_ends() {
        let clients = Clients::new();
        let one = clients.connect("2001:db8:1:100::1");
        let two = clients.connect("2001:db8:1:200::1");
        let other = clients.connect("2001:db8:2:100::1");
        one.0.progress.record_moved(20_000);
        two.0.progress.record_moved(10_000);
        assert!(
            !clients.open.end_slowest(),
            "none was watched for long enough"
        );
        tokio::time::advance(WATCHED).await;
        assert!(clients.open.end_slowest());
        assert_eq!(are_ended(&[&one, &two, &other]), [false, true, false]);
        assert!(!clients.open.end_slowest(), "no network is above its share");
        let three = clients.connect("2001:db8:1:300::1");
        tokio::time::advance(WATCHED).await;
        one.0.progress.record_moved(10_000_000);
        three.0.progress.record_moved(10_000_000);
        assert!(!clients.open.end_slowest(), "none is slow");
        tokio::time::advance(MEASURED).await;
        assert!(!clients.open.end_slowest(), "they are measured anew");
        tokio::time::advance(WATCHED).await;
        assert!(clients.open.end_slowest());
        drop((one, two, three, other));
        assert!(clients.open.lock().connections.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn connections_without_a_counted_address_are_kept() {
        let open = OpenConnections::default();
        let entries = [open.enter(), open.enter(), open.enter()];
        tokio::time::advance(WATCHED).await;
        assert!(!open.end_slowest());
        drop(entries);
    }

    #[test]
    fn oldest_connection_that_waits_for_its_client_ends() {
        let open = OpenConnections::default();
        let entries = [open.enter(), open.enter(), open.enter()];
        entries[0].progress.record_request();
        let ended = || entries.each_ref().map(|entry| entry.end.is_cancelled());
        assert!(open.end_oldest_idle());
        assert_eq!(ended(), [false, true, false]);
        assert!(open.end_oldest_idle());
        assert_eq!(ended(), [false, true, true]);
        assert!(!open.end_oldest_idle(), "the other one is answered");
        entries[0].progress.record_closing();
        assert!(open.end_oldest_idle(), "it has its reply");
        assert_eq!(ended(), [true, true, true]);
    }
}
