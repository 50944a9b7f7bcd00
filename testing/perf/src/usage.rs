//! The usage of a server: processor time and memory of its whole tree of processes.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use windlass_testkit::process::Memory;

use crate::units::float;

/// The usage of a tree of processes so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Processor time in user space and in the kernel, of children that have ended too.
    pub(crate) cpu: Duration,
    /// The resident memory at this moment, in bytes.
    pub(crate) resident: u64,
    /// The most resident memory, in bytes: the sum of each process's own most.
    pub(crate) peak: u64,
}

impl Usage {
    /// Of a process and all that come from it.
    pub(crate) fn of_tree(root: u32) -> Self {
        let processes = processes();
        let tree = tree(root, &processes);
        let ticks = tree
            .iter()
            .filter_map(|id| processes.get(id))
            .map(|stat| stat.ticks);
        let memory: Vec<_> = tree.iter().filter_map(|id| Memory::of(*id)).collect();
        let seconds = float(ticks.sum()) / float(rustix::param::clock_ticks_per_second());
        Self {
            cpu: Duration::from_secs_f64(seconds),
            resident: memory.iter().map(|memory| memory.now).sum(),
            peak: memory.iter().map(|memory| memory.peak).sum(),
        }
    }
}

/// Resets the peak memory of a process and of its descendants to their current memory. The next
/// peak then covers only later work.
pub(crate) fn forget_peak(root: u32) {
    for id in tree(root, &processes()) {
        // The peak stays if a process has ended or belongs to another user.
        fs::write(format!("/proc/{id}/clear_refs"), "5").ok();
    }
}

/// A process and all that come from it.
fn tree(root: u32, processes: &BTreeMap<u32, Stat>) -> Vec<u32> {
    let mut tree = vec![root];
    let mut index = 0;
    while let Some(&parent) = tree.get(index) {
        let children = processes.iter().filter(|(_, stat)| stat.parent == parent);
        tree.extend(children.map(|(id, _)| *id));
        index += 1;
    }
    tree
}

/// The fields of `/proc/ID/stat` that are used.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    ticks: u64,
}

fn processes() -> BTreeMap<u32, Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id: u32| {
        let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        Some((id, stat(&text)?))
    })
    .collect()
}

/// Fields 4 and 14 to 17 of proc(5). The name before them is in parentheses and may hold anything.
fn stat(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(") ")?;
    let fields: Vec<_> = fields.split(' ').collect();
    let ticks = fields.get(11..15)?.iter();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        ticks: ticks.filter_map(|field| field.parse::<u64>().ok()).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::KIB;

    #[test]
    fn a_stat_is_read_behind_a_name_that_holds_anything() {
        let text = "7 (a) b) S 3 7 7 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 5 6 7";
        let expected = Stat {
            parent: 3,
            ticks: 100,
        };
        assert_eq!(stat(text), Some(expected));
    }

    #[test]
    fn this_process_has_used_memory() {
        let usage = Usage::of_tree(std::process::id());
        assert!(usage.peak > KIB && usage.resident > KIB);
    }
}
