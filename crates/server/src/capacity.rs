//! Limits on the resources that clients can make the server hold.
//!
//! Each resource is counted in one [`Pool`], created in [`Capacity::new`]. A request that does not
//! fit is refused with 503 by the table of errors. docs/configuration.md lists all limits.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use windlass_engine::{
    ByteShares, Caller, Full, Importance, LimitedResource, Permit, Pool, Shares, Usage,
};

use crate::config::Limits;

/// Maximum number of files that are open because a handler or a digest needs to read media. Further
/// reads of handlers wait for [`Limits::takeover_timeout`] and are then refused (503). Further
/// reads for digests wait without a limit.
pub const MEDIA_READS: usize = 64;

/// Maximum number of calls that concatenate existing media. Each call takes as long as a copy, on
/// few threads. Further calls wait for [`Limits::takeover_timeout`] and are then refused (503).
pub const CONCATENATIONS: usize = 16;

/// Maximum number of concurrent concatenations of one caller.
const CONCATENATIONS_OF_A_CALLER: usize = CONCATENATIONS / 4;

// The limit on requests bounds all short replies together. An upload must not fail at its end
// because other clients do not read their replies.
/// Replies up to this length in bytes are not counted.
pub(crate) const SHORT_REPLY: usize = 4 * 1024;

/// The pools of all limited resources. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Capacity {
    pub(crate) connections: Pool,
    pub(crate) requests: Pool,
    waiting_requests: Pool,
    pub(crate) uploads: Pool,
    pub(crate) downloads: Pool,
    pub(crate) concatenations: Pool,
    pub(crate) concatenation_shares: Arc<Shares<Caller>>,
    pub(crate) media_reads: Pool,
    pub(crate) pattern_checks: Pool,
    pub(crate) metadata: Pool,
    pub(crate) large_bodies: Pool,
    pub(crate) replies: Pool,
    pub(crate) large_replies: Pool,
    /// Limits each caller to half of the bytes of large replies, so that a caller that reads its
    /// replies slowly does not keep all other callers from such replies.
    pub(crate) large_reply_shares: Arc<ByteShares<Caller>>,
    /// Memory of media that is read as a whole.
    pub(crate) reading: Pool,
    /// Maximum time for which a request waits for a pool.
    pub(crate) timeout: Duration,
}

/// How long a request waits for a slot before it is refused. Clients retry at once after an
/// immediate refusal, and in an overload such refusals would take most of the processor time.
const PLACE_WAIT: Duration = Duration::from_secs(1);

impl Capacity {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            connections: Pool::of_count(LimitedResource::Connections, limits.connections),
            requests: Pool::of_count(LimitedResource::Requests, limits.requests),
            waiting_requests: Pool::of_count(LimitedResource::WaitingRequests, limits.connections),
            uploads: Pool::of_count(LimitedResource::Uploads, limits.uploads),
            downloads: Pool::of_count(LimitedResource::Downloads, limits.downloads),
            concatenations: Pool::of_count(LimitedResource::Concatenations, CONCATENATIONS),
            concatenation_shares: Arc::new(Shares::new(CONCATENATIONS_OF_A_CALLER)),
            media_reads: Pool::of_count(LimitedResource::MediaReads, MEDIA_READS),
            pattern_checks: Pool::of_count(LimitedResource::PatternChecks, pattern_checks()),
            metadata: Pool::of_bytes(LimitedResource::Metadata, limits.metadata_memory),
            large_bodies: Pool::for_large(LimitedResource::LargeBodies, limits.reading_memory),
            replies: Pool::of_bytes(LimitedResource::Replies, limits.reply_memory),
            large_replies: Pool::for_large(LimitedResource::LargeReplies, limits.reading_memory),
            large_reply_shares: Arc::new(ByteShares::new(limits.reading_memory / 2)),
            reading: Pool::for_large(LimitedResource::Reading, limits.reading_memory),
            timeout: limits.takeover_timeout,
        }
    }

    /// Returns a permit for a request, and waits a short time for it. The number of waiting
    /// requests is limited to the number of connections.
    ///
    /// # Errors
    /// [`Full`] if no permit was free in time, or too many requests wait.
    pub(crate) async fn admit_request(
        &self,
        importance: impl Fn() -> Importance,
    ) -> Result<Permit, Full> {
        match self.requests.try_take_for(&importance) {
            Some(permit) => Ok(permit),
            // Boxed to keep the future of the common case small.
            None => Box::pin(self.wait_for_request(importance())).await,
        }
    }

    async fn wait_for_request(&self, importance: Importance) -> Result<Permit, Full> {
        let _waiting = self.waiting_requests.take()?;
        self.requests.wait_for(importance, PLACE_WAIT).await
    }

    /// Returns the use of all resources.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        let pools = [
            &self.connections,
            &self.requests,
            &self.waiting_requests,
            &self.uploads,
            &self.downloads,
            &self.concatenations,
            &self.media_reads,
            &self.pattern_checks,
            &self.metadata,
            &self.large_bodies,
            &self.replies,
            &self.large_replies,
            &self.reading,
        ];
        pools.map(Pool::usage).into()
    }

    /// Counts the text of a reply until its last reference is dropped. A short text is not counted.
    pub(crate) fn reply(
        &self,
        text: Bytes,
        importance: impl FnOnce() -> Importance,
    ) -> Result<Bytes, Full> {
        if text.len() <= SHORT_REPLY {
            return Ok(text);
        }
        let mut permit = self.replies.permit_for(importance);
        permit.resize(text.len() as u64)?;
        Ok(permit.with(text))
    }
}

/// Half of the processors, so that uploads continue while texts are matched.
fn pattern_checks() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.div_ceil(2)
}

/// Returns an upper bound in bytes of the memory of the values parsed from a JSON text, without the
/// text. An array's element of two bytes becomes a value of 32 bytes, in a vector that may be half
/// empty, and an object has a table.
pub(crate) fn json_cost(text: &[u8]) -> u64 {
    const STRING: u64 = 32;
    const ELEMENT: u64 = 64;
    const ENTRY: u64 = 112;
    const ARRAY: u64 = 160;
    const OBJECT: u64 = 352;
    let mut cost = text.len() as u64;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        cost += match byte {
            b'"' => {
                skip_string(&mut bytes);
                STRING
            }
            b',' => ELEMENT,
            b':' => ENTRY,
            b'[' => ARRAY,
            b'{' => OBJECT,
            _ => 0,
        };
    }
    cost
}

fn skip_string(bytes: &mut std::slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
