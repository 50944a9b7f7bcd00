//! Where a file system keeps its journal.

use std::ops::Range;

use anyhow::{Context as _, ensure};

use crate::disk::{FileSystem, LoopDevice};
use crate::tool::{need, run};

/// The bytes of the device that hold the journal of a new file system, in one piece. Btrfs has
/// none.
pub(super) fn place(
    file_system: FileSystem,
    device: &LoopDevice,
) -> anyhow::Result<Option<Range<u64>>> {
    match file_system {
        FileSystem::Ext4 => of_ext4(device).map(Some),
        FileSystem::Xfs => of_xfs(device).map(Some),
        FileSystem::Btrfs => Ok(None),
    }
}

/// The blocks of inode 8.
fn of_ext4(device: &LoopDevice) -> anyhow::Result<Range<u64>> {
    need(&["debugfs", "dumpe2fs"])?;
    let about = run("dumpe2fs", ["-h", device.path()])?;
    let len = about
        .lines()
        .find_map(|line| line.strip_prefix("Block size:"))
        .context("dumpe2fs tells no size of blocks")?;
    let len: u64 = len.trim().parse()?;
    let blocks = run("debugfs", ["-R", "blocks <8>", device.path()])?;
    let blocks = blocks.split_ascii_whitespace().map(str::parse);
    let blocks: Vec<u64> = blocks.collect::<Result<_, _>>()?;
    let first = blocks.iter().min().context("there is no journal")?;
    let last = blocks.iter().max().context("there is no journal")?;
    ensure!(
        blocks.len() as u64 == last + 1 - first,
        "the journal is in pieces"
    );
    Ok(first * len..(last + 1) * len)
}

/// The log in the data section. Its address has the allocation group in the upper bits.
fn of_xfs(device: &LoopDevice) -> anyhow::Result<Range<u64>> {
    need(&["xfs_db"])?;
    let ask = "print logstart logblocks blocksize agblklog agblocks";
    let told = run("xfs_db", ["-r", "-c", "sb 0", "-c", ask, device.path()])?;
    let field = |name: &str| -> anyhow::Result<u64> {
        let line = told.lines().find_map(|line| {
            let (found, value) = line.split_once(" = ")?;
            (found == name).then_some(value)
        });
        let value = line.with_context(|| format!("xfs_db tells no {name}"))?;
        Ok(value.trim().parse()?)
    };
    let (start, group_bits) = (field("logstart")?, field("agblklog")?);
    let (group, inside) = (start >> group_bits, start & ((1 << group_bits) - 1));
    let (first, len) = (group * field("agblocks")? + inside, field("blocksize")?);
    Ok(first * len..(first + field("logblocks")?) * len)
}
