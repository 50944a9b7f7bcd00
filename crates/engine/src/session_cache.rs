//! A cache of sessions that expect their next request soon.
//!
//! A client that has started a session or sent a chunk usually sends its next request at once. An
//! entry holds the state that this request needs: the committed row, the context,
//! and the open media. The next request then begins without reading the row from the ledger and
//! without a new lease, and the last extent need not be read back and verified.
//!
//! A session is put into the cache when it is started, and later by the holder of its guard, after
//! all bytes are committed. Only a holder of the guard takes an entry to use it.
//!
//! No request depends on the cache. If there is no entry for its session, or if it does not
//! continue where the entry ends, it reads the ledger. So an entry may be evicted at any time. The
//! lease in an entry may be outdated, because another process has taken a newer one. The ledger
//! then refuses the next commit.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashlink::LruCache;
use windlass_store::{Lease, Session, SessionId, StoredExtent, Timestamp};

use crate::completion::UploadContext;
use crate::disks::MediaSpace;
use crate::sink::VaultMedia;

/// Maximum number of cached sessions. Each may keep one file open, so the server needs this many
/// additional file descriptors.
pub const CACHED_SESSIONS: usize = 256;

/// Time after which [`Engine::close_idle_sessions`](crate::Engine::close_idle_sessions) removes a
/// session from the cache.
// A client usually sends its next chunk within a round trip. The time is bounded because the disk
// space of deleted media is freed only when its file is closed.
const MAX_AGE: Duration = Duration::from_secs(5);

/// Maximum size of a cached context in bytes of memory.
// 256 entries of this size take 1 MiB. A session with a larger context is not cached.
const MAX_CONTEXT: usize = 4 * 1024;

/// Maximum number of extents of a cached session.
// At 8 MiB each these are 2 GiB. In 256 entries they take some 6 MiB.
const MAX_EXTENTS: usize = 256;

/// The most recently used sessions.
#[derive(Debug)]
pub(crate) struct SessionCache<X>(Mutex<LruCache<SessionId, CachedSession<X>>>);

/// A session as its last request left it: active, with all written bytes committed.
#[derive(Debug)]
pub(crate) struct CachedSession<X> {
    /// Row of the session, with an empty context.
    pub(crate) session: Session,
    /// The last lease that this process has taken of the session.
    pub(crate) lease: Lease,
    /// The context of the session, as it was parsed.
    pub(crate) context: X,
    /// The extents of the media.
    pub(crate) extents: Vec<StoredExtent>,
    /// The open media, if it is in the vault.
    pub(crate) media: Option<VaultMedia>,
    /// The disk space that is set aside for the rest of the media.
    pub(crate) space: Option<MediaSpace>,
    /// When the entry was put into the cache.
    pub(crate) since: Timestamp,
}

impl<X: UploadContext> SessionCache<X> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(CACHED_SESSIONS)))
    }

    /// Caches a session. The caller has just started it or holds its guard.
    pub(crate) fn put(&self, cached: CachedSession<X>) {
        if cached.context.memory() <= MAX_CONTEXT && cached.extents.len() <= MAX_EXTENTS {
            let mut map = self.map();
            let oldest = (map.len() == CACHED_SESSIONS).then(|| map.remove_lru());
            let before = map.insert(cached.session.id, cached);
            // Dropped after the lock is released: dropping an entry may close a file, which can
            // block.
            drop(map);
            drop((oldest, before));
        }
    }

    /// Whether the cache holds the session and `fits` accepts it.
    pub(crate) fn any(&self, id: SessionId, fits: impl FnOnce(&CachedSession<X>) -> bool) -> bool {
        // `peek` does not change the order of the entries: `forget_old` needs the order of `since`.
        self.map().peek(&id).is_some_and(fits)
    }

    /// Removes and returns a session. The caller holds the session's guard.
    pub(crate) fn take(&self, id: SessionId) -> Option<CachedSession<X>> {
        self.map().remove(&id)
    }

    /// Evicts sessions that have been in the cache for [`MAX_AGE`].
    pub(crate) fn forget_old(&self, now: Timestamp) {
        // If the clock was set back, `since` may be in the future, and the entry would stay for
        // long.
        let is_old = |cached: &CachedSession<X>| {
            cached.since > now || cached.since.saturating_add(MAX_AGE) <= now
        };
        loop {
            // Locked once for each entry: files are closed after the lock is released, and requests
            // can use the cache in between.
            let mut map = self.map();
            let oldest = map.iter().next().filter(|(_, oldest)| is_old(oldest));
            let gone = oldest.is_some().then(|| map.remove_lru());
            drop(map);
            if gone.is_none() {
                return;
            }
        }
    }

    fn map(&self) -> MutexGuard<'_, LruCache<SessionId, CachedSession<X>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::{Epoch, LeaseId, Progress, SessionState};

    use super::*;

    /// The context of an upload that means nothing.
    #[derive(Debug)]
    struct Empty;

    impl UploadContext for Empty {
        fn memory(&self) -> usize {
            0
        }
    }

    fn cached(n: u16, since: u64) -> CachedSession<Empty> {
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
                owner: None,
                dialect: "google".to_owned(),
            },
            lease: Lease {
                id: LeaseId::from_bytes([0; 16]),
                epoch: Epoch(0),
            },
            context: Empty,
            extents: Vec::new(),
            media: None,
            space: None,
            since: Timestamp::from_millis(since),
        }
    }

    fn id(n: u16) -> SessionId {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&n.to_be_bytes());
        SessionId::from_bytes(bytes)
    }

    fn is_there(sessions: &SessionCache<Empty>, n: u16) -> bool {
        sessions.any(id(n), |_| true)
    }

    #[test]
    fn full_cache_evicts_the_oldest_session() {
        let sessions = SessionCache::new();
        let newest = u16::try_from(CACHED_SESSIONS).unwrap();
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
