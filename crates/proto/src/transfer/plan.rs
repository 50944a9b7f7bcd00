//! The plan of a transfer: the media, the chunk sizes and the retries.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::exchange::Chunk;
use super::form::Protocol;
use crate::backoff::Schedule;
use crate::content_range::CHUNK_GRANULARITY;
use crate::upload_type::UploadType;

/// Default chunk size of streams: 8 MiB.
pub(super) const STREAM_CHUNK: u64 = 32 * CHUNK_GRANULARITY;

/// The media of a transfer and how it is sent.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) protocol: Option<Protocol>,
    pub(super) single_request: bool,
    pub(super) media: Media,
    pub(super) chunking: Chunking,
    pub(super) retry_policy: RetryPolicy,
    pub(super) refreshable: bool,
}

impl Plan {
    /// A resumable upload in as few requests as the network allows.
    pub fn resumable(media: Media) -> Self {
        Self {
            protocol: Some(Protocol::default()),
            single_request: false,
            media,
            chunking: Chunking::default(),
            retry_policy: RetryPolicy::default(),
            refreshable: false,
        }
    }

    /// An upload of this type.
    pub fn new(upload_type: UploadType, media: Media) -> Self {
        Self {
            single_request: upload_type != UploadType::Resumable,
            ..Self::resumable(media)
        }
    }

    /// Sets the protocol; `None` to ask the server which one it speaks. Default: Google's. The other
    /// protocols [have sessions only](Protocol::has_single_requests), whatever the upload type.
    #[must_use]
    pub fn with_protocol(self, protocol: Option<Protocol>) -> Self {
        Self { protocol, ..self }
    }

    /// Sets how media is split into requests.
    #[must_use]
    pub fn with_chunking(self, chunking: Chunking) -> Self {
        Self { chunking, ..self }
    }

    /// Sets how failed requests are retried.
    #[must_use]
    pub fn with_retry_policy(self, retry_policy: RetryPolicy) -> Self {
        Self {
            retry_policy,
            ..self
        }
    }

    /// Sets whether a refused bearer token can be replaced by a new one.
    #[must_use]
    pub fn with_refreshable_token(self, refreshable: bool) -> Self {
        Self {
            refreshable,
            ..self
        }
    }
}

/// The properties of the media that a transfer depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Media {
    pub(super) total: Option<u64>,
    pub(super) window: Option<u64>,
    pub(super) streamed: bool,
}

impl Media {
    /// Media of known size with random access.
    pub fn seekable(total: u64) -> Self {
        Self {
            total: Some(total),
            window: None,
            streamed: false,
        }
    }

    /// Media from a stream, which must be [filled](super::Action::Fill) before it is sent; with its
    /// size if known. All bytes read so far can be sent again.
    pub fn streamed(total: Option<u64>) -> Self {
        Self {
            total,
            window: None,
            streamed: true,
        }
    }

    /// Limits the buffer of a stream: committed bytes cannot be sent again. The size is rounded
    /// down to a multiple of 256 KiB, and is at least 256 KiB.
    #[must_use]
    pub fn with_window(self, bytes: u64) -> Self {
        let whole = bytes - bytes % CHUNK_GRANULARITY;
        Self {
            window: Some(whole.max(CHUNK_GRANULARITY)),
            ..self
        }
    }
}

/// How media is split into requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Chunking {
    /// One request for all remaining bytes. If requests keep breaking, chunks are used, which
    /// shrink while requests break and grow while they succeed.
    #[default]
    Adaptive,
    /// Chunks of this size.
    Fixed(ChunkSize),
}

/// The size of chunks: a multiple of 256 KiB above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkSize(u64);

/// An invalid chunk size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidChunkSize {
    /// Zero, or not a multiple of 256 KiB.
    #[error(
        "a chunk size must be a multiple of 256 KiB ({CHUNK_GRANULARITY} bytes): {bytes} is not, but {near} is"
    )]
    NotAMultiple {
        /// The size.
        bytes: u64,
        /// A valid size near it.
        near: ChunkSize,
    },
    /// Not a number with an optional unit.
    #[error("a size must be a number with an optional unit, for instance 262144, 256K, 8M or 1G")]
    Syntax,
}

impl ChunkSize {
    /// Returns a chunk size.  `bytes` must be a multiple of 256 KiB above zero.
    pub fn new(bytes: u64) -> Result<Self, InvalidChunkSize> {
        if bytes > 0 && bytes.is_multiple_of(CHUNK_GRANULARITY) {
            Ok(Self(bytes))
        } else {
            let near = (bytes - bytes % CHUNK_GRANULARITY).max(CHUNK_GRANULARITY);
            Err(InvalidChunkSize::NotAMultiple {
                bytes,
                near: Self(near),
            })
        }
    }

