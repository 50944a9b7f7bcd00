//! Unfinished uploads that wait for room in the quota of their owner.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;
use windlass_store::SessionId;

/// The first pause.
const MIN_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(60 * 60);

/// Remembers sessions with owners that had no room. An attempt costs as much as the upload, and
/// there may be many sessions. The pauses between attempts of one session therefore grow. Once an
/// owner has no room, the rest of its sessions wait for the next round.
#[derive(Debug, Default)]
pub(super) struct Postponed {
    sessions: HashMap<SessionId, Pause>,
    /// Owners that had no room in this round.
    owners: HashSet<Option<String>>,
}

#[derive(Debug)]
struct Pause {
    until: Instant,
    length: Duration,
}

impl Postponed {
    /// Begins a round through all unfinished uploads. Removes sessions that have not been tried for
    /// a long time, because they have ended.
    pub(super) fn begin_round(&mut self, now: Instant) {
        self.owners.clear();
        self.sessions
            .retain(|_, pause| now < pause.until + MAX_PAUSE);
    }

    /// Whether a session of this owner must not be tried now.
    pub(super) fn is_waiting(&self, id: SessionId, owner: Option<&str>, now: Instant) -> bool {
        let pause = self.sessions.get(&id);
        pause.is_some_and(|pause| now < pause.until)
            || self.owners.iter().any(|it| it.as_deref() == owner)
    }

    /// Begins a pause of a session, twice as long as its previous pause.
    pub(super) fn put_off(&mut self, id: SessionId, owner: Option<String>, now: Instant) {
        let last = self.sessions.get(&id).map(|pause| pause.length * 2);
        let length = last.unwrap_or(MIN_PAUSE).min(MAX_PAUSE);
        let until = now + length;
        self.sessions.insert(id, Pause { until, length });
        self.owners.insert(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: SessionId = SessionId::from_bytes([1; 32]);
    const SECOND: SessionId = SessionId::from_bytes([2; 32]);

    #[tokio::test(start_paused = true)]
    async fn pauses_of_a_session_grow_and_its_owner_waits_for_the_next_round() {
        let (mut postponed, begin) = (Postponed::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let waits = |postponed: &Postponed, id, seconds| {
            postponed.is_waiting(id, Some("alice"), at(seconds))
        };
        let put_off = |postponed: &mut Postponed, seconds| {
            postponed.put_off(FIRST, Some("alice".to_owned()), at(seconds));
        };
        put_off(&mut postponed, 0);
        assert!(waits(&postponed, SECOND, 1));
        assert!(!postponed.is_waiting(SECOND, Some("bob"), at(1)));
        assert!(!postponed.is_waiting(SECOND, None, at(1)));
        postponed.begin_round(at(30));
        assert!(waits(&postponed, FIRST, 59) && !waits(&postponed, FIRST, 60));
        assert!(!waits(&postponed, SECOND, 30));
        put_off(&mut postponed, 60);
        postponed.begin_round(at(90));
        assert!(waits(&postponed, FIRST, 179) && !waits(&postponed, FIRST, 180));
        for _ in 0..10 {
            put_off(&mut postponed, 180);
        }
        postponed.begin_round(at(210));
        assert!(waits(&postponed, FIRST, 180 + 3599) && !waits(&postponed, FIRST, 180 + 3600));
        postponed.begin_round(at(180 + 7200));
        assert!(postponed.sessions.is_empty());
    }
}
