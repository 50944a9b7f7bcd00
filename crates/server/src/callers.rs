//! Limits per caller: the open connections of an address, the requests that an address resets, and
//! the requests per second of an address and of a principal.
//!
//! All addresses between which one owner can choose count as one [`Address`]: an IPv4 address, or
//! the /64 network of an IPv6 address. Many owners have a /56 or a /48 network of IPv6. The
//! connections of these networks have [larger limits](WIDE). Behind a trusted proxy, the address is
//! the client address that the proxy states, and connections of the proxy are not limited.
//!
//! The memory for this state is bounded. The state of connections, and of requests behind a trusted
//! proxy, is bounded by their number. The state of resets is bounded by [`MAX_CALLERS`]. The state
//! of rates may exceed [`MAX_CALLERS`]: idle callers are evicted above this number, but callers of
//! the last two to three seconds are kept.

mod resets;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::time::Instant;
use windlass_engine::{Error as EngineError, Importance, MAX_CALLERS};
use windlass_proto::batch::{BatchError, CallError};
use windlass_proto::error::ProtocolError;
use windlass_proto::metadata::MetadataError;
use windlass_proto::related::RelatedError;
use windlass_rest::principal::{Principal, network};
use windlass_store::LedgerError;

use crate::config::{Limits, Settings};
use crate::error::{BodyError, Error};

pub(crate) use resets::AddressResets;
use resets::ResetLimit;

/// The number of callers is compared with [`MAX_CALLERS`] once in this number of requests.
const CLEANING: u64 = 1024;

/// `Retry-After` in seconds for a client at its limit of concurrent requests.
const BUSY_RETRY_AFTER: u32 = 1;

/// The burst that a rate limit allows, in seconds of the rate.
const BURST: u32 = 2;

/// An IPv4 address, or the /64 network of an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Address(IpAddr);

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        Self(network(ip))
    }
}

/// The IPv6 networks above an [`Address`] that have connection limits: the length of the prefix,
/// and the limit as a multiple of the limit per address.
// Most customers get a /56, and organizations get a /48. A network at its limit still leaves half
// of the default of `limits.connections` to other clients.
const WIDE: [(u8, usize); 2] = [(56, 2), (48, 4)];

/// An IPv4 address, or a network of IPv6 addresses with the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Network(IpAddr, u8);

impl Address {
    /// Returns the networks above the address, each with its limit as a multiple of the address's
    /// limit.
    fn wide(self) -> impl Iterator<Item = (Network, usize)> {
        let networks = WIDE.map(|(prefix, times)| match self.0 {
            IpAddr::V4(_) => None,
            IpAddr::V6(ip) => {
                let mask = u128::MAX << (128 - u32::from(prefix));
                let network = Ipv6Addr::from_bits(ip.to_bits() & mask);
                Some((Network(network.into(), prefix), times))
            }
        });
        networks.into_iter().flatten()
    }
}

/// The limits of callers, as their metric names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerLimit {
    Connections,
    /// Of requests that are reset ([`resets`]).
    Resets,
    AddressRate,
    PrincipalRate,
    /// Of sessions or of bytes ([`windlass_engine::quotas`]).
    Quota,
    /// Of bytes that the server copies ([`windlass_engine::copies`]).
    Copies,
    HeadTime,
    Head,
    PartHeaders,
    Metadata,
    JsonValues,
    JsonDepth,
    BodyPause,
    BodyRate,
    GzipRatio,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    limit: &'static str,
}

/// Counts refusals and closed connections by the [`CallerLimit`] that the caller exceeded.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallerMetrics(Family<LimitLabels, Counter>);

impl CallerMetrics {
    /// Returns the metric to register: a counter for each limit.
    pub(crate) fn family(&self) -> impl prometheus_client::registry::Metric {
        // Creates the counters, so that counters of 0 are shown as well.
        for limit in CallerLimit::ALL {
            drop(self.counter(limit));
        }
        self.0.clone()
    }

    pub(crate) fn count(&self, limit: CallerLimit) {
        self.counter(limit).inc();
    }

    fn counter(&self, limit: CallerLimit) -> Counter {
        self.0.get_or_create_owned(&LimitLabels {
            limit: limit.name(),
        })
    }
}

