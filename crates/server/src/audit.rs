//! The audit log: uploads that were started, finished and cancelled, other changes, deletions, and
//! refusals, each with its principal.
//!
//! An entry is written where its fact is committed, even if the client has gone, and by background
//! tasks. The request's id and address come from a task-local variable.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::{BoxFuture, Either};
use tokio::task::futures::TaskLocalFuture;
use tokio::task_local;
use windlass_engine::identifiers::Clock;
use windlass_rest::principal::Principal;
use windlass_store::{SessionId, Timestamp};

use crate::context::{RequestContext, RequestId};

/// Takes the entries of the audit log.
pub trait AuditLog: Send + Sync + 'static {
    /// Writes an entry. Called between two steps of a request, so an implementation must return
    /// quickly.
    fn write(&self, entry: &AuditEntry<'_>);
}

/// An entry of the audit log. It contains no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEntry<'a> {
    /// Time.
    pub time: Timestamp,
    /// The action.
    pub action: AuditAction,
    /// The outcome.
    pub outcome: AuditOutcome,
    /// The principal of the action, if it is known. For a resumable upload, the principal that
    /// started it.
    pub principal: Option<&'a str>,
    /// Address of the client's end of the connection; `None` for work without a request.
    pub address: Option<IpAddr>,
    /// Id of the request, as in the log; `None` for work without a request.
    pub request: Option<String>,
    /// Id of the API method, such as `farm.animals.insert`, if the request was found to call one.
    pub method: Option<&'a str>,
    /// Path of the request, without the prefix of uploads and without the query.
    pub path: Option<&'a str>,
    /// Id of the created resource, if it has one.
    pub resource: Option<&'a str>,
    /// Upload session, if the entry belongs to one. The log shows its [`SessionId::abbreviated`]
    /// form.
    pub session: Option<SessionId>,
}

/// The action that an entry records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuditAction {
    /// A resumable upload was started.
    Start,
    /// An upload was finished, of any type.
    Finish,
    /// A resumable upload was cancelled.
    Cancel,
    /// A call without media has created or changed resources, such as the list of readers of an
    /// object.
    Change,
    /// A call has deleted resources.
    Delete,
    /// A request was refused because of its credentials.
    Authorize,
}

impl AuditAction {
    /// Returns the name in logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Finish => "finish",
            Self::Cancel => "cancel",
            Self::Change => "change",
            Self::Delete => "delete",
            Self::Authorize => "authorize",
        }
    }
}

/// The outcome of an entry's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuditOutcome {
    /// It is committed.
    Done,
    /// It was refused with this status.
    Refused(u16),
}

/// The facts about the request for which the current task works.
#[derive(Clone)]
pub(crate) struct Sender {
    request: RequestId,
    address: Option<IpAddr>,
}

impl Sender {
    pub(crate) fn of(context: &RequestContext) -> Self {
        Self {
            request: context.id.clone(),
            address: context.peer.map(|peer| peer.ip().to_canonical()),
        }
    }
}

task_local! {
    static SENDER: Sender;
}

/// The audit log of a server, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Audit(Option<(Arc<dyn AuditLog>, Arc<dyn Clock>)>);

impl Audit {
    pub(crate) fn new(log: Option<Arc<dyn AuditLog>>, clock: &Arc<dyn Clock>) -> Self {
        Self(log.map(|log| (log, Arc::clone(clock))))
    }

    /// Returns the work of a request, whose entries then name the request.
    // Not `async`: such a function would hold the work twice, as its argument and as what it awaits.
    pub(crate) fn of_request<F: Future>(
        &self,
        sender: Sender,
        work: F,
    ) -> Either<F, TaskLocalFuture<Sender, F>> {
        match self.0 {
            None => Either::Left(work),
            Some(_) => Either::Right(SENDER.scope(sender, work)),
        }
    }

    /// Writes an entry.
    pub(crate) fn write(
        &self,
        action: AuditAction,
        outcome: AuditOutcome,
        principal: Option<&Principal>,
        about: About<'_>,
    ) {
        let Some((log, clock)) = &self.0 else {
            return;
        };
        let sender = SENDER.try_with(Sender::clone).ok();
        log.write(&AuditEntry {
            time: clock.now(),
            action,
            outcome,
            principal: principal.map(Principal::id),
            address: sender.as_ref().and_then(|sender| sender.address),
            request: sender.map(|sender| sender.request.to_string()),
            method: about.method,
            path: about.path,
            resource: about.resource,
            session: about.session,
        });
    }
}

/// The known parts of a call's target.
#[derive(Clone, Copy, Default)]
pub(crate) struct About<'a> {
    pub(crate) method: Option<&'a str>,
    pub(crate) path: Option<&'a str>,
    pub(crate) resource: Option<&'a str>,
    pub(crate) session: Option<SessionId>,
}

/// Returns work that keeps the current request as its origin, whichever task polls it.
pub(crate) fn in_current_request<T: Send + 'static>(
    work: BoxFuture<'static, T>,
) -> BoxFuture<'static, T> {
    match SENDER.try_with(Sender::clone) {
        Ok(sender) => Box::pin(SENDER.scope(sender, work)),
        Err(_) => work,
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Audit").field(&self.0.is_some()).finish()
    }
}
