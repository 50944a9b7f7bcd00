//! How much of the reply may go.

use super::super::fault::Fault;
use super::super::framing::Framing;
use super::super::head::Head;

/// The reply on its way to the client.
#[derive(Debug)]
pub(super) struct Replying {
    pub(super) verb: String,
    /// The rest of the body, or `None` before the final head.
    pub(super) framing: Option<Framing>,
    /// How many bytes of the inbox may go.
    pub(super) cleared: usize,
    /// How many more bytes reach the client.
    pub(super) cut_after: Option<u64>,
    /// Whether some of it was thrown away.
    pub(super) is_cut: bool,
    pub(super) loses_range: bool,
}

impl Replying {
    pub(super) fn new(request: &Head, fault: Option<Fault>) -> Self {
        Self {
            verb: request.verb().to_owned(),
            framing: None,
            cleared: 0,
            cut_after: fault.and_then(Fault::cuts_reply_after),
            is_cut: false,
            loses_range: fault == Some(Fault::RangeLost),
        }
    }

    /// The number of cleared bytes that may reach the client.
    pub(super) fn allowed(&self) -> usize {
        let limit = self.cut_after.map(usize::try_from);
        self.cleared
            .min(limit.map_or(usize::MAX, |limit| limit.unwrap_or(usize::MAX)))
    }

    pub(super) fn sent(&mut self, len: usize) {
        self.cleared -= len;
        self.cut_after = self.cut_after.map(|after| after - len as u64);
    }

    pub(super) fn throw_away(&mut self) {
        self.cleared = 0;
        self.is_cut = true;
    }

    /// Whether the upstream has sent all of it.
    pub(super) fn has_come(&self) -> bool {
        self.framing.as_ref().is_some_and(Framing::is_complete)
    }
}
