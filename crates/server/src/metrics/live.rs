//! Metrics that are read at each scrape: the use of limited resources, and the state of the
//! storage.

use std::fmt;
use std::sync::{Arc, OnceLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use windlass_engine::Usage;
use windlass_engine::disks::Disks;
use windlass_engine::lifecycle::Lifecycle;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StoreLabels {
    store: &'static str,
}

/// The state of a server that is read at each scrape. Empty before the server is built.
#[derive(Debug, Default)]
pub(super) struct Live(OnceLock<Sources>);

/// The sources of these metrics.
pub(crate) struct Sources {
    /// Returns the use of all limited resources.
    pub(crate) usage: Box<dyn Fn() -> Vec<Usage> + Send + Sync>,
    pub(crate) disks: Arc<Disks>,
    pub(crate) lifecycle: Arc<Lifecycle>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

impl Live {
    /// Sets the sources, once: a builder builds one server.
    pub(super) fn read_from(&self, sources: Sources) {
        self.0.set(sources).ok();
    }
}

impl Collector for Live {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let Some(sources) = self.0.get() else {
            return Ok(());
        };
        let usage = (sources.usage)();
        let (bytes, counts): (Vec<_>, Vec<_>) =
            usage.iter().partition(|usage| usage.resource.is_in_bytes());
        let used = |usage: &Usage| gauge(usage.used);
        let limit = |usage: &Usage| gauge(usage.limit);
        let refused = |usage: &Usage| ConstCounter::new(usage.refused);
        let mut resources = Resources(&mut encoder);
        resources.encode(
            "capacity_used",
            "Things that requests hold at the moment, by limited resource.",
            None,
            &counts,
            used,
        )?;
        resources.encode(
            "capacity_limit",
            "Largest number of things that requests may hold, by limited resource.",
            None,
            &counts,
            limit,
        )?;
        resources.encode(
            "capacity_used",
            "Memory that requests hold at the moment, by limited resource.",
            Some(&Unit::Bytes),
            &bytes,
            used,
        )?;
        resources.encode(
            "capacity_limit",
            "Most memory that requests may hold, by limited resource.",
            Some(&Unit::Bytes),
            &bytes,
            limit,
        )?;
        resources.encode(
            "capacity_refusals",
            "Times that the limit on a resource has refused something.",
            None,
            &usage.iter().collect::<Vec<_>>(),
            refused,
        )?;
        let mut free = encoder.encode_descriptor(
            "storage_free",
            "Free space on the disk of a store as of the last measurement, less what was written since.",
            Some(&Unit::Bytes),
            ConstGauge::<i64>::TYPE,
        )?;
        for (store, bytes) in sources.disks.free() {
            gauge(bytes).encode(free.encode_family(&StoreLabels { store })?)?;
        }
        let set_aside = encoder.encode_descriptor(
            "storage_set_aside",
            "Space that is set aside for media of declared length which is not written yet.",
            Some(&Unit::Bytes),
            ConstGauge::<i64>::TYPE,
        )?;
        gauge(sources.disks.set_aside()).encode(set_aside)?;
        let failed = encoder.encode_descriptor(
            "storage_failed",
            "1 after storage has failed, which stops the server; else 0.",
            None,
            ConstGauge::<i64>::TYPE,
        )?;
        ConstGauge::new(i64::from(sources.lifecycle.has_failed())).encode(failed)
    }
}

/// Writes metrics that have a value for each limited resource.
struct Resources<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Resources<'_, '_> {
    fn encode<M: EncodeMetric + TypedMetric>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        usage: &[&Usage],
        metric: impl Fn(&Usage) -> M,
    ) -> std::fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, M::TYPE)?;
        for usage in usage {
            let resource = usage.resource.label();
            metric(usage).encode(family.encode_family(&ResourceLabels { resource })?)?;
        }
        Ok(())
    }
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}
