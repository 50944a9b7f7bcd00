//! The bytes of one request to a session: from the body to a commit.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use windlass_digest::{Digests, ExpectedDigests, Wanted};
use windlass_session::{BodyFilter, Ending, Outcome, SessionError};
use windlass_store::{
    ExpectedSize, Failpoint, Lease, LedgerError, MediaLocation, Session, SessionId, SessionState,
    StoredMedia,
};

use crate::completion::{Completion, FinishedMedia, UploadContext};
use crate::disks::{Leaving, MediaSpace};
use crate::durable_append::{DurableAppend, Step};
use crate::engine::Engine;
use crate::error::{Error, FromStore as _};
use crate::finish::{SessionRef, finish, media_of};
use crate::importance::Importance;
use crate::locks::SessionGuard;
use crate::media_stream::MediaStream;
use crate::offset_committer::OffsetCommitter;
use crate::pool::Permit;
use crate::seal::Seal;
use crate::session_cache::CachedSession;
use crate::sessions::{Committed, FailOutcome, LockedSession, SessionReply, interrupted};
use crate::sink::{FlushedMedia, MediaSink, Reopen};

/// One request that appends to a session.
///
/// Always boxed, so that a future that owns it holds a pointer: a thousand may wait at once.
struct Append<C: Completion> {
    engine: Engine<C>,
    /// What the upload is for.
    context: C::Context,
    durable: DurableAppend<OffsetCommitter>,
    /// Digests to compute in addition to CRC32C.
    wanted: Wanted,
    /// Total length of the media, if it is known.
    total: Option<u64>,
    /// Whether earlier requests have brought all bytes of the media.
    is_complete: bool,
    /// Whether the checksum of the body comes last, as that of gzip does, so that no byte may be
    /// committed before the end.
    is_verified_at_end: bool,
    /// Counts against the limit on running uploads.
    permit: Permit,
    /// Dropped after the media and the permit: as soon as a newer request has the guard, it needs
    /// the permit and opens the media.
    guard: SessionGuard,
}

/// Why reading a body ended.
enum Stop {
    /// The body was read to its end.
    Complete,
    /// The body cannot be read: the connection broke or stalled, or the body is malformed.
    Broken(Error),
    /// The body violates the rules of the session.
    Refused(SessionError),
    /// A newer request wants the session.
    Superseded,
    /// The server drains and tells running uploads to end.
    Draining,
    /// A write or a commit failed.
    Storage(Error),
}

/// Appends the body to the session, and finishes the upload if these were its last bytes.
///
/// `body_filter` selects the bytes of the body to store. It skips bytes that are already committed,
/// and refuses bytes beyond the range of the request or the size limit. `expected_digests` are the
/// digests that this request states.
///
/// If the request ends early, the received bytes are still committed, unless the session or the
/// storage fails. The bytes of a stream with a checksum at its end, such as gzip, are committed
/// only after it has been verified.
pub(crate) fn append<C: Completion>(
    engine: Engine<C>,
    locked: Box<LockedSession<C::Context>>,
    mut body_filter: BodyFilter,
    expected_digests: ExpectedDigests,
    mut stream: impl MediaStream,
) -> BoxFuture<'static, Result<SessionReply<C::Reply>, Error>> {
    // Not an `async fn`: its future would hold each argument twice, as received and as used.
    async move {
        engine.parts().stores.admit_media()?;
        let expected_digests = all_expected(&locked, expected_digests)?;
        let open = Append::open(
            &engine,
            locked,
            body_filter.total(),
            expected_digests,
            false,
        );
        // Boxed, so that its memory is free again while the body is awaited.
        let mut append = Box::pin(open).await?;
        append.durable.expect(ExpectedSize {
            total: body_filter.total(),
            first_request: body_filter.remaining_hint(),
        });
        append.reserve_declared(&body_filter).await?;
        append.is_verified_at_end = stream.is_verified_at_end();
        if !append.is_verified_at_end {
            append.durable.commit_early();
        }
        append.announce_rest(&body_filter);
        let stop = append.receive(&mut body_filter, &mut stream).await;
        // Boxed, so that its memory is allocated only now, after the body: a slow upload takes
        // hours.
        Box::pin(append.end(stop, body_filter, expected_digests, stream)).await
    }
    .boxed()
}

