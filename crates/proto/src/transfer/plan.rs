//! What a transfer is told before it begins.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::Chunk;
use crate::backoff::Schedule;
use crate::content_range::CHUNK_GRANULARITY;
use crate::upload_type::UploadType;

/// How much of a stream goes in one request unless something else is set: 8 MiB.
pub(super) const STREAM_CHUNK: u64 = 32 * CHUNK_GRANULARITY;

/// What is sent, how, and how patiently.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) single_request: bool,
    pub(super) media: Media,
    pub(super) chunking: Chunking,
    pub(super) retry_policy: RetryPolicy,
    pub(super) refreshable: bool,
}

impl Plan {
    /// A resumable upload, in as few requests as the line allows.
    pub fn resumable(media: Media) -> Self {
        Self {
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

    /// Sets how media is cut.
    #[must_use]
    pub fn with_chunking(self, chunking: Chunking) -> Self {
        Self { chunking, ..self }
    }

    /// Sets how often is tried what fails.
    #[must_use]
    pub fn with_retry_policy(self, retry_policy: RetryPolicy) -> Self {
        Self {
            retry_policy,
            ..self
        }
    }

    /// Sets whether a bearer token that is refused can be replaced by another one.
    #[must_use]
    pub fn with_refreshable_token(self, refreshable: bool) -> Self {
        Self {
            refreshable,
            ..self
        }
    }
}

/// What is known of the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Media {
    pub(super) total: Option<u64>,
    pub(super) window: Option<u64>,
    pub(super) streamed: bool,
}

impl Media {
    /// Media of this size, any of whose bytes can be read at any time.
    pub fn seekable(total: u64) -> Self {
        Self {
            total: Some(total),
            window: None,
            streamed: false,
        }
    }

    /// Media that comes as it comes, [filled](super::Action::Fill) before it is sent; its size if that
    /// is known. What came once can be read again.
    pub fn streamed(total: Option<u64>) -> Self {
        Self {
            total,
            window: None,
            streamed: true,
        }
    }

    /// Only so many bytes of a stream are kept: what is committed cannot be read again. Counts as a
    /// multiple of 256 KiB, rounded down, and as at least that.
    #[must_use]
    pub fn with_window(self, bytes: u64) -> Self {
        let whole = bytes - bytes % CHUNK_GRANULARITY;
        Self {
            window: Some(whole.max(CHUNK_GRANULARITY)),
            ..self
        }
    }
}

/// How media is cut into requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Chunking {
    /// One request for all that is left. When requests keep breaking: chunks, smaller while they break,
    /// larger while they do not.
    #[default]
    Adaptive,
    /// Chunks of this size.
    Fixed(ChunkSize),
}

/// The size of chunks: a multiple of 256 KiB above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkSize(u64);

/// A size that chunks cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidChunkSize {
    /// Zero, or no multiple of 256 KiB.
    #[error(
        "a chunk is a multiple of 256 KiB ({CHUNK_GRANULARITY} bytes), {bytes} is none; near it is {near}"
    )]
    NotAMultiple {
        /// The size.
        bytes: u64,
        /// A size that is possible.
        near: ChunkSize,
    },
    /// Not a number of bytes with an optional unit.
    #[error("a size is a number with an optional unit: 262144, 256K, 8M, 1G")]
    Syntax,
}

impl ChunkSize {
    /// A multiple of 256 KiB above zero.
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

    /// Count of bytes.
    pub fn bytes(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ChunkSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads bytes with an optional `K`, `M` or `G` (powers of 1,024), also written `KiB` or `KB`.
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

/// How often is tried what fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The waits after broken connections and overload: 5, doubling from one second, unless set.
    pub schedule: Schedule,
    /// How often is tried what fails otherwise and might work the next time. 10 unless set.
    pub other_tries: u32,
    /// How often a lost session (404, 410) is replaced by a new one. 3 unless set.
    pub restarts: u32,
    /// A server that asks by `Retry-After` for a longer wait is given up at once. 10 minutes unless
    /// set.
    pub longest_retry_after: Duration,
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

/// Chunks that grow beyond this become one request for the rest again.
const LARGEST: u64 = 256 * CHUNK_GRANULARITY;

/// So many breaks in a row make chunks.
const BREAKS_BEFORE_CHUNKING: u32 = 2;

#[derive(Debug, Clone)]
pub(super) struct ChunkSizer {
    chunking: Chunking,
    /// `None`: everything that is left.
    limit: Option<u64>,
    /// Data requests that broke since one was answered.
    breaks: u32,
    /// No chunk grows beyond what the server was seen to keep of one.
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
            most: LARGEST,
        }
    }

    /// The most that goes in one request: a multiple of 256 KiB.
    pub(super) fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// A request broke, after which `committed` bytes are there.
    pub(super) fn broke(&mut self, chunk: Chunk, committed: u64) {
        self.breaks += 1;
        if self.chunking != Chunking::Adaptive || self.breaks < BREAKS_BEFORE_CHUNKING {
            return;
        }
        // Half of what came through stands a chance to come through whole. Where nothing did, the line may
        // be that bad, or the server keeps only whole requests.
        let came_through = committed.saturating_sub(chunk.first);
        let bearable = if came_through > 0 {
            came_through / 2
        } else {
            chunk.len().min(LARGEST) / 4
        };
        self.limit = Some(whole_multiple(bearable));
    }

    /// A request was answered, after which `committed` bytes are there.
    pub(super) fn completed(&mut self, chunk: Chunk, committed: u64) {
        self.breaks = 0;
        if self.chunking != Chunking::Adaptive {
            return;
        }
        if committed < chunk.end {
            // The server keeps less than it is sent: what is more would be sent for nothing.
            self.most = whole_multiple(committed.saturating_sub(chunk.first)).min(LARGEST);
            self.limit = Some(self.most);
            return;
        }
        let doubled = self.limit.map(|limit| limit.saturating_mul(2));
        self.limit = match doubled {
            Some(doubled) if self.most < LARGEST => Some(doubled.min(self.most)),
            doubled => doubled.filter(|limit| *limit <= LARGEST),
        };
    }
}

fn whole_multiple(bytes: u64) -> u64 {
    (bytes - bytes % CHUNK_GRANULARITY).max(CHUNK_GRANULARITY)
}
