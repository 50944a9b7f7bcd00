//! Requests to resumable uploads: start, query, append, cancel.

use std::fmt;
use std::future::ready;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryFutureExt as _};
use windlass_digest::ExpectedDigests;
use windlass_session::{SessionError, SessionRequest, Step, step};
use windlass_store::{
    EndSession, Failpoint, Lease, Leased, LedgerError, NewSession, Session, SessionId,
    SessionState, Takeover, Timestamp,
};

use crate::append::{append, finish_active, resume_finish};
use crate::completion::{Completion, UploadContext as _, UploadEvent};
use crate::engine::Engine;
use crate::error::{Error, FromStore as _};
use crate::identifiers::{new_upload_id, session_id};
use crate::leases::HeldLease;
use crate::media_stream::MediaStream;
use crate::session_cache::CachedSession;
use crate::sessions::{Committed, LockedSession, SessionReply, Target, snapshot};
use crate::sharing::FINISH_IDLE;

/// Message of the panic if the stream has already been taken, which is a bug.
// Only `continue_session` takes the stream, once, after `answer_without_lease` has returned.
const STREAM_PRESENT: &str = "nobody has taken the stream yet";

/// A request to a session, except its bytes.
#[derive(Debug)]
pub struct SessionHead<Q> {
    /// The session.
    pub session: SessionId,
    /// Name of the dialect that the client speaks. Only the dialect of the session may change it.
    pub dialect: &'static str,
    /// The action, and the length of the stream.
    pub action: SessionRequest,
    /// Digests of the whole media that this request states.
    pub expected_digests: ExpectedDigests,
    /// The sender, and what the completion checks.
    pub request: Q,
}

impl<Q> SessionHead<Q> {
    fn target(&self) -> Target<'_, Q> {
        Target {
            id: self.session,
            dialect: self.dialect,
            request: &self.request,
        }
    }
}

/// A session that has been started.
pub struct StartedSession {
    /// What later requests name the session by. It is a secret of the client.
    pub upload_id: String,
    /// When the session ends if it is not continued.
    pub expires: Timestamp,
}

/// Hides the `upload_id`.
impl fmt::Debug for StartedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedSession")
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// A new session in the ledger.
pub(crate) struct InsertedSession {
    pub(crate) upload_id: String,
    /// Its row, without the context.
    pub(crate) session: NewSession,
    /// Its first lease.
    pub(crate) lease: Lease,
}

impl<C: Completion> Engine<C> {
    /// Starts a session. The id of the session is [`session_id`] of its `upload_id`. `declared` is
    /// the length in bytes that the client has announced, `dialect` the name of the dialect that it
    /// speaks.
    ///
    /// # Errors
    /// If the upload is refused. No session exists then.
    ///
    /// # Cancel safety
    /// If the future is dropped, the session may exist. It expires.
    pub async fn start(
        &self,
        mut context: C::Context,
        declared: Option<u64>,
        dialect: &'static str,
    ) -> Result<StartedSession, Error> {
        self.admit_upload()?;
        self.admit_length(&context, declared, dialect)?;
        self.completion().admit(&context).await?;
        let InsertedSession {
            upload_id,
            session,
            lease,
        } = self.insert_session(&context, declared, dialect).await?;
        Failpoint::SessionStarted.reach();
        let (created, expires) = (session.created, session.expires);
        // The cache must stay small.
        context.drop_details();
        self.cache().put(CachedSession {
            session: session.into(),
            lease,
            context,
            extents: Vec::new(),
            media: None,
            space: None,
            since: created,
        });
        Ok(StartedSession { upload_id, expires })
    }

    /// Refuses a declared length above the limit of the upload.
    pub(crate) fn admit_length(
        &self,
        context: &C::Context,
        declared: Option<u64>,
        dialect: &str,
    ) -> Result<(), Error> {
        match (self.terms(context, dialect)?.rules.max_size, declared) {
            (Some(limit), Some(declared)) if declared > limit => {
                let error = SessionError::TooLarge { limit };
                Err(self.completion().explain(context, error))
            }
            _ => Ok(()),
        }
    }

