//! Resumable uploads: start, query, append, cancel.

use std::future::ready;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryFutureExt as _};
use windlass_discovery::ByteSize;
use windlass_proto::command::{SessionHead, SessionRequest};
use windlass_proto::parameters::UploadId;
use windlass_proto::session::{Rules, SessionError, Snapshot, State, Step, step};
use windlass_store::{
    EndSession, Failpoint, NewSession, Session, SessionId, SessionState, Timestamp,
};

use super::ServerState;
use super::finish::FinalReply;
use super::request::UploadRequest;
use super::session_cache::CachedSession;
use super::sink::VaultMedia;
use crate::body::RequestBody;
use crate::context::Principal;
use crate::error::Error;
use crate::identifiers::{new_upload_id, session_id};
use crate::locks::{LockError, SessionGuard};
use crate::metrics::RequestRecord;

/// Message for a body that was taken twice, which is a bug.
// The code that carries out the request takes the body once.
const BODY_PRESENT: &str = "nobody has taken the body yet";

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

/// Where and how a request addresses its session.
#[derive(Debug)]
pub(crate) struct SessionTarget {
    /// The path, without the upload prefix.
    pub(crate) path: String,
    /// Name of the request's dialect.
    pub(crate) dialect: &'static str,
}

/// A session whose guard and lease one request holds.
#[derive(Debug)]
pub(crate) struct LockedSession {
    /// Row of the session.
    pub(crate) session: Session,
    /// The request that started the session.
    pub(crate) request: UploadRequest,
    /// The media, if it is still open from the previous request.
    pub(crate) media: Option<VaultMedia>,
    pub(crate) guard: SessionGuard,
}

impl ServerState {
    /// Starts a session and returns its `upload_id`. `declared` is the length in bytes that the
    /// client announced, `dialect` the name of the dialect that it speaks.
    pub(crate) async fn start(
        &self,
        mut request: UploadRequest,
        declared: Option<u64>,
        dialect: &'static str,
    ) -> Result<String, Error> {
        self.admit_upload()?;
        let limit = self.max_size(&request)?;
        if let (Some(limit), Some(declared)) = (limit, declared)
            && declared > limit
        {
            return Err(SessionError::TooLarge { limit }.into());
        }
        self.admit(&request).await?;
        let created = self.clock.now();
        let upload_id = new_upload_id(created);
        let session = NewSession {
            id: session_id(&upload_id),
            context: Vec::new(),
            created,
            expires: self.expiry(created, created),
            total: declared,
            owner: request.principal.as_ref().map(Principal::to_string),
            dialect: dialect.to_owned(),
        };
        // Only the row needs the request as bytes. The cached session has the parsed one.
        let context = request.to_bytes();
        let row = NewSession {
            context,
            ..session.clone()
        };
        // Committed before the reply: a client that has the `Location` relies on the session.
        self.ledger.start(row).await?;
        self.metrics.sessions.started.inc();
        Failpoint::SessionStarted.reach();
        // The cache must stay small. The metadata can be read again from the ledger.
        request.drop_metadata();
        self.session_cache.put(CachedSession {
            session: session.into(),
            request,
            media: None,
            since: created,
        });
        Ok(upload_id)
    }

