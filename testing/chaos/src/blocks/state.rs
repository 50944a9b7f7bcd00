//! Disks as a crash may leave them.
//!
//! A crash comes between two entries of the log. All entries before the last flush are on the disk.
//! Any write after it may be missing, and so may any sectors of a long write: a disk with a write
//! cache writes in any order.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use windlass_testkit::rng::Rng;

use super::log::{Entry, Log};
use crate::tool::run;

/// The size that a disk writes as a whole. File systems are made for such disks: their superblocks
/// fit into it.
const PHYSICAL_SECTOR: u64 = 4096;

/// Number of states of which one is not at an acknowledgement.
const ANYWHERE: u64 = 3;

/// The part of the writes after the last flush that a crash loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    Nothing,
    Everything,
    /// Every other write, by chance.
    Some,
    /// Every other physical sector of every write, by chance.
    Torn,
}

/// The position of a crash, and its loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State {
    /// The number of completed entries of the log.
    pub(super) prefix: usize,
    loss: Loss,
    seed: u64,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loss = match self.loss {
            Loss::Nothing => "no write",
            Loss::Everything => "every write",
            Loss::Some => "half of the writes",
            Loss::Torn => "half of the sectors",
        };
        let prefix = self.prefix;
        write!(f, "after entry {prefix}, {loss} since the last flush lost")
    }
}

/// Chooses states: at acknowledgements, which came when the log was so long, and anywhere. They are
/// in the order of the log, and fewer than `count` only when the log has fewer. No acknowledgement
/// comes up twice before all have come up once.
pub(super) fn choose(log: &Log, acknowledged: &[u64], count: usize, rng: &mut Rng) -> Vec<State> {
    let at: BTreeSet<_> = acknowledged
        .iter()
        .map(|length| log.entries_at(*length))
        .collect();
    let mut at: Vec<_> = at
        .into_iter()
        .map(|prefix| (rng.next_u64(), prefix))
        .collect();
    at.sort_unstable();
    let mut at = at.into_iter().map(|(_, prefix)| prefix).cycle();
    let mut states = BTreeSet::new();
    // States that are drawn twice count once: with luck bad enough the last few are never found.
    for _ in 0..count.saturating_mul(20) {
        if states.len() >= count {
            break;
        }
        let prefix = if rng.once_in(ANYWHERE) {
            None
        } else {
            at.next()
        };
        let prefix = prefix.unwrap_or_else(|| anywhere(log, rng));
        states.insert(State::draw(log, prefix, rng));
    }
    states.into_iter().collect()
}

fn anywhere(log: &Log, rng: &mut Rng) -> usize {
    let entries = log.entries().len() as u64;
    usize::try_from(rng.within(0..entries + 1)).expect("a count of entries")
}

impl State {
    /// A state after a number of entries. There is only one where nothing can be lost; otherwise
    /// most states lose much.
    fn draw(log: &Log, prefix: usize, rng: &mut Rng) -> Self {
        let nothing = Self {
            prefix,
            loss: Loss::Nothing,
            seed: 0,
        };
        if !log.entries()[last_flush(log, prefix)..prefix]
            .iter()
            .any(Entry::may_be_lost)
        {
            return nothing;
        }
        match rng.within(0..8) {
            0 => nothing,
            1..4 => Self {
                loss: Loss::Everything,
                ..nothing
            },
            next_u64 => Self {
                prefix,
                loss: if next_u64 < 6 { Loss::Some } else { Loss::Torn },
                seed: rng.next_u64(),
            },
        }
    }

    /// Which parts of an entry after the last flush are on the disk.
    fn survivors(&self, entry: &Entry, rng: &mut Rng) -> Vec<Range<u64>> {
        let range = entry.range();
        match self.loss {
            _ if !entry.may_be_lost() => vec![range],
            Loss::Nothing => vec![range],
            Loss::Everything => vec![],
            Loss::Some => {
                if rng.once_in(2) {
                    vec![range]
                } else {
                    vec![]
                }
            }
            Loss::Torn => sectors(range).filter(|_| rng.once_in(2)).collect(),
        }
    }
}