    /// Inserts the row of a new session, within the quota of its owner.
    pub(crate) async fn insert_session(
        &self,
        context: &C::Context,
        declared: Option<u64>,
        dialect: &'static str,
    ) -> Result<InsertedSession, Error> {
        let (completion, parts) = (self.completion(), self.parts());
        let created = parts.clock.now();
        let expires = parts.lifetime.expiry(created, created);
        let upload_id = new_upload_id(created);
        let session = NewSession {
            id: session_id(&upload_id),
            context: Vec::new(),
            created,
            expires,
            total: declared,
            owner: context.owner().map(str::to_owned),
            dialect: dialect.to_owned(),
        };
        // Only the row needs the context as bytes. The cached session has the parsed one.
        let row = NewSession {
            context: completion.encode(context),
            ..session.clone()
        };
        // Committed before the reply: a client that has the `upload_id` relies on the session.
        let quota = parts.quotas.of_start(row.owner.as_deref()).await?;
        let lease = parts.stores.ledger.start_within(row, quota).await?;
        completion.observe(UploadEvent::Started {
            session: session.id,
            context,
        });
        Ok(InsertedSession {
            upload_id,
            session,
            lease,
        })
    }

    /// Carries out a request to a session: appends its stream, reports the committed offset,
    /// finishes, or repeats the final reply. Takes the stream out of the option, unless the request
    /// is answered without it. `found` is called with the context of the session if the request may
    /// use it, also if the request is refused later.
    ///
    /// # Errors
    /// If nothing was acknowledged. A stream that breaks keeps the bytes that have arrived:
    /// [`Error::Interrupted`].
    ///
    /// # Cancel safety
    /// If the future is dropped, a task commits the bytes that have been read.
    ///
    /// # Panics
    /// If there is no stream.
    pub async fn continue_session<S: MediaStream>(
        &self,
        mut head: Box<SessionHead<C::Request>>,
        stream: &mut Option<S>,
        found: impl Fn(&C::Context) + Send + Sync,
    ) -> Result<SessionReply<C::Reply>, Error> {
        let appends_to_cached = self.cache().any(head.session, |cached| {
            let appends = self.appends_to_cached(cached, head.target(), &head.action);
            if appends {
                found(&cached.context);
            }
            appends
        });
        // A request that continues a cached session does not read the session's row first. Any
        // other is answered without a lease if possible, so that a query does not stop a running
        // append. Boxed, so that its memory is free again while the stream is awaited.
        let mut context = None;
        if !appends_to_cached {
            let answered = self.answer_without_lease(&mut head, stream, &found);
            match Box::pin(answered).await? {
                Answered::Reply(reply) => return Ok(reply),
                Answered::NeedsLease(read) => context = Some(*read),
            }
        }
        let engine = self.clone();
        let stream = stream.take().expect(STREAM_PRESENT);
        // Boxed separately, so that its memory is free again while the stream is awaited.
        let take_lease = Box::pin(async move {
            let lease = engine.lease_for(head.target(), &head.action, context);
            let mut locked = lease.await;
            if let Ok(locked) = &mut locked {
                let completion = engine.completion();
                completion.continue_by(&mut locked.context, &head.request);
            }
            (engine, locked, head, stream)
        });
        // From here on the request may hold a lease and uncommitted bytes. If the client
        // disconnects, the request runs on until the bytes are committed and the guard is released.
        self.run_to_completion(Box::pin(async move {
            let (engine, locked, head, stream) = take_lease.await;
            let action = match locked {
                Ok(locked) => begin_action(engine, locked, &head, stream)?,
                Err(Error::Superseded) => {
                    let (id, first_offset) = (head.session, head.action.first());
                    async move {
                        let reply = engine.yield_to_newer(id, first_offset, stream).await;
                        reply.map(SessionReply::Final)
                    }
                    .boxed()
                }
                Err(error) => return Err(error),
            };
            // Dropped before the stream is awaited, which may take hours.
            drop(head);
            action.await
        }))
        .await
    }

