//! Owners whose unfinished uploads wait for room in their quota.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// The first pause.
const SHORTEST: Duration = Duration::from_secs(60);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Remembers owners that have reached their quota. Each attempt to finish one of their uploads costs what the upload
/// itself does, and there may be many; so the pauses between attempts grow. Only owners of unfinished uploads are
/// remembered.
#[derive(Debug, Default)]
pub(super) struct Postponed(HashMap<String, Pause>);

#[derive(Debug)]
struct Pause {
    until: Instant,
    length: Duration,
}

impl Postponed {
    /// Whether nothing is to be tried for this owner now.
    pub(super) fn has(&self, owner: &str, now: Instant) -> bool {
        self.0.get(owner).is_some_and(|pause| now < pause.until)
    }

    /// Begins a pause, which is twice as long as the last one.
    pub(super) fn put_off(&mut self, owner: &str, now: Instant) {
        let last = self.0.get(owner).map(|pause| pause.length * 2);
        let length = last.unwrap_or(SHORTEST).min(LONGEST);
        let until = now + length;
        self.0.insert(owner.to_owned(), Pause { until, length });
    }

    /// Forgets an owner for whom there was room.
    pub(super) fn forget(&mut self, owner: &str) {
        self.0.remove(owner);
    }

    /// Forgets owners for whom nothing has been tried for long: they have no unfinished uploads any more.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.0.retain(|_, pause| now < pause.until + LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_of_an_owner_grow_until_there_is_room() {
        let (mut postponed, begin) = (Postponed::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        postponed.put_off("alice", at(0));
        assert!(postponed.has("alice", at(59)) && !postponed.has("bob", at(59)));
        assert!(!postponed.has("alice", at(60)));
        postponed.put_off("alice", at(60));
        assert!(postponed.has("alice", at(179)) && !postponed.has("alice", at(180)));
        for _ in 0..10 {
            postponed.put_off("alice", at(180));
        }
        assert!(postponed.has("alice", at(180 + 3599)) && !postponed.has("alice", at(180 + 3600)));
        postponed.forget("alice");
        postponed.put_off("alice", at(0));
        assert!(!postponed.has("alice", at(60)));
        postponed.forget_old(at(7200));
        assert!(postponed.0.is_empty());
    }
}
