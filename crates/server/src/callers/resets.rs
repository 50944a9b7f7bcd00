//! The limit on HTTP/2 requests that an address resets before their reply.
//!
//! A request that is begun and reset costs the server as much as an answered request, and costs its
//! client nothing. The request holds no slot among the connection's concurrent requests, and the
//! client waits for no reply. An address that sends little else is blocked for a while.
//!
//! Requests that end with their connection do not count, because the network may end many at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use windlass_engine::MAX_CALLERS;

use crate::callers::{Address, CallerLimit, CallerMetrics};
use crate::config::Settings;

/// The time over which requests are counted, and for which an address is blocked.
const PERIOD: Duration = Duration::from_secs(60);

/// Minimum time between two removals of expired addresses.
const CLEANING: Duration = Duration::from_secs(1);

/// The requests that each address has reset, and the addresses that are blocked.
#[derive(Debug)]
pub(super) struct ResetLimit {
    most: u64,
    counts: Mutex<Counts>,
    metrics: CallerMetrics,
}

#[derive(Debug)]
struct Counts {
    addresses: HashMap<Address, Count>,
    cleaned: Instant,
}

/// The requests of one address since its first reset.
#[derive(Debug)]
struct Count {
    since: Instant,
    reset: u64,
    answered: u64,
    is_shut_out: bool,
}

impl Count {
    fn begin() -> Self {
        Self {
            since: Instant::now(),
            reset: 0,
            answered: 0,
            is_shut_out: false,
        }
    }

    fn is_over(&self) -> bool {
        self.since.elapsed() >= PERIOD
    }
}

/// The requests of one address.
#[derive(Debug, Clone)]
pub(crate) struct AddressResets {
    pub(super) limit: Arc<ResetLimit>,
    pub(super) address: Address,
}

impl AddressResets {
    /// Whether connections of the address must be closed. Each refusal is counted in the metric.
    pub(super) fn is_shut_out(&self) -> bool {
        self.limit.is_shut_out(self.address)
    }

    /// Counts requests that were reset, and requests that were answered.
    ///
    /// # Errors
    /// [`ShutOut`] if the address has reset too many.
    pub(crate) fn record(&self, reset: u64, answered: u64) -> Result<(), ShutOut> {
        self.limit.record(self.address, reset, answered)
    }
}

/// An address that has reset too many requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShutOut;

impl ResetLimit {
    /// Returns the limit that the settings state, if there is one.
    pub(super) fn of(settings: &Settings, metrics: &CallerMetrics) -> Option<Arc<Self>> {
        let most = settings.limits.resets_per_address;
        let is_limited = most > 0 && !settings.trust_forwarded;
        is_limited.then(|| Arc::new(Self::new(most as u64, metrics.clone())))
    }

    /// Allows `most` more resets than replies.
    fn new(most: u64, metrics: CallerMetrics) -> Self {
        let counts = Counts {
            addresses: HashMap::new(),
            cleaned: Instant::now(),
        };
        Self {
            most,
            counts: Mutex::new(counts),
            metrics,
        }
    }

    fn is_shut_out(&self, address: Address) -> bool {
        let counts = self.lock();
        let count = counts.addresses.get(&address);
        let is_shut_out = count.is_some_and(|count| count.is_shut_out && !count.is_over());
        drop(counts);
        if is_shut_out {
            self.metrics.count(CallerLimit::Resets);
        }
        is_shut_out
    }

    fn record(&self, address: Address, reset: u64, answered: u64) -> Result<(), ShutOut> {
        let mut counts = self.lock();
        counts.clean();
        let is_known = counts.addresses.contains_key(&address);
        if !is_known && counts.addresses.len() >= MAX_CALLERS {
            // The table is full: this address is not counted until older entries have expired.
            return Ok(());
        }
        let count = counts.addresses.entry(address).or_insert_with(Count::begin);
        if count.is_over() {
            *count = Count::begin();
        }
        count.reset += reset;
        count.answered += answered;
        if !count.is_shut_out && count.reset > count.answered.saturating_add(self.most) {
            count.is_shut_out = true;
            count.since = Instant::now();
        }
        let is_shut_out = count.is_shut_out;
        drop(counts);
        if is_shut_out {
            self.metrics.count(CallerLimit::Resets);
            return Err(ShutOut);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Removes addresses with expired counts if there are many addresses.
    fn clean(&mut self) {
        if self.addresses.len() >= MAX_CALLERS && self.cleaned.elapsed() >= CLEANING {
            self.cleaned = Instant::now();
            self.addresses.retain(|_, count| !count.is_over());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::time::advance;

    use super::*;

    fn address(last: u32) -> Address {
        IpAddr::from(last.to_be_bytes()).into()
    }

    fn limit(most: u64) -> (ResetLimit, CallerMetrics) {
        let metrics = CallerMetrics::default();
        (ResetLimit::new(most, metrics.clone()), metrics)
    }

    #[tokio::test(start_paused = true)]
    async fn address_that_resets_more_than_it_lets_be_answered_is_shut_out_for_a_while() {
        let (limit, metrics) = limit(10);
        limit.record(address(1), 8, 2).unwrap();
        limit.record(address(1), 4, 0).unwrap();
        assert!(
            !limit.is_shut_out(address(1)),
            "twelve and ten more than two"
        );
        advance(PERIOD / 2).await;
        assert_eq!(limit.record(address(1), 1, 0), Err(ShutOut));
        assert!(limit.is_shut_out(address(1)));
        assert!(!limit.is_shut_out(address(2)));
        limit.record(address(2), 10, 0).unwrap();
        assert_eq!(metrics.counter(CallerLimit::Resets).get(), 2);

        advance(PERIOD.saturating_sub(Duration::from_secs(1))).await;
        assert!(limit.is_shut_out(address(1)), "a whole period from then on");
        advance(Duration::from_secs(1)).await;
        assert!(!limit.is_shut_out(address(1)));
        limit.record(address(1), 10, 0).unwrap();
    }

    #[test]
    fn connections_of_a_trusted_proxy_have_no_limit_on_resets() {
        let is_limited = |trust_forwarded, most| {
            let mut settings = Settings {
                trust_forwarded,
                ..Settings::default()
            };
            settings.limits.resets_per_address = most;
            ResetLimit::of(&settings, &CallerMetrics::default()).is_some()
        };
        assert!(is_limited(false, 10));
        // They bring the requests of all its clients.
        assert!(!is_limited(true, 10));
        assert!(!is_limited(false, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn resets_of_another_period_do_not_count() {
        let (limit, _) = limit(10);
        for _ in 0..5 {
            limit.record(address(1), 10, 0).unwrap();
            advance(PERIOD).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_that_are_remembered_are_bounded_and_forgotten_after_their_time() {
        let (limit, _) = limit(10);
        for number in 0..2 * u32::try_from(MAX_CALLERS).unwrap() {
            limit.record(address(number), 1, 0).unwrap();
        }
        assert_eq!(limit.lock().addresses.len(), MAX_CALLERS);
        advance(PERIOD).await;
        limit.record(address(u32::MAX), 1, 0).unwrap();
        assert_eq!(limit.lock().addresses.len(), 1);
    }
}