    /// Carries out a request to a session: appends its body, reports the committed offset,
    /// finishes, or repeats the final reply. The method of
    /// the session goes into `record`.
    pub(crate) async fn continue_session(
        self: &Arc<Self>,
        head: Box<SessionHead>,
        target: SessionTarget,
        body: &mut Option<RequestBody>,
        record: &RequestRecord,
    ) -> Result<SessionReply, Error> {
        let id = session_id(head.upload_id.as_str());
        let continues = self.session_cache.any(id, |cached| {
            let continues = self.continues(cached, &target, &head.request);
            if continues {
                record.method(cached.request.method_id());
            }
            continues
        });
        // A request that continues a cached session does not read the ledger. Any other is answered
        // without a lease if possible, so that a query does not stop a running append. Boxed, so
        // that its memory is free again while the body is awaited.
        if !continues {
            let answered = self.answer_without_lease(id, &head, &target, body, record);
            let answered = Box::pin(answered).await?;
            if let Some(reply) = answered {
                return Ok(reply);
            }
        }
        let server = Arc::clone(self);
        let body = body.take().expect(BODY_PRESENT);
        // In its own box, which is dropped before the body is awaited.
        let lease = Box::pin(async move {
            let locked = server.lease_for(id, &target, &head.request).await;
            (server, locked, head, body)
        });
        // From here on the request may hold a lease and uncommitted bytes. If the client
        // disconnects, the request runs on until the bytes are committed and the guard is released.
        self.lifecycle
            .run_to_completion(Box::pin(async move {
                let (server, locked, head, body) = lease.await;
                let action = match locked {
                    Ok(locked) => server.begin_action(locked, &head, body)?,
                    Err(Error::Superseded) => {
                        async move { server.yield_to_newer(id, body).await }.boxed()
                    }
                    Err(error) => return Err(error),
                };
                // Dropped before the body is awaited, which may take hours.
                drop(head);
                action.await
            }))
            .await
    }

    /// Answers a request that need not stop the session's writer; `None` if it needs the lease.
    async fn answer_without_lease(
        &self,
        id: SessionId,
        head: &SessionHead,
        target: &SessionTarget,
        body: &mut Option<RequestBody>,
        record: &RequestRecord,
    ) -> Result<Option<SessionReply>, Error> {
        let (session, request) = self.known_session(id, target).await?;
        record.method(request.method_id());
        let rules = self.rules(&session, &request)?;
        match step(&snapshot(&session), &rules, &head.request) {
            Ok(Step::Replay) => self.replay(&session).map(Some),
            Ok(Step::Report) => {
                expect_empty(body.as_mut().expect(BODY_PRESENT)).await?;
                Ok(Some(SessionReply::Committed(session.progress.offset)))
            }
            // Every dialect may ask about a session. Only that of the session may change it: the
            // dialects differ in what ends an upload.
            _ if session.dialect != target.dialect => Err(Error::OtherDialect),
            // Errors are answered at once, except two that need the lease: an error that ends the
            // session, and a gap, which a running older request may still fill.
            Err(error) if !error.ends_session() && !matches!(error, SessionError::Gap { .. }) => {
                Err(error.into())
            }
            Ok(Step::Finish { .. }) => {
                // Before the lease is taken: the body must be empty, and a client may take long to
                // end it. No other request should wait for that.
                expect_empty(body.as_mut().expect(BODY_PRESENT)).await?;
                Ok(None)
            }
            Ok(Step::ResumeFinish | Step::Append(_)) | Err(_) => Ok(None),
        }
    }

    /// Whether a request appends new bytes to a cached session.
    fn continues(
        &self,
        cached: &CachedSession,
        target: &SessionTarget,
        request: &SessionRequest,
    ) -> bool {
        let session = &cached.session;
        self.lives_at(session, &cached.request, target)
            && session.dialect == target.dialect
            && self.rules(session, &cached.request).is_ok_and(|rules| {
                match step(&snapshot(session), &rules, request) {
                    // A chunk without new bytes makes no commit. If it used the cache, the ledger
                    // would not notice that another process has taken over or ended the session,
                    // and the reply would state an outdated offset.
                    Ok(Step::Append(intake)) => intake.remaining_hint() != Some(0),
                    _ => false,
                }
            })
    }

