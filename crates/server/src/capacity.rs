//! Limits on the resources that clients can make the server hold.
//!
//! Each resource is counted in one [`Pool`], created in [`Capacity::new`]. A request that does not
//! fit is refused with 503 by the table of errors. docs/configuration.md lists all limits.

use std::num::NonZero;
use std::time::Duration;

use windlass_engine::{Caller, Full, Importance, LimitedResource, Permit, Pool, Shares, Usage};
use windlass_rest::reply_pools::ReplyPools;

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

/// The pools of all limited resources. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Capacity {
    pub(crate) connections: Pool,
    pub(crate) requests: Pool,
    waiting_requests: Pool,
    pub(crate) uploads: Pool,
    pub(crate) downloads: Pool,
    pub(crate) concatenations: Pool,
    pub(crate) concatenation_shares: Shares<Caller>,
    pub(crate) media_reads: Pool,
    pub(crate) pattern_checks: Pool,
    pub(crate) metadata: Pool,
    pub(crate) large_bodies: Pool,
    pub(crate) replies: ReplyPools,
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
            concatenation_shares: Shares::of_count(CONCATENATIONS_OF_A_CALLER),
            media_reads: Pool::of_count(LimitedResource::MediaReads, MEDIA_READS),
            pattern_checks: Pool::of_count(LimitedResource::PatternChecks, pattern_checks()),
            metadata: Pool::of_bytes(LimitedResource::Metadata, limits.metadata_memory),
            large_bodies: Pool::for_large(LimitedResource::LargeBodies, limits.reading_memory),
            replies: ReplyPools::new(
                limits.reply_memory,
                limits.reading_memory,
                limits.takeover_timeout,
            ),
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
            &self.replies.pool,
            &self.replies.large,
            &self.reading,
        ];
        pools.map(Pool::usage).into()
    }
}

/// Half of the processors, so that uploads continue while texts are matched.
fn pattern_checks() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.div_ceil(2)
}

#[cfg(test)]
mod tests;
