//! The body of a request: decoded, bounded, and with a timeout on each wait.

use std::fmt;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_compression::tokio::bufread::GzipDecoder;
use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt as _;
use http::header::{CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::{HeaderMap, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::Instant;
use tokio_util::io::StreamReader;
use windlass_engine::{Error as EngineError, Full, MediaStream, Permit, WholeMedia};
use windlass_proto::body_digests::{BodyCheck, BodyDigests, DigestField};
use windlass_proto::command::ContentCoding;
use windlass_proto::error::{BodyDigestError, ProtocolError};
use windlass_rest::reply_pools::json_cost;

use crate::config::Limits;
use crate::error::{BodyError, Error};

#[cfg(test)]
mod tests;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Number of decoded bytes that are read from a gzip stream at once.
const GZIP_READ_LEN: usize = 16 * 1024;

/// Approximate memory of a gzip body in bytes: one read, and the state of the decoder.
const GZIP_MEMORY: u64 = 60 * 1024;

// The amount of disk space that a tiny body can take.
/// Number of decoded bytes below which the limit on the gzip ratio does not apply.
pub(crate) const GZIP_GRACE: u64 = 1024 * 1024;

/// Maximum number of unread bytes that are read only to keep the connection usable.
const MAX_DRAIN: u64 = 64 * 1024;

/// Time over which the rate of a body is measured.
pub(crate) const RATE_WINDOW: Duration = Duration::from_secs(60);

/// Like [`RATE_WINDOW`], for a body that holds a connection while few are left.
pub(crate) const HURRIED_WINDOW: Duration = Duration::from_secs(10);

/// Maximum time that a reply is delayed to read these bytes.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// The body of a request, with its content coding decoded and a timeout on each read.
#[derive(Debug)]
pub(crate) struct RequestBody {
    source: Source,
    limits: BodyLimits,
    pace: Pace,
    /// Whether reading has stopped because the body is too slow.
    is_too_slow: bool,
    ended: bool,
    /// `Content-Length`.
    declared_len: Option<u64>,
    read_to_end: EndFlag,
    /// Whether the client sends the body only after `100 Continue`, which hyper sends when the body
    /// is read.
    on_demand: bool,
    /// Permit for the memory of the request, media excluded.
    permit: Option<Permit>,
    /// Size of the head in bytes, which is part of the permit.
    head: u64,
    /// Is told how many bytes of the media are committed.
    on_commit: Option<OnCommit>,
    /// What checks the body at its end.
    verification: Option<Box<Verification>>,
}

/// What checks a body at its end.
#[derive(Debug)]
struct Verification {
    check: BodyCheck,
    /// The trailer section, once it has come.
    trailers: HeaderMap,
}

/// Is told how many bytes of the media are committed.
struct OnCommit(Box<dyn Fn(u64) + Send + Sync>);

impl fmt::Debug for OnCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnCommit")
    }
}

/// Tells whether a body was read completely, even after the body has been moved.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndFlag(Arc<EndState>);

// Relaxed everywhere: the flags guard no other data.
#[derive(Debug, Default)]
struct EndState {
    is_read: AtomicBool,
    has_trailers: AtomicBool,
}

impl EndFlag {
    /// Whether nothing of the body is left on the connection.
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_read.load(Ordering::Relaxed)
    }

    /// Whether the next request certainly begins where the body has ended. After trailers this is
    /// uncertain: hyper takes the head of a request for trailers if the end of the last chunk is
    /// malformed (`0\r\n\n`).
    pub(crate) fn is_sure(&self) -> bool {
        self.is_set() && !self.0.has_trailers.load(Ordering::Relaxed)
    }

    fn set(&self) {
        self.0.is_read.store(true, Ordering::Relaxed);
    }

    fn mark_trailers(&self) {
        self.0.has_trailers.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug, Clone, Copy)]
struct BodyLimits {
    rate_window: Duration,
    stall: Duration,
    min_rate: u64,
    gzip_ratio: u64,
}