    /// Cancels a session.
    ///
    /// # Errors
    /// [`SessionError::Cancelled`] if it was cancelled earlier.
    pub(crate) async fn cancel(
        self: &Arc<Self>,
        upload_id: &UploadId,
        target: SessionTarget,
        record: &RequestRecord,
    ) -> Result<SessionReply, Error> {
        let id = session_id(upload_id.as_str());
        let (session, request) = self.known_session(id, &target).await?;
        record.method(request.method_id());
        drop(request);
        if session.dialect != target.dialect {
            return Err(Error::OtherDialect);
        }
        let server = Arc::clone(self);
        self.lifecycle
            .run_to_completion(Box::pin(async move {
                let locked = server.lease(id, &target).await?;
                match locked.session.state {
                    SessionState::Active => {
                        let epoch = locked.session.epoch;
                        Failpoint::CancelLeased.reach();
                        server.ledger.end(id, epoch, EndSession::Cancelled).await?;
                        server.metrics.sessions.cancelled.inc();
                        Failpoint::CancelCommitted.reach();
                        // The media is now garbage. Swept at once, because the client may need the
                        // space soon.
                        server.lifecycle.sweep_now.notify_one();
                        Ok(SessionReply::Cancelled)
                    }
                    // All bytes are acknowledged, so the server will finish the upload.
                    SessionState::Finishing => Err(Error::FinishPending),
                    SessionState::Finished => Err(Error::AlreadyFinished),
                    SessionState::Cancelled => Err(SessionError::Cancelled.into()),
                    SessionState::Failed => Err(SessionError::Gone.into()),
                }
            }))
            .await
    }

    /// Finishes a session that was left in the state *finishing*, for example by a crash. Ends it
    /// as failed if it cannot be finished and has expired.
    pub(crate) async fn finish_interrupted_upload(
        self: &Arc<Self>,
        id: SessionId,
    ) -> Result<(), Error> {
        let Some(session) = self.ledger.session(id).await? else {
            return Ok(());
        };
        let request = remembered(&session);
        let server = Arc::clone(self);
        self.lifecycle
            .run_to_completion(Box::pin(async move {
                // Without the guard a request is still working on the session. A new lease would
                // fence off that request's commit.
                let timeout = server.takeover_timeout();
                let Ok(guard) = server.leases.take_over(id, timeout).await else {
                    return Ok(());
                };
                let Some(session) = server.ledger.lease(id).await? else {
                    return Ok(());
                };
                // A request may have finished the session in the meantime.
                if session.state != SessionState::Finishing {
                    return Ok(());
                }
                let (epoch, is_dead) = (session.epoch, server.clock.now() >= session.expires);
                let request = match request {
                    // The stored request cannot be read, for example after a downgrade. Until it
                    // expires, the session is kept for a version that can read it.
                    Err(error) if is_dead => {
                        server.fail(id, epoch).await;
                        return Err(error);
                    }
                    request => request?,
                };
                let locked = Box::new(LockedSession {
                    session,
                    request,
                    media: None,
                    guard,
                });
                Failpoint::LeftOverLeased.reach();
                match Arc::clone(&server).finish_stored(locked).await {
                    Err(error) if is_dead => {
                        server.fail(id, epoch).await;
                        Err(error)
                    }
                    finished => finished.map(drop),
                }
            }))
            .await
    }

    /// Reads the request that started a session from the ledger, with its metadata.
    pub(crate) async fn remembered_request(&self, id: SessionId) -> Result<UploadRequest, Error> {
        let session = self.ledger.session(id).await?;
        remembered(&session.ok_or(Error::SessionNotFound)?)
    }