    /// Answers a request that need not stop the session's writer.
    async fn answer_without_lease<S: MediaStream>(
        &self,
        head: &mut SessionHead<C::Request>,
        stream: &mut Option<S>,
        found: &(impl Fn(&C::Context) + Send + Sync),
    ) -> Result<Answered<C>, Error> {
        let (mut session, mut context) = self.read_session(head.target()).await?;
        found(&context);
        let rules = self.rules(&session, &context)?;
        // They may be long and are not needed here. The client decides how long the end of the
        // stream takes.
        session.context = Vec::new();
        context.drop_details();
        let is_foreign = session.dialect != head.dialect;
        // If a finish states no offset, it refers to the bytes that are committed now. The offset
        // is filled in before the takeover: the takeover makes a running request commit more bytes,
        // of which this client does not know.
        head.action.finish_at(session.progress.offset);
        let report = async |stream: &mut Option<S>| {
            require_empty(stream.as_mut().expect(STREAM_PRESENT)).await?;
            let committed = Committed::of(&session, head.dialect);
            Ok(Answered::Reply(SessionReply::Committed(committed)))
        };
        let settles = head.action.settles() && !is_foreign && self.must_settle(&session);
        let needs_lease = Answered::NeedsLease(Box::new(context));
        match step(&snapshot(&session), &rules, &head.action) {
            Ok(Step::Replay) => {
                let reply = self.replay(&session)?;
                Ok(Answered::Reply(SessionReply::Final(reply)))
            }
            Ok(Step::Report) if !settles => report(stream).await,
            // A request in any dialect may query a session. Only the session's own dialect may
            // change it: in Google's dialect, a query also finishes an upload that is committed
            // completely.
            Ok(Step::Finish { .. }) if is_foreign && head.action.is_query() => report(stream).await,
            Ok(Step::ResumeFinish) if is_foreign && head.action.is_query() => {
                Err(Error::FinishPending)
            }
            _ if is_foreign => Err(Error::OtherDialect),
            // Errors are answered at once, except two that need the lease: an error that ends the
            // session, and a body that begins after the committed bytes. To get the lease, this
            // request takes over the session. A running request then commits the bytes that it has
            // received, which may close the gap.
            Err(error) if !error.ends_session() && !error.may_be_resolved() => Err(error.into()),
            Ok(Step::Finish { .. } | Step::Report) => {
                // Before the lease is taken: the stream must be empty, and a client may take long
                // to end it. No other request should wait for that.
                require_empty(stream.as_mut().expect(STREAM_PRESENT)).await?;
                Ok(needs_lease)
            }
            Ok(Step::ResumeFinish | Step::Append(_)) | Err(_) => Ok(needs_lease),
        }
    }

    /// Cancels a session. `found` is called as by [`Engine::continue_session`].
    ///
    /// # Errors
    /// [`Error::AlreadyCancelled`] if it was cancelled earlier, [`Error::AlreadyFinished`] or
    /// [`Error::FinishPending`] if all bytes are committed.
    ///
    /// # Cancel safety
    /// If the future is dropped, a task completes the cancellation, unless it has not begun.
    pub async fn cancel(
        &self,
        id: SessionId,
        dialect: &'static str,
        request: C::Request,
        found: impl Fn(&C::Context) + Send + Sync,
    ) -> Result<(), Error> {
        let target = Target {
            id,
            dialect,
            request: &request,
        };
        let read = self.read_session(target).await;
        let (session, mut context) = read.map_err(already_cancelled)?;
        found(&context);
        if session.dialect != dialect {
            return Err(Error::OtherDialect);
        }
        // Dropped early, because the lease may be awaited for a long time.
        drop(session);
        context.drop_details();
        let engine = self.clone();
        self.run_to_completion(Box::pin(async move {
            let target = Target {
                id,
                dialect,
                request: &request,
            };
            let locked = engine.lease(target, context).await;
            let locked = locked.map_err(already_cancelled)?;
            match locked.session.state {
                SessionState::Active => engine.cancel_leased(*locked, &request).await,
                // All bytes are committed, so the engine will finish the upload.
                SessionState::Finishing => Err(Error::FinishPending),
                SessionState::Finished => Err(Error::AlreadyFinished),
                SessionState::Cancelled => Err(Error::AlreadyCancelled),
                SessionState::Failed => Err(SessionError::Gone.into()),
            }
        }))
        .await
    }

