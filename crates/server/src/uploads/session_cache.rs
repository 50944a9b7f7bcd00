//! Sessions between two of their requests.
//!
//! A client that has started a session, or sent a chunk of its media, mostly comes back at once. What its next
//! request needs is kept at hand for it: the row as it was committed, the lease, and the open media, whose last
//! bytes need not be read back by anyone who has just written them.
//!
//! Only the holder of a session's turn puts it here, when all that it has done is committed, and only the next
//! holder takes it out. Anyone who does not find it, or finds that it does not fit, asks the ledger; so it may be
//! forgotten at any time. A commit under a lease that is no longer the newest is refused by the ledger, as ever.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashlink::LruCache;
use windlass_store::{Session, SessionId, Timestamp};

use super::request::UploadRequest;
use super::sink::VaultMedia;

/// How many sessions a server keeps at hand for their next request, the latest. Each may hold a file open.
pub const CAPACITY: usize = 256;

/// How long one is kept. Media that is deleted meanwhile keeps its room on the disk until it is closed.
const MAX_AGE: Duration = Duration::from_secs(5);

/// Requests that take more than this in memory are not kept.
const MAX_REQUEST: usize = 4 * 1024;

/// The sessions that are at hand.
#[derive(Debug)]
pub(crate) struct SessionCache(Mutex<LruCache<SessionId, CachedSession>>);

/// A session as its last request has left it: open, with all that is written committed.
#[derive(Debug)]
pub(crate) struct CachedSession {
    /// Its row, without the context.
    pub(crate) session: Session,
    pub(crate) request: UploadRequest,
    /// Its media, when that is in the vault.
    pub(crate) media: Option<VaultMedia>,
    /// When it was put here.
    pub(crate) since: Timestamp,
}

impl SessionCache {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(CAPACITY)))
    }

    /// Keeps a session for its next request.
    pub(crate) fn put(&self, cached: CachedSession) {
        if cached.request.memory() <= MAX_REQUEST {
            let mut map = self.map();
            let oldest = (map.len() == CAPACITY).then(|| map.remove_lru());
            let before = map.insert(cached.session.id, cached);
            // They may close files.
            drop(map);
            drop((oldest, before));
        }
    }

    /// Whether a session is at hand and `fits`.
    pub(crate) fn any(&self, id: SessionId, fits: impl FnOnce(&CachedSession) -> bool) -> bool {
        self.map().peek(&id).is_some_and(fits)
    }

    /// Takes a session out. The caller holds its turn.
    pub(crate) fn take(&self, id: SessionId) -> Option<CachedSession> {
        self.map().remove(&id)
    }

    /// Forgets those whose clients have not come back.
    pub(crate) fn forget_old(&self, now: Timestamp) {
        // A clock that was set back would keep them for long.
        let is_old = |cached: &CachedSession| {
            cached.since > now || cached.since.saturating_add(MAX_AGE) <= now
        };
        loop {
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
    fn the_oldest_makes_room_for_the_newest() {
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
    fn those_who_do_not_come_back_are_forgotten() {
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
