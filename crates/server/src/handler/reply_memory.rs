//! Memory for a reply.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use super::Rejection;
use crate::capacity::{Capacity, Full, Permit, Pool, SHORT_REPLY, json_cost};

/// The memory that a call's reply may take, while it is made and until it is sent.
#[derive(Debug)]
pub struct ReplyMemoryPermit {
    /// For media inside of the reply. Calls hold media that they read at the same time, so that counts elsewhere.
    large: Pool,
    timeout: Duration,
    held: Mutex<Permits>,
}

#[derive(Debug)]
struct Permits {
    /// What the rows take that the reply shows.
    rows: Permit,
    row_bytes: u64,
    large: Option<Permit>,
}

impl ReplyMemoryPermit {
    pub(crate) fn new(capacity: &Capacity) -> Self {
        Self {
            large: capacity.large_replies.clone(),
            timeout: capacity.timeout,
            held: Mutex::new(Permits {
                rows: capacity.replies.permit(),
                row_bytes: 0,
                large: None,
            }),
        }
    }

    /// Takes memory for media inside of the reply: text and values of it together. To be asked for once in a call,
    /// before media is read.
    ///
    /// # Errors
    /// [`Rejection::Full`] when memory was not to be had in time.
    pub async fn reserve(&self, bytes: u64) -> Result<(), Rejection> {
        // Two calls that wait with a share might wait for each other.
        self.permits().large = None;
        let permit = self.large.wait(bytes, self.timeout).await;
        self.permits().large = Some(permit?);
        Ok(())
    }

    /// Takes memory for a row that the reply shows, and for the JSON that is read from it.
    ///
    /// # Errors
    /// [`Rejection::Full`] when other replies have the memory.
    pub fn hold_row(&self, row: &[u8]) -> Result<(), Rejection> {
        let mut permits = self.permits();
        permits.row_bytes += row.len() as u64 + json_cost(row);
        let bytes = permits.row_bytes;
        Ok(permits.rows.resize(bytes)?)
    }

    /// The text of the reply, which keeps the memory that it takes until it is sent.
    pub(crate) fn into_reply(self, text: Bytes) -> Result<Bytes, Full> {
        let permits = self.held.into_inner();
        let mut permits = permits.unwrap_or_else(PoisonError::into_inner);
        if let Some(large) = permits.large {
            return Ok(large.with(text));
        }
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
    use crate::capacity::LimitedResource;
    use crate::config::Limits;

    #[tokio::test(start_paused = true)]
    async fn a_reply_holds_its_memory_until_it_is_sent() {
        let limits = Limits {
            reading_memory: 1024 * 1024,
            ..Limits::default()
        };
        let capacity = Capacity::new(&limits);
        let reply_memory = ReplyMemoryPermit::new(&capacity);
        reply_memory.reserve(700 * 1024).await.unwrap();
        let text = reply_memory.into_reply(Bytes::from_static(b"{}")).unwrap();
        assert_eq!(&text[..], b"{}");
        let other = ReplyMemoryPermit::new(&capacity);
        assert!(matches!(
            other.reserve(700 * 1024).await,
            Err(Rejection::Full(_))
        ));
        drop(text);
        other.reserve(700 * 1024).await.unwrap();
    }

    #[test]
    fn rows_count_until_the_text_is_made_and_the_text_until_it_is_sent() {
        let capacity = Capacity::new(&Limits::default());
        let usage = || capacity.usage().into_iter();
        let used = || {
            usage()
                .find(|usage| usage.resource == LimitedResource::Replies)
                .map(|usage| usage.used)
        };
        let reply_memory = ReplyMemoryPermit::new(&capacity);
        for _ in 0..10 {
            reply_memory.hold_row(&[b' '; 1000]).unwrap();
        }
        assert_eq!(used(), Some(20 * 1024));
        let text = reply_memory
            .into_reply(Bytes::from(vec![b' '; 5000]))
            .unwrap();
        assert_eq!(used(), Some(5 * 1024));
        drop(text);
        assert_eq!(used(), Some(0));
    }
}
