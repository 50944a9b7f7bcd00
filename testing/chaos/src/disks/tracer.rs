//! strace, which lets system calls of the server fail or take their time.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use crate::tool::dies_with_us;

/// What strace writes behind a call that it let fail.
const INJECTED: &str = "(INJECTED)";

/// How often the log is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// What goes before the server's command: strace with a log and, perhaps, something to inject.
pub(super) fn traced(calls: &[&str], inject: Option<&str>, log: &Path) -> Vec<String> {
    let mut words = dies_with_us();
    words.extend(["strace", "-f", "-qq", "-o"].map(str::to_owned));
    words.push(log.to_string_lossy().into_owned());
    words.push(format!("--trace={}", calls.join(",")));
    words.extend(inject.map(|inject| format!("--inject={inject}")));
    // The server's parent is strace, without which it must not go on.
    words.extend(dies_with_us());
    words
}

/// How often a call was made by the one thread that made it most often. strace counts by thread.
///
/// # Errors
/// When the log cannot be read.
pub(super) fn most_by_one_thread(log: &Path, call: &str) -> std::io::Result<u64> {
    let mut counts = std::collections::HashMap::<&str, u64>::new();
    let text = fs::read_to_string(log)?;
    for line in text.lines() {
        if let Some((thread, rest)) = line.split_once(' ')
            && rest
                .trim_start()
                .strip_prefix(call)
                .is_some_and(|rest| rest.starts_with('('))
        {
            *counts.entry(thread).or_default() += 1;
        }
    }
    Ok(counts.into_values().max().unwrap_or_default())
}

/// Looks out for the first failure in a log, from where the log ends now.
#[derive(Debug)]
pub(super) struct InjectionWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Option<Instant>>,
}

impl InjectionWatch {
    /// Begins to look.
    pub(super) fn begin(log: PathBuf) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let mut from = length(&log);
        let thread = spawn(move || {
            loop {
                // Asked first: what is written before the stop is still looked at.
                let is_last = stopped.load(Ordering::Relaxed);
                let piece = read_from(&log, from);
                if piece.contains(INJECTED) {
                    return Some(Instant::now());
                }
                // A line may have come in part; the mark is at its end.
                from += piece.rfind('\n').map_or(0, |end| end as u64 + 1);
                if is_last {
                    return None;
                }
                sleep(LOOK_AGAIN);
            }
        });
        Self { stop, thread }
    }

    /// When something failed, if anything did.
    pub(super) fn end(self) -> Option<Instant> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

/// How long a log is. It grows as long as the server writes and syncs.
pub(super) fn length(log: &Path) -> u64 {
    fs::metadata(log).map_or(0, |metadata| metadata.len())
}

fn read_from(log: &Path, from: u64) -> String {
    let mut bytes = Vec::new();
    if let Ok(mut file) = fs::File::open(log) {
        file.seek(SeekFrom::Start(from)).ok();
        file.read_to_end(&mut bytes).ok();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
