//! The stage of a request with a known method.

use windlass_discovery::Method;
use windlass_rest::access::AccessError;
use windlass_rest::principal::Principal;

use super::{Check, STAGES, Ticket};
use crate::state::ServerState;

#[derive(Debug, Clone, Copy)]
pub(super) enum CallCheck {
    Authorization,
}

/// A request that calls a method.
pub(crate) struct CalledMethod<'a> {
    pub(crate) server: &'a ServerState,
    /// The sender, if it is known.
    pub(crate) principal: Option<&'a Principal>,
    pub(crate) method: &'a Method,
    /// Whether the handler protects the method's private resources itself, and lets everybody read
    /// its public ones.
    pub(crate) is_guarded: bool,
}

impl CalledMethod<'_> {
    /// Runs the stages.
    pub(crate) async fn admit(&self, ticket: &mut Ticket) -> Result<(), AccessError> {
        for stage in &STAGES {
            let Check::Call(check) = stage.check else {
                continue;
            };
            let checked = match check {
                CallCheck::Authorization => self.authorize(ticket).await,
            };
            checked.inspect_err(|_| stage.log_refusal())?;
        }
        Ok(())
    }

    /// Refuses a call that the principal may not make. A refused call of a guarded method is
    /// admitted to public resources.
    async fn authorize(&self, ticket: &mut Ticket) -> Result<(), AccessError> {
        let decided = if let Some(refusal) = ticket.take_public_only() {
            // Without credentials there is no principal to ask about.
            Err(refusal)
        } else {
            let authorize = &self.server.authorize;
            authorize.authorize(self.principal, self.method).await
        };
        match decided {
            // Other refusals concern the credentials themselves, and hold for public resources too.
            Err(refusal @ (AccessError::CredentialsMissing | AccessError::Forbidden { .. }))
                if self.is_guarded =>
            {
                ticket.limit_to_public(refusal);
                Ok(())
            }
            decided => decided,
        }
    }
}
