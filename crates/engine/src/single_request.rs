//! Uploads of one request. They have no session, so the client must repeat the whole request if it
//! breaks.

use bytes::Bytes;
use windlass_digest::{ExpectedDigests, Wanted};
use windlass_session::{BodyFilter, BodyLength, Ending};
use windlass_store::{ExpectedSize, Failpoint, NEW_MEDIA_LIFETIME, Timestamp};

use crate::completion::{Completion, FinishedMedia, UploadContext as _};
use crate::disks::Leaving;
use crate::durable_append::{DurableAppend, NoSession, Step};
use crate::engine::Engine;
use crate::error::{Error, FromStore};
use crate::finish::{finish, media_of};
use crate::importance::Importance;
use crate::media_stream::MediaStream;
use crate::pool::Permit;
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
    durable: DurableAppend<NoSession>,
    /// Digests to compute in addition to CRC32C.
    wanted: Wanted,
    /// The last time at which the media may be named.
    not_after: Option<Timestamp>,
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
        let mut sink = MediaSink::new(engine.sink_deps(), terms.wanted);
        if let MediaLength::Exact(length) = length {
            sink.announce_length(Some(length));
        }
        let space = engine.media_space(&context);
        let target = NoSession::default();
        let mut durable = DurableAppend::new(parts, sink, target, context.owner(), space);
        if let MediaLength::Exact(length) = length {
            let length = Some(length);
            durable.expect(ExpectedSize {
                total: length,
                first_request: length,
            });
        }
        durable.declare(parts, declared).await?;
        let in_vault = |bytes: &u64| *bytes > engine.small_media_limit() as u64;
        let expected = Some(declared.max(at_most)).filter(in_vault);
        durable.set_aside(expected.unwrap_or(0), Leaving::Soft)?;
        Ok(Self {
            expected_digests: context.expected_digests(),
            body_filter,
            durable,
            not_after: engine.parts().stores.ledger.deadline(NEW_MEDIA_LIFETIME),
            engine,
            context,
            wanted: terms.wanted,
            _permit: permit,
        })
    }

    /// Stores a stream that is the media.
    async fn receive(&mut self, stream: &mut impl WholeMedia) -> Result<(), Error> {
        while let Some(data) = self.next_data(stream).await? {
            let data = self.body_filter.accept(data)?;
            let is_last = stream.is_at_end();
            let stored = self.durable.store(self.engine.parts(), data, is_last);
            stored.await?;
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
        loop {
            let step = tokio::select! {
                // The drain first: bytes of a fast client are always ready and would hide it.
                biased;
                () = self.engine.parts().lifecycle.drain_now.cancelled() => {
                    return Err(Error::Draining);
                }
                step = self.durable.next_step(stream) => step,
            };
            match step {
                Step::Stream(data) => return data,
                Step::Pause => Box::pin(self.durable.write_now()).await?,
                Step::Checkpoint(ended) => ended?,
            }
        }
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
        let flushed = match self.durable.flush(self.engine.parts(), true).await? {
            (flushed, None) => flushed,
            // Media with a gap is of no use.
            (_, Some(refused)) => return Err(refused),
        };
        Failpoint::SingleRequestSynced.reach();
        let progress = &flushed.progress;
        let known = self.durable.digests(self.wanted, &flushed).await;
        if let Some(digests) = &known {
            self.expected_digests.check(digests)?;
        }
        let handle = self.seal().await?;
        let digests = if let Some(digests) = known {
            digests
        } else {
            let (handle, expected) = (handle.clone(), &self.expected_digests);
            let engine = &self.engine;
            let computed = engine.digests_of_sealed(progress, handle, self.wanted, expected);
            computed.await?
        };
        let media = media_of(self.context.content_type(), progress, handle, digests);
        let finished = FinishedMedia {
            not_after: self.not_after,
            ..FinishedMedia::uploaded(media, flushed.small_bytes)
        };
        finish(&self.engine, &self.context, &finished, None).await
    }

    /// Makes the media readable. Returns its handle, which is empty for small media.
    async fn seal(&mut self) -> Result<Bytes, Error> {
        match self.durable.uncommitted_media() {
            None => Ok(Bytes::new()),
            Some(mut stored) => {
                let handle = self.engine.seal_unnamed(&mut stored).await?;
                self.durable.set_uncommitted(stored.extents);
                Ok(handle)
            }
        }
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
            self.durable.discard().await;
        }
        error
    }
}
