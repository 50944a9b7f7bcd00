//! The metrics of a store, for Prometheus.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use windlass_store::recorder::StoreRecorder;

/// Upper bounds in seconds of the buckets of durations: from a sync of a fast disk to one of a disk
/// that hardly answers.
const SECONDS: [f64; 14] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

/// Upper bounds of the buckets of the changes in one commit.
const CHANGES: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// The metrics of a store, recorded by the store itself ([`StoreRecorder`]).
///
/// Clones share their values. The metrics count from the start; a [`Registry`] that they are
/// registered in shows their values. There is no global registry: two stores in one process have
/// separate metrics. A value that a store does not record stays at zero.
///
/// ```
/// use std::time::Duration;
///
/// use prometheus_client::encoding::text::encode;
/// use prometheus_client::registry::Registry;
/// use windlass_server::StoreMetrics;
/// use windlass_store::recorder::StoreRecorder;
///
/// let metrics = StoreMetrics::default();
/// let mut registry = Registry::default();
/// metrics.register(&mut registry);
///
/// // The store is opened with a clone:
/// metrics.committed(Duration::from_millis(2), 3);
///
/// let mut text = String::new();
/// encode(&mut text, &registry)?;
/// assert!(text.contains("\nwindlass_store_commit_changes_sum 3.0\n"));
/// # Ok::<(), std::fmt::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct StoreMetrics {
    commit_duration: Histogram,
    commit_changes: Histogram,
    queued_calls: Gauge,
    wal_bytes: Gauge<u64, AtomicU64>,
    media_sync_duration: Histogram,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        Self {
            commit_duration: Histogram::new(SECONDS),
            commit_changes: Histogram::new(CHANGES),
            queued_calls: Gauge::default(),
            wal_bytes: Gauge::default(),
            media_sync_duration: Histogram::new(SECONDS),
        }
    }
}

impl StoreRecorder for StoreMetrics {
    fn committed(&self, took: Duration, changes: usize) {
        let changes = u32::try_from(changes).unwrap_or(u32::MAX);
        self.commit_duration.observe(took.as_secs_f64());
        self.commit_changes.observe(f64::from(changes));
    }

    fn call_queued(&self) {
        self.queued_calls.inc();
    }

    fn call_dequeued(&self) {
        self.queued_calls.dec();
    }

    fn wal_measured(&self, bytes: u64) {
        self.wal_bytes.set(bytes);
    }

    fn media_synced(&self, took: Duration) {
        self.media_sync_duration.observe(took.as_secs_f64());
    }
}

impl StoreMetrics {
    /// Adds the metrics to a registry, with the prefix `windlass_store`.
    ///
    /// For several stores in one registry, pass a sub-registry with a label for each:
    /// [`Registry::sub_registry_with_label`].
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("windlass_store");
        registry.register_with_unit(
            "commit_duration",
            "Time that a commit of the ledger took, its sync included",
            Unit::Seconds,
            self.commit_duration.clone(),
        );
        registry.register(
            "commit_changes",
            "Changes that one commit of the ledger has made durable together",
            self.commit_changes.clone(),
        );
        registry.register(
            "queued_calls",
            "Calls that wait for the writer of the ledger",
            self.queued_calls.clone(),
        );
        registry.register_with_unit(
            "wal",
            "Length of the write-ahead log of the ledger as of the last commit",
            Unit::Bytes,
            self.wal_bytes.clone(),
        );
        registry.register_with_unit(
            "media_sync_duration",
            "Time that a sync of media in the vault took",
            Unit::Seconds,
            self.media_sync_duration.clone(),
        );
    }
}
