//! The work of a call that searches.

/// The remaining work of a call, in a unit that the caller chooses.
#[derive(Debug)]
pub(crate) struct Effort {
    left: u64,
    at_once: u64,
    /// Work since the last yield to other tasks.
    unpaused: u64,
}

impl Effort {
    /// Allows `most`. The call yields to other tasks after more than `at_once`.
    pub(crate) fn new(most: u64, at_once: u64) -> Self {
        Self {
            left: most,
            at_once,
            unpaused: 0,
        }
    }

    /// Whether nothing is left, so that the call ends its page.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Counts work, and yields to other tasks now and then.
    pub(crate) async fn spend(&mut self, cost: u64) {
        self.left = self.left.saturating_sub(cost);
        self.unpaused += cost;
        if self.unpaused > self.at_once {
            self.unpaused = 0;
            tokio::task::yield_now().await;
        }
    }
}