/// Finishes an active session with media that is committed completely.
pub(crate) async fn finish_active<C: Completion>(
    engine: Engine<C>,
    locked: Box<LockedSession<C::Context>>,
    total: u64,
    expected_digests: ExpectedDigests,
) -> Result<C::Reply, Error> {
    let expected_digests = all_expected(&locked, expected_digests)?;
    let open = Append::open(&engine, locked, Some(total), expected_digests, true);
    let mut append = open.await?;
    let flushed = append.flush_committed().await?;
    Box::pin(append.finish(flushed, expected_digests)).await
}

/// Finishes a session in the state *finishing*.
pub(crate) async fn resume_finish<C: Completion>(
    engine: Engine<C>,
    locked: Box<LockedSession<C::Context>>,
) -> Result<C::Reply, Error> {
    let progress = &locked.session.progress;
    // All other digests were checked before the session became *finishing*.
    let expected = ExpectedDigests::decode(&progress.expected_digests);
    let expected = expected.ok_or(LedgerError::Unreadable)?;
    let total = progress.total;
    let mut append = Append::open(&engine, locked, total, expected, true).await?;
    let flushed = append.flush_committed().await?;
    Box::pin(append.finish(flushed, expected)).await
}

/// Returns the digests that the start request and this request state.
fn all_expected<X: UploadContext>(
    locked: &LockedSession<X>,
    stated_now: ExpectedDigests,
) -> Result<ExpectedDigests, Error> {
    Ok(locked.context.expected_digests().merge(stated_now)?)
}

impl<C: Completion> Append<C> {
    /// Opens the media of the session. If it `is_complete`, nothing is appended.
    async fn open(
        engine: &Engine<C>,
        locked: Box<LockedSession<C::Context>>,
        total: Option<u64>,
        expected_digests: ExpectedDigests,
        is_complete: bool,
    ) -> Result<Box<Self>, Error> {
        let LockedSession {
            session,
            lease,
            context,
            extents,
            media,
            space,
            guard,
        } = *locked;
        // Before the media is opened: the limit on uploads also bounds the number of open files.
        let permit = engine.take_upload(&context, Importance::Append)?;
        // A digest that only this request states was not computed while earlier requests appended
        // their bytes. It is computed from the stored media at the end.
        let terms = engine.terms(&context, &session.dialect)?;
        let wanted = terms.wanted.union(expected_digests.wanted());
        let progress = &session.progress;
        let stored = progress.media.map(|media| StoredMedia {
            id: media.id,
            length: progress.offset,
            extents,
            verify: progress.extent,
        });
        let reopen = match &stored {
            Some(stored) if !is_complete => Reopen::Unless(media, stored),
            _ => Reopen::Never,
        };
        let sink = MediaSink::resume(engine.sink_deps(), wanted, progress, reopen).await;
        let mut sink = match sink {
            Ok(sink) => sink,
            Err(error) => {
                let (id, lease) = (session.id, lease.lease());
                return Err(fail_if_media_lost(engine, id, lease, error).await);
            }
        };
        sink.announce_length(total);
        let space = space.unwrap_or_else(|| engine.media_space(&context));
        let extents = stored.map_or_else(Vec::new, |stored| stored.extents);
        let target = OffsetCommitter::new(engine.commit_rules(), session, lease, extents, total);
        let owner = context.owner();
        Ok(Box::new(Self {
            durable: DurableAppend::new(engine.parts(), sink, target, owner, space),
            engine: engine.clone(),
            context,
            wanted,
            total,
            is_complete,
            is_verified_at_end: false,
            permit,
            guard,
        }))
    }

    /// The committed state of the session.
    fn session(&self) -> &Session {
        &self.durable.target.session
    }

    /// If the total is not known, announces the minimum length of the media to the sink: the
    /// committed bytes and the bytes of this request.
    fn announce_rest(&mut self, body_filter: &BodyFilter) {
        if self.total.is_none() {
            let rest = body_filter.remaining_hint();
            let offset = self.durable.offset();
            self.durable.announce_length(rest.map(|rest| offset + rest));
        }
    }