    /// Number of bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ChunkSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Parses a number with an optional unit `K`, `M` or `G` (powers of 1,024), also written `KiB` or
/// `KB`.
impl FromStr for ChunkSize {
    type Err = InvalidChunkSize;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim().to_ascii_uppercase();
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidChunkSize::Syntax);
        }
        let scale = match text[digits.len()..].trim_start() {
            "" | "B" => 1,
            "K" | "KB" | "KIB" => 1 << 10,
            "M" | "MB" | "MIB" => 1 << 20,
            "G" | "GB" | "GIB" => 1 << 30,
            _ => return Err(InvalidChunkSize::Syntax),
        };
        let number: u64 = digits.parse().map_err(|_| InvalidChunkSize::Syntax)?;
        let bytes = number.checked_mul(scale).ok_or(InvalidChunkSize::Syntax)?;
        Self::new(bytes)
    }
}

/// How failed requests are retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Waits after broken connections and overload. Default: 5 waits, doubling from one second.
    pub schedule: Schedule,
    /// Maximum number of attempts after unexpected replies, which might succeed the next time.
    /// Default: 10.
    pub other_tries: u32,
    /// Maximum number of new sessions after a lost session (404, 410). Default: 3.
    pub restarts: u32,
    /// Longest wait that `Retry-After` may ask for. The client gives up at once if a server asks
    /// for more. Default: 10 minutes.
    pub longest_retry_after: Duration,
}

impl RetryPolicy {
    /// Sets [`schedule`](Self::schedule).
    #[must_use]
    pub fn with_schedule(self, schedule: Schedule) -> Self {
        Self { schedule, ..self }
    }

    /// Sets [`other_tries`](Self::other_tries).
    #[must_use]
    pub fn with_other_tries(self, other_tries: u32) -> Self {
        Self {
            other_tries,
            ..self
        }
    }

    /// Sets [`restarts`](Self::restarts).
    #[must_use]
    pub fn with_restarts(self, restarts: u32) -> Self {
        Self { restarts, ..self }
    }

    /// Sets [`longest_retry_after`](Self::longest_retry_after).
    #[must_use]
    pub fn with_longest_retry_after(self, longest_retry_after: Duration) -> Self {
        Self {
            longest_retry_after,
            ..self
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            schedule: Schedule::default(),
            other_tries: 10,
            restarts: 3,
            longest_retry_after: Duration::from_secs(600),
        }
    }
}

/// Upper bound of adaptive chunks. A chunk that would grow beyond it becomes one request for the
/// rest.
const MAX_CHUNK: u64 = 256 * CHUNK_GRANULARITY;

/// Number of consecutive breaks after which chunks are used.
const BREAKS_BEFORE_CHUNKING: u32 = 2;

#[derive(Debug, Clone)]
pub(super) struct ChunkSizer {
    chunking: Chunking,
    /// Maximum size of a request; `None` for all remaining bytes.
    limit: Option<u64>,
    /// Number of data requests that broke since the last reply to one.
    breaks: u32,
    /// Upper bound of the chunk size, lowered to the amount that the server keeps of a request.
    most: u64,
}

impl ChunkSizer {
    pub(super) fn new(chunking: Chunking) -> Self {
        let limit = match chunking {
            Chunking::Adaptive => None,
            Chunking::Fixed(size) => Some(size.bytes()),
        };
        Self {
            chunking,
            limit,
            breaks: 0,
            most: MAX_CHUNK,
        }
    }

    /// Returns the maximum size of a request, a multiple of 256 KiB; `None` for all remaining
    /// bytes.
    pub(super) fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// Adapts to a broken request, after which `committed` bytes are committed.
    pub(super) fn broke(&mut self, chunk: Chunk, committed: u64) {
        self.breaks += 1;
        if self.chunking != Chunking::Adaptive || self.breaks < BREAKS_BEFORE_CHUNKING {
            return;
        }
        // Half of the bytes that arrived are likely to arrive in one request. If none were
        // committed, the network may be that bad, or the server may keep only whole requests.
        let came_through = committed.saturating_sub(chunk.first);
        let bearable = if came_through > 0 {
            came_through / 2
        } else {
            chunk.len().min(MAX_CHUNK) / 4
        };
        self.limit = Some(whole_multiple(bearable));
    }

    /// Adapts to a successful request, after which `committed` bytes are committed.
    pub(super) fn completed(&mut self, chunk: Chunk, committed: u64) {
        self.breaks = 0;
        if self.chunking != Chunking::Adaptive {
            return;
        }
        if committed < chunk.end {
            // The server keeps only part of each request, so larger requests would waste bandwidth.
            self.most = whole_multiple(committed.saturating_sub(chunk.first)).min(MAX_CHUNK);
            self.limit = Some(self.most);
            return;
        }
        let doubled = self.limit.map(|limit| limit.saturating_mul(2));
        self.limit = match doubled {
            Some(doubled) if self.most < MAX_CHUNK => Some(doubled.min(self.most)),
            doubled => doubled.filter(|limit| *limit <= MAX_CHUNK),
        };
    }
}

fn whole_multiple(bytes: u64) -> u64 {
    (bytes - bytes % CHUNK_GRANULARITY).max(CHUNK_GRANULARITY)
}