enum Source {
    Identity(UnsyncBoxBody<Bytes, BoxError>),
    Gzip {
        decoder: std::pin::Pin<Box<dyn AsyncRead + Send>>,
        coded: Arc<AtomicU64>,
        decoded: u64,
    },
}

/// The rate at which a body arrives.
#[derive(Debug, Default)]
struct Pace {
    /// Time for which the server has waited for the client, in the current window.
    waited: Duration,
    /// Bytes that have arrived in this time.
    arrived: u64,
    /// Bytes of a coded body that were counted, in all windows.
    coded: u64,
}

/// A wait for bytes. Its time counts even if it is cancelled, because the next wait continues it.
struct Wait<'a> {
    pace: &'a mut Pace,
    begun: Instant,
}

impl Pace {
    /// Counts a piece. Returns whether fewer than `min_rate` bytes per second have arrived in a
    /// window. Only the time for which the server has waited counts, because the server itself may
    /// be slow.
    fn is_too_slow(&mut self, arrived: u64, limits: BodyLimits) -> bool {
        self.arrived += arrived;
        if self.waited < limits.rate_window {
            return false;
        }
        let waited = std::mem::take(&mut self.waited);
        let arrived = std::mem::take(&mut self.arrived);
        arrived < limits.min_rate.saturating_mul(waited.as_secs())
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.pace.waited += self.begun.elapsed();
    }
}

impl Source {
    /// The bytes of a coded body so far; `None` without a coding.
    fn coded_bytes(&self) -> Option<u64> {
        match self {
            Self::Identity(_) => None,
            Self::Gzip { coded, .. } => Some(coded.load(Ordering::Relaxed)),
        }
    }

    /// Returns the next decoded bytes; `None` at the end.
    async fn read(
        &mut self,
        gzip_ratio: u64,
        verification: Option<&mut Verification>,
    ) -> Result<Option<Bytes>, BodyError> {
        match self {
            Self::Identity(body) => next_data(body, verification).await,
            Self::Gzip {
                decoder,
                coded,
                decoded,
            } => {
                let mut piece = BytesMut::with_capacity(GZIP_READ_LEN);
                let read = decoder.read_buf(&mut piece).await;
                let coded = coded.load(Ordering::Relaxed);
                let len = match read {
                    Ok(len) => len,
                    // A body without bytes is empty in each coding.
                    Err(error) if coded == 0 && error.kind() == ErrorKind::UnexpectedEof => 0,
                    Err(error) => return Err(gzip_error(&error)),
                };
                *decoded += len as u64;
                if *decoded > GZIP_GRACE && *decoded / coded.max(1) > gzip_ratio {
                    return Err(BodyError::Expands { limit: gzip_ratio });
                }
                Ok((len > 0).then(|| piece.freeze()))
            }
        }
    }

    fn is_at_end(&self) -> bool {
        matches!(self, Self::Identity(body) if body.is_end_stream())
    }

    fn rest_is_short(&self) -> bool {
        match self {
            Self::Identity(body) => body
                .size_hint()
                .upper()
                .is_some_and(|rest| rest <= MAX_DRAIN),
            Self::Gzip { .. } => false,
        }
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Identity(_) => "Identity",
            Self::Gzip { .. } => "Gzip",
        })
    }
}

/// A body that must signal its end explicitly.
///
/// hyper reports an HTTP/2 stream that its client resets with `NO_ERROR` as a body that has ended.
/// Without a length, only the flag `END_STREAM` shows that no bytes are missing, and the body
/// exposes this flag.
struct MarkedEnd(UnsyncBoxBody<Bytes, BoxError>);

