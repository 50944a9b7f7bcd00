//! The results of recent token checks.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashlink::LruCache;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use windlass_server::Principal;
use windlass_store::Timestamp;

/// The SHA-256 hash of a token. Tokens themselves are not kept.
pub(crate) type TokenHash = [u8; 32];

/// Returns the hash of a token.
pub(crate) fn hash(token: &str) -> TokenHash {
    Sha256::digest(token).into()
}

/// Maximum number of valid tokens that are remembered by one scheme.
pub(crate) const VALID_TOKENS: usize = 10_000;

/// Maximum total size in bytes of the answers for valid tokens.
const VALID_BYTES: usize = 16 << 20;

/// How long a valid token is remembered, unless it expires before.
pub(crate) const VALID_FOR: Duration = Duration::from_secs(60);

/// Estimated memory in bytes of a text or a value besides its contents.
const OVERHEAD: usize = 64;

/// Returns an estimate of a principal's memory, in bytes. The token or the issuer's reply can be
/// much shorter: a scope of one letter becomes a separate text.
pub(crate) fn size(principal: &Principal) -> usize {
    let scopes = principal.scopes().unwrap_or_default();
    let texts = principal.groups().iter().chain(scopes);
    let texts = texts.map(|text| OVERHEAD + text.len());
    let claims = principal.claims().iter();
    let claims = claims.map(|(name, value)| OVERHEAD + name.len() + size_of_value(value));
    OVERHEAD + principal.id().len() + texts.chain(claims).sum::<usize>()
}

fn size_of_value(value: &Value) -> usize {
    OVERHEAD
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(size_of_value).sum(),
            Value::Object(fields) => {
                let fields = fields.iter();
                let sizes =
                    fields.map(|(name, value)| OVERHEAD + name.len() + size_of_value(value));
                sizes.sum()
            }
        }
}

/// The answers about the most recently used tokens.
pub(crate) struct TokenCache<T> {
    entries: Mutex<Entries<T>>,
    capacity: usize,
    bytes: usize,
}

struct Entries<T> {
    by_hash: LruCache<TokenHash, Entry<T>>,
    bytes: usize,
}

struct Entry<T> {
    answer: T,
    size: usize,
    since: Timestamp,
    until: Timestamp,
}

impl<T: Clone> TokenCache<T> {
    /// Returns a cache of valid tokens.
    pub(crate) fn of_valid() -> Self {
        Self::with_bounds(VALID_TOKENS, VALID_BYTES)
    }

    /// Returns a cache for at most this number of tokens and of bytes.
    pub(crate) fn with_bounds(capacity: usize, bytes: usize) -> Self {
        Self {
            entries: Mutex::new(Entries {
                by_hash: LruCache::new(capacity),
                bytes: 0,
            }),
            capacity,
            bytes,
        }
    }

    /// Returns the answer about a token, unless it is too old.
    pub(crate) fn get(&self, hash: &TokenHash, now: Timestamp) -> Option<T> {
        let mut entries = self.entries();
        let entry = entries.by_hash.get(hash)?;
        // If the clock was set back, an entry could stay for long.
        if entry.since <= now && now < entry.until {
            return Some(entry.answer.clone());
        }
        entries.remove(hash);
        None
    }

    /// Caches an answer until a time. `size` is its approximate memory in bytes.
    pub(crate) fn put(
        &self,
        hash: TokenHash,
        answer: T,
        size: usize,
        since: Timestamp,
        until: Timestamp,
    ) {
        if size > self.bytes {
            return;
        }
        let mut entries = self.entries();
        entries.remove(&hash);
        while entries.by_hash.len() >= self.capacity || entries.bytes + size > self.bytes {
            let Some((_, oldest)) = entries.by_hash.remove_lru() else {
                break;
            };
            entries.bytes -= oldest.size;
        }
        entries.bytes += size;
        let entry = Entry {
            answer,
            size,
            since,
            until,
        };
        entries.by_hash.insert(hash, entry);
    }

    fn entries(&self) -> MutexGuard<'_, Entries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Entries<T> {
    fn remove(&mut self, hash: &TokenHash) {
        if let Some(entry) = self.by_hash.remove(hash) {
            self.bytes -= entry.size;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn answer_is_remembered_until_its_time() {
        let cache = TokenCache::of_valid();
        cache.put(hash("a"), 1, 10, at(100), at(160));
        assert_eq!(cache.get(&hash("a"), at(159)), Some(1));
        assert_eq!(cache.get(&hash("b"), at(159)), None);
        assert_eq!(cache.get(&hash("a"), at(160)), None);
        cache.put(hash("a"), 2, 10, at(200), at(260));
        assert_eq!(
            cache.get(&hash("a"), at(100)),
            None,
            "the clock was set back"
        );
        assert_eq!(cache.entries().bytes, 0);
    }

    #[test]
    fn size_counts_each_scope_and_each_value_of_a_claim() {
        let letters = |count: usize| vec!["a".to_owned(); count];
        let scoped = Principal::new("alice").with_scopes(letters(1000));
        assert!(size(&scoped) > 1000 * 24, "{}", size(&scoped));
        let member = Principal::new("alice").with_groups(letters(1000));
        assert_eq!(size(&member), size(&scoped));
        let claims = json!({"roles": letters(1000), "of": {"a": 1, "b": true}});
        let claims = claims.as_object().expect("it is an object").clone();
        let claimant = Principal::new("alice").with_claims(claims);
        assert!(size(&claimant) > size(&scoped), "{}", size(&claimant));
        assert!(size(&Principal::new("alice")) < 100);
    }

    #[test]
    fn full_cache_forgets_the_tokens_that_were_used_least_recently() {
        let cache = TokenCache::with_bounds(3, 100);
        for (token, size) in [("a", 10), ("b", 10), ("c", 10)] {
            cache.put(hash(token), (), size, at(0), at(60));
        }
        assert_eq!(cache.get(&hash("a"), at(1)), Some(()));
        cache.put(hash("d"), (), 10, at(0), at(60));
        let kept = ["a", "b", "c", "d"].map(|token| cache.get(&hash(token), at(1)).is_some());
        assert_eq!(kept, [true, false, true, true]);
        cache.put(hash("e"), (), 90, at(0), at(60));
        let kept = ["a", "c", "d", "e"].map(|token| cache.get(&hash(token), at(1)).is_some());
        assert_eq!(kept, [false, false, true, true]);
        cache.put(hash("f"), (), 101, at(0), at(60));
        assert_eq!(
            cache.get(&hash("f"), at(1)),
            None,
            "it is larger than all of it"
        );
        assert_eq!(cache.entries().bytes, 100);
    }
}
