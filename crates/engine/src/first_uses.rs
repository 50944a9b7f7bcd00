//! The partial uploads that final uploads have used.
//!
//! A final upload copies bytes that its client has uploaded to be copied. So the first copy of a
//! partial upload counts as no copy, and each further one does. This is not durable: after a restart
//! each partial upload may be copied once more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_store::{SessionId, Timestamp};

/// Maximum number of used partial uploads that are remembered. Beyond that no use counts as the
/// first, so that nobody can have the table forget a use.
const MAX_USED: usize = 65_536;

/// The used partial uploads, with the times at which they expire.
#[derive(Debug, Default)]
pub(crate) struct FirstUses(Mutex<HashMap<SessionId, Timestamp>>);

/// The first uses in a final upload. Dropping them before [`Uses::keep`] undoes them.
#[derive(Debug)]
#[must_use]
pub(crate) struct Uses<'a> {
    table: &'a FirstUses,
    sessions: Vec<SessionId>,
    /// Number of bytes of these partial uploads.
    pub(crate) bytes: u64,
}

/// A partial upload that is to be used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) session: SessionId,
    pub(crate) expires: Timestamp,
    pub(crate) length: u64,
}

impl FirstUses {
    /// Records the uses of partial uploads, and returns those that are their first.
    pub(crate) fn record(
        &self,
        partials: impl IntoIterator<Item = Used>,
        now: Timestamp,
    ) -> Uses<'_> {
        let mut first = Uses {
            table: self,
            sessions: Vec::new(),
            bytes: 0,
        };
        let mut table = self.lock();
        if table.len() >= MAX_USED {
            table.retain(|_, expires| *expires > now);
        }
        for used in partials {
            if table.len() < MAX_USED && !table.contains_key(&used.session) {
                table.insert(used.session, used.expires);
                first.sessions.push(used.session);
                first.bytes += used.length;
            }
        }
        first
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Uses<'_> {
    /// The final upload has been made.
    pub(crate) fn keep(mut self) {
        self.sessions.clear();
    }
}

impl Drop for Uses<'_> {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        for session in &self.sessions {
            table.remove(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn used(n: u32, expires: u64) -> Used {
        let mut id = [0; 32];
        id[..4].copy_from_slice(&n.to_be_bytes());
        Used {
            session: SessionId::from_bytes(id),
            expires: Timestamp::from_millis(expires),
            length: 10,
        }
    }

    #[test]
    fn use_is_the_first_one_once_unless_it_is_undone() {
        let table = FirstUses::default();
        let [one, two] = [used(1, 2_000), used(2, 2_000)];
        table.record([one, one], NOW).keep();
        let uses = table.record([one, two], NOW);
        assert_eq!(uses.bytes, 10);
        drop(uses);
        assert_eq!(table.record([one, two], NOW).bytes, 10);
    }

    #[test]
    fn full_table_forgets_what_has_expired_alone() {
        let table = FirstUses::default();
        let many = u32::try_from(MAX_USED).expect("it is small");
        let expires = |n| if n == 0 { 500 } else { 2_000 };
        table
            .record((0..many).map(|n| used(n, expires(n))), NOW)
            .keep();
        let uses = table.record([used(many, 2_000), used(many + 1, 2_000)], NOW);
        assert_eq!(uses.bytes, 10);
        assert_eq!(table.lock().len(), MAX_USED);
    }
}
