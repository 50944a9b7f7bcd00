//! The bytes of one request to a session: from the body to a commit.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use windlass_proto::digest::{ExpectedDigests, Wanted};
use windlass_proto::session::{BodyFilter, Ending, Outcome, SessionError};
use windlass_store::{
    Failpoint, LedgerError, MediaLocation, MediaRef, Progress, Session, SessionState, VaultError,
};

use super::ServerState;
use super::finish::{FinalReply, FinishedMedia, SessionRef, is_final, media_of};
use super::offset_committer::OffsetCommitter;
use super::request::UploadRequest;
use super::session::{LockedSession, SessionReply};
use super::session_cache::CachedSession;
use super::sink::{FlushedMedia, MediaSink};
use crate::body::RequestBody;
use crate::capacity::Permit;
use crate::error::{BodyError, Error};
use crate::locks::SessionGuard;

/// One request that appends. Boxed, since it is handed on while it waits, a thousand at a time.
struct Append {
    server: Arc<ServerState>,
    request: UploadRequest,
    guard: SessionGuard,
    sink: MediaSink,
    wanted: Wanted,
    /// The total that this request fixes.
    total: Option<u64>,
    /// Whether the body is gzip. Its checksum comes last, so nothing of it is committed before its end.
    is_gzip: bool,
    offset_committer: OffsetCommitter,
    _permit: Permit,
}

/// Why no more of a body is read.
enum Stop {
    Complete,
    Broken(BodyError),
    Refused(SessionError),
    Superseded,
    Draining,
    Storage(Error),
}

impl ServerState {
    /// Appends the body to the session, and finishes the upload if these were its last bytes.
    ///
    /// However the request ends, what arrived in order is committed, unless the session has to
    /// fail. A gzip body is committed as a whole, or not at all.
    pub(super) fn append(
        self: Arc<Self>,
        locked: Box<LockedSession>,
        mut intake: BodyFilter,
        expected: ExpectedDigests,
        mut body: RequestBody,
    ) -> BoxFuture<'static, Result<SessionReply, Error>> {
        // An `async fn` would hold each of its arguments twice while it waits.
        async move {
            self.admit_media()?;
            let expected = locked.request.expected.merge(expected)?;
            let open = Append::open(&self, locked, intake.total(), expected);
            let mut append = Box::pin(open).await?;
            append.is_gzip = body.is_gzip();
            append.expect_rest(&intake);
            let stop = append.receive(&mut intake, &mut body).await;
            // Boxed, so that a slow upload holds no room for what comes at its end.
            Box::pin(append.end(stop, intake, expected, body)).await
        }
        .boxed()
    }

    /// Finishes a session all of whose bytes are committed already.
    pub(super) async fn finish_committed(
        self: Arc<Self>,
        locked: Box<LockedSession>,
        total: u64,
        expected: ExpectedDigests,
    ) -> Result<FinalReply, Error> {
        let expected = locked.request.expected.merge(expected)?;
        let mut append = Append::open(&self, locked, Some(total), expected).await?;
        let (flushed, _) = append.flush_and_sync().await?;
        Box::pin(append.finish(flushed, expected)).await
    }

    /// Finishes a session that is in state finishing. Its digests have been checked.
    pub(super) async fn finish_stored(
        self: Arc<Self>,
        locked: Box<LockedSession>,
    ) -> Result<FinalReply, Error> {
        let total = locked.session.progress.total;
        let mut append = Append::open(&self, locked, total, ExpectedDigests::default()).await?;
        let (flushed, _) = append.flush_and_sync().await?;
        Box::pin(append.finish(flushed, ExpectedDigests::default())).await
    }
}

impl Append {
    async fn open(
        server: &Arc<ServerState>,
        locked: Box<LockedSession>,
        total: Option<u64>,
        expected: ExpectedDigests,
    ) -> Result<Box<Self>, Error> {
        let LockedSession {
            session,
            request,
            media,
            guard,
        } = *locked;
        let place = server.capacity.uploads.take()?;
        let method = request.method(&server.registry)?;
        let wanted = request.wanted(method).or(expected.wanted());
        let sink = MediaSink::resume(server.sink_deps(), wanted, &session.progress, media).await;
        let mut sink = match sink {
            Ok(sink) => sink,
            Err(error) => return Err(lost(server, &session, error).await),
        };
        sink.expect(total);
        Ok(Box::new(Self {
            offset_committer: OffsetCommitter::new(server, session, total),
            server: Arc::clone(server),
            request,
            guard,
            sink,
            wanted,
            total,
            is_gzip: false,
            _permit: place,
        }))
    }

