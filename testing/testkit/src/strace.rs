//! Programs under strace: system calls that are counted, fail on purpose or take their time.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// The name of the program.
pub const PROGRAM: &str = "strace";

/// The mark that strace writes behind a call that it let fail.
const INJECTED: &str = "(INJECTED)";

/// How often the log is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The words of a command that traces all threads of a program.
#[derive(Debug, Clone)]
pub struct Strace(Vec<String>);

impl Strace {
    /// Traces these calls. Calls with a `?` before their names may be missing on the machine.
    pub fn of(calls: &[impl AsRef<str>]) -> Self {
        let calls: Vec<_> = calls.iter().map(AsRef::as_ref).collect();
        let trace = format!("--trace={}", calls.join(","));
        Self(vec![PROGRAM.to_owned(), "--follow-forks".to_owned(), trace])
    }

    /// Adds an option.
    #[must_use]
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.0.push(option.into());
        self
    }

    /// Writes to this file. With `--output-separately`, each thread has a file with a name that
    /// begins with this path.
    #[must_use]
    pub fn output(self, log: &Path) -> Self {
        self.option(format!("--output={}", log.display()))
    }

    /// Lets calls fail or take their time, e.g. `fsync,fdatasync:delay_exit=1000`.
    #[must_use]
    pub fn inject(self, injection: &str) -> Self {
        self.option(format!("--inject={injection}"))
    }

    /// Returns the words that go before the command of the program.
    pub fn into_words(self) -> Vec<String> {
        self.0
    }
}

/// Returns how often a call was made by the one thread that made it most often. strace counts by
/// thread.
///
/// # Errors
/// When the log cannot be read.
pub fn most_by_one_thread(log: &Path, call: &str) -> io::Result<u64> {
    let mut counts = HashMap::<&str, u64>::new();
    let text = fs::read_to_string(log)?;
    for line in text.lines() {
        if let Some((thread, rest)) = line.split_once(' ')
            && let Some(arguments) = rest.trim_start().strip_prefix(call)
            && arguments.starts_with('(')
        {
            *counts.entry(thread).or_default() += 1;
        }
    }
    Ok(counts.into_values().max().unwrap_or_default())
}

/// Watches a log for the first injected failure, from the end that the log has at the start.
#[derive(Debug)]
pub struct InjectionWatch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Option<Instant>>,
}

impl InjectionWatch {
    /// Begins to watch.
    pub fn begin(log: PathBuf) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let mut from = log_len(&log);
        let thread = spawn(move || {
            loop {
                // Read first: lines that are written before the stop still count.
                let is_last = stopped.load(Ordering::Relaxed);
                let piece = read_from(&log, from);
                if piece.contains(INJECTED) {
                    return Some(Instant::now());
                }
                // A line may have been written in part; the mark is at its end.
                from += piece.rfind('\n').map_or(0, |end| end as u64 + 1);
                if is_last {
                    return None;
                }
                sleep(LOOK_AGAIN);
            }
        });
        Self { stop, thread }
    }

    /// Returns when something failed, if anything did.
    pub fn end(self) -> Option<Instant> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic")
    }
}

/// Length of a log, which grows as long as the program makes traced calls.
pub fn log_len(log: &Path) -> u64 {
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
