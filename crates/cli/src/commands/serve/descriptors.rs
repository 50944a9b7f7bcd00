//! How many files and connections the process may have open.
//!
//! A connection that is let in without a descriptor left for its media can only be refused later,
//! in the middle of an upload. So there are never more of them than descriptors for both.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A connection's socket and its media's file.
const FOR_A_CONNECTION: u64 = 2;

/// The ledger, the directories that are being synced, the listener, the runtime, the log; and media that is
/// kept open for the next chunk.
const FOR_THE_REST: u64 = 64 + windlass_server::WARM_SESSIONS as u64;

/// Raises the soft limit on descriptors to the hard one, and says how many there are now.
///
/// The soft limit is low for the sake of programs that use `select`, which this one does not.
pub(super) fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        // Some systems refuse a soft limit without end.
        Err(_) => limit.current,
    };
    current.unwrap_or(u64::MAX)
}

/// The most connections that so many descriptors are enough for; one, at the least.
pub(super) fn connections_within(descriptors: u64) -> usize {
    let connections = descriptors.saturating_sub(FOR_THE_REST) / FOR_A_CONNECTION;
    usize::try_from(connections).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_has_a_descriptor_for_its_media() {
        let cases = [
            (0, 1),
            (320, 1),
            (322, 1),
            (323, 1),
            (324, 2),
            (1024, 352),
            (16_703, 8191),
            (16_704, 8192),
            (u64::MAX, usize::MAX / 2 - 160),
        ];
        for (descriptors, connections) in cases {
            assert_eq!(
                connections_within(descriptors),
                connections,
                "{descriptors}"
            );
        }
    }
}
