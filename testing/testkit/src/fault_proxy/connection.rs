//! A client's connection: its requests in sequence, and its end.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::fault::Fault;
use super::head::Head;
use super::pump::{Arrivals, End, Pump};
use super::wire::{Wire, wait};
use super::{PATIENCE, Shared, answer};

/// How long a connection may take upstream; it is on the same machine.
const CONNECTS_WITHIN: Duration = Duration::from_secs(5);

/// How long, and for how many bytes, a client may continue to send after its connection was closed.
/// An immediate full close would reset the connection, and discard bytes that the client has not
/// read yet.
const LINGERS_FOR: Duration = Duration::from_secs(2);
const LINGERS_FOR_BYTES: u64 = 64 * 1024 * 1024;

/// A client, and the connection that serves it.
#[derive(Debug)]
struct Connection<'s> {
    shared: &'s Shared,
    client: Wire,
    upstream: Option<Upstream>,
}

#[derive(Debug)]
struct Upstream {
    address: SocketAddr,
    wire: Wire,
}

/// Serves one connection to its end. Errors are ends as well: the record shows the exchange as both
/// sides saw it.
pub(super) fn serve(shared: &Shared, client: TcpStream) {
    let Ok(client) = Wire::new(client, shared) else {
        return;
    };
    let mut connection = Connection {
        shared,
        client,
        upstream: None,
    };
    while let Ok(Some(head)) = connection.next_head() {
        if !connection.exchange(&head).unwrap_or(false) {
            return;
        }
    }
}

impl<'s> Connection<'s> {
    /// Waits for the next request. Returns `None` if one of the sides has ended. A server that
    /// closes an idle connection is visible to its client.
    fn next_head(&mut self) -> io::Result<Option<Head>> {
        loop {
            let filled = self.client.fill();
            if let Some(head) = Head::parse(self.client.inbox())? {
                return Ok(Some(head));
            }
            if self.client.has_ended() || self.upstream.as_mut().is_some_and(Upstream::speaks) {
                return Ok(None);
            }
            if !filled && !self.wait_for_either()? {
                return Ok(None);
            }
        }
    }

    fn wait_for_either(&self) -> io::Result<bool> {
        let mut wires = vec![(&self.client, PollFlags::IN)];
        wires.extend(
            self.upstream
                .iter()
                .map(|upstream| (&upstream.wire, PollFlags::IN)),
        );
        wait(&wires, PATIENCE)
    }

    /// Runs an exchange. Returns whether the connection continues after it.
    fn exchange(&mut self, head: &Head) -> io::Result<bool> {
        let (record, fault) = self.shared.begin(head);
        let mut arrivals = Arrivals::new(head, &self.client, record)?;
        let end = match fault {
            Some(Fault::Unavailable { retry_after }) => {
                self.client.send_all(&answer::unavailable(retry_after))?;
                End::Over
            }
            Some(Fault::Replace { status, body }) => {
                self.client.send_all(&answer::replacement(status, body))?;
                End::Over
            }
            _ => self.pass(head, fault, &mut arrivals)?,
        };
        match (end, fault) {
            (End::Whole, _) => return Ok(true),
            (End::Stopped, Some(fault)) => self.strike(fault, &mut arrivals)?,
            (End::Stopped, None) | (End::Over, _) => self.close(&mut arrivals)?,
        }
        Ok(false)
    }

    fn pass(
        &mut self,
        head: &Head,
        fault: Option<Fault>,
        arrivals: &mut Arrivals<'s>,
    ) -> io::Result<End> {
        if let Some(Fault::Delay { by }) = fault {
            self.shared.sleep(by);
        }
        let Ok(upstream) = Upstream::connected(self.upstream.take(), self.shared) else {
            return Ok(End::Over);
        };
        let upstream = self.upstream.insert(upstream);
        let sides = (&mut self.client, &mut upstream.wire);
        Pump::new(sides, arrivals, head, fault).run()
    }

    /// Ends a request at the byte at which the fault stops it.
    fn strike(&mut self, fault: Fault, arrivals: &mut Arrivals<'s>) -> io::Result<()> {
        self.upstream = None;
        match fault {
            Fault::ResetRequest { .. } => self.client.end_with_reset(),
            Fault::Stall { .. } => self.hold(),
            Fault::UnavailableAfter { .. } => {
                self.client.send_all(&answer::unavailable(None))?;
                self.close(arrivals)
            }
            _ => self.close(arrivals),
        }
    }

    /// Waits for the client's end without reading up to it.
    fn hold(&self) -> io::Result<()> {
        if !self.client.has_ended() {
            wait(&[(&self.client, PollFlags::RDHUP)], PATIENCE)?;
        }
        Ok(())
    }

    /// Closes both connections in order: the client sees an end, not a reset, if it stops sending
    /// then.
    fn close(&mut self, arrivals: &mut Arrivals<'s>) -> io::Result<()> {
        self.upstream = None;
        self.client.finish_sending();
        let until = Instant::now() + LINGERS_FOR;
        let mut drained = 0;
        while !self.client.has_ended() && drained < LINGERS_FOR_BYTES {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !wait(&[(&self.client, PollFlags::IN)], left)? {
                break;
            }
            arrivals.fill(&mut self.client)?;
            let len = self.client.inbox().len();
            drained += len as u64;
            self.client.consume(len);
        }
        Ok(())
    }
}

impl Upstream {
    /// Returns the present connection if it leads to the current upstream, otherwise a new
    /// connection.
    fn connected(present: Option<Self>, shared: &Shared) -> io::Result<Self> {
        let address = shared.state().upstream;
        if let Some(present) = present.filter(|present| present.address == address) {
            return Ok(present);
        }
        let stream = TcpStream::connect_timeout(&address, CONNECTS_WITHIN)?;
        Ok(Self {
            address,
            wire: Wire::new(stream, shared)?,
        })
    }

    /// Whether the upstream sends bytes without a request, which means that it ends the connection.
    fn speaks(&mut self) -> bool {
        self.wire.fill() || !self.wire.inbox().is_empty()
    }
}
