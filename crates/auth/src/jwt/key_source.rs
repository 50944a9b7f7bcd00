//! The source of an issuer's keys: a file, or the issuer's key set, fetched and cached.
//!
//! At most one fetch per issuer runs at a time, in a separate task, so a client that disconnects
//! does not end it. A set is fetched when it is needed and too old. Because keys are rotated, it is
//! also fetched when a token names a key that the set lacks. Clients can invent names of keys.
//! Fetches for unknown names therefore happen at most once in [`UNKNOWN_PAUSE`], and not for names
//! that were looked up recently. While the issuer does not answer, the old keys are used for
//! [`USABLE_FOR`], and fetches are retried at growing intervals.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use hashlink::LruCache;
use http::HeaderMap;
use http::header::CACHE_CONTROL;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use windlass_server::outbound::Outbound;
use windlass_server::{AccessError, Clock};
use windlass_store::Timestamp;

use super::key_set::{KeySet, KeySetError, Lookup, MAX_SIZE};
use crate::service_url::{ServiceError, ServiceUrl};

/// How long a set is used, unless its reply has a `Cache-Control: max-age`.
const LIFETIME: Duration = Duration::from_secs(600);

/// Bounds on a `max-age`.
const MIN_LIFETIME: Duration = Duration::from_secs(60);
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// How long a set is used if the issuer does not answer, from its fetch. A key that was withdrawn
/// meanwhile is believed for this time.
const USABLE_FOR: Duration = Duration::from_secs(24 * 3600);

/// Time between two fetches for keys that the set does not have.
const UNKNOWN_PAUSE: Duration = Duration::from_secs(30);

/// How long a key that was not found causes no further fetch.
const UNKNOWN_FOR: Duration = Duration::from_secs(60);

/// Maximum number of such keys that are cached.
const UNKNOWN_KEYS: usize = 256;

/// Maximum length of a key's id. Longer ids are never looked up in a set.
const MAX_KEY_ID: usize = 256;

/// The waits after failed fetches grow from the first to the second.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(300);

/// Where the keys of an issuer come from.
pub(crate) enum KeySource {
    /// A set that never changes.
    Fixed(KeySet),
    /// The set that the issuer publishes.
    Published(Arc<PublishedKeys>),
}

/// Where an issuer publishes its set.
#[derive(Debug, Clone)]
pub(crate) enum Location {
    /// At this URL.
    Set(ServiceUrl),
    /// At the URL that the issuer's document at this URL names (OpenID Connect Discovery 1.0).
    Discovery(ServiceUrl),
}

/// The set that an issuer publishes, and when it may be fetched again.
pub(crate) struct PublishedKeys {
    issuer: String,
    location: Location,
    outbound: Arc<dyn Outbound>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    current: Option<Fetched>,
    /// Number of fetches that have failed since the last good one.
    failures: u32,
    /// No fetch before this time, after a failure.
    not_before: Timestamp,
    /// No fetch for an unknown key before this time.
    unknown_not_before: Timestamp,
    /// Keys that were not found, and the time until which they cause no fetch.
    unknown: LruCache<String, Timestamp>,
    running: Option<Fetch>,
}

/// A fetch that is under way. It resolves when the state has its outcome.
type Fetch = Shared<BoxFuture<'static, ()>>;

#[derive(Clone)]
struct Fetched {
    set: Arc<KeySet>,
    at: Timestamp,
    fresh_until: Timestamp,
}

