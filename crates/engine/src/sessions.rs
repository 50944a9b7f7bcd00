//! The sessions of resumable uploads: their rows, the guards and leases that admit one writer to
//! each, and their stored replies.

use std::time::Duration;

use windlass_digest::Wanted;
use windlass_session::{
    Rules, SessionError, SessionRequest, Snapshot, State, Step, UploadKind, step,
};
use windlass_store::{
    EndSession, Lease, Leased, LedgerError, Session, SessionId, SessionState, StoredExtent,
    Timestamp,
};

use crate::completion::{Completion, Terms, UploadContext as _, UploadEvent};
use crate::disks::MediaSpace;
use crate::engine::Engine;
use crate::error::Error;
use crate::leases::HeldLease;
use crate::locks::{LockError, SessionGuard};
use crate::media_stream::MediaStream;
use crate::session_cache::CachedSession;
use crate::sink::VaultMedia;

/// Pause between two looks whether another process has finished a session.
const END_INTERVAL: Duration = Duration::from_millis(100);

/// The reply to a request to a session.
#[derive(Debug)]
pub enum SessionReply<R> {
    /// Bytes are committed, and the upload is not finished.
    Committed(Committed),
    /// The upload is finished.
    Final(R),
}

/// What is committed of an unfinished upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Number of committed bytes.
    pub offset: u64,
    /// Length of the whole media, if it is known. `None` for a request in another dialect than the
    /// session's, which cannot know whether the upload ends at its length.
    pub total: Option<u64>,
    /// When the session ends if it is not continued.
    pub expires: Timestamp,
}

impl Committed {
    /// Returns what is committed of a session, for a request in this dialect.
    pub(crate) fn of(session: &Session, dialect: &str) -> Self {
        let progress = &session.progress;
        Self {
            offset: progress.offset,
            total: progress.total.filter(|_| session.dialect == dialect),
            expires: session.expires,
        }
    }
}

/// A session with its guard and its lease, which one request holds.
#[derive(Debug)]
pub(crate) struct LockedSession<X> {
    /// Row of the session.
    pub(crate) session: Session,
    pub(crate) lease: HeldLease,
    pub(crate) context: X,
    /// The extents of the media.
    pub(crate) extents: Vec<StoredExtent>,
    /// The media, if it is still open from the previous request.
    pub(crate) media: Option<VaultMedia>,
    /// The disk space that the previous request has set aside for the rest of the media.
    pub(crate) space: Option<MediaSpace>,
    pub(crate) guard: SessionGuard,
}

/// How a request finds its session.
#[derive(Debug)]
pub(crate) struct Target<'a, Q> {
    pub(crate) id: SessionId,
    /// Name of the request's dialect.
    pub(crate) dialect: &'static str,
    pub(crate) request: &'a Q,
}

// Derived, they would be for requests that are `Copy` alone.
impl<Q> Clone for Target<'_, Q> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q> Copy for Target<'_, Q> {}

