//! Memory for a reply that is large.

use std::sync::{Mutex, PoisonError};

use super::Rejection;
use crate::memory::{Memory, Share};

/// The memory that a call's reply may take: shares that are held until the reply is written.
#[derive(Debug)]
pub struct Allowance {
    memory: Memory,
    shares: Mutex<Vec<Share>>,
}

impl Allowance {
    pub(crate) fn new(memory: Memory) -> Self {
        Self {
            memory,
            shares: Mutex::default(),
        }
    }

    /// Takes a share of so many bytes, text and values of the reply together. What is small goes
    /// without. To be asked for once in a call, before media is read.
    ///
    /// # Errors
    /// [`Rejection::Busy`] when memory was not to be had in time.
    pub async fn reserve(&self, bytes: u64) -> Result<(), Rejection> {
        let share = self.memory.reserve(bytes).await;
        let share = share.map_err(|_| Rejection::Busy)?;
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.extend(share);
        Ok(())
    }

    /// What was taken, for the reply to hold.
    pub(crate) fn into_shares(self) -> Vec<Share> {
        self.shares
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
