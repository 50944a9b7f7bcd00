//! How many files and connections the process may have open.
//!
//! What is let in without a descriptor left for its file can only be refused later, in the middle of an upload. So the
//! limits on connections, uploads and downloads are together no more than what there are descriptors for. They are
//! counted apart: downloads, of which an HTTP/2 connection may carry many, take nothing from uploads.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use windlass_server::config::Limits;

/// The ledger, the directories that are being synced, the listener, the runtime, the log; media that is kept open for the
/// next chunk, and media that is looked into.
const FOR_THE_REST: u64 =
    64 + windlass_server::CACHED_SESSIONS as u64 + windlass_server::MEDIA_READS as u64;

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

/// Lowers the limits until there is a descriptor for everything that may be open at the same time: a socket for each
/// connection, and a file for each upload and each download. Says whether that was needed.
pub(super) fn fit(limits: &mut Limits, descriptors: u64) -> bool {
    let available = u128::from(descriptors.saturating_sub(FOR_THE_REST));
    let counts = [
        &mut limits.connections,
        &mut limits.uploads,
        &mut limits.downloads,
    ];
    let wanted: u128 = counts.iter().map(|count| **count as u128).sum();
    if wanted <= available {
        return false;
    }
    for count in counts {
        let share = *count as u128 * available / wanted;
        *count = usize::try_from(share).unwrap_or(usize::MAX).max(1);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_descriptor_for_all_that_may_be_open() {
        let cases = [
            (0, [1, 1, 1]),
            (1024, [284, 284, 71]),
            (10_000, [4273, 4273, 1068]),
            (18_816, [8192, 8192, 2048]),
            (u64::MAX, [8192, 8192, 2048]),
        ];
        for (descriptors, expected) in cases {
            let mut limits = Limits::default();
            let was_needed = fit(&mut limits, descriptors);
            let counts = [limits.connections, limits.uploads, limits.downloads];
            assert_eq!(counts, expected, "{descriptors}");
            assert_eq!(was_needed, counts != [8192, 8192, 2048], "{descriptors}");
            let open = counts.iter().sum::<usize>() as u64 + FOR_THE_REST;
            assert!(descriptors < 387 || open <= descriptors, "{descriptors}");
        }
    }

    #[test]
    fn limits_beyond_all_numbers_are_lowered_too() {
        let mut limits = Limits::default();
        (limits.connections, limits.uploads, limits.downloads) = (usize::MAX, 1, 1);
        assert!(fit(&mut limits, 1024));
        assert_eq!((limits.uploads, limits.downloads), (1, 1));
        assert!((600..=640).contains(&limits.connections));
    }
}