impl CallerLimit {
    const ALL: [Self; 15] = [
        Self::Connections,
        Self::Resets,
        Self::AddressRate,
        Self::PrincipalRate,
        Self::Quota,
        Self::Copies,
        Self::HeadTime,
        Self::Head,
        Self::PartHeaders,
        Self::Metadata,
        Self::JsonValues,
        Self::JsonDepth,
        Self::BodyPause,
        Self::BodyRate,
        Self::GzipRatio,
    ];

    /// Returns the limit that a request with this error exceeds. Limits on addresses and on rates
    /// return `None`: they are counted where they are checked.
    pub(crate) fn exceeded_by(error: &Error) -> Option<Self> {
        match error {
            Error::Engine(EngineError::Ledger(LedgerError::OverQuota)) => Some(Self::Quota),
            Error::Engine(EngineError::TooManyCopies { .. }) => Some(Self::Copies),
            Error::Protocol(ProtocolError::Metadata(MetadataError::TooManyValues { .. })) => {
                Some(Self::JsonValues)
            }
            Error::Protocol(ProtocolError::Metadata(MetadataError::TooDeep { .. })) => {
                Some(Self::JsonDepth)
            }
            Error::Protocol(ProtocolError::Related(RelatedError::MetadataTooLarge { .. })) => {
                Some(Self::Metadata)
            }
            Error::Protocol(ProtocolError::Related(RelatedError::PartHeadersTooLarge {
                ..
            }))
            | Error::Batch(BatchError::Call {
                problem: CallError::HeadTooLarge { .. },
                ..
            }) => Some(Self::PartHeaders),
            _ => match error.of_body()? {
                BodyError::Stalled(_) => Some(Self::BodyPause),
                BodyError::Slow { .. } => Some(Self::BodyRate),
                BodyError::Expands { .. } => Some(Self::GzipRatio),
                BodyError::TooLong { .. } => Some(Self::Metadata),
                BodyError::Broken | BodyError::Malformed | BodyError::NotGzip => None,
            },
        }
    }

    /// Returns the limit's key in the configuration. A quota has two keys.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections_per_address",
            Self::Resets => "resets_per_address",
            Self::AddressRate => "requests_per_address",
            Self::PrincipalRate => "requests_per_principal",
            Self::Quota => "quota",
            Self::Copies => "copies_per_hour",
            Self::HeadTime => "head_timeout",
            Self::Head => "head",
            Self::PartHeaders => "part_headers",
            Self::Metadata => "metadata",
            Self::JsonValues => "json_values",
            Self::JsonDepth => "json_depth",
            Self::BodyPause => "body_timeout",
            Self::BodyRate => "min_rate",
            Self::GzipRatio => "gzip_ratio",
        }
    }
}

/// The limits on connections and on concurrent requests per address. By default there are no
/// limits.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressLimits {
    /// `None` behind a trusted proxy: the connections there are the proxy's and serve many clients.
    connections: Option<Arc<AddressPlaces>>,
    /// The same limit as for connections, because one HTTP/2 connection carries many requests.
    requests: Option<Arc<AddressPlaces>>,
    resets: Option<Arc<ResetLimit>>,
}

/// A permit for a connection of an address. The connection is counted until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct ConnectionPermit {
    place: Option<AddressPermit>,
    /// Counts the requests that the connection resets.
    pub(crate) resets: Option<AddressResets>,
}

/// The address is at its connection limit, or blocked because of resets.
#[derive(Debug)]
pub(crate) struct TooMany;

impl AddressLimits {
    pub(crate) fn of(settings: &Settings, metrics: &CallerMetrics) -> Self {
        let most = settings.limits.connections_per_address;
        let places = || (most > 0).then(|| Arc::new(AddressPlaces::new(most, metrics.clone())));
        Self {
            connections: places().filter(|_| !settings.trust_forwarded),
            requests: places(),
            resets: ResetLimit::of(settings, metrics),
        }
    }

    /// Whether the client's address has at most half of the mean number of requests per address,
    /// including one more request. A nearly full server prefers such clients. Always false if
    /// [`Limits::connections_per_address`] is 0.
    pub(crate) fn is_modest(&self, client: Option<IpAddr>) -> bool {
        let (Some(requests), Some(client)) = (&self.requests, client) else {
            return false;
        };
        requests.is_modest(client.into())
    }

    /// Returns the importance of a request of this client.
    pub(crate) fn importance_to(
        &self,
        client: Option<IpAddr>,
        importance: Importance,
    ) -> Importance {
        if self.is_modest(client) {
            Importance::Modest
        } else {
            importance
        }
    }