    /// Takes room on the disk and in the quota for the bytes that the client has declared.
    ///
    /// # Errors
    /// Before the body is read, if there is no room for the bytes of this request.
    async fn reserve_declared(&mut self, body_filter: &BodyFilter) -> Result<(), Error> {
        let offset = self.durable.offset();
        let request = body_filter.remaining_hint();
        let rest = body_filter
            .total()
            .map(|total| total.saturating_sub(offset));
        let in_vault = |rest: &u64| offset + rest > self.engine.small_media_limit() as u64;
        let declared = rest.or(request).filter(in_vault).unwrap_or(0);
        match self.durable.set_aside(declared, Leaving::Hard) {
            // There is not enough room for the whole rest. Without this request's bytes the
            // committed bytes would be useless, and there may be more room for the next requests.
            Err(_) if offset > 0 => {
                let request = request.unwrap_or(0);
                self.durable.set_aside(request, Leaving::Hard)?;
            }
            done => done?,
        }
        let end = offset.saturating_add(rest.or(request).unwrap_or(0));
        self.durable.declare(self.engine.parts(), end).await
    }

    /// Reads the body until it ends or something stops it.
    async fn receive(
        &mut self,
        body_filter: &mut BodyFilter,
        stream: &mut impl MediaStream,
    ) -> Stop {
        loop {
            let step = tokio::select! {
                // In order of urgency: a client whose bytes are always ready must not delay a
                // takeover or the end of the server.
                biased;
                () = self.guard.superseded() => return Stop::Superseded,
                () = self.engine.parts().lifecycle.drain_now.cancelled() => return Stop::Draining,
                step = self.durable.next_step(stream) => step,
            };
            let data = match step {
                Step::Stream(Ok(Some(data))) => data,
                Step::Stream(Ok(None)) => return Stop::Complete,
                Step::Stream(Err(error)) => return Stop::Broken(error),
                Step::Pause => match Box::pin(self.durable.write_now()).await {
                    Ok(()) => continue,
                    Err(error) => return Stop::Storage(error),
                },
                Step::Checkpoint(Ok(())) => {
                    stream.committed(self.session().progress.offset);
                    continue;
                }
                Step::Checkpoint(Err(error)) => return Stop::Storage(error),
            };
            let kept = match body_filter.accept(data) {
                Ok(kept) => kept,
                Err(error) => return Stop::Refused(error),
            };
            let is_last = stream.is_at_end();
            let stored = self.durable.store(self.engine.parts(), kept, is_last);
            if let Err(error) = stored.await {
                return Stop::Storage(error);
            }
        }
    }

    /// Ends the request as `stop` requires.
    ///
    /// If `stop` is an error that ends the session, or a storage error other than a full disk, an
    /// exhausted quota or a store that is not available now, the bytes that are not durable yet are
    /// lost. Otherwise they are made durable and committed, except the bytes of an incomplete stream
    /// that is verified at its end. The reply then depends on `stop`.
    async fn end(
        mut self: Box<Self>,
        stop: Stop,
        body_filter: BodyFilter,
        expected_digests: ExpectedDigests,
        stream: impl MediaStream,
    ) -> Result<SessionReply<C::Reply>, Error> {
        // Before the flush: bytes of a session that fails need not be durable.
        if let Stop::Refused(error) = &stop
            && error.ends_session()
        {
            let error = self.engine.completion().explain(&self.context, *error);
            return Err(self.fail(error).await);
        }
        let stop = match stop {
            // After a failed write the file may lack bytes, and a later sync may succeed without
            // them (docs/durability.md, fail-stop). So nothing more is synced or committed. Only
            // the checkpoint that is running already may end: its bytes were written without an
            // error before it began. A full disk is no such fault: the vault states how many bytes
            // it has written. Neither is a quota, nor a store that is not available now: it has
            // done nothing. If it is unknown whether a checkpoint was committed, nothing more is
            // done with the session either: the client queries it.
            Stop::Storage(error) if !error.keeps_what_is_durable() => {
                let running = self.durable.target.join().await;
                // A fault has to stop the server. `run_to_completion` examines only the returned
                // error. If the checkpoint has failed as well, the returned error is the
                // checkpoint's, so the error of `stop` is examined here.
                self.engine.parts().lifecycle.examine(&error);
                let reported = running.err().map_or(error, Error::from);
                return Err(self.fail_if_media_lost(reported).await);
            }
            stop => stop,
        };
        let is_unverified = self.is_verified_at_end && !matches!(stop, Stop::Complete);
        let flushed = if is_unverified {
            Ok((self.discard_unverified().await, None))
        } else {
            let is_end = is_last(&stop, &body_filter);
            self.flush(is_end).await
        };
        let (flushed, refused) = match flushed {
            Ok(flushed) => flushed,
            // Another process has taken the session, and may finish the same upload.
            Err(error) if error.is_fenced() && is_last(&stop, &body_filter) => {
                let (engine, id) = (self.engine.clone(), self.session().id);
                drop(self);
                let reply = engine.reply_of_newer(id, body_filter.position()).await;
                return reply.map(SessionReply::Final);
            }
            Err(error) => {
                return Err(self.fail_if_media_lost(error).await);
            }
        };
        // The stores have not taken all bytes. What is stored is committed, but the request gets an
        // error: some clients ignore the `Range` of the reply, which states the committed bytes, and
        // would take the whole chunk as stored.
        if let Some(refused) = refused {
            return Err(self.commit_and(flushed, refused).await);
        }
        match stop {
            Stop::Complete => self.complete(body_filter, flushed, expected_digests).await,
            Stop::Refused(error) => Err(self.commit_and(flushed, error.into()).await),
            Stop::Broken(error) => Err(self.commit_and(flushed, interrupted(error)).await),
            Stop::Draining => Err(self.commit_and(flushed, Error::Draining).await),
            Stop::Storage(error) => Err(self.commit_and(flushed, error).await),
            // The newer request is waiting for the guard, so this one commits before it reads the
            // rest of its body.
            Stop::Superseded => {
                let position = body_filter.position();
                self.yield_to_newer(flushed, position, stream).await
            }
        }
    }