    /// Returns the future that carries out a request to its leased session.
    ///
    /// Not an `async fn`, so that the future does not hold `head` while the body is awaited.
    fn begin_action(
        self: Arc<Self>,
        locked: Box<LockedSession>,
        head: &SessionHead,
        body: RequestBody,
    ) -> Result<BoxFuture<'static, Result<SessionReply, Error>>, Error> {
        let rules = self.rules(&locked.session, &locked.request)?;
        let expected = head.expected;
        let action = match step(&snapshot(&locked.session), &rules, &head.request) {
            Ok(Step::Append(intake)) => self.append(locked, intake, expected, body),
            Ok(Step::Replay) => self.replay_final(locked, body).boxed(),
            Ok(Step::ResumeFinish) => {
                let finish = self.finish_stored(locked);
                finish.map_ok(SessionReply::Final).boxed()
            }
            Ok(Step::Report) => {
                let offset = locked.session.progress.offset;
                ready(Ok(SessionReply::Committed(offset))).boxed()
            }
            Ok(Step::Finish { total }) => {
                let finish = self.finish_committed(locked, total, expected);
                finish.map_ok(SessionReply::Final).boxed()
            }
            Err(error) => self.refuse(locked, error, body).boxed(),
        };
        Ok(action)
    }

    /// Returns the stored final reply, after a short body has been read to its end.
    async fn replay_final(
        self: Arc<Self>,
        locked: Box<LockedSession>,
        mut body: RequestBody,
    ) -> Result<SessionReply, Error> {
        let reply = self.replay(&locked.session);
        drop(locked);
        body.finish_if_short().await;
        reply
    }

    /// Refuses a request, after a short body has been read to its end. Ends the session if the
    /// error requires it.
    async fn refuse(
        self: Arc<Self>,
        locked: Box<LockedSession>,
        error: SessionError,
        mut body: RequestBody,
    ) -> Result<SessionReply, Error> {
        let mut answer = error.into();
        if error.ends_session() {
            let failed = self.fail(locked.session.id, locked.session.epoch).await;
            answer = failed.answer(answer);
        }
        drop(locked);
        body.finish_if_short().await;
        Err(answer)
    }

    /// Answers a request whose session a newer request has taken over: reads the rest of the body,
    /// waits for the newer request, and returns the final reply if there is one. Two requests with
    /// the same last bytes thus get the same reply.
    ///
    /// # Errors
    /// [`Error::Superseded`] if the newer request has not finished the upload.
    pub(crate) async fn yield_to_newer(
        &self,
        id: SessionId,
        mut body: RequestBody,
    ) -> Result<SessionReply, Error> {
        // The rest of the body is read first: a connection that is closed while the client still
        // sends may be reset, and the client then loses the reply.
        tokio::select! {
            discarded = body.discard() => discarded.map_err(Error::Interrupted)?,
            () = self.lifecycle.drain_now.cancelled() => return Err(Error::Draining),
        }
        self.leases
            .wait_for_writers(id, self.takeover_timeout())
            .await;
        let reply = self.final_reply_of(id).await?;
        reply.map(SessionReply::Final).ok_or(Error::Superseded)
    }

    /// Takes the guard and a lease for a request that writes to the session. Uses the cached lease
    /// if the request continues the cached session.
    async fn lease_for(
        &self,
        id: SessionId,
        target: &SessionTarget,
        request: &SessionRequest,
    ) -> Result<Box<LockedSession>, Error> {
        let guard = self.lock_session(id).await?;
        // Under the guard, so that no other request uses the cached lease. An entry that the
        // request does not continue is dropped: the new lease makes the cached one outdated.
        let cached = self.session_cache.take(id);
        match cached.filter(|cached| self.continues(cached, target, request)) {
            Some(cached) => Ok(Box::new(LockedSession {
                session: cached.session,
                request: cached.request,
                media: cached.media,
                guard,
            })),
            None => self.lease_locked(guard, id, target).await,
        }
    }

    /// Takes the guard and a new lease. Stops the current writer, if there is one.
    async fn lease(
        &self,
        id: SessionId,
        target: &SessionTarget,
    ) -> Result<Box<LockedSession>, Error> {
        let guard = self.lock_session(id).await?;
        // The new lease makes a cached one outdated. Dropping the entry closes its media.
        drop(self.session_cache.take(id));
        self.lease_locked(guard, id, target).await
    }

    async fn lock_session(&self, id: SessionId) -> Result<SessionGuard, Error> {
        let guard = self.leases.take_over(id, self.takeover_timeout()).await;
        guard.map_err(|error| match error {
            LockError::Superseded => Error::Superseded,
            LockError::Stuck => Error::Busy,
        })
    }

    async fn lease_locked(
        &self,
        guard: SessionGuard,
        id: SessionId,
        target: &SessionTarget,
    ) -> Result<Box<LockedSession>, Error> {
        let session = self.ledger.lease(id).await?;
        let (mut session, mut request) = self.check(session, target)?;
        session.context = Vec::new();
        request.drop_metadata();
        Ok(Box::new(LockedSession {
            session,
            request,
            media: None,
            guard,
        }))
    }

    async fn known_session(
        &self,
        id: SessionId,
        target: &SessionTarget,
    ) -> Result<(Session, UploadRequest), Error> {
        self.check(self.ledger.session(id).await?, target)
    }

    /// Whether the session has not expired and was started under this path.
    fn lives_at(&self, session: &Session, request: &UploadRequest, target: &SessionTarget) -> bool {
        self.clock.now() < session.expires && request.path == target.path
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

    fn check(
        &self,
        session: Option<Session>,
        target: &SessionTarget,
    ) -> Result<(Session, UploadRequest), Error> {
        let session = session.ok_or(Error::SessionNotFound)?;
        // Checked first: the stored request of a cancelled or failed session is deleted, so there
        // is no path to compare. The reply is the same for every path.
        self.refuse_ended(&session)?;
        let request = remembered(&session)?;
        if self.lives_at(&session, &request, target) {
            Ok((session, request))
        } else {
            Err(Error::SessionNotFound)
        }
    }

    /// Returns the stored reply of a finished session; `None` if it has not finished.
    pub(crate) async fn final_reply_of(&self, id: SessionId) -> Result<Option<FinalReply>, Error> {
        let session = self.ledger.session(id).await?;
        let reply = session.and_then(|session| session.reply);
        self.stored_reply(reply.as_deref())
    }

    fn replay(&self, session: &Session) -> Result<SessionReply, Error> {
        let reply = self.stored_reply(session.reply.as_deref())?;
        reply.map(SessionReply::Final).ok_or(Error::SessionNotFound)
    }

    fn stored_reply(&self, stored: Option<&[u8]>) -> Result<Option<FinalReply>, Error> {
        let reply = stored.and_then(FinalReply::from_bytes);
        let counted = reply.map(|reply| {
            let body = self.capacity.reply(reply.body)?;
            Ok(FinalReply { body, ..reply })
        });
        counted.transpose()
    }

    /// Expiry of a session that was created at `created` and made progress at `now`.
    pub(crate) fn expiry(&self, created: Timestamp, now: Timestamp) -> Timestamp {
        let end = created.saturating_add(self.settings.session_lifetime);
        match self.settings.session_idle {
            Some(idle) => end.min(now.saturating_add(idle)),
            None => end,
        }
    }

    /// Maximum size in bytes of the media of the request's method; `None` if it has no limit.
    pub(crate) fn max_size(&self, request: &UploadRequest) -> Result<Option<u64>, Error> {
        let method = request.method(&self.registry)?.method;
        let upload = method.upload.as_ref();
        Ok(upload
            .and_then(|upload| upload.max_size)
            .map(ByteSize::bytes))
    }

    fn rules(&self, session: &Session, request: &UploadRequest) -> Result<Rules, Error> {
        let rules = Rules::default()
            .with_chunks(self.settings.chunks)
            .with_max_size(self.max_size(request)?);
        let dialect = self.dialects.named(&session.dialect);
        Ok(dialect.map_or(rules, |dialect| dialect.rules(rules)))
    }
}

/// Reads the stored request in the session's row.
fn remembered(session: &Session) -> Result<UploadRequest, Error> {
    let request = UploadRequest::from_bytes(&session.context);
    let mut request = request.ok_or(Error::SessionNotFound)?;
    request.principal = session.owner.as_ref().map(Principal::new);
    Ok(request)
}

async fn expect_empty(body: &mut RequestBody) -> Result<(), Error> {
    if body.is_empty().await? {
        Ok(())
    } else {
        Err(SessionError::QueryWithBody.into())
    }
}

fn snapshot(session: &Session) -> Snapshot {
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