    /// Admits a request of a client. A request without a known client is not limited.
    ///
    /// # Errors
    /// [`Error::TooManyRequests`] if the client has as many requests as it may have connections.
    pub(crate) fn admit_request(
        &self,
        client: Option<IpAddr>,
    ) -> Result<Option<AddressPermit>, Error> {
        let (Some(limit), Some(client)) = (&self.requests, client) else {
            return Ok(None);
        };
        let place = limit.admit(client.into());
        place.map(Some).ok_or(Error::TooManyRequests {
            retry_after: BUSY_RETRY_AFTER,
        })
    }

    /// Admits a connection of a client.
    ///
    /// # Errors
    /// [`TooMany`] if the address is at its limit, or blocked because of resets.
    pub(crate) fn admit(&self, client: IpAddr) -> Result<ConnectionPermit, TooMany> {
        let address = Address::from(client);
        let resets = self.resets.as_ref().map(|limit| AddressResets {
            limit: Arc::clone(limit),
            address,
        });
        // A blocked address is refused before it takes a connection permit.
        if resets.as_ref().is_some_and(AddressResets::is_shut_out) {
            return Err(TooMany);
        }
        let place = match &self.connections {
            Some(connections) => Some(connections.admit(address).ok_or(TooMany)?),
            None => None,
        };
        Ok(ConnectionPermit { place, resets })
    }
}

impl ConnectionPermit {
    /// Returns a handle to the connections of the address, if they are limited.
    pub(crate) fn share(&self) -> Option<AddressShare> {
        Some(self.place.as_ref()?.0.clone())
    }
}

/// The connections, or the running requests, of one address.
#[derive(Debug, Clone)]
pub(crate) struct AddressShare {
    places: Arc<AddressPlaces>,
    address: Address,
}

impl AddressShare {
    /// Whether the address has at most half of the mean per address.
    pub(crate) fn is_modest(&self) -> bool {
        let open = self.places.lock();
        open.is_few(open.count(self.address))
    }

    /// Returns the widest network of the address, and the network's limit on an overloaded server:
    /// half of the limit of one address.
    pub(crate) fn widest(&self) -> (Network, usize) {
        let single = Network(self.address.0, u8::MAX);
        let widest = self.address.wide().last();
        let network = widest.map_or(single, |(network, _)| network);
        (network, self.places.most / 2)
    }
}

/// The open connections, or the running requests, of each address.
#[derive(Debug)]
struct AddressPlaces {
    most: usize,
    open: Mutex<Open>,
    metrics: CallerMetrics,
}

#[derive(Debug, Default)]
struct Open {
    /// The count of each address. Never 0.
    of: HashMap<Address, usize>,
    /// The counts of the networks above an address. Never 0.
    of_wide: HashMap<Network, usize>,
    total: usize,
}

impl Open {
    fn count(&self, address: Address) -> usize {
        self.of.get(&address).copied().unwrap_or_default()
    }

    /// Whether an address may have one more, where `most` is the limit per address. The limits of
    /// the networks above the address apply as well.
    fn has_room(&self, address: Address, most: usize) -> bool {
        let has_room = |(network, times): (Network, usize)| {
            let count = self.of_wide.get(&network).copied().unwrap_or_default();
            count < most.saturating_mul(times)
        };
        self.count(address) < most && address.wide().all(has_room)
    }

    fn add(&mut self, address: Address) {
        *self.of.entry(address).or_default() += 1;
        for (network, _) in address.wide() {
            *self.of_wide.entry(network).or_default() += 1;
        }
        self.total += 1;
    }

    fn remove(&mut self, address: Address) {
        decrement(&mut self.of, address);
        for (network, _) in address.wide() {
            decrement(&mut self.of_wide, network);
        }
        self.total -= 1;
    }

    /// Whether `count` is at most half of the mean per address.
    fn is_few(&self, count: usize) -> bool {
        self.total > 0 && 2 * count * self.of.len() <= self.total
    }
}

/// A permit for one connection, or one request, of an address.
#[derive(Debug)]
pub(crate) struct AddressPermit(AddressShare);

