//! The sessions of resumable uploads: their rows, the guards and leases that admit one writer to
//! each, the protocol's rules for them, and their stored replies.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderValue;
use windlass_discovery::ByteSize;
use windlass_engine::disks::MediaSpace;
use windlass_engine::identifiers::{Clock, session_id};
use windlass_engine::lifecycle::Lifecycle;
use windlass_engine::locks::{LockError, SessionGuard, SessionGuards};
use windlass_engine::sink::VaultMedia;
use windlass_engine::{Error as EngineError, Importance};
use windlass_proto::command::SessionRequest;
use windlass_proto::session::{Rules, SessionError, Snapshot, State, Step, step};
use windlass_store::{EndSession, Epoch, Ledger, LedgerError, Session, SessionId, SessionState};

use super::finish::FinalReply;
use super::session_cache::{CachedSession, SessionCache};
use super::start_request::{StartRequest, StatedConditions};
use crate::auth::{AccessError, Authorize, SessionInfo};
use crate::body::RequestBody;
use crate::capacity::Capacity;
use crate::config::{SessionAuth, Settings};
use crate::context::Principal;
use crate::dialects::Dialects;
use crate::error::Error;
use crate::metrics::Recorder;
use crate::namespace::separate_owner;
use crate::registry::{Registry, ServedMethod};

/// The sessions of a server.
pub(crate) struct Sessions {
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) capacity: Capacity,
    pub(crate) lifecycle: Arc<Lifecycle>,
    pub(crate) metrics: Arc<Recorder>,
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) dialects: Arc<Dialects>,
    pub(crate) authorize: Arc<dyn Authorize>,
    /// The guards of sessions.
    pub(crate) guards: Arc<SessionGuards>,
    /// Sessions that expect their next request soon.
    pub(crate) cache: SessionCache,
}

/// Where and how a request addresses its session.
#[derive(Debug)]
pub(crate) struct SessionTarget {
    /// The path, without the upload prefix.
    pub(crate) path: String,
    /// Name of the request's dialect.
    pub(crate) dialect: &'static str,
    /// The principal that sends the request, if it is known.
    pub(crate) principal: Option<Principal>,
    /// The page's origin, if a page sends the request.
    pub(crate) origin: Option<HeaderValue>,
    /// The address of the client, if it is known.
    pub(crate) client: Option<IpAddr>,
    /// The conditions that the request states.
    pub(crate) conditions: StatedConditions,
}

/// The reply to a request to a session.
#[derive(Debug)]
pub(crate) enum SessionReply {
    /// This many bytes are committed, and the upload is not finished.
    Committed(u64),
    /// The upload is finished.
    Final(FinalReply),
    /// This request has cancelled the upload.
    Cancelled,
}

/// A session with its guard and its lease, which one request holds.
#[derive(Debug)]
pub(crate) struct LockedSession {
    /// Row of the session.
    pub(crate) session: Session,
    pub(crate) start_request: StartRequest,
    /// The media, if it is still open from the previous request.
    pub(crate) media: Option<VaultMedia>,
    /// The disk space that the previous request has set aside for the rest of the media.
    pub(crate) space: Option<MediaSpace>,
    pub(crate) guard: SessionGuard,
}

impl Sessions {
    /// Whether a request appends new bytes to a cached session.
    pub(super) fn appends_to_cached(
        &self,
        cached: &CachedSession,
        target: &SessionTarget,
        request: &SessionRequest,
    ) -> bool {
        let session = &cached.session;
        // A cached start request may lack its conditions.
        target.conditions.is_empty()
            && self.exists_for(session, &cached.start_request, target)
            && self
                .check_principal(session, &cached.start_request, target)
                .is_ok()
            && self.is_of_origin(&cached.start_request, target)
            && session.dialect == target.dialect
            && self
                .rules(session, &cached.start_request)
                .is_ok_and(|rules| {
                    match step(&snapshot(session), &rules, request) {
                        // A chunk without new bytes makes no commit. If it used the cache, it would
                        // not ask the ledger at all, which alone knows whether another process has
                        // taken over or ended the session, and the reply would state an outdated
                        // offset.
                        Ok(Step::Append(body_filter)) => body_filter.commits(),
                        _ => false,
                    }
                })
    }