    /// Makes the accepted bytes durable, as [`DurableAppend::flush`].
    async fn flush(&mut self, is_end: bool) -> Result<(FlushedMedia, Option<Error>), Error> {
        let (mut flushed, refused) = self.durable.flush(self.engine.parts(), is_end).await?;
        flushed.progress.total = self.total;
        Ok((flushed, refused))
    }

    /// Flushes a sink that has received no bytes from this request.
    async fn flush_committed(&mut self) -> Result<FlushedMedia, Error> {
        match self.flush(true).await? {
            (flushed, None) => Ok(flushed),
            // There were bytes to write: small media that moves from the ledger to the vault,
            // because the limit was lowered in the meantime. Or a sync was refused.
            (_, Some(refused)) => Err(refused),
        }
    }

    /// Discards the bytes that this request has received, and returns the committed state.
    async fn discard_unverified(&mut self) -> FlushedMedia {
        if self.durable.target.has_media_in_vault() {
            // The media has committed bytes.
            let OffsetCommitter {
                session, extents, ..
            } = &self.durable.target;
            let mut stored = StoredMedia::new(
                session.progress.media.expect("it is in the vault").id,
                session.progress.offset,
            );
            stored.extents.clone_from(extents);
            self.durable.cut_off(&stored).await;
        } else {
            self.durable.discard().await;
        }
        FlushedMedia {
            progress: self.session().progress.clone(),
            small_bytes: None,
        }
    }

    /// Handles a body that was read to its end: reports the committed offset, or finishes the
    /// upload.
    async fn complete(
        mut self: Box<Self>,
        body_filter: BodyFilter,
        flushed: FlushedMedia,
        expected_digests: ExpectedDigests,
    ) -> Result<SessionReply<C::Reply>, Error> {
        match body_filter.end(Ending::Complete) {
            Ok(Outcome::Finished { .. }) => Box::pin(self.finish(flushed, expected_digests))
                .await
                .map(SessionReply::Final),
            // `Interrupted` is the outcome of a broken body only.
            Ok(Outcome::Committed | Outcome::Interrupted) => {
                self.durable
                    .target
                    .commit(flushed, SessionState::Active)
                    .await?;
                Ok(SessionReply::Committed(self.keep_cached()))
            }
            Err(error) => Err(self.commit_and(flushed, error.into()).await),
        }
    }

    /// Leaves the session in the cache for its next request. Returns what is committed.
    fn keep_cached(self) -> Committed {
        let Self {
            engine,
            context,
            durable,
            permit,
            guard,
            ..
        } = self;
        let (target, media, space) = durable.into_parts();
        let OffsetCommitter {
            session,
            lease,
            extents,
            ..
        } = target;
        let lease = lease.lease();
        let committed = Committed::of(&session, &session.dialect);
        engine.cache().put(CachedSession {
            session,
            lease,
            context,
            extents,
            media,
            // The next chunk needs the space that is set aside. Another upload could take it in
            // between.
            space: Some(space).filter(MediaSpace::holds_bytes),
            since: engine.parts().clock.now(),
        });
        drop(permit);
        drop(guard);
        committed
    }