    /// Notes how much comes with this request, where only that is known.
    fn expect_rest(&mut self, intake: &BodyFilter) {
        if self.total.is_none() {
            let rest = intake.remaining_hint();
            self.sink.expect(rest.map(|rest| self.sink.offset() + rest));
        }
    }

    /// Reads the body to its end or until something stops it.
    async fn receive(&mut self, intake: &mut BodyFilter, body: &mut RequestBody) -> Stop {
        loop {
            let piece = tokio::select! {
                biased;
                () = self.guard.superseded() => return Stop::Superseded,
                () = self.server.lifecycle.drain_now.cancelled() => return Stop::Draining,
                piece = body.next() => piece,
                () = tokio::time::sleep_until(self.offset_committer.next()), if self.is_uncommitted() => {
                    match Box::pin(self.checkpoint()).await {
                        Ok(()) => continue,
                        Err(error) => return Stop::Storage(error),
                    }
                }
                // A commit that failed is told at once, and one that is done holds no task.
                joined = self.offset_committer.join(), if self.offset_committer.running.is_some() => match joined {
                    Ok(()) => continue,
                    Err(error) => return Stop::Storage(error),
                },
            };
            let data = match piece {
                Ok(Some(data)) => data,
                Ok(None) => return Stop::Complete,
                Err(error) => return Stop::Broken(error),
            };
            match intake.accept(data) {
                Ok(kept) => {
                    if let Err(error) = self.store(kept, body.is_at_end()).await {
                        return Stop::Storage(error);
                    }
                }
                Err(error) => return Stop::Refused(error),
            }
        }
    }

    /// Makes durable what was received, and does what why it ended asks for.
    async fn end(
        mut self: Box<Self>,
        stop: Stop,
        intake: BodyFilter,
        expected: ExpectedDigests,
        body: RequestBody,
    ) -> Result<SessionReply, Error> {
        if let Stop::Refused(error) = &stop
            && error.ends_session()
        {
            return Err(self.fail((*error).into()).await);
        }
        let stop = match stop {
            // Bytes that were taken may be missing: a later sync would not tell.
            Stop::Storage(error) if !is_full(&error) => {
                let pending = self.offset_committer.join().await;
                let graver = pending.err().unwrap_or(error);
                return Err(lost(&self.server, &self.offset_committer.session, graver).await);
            }
            stop => stop,
        };
        let is_unverified = self.is_gzip && !matches!(stop, Stop::Complete);
        let flushed = if is_unverified {
            Ok((self.discard_unverified().await, false))
        } else {
            self.flush_and_sync().await
        };
        let (flushed, full) = match flushed {
            Ok(flushed) => flushed,
            // As when the session expired meanwhile and its media was swept.
            Err(error) => {
                return Err(lost(&self.server, &self.offset_committer.session, error).await);
            }
        };
        match stop {
            // Less was stored than the body held. It is kept, but a chunk that came whole is never
            // acknowledged in part: not every client looks at how much was kept.
            _ if full => Err(self.commit_and(flushed, Error::NoSpace).await),
            Stop::Complete => self.complete(intake, flushed, expected).await,
            Stop::Refused(error) => Err(self.commit_and(flushed, error.into()).await),
            Stop::Broken(error) => Err(self.commit_and(flushed, Error::Interrupted(error)).await),
            Stop::Draining => Err(self.commit_and(flushed, Error::Draining).await),
            Stop::Storage(error) => Err(self.commit_and(flushed, error).await),
            Stop::Superseded => self.yield_to_newer(flushed, body).await,
        }
    }