    /// Reads the start request of a session from the ledger, with its metadata.
    pub(crate) async fn read_start_request(&self, id: SessionId) -> Result<StartRequest, Error> {
        let session = self.ledger.session(id).await?;
        start_request_of(&session.ok_or(Error::SessionNotFound)?)
    }

    /// Whether a session was started for pages of this origin.
    pub(crate) async fn is_for_origin(&self, upload_id: &str, origin: &HeaderValue) -> bool {
        let is_for = |start: &StartRequest| {
            let bound = start.origin.as_ref();
            bound.is_some_and(|bound| bound.as_bytes() == origin.as_bytes())
        };
        let id = session_id(upload_id);
        if self.cache.any(id, |cached| is_for(&cached.start_request)) {
            return true;
        }
        let start_request = self.read_start_request(id).await;
        start_request.as_ref().is_ok_and(is_for)
    }

    /// Answers a request that is superseded: reads the rest of its body, waits for the newer
    /// request, and returns the final reply if there is one. Two requests with the same last bytes
    /// thus get the same reply.
    ///
    /// `position` is the offset in the media of the next byte of the body.
    ///
    /// # Errors
    /// [`EngineError::Superseded`] if the newer request has not finished the upload, or has finished it
    /// without all bytes of this request.
    pub(crate) async fn yield_to_newer(
        &self,
        id: SessionId,
        position: u64,
        mut body: RequestBody,
    ) -> Result<FinalReply, Error> {
        // The rest of the body is read first: a connection that is closed while the client still
        // sends may be reset, and the client then loses the reply.
        let discarded = tokio::select! {
            discarded = body.discard() => discarded.map_err(Error::Interrupted)?,
            () = self.lifecycle.drain_now.cancelled() => return Err(EngineError::Draining.into()),
        };
        self.guards
            .wait_for_writers(id, self.settings.limits.takeover_timeout)
            .await;
        let session = self
            .ledger
            .session(id)
            .await?
            .ok_or(EngineError::Superseded)?;
        if position.saturating_add(discarded) > session.progress.offset {
            return Err(EngineError::Superseded.into());
        }
        let reply = self.decode_reply(session.reply.as_deref())?;
        Ok(reply.ok_or(EngineError::Superseded)?)
    }

    /// Takes the guard and a lease for a request that writes to the session, and so takes over the
    /// session. Uses the cached lease if the request continues the cached session. `start_request`
    /// is the session's start request, if the caller has read it.
    pub(super) async fn lease_for(
        &self,
        id: SessionId,
        target: &SessionTarget,
        request: &SessionRequest,
        start_request: Option<StartRequest>,
    ) -> Result<Box<LockedSession>, Error> {
        let guard = self.lock_session(id).await?;
        // Under the guard, so that no other request uses the cached lease. An entry that the
        // request does not continue is dropped: the new lease makes the cached one outdated.
        let cached = self.cache.take(id);
        match cached.filter(|cached| self.appends_to_cached(cached, target, request)) {
            Some(cached) => Ok(Box::new(LockedSession {
                session: cached.session,
                start_request: cached.start_request,
                media: cached.media,
                space: cached.space,
                guard,
            })),
            None => self.lease_locked(guard, id, target, start_request).await,
        }
    }

    /// Takes over the session: takes the guard, for which a running request has to end, and a new
    /// lease.
    pub(super) async fn lease(
        &self,
        id: SessionId,
        target: &SessionTarget,
        start_request: StartRequest,
    ) -> Result<Box<LockedSession>, Error> {
        let guard = self.lock_session(id).await?;
        // The new lease makes a cached one outdated. Dropping the entry closes its media.
        drop(self.cache.take(id));
        self.lease_locked(guard, id, target, Some(start_request))
            .await
    }

