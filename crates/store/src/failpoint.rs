//! Named points at which a process can be made to die, to test its recovery.
//!
//! There is a [`Failpoint`] at each step of the order in which data becomes durable
//! (`docs/durability.md`). Without the feature `failpoints` it compiles to nothing: neither its
//! name nor a branch is in the binary. With it, the process ends as by `kill -9` when it reaches
//! the failpoint that is armed: no destructor runs and nothing is flushed.

#[cfg(feature = "failpoints")]
pub use armed::{UnknownFailpoint, arm};

macro_rules! failpoints {
    ($($(#[$doc:meta])* $moment:ident = $name:literal,)*) => {
        /// A point at which the process can be made to die.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Failpoint {
            $($(#[$doc])* $moment,)*
        }

        #[cfg(feature = "failpoints")]
        impl Failpoint {
            /// All failpoints, in the order of the life of an upload.
            pub const ALL: &[Self] = &[$(Self::$moment,)*];

            /// Returns the name by which it is armed.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$moment => $name,)*
                }
            }
        }
    };
}

failpoints! {
    /// Opening the store: the commits that an earlier process left in the WAL are durable, and not
    /// yet read.
    WalRewritten = "wal-rewritten",
    /// Opening the store: the WAL is replayed, nothing is served yet.
    WalReplayed = "wal-replayed",
    /// The ledger's writer: a transaction has begun.
    TransactionBegun = "transaction-begun",
    /// The ledger's writer: all changes are made, the commit is next.
    ChangesMade = "changes-made",
    /// The ledger's writer: the commit is durable, no caller has been answered.
    TransactionCommitted = "transaction-committed",
    /// The ledger's writer: a checkpoint is due and about to begin.
    CheckpointDue = "checkpoint-due",
    /// The ledger's checkpointer: most pages of the WAL are in the database, and synced.
    CheckpointCopied = "checkpoint-copied",
    /// The ledger's writer: the pages of the WAL are in the database.
    CheckpointDone = "checkpoint-done",
    /// Start: the session is in the ledger, its client does not know it.
    SessionStarted = "session-started",
    /// First byte: the media's file exists, nothing of it is durable.
    MediaCreated = "media-created",
    /// First byte: the media's file is durable, its name is not.
    MediaSynced = "media-synced",
    /// First byte: the media's file and its name are durable.
    MediaNamed = "media-named",
    /// Append: bytes are written, and not synced.
    DataWritten = "data-written",
    /// Append: bytes are synced, the ledger does not know of them.
    DataSynced = "data-synced",
    /// Append: a checkpoint in the middle of a request is committed.
    CheckpointCommitted = "checkpoint-committed",
    /// Append: the offset at a request's end is committed, the reply is next.
    OffsetCommitted = "offset-committed",
    /// Recovery: bytes after the committed offset are cut off.
    TailCut = "tail-cut",
    /// Finish: all bytes are durable and the session is finishing, the API's handler has not been
    /// called.
    Finishing = "finishing",
    /// Finish: the API's handler has answered, its changes are not applied.
    HandlerAnswered = "handler-answered",
    /// Finish: resource, reply and state are committed, the client does not know it.
    FinishApplied = "finish-applied",
    /// Finish: a session that a crash has left finishing is about to be finished.
    LeftOverLeased = "left-over-leased",
    /// One request, no session: the media is durable, no row references it.
    SingleRequestSynced = "single-request-synced",
    /// Cancel: the session is leased, the ledger has not ended it.
    CancelLeased = "cancel-leased",
    /// Cancel: the ledger has ended the session, the client does not know it.
    CancelCommitted = "cancel-committed",
    /// Deletion: a media's file is unlinked.
    MediaUnlinked = "media-unlinked",
    /// Sweep: the ledger has released media; its files still exist.
    GarbageListed = "garbage-listed",
    /// Sweep: the files are unlinked, the garbage list still has them.
    GarbageUnlinked = "garbage-unlinked",
    /// Sweep: the files are off the garbage list.
    GarbageForgotten = "garbage-forgotten",
    /// Sweep: files without a row were found.
    OrphansFound = "orphans-found",
    /// Sweep: the files without a row are unlinked.
    OrphansUnlinked = "orphans-unlinked",
}

impl Failpoint {
    /// Ends the process if this failpoint is armed.
    #[inline]
    pub fn reach(self) {
        #[cfg(feature = "failpoints")]
        armed::reach(self);
    }
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    use super::Failpoint;

    /// The armed failpoint. At most one is armed in the life of a process.
    static ARMED: OnceLock<Armed> = OnceLock::new();

    #[derive(Debug)]
    struct Armed {
        point: Failpoint,
        /// Number of times it still has to be reached, including the last.
        left: AtomicU64,
    }

    /// The text does not name a failpoint.
    #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
    #[error("{0:?} is not a failpoint: wanted NAME or NAME@NTH")]
    pub struct UnknownFailpoint(String);

    /// Arms a failpoint, given as `NAME` or `NAME@NTH`: the process dies when it reaches it for the
    /// nth time, counted from 1. The default is 1. If one is armed already, that one stays armed
    /// instead.
    ///
    /// # Errors
    /// When there is no failpoint of that name, or the number is not valid.
    pub fn arm(wanted: &str) -> Result<(), UnknownFailpoint> {
        let armed = Armed::parse(wanted).ok_or_else(|| UnknownFailpoint(wanted.to_owned()))?;
        ARMED.get_or_init(|| armed);
        Ok(())
    }

    impl Armed {
        fn parse(wanted: &str) -> Option<Self> {
            let (name, nth) = wanted.split_once('@').unwrap_or((wanted, "1"));
            let point = Failpoint::ALL.iter().find(|point| point.name() == name)?;
            let nth: u64 = nth.parse().ok().filter(|nth| *nth > 0)?;
            Some(Self {
                point: *point,
                left: AtomicU64::new(nth),
            })
        }
    }

    /// Ends the process as `kill -9` does if `point` is armed and was reached often enough.
    pub(super) fn reach(point: Failpoint) {
        let Some(armed) = ARMED.get().filter(|armed| armed.point == point) else {
            return;
        };
        if armed.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            kill_process(getpid(), Signal::KILL).ok();
            // The signal ends the process before the call returns.
            std::process::abort();
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_failpoint_is_named_with_or_without_a_count() {
            let parsed = |wanted| {
                let armed: Armed = Armed::parse(wanted)?;
                Some((armed.point, armed.left.into_inner()))
            };
            assert_eq!(parsed("finishing"), Some((Failpoint::Finishing, 1)));
            assert_eq!(parsed("data-synced@7"), Some((Failpoint::DataSynced, 7)));
            for wrong in ["", "cow", "finishing@", "finishing@0", "finishing@-1"] {
                assert_eq!(parsed(wrong), None, "{wrong:?}");
            }
        }

        #[test]
        fn names_are_unique() {
            let mut names: Vec<_> = Failpoint::ALL.iter().map(|point| point.name()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), Failpoint::ALL.len());
        }
    }
}
