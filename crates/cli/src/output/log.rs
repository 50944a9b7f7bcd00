//! The log of the server, on standard error.
//!
//! Each request has a line. A pipe that nobody reads, or a stopped terminal, must not stop uploads.
//! A line therefore waits a moment for the reader and is then left out. The following lines are
//! left out too, until the reader continues. A line then states how many lines are missing.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::fmt::MakeWriter;

/// How long a line waits for a reader that has read all before it.
const PATIENCE: Duration = Duration::from_millis(100);

/// The most that is written at once: a pipe that takes anything takes so much without waiting
/// (`PIPE_BUF` on Linux).
const AT_ONCE: usize = 4096;

/// Writes lines, or leaves them out. Cheap to clone.
#[derive(Debug)]
pub(super) struct LogWriter<W>(Arc<Mutex<Output<W>>>);

#[derive(Debug)]
struct Output<W> {
    out: W,
    /// Number of lines that were left out since one was written.
    left_out: u64,
}

impl<W: Write + AsFd> LogWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self(Arc::new(Mutex::new(Output { out, left_out: 0 })))
    }
}

impl<W: Write + AsFd> Output<W> {
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let patience = match self.left_out {
            0 => PATIENCE,
            _ => Duration::ZERO,
        };
        if !self.takes_more(patience) {
            self.left_out += 1;
            return Ok(());
        }
        let count = std::mem::take(&mut self.left_out);
        if count > 0 {
            let why = "standard error is not read fast enough";
            writeln!(
                self.out,
                "warning: {count} lines of the log are left out: {why}"
            )?;
        }
        for part in line.chunks(AT_ONCE) {
            // The rest of a long line is lost rather than waited for.
            if self.takes_more(PATIENCE) {
                self.out.write_all(part)?;
            }
        }
        Ok(())
    }

    /// Whether a write would not block. A descriptor that cannot be polled is written to.
    fn takes_more(&self, patience: Duration) -> bool {
        let mut asked = [PollFd::new(&self.out, PollFlags::OUT)];
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: patience.subsec_nanos().into(),
        };
        poll(&mut asked, Some(&limit)) != Ok(0)
    }
}

impl<W: Write + AsFd> Write for LogWriter<W> {
    /// Takes a whole line, as tracing passes it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        output.write_line(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W> Clone for LogWriter<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<'a, W: Write + AsFd + 'a> MakeWriter<'a> for LogWriter<W> {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, pipe};

    use super::*;

    #[test]
    fn lines_that_nobody_reads_are_left_out_and_their_number_is_told() {
        let (reader, writer) = pipe().expect("a pipe");
        let mut log = LogWriter::new(writer);
        let line = [&[b'a'; 1000][..], b"\n"].concat();
        // More than a pipe takes.
        for _ in 0..200 {
            log.write_all(&line).expect("it never waits for ever");
        }
        let left_out = log.0.lock().expect("no panic").left_out;
        assert!((1..200).contains(&left_out), "{left_out}");
        let mut lines = BufReader::new(reader).lines();
        for _ in left_out..200 {
            assert_eq!(lines.next().expect("a line").expect("text").len(), 1000);
        }
        log.write_all(b"again\n").expect("it is read again");
        drop(log);
        let rest: Vec<_> = lines.map(|line| line.expect("text")).collect();
        let told = format!("warning: {left_out} lines of the log are left out: ");
        assert!(rest[0].starts_with(&told), "{rest:?}");
        assert_eq!(rest[1..], ["again"]);
    }

    #[test]
    fn long_line_is_written_as_a_whole_where_it_is_read() {
        let (reader, writer) = pipe().expect("a pipe");
        let mut log = LogWriter::new(writer);
        let line = [&[b'a'; 3 * AT_ONCE][..], b"\n"].concat();
        log.write_all(&line).expect("it fits into the pipe");
        drop(log);
        let read = BufReader::new(reader).lines().next();
        assert_eq!(read.expect("a line").expect("text").len(), 3 * AT_ONCE);
    }
}