    /// Takes the guard. Asks the request that holds it, if there is one, to release it.
    async fn lock_session(&self, id: SessionId) -> Result<SessionGuard, Error> {
        let guard = self
            .guards
            .take_over(id, self.settings.limits.takeover_timeout)
            .await;
        guard.map_err(|error| match error {
            LockError::Superseded => EngineError::Superseded.into(),
            LockError::Stuck => EngineError::Busy.into(),
        })
    }

    /// Takes a new lease of a session. The caller holds the session's guard.
    async fn lease_locked(
        &self,
        guard: SessionGuard,
        id: SessionId,
        target: &SessionTarget,
        start_request: Option<StartRequest>,
    ) -> Result<Box<LockedSession>, Error> {
        let session = self.ledger.lease(id).await?;
        let (mut session, mut start_request) = self.check(session, target, start_request)?;
        // A slow upload would hold them for hours. They can be read again from the ledger.
        session.context = Vec::new();
        start_request.drop_details();
        Ok(Box::new(LockedSession {
            session,
            start_request,
            media: None,
            space: None,
            guard,
        }))
    }

    /// Reads a session and its start request, without a lease.
    pub(super) async fn read_session(
        &self,
        id: SessionId,
        target: &SessionTarget,
    ) -> Result<(Session, StartRequest), Error> {
        self.check(self.ledger.session(id).await?, target, None)
    }

    /// Whether the session has neither expired nor been revoked, was started under this path, and
    /// belongs to no other principal.
    fn exists_for(
        &self,
        session: &Session,
        start_request: &StartRequest,
        target: &SessionTarget,
    ) -> bool {
        self.clock.now() < session.expires
            && !self.authorize.is_revoked(&SessionInfo {
                id: session.id,
                principal: session.owner.as_deref(),
                started: session.created,
            })
            && start_request.path == target.path
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
        let owner =
            |principal| separate_owner(access, &self.settings, principal).map(Principal::id);
        owner(principal) == owner(start_request.principal.as_ref())
    }

    /// Refuses a session that has expired, or ended without a resource.
    fn refuse_ended(&self, session: &Session) -> Result<(), Error> {
        match session.state {
            _ if self.clock.now() >= session.expires => Err(Error::SessionNotFound),
            SessionState::Cancelled => Err(SessionError::Cancelled.into()),
            SessionState::Failed => Err(SessionError::Gone.into()),
            SessionState::Active | SessionState::Finishing | SessionState::Finished => Ok(()),
        }
    }

