//! Uploads of one request: simple, multipart, and embedded in JSON. They have no session, so the
//! client must repeat the whole request if it breaks. Their start request is their only request.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::time::Instant;
use windlass_digest::{ExpectedDigests, Wanted};
use windlass_engine::disks::{Leaving, MediaSpace};
use windlass_engine::quotas::Reservation;
use windlass_engine::sink::MediaSink;
use windlass_engine::{Error as EngineError, Importance, Permit};
use windlass_proto::command::{BodyLength, MultipartHead, SimpleHead};
use windlass_proto::expected_digests;
use windlass_proto::metadata::{MetadataLimits, parse_metadata};
use windlass_proto::related::{
    Piece as BodyPiece, RelatedError, RelatedLimits, Splitter, ThirdPart,
};
use windlass_proto::session::{BodyFilter, Ending};
use windlass_store::{Failpoint, LedgerError};

use super::finish::{FinalReply, FinishedMedia, admit, finish, media_of};
use super::start_request::{StartRequest, UploadHead};
use super::{ServerState, count_last_write, run_to_completion};
use crate::body::RequestBody;
use crate::context::Principal;
use crate::error::Error;
use crate::handler::Embedded;
use crate::registry::ServedMethod;

/// Media that arrives in one request.
struct SingleRequestUpload<'a> {
    server: &'a ServerState,
    start_request: StartRequest,
    /// Refuses bytes beyond the stated length or the size limit.
    body_filter: BodyFilter,
    sink: MediaSink,
    /// Time of the last call of [`Self::write`]. Before the first call, the time at which the
    /// upload was opened.
    last_write: Instant,
    /// Digests to compute in addition to CRC32C.
    wanted: Wanted,
    /// The reserved bytes in the quota of the upload's principal.
    reservation: Reservation,
    /// Number of bytes that the client has declared; 0 if it has declared none.
    declared: u64,
    /// The reserved bytes on the disk.
    space: MediaSpace,
    /// Counts against the limit on running uploads.
    _permit: Permit,
}

/// Carries out a simple upload. Its body is the media.
pub(crate) async fn simple(
    server: &Arc<ServerState>,
    head: &UploadHead<'_>,
    simple: SimpleHead,
    mut body: RequestBody,
) -> Result<FinalReply, Error> {
    let start_request = head.with_body(&Map::new(), simple.content_type, simple.expected)?;
    body.set_held_bytes(start_request.memory() as u64)?;
    let shared = Arc::clone(server);
    run_to_completion(
        &server.lifecycle,
        Box::pin(async move {
            let mut upload =
                SingleRequestUpload::open(&shared, start_request, simple.length, 0).await?;
            let received = upload.receive(&mut body).await;
            Box::pin(upload.end(received)).await
        }),
    )
    .await
}

/// Carries out a multipart upload. Its body holds metadata and media.
pub(crate) async fn multipart(
    server: &Arc<ServerState>,
    head: &UploadHead<'_>,
    multipart: MultipartHead,
    mut body: RequestBody,
) -> Result<FinalReply, Error> {
    // Checked here too, because `open` checks it only after the metadata has been read.
    server.admit_upload()?;
    let limits = RelatedLimits::default()
        .with_metadata(server.settings.limits.metadata)
        .with_part_headers(server.settings.limits.part_headers);
    let mut splitter = Splitter::new(multipart.boundary, limits, third_part(head.method));
    let mut prelude = MultipartPrelude::default();
    let mut received = 0;
    while !prelude.media_begun {
        let data = next_or_drained(server, &mut body)
            .await?
            .ok_or(RelatedError::NoFinalBoundary)?;
        // Counted as they arrive: they stay in memory until the media begins, and a client may
        // pause before that.
        received += data.len() as u64;
        body.set_held_bytes(received)?;
        prelude.read(&mut splitter, data)?;
    }
    // While the metadata is parsed, its text and the parsed values are in memory. Afterwards only
    // the start request is.
    body.set_held_json(&prelude.metadata)?;
    let start_request =
        prelude.start_request(head, server.settings.limits.json(), multipart.expected)?;
    drop(std::mem::take(&mut prelude.metadata));
    body.set_held_bytes(start_request.memory() as u64)?;
    // The rest of the body is media, except for a few bytes of delimiters.
    let rest = body.declared_len().map(|all| all.saturating_sub(received));
    let at_most = rest.map_or(0, |rest| prelude.media_len() + rest);
    let shared = Arc::clone(server);
    run_to_completion(
        &server.lifecycle,
        Box::pin(async move {
            let open =
                SingleRequestUpload::open(&shared, start_request, BodyLength::Unknown, at_most);
            let mut upload = open.await?;
            let received = upload
                .receive_parts(prelude.media, splitter, &mut body)
                .await;
            Box::pin(upload.end(received)).await
        }),
    )
    .await
}