#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error(transparent)]
    KeySet(#[from] KeySetError),
    #[error("the document at .well-known/openid-configuration does not belong to this issuer: {0}")]
    Discovery(&'static str),
}

impl KeySource {
    /// Returns the key for a signature.
    ///
    /// # Errors
    /// [`AccessError::CredentialsInvalid`] if the issuer has no such key;
    /// [`AccessError::Unverifiable`] if its keys cannot be had.
    pub(crate) async fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, AccessError> {
        if id.is_some_and(|id| id.len() > MAX_KEY_ID) {
            return Err(AccessError::CredentialsInvalid);
        }
        match self {
            Self::Fixed(set) => match set.find(id, algorithm) {
                Lookup::Found(key) => Ok(key.clone()),
                Lookup::Unfit | Lookup::Unknown => Err(AccessError::CredentialsInvalid),
            },
            Self::Published(keys) => keys.find(id, algorithm).await,
        }
    }
}

impl PublishedKeys {
    pub(crate) fn new(
        issuer: String,
        location: Location,
        outbound: Arc<dyn Outbound>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            issuer,
            location,
            outbound,
            clock,
            state: Mutex::new(State {
                current: None,
                failures: 0,
                not_before: Timestamp::from_millis(0),
                unknown_not_before: Timestamp::from_millis(0),
                unknown: LruCache::new(UNKNOWN_KEYS),
                running: None,
            }),
        }
    }

    async fn find(
        self: &Arc<Self>,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<DecodingKey, AccessError> {
        let began = self.clock.now();
        let current = self.current().await?;
        match (current.set.find(id, algorithm), id) {
            (Lookup::Found(key), _) => return Ok(key.clone()),
            (Lookup::Unfit, _) | (Lookup::Unknown, None) => {
                return Err(AccessError::CredentialsInvalid);
            }
            // It was fetched for this token.
            (Lookup::Unknown, Some(_)) if current.at >= began => {
                return Err(AccessError::CredentialsInvalid);
            }
            (Lookup::Unknown, Some(id)) => self.look_for(id).await,
        }
        let state = self.state();
        match (&state.current, id) {
            (Some(current), Some(id)) => match current.set.find(Some(id), algorithm) {
                Lookup::Found(key) => Ok(key.clone()),
                // The issuer could not be asked about the key.
                Lookup::Unknown if state.failures > 0 => Err(AccessError::Unverifiable),
                Lookup::Unfit | Lookup::Unknown => Err(AccessError::CredentialsInvalid),
            },
            _ => Err(AccessError::Unverifiable),
        }
    }

    /// Returns the set to use now, after a fetch if it is too old.
    async fn current(self: &Arc<Self>) -> Result<Fetched, AccessError> {
        let wait = {
            let mut state = self.state();
            let now = self.clock.now();
            let usable = state.usable(now);
            match usable {
                Some(fetched) if fetched.is_fresh(now) => return Ok(fetched),
                // Nobody waits for an issuer that has not answered while there are keys.
                Some(fetched) if state.failures > 0 => {
                    if now >= state.not_before {
                        drop(self.start_fetch(&mut state));
                    }
                    return Ok(fetched);
                }
                _ => (now >= state.not_before).then(|| self.start_fetch(&mut state)),
            }
        };
        if let Some(fetch) = wait {
            fetch.await;
        }
        let usable = self.state().usable(self.clock.now());
        usable.ok_or(AccessError::Unverifiable)
    }

    /// Fetches the set if it may be fetched for a key that it does not have.
    async fn look_for(self: &Arc<Self>, id: &str) {
        let wait = {
            let mut state = self.state();
            let now = self.clock.now();
            let was_in_vain = state.unknown.get(id).is_some_and(|until| now < *until);
            let is_too_early = now < state.not_before || now < state.unknown_not_before;
            // Others wait for a fetch that is under way: it may be for the same key.
            if (was_in_vain || is_too_early) && state.running.is_none() {
                return;
            }
            state.unknown_not_before = now.saturating_add(UNKNOWN_PAUSE);
            let until = now.saturating_add(UNKNOWN_FOR);
            state.unknown.insert(id.to_owned(), until);
            self.start_fetch(&mut state)
        };
        wait.await;
    }

    /// Starts a fetch, unless one is under way.
    fn start_fetch(self: &Arc<Self>, state: &mut State) -> Fetch {
        // A finished one is there only if it has panicked.
        let running = state.running.as_ref();
        if let Some(running) = running.filter(|running| running.peek().is_none()) {
            return running.clone();
        }
        let keys = Arc::clone(self);
        let task = tokio::spawn(async move { keys.fetch().await });
        let fetch = task.map(|_| ()).boxed().shared();
        state.running = Some(fetch.clone());
        fetch
    }

    async fn fetch(&self) {
        let fetched = self.load().await;
        let now = self.clock.now();
        let mut state = self.state();
        state.running = None;
        match fetched {
            Ok((set, lifetime)) => {
                tracing::debug!(
                    issuer = self.issuer,
                    keys = set.len(),
                    "fetched the key set"
                );
                state.failures = 0;
                state.current = Some(Fetched {
                    set: Arc::new(set),
                    at: now,
                    fresh_until: now.saturating_add(lifetime),
                });
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(tracing::field::display);
                tracing::warn!(issuer = self.issuer, %error, cause, "the key set cannot be fetched");
                let wait = wait(state.failures, getrandom::u32().unwrap_or(0));
                state.failures = state.failures.saturating_add(1);
                state.not_before = now.saturating_add(wait);
            }
        }
    }

    async fn load(&self) -> Result<(KeySet, Duration), FetchError> {
        let url = match &self.location {
            Location::Set(url) => url.clone(),
            Location::Discovery(url) => self.discover(url).await?,
        };
        let (headers, body) = url.get(&*self.outbound, MAX_SIZE).await?;
        Ok((KeySet::parse(&body)?, lifetime(&headers)))
    }

    /// Returns the URL of the set from the issuer's document.
    async fn discover(&self, url: &ServiceUrl) -> Result<ServiceUrl, FetchError> {
        #[derive(Deserialize)]
        struct Document {
            issuer: String,
            jwks_uri: ServiceUrl,
        }
        let (_, body) = url.get(&*self.outbound, MAX_SIZE).await?;
        let document: Document = serde_json::from_slice(&body)
            .map_err(|_| FetchError::Discovery("it has no `issuer` or no usable `jwks_uri`"))?;
        // OpenID Connect Discovery, section 4.3: otherwise one issuer could speak for another.
        if document.issuer != self.issuer {
            return Err(FetchError::Discovery("its `issuer` is another"));
        }
        Ok(document.jwks_uri)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn usable(&self, now: Timestamp) -> Option<Fetched> {
        let current = self.current.as_ref();
        let is_usable = |fetched: &&Fetched| now < fetched.at.saturating_add(USABLE_FOR);
        current
            .filter(|fetched| fetched.is_fresh(now) || is_usable(fetched))
            .cloned()
    }
}

impl Fetched {
    fn is_fresh(&self, now: Timestamp) -> bool {
        // If the clock was set back, the set could stay fresh for long.
        self.at <= now && now < self.fresh_until
    }
}

/// How long a set may be used, by its reply (RFC 9111, section 5.2.2.1).
fn lifetime(headers: &HeaderMap) -> Duration {
    let values = headers.get_all(CACHE_CONTROL).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let mut directives = values.flat_map(|value| value.split(',')).map(str::trim);
    let age = directives.find_map(|directive| {
        let (name, value) = directive.split_once('=')?;
        let is_age = name.eq_ignore_ascii_case("max-age");
        is_age.then(|| value.trim_matches('"').parse().ok())?
    });
    let stated = age.map_or(LIFETIME, Duration::from_secs);
    stated.clamp(MIN_LIFETIME, MAX_LIFETIME)
}

/// The wait after a failed fetch: it doubles with each, and its second half is random, so that the
/// servers of an issuer do not ask at the same time.
fn wait(failures: u32, random: u32) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(2u32.saturating_pow(failures));
    let longest = doubled.min(MAX_WAIT);
    let half = longest / 2;
    (half + half / 1000 * (random % 1001)).max(FIRST_WAIT)
}

#[cfg(test)]
mod tests;
