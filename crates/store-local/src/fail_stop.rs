//! Fail-stop: after one failure nothing succeeds any more.
//!
//! On Linux a second fdatasync after a failed one says OK while the disk still has not got the
//! bytes. So a failed sync or commit is never retried; it ends the right to acknowledge, for the
//! whole process.

use std::error::Error;
use std::sync::{Arc, OnceLock};

use windlass_store::Cause;

/// The first failure, shared by all who must stop because of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailStop(Arc<OnceLock<Cause>>);

impl FailStop {
    /// The failure, if there was one.
    pub(crate) fn check(&self) -> Result<(), Cause> {
        match self.0.get() {
            Some(cause) => Err(Arc::clone(cause)),
            None => Ok(()),
        }
    }

    /// Records a failure and returns the first there was.
    pub(crate) fn trip(&self, error: impl Error + Send + Sync + 'static) -> Cause {
        Arc::clone(self.0.get_or_init(|| Arc::new(error)))
    }
}