impl Body for MarkedEnd {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match ready!(Pin::new(&mut self.0).poll_frame(cx)) {
            None if !self.0.is_end_stream() => {
                Poll::Ready(Some(Err("the stream was reset before its end".into())))
            }
            frame => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl RequestBody {
    /// Wraps a body, and decodes it if the headers state `Content-Encoding: gzip`.
    pub(crate) fn new<B>(body: B, version: Version, headers: &HeaderMap, limits: &Limits) -> Self
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let body = body.map_err(Into::into).boxed_unsync();
        let body = if version == Version::HTTP_2 && !headers.contains_key(CONTENT_LENGTH) {
            MarkedEnd(body).boxed_unsync()
        } else {
            body
        };
        let read_to_end = EndFlag::default();
        let body = if headers.contains_key(TRANSFER_ENCODING) {
            let end = read_to_end.clone();
            let noted = body.map_frame(move |frame| {
                if frame.is_trailers() {
                    end.mark_trailers();
                }
                frame
            });
            noted.boxed_unsync()
        } else {
            body
        };
        let ended = body.is_end_stream();
        if ended {
            read_to_end.set();
        }
        let source = if is_gzip(headers) && !ended {
            gunzip(body)
        } else {
            Source::Identity(body)
        };
        let limits = BodyLimits {
            rate_window: RATE_WINDOW,
            stall: limits.body_timeout,
            min_rate: limits.min_rate,
            gzip_ratio: limits.gzip_ratio,
        };
        Self {
            source,
            limits,
            pace: Pace::default(),
            is_too_slow: false,
            ended,
            declared_len: content_length(headers),
            read_to_end,
            on_demand: headers.contains_key(EXPECT),
            permit: None,
            head: 0,
            on_commit: None,
            verification: None,
        }
    }

    /// Lets the body end with an error if it does not have the digests that the head states in these
    /// fields, or announces for the trailer section. Nothing may have been read yet.
    ///
    /// # Errors
    /// If the digests cannot be checked, or the body is known to be empty and has others.
    pub(crate) fn verify(
        &mut self,
        headers: &HeaderMap,
        fields: &[DigestField],
    ) -> Result<(), BodyDigestError> {
        let stated = BodyDigests::of(headers, fields)?;
        if stated.is_empty() {
            return Ok(());
        }
        let check = stated.into_check();
        let trailers = HeaderMap::new();
        if self.ended {
            return check.end(&trailers);
        }
        self.verification = Some(Box::new(Verification { check, trailers }));
        Ok(())
    }

    /// Shortens the window of the rate and the maximum pause.
    pub(crate) fn hurry(&mut self) {
        self.limits.rate_window = HURRIED_WINDOW;
        self.limits.stall = self.limits.stall.min(HURRIED_WINDOW);
    }

    /// Counts the memory of the request from now on: its head of `head` bytes, and the collected
    /// bytes of the body.
    ///
    /// # Errors
    /// [`Full`] if the head does not fit.
    pub(crate) fn count(&mut self, memory: Permit, head: u64) -> Result<(), Full> {
        self.permit = Some(memory);
        self.head = head;
        self.set_held_bytes(0)
    }

    /// Records that bytes of the body have become part of the head. The body then holds no bytes.
    ///
    /// # Errors
    /// [`Full`] if it does not fit.
    pub(crate) fn enlarge_head(&mut self, bytes: u64) -> Result<(), Full> {
        self.head += bytes;
        self.set_held_bytes(0)
    }

    /// Sets what is told of commits while the body is read.
    pub(crate) fn on_commit(&mut self, on_commit: impl Fn(u64) + Send + Sync + 'static) {
        self.on_commit = Some(OnCommit(Box::new(on_commit)));
    }

    /// Records that the head has been dropped.
    pub(crate) fn forget_head(&mut self) {
        self.head = 0;
        // Less than before, so it cannot fail.
        self.set_held_bytes(0).ok();
    }

    /// Returns the permit for the memory of the request, which outlives its body.
    pub(crate) fn into_permit(self) -> Option<Permit> {
        self.permit
    }

