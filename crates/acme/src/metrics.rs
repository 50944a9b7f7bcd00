//! The state of the certificate by ACME, for Prometheus.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::system_time;

/// The handles of the metrics. Clones share their values.
#[derive(Debug, Clone, Default)]
pub struct AcmeMetrics {
    pub(super) issued: Counter,
    pub(super) failed: Counter,
    expiry: Expiry,
}

impl AcmeMetrics {
    /// Adds them to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let acme = registry.sub_registry_with_prefix("windlass_acme");
        acme.register(
            "issued",
            "Certificates that the authority has issued",
            self.issued.clone(),
        );
        acme.register(
            "failed_attempts",
            "Attempts to get a certificate that have failed",
            self.failed.clone(),
        );
        acme.register_collector(Box::new(self.expiry.clone()));
    }

    /// Notes the end of the certificate that is in use.
    pub(super) fn expires(&self, not_after: SystemTime) {
        let mut noted = self
            .expiry
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *noted = Some(not_after);
    }
}

/// When the certificate expires: shown as the time that is left.
#[derive(Debug, Clone, Default)]
struct Expiry(Arc<RwLock<Option<SystemTime>>>);

impl Collector for Expiry {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let noted = *self.0.read().unwrap_or_else(PoisonError::into_inner);
        let metric = encoder.encode_descriptor(
            "certificate_expiry",
            "Time until the certificate in use expires; negative afterwards, absent without one.",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        match noted {
            Some(not_after) => {
                ConstGauge::new(seconds_until(not_after, system_time())).encode(metric)
            }
            None => Ok(()),
        }
    }
}

fn seconds_until(end: SystemTime, now: SystemTime) -> f64 {
    match end.duration_since(now) {
        Ok(left) => left.as_secs_f64(),
        Err(since) => -since.duration().as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_that_is_left_is_negative_after_the_end() {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        for (now, expected) in [(40, 60.0), (100, 0.0), (101, -1.0)] {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now);
            let left = seconds_until(end, now);
            assert!((left - expected).abs() < 1e-9, "{left}");
        }
    }
}
