//! Metrics of services.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use windlass_engine::{Full, LimitedResource};

use crate::handler::Rejection;

/// Upper bounds in seconds of the buckets of calls: from a service on the same machine to the
/// default timeout.
const SECONDS: [f64; 11] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    method: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeliveryLabels {
    event: String,
    outcome: &'static str,
}

/// The handles of the metrics.
#[derive(Debug)]
pub(super) struct BackendMetrics {
    calls: Family<CallLabels, Counter>,
    call_duration: Histogram,
    deliveries: Family<DeliveryLabels, Counter>,
}

impl Default for BackendMetrics {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            call_duration: Histogram::new(SECONDS),
            deliveries: Family::default(),
        }
    }
}

const ANSWERED: &str = "answered";
const REFUSED: &str = "refused";
const FAILED: &str = "failed";
const BUSY: &str = "busy";
const DELIVERED: &str = "delivered";

impl BackendMetrics {
    /// Adds them to a registry, with the prefix `windlass_backend`.
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("windlass_backend");
        registry.register(
            "calls",
            "Calls of methods that a service answers",
            self.calls.clone(),
        );
        registry.register_with_unit(
            "call_duration",
            "Time that a service took for a call",
            Unit::Seconds,
            self.call_duration.clone(),
        );
        registry.register(
            "deliveries",
            "Attempts to tell a service of a finished upload",
            self.deliveries.clone(),
        );
    }

    /// Creates the series of methods and events with the value 0.
    pub(super) fn prepare<'a>(
        &self,
        methods: impl Iterator<Item = &'a str>,
        events: impl Iterator<Item = String>,
    ) {
        for method in methods {
            for outcome in [ANSWERED, REFUSED, FAILED, BUSY] {
                drop(self.call(method, outcome));
            }
        }
        for event in events {
            for outcome in [DELIVERED, FAILED] {
                drop(self.delivery(&event, outcome));
            }
        }
    }

    /// Counts a call by its result. A call that did not reach its service is not counted, unless it
    /// was refused because too many calls wait.
    pub(super) fn called<T>(&self, method: &str, result: &Result<T, Rejection>) {
        let outcome = match result {
            Ok(_) => ANSWERED,
            Err(Rejection::Backend { .. }) => REFUSED,
            Err(Rejection::BackendFailed { .. }) => FAILED,
            Err(Rejection::Full(Full(LimitedResource::BackendCalls))) => BUSY,
            Err(_) => return,
        };
        self.call(method, outcome).inc();
    }

    /// Records the time that a service took.
    pub(super) fn took(&self, time: Duration) {
        self.call_duration.observe(time.as_secs_f64());
    }

    /// Counts an attempt to deliver an event.
    pub(super) fn delivered(&self, event: &str, is_delivered: bool) {
        let outcome = if is_delivered { DELIVERED } else { FAILED };
        self.delivery(event, outcome).inc();
    }

    fn call(&self, method: &str, outcome: &'static str) -> Counter {
        self.calls.get_or_create_owned(&CallLabels {
            method: method.to_owned(),
            outcome,
        })
    }

    fn delivery(&self, event: &str, outcome: &'static str) -> Counter {
        self.deliveries.get_or_create_owned(&DeliveryLabels {
            event: event.to_owned(),
            outcome,
        })
    }
}