    /// Commits the durable bytes of a request that ends with `error`. Returns the error for the
    /// reply: the commit's if it fails, since that may be a storage fault, and otherwise `error`.
    async fn commit_and(mut self: Box<Self>, flushed: FlushedMedia, error: Error) -> Error {
        // Small media that moves to the vault is written there again from its first byte. If the
        // vault has not taken that, the committed bytes stay where they are.
        if flushed.progress.offset < self.session().progress.offset {
            if !self.durable.target.has_media_in_vault() {
                self.durable.discard().await;
            }
            return error;
        }
        match self
            .durable
            .target
            .commit(flushed, SessionState::Active)
            .await
        {
            Ok(()) => error,
            Err(commit_error) => commit_error,
        }
    }

    /// Commits, releases the session to a newer request, and waits for the newer request. Returns
    /// the final reply if the newer request finishes the upload, so that two requests with the same
    /// last bytes get the same reply.
    async fn yield_to_newer(
        mut self: Box<Self>,
        flushed: FlushedMedia,
        position: u64,
        stream: impl MediaStream,
    ) -> Result<SessionReply<C::Reply>, Error> {
        self.durable
            .target
            .commit(flushed, SessionState::Active)
            .await?;
        let engine = self.engine.clone();
        let id = self.session().id;
        // Releases the media, the permit and the guard. The newer request needs them, and the rest
        // of this body may take hours.
        drop(self);
        let reply = engine.yield_to_newer(id, position, stream);
        reply.await.map(SessionReply::Final)
    }

    /// Creates the resource. Afterwards the session is
    ///
    /// - *finished* on success,
    /// - *failed* after an error that the upload itself has caused,
    /// - *finishing* after another error of the creation: the server tries again later. Small media
    ///   with a storage fault during its finish stays as the fault left it: *active* or *finished*,
    /// - unchanged after an error before the creation.
    async fn finish(
        mut self: Box<Self>,
        mut flushed: FlushedMedia,
        expected_digests: ExpectedDigests,
    ) -> Result<C::Reply, Error> {
        let length = flushed.progress.offset;
        flushed.progress.total = Some(length);
        let known = self.durable.digests(self.wanted, &flushed).await;
        match &known {
            // Checked before the session becomes *finishing*, if that is possible.
            Some(digests) => {
                if let Err(mismatch) = expected_digests.check(digests) {
                    return Err(self.fail(mismatch.into()).await);
                }
            }
            // Computed from the sealed media, and checked then, perhaps after a crash.
            None => flushed.progress.expected_digests = expected_digests.encode(),
        }
        if self.context.are_details_dropped() {
            self.context = self.engine.context(self.session().id).await?;
        }
        let readable = self.make_readable(&flushed, known, expected_digests);
        let ended = match readable.await {
            Ok((seal, digests)) => self.finish_readable(flushed, seal, digests).await,
            Err(error) if error.is_media_lost() => {
                return Err(self.fail_if_media_lost(error).await);
            }
            Err(error) => Err(error),
        };
        match ended {
            Ok(reply) => {
                self.durable.target.lease.set_released();
                Ok(reply)
            }
            // Another process has taken the session, and may finish the same upload.
            Err(error) if error.is_fenced() => {
                let (engine, id) = (self.engine.clone(), self.session().id);
                drop(self);
                engine.reply_of_newer(id, length).await
            }
            Err(error) if error.is_permanent() => Err(self.fail(error).await),
            // The upload did not cause the error. The session is left *finishing*, and the server
            // tries again later.
            Err(error) => Err(error),
        }
    }

    /// Makes media readable that is durable and complete, and returns its digests. Media in the vault
    /// is committed first, so that the server itself finishes the upload after a crash. Small media
    /// needs no such commit: the transaction that finishes the session also stores it.
    async fn make_readable(
        &mut self,
        flushed: &FlushedMedia,
        known: Option<Digests>,
        expected: ExpectedDigests,
    ) -> Result<(Seal, Digests), Error> {
        let progress = &flushed.progress;
        let at = progress.media.expect("a flushed sink names its media");
        let seal = match at.location {
            MediaLocation::Vault => self.commit_and_seal(flushed.clone()).await?,
            MediaLocation::Ledger => Seal::default(),
        };
        if let Some(digests) = known {
            return Ok((seal, digests));
        }
        let handle = seal.handle.clone();
        let engine = &self.engine;
        let computed = engine.digests_of_sealed(progress, handle, self.wanted, &expected);
        Ok((seal, computed.await?))
    }