    /// Sets the number of bytes that the request holds in addition to its head.
    pub(crate) fn set_held_bytes(&mut self, bytes: u64) -> Result<(), Full> {
        let decoder = if self.is_gzip() { GZIP_MEMORY } else { 0 };
        match &mut self.permit {
            Some(permit) => permit.resize(self.head + decoder + bytes),
            None => Ok(()),
        }
    }

    /// Sets the memory of the request to the size of a JSON text and the values parsed from it.
    pub(crate) fn set_held_json(&mut self, text: &[u8]) -> Result<(), Full> {
        self.set_held_bytes(text.len() as u64 + json_cost(text))
    }

    /// Returns a flag that is set when the body has been read completely.
    pub(crate) fn end_flag(&self) -> EndFlag {
        self.read_to_end.clone()
    }

    /// Whether the body is gzip, so that its bytes are verified only at its end.
    pub(crate) fn is_gzip(&self) -> bool {
        matches!(self.source, Source::Gzip { .. })
    }

    /// Returns the length that the client states. `None` for a coded body, and for a body that its
    /// framing ends.
    pub(crate) fn declared_len(&self) -> Option<u64> {
        self.declared_len.filter(|_| !self.is_gzip())
    }

    /// Whether the body is known to have ended. Some bodies show their end only to the next read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.read_to_end.is_set()
    }

    /// Returns the next bytes, at least one; `None` at the end.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let piece = self.next_unverified().await?;
        match (&piece, &mut self.verification) {
            (Some(piece), Some(verification)) => verification.check.update(piece),
            (None, verification @ Some(_)) => {
                if let Some(verification) = verification.take() {
                    let Verification { check, trailers } = *verification;
                    check.end(&trailers).map_err(ProtocolError::from)?;
                }
            }
            (_, None) => {}
        }
        Ok(piece)
    }

    async fn next_unverified(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.ended {
            return Ok(None);
        }
        if self.is_too_slow {
            self.ended = true;
            let min_rate = self.limits.min_rate;
            return Err(BodyError::Slow { min_rate });
        }
        let stall = self.limits.stall;
        let wait = Wait {
            pace: &mut self.pace,
            begun: Instant::now(),
        };
        let verification = self.verification.as_deref_mut();
        let read = self.source.read(self.limits.gzip_ratio, verification);
        let read = tokio::time::timeout(stall, read).await;
        drop(wait);
        let piece = read.unwrap_or(Err(BodyError::Stalled(stall)));
        if let Ok(Some(bytes)) = &piece {
            let arrived = match self.source.coded_bytes() {
                Some(now) => now - std::mem::replace(&mut self.pace.coded, now),
                None => bytes.len() as u64,
            };
            // This piece is kept.
            self.is_too_slow = self.pace.is_too_slow(arrived, self.limits);
        }
        // After an error or the end, no further bytes may be read.
        self.ended = !matches!(piece, Ok(Some(_)));
        if matches!(piece, Ok(None)) || self.source.is_at_end() {
            self.read_to_end.set();
        }
        piece
    }

    /// Reads the whole body as JSON text, at most `limit` bytes, and counts its memory.
    pub(crate) async fn collect_json(&mut self, limit: usize) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        while self.append(&mut all, limit).await? {
            self.set_held_bytes(all.capacity() as u64)?;
        }
        self.set_held_json(&all)?;
        Ok(all)
    }

    /// Appends the next bytes to `all`. Returns false at the end.
    ///
    /// # Errors
    /// [`BodyError::TooLong`] if `all` would exceed `limit` bytes.
    pub(crate) async fn append(&mut self, all: &mut Vec<u8>, limit: usize) -> Result<bool, Error> {
        let Some(piece) = self.next().await? else {
            return Ok(false);
        };
        if all.len() + piece.len() > limit {
            return Err(BodyError::TooLong { limit }.into());
        }
        all.extend_from_slice(&piece);
        Ok(true)
    }

    /// Whether the body has no bytes. Reads it up to its first byte or its end.
    pub(crate) async fn is_empty(&mut self) -> Result<bool, Error> {
        Ok(self.next().await?.is_none())
    }

    /// Reads the rest of the body if it is known to be short, so that the connection can be reused.
    pub(crate) async fn finish_if_short(&mut self) {
        if !self.ended && !self.on_demand && self.source.rest_is_short() {
            let discarded = Box::pin(self.discard());
            tokio::time::timeout(DRAIN_TIMEOUT, discarded).await.ok();
        }
    }

    /// Reads and discards the rest of the body. Returns its length.
    pub(crate) async fn discard(&mut self) -> Result<u64, Error> {
        let mut length = 0;
        while let Some(piece) = self.next().await? {
            length += piece.len() as u64;
        }
        Ok(length)
    }
}