    async fn cancel_leased(
        &self,
        mut locked: LockedSession<C::Context>,
        request: &C::Request,
    ) -> Result<(), Error> {
        let (id, lease) = (locked.session.id, locked.lease.lease());
        Failpoint::CancelLeased.reach();
        let ledger = &self.parts().stores.ledger;
        ledger.end(id, lease, EndSession::Cancelled).await?;
        locked.lease.set_released();
        self.completion().observe(UploadEvent::Cancelled {
            session: id,
            context: &locked.context,
            request,
        });
        Failpoint::CancelCommitted.reach();
        // The media is now garbage. The sweep need not wait: the client may need the space soon.
        self.parts().lifecycle.sweep_now.notify_one();
        Ok(())
    }

    /// Finishes a session that was left in the state *finishing*, for example by a crash. Ends it
    /// as failed after an error that the upload itself causes. If it expired a day ago, any error
    /// ends it, except that a store cannot be used now or that an outcome is unknown.
    ///
    /// Does nothing if the session is gone or no longer *finishing*, or if a request that finishes
    /// it does not end in time.
    ///
    /// # Errors
    /// Why the session could not be finished now.
    ///
    /// # Cancel safety
    /// If the future is dropped, a task completes the finish.
    pub async fn finish_interrupted(&self, session: Session) -> Result<(), Error> {
        let id = session.id;
        let context = self.completion().decode(&session);
        let given_up = session.expires.saturating_add(FINISH_GRACE);
        let is_given_up = self.parts().clock.now() >= given_up;
        drop(session);
        let engine = self.clone();
        self.run_to_completion(Box::pin(async move {
            // The context in the row may be unreadable, for example because a newer version of the
            // program has written it. Until the session is given up it is kept, because that
            // version can still finish it.
            let context = match context {
                Err(error) if !is_given_up => return Err(error),
                context => context,
            };
            // A request that is still finishing the session holds the guard. If it does not
            // release the guard in time, nothing is done here: a new lease would fence it.
            let timeout = engine.parts().takeover_timeout;
            let Ok(guard) = engine.guards().take_over(id, timeout).await else {
                return Ok(());
            };
            let ledger = &engine.parts().stores.ledger;
            let leased = match ledger.lease_by(id, Takeover::IfIdle(FINISH_IDLE)).await {
                // Another process finishes it.
                Err(LedgerError::Held) => return Ok(()),
                leased => leased?,
            };
            let Some(Leased {
                session,
                lease,
                extents,
            }) = leased
            else {
                return Ok(());
            };
            let held = HeldLease::new(engine.leases(), id, lease);
            // A request may have finished the session in the meantime.
            if session.state != SessionState::Finishing {
                return Ok(());
            }
            let context = match context {
                Err(error) => {
                    engine.fail(id, lease).await;
                    return Err(error);
                }
                Ok(context) => context,
            };
            let locked = Box::new(LockedSession {
                session,
                lease: held,
                context,
                extents,
                media: None,
                space: None,
                guard,
            });
            Failpoint::LeftOverLeased.reach();
            match resume_finish(engine.clone(), locked).await {
                // A store that cannot be used now says nothing about the upload.
                Err(error)
                    if is_given_up && !error.is_passing() && !error.leaves_outcome_unknown() =>
                {
                    engine.fail(id, lease).await;
                    Err(error)
                }
                finished => finished.map(drop),
            }
        }))
        .await
    }
}