    /// Returns the session and its start request, if requests to `target` may use it. The start
    /// request is read from the session unless the caller has it.
    fn check(
        &self,
        session: Option<Session>,
        target: &SessionTarget,
        start_request: Option<StartRequest>,
    ) -> Result<(Session, StartRequest), Error> {
        let session = session.ok_or(Error::SessionNotFound)?;
        // Checked first: the start request of a cancelled or failed session is deleted, so there
        // is no path to compare. The reply is the same for every path.
        self.refuse_ended(&session)?;
        let start_request = start_request.map_or_else(|| start_request_of(&session), Ok)?;
        if !self.exists_for(&session, &start_request, target) {
            return Err(Error::SessionNotFound);
        }
        self.check_principal(&session, &start_request, target)?;
        if !self.is_of_origin(&start_request, target) {
            return Err(Error::OtherOrigin);
        }
        start_request.check_conditions(&target.conditions)?;
        Ok((session, start_request))
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

    /// Returns the stored reply of a finished session.
    pub(super) fn replay(&self, session: &Session) -> Result<FinalReply, Error> {
        let reply = self.decode_reply(session.reply.as_deref())?;
        reply.ok_or(Error::SessionNotFound)
    }

    /// Decodes a stored reply. Its body counts against the bound on reply memory until it is sent.
    ///
    /// # Errors
    /// [`EngineError::Full`] if the bound is reached.
    fn decode_reply(&self, stored: Option<&[u8]>) -> Result<Option<FinalReply>, Error> {
        let Some(reply) = stored.and_then(FinalReply::from_bytes) else {
            return Ok(None);
        };
        let body = self.capacity.reply(reply.body, || Importance::Query)?;
        Ok(Some(FinalReply { body, ..reply }))
    }

    /// Maximum size in bytes of the media, by the upload's API method and media type and by its
    /// signed link; `None` if neither sets a limit.
    pub(crate) fn max_size(&self, start_request: &StartRequest) -> Result<Option<u64>, Error> {
        let ServedMethod { served, method } = start_request.method(&self.registry)?;
        let settings = served.api.settings();
        let of_method = settings.max_size(method, &start_request.content_type);
        let limits = [
            of_method.map(ByteSize::bytes),
            start_request.link_max_size(),
        ];
        Ok(limits.into_iter().flatten().min())
    }

    /// Returns the protocol's rules for a session: those for the size of chunks and of the media,
    /// as the session's dialect has them.
    pub(super) fn rules(
        &self,
        session: &Session,
        start_request: &StartRequest,
    ) -> Result<Rules, Error> {
        let rules = Rules::default()
            .with_chunks(self.settings.chunks)
            .with_max_size(self.max_size(start_request)?);
        let dialect = self.dialects.named(&session.dialect);
        Ok(dialect.map_or(rules, |dialect| dialect.rules(rules)))
    }

    /// Ends a session as failed. Returns the outcome.
    pub(crate) async fn fail(&self, id: SessionId, epoch: Epoch) -> FailOutcome {
        match self.ledger.end(id, epoch, EndSession::Failed).await {
            Ok(()) => {
                self.metrics.sessions.failed.inc();
                // After the commit: only now its media is garbage that the sweep can find.
                self.lifecycle.sweep_now.notify_one();
                FailOutcome::Recorded
            }
            Err(LedgerError::Fenced) => {
                tracing::info!(session = ?id, "a session goes on under a newer lease, or has ended");
                FailOutcome::Fenced
            }
            Err(error) => {
                self.lifecycle.examine_ledger(&error);
                tracing::warn!(session = ?id, %error, "a failed session could not be ended");
                FailOutcome::Unrecorded(error)
            }
        }
    }
}

/// The outcome of [`Sessions::fail`].
#[derive(Debug)]
pub(crate) enum FailOutcome {
    /// The session has ended.
    Recorded,
    /// The lease is not the newest one, or the session had already ended. Nothing has changed.
    Fenced,
    /// The ledger has not recorded the end of the session, or it is unknown whether it has.
    Unrecorded(LedgerError),
}

impl FailOutcome {
    /// Returns the error for the reply to a request that tried to end its session with `error`.
    ///
    /// If the request is fenced, `error` describes an outdated state of the session, which may
    /// continue under another request. The reply then asks the client to query the session, and
    /// does not say that its upload is lost. The reply is the same if the end is not recorded,
    /// because the request may be fenced in this case as well.
    pub(crate) fn error_for_reply(self, error: Error) -> Error {
        match self {
            Self::Recorded => error,
            Self::Fenced => LedgerError::Fenced.into(),
            Self::Unrecorded(error) => error.into(),
        }
    }
}

/// Decodes the start request in a session's row.
pub(super) fn start_request_of(session: &Session) -> Result<StartRequest, Error> {
    let start_request = StartRequest::from_bytes(&session.context);
    let mut start_request = start_request.ok_or(Error::SessionNotFound)?;
    start_request.principal = session.owner.as_ref().map(Principal::new);
    Ok(start_request)
}

/// Returns the parts of a session's row that the protocol needs.
pub(super) fn snapshot(session: &Session) -> Snapshot {
    let state = match session.state {
        SessionState::Active => State::Active,
        SessionState::Finishing => State::Finishing,
        SessionState::Finished => State::Finished,
        SessionState::Cancelled => State::Cancelled,
        SessionState::Failed => State::Failed,
    };
    Snapshot {
        state,
        offset: session.progress.offset,
        total: session.progress.total,
    }
}
