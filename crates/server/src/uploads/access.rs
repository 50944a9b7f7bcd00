//! Who may use a session.

use std::net::IpAddr;

use http::HeaderValue;
use windlass_engine::Error as EngineError;
use windlass_rest::access::AccessError;
use windlass_rest::principal::Principal;
use windlass_store::Session;

use super::start_request::{StartRequest, StatedConditions};
use crate::auth::SessionInfo;
use crate::calls::Calls;
use crate::config::SessionAuth;
use crate::error::Error;

/// Where and by whom a session is addressed.
#[derive(Debug, Clone)]
pub(crate) struct SessionTarget {
    /// The path, without the upload prefix.
    pub(crate) path: String,
    /// The principal that sends the request, if it is known.
    pub(crate) principal: Option<Principal>,
    /// The page's origin, if a page sends the request.
    pub(crate) origin: Option<HeaderValue>,
    /// The address of the client, if it is known.
    pub(crate) client: Option<IpAddr>,
    /// The conditions that the request states.
    pub(crate) conditions: StatedConditions,
}

impl Calls {
    /// Checks whether a request may use a session.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] if the session has been revoked, was started under another path, or
    /// belongs to another principal.
    pub(super) fn check_access(
        &self,
        session: &Session,
        start_request: &StartRequest,
        target: &SessionTarget,
    ) -> Result<(), Error> {
        if !self.exists_for(session, start_request, target) {
            return Err(EngineError::NotFound.into());
        }
        self.check_principal(session, start_request, target)?;
        if !self.is_of_origin(start_request, target) {
            return Err(Error::OtherOrigin);
        }
        Ok(start_request.check_conditions(&target.conditions)?)
    }

    /// Whether the session has not been revoked, was started under this path, and belongs to no
    /// other principal.
    fn exists_for(
        &self,
        session: &Session,
        start_request: &StartRequest,
        target: &SessionTarget,
    ) -> bool {
        !self.authorize.is_revoked(&SessionInfo {
            id: session.id,
            principal: session.owner.as_deref(),
            started: session.created,
        }) && start_request.path == target.path
            && self.is_open_to(start_request, target.principal.as_ref())
    }

    /// Whether the principal may use the session. It may not if the API keeps owners apart and
    /// another principal has started the session. Without a principal the URI is the credential.
    fn is_open_to(&self, start_request: &StartRequest, principal: Option<&Principal>) -> bool {
        // A session that was started by a signed link is continued by its URI alone: later requests
        // do not carry the link.
        if start_request.link.is_some() {
            return true;
        }
        // If the API is not served any more, its access setting is unknown. Letting the request
        // pass is harmless, because no resource can be created.
        let (Some(_), Ok(method)) = (principal, start_request.method(&self.registry)) else {
            return true;
        };
        let access = method.served.api.settings().access;
        let owner = |principal| self.separate_owner(access, principal).map(Principal::id);
        owner(principal) == owner(start_request.principal.as_ref())
    }

    /// Refuses another principal's request if only the principal that started the session may
    /// continue it.
    fn check_principal(
        &self,
        session: &Session,
        start_request: &StartRequest,
        target: &SessionTarget,
    ) -> Result<(), AccessError> {
        let Some(owner) = &session.owner else {
            return Ok(());
        };
        // The holder of a link has no credentials but the session URI.
        if start_request.link.is_some() {
            return Ok(());
        }
        match (self.settings.session_auth, &target.principal) {
            (SessionAuth::Uri, _) => Ok(()),
            (SessionAuth::Owner, Some(principal)) if principal.id() == owner => Ok(()),
            (SessionAuth::Owner, Some(_)) => Err(AccessError::Forbidden {
                problem: "the upload was started by another principal".to_owned(),
            }),
            (SessionAuth::Owner, None) => Err(AccessError::CredentialsMissing),
        }
    }

    /// Whether a page that sends a request has the origin at which the session was started. True
    /// also for a request without an origin, because such a request comes from no page of another
    /// origin.
    fn is_of_origin(&self, start_request: &StartRequest, target: &SessionTarget) -> bool {
        let bound = start_request.origin.as_ref();
        let bound = bound.filter(|_| self.settings.bind_origin);
        let sent = target.origin.as_ref().map(HeaderValue::as_bytes);
        bound.is_none_or(|bound| sent.is_none_or(|sent| sent == bound.as_bytes()))
    }
}
