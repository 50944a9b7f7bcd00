//! How much goes in one request: everything while the line is good, less while requests keep breaking.

use super::{Chunk, Chunking};
use crate::content_range::CHUNK_GRANULARITY;

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