    /// Takes bytes, and has them written when they are many. The last ones of the request are left to its end, which
    /// writes and syncs in one go.
    async fn store(&mut self, mut data: Bytes, is_last: bool) -> Result<(), Error> {
        while !data.is_empty() {
            self.sink.take(&mut data);
            let is_done = is_last && data.is_empty();
            if !is_done && !self.sink.has_room() {
                Box::pin(self.make_room()).await?;
            }
        }
        Ok(())
    }

    /// Has the batch written, unless the write before it gives memory back in which more can be taken.
    async fn make_room(&mut self) -> Result<(), Error> {
        let earlier = self.sink.await_write().await?;
        let mut latest = None;
        if !self.sink.has_room() {
            self.server.admit_write(self.sink.waiting())?;
            let due = self.offset_committer.due(self.sink.offset()) && !self.is_gzip;
            latest = self.sink.write(due).await?;
        }
        for checkpoint in earlier.into_iter().chain(latest) {
            self.offset_committer.spawn_commit(checkpoint).await?;
        }
        Ok(())
    }

    /// Whether there are bytes that a checkpoint would make durable. What may be small media still waits for the end
    /// of its request.
    fn is_uncommitted(&self) -> bool {
        let is_new =
            self.sink.offset() > self.offset_committer.scheduled || self.sink.owes_checkpoint();
        is_new && self.sink.is_large()
    }

    /// Commits what has come although there is not much of it: the client is slow. What may not be committed yet is
    /// written all the same, so that it does not wait in memory.
    async fn checkpoint(&mut self) -> Result<(), Error> {
        self.server.admit_write(self.sink.waiting())?;
        self.offset_committer.note_checkpoint(self.sink.offset());
        let earlier = self.sink.write(!self.is_gzip).await?;
        let latest = self.sink.write(false).await?;
        for checkpoint in earlier.into_iter().chain(latest) {
            self.offset_committer.spawn_commit(checkpoint).await?;
        }
        Ok(())
    }

    /// Makes durable what was taken. When the disk is full, that is only what was written before;
    /// the flag says so.
    async fn flush_and_sync(&mut self) -> Result<(FlushedMedia, bool), Error> {
        self.server.count_last_write(&self.sink);
        let (flushed, full) = match self.sink.flush_and_sync().await {
            Err(Error::Vault(VaultError::NoSpace { .. })) => {
                (self.sink.flush_and_sync().await, true)
            }
            flushed => (flushed, false),
        };
        self.offset_committer.join().await?;
        let mut flushed = flushed?;
        flushed.progress.total = self.total;
        Ok((flushed, full))
    }

    /// Discards what this request has received. Bytes in the vault behind the committed offset are cut off when the
    /// session is continued.
    async fn discard_unverified(&mut self) -> FlushedMedia {
        let progress = self.offset_committer.session.progress.clone();
        let is_in_vault = |media: MediaRef| media.location == MediaLocation::Vault;
        if progress.media.is_some_and(is_in_vault) {
            self.sink.stop_writing().await;
        } else {
            self.sink.discard().await;
        }
        FlushedMedia {
            progress,
            small_media: None,
        }
    }

    /// The body has come to its end: reports, or finishes.
    async fn complete(
        mut self: Box<Self>,
        intake: BodyFilter,
        flushed: FlushedMedia,
        expected: ExpectedDigests,
    ) -> Result<SessionReply, Error> {
        match intake.end(Ending::Complete) {
            Ok(Outcome::Finished { total }) => {
                self.total = Some(total);
                Box::pin(self.finish(flushed, expected))
                    .await
                    .map(SessionReply::Final)
            }
            Ok(Outcome::Committed | Outcome::Interrupted) => {
                let progress = flushed.progress.clone();
                self.offset_committer
                    .commit(flushed, SessionState::Active)
                    .await?;
                Ok(SessionReply::Committed(self.keep_cached(progress)))
            }
            Err(error) => Err(self.commit_and(flushed, error.into()).await),
        }
    }