/// The result of a request without a lease.
enum Answered<C: Completion> {
    Reply(SessionReply<C::Reply>),
    /// The request needs the lease of its session, whose context this is.
    NeedsLease(Box<C::Context>),
}

/// Returns the error for a cancel of a session that is refused with `error`.
fn already_cancelled(error: Error) -> Error {
    match error {
        Error::Session(SessionError::Cancelled) => Error::AlreadyCancelled,
        error => error,
    }
}

/// For this long after its expiry, the engine keeps trying to finish a session in the state
/// *finishing* that meets temporary errors, such as a lack of space. All bytes of such a session
/// are acknowledged.
const FINISH_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// The future that carries out a request to its leased session.
type Action<R> = BoxFuture<'static, Result<SessionReply<R>, Error>>;

/// Returns the future that carries out a request to its leased session.
///
/// Not an `async fn`, so that the future does not hold `head` while the stream is awaited.
fn begin_action<C: Completion, S: MediaStream>(
    engine: Engine<C>,
    locked: Box<LockedSession<C::Context>>,
    head: &SessionHead<C::Request>,
    stream: S,
) -> Result<Action<C::Reply>, Error> {
    let rules = engine.rules(&locked.session, &locked.context)?;
    let expected_digests = head.expected_digests;
    // Decided again: while the request waited for the lease, an older one may have committed bytes
    // or ended the session.
    let action = match step(&snapshot(&locked.session), &rules, &head.action) {
        Ok(Step::Append(body_filter)) => {
            append(engine, locked, body_filter, expected_digests, stream)
        }
        Ok(Step::Replay) => replay_final(engine, locked, stream).boxed(),
        Ok(Step::ResumeFinish) => {
            let finish = resume_finish(engine, locked);
            finish.map_ok(SessionReply::Final).boxed()
        }
        Ok(Step::Report) => {
            let committed = Committed::of(&locked.session, head.dialect);
            ready(Ok(SessionReply::Committed(committed))).boxed()
        }
        Ok(Step::Finish { total }) => {
            let finish = finish_active(engine, locked, total, expected_digests);
            finish.map_ok(SessionReply::Final).boxed()
        }
        Err(error) => refuse(engine, locked, error, stream).boxed(),
    };
    Ok(action)
}

/// Returns the stored final reply. If the rest of the stream is known to be short, reads it first,
/// so that the connection can be reused.
async fn replay_final<C: Completion>(
    engine: Engine<C>,
    locked: Box<LockedSession<C::Context>>,
    mut stream: impl MediaStream,
) -> Result<SessionReply<C::Reply>, Error> {
    let reply = engine.replay(&locked.session).map(SessionReply::Final);
    drop(locked);
    stream.finish_if_short().await;
    reply
}

/// Refuses a request with `error`. Ends the session if the error requires it. If the rest of the
/// stream is known to be short, reads it first, so that the connection can be reused.
async fn refuse<C: Completion>(
    engine: Engine<C>,
    locked: Box<LockedSession<C::Context>>,
    error: SessionError,
    mut stream: impl MediaStream,
) -> Result<SessionReply<C::Reply>, Error> {
    let mut answer = engine.completion().explain(&locked.context, error);
    if error.ends_session() {
        let failed = engine.fail(locked.session.id, locked.lease.lease()).await;
        answer = failed.error_for_reply(answer);
    }
    drop(locked);
    stream.finish_if_short().await;
    Err(answer)
}

/// Refuses a stream that has bytes.
async fn require_empty(stream: &mut impl MediaStream) -> Result<(), Error> {
    if stream.is_empty().await? {
        Ok(())
    } else {
        Err(SessionError::QueryWithBody.into())
    }
}
