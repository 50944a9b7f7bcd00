//! Uploads of one request. They have no session, so the client must repeat the whole request if it
//! breaks.

use bytes::Bytes;
use tokio::time::Instant;
use windlass_digest::{ExpectedDigests, Wanted};
use windlass_session::{BodyFilter, BodyLength, Ending};
use windlass_store::Failpoint;

use crate::completion::{Completion, FinishedMedia, UploadContext as _};
use crate::disks::{Leaving, MediaSpace};
use crate::engine::{Engine, count_last_write};
use crate::error::{Error, FromStore};
use crate::finish::{finish, media_of};
use crate::importance::Importance;
use crate::media_stream::MediaStream;
use crate::pool::Permit;
use crate::quotas::Reservation;
use crate::sink::MediaSink;

/// The length of media that one request brings.
#[derive(Debug, Clone, Copy)]
pub enum MediaLength {
    /// In bytes.
    Exact(u64),
    /// Known at the end of the stream.
    Unknown {
        /// An upper bound in bytes, for the space on the disk; 0 without one.
        at_most: u64,
    },
}

/// Media that arrives in one request.
struct SingleRequestUpload<C: Completion> {
    engine: Engine<C>,
    context: C::Context,
    /// The digests that the media must have.
    expected_digests: ExpectedDigests,
    /// Refuses bytes beyond the stated length or the size limit.
    body_filter: BodyFilter,
    sink: MediaSink,
    /// Time of the last call of [`Self::write`]. Before the first call, the time at which the
    /// upload was opened.
    last_write: Instant,
    /// Digests to compute in addition to CRC32C.
    wanted: Wanted,
    /// The reserved bytes in the quota of the upload's owner.
    reservation: Reservation,
    /// Number of bytes that the client has declared; 0 if it has declared none.
    declared: u64,
    /// The reserved bytes on the disk.
    space: MediaSpace,
    /// Counts against the limit on running uploads.
    _permit: Permit,
}

/// The media of one request, and what comes after it.
pub trait WholeMedia: MediaStream {
    /// Returns the digests that the client states after the media, at the end of the stream.
    ///
    /// # Errors
    /// If the stream has ended too early, or states no valid digests.
    fn end(&mut self) -> Result<ExpectedDigests, Error> {
        Ok(ExpectedDigests::default())
    }
}

impl<C: Completion> Engine<C> {
    /// Returns the next bytes of a stream, or [`Error::Draining`] when the server tells running
    /// uploads to end.
    ///
    /// # Errors
    /// [`Error::Draining`], or the error of the stream.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next_or_drained(
        &self,
        stream: &mut impl MediaStream,
    ) -> Result<Option<Bytes>, Error> {
        tokio::select! {
            // The drain first: bytes of a fast client are always ready and would hide it.
            biased;
            () = self.parts().lifecycle.drain_now.cancelled() => Err(Error::Draining),
            data = stream.next() => data,
        }
    }

    /// Uploads media in one call, and returns the final reply.
    ///
    /// # Errors
    /// If the upload is refused or fails. Nothing is kept then, except that the outcome may be
    /// unknown after an error of the ledger ([`FromStore::leaves_outcome_unknown`]).
    ///
    /// # Cancel safety
    /// If the future is dropped, a task goes on to read the stream, and finishes the upload if the
    /// stream ends completely.
    pub async fn upload<S: WholeMedia>(
        &self,
        context: C::Context,
        length: MediaLength,
        mut stream: S,
    ) -> Result<C::Reply, Error> {
        let engine = self.clone();
        self.run_to_completion(Box::pin(async move {
            let mut upload = SingleRequestUpload::open(engine, context, length).await?;
            let received = upload.receive(&mut stream).await;
            Box::pin(upload.end(received)).await
        }))
        .await
    }
}

impl<C: Completion> SingleRequestUpload<C> {
    /// Admits an upload.
    async fn open(
        engine: Engine<C>,
        context: C::Context,
        length: MediaLength,
    ) -> Result<Self, Error> {
        engine.admit_upload()?;
        let permit = engine.take_upload(&context, Importance::Start)?;
        let completion = engine.completion();
        completion.admit(&context).await?;
        // Checked before room is reserved: media above the limit never fits, even if there is room.
        let terms = completion.terms(&context, None)?;
        let (stated, declared, at_most) = match length {
            MediaLength::Exact(length) => (BodyLength::Exact(length), length, 0),
            MediaLength::Unknown { at_most } => (BodyLength::Unknown, 0, at_most),
        };
        let body_filter = BodyFilter::single_request(terms.rules.max_size, stated)
            .map_err(|error| completion.explain(&context, error))?;
        let parts = engine.parts();
        let mut reservation = parts.quotas.reservation(context.owner());
        reservation.cover(&*parts.stores.ledger, declared).await?;
        let space = engine.media_space(&context);
        let in_vault = |bytes: &u64| *bytes > engine.small_media_limit() as u64;
        let expected = Some(declared.max(at_most)).filter(in_vault);
        space.set_aside(expected.unwrap_or(0), Leaving::Soft)?;
        let mut sink = MediaSink::new(engine.sink_deps(), terms.wanted);
        if let MediaLength::Exact(length) = length {
            sink.announce_length(Some(length));
        }
        Ok(Self {
            expected_digests: context.expected_digests(),
            body_filter,
            sink,
            last_write: Instant::now(),
            engine,
            context,
            wanted: terms.wanted,
            reservation,
            declared,
            space,
            _permit: permit,
        })
    }