    /// Finishes with media that can be read. If that fails, small media is committed then.
    async fn finish_readable(
        &mut self,
        flushed: FlushedMedia,
        seal: Seal,
        digests: Digests,
    ) -> Result<C::Reply, Error> {
        let progress = flushed.progress.clone();
        let content_type = self.context.content_type();
        let media = media_of(content_type, &progress, seal.handle.clone(), digests);
        let is_small = media.at.location == MediaLocation::Ledger;
        let finished = FinishedMedia::uploaded(media, flushed.small_bytes.clone());
        let session_ref = SessionRef {
            id: self.session().id,
            lease: self.durable.target.lease.lease(),
            progress,
            seal,
        };
        let ended = finish(&self.engine, &self.context, &finished, Some(&session_ref)).await;
        if let Err(error) = &ended
            && is_small
            && !error.is_permanent()
            && !error.is_fenced()
            && !error.is_fault()
            // No commit may follow: its own error, such as `Fenced`, would hide the first one.
            && !error.leaves_outcome_unknown()
        {
            let target = &mut self.durable.target;
            target.commit(flushed, SessionState::Finishing).await?;
        }
        ended
    }

    /// Records that all bytes are there, and makes the media readable.
    async fn commit_and_seal(&mut self, flushed: FlushedMedia) -> Result<Seal, Error> {
        // The commit replaces it.
        let unverified = self.session().progress.extent.filter(|_| self.is_complete);
        let target = &mut self.durable.target;
        target.commit(flushed, SessionState::Finishing).await?;
        Failpoint::Finishing.reach();
        let vault = &*self.engine.parts().stores.vault;
        target
            .seal(vault, unverified, SessionState::Finishing)
            .await
    }

    /// As the function [`fail_if_media_lost`], for this request's session.
    async fn fail_if_media_lost(&self, error: Error) -> Error {
        let OffsetCommitter { session, lease, .. } = &self.durable.target;
        fail_if_media_lost(&self.engine, session.id, lease.lease(), error).await
    }

    /// Ends the session as failed, unless it continues under a newer lease. Returns the error for
    /// the reply.
    async fn fail(mut self: Box<Self>, error: Error) -> Error {
        // A checkpoint that is still running could otherwise name the media that is deleted below.
        let running = self.durable.target.join().await;
        // It is unknown what the row names, so nothing is ended or deleted.
        if let Err(unknown) = &running
            && unknown.leaves_outcome_unknown()
        {
            self.engine.parts().lifecycle.examine(unknown);
            return running.err().unwrap_or(error);
        }
        let lease = self.durable.target.lease.lease();
        let failed = self.engine.fail(self.session().id, lease).await;
        if matches!(failed, FailOutcome::Recorded) && !self.durable.target.has_media_in_vault() {
            // The session has failed, and its row did not name media in the vault. No row therefore
            // names the bytes that this request has written there. The sweep would delete them only
            // a day later.
            self.durable.discard().await;
        }
        running
            .err()
            .map_or_else(|| failed.error_for_reply(error), Error::from)
    }
}

/// Whether the body was read to its end, and its last byte is the last one of the media.
fn is_last(stop: &Stop, body_filter: &BodyFilter) -> bool {
    let outcome = body_filter.clone().end(Ending::Complete);
    matches!(
        (stop, outcome),
        (Stop::Complete, Ok(Outcome::Finished { .. }))
    )
}

/// Returns the error for the reply when a session's media cannot be opened or written. If committed
/// bytes are lost, ends the session as failed.
///
/// Bytes that cannot be found need not be lost. A request with a newer lease, perhaps of another
/// process, may have moved them from the ledger to the vault, or may have finished the session. The
/// ledger tells the two cases apart: it accepts the end of a session only under the newest lease.
async fn fail_if_media_lost<C: Completion>(
    engine: &Engine<C>,
    id: SessionId,
    lease: Lease,
    error: Error,
) -> Error {
    match error {
        // An upload never continues without acknowledged bytes (docs/durability.md).
        error if error.is_media_lost() => {
            let failed = engine.fail(id, lease).await;
            match failed {
                FailOutcome::Recorded => {
                    tracing::error!(session = ?id, %error, "committed bytes are lost; the session ends");
                }
                FailOutcome::Unrecorded(_) => tracing::error!(
                    session = ?id,
                    %error,
                    "committed bytes were not found; whether the session has ended is unknown"
                ),
                FailOutcome::Fenced => {}
            }
            failed.error_for_reply(SessionError::Gone.into())
        }
        error => error,
    }
}