/// Carries out an upload of media that was a base64 field of a JSON body.
pub(crate) async fn embedded(
    server: &Arc<ServerState>,
    head: &UploadHead<'_>,
    metadata: &Map<String, Value>,
    embedded: Embedded,
) -> Result<FinalReply, Error> {
    let Embedded {
        bytes,
        content_type,
    } = embedded;
    let start_request = head.with_body(metadata, Some(content_type), ExpectedDigests::default())?;
    start_request.check_metadata(server.settings.limits.metadata)?;
    let shared = Arc::clone(server);
    run_to_completion(
        &server.lifecycle,
        Box::pin(async move {
            let length = BodyLength::Exact(bytes.len() as u64);
            let mut upload = SingleRequestUpload::open(&shared, start_request, length, 0).await?;
            let received = upload.store(bytes, true).await;
            Box::pin(upload.end(received)).await
        }),
    )
    .await
}

/// Returns the next bytes of a body, or [`EngineError::Draining`] when the server tells running uploads
/// to end.
///
/// # Cancel safety
///
/// Nothing is lost when the future is dropped.
async fn next_or_drained(
    server: &ServerState,
    body: &mut RequestBody,
) -> Result<Option<Bytes>, Error> {
    tokio::select! {
        // The drain first: bytes of a fast client are always ready and would hide it.
        biased;
        () = server.lifecycle.drain_now.cancelled() => Err(EngineError::Draining.into()),
        data = body.next() => Ok(data?),
    }
}

/// Returns how the API treats a third part, after the media part.
fn third_part(method: ServedMethod<'_>) -> ThirdPart {
    if method.served.api.settings().checksum_part {
        ThirdPart::Checksums
    } else {
        ThirdPart::Refused
    }
}

/// A multipart body up to the beginning of its media.
#[derive(Default)]
struct MultipartPrelude {
    /// The metadata as text.
    metadata: Vec<u8>,
    /// Whether the media has begun.
    media_begun: bool,
    /// Media type that the media part states.
    content_type: Option<String>,
    /// The first pieces of the media, which came in the same read as the end of the metadata.
    media: Vec<BodyPiece>,
}

impl MultipartPrelude {
    /// Reads the next bytes of the body.
    fn read(&mut self, splitter: &mut Splitter, data: Bytes) -> Result<(), Error> {
        let mut pieces = Vec::new();
        splitter.push(data, &mut pieces)?;
        for piece in pieces {
            match piece {
                BodyPiece::Metadata(metadata) => self.metadata = metadata,
                BodyPiece::MediaStart { content_type } => {
                    self.media_begun = true;
                    self.content_type = content_type;
                }
                piece => self.media.push(piece),
            }
        }
        Ok(())
    }

    /// Number of bytes of the media that have been read.
    fn media_len(&self) -> u64 {
        let len = |piece: &BodyPiece| match piece {
            BodyPiece::Media(data) => data.len() as u64,
            _ => 0,
        };
        self.media.iter().map(len).sum()
    }

    fn start_request(
        &mut self,
        head: &UploadHead<'_>,
        limits: MetadataLimits,
        expected_digests: ExpectedDigests,
    ) -> Result<StartRequest, Error> {
        let metadata = parse_metadata(&self.metadata, limits)?;
        head.with_body(&metadata, self.content_type.take(), expected_digests)
    }
}

impl<'a> SingleRequestUpload<'a> {
    /// Admits an upload of this declared length. If the length is not declared, `at_most` is the
    /// known upper bound of the media in bytes.
    async fn open(
        server: &'a ServerState,
        start_request: StartRequest,
        length: BodyLength,
        at_most: u64,
    ) -> Result<Self, Error> {
        server.admit_upload()?;
        let permit = server
            .capacity
            .uploads
            .take_for(|| server.importance_to(start_request.client, Importance::Start))?;
        admit(server, &start_request).await?;
        // Checked before room is reserved: media above the limit never fits, even if there is room.
        let max_size = server.sessions.max_size(&start_request)?;
        let body_filter = BodyFilter::single_request(max_size, length)
            .map_err(|error| start_request.name_link_limit(error))?;
        let principal = start_request.principal.as_ref();
        let mut reservation = server.quotas.reservation(principal.map(Principal::id));
        let declared = match length {
            BodyLength::Exact(length) => length,
            BodyLength::Unknown => 0,
        };
        reservation.cover(&*server.stores.ledger, declared).await?;
        let space = server.stores.media_space(start_request.caller());
        let in_vault = |bytes: &u64| *bytes > server.small_media_limit() as u64;
        let expected = Some(declared.max(at_most)).filter(in_vault);
        space.set_aside(expected.unwrap_or(0), Leaving::Soft)?;
        let wanted = start_request.wanted_digests(start_request.method(&server.registry)?);
        let mut sink = MediaSink::new(server.sink_deps(), wanted);
        if let BodyLength::Exact(length) = length {
            sink.announce_length(Some(length));
        }
        Ok(Self {
            body_filter,
            sink,
            last_write: Instant::now(),
            server,
            start_request,
            wanted,
            reservation,
            declared,
            space,
            _permit: permit,
        })
    }

