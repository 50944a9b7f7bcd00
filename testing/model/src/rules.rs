//! The rules of the design, and the mutations, each of which breaks one of them.
//!
//! Several replicas write one session. Its row in the ledger names the ranges of the media in the
//! object store. The design has these rules:
//!
//! | | rule |
//! |---|---|
//! | R1 | names in the store are random, and each is written once, from one buffer |
//! | R2 | the ledger compares lease and offset at each change; a refused replica stops and acknowledges nothing |
//! | R3 | lease ids are random and never repeat |
//! | R4 | the data is stored, then the commit is made, then the reply is sent |
//! | R5 | names that a commit drops become garbage in that commit |
//! | R6 | after a commit with an unknown outcome a replica acknowledges nothing and deletes nothing |
//! | R7 | a PUT with an unknown outcome is repeated, with the same name and the same buffer |
//! | R8 | after a Complete with an unknown outcome the object is compared with the parts that the row names |
//! | R9 | garbage is deleted twice, the upload before the object; the second deletion waits until no operation on the name can be under way |
//! | R15 | a lease has a deadline that the ledger checks at every change; the sweep takes only names that no lease within its deadline can still commit |
//!
//! R10 to R14 are about settings, clocks and connections, which the model does not have.

use clap::ValueEnum;

/// One deviation from the rules, made in the code that keeps the rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Mutation {
    /// R2: the ledger compares neither lease nor offset.
    NoFence,
    /// R2: the ledger compares the offset alone.
    OffsetAlone,
    /// R3: after a failover that lost a lease, the next lease has the same number.
    EpochReused,
    /// R1: the tail is one object, which each chunk writes again with more bytes.
    TailRewritten,
    /// R1: a name is derived from the offset, so that the next lease writes it again.
    NamesReused,
    /// R5: after its commit a replica deletes the names that the commit has dropped.
    GarbageOutsideCommit,
    /// R9: garbage is deleted once.
    DeletedOnce,
    /// R9: the second deletion does not wait for operations that are under way.
    SecondDeletionTooEarly,
    /// R4: a new holder acknowledges parts that the store lists and the row does not name.
    ListingTrusted,
    /// R1: a new holder adds parts to the upload of the previous lease.
    SharedUpload,
    /// R4: the upload is completed before the commit of the last bytes.
    CompleteBeforeFinishing,
    /// R15: a lease has no deadline, and the sweep takes unnamed media of the current lease.
    SweepByAgeAlone,
    /// R9: garbage is deleted before the standby has the commit that made it garbage.
    NoDelay,
    /// R6: a replica deletes the media of a commit with an unknown outcome.
    DropAfterUnknownCommit,
    /// R4: a replica acknowledges bytes before the commit that names them.
    AcknowledgedEarly,
    /// R2: a replica that does not find the tail ends the session without comparing its lease.
    GoneWithoutFence,
    /// R1: all replicas compose the media under the same name.
    OneNameForComposed,
}

/// The bounds of an exploration, and the rule that it breaks.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    pub(crate) name: &'static str,
    pub(crate) replicas: usize,
    /// How many leases are given.
    pub(crate) leases: u8,
    /// How many operations may land later than their sender expects, or twice.
    pub(crate) late_operations: u8,
    /// The length of the media, in units.
    pub(crate) total: u8,
    /// The length of a cell, in units: each part but the last is as long.
    pub(crate) cell: u8,
    /// Whether one failover may lose the last write of the ledger.
    pub(crate) loses_last_write: bool,
    pub(crate) mutation: Option<Mutation>,
}

impl Configuration {
    /// Whether the exploration deviates from a rule in this way.
    pub(crate) fn breaks(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}