/// A range, cut where physical sectors end.
fn sectors(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let first = range.start / PHYSICAL_SECTOR;
    let end = range.end.div_ceil(PHYSICAL_SECTOR);
    (first..end).map(move |sector| {
        let whole = sector * PHYSICAL_SECTOR..(sector + 1) * PHYSICAL_SECTOR;
        whole.start.max(range.start)..whole.end.min(range.end)
    })
}

/// The last flush before a crash after a number of entries; everything before it is safe.
fn last_flush(log: &Log, prefix: usize) -> usize {
    let flush = log.entries()[..prefix].iter().rposition(Entry::is_flush);
    flush.unwrap_or(0)
}

/// Makes images of disks. One image grows with the log and holds the safe writes. Each state begins
/// as a copy of it.
#[derive(Debug)]
pub(super) struct Images<'a> {
    log: &'a Log,
    safe: PathBuf,
    done: usize,
}

impl<'a> Images<'a> {
    /// Begins with the image of the disk before the first entry, which is written to.
    pub(super) fn new(log: &'a Log, safe: PathBuf) -> Self {
        Self { log, safe, done: 0 }
    }

    /// Makes the disk of a state, and returns how many writes it lacks, wholly or in part. States
    /// come in the order of the log.
    ///
    /// # Errors
    /// An image cannot be written.
    pub(super) fn make(&mut self, state: &State, at: &Path) -> anyhow::Result<u64> {
        let flush = last_flush(self.log, state.prefix);
        let safe = File::options().write(true).open(&self.safe)?;
        for entry in &self.log.entries()[self.done.min(flush)..flush] {
            self.carry_out(entry, &[entry.range()], &safe)?;
        }
        self.done = self.done.max(flush);
        copy(&self.safe, at)?;
        let image = File::options().write(true).open(at)?;
        let mut rng = Rng::new(state.seed);
        let mut lacking = 0;
        for entry in &self.log.entries()[flush..state.prefix] {
            let survivors = state.survivors(entry, &mut rng);
            let kept: u64 = survivors.iter().map(|range| range.end - range.start).sum();
            lacking += u64::from(kept < entry.range().end - entry.range().start);
            self.carry_out(entry, &survivors, &image)?;
        }
        Ok(lacking)
    }

    /// Repeats the effect of an entry on some parts of an image.
    fn carry_out(&self, entry: &Entry, parts: &[Range<u64>], image: &File) -> anyhow::Result<()> {
        let parts = parts.iter().filter(|part| !part.is_empty());
        if entry.is_discard() {
            for part in parts {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(image, how, part.start, part.end - part.start)?;
            }
            return Ok(());
        }
        let bytes = self.log.bytes(entry)?;
        let index =
            |place: u64| usize::try_from(place - entry.range().start).expect("it is in memory");
        for part in parts {
            image.write_all_at(&bytes[index(part.start)..index(part.end)], part.start)?;
        }
        Ok(())
    }
}