impl MediaStream for RequestBody {
    async fn next(&mut self) -> Result<Option<Bytes>, EngineError> {
        Ok(self.next().await?)
    }

    fn is_at_end(&self) -> bool {
        self.is_at_end()
    }

    fn is_verified_at_end(&self) -> bool {
        self.is_gzip() || self.verification.is_some()
    }

    fn committed(&mut self, offset: u64) {
        if let Some(on_commit) = &self.on_commit {
            (on_commit.0)(offset);
        }
    }

    async fn finish_if_short(&mut self) {
        self.finish_if_short().await;
    }
}

impl WholeMedia for RequestBody {}

async fn next_data(
    body: &mut UnsyncBoxBody<Bytes, BoxError>,
    mut verification: Option<&mut Verification>,
) -> Result<Option<Bytes>, BodyError> {
    while let Some(frame) = body.frame().await {
        match frame.map_err(|error| broken(&*error))?.into_data() {
            Ok(data) if data.is_empty() => {}
            Ok(data) => return Ok(Some(data)),
            // All trailers are ignored but those that the head announces for a verification.
            Err(frame) => {
                if let (Ok(trailers), Some(verification)) =
                    (frame.into_trailers(), verification.as_deref_mut())
                {
                    verification.trailers = trailers;
                }
            }
        }
    }
    Ok(None)
}

/// Maps an error of hyper. Only the kind of the underlying I/O error distinguishes bad framing from
/// a broken connection.
fn broken(error: &(dyn std::error::Error + 'static)) -> BodyError {
    let mut causes = std::iter::successors(Some(error), |cause| cause.source());
    let is_malformed = causes.any(|cause| {
        let kind = cause
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        matches!(kind, Some(ErrorKind::InvalidInput | ErrorKind::InvalidData))
    });
    if is_malformed {
        BodyError::Malformed
    } else {
        BodyError::Broken
    }
}

/// Returns the length of the body that the headers state. The HTTP library has checked it.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether the headers state gzip.
fn is_gzip(headers: &HeaderMap) -> bool {
    // Unknown codings are refused before the body is read.
    matches!(
        ContentCoding::from_headers(headers),
        Ok(ContentCoding::Gzip)
    )
}

fn gunzip(body: UnsyncBoxBody<Bytes, BoxError>) -> Source {
    let coded = Arc::new(AtomicU64::new(0));
    let stream = body.into_data_stream();
    let counted = {
        let coded = Arc::clone(&coded);
        stream.inspect_ok(move |data: &Bytes| {
            coded.fetch_add(data.len() as u64, Ordering::Relaxed);
        })
    };
    // Marks errors of the connection, so that they are not taken for errors of the gzip stream.
    let reader = StreamReader::new(
        counted.map_err(|error| std::io::Error::new(ErrorKind::ConnectionReset, error)),
    );
    let mut decoder = GzipDecoder::new(reader);
    decoder.multiple_members(true);
    Source::Gzip {
        decoder: Box::pin(decoder),
        coded,
        decoded: 0,
    }
}

fn gzip_error(error: &std::io::Error) -> BodyError {
    if error.kind() == ErrorKind::ConnectionReset {
        BodyError::Broken
    } else {
        BodyError::NotGzip
    }
}
