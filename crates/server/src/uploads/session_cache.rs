//! Sessions between two of their requests.
//!
//! A client that has started a session or sent a chunk usually comes back at once. The cache keeps
//! what its next request needs: the row as it was committed, with its lease, and the open media, so
//! that its last extent need not be read back and verified.
//!
//! Only the start of a session, and afterwards the holder of its guard, puts the session here,
//! after all work is committed. Only the next holder takes it out. A request that finds no entry,
//! or one that does not fit, asks the ledger, so an entry may be evicted at any time. The ledger
//! refuses a commit under a lease that is not the newest, cached or not.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashlink::LruCache;
use windlass_store::{Session, SessionId, Timestamp};

use super::request::UploadRequest;
use super::sink::VaultMedia;

/// Number of sessions that the cache holds, the latest ones. Each may keep one file open, so the
/// number is part of the server's need of file descriptors.
pub const CAPACITY: usize = 256;

// A client mostly sends its next chunk within a round trip. The bound exists because deleted media
// frees its disk space only when the file is closed.
/// How long the cache keeps a session.
const MAX_AGE: Duration = Duration::from_secs(5);

// 256 entries of this size are 1 MiB. Larger requests are read again from the ledger.
/// Maximum size of a cached request in bytes of memory.
const MAX_REQUEST: usize = 4 * 1024;

/// The latest sessions, for their next requests.
#[derive(Debug)]
pub(crate) struct SessionCache(Mutex<LruCache<SessionId, CachedSession>>);

/// A session as its last request left it: active, with all written bytes committed.
#[derive(Debug)]
pub(crate) struct CachedSession {
    /// Its row, without the context.
    pub(crate) session: Session,
    pub(crate) request: UploadRequest,
    /// Its media, if it is in the vault.
    pub(crate) media: Option<VaultMedia>,
    /// When it was put into the cache.
    pub(crate) since: Timestamp,
}

impl SessionCache {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(CAPACITY)))
    }

    /// Keeps a session for its next request. The caller has started the session or holds its guard.
    pub(crate) fn put(&self, cached: CachedSession) {
        if cached.request.memory() <= MAX_REQUEST {
            let mut map = self.map();
            let oldest = (map.len() == CAPACITY).then(|| map.remove_lru());
            let before = map.insert(cached.session.id, cached);
            // Outside of the lock: dropping an entry may close a file, which can block.
            drop(map);
            drop((oldest, before));
        }
    }

    /// Whether the cache holds the session and `fits` accepts it.
    pub(crate) fn any(&self, id: SessionId, fits: impl FnOnce(&CachedSession) -> bool) -> bool {
        // `peek` leaves the entries in the order of `since`, on which `forget_old` relies.
        self.map().peek(&id).is_some_and(fits)
    }

    /// Takes a session out. The caller holds the session's guard.
    pub(crate) fn take(&self, id: SessionId) -> Option<CachedSession> {
        self.map().remove(&id)
    }

    /// Evicts sessions whose clients have not come back within the maximum age.
    pub(crate) fn forget_old(&self, now: Timestamp) {
        // An entry from the future means that the clock was set back, which would keep it for long.
        let is_old = |cached: &CachedSession| {
            cached.since > now || cached.since.saturating_add(MAX_AGE) <= now
        };
        loop {
            // Locked once for each entry: files are closed outside of the lock, and requests can
            // pass in between.
            let mut map = self.map();
            let oldest = map.iter().next().filter(|(_, oldest)| is_old(oldest));
            let gone = oldest.is_some().then(|| map.remove_lru());
            drop(map);
            if gone.is_none() {
                return;
            }
        }
    }

    fn map(&self) -> MutexGuard<'_, LruCache<SessionId, CachedSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::{Epoch, Progress, SessionState};

    use super::*;

    fn cached(n: u16, since: u64) -> CachedSession {
        CachedSession {
            session: Session {
                id: id(n),
                context: Vec::new(),
                created: Timestamp::from_millis(0),
                expires: Timestamp::from_millis(u64::MAX),
                state: SessionState::Active,
                epoch: Epoch(0),
                progress: Progress::none(None),
                reply: None,
            },
            request: UploadRequest::example(),
            media: None,
            since: Timestamp::from_millis(since),
        }
    }

    fn id(n: u16) -> SessionId {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&n.to_be_bytes());
        SessionId::from_bytes(bytes)
    }

    fn is_there(sessions: &SessionCache, n: u16) -> bool {
        sessions.any(id(n), |_| true)
    }

    #[test]
    fn full_cache_evicts_the_oldest_session() {
        let sessions = SessionCache::new();
        let newest = u16::try_from(CAPACITY).unwrap();
        for n in 0..newest {
            sessions.put(cached(n, 0));
        }
        assert!(is_there(&sessions, 0), "there is room for all of them");
        sessions.put(cached(newest, 0));
        let there = [0, 1, newest].map(|n| is_there(&sessions, n));
        assert_eq!(there, [false, true, true]);
    }

    #[test]
    fn idle_sessions_are_evicted_after_the_maximum_age() {
        let sessions = SessionCache::new();
        for (n, since) in [(1, 1_000), (2, 2_000), (3, 3_000)] {
            sessions.put(cached(n, since));
        }
        sessions.forget_old(Timestamp::from_millis(7_000));
        assert_eq!(
            [1, 2, 3].map(|n| is_there(&sessions, n)),
            [false, false, true]
        );
    }
}
