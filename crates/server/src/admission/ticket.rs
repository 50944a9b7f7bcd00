//! The ticket of a request.

use windlass_engine::{Full, Permit};
use windlass_rest::access::AccessError;

use crate::callers::AddressPermit;

/// The permits that a request holds until its reply is sent, and the terms on which it is admitted.
/// Dropping the ticket frees the permits.
///
/// The memory of the head and of the body is counted by the body's own permit, because the body may
/// outlive the request. The permits of an upload belong to the upload for the same reason.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Ticket {
    // The first field is dropped first: other requests may be waiting for the slot.
    slot: Option<Permit>,
    address: Option<AddressPermit>,
    /// The limit because of which the request has no slot, or no memory for its head.
    full: Option<Full>,
    /// The refusal of a caller that may read public resources nevertheless.
    public_only: Option<AccessError>,
}

impl Ticket {
    pub(super) fn add_slot(&mut self, slot: Permit) {
        self.slot = Some(slot);
    }

    pub(super) fn add_address(&mut self, permit: AddressPermit) {
        self.address = Some(permit);
    }

    /// Records that the server has no room for the request. The first such limit counts.
    pub(super) fn record_full(&mut self, full: Full) {
        self.full.get_or_insert(full);
    }

    /// Refuses a request for which the server has no room. Called after the answers that every
    /// request gets, such as the answer to a probe.
    ///
    /// # Errors
    /// The limit that is reached.
    pub(crate) fn refuse_if_full(&self) -> Result<(), Full> {
        match self.full {
            Some(full) => Err(full),
            None => Ok(()),
        }
    }

    /// Admits the request to public resources alone, and keeps the refusal for all others.
    pub(super) fn limit_to_public(&mut self, refusal: AccessError) {
        self.public_only = Some(refusal);
    }

    /// Returns the refusal of a request that is admitted to public resources alone. The client gets
    /// this refusal in place of every error that would reveal something else.
    pub(crate) fn public_only(&self) -> Option<&AccessError> {
        self.public_only.as_ref()
    }

    /// Lifts the limit to public resources and returns its refusal.
    pub(super) fn take_public_only(&mut self) -> Option<AccessError> {
        self.public_only.take()
    }
}
