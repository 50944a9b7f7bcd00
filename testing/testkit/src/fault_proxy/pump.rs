//! One exchange on its way through the proxy.
//!
//! Both directions are served at once: the upstream may answer before it has the whole request, and
//! may stop reading then.

use std::io::{self, ErrorKind};
use std::time::Duration;

use rustix::event::PollFlags;

use super::fault::Fault;
use super::framing::Framing;
use super::head::Head;
use super::wire::{Wire, wait};
use super::{PATIENCE, Record};

mod replying;
mod sending;

use replying::Replying;
use sending::Sending;

/// The interval of the pieces of a slow body.
const TICK: Duration = Duration::from_millis(5);

/// How an exchange has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Request and reply have passed; the next request may come.
    Whole,
    /// As much of the request has passed as the fault lets through, and no reply came.
    Stopped,
    /// The connection cannot continue.
    Over,
}

/// An exchange between two sides.
#[derive(Debug)]
pub(super) struct Pump<'a, 's> {
    client: &'a mut Wire,
    upstream: &'a mut Wire,
    arrivals: &'a mut Arrivals<'s>,
    record: Record<'s>,
    request: Sending,
    reply: Replying,
}

/// Counts the bytes that the client sends, whether they are passed on or not.
#[derive(Debug)]
pub(super) struct Arrivals<'s> {
    framing: Framing,
    record: Record<'s>,
}

impl<'a, 's> Pump<'a, 's> {
    /// `head` stands at the beginning of the client's inbox.
    pub(super) fn new(
        (client, upstream): (&'a mut Wire, &'a mut Wire),
        arrivals: &'a mut Arrivals<'s>,
        head: &Head,
        fault: Option<Fault>,
    ) -> Self {
        Self {
            client,
            upstream,
            record: arrivals.record,
            arrivals,
            request: Sending::new(head, fault),
            reply: Replying::new(head, fault),
        }
    }

    /// Passes the exchange on until it ends.
    ///
    /// # Errors
    /// The client is gone, either side sends bytes that are not HTTP, or nothing happens for too
    /// long.
    pub(super) fn run(mut self) -> io::Result<End> {
        loop {
            let sent = self.move_request()?;
            // Before the upstream is listened to: it may have answered the last byte already.
            if self.reply.framing.is_none() && self.request.has_stopped() {
                return Ok(End::Stopped);
            }
            let moved = self.move_reply()? | sent;
            if let Some(end) = self.end(moved) {
                return Ok(end);
            }
            if !moved {
                self.wait()?;
            }
        }
    }

    fn move_request(&mut self) -> io::Result<bool> {
        let filled = self.arrivals.fill(self.client)?;
        self.request.clear(self.client.inbox())?;
        let sent = self.send_cleared();
        self.tell_end();
        Ok(filled | sent)
    }

    fn send_cleared(&mut self) -> bool {
        let request = &mut self.request;
        if request.cleared == 0 || request.is_refused {
            return false;
        }
        let Ok(sent) = self.upstream.send(&self.client.inbox()[..request.cleared]) else {
            request.is_refused = true;
            return true;
        };
        self.client.consume(sent);
        let body = request.sent(sent);
        self.record
            .update(|exchange| exchange.body_bytes_forwarded += body);
        sent > 0
    }

    /// Passes the client's end on, once all that came before it has gone.
    fn tell_end(&mut self) {
        let request = &mut self.request;
        let nothing_follows = self.client.inbox().is_empty() || request.framing.is_complete();
        let is_due = self.client.has_ended() && request.cleared == 0 && nothing_follows;
        if is_due && !request.end_is_known {
            request.end_is_known = true;
            self.upstream.finish_sending();
        }
    }

    fn move_reply(&mut self) -> io::Result<bool> {
        let filled = self.upstream.fill();
        self.clear_reply()?;
        Ok(filled | self.deliver()?)
    }

    fn clear_reply(&mut self) -> io::Result<()> {
        if self.reply.framing.is_none() && self.reply.cleared == 0 {
            self.clear_reply_head()?;
        }
        if let Some(framing) = &mut self.reply.framing {
            let body = &self.upstream.inbox()[self.reply.cleared..];
            self.reply.cleared += framing.advance(body, u64::MAX)?.wire;
        }
        Ok(())
    }

