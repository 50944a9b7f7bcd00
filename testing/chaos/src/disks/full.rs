//! No room on the disk.
//!
//! Injected: a small file system is filled by media, by JSON, by sessions with large metadata, by
//! small uploads, or by another process that takes the last byte. It holds ledger and vault, or one
//! of them. The server is root or a normal user. A normal user cannot take the blocks that a file
//! system reserves for root. On the full disk the server is killed and started again. Room is made
//! by cancels and deletes alone, or by the other process.
//!
//! To be survived: everything that was acknowledged. To be seen: requests that need room are
//! refused with 503 and `Retry-After`, before the limits of `free_space` are overrun. Queries,
//! finishes, cancels, deletes and `windlass verify` still work, on the last byte too, and the
//! server starts. Soon after there is room everything works again, without an operator. A vault in
//! memory is refused.

mod client;
mod filler;
mod life;
mod memory;
mod other_process;
mod place;

use std::time::Duration;

use windlass_testkit::checker::Violation;

use super::verdict::Verdict;
use super::volume::Volume;
use crate::disk::FileSystem;
use crate::outcome::{Outcome, progress};
use crate::server_under_test::ServerUnderTest;
use crate::tool::need;
use filler::Filler;
use life::Life;
use place::{Layout, Place, User};

/// Fills the disk and makes room again, in every way.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    server_under_test: ServerUnderTest,
    /// The file system.
    #[arg(long, value_enum, default_value_t = FileSystem::Ext4)]
    file_system: FileSystem,
    /// Number of times the disk is filled in each case.
    #[arg(long, default_value_t = 1)]
    cycles: u64,
    /// Run only the cases with names that contain this, e.g. `json` or `normal user`.
    #[arg(long, value_name = "WORDS", default_value = "")]
    only: String,
    /// Seed of the clients' requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// One way to fill a disk.
#[derive(Debug, Clone, Copy)]
struct Case {
    layout: Layout,
    filler: Filler,
    user: User,
}

/// Those in which it matters who the server is are there twice.
const CASES: [Case; 14] = [
    Case::new(Layout::OneDisk, Filler::Media, User::Root),
    Case::new(Layout::OneDisk, Filler::Media, User::Normal),
    Case::new(Layout::OneDisk, Filler::Json, User::Root),
    Case::new(Layout::OneDisk, Filler::Json, User::Normal),
    Case::new(Layout::OneDisk, Filler::Sessions, User::Root),
    Case::new(Layout::OneDisk, Filler::Sessions, User::Normal),
    Case::new(Layout::OneDisk, Filler::Others, User::Root),
    Case::new(Layout::OneDisk, Filler::Others, User::Normal),
    Case::new(Layout::SmallLedger, Filler::SmallMedia, User::Normal),
    Case::new(Layout::SmallLedger, Filler::Json, User::Root),
    Case::new(Layout::SmallLedger, Filler::Sessions, User::Normal),
    Case::new(Layout::SmallLedger, Filler::Others, User::Normal),
    Case::new(Layout::SmallVault, Filler::Media, User::Normal),
    Case::new(Layout::SmallVault, Filler::Others, User::Root),
];

impl Case {
    const fn new(layout: Layout, filler: Filler, user: User) -> Self {
        Self {
            layout,
            filler,
            user,
        }
    }

    fn name(self) -> String {
        let Self {
            layout,
            filler,
            user,
        } = self;
        format!(
            "{}, filled by {}, as {}",
            layout.name(),
            filler.name(),
            user.name()
        )
    }
}

/// The totals of all cases.
#[derive(Debug, Default)]
struct Tally {
    cases: u64,
    fills: u64,
    acknowledged: u64,
    refused: u64,
    done_when_full: u64,
    slowest_room: Duration,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    Volume::need(arguments.file_system)?;
    need(&["dd"])?;
    let mut verdict = Verdict::default();
    let mut tally = Tally::default();
    memory::refuses_a_vault_in_memory(&arguments.server_under_test, &mut verdict)?;
    for (case, number) in CASES.into_iter().zip(1..) {
        let name = case.name();
        if !name.contains(&arguments.only) {
            continue;
        }
        progress(&name);
        let place = Place::new(
            arguments.file_system,
            case.layout,
            case.user,
            &arguments.server_under_test,
        )?;
        let seed = arguments.seed + number * 1_000_000;
        let life = Life::begin(&place, case, seed, &mut verdict)?;
        life.run(arguments.cycles, &mut tally)?;
        // It needs room, which may not be there then.
        if !verdict.is_clean() {
            break;
        }
        for Violation { upload, rule } in place.verify()? {
            verdict.blame(&name, format!("{upload}: {rule}"));
        }
    }
    let figures = format!("{}: {}", arguments.file_system.name(), tally.figures());
    Ok(verdict.outcome(figures))
}

impl Tally {
    fn figures(&self) -> String {
        format!(
            "{} cases, full {} times; {} uploads, sessions and resources, {} refusals; {} queries, finishes, cancels and deletes done on \
             the full disk; room again within {} ms; a vault in memory refused",
            self.cases,
            self.fills,
            self.acknowledged,
            self.refused,
            self.done_when_full,
            self.slowest_room.as_millis()
        )
    }
}