    /// Leaves the session for the next request. Returns how much is committed.
    fn keep_cached(self: Box<Self>, progress: Progress) -> u64 {
        let Self {
            server,
            request,
            guard,
            sink,
            offset_committer,
            ..
        } = *self;
        let offset = progress.offset;
        let mut session = offset_committer.session;
        session.progress = progress;
        server.session_cache.put(CachedSession {
            session,
            request,
            media: sink.into_open(),
            since: server.clock.now(),
        });
        drop(guard);
        offset
    }

    /// Commits what there is although the request ends with `error`; the graver error is answered.
    async fn commit_and(mut self: Box<Self>, flushed: FlushedMedia, error: Error) -> Error {
        match self
            .offset_committer
            .commit(flushed, SessionState::Active)
            .await
        {
            Ok(()) => error,
            Err(graver) => graver,
        }
    }

    /// A newer request wants the session: commits, lets go, and answers what becomes of it, so
    /// that two requests with the same last bytes get the same reply.
    async fn yield_to_newer(
        mut self: Box<Self>,
        flushed: FlushedMedia,
        body: RequestBody,
    ) -> Result<SessionReply, Error> {
        self.offset_committer
            .commit(flushed, SessionState::Active)
            .await?;
        let Self {
            server,
            offset_committer,
            guard,
            ..
        } = *self;
        drop(guard);
        server
            .yield_to_newer(offset_committer.session.id, body)
            .await
    }

    /// Makes the resource. From here on the upload is finished, failed, or finishing.
    async fn finish(
        mut self: Box<Self>,
        mut flushed: FlushedMedia,
        expected: ExpectedDigests,
    ) -> Result<FinalReply, Error> {
        flushed.progress.total = Some(flushed.progress.offset);
        let digests = self.sink.digests(self.wanted).await?;
        if let Err(mismatch) = expected.check(&digests) {
            return Err(self.fail(mismatch.into()).await);
        }
        if self.request.is_metadata_dropped() {
            self.request = self
                .server
                .remembered_request(self.offset_committer.session.id)
                .await?;
        }
        let media = media_of(&self.request, &flushed.progress, digests);
        let finished = FinishedMedia {
            small_media: flushed
                .small_media
                .clone()
                .map(|bytes| (media.at.id, bytes)),
            media,
        };
        let session_ref = SessionRef {
            id: self.offset_committer.session.id,
            epoch: self.offset_committer.session.epoch,
            progress: flushed.progress.clone(),
        };
        let in_vault = finished.media.at.location == MediaLocation::Vault;
        if in_vault {
            self.offset_committer
                .commit(flushed.clone(), SessionState::Finishing)
                .await?;
            Failpoint::Finishing.reach();
        }
        match self
            .server
            .finish(&self.request, &finished, Some(&session_ref))
            .await
        {
            Ok(reply) => Ok(reply),
            Err(error) if is_final(&error) => Err(self.fail(error).await),
            Err(error) => {
                if !in_vault {
                    self.offset_committer
                        .commit(flushed, SessionState::Finishing)
                        .await?;
                }
                Err(error)
            }
        }
    }

    async fn fail(mut self: Box<Self>, error: Error) -> Error {
        // A commit that is still on its way would otherwise come between.
        let pending = self.offset_committer.join().await;
        let session = &self.offset_committer.session;
        let has_ended = self.server.fail(session.id, session.epoch).await;
        if has_ended && self.offset_committer.is_uncommitted() {
            // No row has ever named it, so that no sweep would find it within a day.
            self.sink.discard().await;
        }
        pending.err().unwrap_or(error)
    }
}

/// Whether there was no room, and else nothing wrong.
fn is_full(error: &Error) -> bool {
    matches!(
        error,
        Error::NoSpace
            | Error::Vault(VaultError::NoSpace { .. })
            | Error::Ledger(LedgerError::NoSpace)
    )
}

/// What to answer when a session's bytes cannot be opened. When they are lost, so is the session.
async fn lost(server: &ServerState, session: &Session, error: Error) -> Error {
    match error {
        Error::MediaLost(_) | Error::Vault(VaultError::Missing(_) | VaultError::Damaged { .. }) => {
            tracing::error!(session = ?session.id, %error, "committed bytes are lost; the session ends");
            server.fail(session.id, session.epoch).await;
            SessionError::Gone.into()
        }
        error => error,
    }
}
