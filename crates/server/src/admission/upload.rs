//! The stage of a request that starts an upload, or is one.

use windlass_rest::principal::Principal;

use super::{Check, STAGES};
use crate::error::Error;
use crate::state::ServerState;

#[derive(Debug, Clone, Copy)]
pub(super) enum UploadCheck {
    Quota,
}

/// An upload of which only the head of the first request is known.
pub(crate) struct DeclaredUpload<'a> {
    pub(crate) server: &'a ServerState,
    /// The sender, if it is known.
    pub(crate) principal: Option<&'a Principal>,
    /// Number of sessions that the request starts.
    pub(crate) sessions: u64,
    /// Length of the media in bytes, if the head states it.
    pub(crate) len: Option<u64>,
}

impl DeclaredUpload<'_> {
    /// Runs the stages.
    pub(crate) async fn admit(&self) -> Result<(), Error> {
        for stage in &STAGES {
            let Check::Upload(check) = stage.check else {
                continue;
            };
            let checked = match check {
                UploadCheck::Quota => self.ask_quota().await,
            };
            checked.inspect_err(|_| stage.log_refusal())?;
        }
        Ok(())
    }

    /// Refuses an upload that would exceed its principal's quota. The bytes are reserved only when
    /// the media begins (`uploads`), because the request may still be refused.
    async fn ask_quota(&self) -> Result<(), Error> {
        let Self {
            server,
            principal,
            sessions,
            len,
        } = *self;
        let ledger = &*server.stores.ledger;
        let owner = principal.map(Principal::id);
        Ok(server
            .engine
            .parts()
            .quotas
            .admit(ledger, owner, sessions, len)
            .await?)
    }
}
