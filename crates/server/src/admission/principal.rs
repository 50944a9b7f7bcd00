//! The stages that identify the sender of a request. The kind of the request's target is known.

use http::Method as HttpMethod;
use http::request::Parts;
use windlass_rest::access::AccessError;
use windlass_rest::principal::network;

use super::{Check, STAGES, Ticket};
use crate::auth::{Access, AccessRequest};
use crate::context::RequestContext;
use crate::error::Error;
use crate::state::ServerState;

#[derive(Debug, Clone, Copy)]
pub(super) enum PrincipalCheck {
    Authentication,
    Rate,
}

/// A request with its credentials, which are not verified yet.
pub(crate) struct Credentials<'a> {
    pub(crate) server: &'a ServerState,
    pub(crate) head: &'a Parts,
    /// The HTTP method, which `X-HTTP-Method-Override` may state.
    pub(crate) http_method: &'a HttpMethod,
    pub(crate) access: Access,
    /// Whether the request is a call that only reads. Its target may be public.
    pub(crate) is_read: bool,
}

impl Credentials<'_> {
    /// Runs the stages, and sets the principal of the request.
    pub(crate) async fn admit(
        &self,
        context: &mut RequestContext,
        ticket: &mut Ticket,
    ) -> Result<(), Error> {
        for stage in &STAGES {
            let Check::Principal(check) = stage.check else {
                continue;
            };
            let checked = match check {
                PrincipalCheck::Authentication => self.authenticate(context, ticket).await,
                PrincipalCheck::Rate => self.count_against_rate(context, ticket),
            };
            checked.inspect_err(|_| stage.log_refusal())?;
        }
        Ok(())
    }

    async fn authenticate(
        &self,
        context: &mut RequestContext,
        ticket: &mut Ticket,
    ) -> Result<(), Error> {
        let request = AccessRequest {
            access: self.access,
            http_method: self.http_method,
            uri: &self.head.uri,
            headers: &self.head.headers,
            peer: context.peer,
            limited_client: context.limited_client.map(network),
            certificate: context.certificate.as_ref(),
            ambient_authority: context.ambient_authority,
            base_url: &context.base_url,
            principal: context.principal.as_ref(),
        };
        match self.server.authorize.authenticate(&request).await {
            // Only missing credentials: invalid ones are refused even for public resources, so that
            // the client learns that they have expired.
            Err(missing @ AccessError::CredentialsMissing) if self.is_read => {
                ticket.limit_to_public(missing);
            }
            found => context.principal = found?,
        }
        Ok(())
    }

    fn count_against_rate(&self, context: &RequestContext, ticket: &Ticket) -> Result<(), Error> {
        // A caller without credentials has no principal. Its address has a rate.
        if ticket.public_only().is_some() {
            return Ok(());
        }
        let principal = context.principal.as_ref();
        self.server.rates.admit_principal(principal)
    }
}