    fn clear_reply_head(&mut self) -> io::Result<()> {
        let Some(head) = Head::parse(self.upstream.inbox())? else {
            return Ok(());
        };
        let status = head.status()?;
        self.reply.cleared = head.len;
        if matches!(status, 100..200) {
            return Ok(());
        }
        let committed = head.committed();
        if let Some(line) = head
            .line("range")
            .filter(|_| self.reply.loses_range && committed.is_some())
        {
            self.reply.cleared -= line.len();
            self.upstream.remove(line);
        }
        self.reply.framing = Some(Framing::of_reply(&self.reply.verb, status, &head));
        self.request.stops_after = None;
        self.record.update(|exchange| {
            exchange.status = Some(status);
            exchange.committed = committed;
        });
        Ok(())
    }

    /// Sends the client the cleared bytes, as far as no fault keeps them back. The delivery is
    /// recorded first: a client that has read the reply may check the record.
    fn deliver(&mut self) -> io::Result<bool> {
        let cleared = self.reply.cleared;
        let allowed = self.reply.allowed();
        if cleared == 0 {
            return Ok(false);
        }
        if allowed == 0 {
            self.upstream.consume(cleared);
            self.reply.throw_away();
            return Ok(true);
        }
        let is_last = allowed == cleared && self.reply.has_come();
        self.set_delivered(is_last);
        let sent = self.client.send(&self.upstream.inbox()[..allowed]);
        let len = *sent.as_ref().unwrap_or(&0);
        self.set_delivered(is_last && len == allowed);
        self.upstream.consume(len);
        self.reply.sent(len);
        sent.map(|sent| sent > 0)
    }

    fn set_delivered(&self, delivered: bool) {
        self.record
            .update(|exchange| exchange.delivered = delivered);
    }

    /// Whether the exchange is at its end after a round in which something moved, or nothing could.
    fn end(&self, moved: bool) -> Option<End> {
        if self.reply.has_come() && self.reply.cleared == 0 {
            return self.end_behind_reply();
        }
        if moved || self.reply.cleared > 0 || !self.upstream.has_ended() {
            return None;
        }
        if self.reply.framing == Some(Framing::UntilClose) && !self.reply.is_cut {
            self.set_delivered(true);
        }
        Some(End::Over)
    }

    fn end_behind_reply(&self) -> Option<End> {
        let request = &self.request;
        if self.reply.cut_after.is_some() {
            return Some(End::Over);
        }
        if request.framing.is_complete() && request.cleared == 0 {
            return Some(End::Whole);
        }
        let is_stuck = request.is_refused || self.client.has_ended() || self.upstream.has_ended();
        is_stuck.then_some(End::Over)
    }

    fn wait(&self) -> io::Result<()> {
        let (request, reply) = (&self.request, &self.reply);
        let to_upstream = request.cleared > 0 && !request.is_refused;
        let client = self.client.input() | output_if(reply.cleared > 0);
        let upstream = self.upstream.input() | output_if(to_upstream);
        let wires = [(&*self.client, client), (&*self.upstream, upstream)];
        if request.is_kept_back() && !self.client.inbox().is_empty() {
            wait(&wires, TICK)?;
        } else if !wait(&wires, PATIENCE)? {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(())
    }
}

fn output_if(wanted: bool) -> PollFlags {
    if wanted {
        PollFlags::OUT
    } else {
        PollFlags::empty()
    }
}

impl<'s> Arrivals<'s> {
    /// `head` stands at the beginning of the client's inbox; some of the body may be there too.
    pub(super) fn new(head: &Head, client: &Wire, record: Record<'s>) -> io::Result<Self> {
        let framing = Framing::of_request(head);
        let mut arrivals = Self { framing, record };
        arrivals.count(&client.inbox()[head.len..])?;
        Ok(arrivals)
    }

    /// Takes in bytes of the client. Returns `false` if nothing changes.
    pub(super) fn fill(&mut self, client: &mut Wire) -> io::Result<bool> {
        let known = client.inbox().len();
        let filled = client.fill();
        self.count(&client.inbox()[known..])?;
        Ok(filled)
    }

    fn count(&mut self, bytes: &[u8]) -> io::Result<()> {
        let body = self.framing.advance(bytes, u64::MAX)?.body;
        if body > 0 {
            self.record
                .update(|exchange| exchange.body_bytes_received += body);
        }
        Ok(())
    }
}