impl AddressPlaces {
    /// Allows `most` connections or requests per address.
    fn new(most: usize, metrics: CallerMetrics) -> Self {
        Self {
            most,
            open: Mutex::default(),
            metrics,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the address would still be at most half of the mean with one more.
    fn is_modest(&self, address: Address) -> bool {
        let open = self.lock();
        open.is_few(open.count(address) + 1)
    }

    /// Returns a permit for this address, or `None` at the limit.
    fn admit(self: &Arc<Self>, address: Address) -> Option<AddressPermit> {
        let mut open = self.lock();
        if !open.has_room(address, self.most) {
            self.metrics.count(CallerLimit::Connections);
            return None;
        }
        open.add(address);
        drop(open);
        Some(AddressPermit(AddressShare {
            places: Arc::clone(self),
            address,
        }))
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let AddressShare { places, address } = &self.0;
        places.lock().remove(*address);
    }
}

/// Decrements the count of a key, and removes the key at 0.
fn decrement<K: Copy + Eq + std::hash::Hash>(counts: &mut HashMap<K, usize>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

/// A limiter of the keys `K`.
type Limiter<K> = RateLimiter<K, DashMapStateStore<K>, TokioClock, NoOpMiddleware<Nanos>>;

/// The requests per second of each address and of each principal.
#[derive(Debug)]
pub(crate) struct RateLimits {
    addresses: Option<Limiter<Address>>,
    principals: Option<Limiter<String>>,
    metrics: CallerMetrics,
    asked: AtomicU64,
}

impl RateLimits {
    pub(crate) fn new(limits: &Limits, metrics: CallerMetrics) -> Self {
        Self {
            addresses: limiter(limits.requests_per_address),
            principals: limiter(limits.requests_per_principal),
            metrics,
            asked: AtomicU64::default(),
        }
    }

    /// Counts a request from this address.
    ///
    /// # Errors
    /// [`Error::TooManyRequests`] if it has sent too many.
    pub(crate) fn admit_address(&self, ip: Option<IpAddr>) -> Result<(), Error> {
        let (Some(limiter), Some(ip)) = (&self.addresses, ip) else {
            return Ok(());
        };
        self.admit(limiter, &ip.into(), CallerLimit::AddressRate)
    }

    /// Counts a request of this principal.
    ///
    /// # Errors
    /// [`Error::TooManyRequests`] if it has sent too many.
    pub(crate) fn admit_principal(&self, principal: Option<&Principal>) -> Result<(), Error> {
        let (Some(limiter), Some(principal)) = (&self.principals, principal) else {
            return Ok(());
        };
        let id = principal.id().to_owned();
        self.admit(limiter, &id, CallerLimit::PrincipalRate)
    }

    fn admit<K: Clone + Eq + std::hash::Hash>(
        &self,
        limiter: &Limiter<K>,
        caller: &K,
        limit: CallerLimit,
    ) -> Result<(), Error> {
        // Relaxed: the counter only chooses when to clean up, and orders no other memory.
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        if asked.is_multiple_of(CLEANING) && limiter.len() > MAX_CALLERS {
            // Callers with a full allowance need no state.
            limiter.retain_recent();
        }
        let Err(later) = limiter.check_key(caller) else {
            return Ok(());
        };
        self.metrics.count(limit);
        let wait = later.wait_time_from(limiter.clock().now());
        let retry_after = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
        // Rounded up: a retry within the last started second would be refused again.
        Err(Error::TooManyRequests {
            retry_after: retry_after.saturating_add(1),
        })
    }
}

fn limiter<K: Clone + Eq + std::hash::Hash>(per_second: usize) -> Option<Limiter<K>> {
    let per_second = NonZeroU32::new(u32::try_from(per_second).unwrap_or(u32::MAX))?;
    let burst = per_second.saturating_mul(NonZeroU32::new(BURST)?);
    let quota = Quota::per_second(per_second).allow_burst(burst);
    Some(RateLimiter::new(
        quota,
        DashMapStateStore::default(),
        TokioClock(Instant::now()),
    ))
}

/// Tokio's clock, which tests control. Its instants are the time since the stored instant.
#[derive(Debug, Clone)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        self.0.elapsed().into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn addresses_of_a_network_are_one() {
        let of = |text: &str| Address::from(text.parse::<IpAddr>().expect("it is an address"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn connections_of_an_address_are_bounded_and_those_of_others_are_not() {
        let metrics = CallerMetrics::default();
        let connections = Arc::new(AddressPlaces::new(2, metrics.clone()));
        let address = |last| Address::from(IpAddr::from([192, 0, 2, last]));
        let first = connections.admit(address(1));
        let second = connections.admit(address(1));
        assert!(first.is_some() && second.is_some());
        assert!(connections.admit(address(1)).is_none());
        assert!(connections.admit(address(2)).is_some());
        drop(first);
        assert!(connections.admit(address(1)).is_some());
        drop(second);
        assert!(
            connections.lock().of.is_empty() && connections.lock().total == 0,
            "nothing is remembered"
        );
        assert_eq!(metrics.counter(CallerLimit::Connections).get(), 1);
    }

    #[test]
    fn networks_of_ipv6_have_larger_shares() {
        let connections = Arc::new(AddressPlaces::new(3, CallerMetrics::default()));
        let mut open = Vec::new();
        let mut admitted = |prefix: &str| {
            let ip: IpAddr = format!("{prefix}::1").parse().unwrap();
            let places: Vec<_> = (0..20)
                .map_while(|_| connections.admit(ip.into()))
                .collect();
            let count = places.len();
            open.extend(places);
            count
        };
        // Two networks fill their /56, and two of these their /48.
        let counts = [
            "2001:db8:1:100",
            "2001:db8:1:1ff",
            "2001:db8:1:101",
            "2001:db8:1:200",
            "2001:db8:1:3ff",
            "2001:db8:1:ff00",
            "2001:db8:2:100",
        ]
        .map(&mut admitted);
        assert_eq!(counts, [3, 3, 0, 3, 3, 0, 3]);
        open.clear();
        let left = connections.lock();
        assert!(left.of.is_empty() && left.of_wide.is_empty() && left.total == 0);
    }

    #[test]
    fn client_is_modest_while_others_have_many_requests() {
        let limits = AddressLimits::of(&Settings::default(), &CallerMetrics::default());
        let ip = |last| IpAddr::from([192, 0, 2, last]);
        let admit = |ip| limits.admit_request(Some(ip)).unwrap();
        assert!(!limits.is_modest(None));
        assert!(!limits.is_modest(Some(ip(1))), "nobody has more");
        let alone = admit(ip(1));
        assert!(!limits.is_modest(Some(ip(1))));
        let attackers = (2..12).flat_map(|last| [ip(last); 6]);
        let attackers: Vec<_> = attackers.map(admit).collect();
        assert!(limits.is_modest(Some(ip(1))));
        assert!(!limits.is_modest(Some(ip(2))));
        drop((alone, attackers));
        assert!(!limits.is_modest(Some(ip(1))));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_admitted_at_their_rate_after_a_burst() {
        let limits = Limits {
            requests_per_address: 10,
            requests_per_principal: 1,
            ..Limits::default()
        };
        let metrics = CallerMetrics::default();
        let rates = RateLimits::new(&limits, metrics.clone());
        let ip = |last| Some(IpAddr::from([192, 0, 2, last]));
        for _ in 0..20 {
            assert!(rates.admit_address(ip(1)).is_ok());
        }
        let refused = rates.admit_address(ip(1));
        assert!(
            matches!(refused, Err(Error::TooManyRequests { retry_after: 1 })),
            "{refused:?}"
        );
        assert!(rates.admit_address(ip(2)).is_ok() && rates.admit_address(None).is_ok());
        tokio::time::advance(Duration::from_millis(100)).await;
        assert!(rates.admit_address(ip(1)).is_ok());
        assert!(rates.admit_address(ip(1)).is_err());

        let alice = Principal::new("alice");
        assert!(rates.admit_principal(Some(&alice)).is_ok());
        assert!(rates.admit_principal(Some(&alice)).is_ok());
        assert!(rates.admit_principal(Some(&alice)).is_err());
        assert!(rates.admit_principal(None).is_ok());
        assert_eq!(metrics.counter(CallerLimit::AddressRate).get(), 2);
        assert_eq!(metrics.counter(CallerLimit::PrincipalRate).get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn callers_are_forgotten_when_there_are_very_many() {
        let limits = Limits {
            requests_per_address: 1,
            ..Limits::default()
        };
        let rates = RateLimits::new(&limits, CallerMetrics::default());
        let limiter = rates.addresses.as_ref().expect("there is a limit");
        let ask = |number: u32| {
            let ip = IpAddr::from(number.to_be_bytes());
            rates.admit_address(Some(ip)).ok();
        };
        (0..20_000).for_each(ask);
        assert!(limiter.len() > MAX_CALLERS);
        tokio::time::advance(Duration::from_secs(60)).await;
        (0..2048).for_each(|_| ask(7));
        assert_eq!(limiter.len(), 1);
    }
}
