//! What clients can make the server hold. Each kind is counted in one pool, here, and has one bound; what does not fit is
//! refused with 503, by the table of errors. docs/configuration.md has a table of all of them.

mod json;
mod pool;

use std::time::Duration;

use bytes::Bytes;

use crate::config::Limits;

pub(crate) use json::json_cost;
pub(crate) use pool::{Permit, Pool};

/// Files that are open at the same time because a handler media_reads into media, or because a digest is computed from it.
pub const MEDIA_READS: usize = 64;

/// A reply up to this length does not count: the limit on requests bounds all of them together, and an upload must not fail
/// at its end because other clients take no replies.
pub(crate) const SHORT_REPLY: usize = 4 * 1024;

/// What clients can make the server hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitedResource {
    /// Connections.
    Connections,
    /// Requests from their head until their reply is sent. Over HTTP/2 these are streams.
    Requests,
    /// Uploads that go on. Each may have a file open.
    Uploads,
    /// Downloads that go on. Each may have a file open.
    Downloads,
    /// Files that are open because media is looked into.
    MediaReads,
    /// Bytes of heads, of JSON that comes with requests, and of what it becomes in memory.
    Metadata,
    /// Bytes of JSON with media inside, on its way in.
    LargeBodies,
    /// Bytes of replies, media too, and of what they are made from.
    Replies,
    /// Bytes of JSON with media inside, on its way out.
    LargeReplies,
    /// Bytes of media that is read as a whole.
    Reading,
}

/// There is no room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the limit on {} is reached; try again", .0.text())]
pub struct Full(pub(crate) LimitedResource);

/// How much there is of something that clients can make the server hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Of what.
    pub resource: LimitedResource,
    /// How much there is: bytes, in steps of 1 KiB, or a number.
    pub used: u64,
    /// How much there may be.
    pub limit: u64,
    /// How often something was refused.
    pub refused: u64,
}

/// The pools.
#[derive(Debug)]
pub(crate) struct Capacity {
    pub(crate) connections: Pool,
    pub(crate) requests: Pool,
    pub(crate) uploads: Pool,
    pub(crate) downloads: Pool,
    pub(crate) media_reads: Pool,
    pub(crate) metadata: Pool,
    pub(crate) large_bodies: Pool,
    pub(crate) replies: Pool,
    pub(crate) large_replies: Pool,
    pub(crate) reading: Pool,
    /// How long a request waits where waiting helps.
    pub(crate) timeout: Duration,
}

impl LimitedResource {
    fn text(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Requests => "requests at the same time",
            Self::Uploads => "uploads at the same time",
            Self::Downloads => "downloads at the same time",
            Self::MediaReads | Self::Reading => "media that is looked into",
            Self::Metadata => "metadata in memory",
            Self::LargeBodies => "JSON with media in memory",
            Self::Replies | Self::LargeReplies => "replies in memory",
        }
    }
}

impl Capacity {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            connections: Pool::of_count(LimitedResource::Connections, limits.connections),
            requests: Pool::of_count(LimitedResource::Requests, limits.requests),
            uploads: Pool::of_count(LimitedResource::Uploads, limits.uploads),
            downloads: Pool::of_count(LimitedResource::Downloads, limits.downloads),
            media_reads: Pool::of_count(LimitedResource::MediaReads, MEDIA_READS),
            metadata: Pool::of_bytes(LimitedResource::Metadata, limits.metadata_memory),
            large_bodies: Pool::for_large(LimitedResource::LargeBodies, limits.reading_memory),
            replies: Pool::of_bytes(LimitedResource::Replies, limits.reply_memory),
            large_replies: Pool::for_large(LimitedResource::LargeReplies, limits.reading_memory),
            reading: Pool::for_large(LimitedResource::Reading, limits.reading_memory),
            timeout: limits.takeover_timeout,
        }
    }

    /// How much there is of everything.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        let pools = [
            &self.connections,
            &self.requests,
            &self.uploads,
            &self.downloads,
            &self.media_reads,
            &self.metadata,
            &self.large_bodies,
            &self.replies,
            &self.large_replies,
            &self.reading,
        ];
        pools.map(Pool::usage).into()
    }

    /// A reply's text, which counts until nobody needs it any more, unless it is short.
    pub(crate) fn reply(&self, text: Bytes) -> Result<Bytes, Full> {
        if text.len() <= SHORT_REPLY {
            return Ok(text);
        }
        let mut permit = self.replies.permit();
        permit.resize(text.len() as u64)?;
        Ok(permit.with(text))
    }
}
