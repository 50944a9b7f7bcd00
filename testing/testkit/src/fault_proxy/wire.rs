//! One side of a connection: a non-blocking socket and the bytes received from it.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;

use super::{PATIENCE, Shared};

/// Number of received bytes that are held: a head, or a piece big enough to make the cost of calls
/// negligible.
const ROOM: usize = 256 * 1024;

/// A socket and its inbox.
#[derive(Debug)]
pub(super) struct Wire {
    stream: Arc<TcpStream>,
    inbox: Box<[u8]>,
    held: Range<usize>,
    ended: bool,
}

impl Wire {
    /// # Errors
    /// `Interrupted` when the proxy is stopped, otherwise an error of the operating system.
    pub(super) fn new(stream: TcpStream, shared: &Shared) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let stream = Arc::new(stream);
        if !shared.register(&stream) {
            return Err(ErrorKind::Interrupted.into());
        }
        Ok(Self {
            stream,
            inbox: vec![0; ROOM].into(),
            held: 0..0,
            ended: false,
        })
    }

    /// The received bytes that were not consumed.
    pub(super) fn inbox(&self) -> &[u8] {
        &self.inbox[self.held.clone()]
    }

    /// Whether the peer will send nothing more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The event to wait for before more can be received.
    pub(super) fn input(&self) -> PollFlags {
        if self.ended || self.held.len() == ROOM {
            PollFlags::empty()
        } else {
            PollFlags::IN
        }
    }

    /// Receives bytes, if there is room. Returns `false` if nothing changes. A reset is an end like
    /// any other: a later send finds it out.
    pub(super) fn fill(&mut self) -> bool {
        if self.input().is_empty() {
            return false;
        }
        self.make_room();
        match (&*self.stream).read(&mut self.inbox[self.held.end..]) {
            Err(error) if is_passing(&error) => return false,
            Ok(read) if read > 0 => self.held.end += read,
            Ok(_) | Err(_) => self.ended = true,
        }
        true
    }

    /// Moves the held bytes to the beginning, if there are none or if there is no room behind them.
    fn make_room(&mut self) {
        if self.held.is_empty() || self.held.end == ROOM {
            self.inbox.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
        }
    }

    /// Forgets the beginning of the inbox.
    pub(super) fn consume(&mut self, len: usize) {
        self.held.start += len;
        debug_assert!(self.held.start <= self.held.end, "no more than is held");
    }

    /// Forgets a range of the inbox.
    pub(super) fn remove(&mut self, range: Range<usize>) {
        let start = self.held.start;
        self.inbox
            .copy_within(start + range.end..self.held.end, start + range.start);
        self.held.end -= range.len();
    }

    /// Sends as many bytes as the socket takes without blocking.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match (&*self.stream).write(bytes) {
            Err(error) if is_passing(&error) => Ok(0),
            sent => sent,
        }
    }

    /// Sends all bytes, as soon as the peer takes them.
    pub(super) fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let sent = self.send(bytes)?;
            bytes = &bytes[sent..];
            if sent == 0 && !wait(&[(self, PollFlags::OUT)], PATIENCE)? {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    /// Says that nothing more will be sent.
    pub(super) fn finish_sending(&self) {
        self.stream.shutdown(Shutdown::Write).ok();
    }

    /// Makes its end a reset.
    pub(super) fn end_with_reset(&self) -> io::Result<()> {
        Ok(set_socket_linger(&self.stream, Some(Duration::ZERO))?)
    }
}

/// Waits until one of the wires is ready for one of the things named with it, or has ended. `false`
/// when the limit was reached.
pub(super) fn wait(wires: &[(&Wire, PollFlags)], limit: Duration) -> io::Result<bool> {
    // A wire that nothing is wanted of is left out: poll would report its end again and again.
    let wanted = wires.iter().filter(|(_, flags)| !flags.is_empty());
    let mut polled: Vec<_> = wanted
        .map(|(wire, flags)| PollFd::new(&wire.stream, *flags))
        .collect();
    let limit = Timespec::try_from(limit).expect("limits are short");
    match poll(&mut polled, Some(&limit)) {
        Err(Errno::INTR) => Ok(true),
        ready => Ok(ready? > 0),
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