    /// Stores a body that is the media.
    async fn receive(&mut self, body: &mut RequestBody) -> Result<(), Error> {
        while let Some(data) = self.next_data(body).await? {
            self.store(data, body.is_at_end()).await?;
        }
        self.body_filter.clone().end(Ending::Complete)?;
        Ok(())
    }

    /// Stores the media of a multipart body. `pieces` are the parts of the body that have already
    /// been read.
    async fn receive_parts(
        &mut self,
        mut pieces: Vec<BodyPiece>,
        mut splitter: Splitter,
        body: &mut RequestBody,
    ) -> Result<(), Error> {
        loop {
            for piece in pieces.drain(..) {
                if let BodyPiece::Media(data) = piece {
                    self.store(data, body.is_at_end()).await?;
                }
            }
            match self.next_data(body).await? {
                Some(data) => splitter.push(data, &mut pieces)?,
                None => break,
            }
        }
        if let Some(checksums) = splitter.finish()? {
            let limits = self.server.settings.limits.json();
            let checksums = expected_digests::from_metadata(&parse_metadata(&checksums, limits)?)?;
            let expected_digests = self.start_request.expected_digests;
            self.start_request.expected_digests = expected_digests.merge(checksums)?;
            // Digests that were not computed during the upload are computed from the stored media.
            self.wanted = self.wanted.union(checksums.wanted());
        }
        Ok(())
    }

    /// Returns the next bytes of the body. If the client is slow, writes the buffered bytes
    /// meanwhile, so that they do not stay in memory.
    async fn next_data(&mut self, body: &mut RequestBody) -> Result<Option<Bytes>, Error> {
        // Without a session there are no checkpoints, but buffered bytes must not wait longer than
        // the interval of checkpoints here either.
        let timeout = self.server.settings.checkpoints.interval;
        while self.sink.can_write() {
            let next = next_or_drained(self.server, body);
            match tokio::time::timeout_at(self.last_write + timeout, next).await {
                Ok(data) => return data,
                Err(_) => self.write().await?,
            }
        }
        next_or_drained(self.server, body).await
    }

    /// Gives bytes to the sink, and lets it write its buffer whenever it is full.
    async fn store(&mut self, data: Bytes, is_last: bool) -> Result<(), Error> {
        let mut data = self.body_filter.accept(data)?;
        let received = self.sink.offset() + data.len() as u64;
        let ledger = &*self.server.stores.ledger;
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
        self.space.admit_write(self.sink.buffered_len())?;
        self.sink.write(false).await?;
        self.last_write = Instant::now();
        Ok(())
    }

    /// Creates the resource, or discards the media if that fails.
    async fn end(&mut self, received: Result<(), Error>) -> Result<FinalReply, Error> {
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
    async fn finish(&mut self) -> Result<FinalReply, Error> {
        count_last_write(&self.space, &self.sink);
        let flushed = self.sink.flush_and_sync().await?;
        Failpoint::SingleRequestSynced.reach();
        let digests = self.sink.digests(self.wanted, &flushed).await?;
        self.start_request.expected_digests.check(&digests)?;
        let media = media_of(&self.start_request, &flushed.progress, digests);
        let finished = FinishedMedia::uploaded(media, flushed.small_bytes);
        finish(self.server, &self.start_request, &finished, None).await
    }

    /// Discards the media of a failed upload. Returns the error for the reply.
    async fn give_up(&mut self, error: Error) -> Error {
        let error = self.start_request.name_link_limit(error);
        // After a fault of the ledger it is unknown whether the resource was committed with this
        // media. So the media is not deleted here; if no row names it, the sweep deletes it a day
        // later.
        if !matches!(
            error,
            Error::Engine(EngineError::Ledger(LedgerError::Fault(_)))
        ) {
            self.sink.discard().await;
        }
        error
    }
}