impl<C: Completion> Engine<C> {
    /// Whether a request appends new bytes to a cached session.
    pub(crate) fn appends_to_cached(
        &self,
        cached: &CachedSession<C::Context>,
        target: Target<'_, C::Request>,
        request: &SessionRequest,
    ) -> bool {
        let CachedSession {
            session, context, ..
        } = cached;
        // A cached context may lack its details.
        !self.completion().needs_details(target.request)
            && session.dialect == target.dialect
            && self.refuse_ended(session).is_ok()
            && self
                .completion()
                .check(session, context, target.request)
                .is_ok()
            && self.rules(session, context).is_ok_and(|rules| {
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

    /// Whether a query has to stop another request before it can report where the next append
    /// begins. A session in the cache has no running request, unless another process has taken it
    /// over since.
    pub(crate) fn must_settle(&self, session: &Session) -> bool {
        let id = session.id;
        let is_idle = |cached: &CachedSession<_>| cached.lease.epoch == session.epoch;
        self.guards().has_writer(id) || !self.cache().any(id, is_idle)
    }

    /// Reads the context of a session from the ledger, with its details. Checks nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`], or an error of the ledger.
    pub async fn context(&self, id: SessionId) -> Result<C::Context, Error> {
        let session = self.parts().stores.ledger.session(id).await?;
        self.completion().decode(&session.ok_or(Error::NotFound)?)
    }

    /// Whether the context of a session satisfies `is`. False if there is no such session.
    pub async fn context_is(&self, id: SessionId, is: impl Fn(&C::Context) -> bool) -> bool {
        self.cache().any(id, |cached| is(&cached.context))
            || self.context(id).await.as_ref().is_ok_and(is)
    }

    /// Answers a request that is superseded: reads the rest of its stream, waits for the newer
    /// request, and returns the final reply if there is one. Two requests with the same last bytes
    /// thus get the same reply.
    ///
    /// `position` is the offset in the media of the next byte of the stream.
    ///
    /// # Errors
    /// [`Error::Superseded`] if the newer request has not finished the upload, or has finished it
    /// without all bytes of this request.
    pub(crate) async fn yield_to_newer(
        &self,
        id: SessionId,
        position: u64,
        mut stream: impl MediaStream,
    ) -> Result<C::Reply, Error> {
        // The rest is read first: a connection that is closed while the client still sends may be
        // reset, and the client then loses the reply.
        let discarded = tokio::select! {
            discarded = stream.discard() => discarded.map_err(interrupted)?,
            () = self.parts().lifecycle.drain_now.cancelled() => return Err(Error::Draining),
        };
        let timeout = self.parts().takeover_timeout;
        self.guards().wait_for_writers(id, timeout).await;
        let session = self.parts().stores.ledger.session(id).await?;
        let session = session.ok_or(Error::Superseded)?;
        if position.saturating_add(discarded) > session.progress.offset {
            return Err(Error::Superseded);
        }
        let reply = self.decode_reply(&session)?;
        reply.ok_or(Error::Superseded)
    }

    /// Takes the guard and a lease for a request that writes to the session, and so takes over the
    /// session. Uses the cached lease if the request continues the cached session. `context` is the
    /// session's context, if the caller has read it.
    pub(crate) async fn lease_for(
        &self,
        target: Target<'_, C::Request>,
        request: &SessionRequest,
        context: Option<C::Context>,
    ) -> Result<Box<LockedSession<C::Context>>, Error> {
        let guard = self.lock_session(target.id).await?;
        // Under the guard, so that no other request uses the cached lease. An entry that the
        // request does not continue is dropped: the new lease makes the cached one outdated.
        let cached = self.cache().take(target.id);
        match cached.filter(|cached| self.appends_to_cached(cached, target, request)) {
            // Another process does not know yet that this one works on the session: it will from the
            // first commit or renewal on.
            Some(cached) => Ok(Box::new(LockedSession {
                lease: HeldLease::new(self.leases(), target.id, cached.lease),
                session: cached.session,
                context: cached.context,
                extents: cached.extents,
                media: cached.media,
                space: cached.space,
                guard,
            })),
            None => self.lease_locked(guard, target, context).await,
        }
    }

    /// Takes over the session: takes the guard, for which a running request has to end, and a new
    /// lease.
    pub(crate) async fn lease(
        &self,
        target: Target<'_, C::Request>,
        context: C::Context,
    ) -> Result<Box<LockedSession<C::Context>>, Error> {
        let guard = self.lock_session(target.id).await?;
        // The new lease makes a cached one outdated. Dropping the entry closes its media.
        drop(self.cache().take(target.id));
        self.lease_locked(guard, target, Some(context)).await
    }

    /// Takes the guard. Asks the request that holds it, if there is one, to release it.
    async fn lock_session(&self, id: SessionId) -> Result<SessionGuard, Error> {
        let timeout = self.parts().takeover_timeout;
        let guard = self.guards().take_over(id, timeout).await;
        guard.map_err(|error| match error {
            LockError::Superseded => Error::Superseded,
            LockError::Stuck => Error::Busy,
        })
    }

    /// Takes a new lease of a session. The caller holds the session's guard.
    async fn lease_locked(
        &self,
        guard: SessionGuard,
        target: Target<'_, C::Request>,
        context: Option<C::Context>,
    ) -> Result<Box<LockedSession<C::Context>>, Error> {
        let leased = self.take_lease(target.id).await?;
        let Leased {
            session,
            lease,
            extents,
        } = leased.ok_or(Error::NotFound)?;
        let lease = HeldLease::new(self.leases(), target.id, lease);
        // The details of the context have been dropped.
        let context = context.filter(|_| !self.completion().needs_details(target.request));
        let (mut session, mut context) = self.check(Some(session), target, context)?;
        // A slow upload would hold them for hours. They can be read again from the ledger.
        session.context = Vec::new();
        context.drop_details();
        Ok(Box::new(LockedSession {
            session,
            lease,
            context,
            extents,
            media: None,
            space: None,
            guard,
        }))
    }

    /// Waits until a session is finished or has ended, or cannot be read.
    pub(crate) async fn until_ended(&self, id: SessionId) {
        let is_open = |session: &Session| {
            matches!(
                session.state,
                SessionState::Active | SessionState::Finishing
            )
        };
        while let Ok(Some(session)) = self.parts().stores.ledger.session(id).await
            && is_open(&session)
        {
            tokio::time::sleep(END_INTERVAL).await;
        }
    }

    /// Waits until another process has finished an upload of this length, and returns its final
    /// reply. The caller was fenced and has released the session.
    ///
    /// # Errors
    /// [`LedgerError::Fenced`] if the other process has not finished it in time, or has finished
    /// another one.
    pub(crate) async fn reply_of_newer(
        &self,
        id: SessionId,
        length: u64,
    ) -> Result<C::Reply, Error> {
        let timeout = self.parts().takeover_timeout;
        tokio::time::timeout(timeout, self.until_ended(id))
            .await
            .ok();
        let session = self.parts().stores.ledger.session(id).await?;
        let same = session.filter(|session| session.progress.offset == length);
        let reply = same.map_or(Ok(None), |session| self.decode_reply(&session))?;
        reply.ok_or(LedgerError::Fenced.into())
    }

    /// Reads a session and its context, without a lease.
    pub(crate) async fn read_session(
        &self,
        target: Target<'_, C::Request>,
    ) -> Result<(Session, C::Context), Error> {
        let session = self.parts().stores.ledger.session(target.id).await?;
        self.check(session, target, None)
    }

    /// Refuses a session that has expired, or ended without a resource.
    fn refuse_ended(&self, session: &Session) -> Result<(), Error> {
        match session.state {
            _ if self.parts().clock.now() >= session.expires => Err(Error::NotFound),
            SessionState::Cancelled => Err(SessionError::Cancelled.into()),
            SessionState::Failed => Err(SessionError::Gone.into()),
            SessionState::Active | SessionState::Finishing | SessionState::Finished => Ok(()),
        }
    }

    /// Returns the session and its context, if the request may use it. The context is read from the
    /// session unless the caller has it.
    fn check(
        &self,
        session: Option<Session>,
        target: Target<'_, C::Request>,
        context: Option<C::Context>,
    ) -> Result<(Session, C::Context), Error> {
        let session = session.ok_or(Error::NotFound)?;
        // Checked first: the context of a cancelled or failed session is deleted, so there is
        // nothing to compare. The reply is the same for every request.
        self.refuse_ended(&session)?;
        let completion = self.completion();
        let context = context.map_or_else(|| completion.decode(&session), Ok)?;
        completion.check(&session, &context, target.request)?;
        Ok((session, context))
    }

    /// Returns the stored reply of a finished session.
    pub(crate) fn replay(&self, session: &Session) -> Result<C::Reply, Error> {
        self.decode_reply(session)?.ok_or(Error::NotFound)
    }

    fn decode_reply(&self, session: &Session) -> Result<Option<C::Reply>, Error> {
        let stored = session.reply.as_deref();
        let length = session.progress.offset;
        stored.map_or(Ok(None), |stored| self.completion().replay(stored, length))
    }

    /// Returns the protocol's rules for a session.
    pub(crate) fn rules(&self, session: &Session, context: &C::Context) -> Result<Rules, Error> {
        Ok(self.terms(context, &session.dialect)?.rules)
    }

    /// Returns the terms of an upload with a session.
    pub(crate) fn terms(&self, context: &C::Context, dialect: &str) -> Result<Terms, Error> {
        let Terms { rules, wanted } = self.completion().terms(context, Some(dialect))?;
        let kind = context.kind();
        Ok(Terms {
            rules: rules.with_kind(kind),
            // No resource shows the digests of a partial upload.
            wanted: match kind {
                UploadKind::Partial => Wanted::default(),
                UploadKind::Whole | UploadKind::Concatenated => wanted,
            },
        })
    }

    /// Ends a session as failed. Returns the outcome.
    pub(crate) async fn fail(&self, id: SessionId, lease: Lease) -> FailOutcome {
        let parts = self.parts();
        match parts.stores.ledger.end(id, lease, EndSession::Failed).await {
            Ok(()) => {
                self.completion()
                    .observe(UploadEvent::Failed { session: id });
                // After the commit: only now its media is garbage that the sweep can find.
                parts.lifecycle.sweep_now.notify_one();
                FailOutcome::Recorded
            }
            Err(LedgerError::Fenced) => {
                tracing::info!(session = ?id, "a session goes on under a newer lease, or has ended");
                FailOutcome::Fenced
            }
            Err(error) => {
                parts.lifecycle.examine_ledger(&error);
                tracing::warn!(session = ?id, %error, "a failed session could not be ended");
                FailOutcome::Unrecorded(error)
            }
        }
    }
}

/// Returns the error for a request whose stream has ended with `error`, and whose bytes are kept.
pub(crate) fn interrupted(error: Error) -> Error {
    Error::Interrupted(Box::new(error))
}

/// The outcome of [`Engine::fail`].
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

/// Returns the parts of a session's row that the protocol needs.
pub(crate) fn snapshot(session: &Session) -> Snapshot {
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