    /// Stores a stream that is the media.
    async fn receive(&mut self, stream: &mut impl WholeMedia) -> Result<(), Error> {
        while let Some(data) = self.next_data(stream).await? {
            let is_last = stream.is_at_end();
            self.store(data, is_last).await?;
        }
        self.body_filter.clone().end(Ending::Complete)?;
        let stated_after = stream.end()?;
        self.expected_digests = self.expected_digests.merge(stated_after)?;
        // Digests that were not computed during the upload are computed from the stored media.
        self.wanted = self.wanted.union(stated_after.wanted());
        Ok(())
    }

    /// Returns the next bytes of the body. If the client is slow, writes the buffered bytes
    /// meanwhile, so that they do not stay in memory.
    async fn next_data(&mut self, stream: &mut impl WholeMedia) -> Result<Option<Bytes>, Error> {
        // Without a session there are no checkpoints, but buffered bytes must not wait longer than
        // the interval of checkpoints here either.
        let timeout = self.engine.parts().checkpoints.interval;
        while self.sink.can_write() {
            let next = self.engine.next_or_drained(stream);
            match tokio::time::timeout_at(self.last_write + timeout, next).await {
                Ok(data) => return data,
                Err(_) => self.write().await?,
            }
        }
        self.engine.next_or_drained(stream).await
    }

    /// Gives bytes to the sink, and lets it write its buffer whenever it is full.
    async fn store(&mut self, data: Bytes, is_last: bool) -> Result<(), Error> {
        let mut data = self.body_filter.accept(data)?;
        let received = self.sink.offset() + data.len() as u64;
        let ledger = &*self.engine.parts().stores.ledger;
        // The declared bytes stay reserved until they have arrived.
        let needed = received.max(self.declared);
        self.reservation.cover(ledger, needed).await?;
        while !data.is_empty() {
            self.sink.accept(&mut data);
            // The last bytes of a request stay in the buffer: `end` writes and syncs in one call.
            let is_done = is_last && data.is_empty();
            if !is_done && !self.sink.find_room() {
                self.make_room().await?;
            }
        }
        Ok(())
    }

    /// Makes room in the sink's full write buffer. Waits for the running write. If the buffer has
    /// no pooled memory, tries again to get it: without a running write the upload has the higher
    /// priority in the pool. If the buffer is still full, writes it.
    async fn make_room(&mut self) -> Result<(), Error> {
        self.sink.await_write().await?;
        if !self.sink.find_room() {
            self.write().await?;
        }
        Ok(())
    }

    /// Lets the sink write its buffer. Pooled bytes may still be in flight when this returns.
    async fn write(&mut self) -> Result<(), Error> {
        let counted = self.space.admit_write(self.sink.buffered_len())?;
        self.sink.write(false, counted).await?;
        self.last_write = Instant::now();
        Ok(())
    }

    /// Creates the resource, or discards the media if that fails.
    async fn end(&mut self, received: Result<(), Error>) -> Result<C::Reply, Error> {
        let finished = match received {
            Ok(()) => self.finish().await,
            Err(error) => Err(error),
        };
        match finished {
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.give_up(error).await),
        }
    }

    /// Flushes the media, checks its digests and creates the resource.
    async fn finish(&mut self) -> Result<C::Reply, Error> {
        let counted = count_last_write(&self.space, &self.sink);
        let flushed = self.sink.flush_and_sync().await?;
        drop(counted);
        Failpoint::SingleRequestSynced.reach();
        let digests = self.sink.digests(self.wanted, &flushed).await?;
        self.expected_digests.check(&digests)?;
        let media = media_of(self.context.content_type(), &flushed.progress, digests);
        let finished = FinishedMedia::uploaded(media, flushed.small_bytes);
        finish(&self.engine, &self.context, &finished, None).await
    }

    /// Discards the media of a failed upload. Returns the error for the reply.
    async fn give_up(&mut self, error: Error) -> Error {
        let error = match error {
            Error::Session(error) => self.engine.completion().explain(&self.context, error),
            error => error,
        };
        // It may be unknown whether the resource was committed with this media. If no row names the
        // media, the sweep deletes it a day later.
        if !error.leaves_outcome_unknown() {
            self.sink.discard().await;
        }
        error
    }
}
