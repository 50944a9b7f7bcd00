//! The memory of a reply.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use windlass_engine::{Caller, Full, Importance, Permit, Pool, SharePermit, Shares};

use super::Rejection;
use crate::reply_pools::{ReplyPools, SHORT_REPLY, json_cost};

/// Permits for the memory of a reply, from its sources until it is sent.
#[derive(Debug)]
pub struct ReplyMemoryPermit {
    /// Pool for replies with media inside. It is separate from the pool of media that is read,
    /// because a call may hold both: waiting with a permit of the same pool could deadlock.
    large: Pool,
    large_shares: Shares<Caller>,
    /// The caller under whose limit the large reply is counted. `None` if the caller is not known.
    caller: Option<Caller>,
    timeout: Duration,
    held: Mutex<Permits>,
}

/// Memory of rows that are searched; see [`ReplyMemoryPermit::hold_while_searched`].
#[derive(Debug)]
#[must_use]
pub struct SearchedRows {
    permit: Permit,
    bytes: u64,
}

impl SearchedRows {
    /// Gives back the memory of an examined row. The row is dropped, or becomes part of the reply.
    pub(crate) fn release(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.permit.shrink(self.bytes);
    }
}

#[derive(Debug)]
struct Permits {
    /// Memory of the rows that the reply shows.
    rows: Permit,
    row_bytes: u64,
    large: Option<LargeReply>,
}

/// Memory of a reply with media inside.
#[derive(Debug)]
struct LargeReply {
    permit: Permit,
    share: Option<SharePermit<Caller>>,
}

impl LargeReply {
    /// Attaches the memory to the text of the reply, until it is sent.
    fn with(mut self, text: Bytes) -> Bytes {
        // The parsed values are gone. A slow reader holds only the text.
        self.permit.shrink(text.len() as u64);
        if let Some(share) = &mut self.share {
            share.shrink(text.len() as u64);
        }
        Bytes::from_owner(LargeText {
            text: self.permit.with(text),
            _share: self.share,
        })
    }
}

struct LargeText {
    text: Bytes,
    _share: Option<SharePermit<Caller>>,
}

impl AsRef<[u8]> for LargeText {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl ReplyMemoryPermit {
    /// Returns a permit that holds no memory yet, for a reply to `caller`.
    pub fn new(
        pools: &ReplyPools,
        caller: Option<Caller>,
        importance: impl FnOnce() -> Importance,
    ) -> Self {
        Self {
            large: pools.large.clone(),
            large_shares: pools.large_shares.clone(),
            caller,
            timeout: pools.timeout,
            held: Mutex::new(Permits {
                rows: pools.pool.permit_for(importance),
                row_bytes: 0,
                large: None,
            }),
        }
    }

    /// Returns a permit that never waits, for a call in a batch. The reply to the previous call may
    /// not be sent yet, and a holder of memory must not wait for more memory.
    #[must_use]
    pub fn without_waiting(self) -> Self {
        Self {
            timeout: Duration::ZERO,
            ..self
        }
    }

    /// Waits for memory for media inside the reply. The memory covers its text and its values
    /// together. In a batch this does not wait. Call it once per call, before media is read.
    ///
    /// # Errors
    /// [`Rejection::Full`] if the memory was not free in time.
    pub async fn reserve(&self, bytes: u64) -> Result<(), Rejection> {
        // Two calls that hold a permit and wait could wait for each other.
        self.permits().large = None;
        let large = async {
            // The caller's own limit comes first, so that a caller at its limit does not hold up
            // other callers.
            let share = match self.caller.clone() {
                Some(caller) => Some(self.large_shares.acquire(caller, bytes).await),
                None => None,
            };
            let permit = self.large.acquire(bytes).await;
            LargeReply { permit, share }
        };
        let large = tokio::time::timeout(self.timeout, large).await;
        let large = large.map_err(|_| self.large.full())?;
        self.permits().large = Some(large);
        Ok(())
    }

    /// Takes memory for a row that the reply shows, and for its parsed JSON. Does not wait.
    ///
    /// # Errors
    /// [`Rejection::Full`] if other replies use up the memory.
    pub fn hold_row(&self, row: &[u8]) -> Result<(), Rejection> {
        let mut permits = self.permits();
        permits.row_bytes += row.len() as u64 + json_cost(row);
        let bytes = permits.row_bytes;
        Ok(permits.rows.resize(bytes)?)
    }

    /// Takes memory for `bytes` of rows that are searched for the rows of the reply, until the
    /// permit is dropped. Does not wait.
    ///
    /// # Errors
    /// [`Rejection::Full`] if other replies use up the memory.
    pub fn hold_while_searched(&self, bytes: u64) -> Result<SearchedRows, Rejection> {
        // Separate from the rows of the reply, which stay after a searched batch is dropped.
        let mut permit = self.permits().rows.another();
        permit.resize(bytes)?;
        Ok(SearchedRows { permit, bytes })
    }

