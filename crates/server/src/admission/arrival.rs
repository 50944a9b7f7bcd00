//! The stages of a request of which only the head has arrived.

use http::header::ORIGIN;
use http::request::Parts;
use windlass_engine::{Error as EngineError, Importance};

use super::{Check, STAGES, Ticket};
use crate::batch;
use crate::body::RequestBody;
use crate::context::RequestContext;
use crate::cross_origin::{self, Answered, Marks};
use crate::error::Error;
use crate::health;
use crate::reply::Reply;
use crate::state::ServerState;

#[derive(Debug, Clone, Copy)]
pub(super) enum ArrivalCheck {
    HeadMemory,
    RequestSlot,
    AddressRate,
    Host,
    Origin,
    AddressRequests,
}

/// A request of which only the head has arrived.
pub(crate) struct Arrival<'a> {
    pub(crate) server: &'a ServerState,
    pub(crate) head: &'a Parts,
    pub(crate) context: &'a RequestContext,
    pub(crate) body: &'a mut RequestBody,
    /// The answer of [`cross_origin::examine`]. The stage `origin` gives it to the client.
    pub(crate) answered: Answered,
    /// The headers that the reply needs for browsers.
    pub(crate) marks: Marks,
}

impl Arrival<'_> {
    /// Runs the stages. Returns the answer to the request, or `None` if the request is to be
    /// routed.
    ///
    /// A request without memory or a slot is to be routed too, because probes and a server that
    /// stops have answers that come first. `routes` then calls [`Ticket::refuse_if_full`].
    pub(crate) async fn admit(&mut self, ticket: &mut Ticket) -> Answered {
        for stage in &STAGES {
            let Check::Arrival(check) = stage.check else {
                continue;
            };
            let answer = self.check(check, ticket).await.transpose();
            if let Some(Err(_)) = answer {
                stage.log_refusal();
            }
            match answer {
                None => {}
                // The other stages see the request all the same: its address has sent it, and the
                // refusal needs the headers for browsers.
                Some(Err(Error::Engine(EngineError::Full(full)))) => ticket.record_full(full),
                // `routes` sends the refusal in the ticket, which came first.
                Some(_) if ticket.refuse_if_full().is_err() => return None,
                Some(answer) => return Some(answer),
            }
        }
        None
    }

    async fn check(
        &mut self,
        check: ArrivalCheck,
        ticket: &mut Ticket,
    ) -> Result<Option<Reply>, Error> {
        match check {
            ArrivalCheck::HeadMemory => self.count_head()?,
            ArrivalCheck::RequestSlot => self.take_slot(ticket).await?,
            ArrivalCheck::AddressRate => self.count_against_rate()?,
            ArrivalCheck::Host => self.check_host()?,
            ArrivalCheck::Origin => return self.check_origin().await,
            ArrivalCheck::AddressRequests => self.take_address_permit(ticket)?,
        }
        Ok(None)
    }

    fn count_head(&mut self) -> Result<(), Error> {
        let memory = &self.server.capacity.metadata;
        let memory = memory.permit_for(|| importance(self.server, self.head, self.context));
        Ok(self.body.count(memory, head_size(self.head))?)
    }

    async fn take_slot(&mut self, ticket: &mut Ticket) -> Result<(), Error> {
        let (server, head, context) = (self.server, self.head, self.context);
        if ticket.refuse_if_full().is_err() {
            // A request without memory is refused anyway, and must not wait for a slot.
            return Ok(());
        }
        if self.is_probe() {
            // A probe is answered without a slot, and at once: a late probe counts as failed.
            if let Ok(slot) = server.capacity.requests.take() {
                ticket.add_slot(slot);
            }
            return Ok(());
        }
        // A call runs under the slot of its batch. With a slot of its own, it could wait for a slot
        // while its batch holds the last one.
        if !self.is_in_batch() {
            let importance = || importance(server, head, context);
            ticket.add_slot(server.capacity.admit_request(importance).await?);
        }
        Ok(())
    }

    /// Counts the request against the rate limit of its address. Preflights, and requests that a
    /// later stage refuses, are counted.
    fn count_against_rate(&self) -> Result<(), Error> {
        // An orchestrator restarts a server with refused probes.
        if self.is_probe() {
            return Ok(());
        }
        self.server.rates.admit_address(self.context.client)
    }

    /// Refuses a request that names no host, several hosts, or an unknown host.
    fn check_host(&self) -> Result<(), Error> {
        // The calls of a batch have the batch's host, which was checked.
        if self.is_in_batch() {
            return Ok(());
        }
        let host = self.context.host.as_ref();
        match self.server.known_hosts.check(self.head, host) {
            // Orchestrators send probes to addresses and names that the settings do not know.
            Err(Error::UnknownHost { .. }) if self.is_probe() => Ok(()),
            checked => checked,
        }
    }

    /// Answers a preflight, and refuses a request from a page that may not send it.
    async fn check_origin(&mut self) -> Result<Option<Reply>, Error> {
        if self.head.headers.contains_key(ORIGIN) {
            let examined = (self.answered.take(), std::mem::take(&mut self.marks));
            // Boxed to keep the future of the common case small, which has no `Origin`.
            let examined = cross_origin::examine_session(self.server, self.head, examined);
            (self.answered, self.marks) = Box::pin(examined).await;
        }
        if let Some(answered) = self.answered.take() {
            return answered.map(Some);
        }
        self.marks
            .refuse_foreign(self.server, self.head, self.context)?;
        Ok(None)
    }

    fn take_address_permit(&self, ticket: &mut Ticket) -> Result<(), Error> {
        // Probes are always answered. The calls of a batch run one by one under its permit.
        if self.is_probe() || self.is_in_batch() {
            return Ok(());
        }
        let limits = &self.server.address_limits;
        if let Some(permit) = limits.admit_request(self.context.limited_client)? {
            ticket.add_address(permit);
        }
        Ok(())
    }

    fn is_probe(&self) -> bool {
        health::is_probe(self.head.uri.path())
    }

    fn is_in_batch(&self) -> bool {
        batch::is_inside(self.head)
    }
}

/// Returns the importance of the request. It is computed only on a nearly full server, because it
/// parses the query.
fn importance(server: &ServerState, head: &Parts, context: &RequestContext) -> Importance {
    server.importance_to(context.client, server.dialects.importance_of(head))
}

/// Estimated size of a head in memory, in bytes.
fn head_size(head: &Parts) -> u64 {
    // A field has an entry in the table of headers, and two buffers with their headers.
    const FIELD: usize = 128;
    let fields = head.headers.iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD);
    let target = head.uri.path().len() + head.uri.query().map_or(0, str::len);
    (fields.sum::<usize>() + target) as u64
}