/// Copies an image with its holes to a new file: a loop device may still hold the last file of that
/// name.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let flags = ["--reflink=auto", "--sparse=auto", "--remove-destination"];
    let paths = [from, to].map(Path::as_os_str);
    run("cp", flags.map(AsRef::as_ref).into_iter().chain(paths)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::log::tests::log;

    const FLUSH: u64 = 1;
    const FUA: u64 = 2;
    const DISCARD: u64 = 4;

    /// Two physical sectors.
    const LONG: usize = 8192;

    fn image(log: &Log, state: State) -> (Vec<u8>, u64) {
        let scratch = tempfile::tempdir().unwrap();
        let (safe, crashed) = (scratch.path().join("safe"), scratch.path().join("crashed"));
        std::fs::write(&safe, vec![9; 3 * LONG]).unwrap();
        let lost = Images::new(log, safe).make(&state, &crashed).unwrap();
        (std::fs::read(crashed).unwrap(), lost)
    }

    fn state(prefix: usize, loss: Loss, seed: u64) -> State {
        State { prefix, loss, seed }
    }

    fn with_log(entries: &[(u64, u64, &[u8])], look: impl FnOnce(&Log)) {
        let scratch = tempfile::tempdir().unwrap();
        look(&log(entries, &scratch.path().join("log")).unwrap());
    }

    #[test]
    fn what_was_flushed_is_never_lost_and_what_was_not_may_be() {
        let entries: [(u64, u64, &[u8]); 3] =
            [(0, 0, &[1; 512]), (0, FLUSH, &[]), (1, 0, &[2; 512])];
        with_log(&entries, |log| {
            for loss in [Loss::Nothing, Loss::Everything, Loss::Some, Loss::Torn] {
                assert_eq!(image(log, state(3, loss, 1)).0[..512], [1; 512]);
            }
            assert_eq!(
                image(log, state(3, Loss::Nothing, 0)).0[512..1024],
                [2; 512]
            );
            let (crashed, lost) = image(log, state(3, Loss::Everything, 0));
            assert_eq!((&crashed[512..1024], lost), (&[9; 512][..], 1));
        });
    }

    #[test]
    fn nothing_behind_the_prefix_is_there() {
        let entries: [(u64, u64, &[u8]); 2] = [(0, 0, &[1; 512]), (1, 0, &[2; 512])];
        with_log(&entries, |log| {
            let (crashed, lost) = image(log, state(1, Loss::Nothing, 0));
            assert_eq!(
                (&crashed[..1024], lost),
                (&[[1; 512], [9; 512]].concat()[..], 0)
            );
        });
    }

    #[test]
    fn forced_writes_are_safe_at_once_and_discarded_bytes_are_zero() {
        let entries: [(u64, u64, &[u8]); 2] = [(0, FUA, &[1; 512]), (8, DISCARD, &[0; 4096])];
        with_log(&entries, |log| {
            let (crashed, lost) = image(log, state(2, Loss::Everything, 0));
            assert_eq!((crashed[0], crashed[4096], lost), (1, 9, 1));
            let (crashed, lost) = image(log, state(2, Loss::Nothing, 0));
            assert_eq!(
                (crashed[0], &crashed[4096..8192], lost),
                (1, &[0; 4096][..], 0)
            );
        });
    }

    #[test]
    fn torn_writes_keep_whole_physical_sectors_of_every_kind() {
        with_log(&[(1, 0, &[1; LONG])], |log| {
            let mut seen = BTreeSet::new();
            for seed in 0..64 {
                let (crashed, _) = image(log, state(1, Loss::Torn, seed));
                let parts = [512..4096, 4096..8192, 8192..8704].map(|part| crashed[part].to_vec());
                assert!(
                    parts
                        .iter()
                        .all(|part| part.iter().all(|byte| *byte == part[0]))
                );
                seen.insert(parts.map(|part| part[0]));
            }
            assert_eq!(seen.len(), 8);
        });
    }

    #[test]
    fn states_are_chosen_in_the_order_of_the_log_and_most_at_acknowledgements() {
        let entries: Vec<(u64, u64, &[u8])> =
            (0..200).map(|sector| (sector, 0, &[1; 512][..])).collect();
        with_log(&entries, |log| {
            let acknowledged: Vec<_> = (1..=50).map(|nth| log.length(4 * nth)).collect();
            let states = choose(log, &acknowledged, 120, &mut Rng::new(1));
            assert_eq!(states.len(), 120);
            assert!(states.is_sorted());
            let at = states
                .iter()
                .filter(|state| state.prefix > 0 && state.prefix % 4 == 0);
            assert!((70..115).contains(&at.count()));
        });
    }
}