    /// Attaches the permits to the text of the reply, until it is sent.
    pub fn into_reply(self, text: Bytes) -> Result<Bytes, Full> {
        let permits = self.held.into_inner();
        let mut permits = permits.unwrap_or_else(PoisonError::into_inner);
        if let Some(large) = permits.large {
            return Ok(large.with(text));
        }
        // Also while the pool is full: an upload must get its last reply (see `SHORT_REPLY`).
        if text.len() <= SHORT_REPLY {
            return Ok(text);
        }
        permits.rows.resize(text.len() as u64)?;
        Ok(permits.rows.with(text))
    }

    fn permits(&self) -> MutexGuard<'_, Permits> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the pools of a server with this memory for large replies.
    fn pools(large_replies: u64) -> ReplyPools {
        ReplyPools::new(48 << 20, large_replies, Duration::from_secs(10))
    }

    #[tokio::test(start_paused = true)]
    async fn reply_holds_its_memory_until_it_is_sent() {
        let pools = pools(1024 * 1024);
        let reply_memory = ReplyMemoryPermit::new(&pools, None, || Importance::Query);
        reply_memory.reserve(700 * 1024).await.unwrap();
        let text = reply_memory.into_reply(Bytes::from(vec![b' '; 400 * 1024]));
        let text = text.unwrap();
        assert_eq!(text.len(), 400 * 1024);
        let other = ReplyMemoryPermit::new(&pools, None, || Importance::Query);
        // The text alone counts now.
        other.reserve(600 * 1024).await.unwrap();
        assert!(matches!(
            other.reserve(700 * 1024).await,
            Err(Rejection::Full(_))
        ));
        drop(text);
        other.reserve(700 * 1024).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn caller_with_stalled_replies_leaves_memory_to_others() {
        let pools = pools(1024 * 1024);
        let of = |name: &str| {
            let caller = Some(Caller::Principal(name.to_owned()));
            ReplyMemoryPermit::new(&pools, caller, || Importance::Query)
        };
        let stalled = async || {
            let reply_memory = of("slow");
            reply_memory.reserve(400 * 1024).await?;
            let text = Bytes::from(vec![b' '; 200 * 1024]);
            Ok::<_, Rejection>(reply_memory.into_reply(text).expect("it is reserved"))
        };
        let first = stalled().await.unwrap();
        assert!(matches!(stalled().await, Err(Rejection::Full(_))));
        of("other").reserve(400 * 1024).await.unwrap();
        drop(first);
        drop(stalled().await.unwrap());
        // A single large reply is possible.
        of("slow").reserve(900 * 1024).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn reply_in_a_batch_does_not_wait_for_memory() {
        let pools = pools(1024 * 1024);
        let before = ReplyMemoryPermit::new(&pools, None, || Importance::Query).without_waiting();
        before.reserve(700 * 1024).await.unwrap();
        let text = before.into_reply(Bytes::from(vec![b' '; 400 * 1024]));
        let text = text.unwrap();
        let begun = tokio::time::Instant::now();
        let next = ReplyMemoryPermit::new(&pools, None, || Importance::Query).without_waiting();
        let refused = next.reserve(700 * 1024).await;
        assert!(matches!(refused, Err(Rejection::Full(_))));
        assert!(begun.elapsed() < Duration::from_millis(10));
        drop(text);
        next.reserve(700 * 1024).await.unwrap();
    }

    #[test]
    fn rows_count_until_the_text_is_written_and_the_text_until_it_is_sent() {
        let pools = pools(1024 * 1024);
        let used = || pools.pool.usage().used;
        let reply_memory = ReplyMemoryPermit::new(&pools, None, || Importance::Query);
        for _ in 0..10 {
            reply_memory.hold_row(&[b' '; 1000]).unwrap();
        }
        assert_eq!(used(), 20 * 1024);
        let searched = reply_memory.hold_while_searched(30 * 1024).unwrap();
        assert_eq!(used(), 50 * 1024);
        drop(searched);
        assert_eq!(used(), 20 * 1024);
        // One gets three quarters, so two do not fit.
        let most = reply_memory.hold_while_searched(1 << 40).unwrap();
        assert!(reply_memory.hold_while_searched(1 << 40).is_err());
        drop(most);
        let text = reply_memory
            .into_reply(Bytes::from(vec![b' '; 5000]))
            .unwrap();
        assert_eq!(used(), 5 * 1024);
        drop(text);
        assert_eq!(used(), 0);
    }
}
