//! Resumable uploads: start, query, append, cancel.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryFutureExt as _};
use windlass_engine::Error as EngineError;
use windlass_engine::identifiers::{new_upload_id, session_id};
use windlass_proto::command::{SessionAction, SessionHead};
use windlass_proto::error::ProtocolError;
use windlass_proto::parameters::UploadId;
use windlass_proto::session::{SessionError, Step, step};
use windlass_store::{EndSession, Failpoint, NewSession, Session, SessionId, SessionState};

use super::append::{append, finish_active, resume_finish};
use super::finish::admit;
use super::session_cache::CachedSession;
use super::sessions::{LockedSession, SessionReply, SessionTarget, snapshot, start_request_of};
use super::start_request::StartRequest;
use super::{ServerState, run_to_completion};
use crate::audit::{AuditAction, AuditOutcome};
use crate::body::RequestBody;
use crate::context::Principal;
use crate::error::Error;
use crate::metrics::RequestRecord;

/// Message of the panic if the body has already been taken, which is a bug.
// Only `continue_session` takes the body, once, after `answer_without_lease` has returned.
const BODY_PRESENT: &str = "nobody has taken the body yet";

/// Starts a session and returns its `upload_id`. `declared` is the length in bytes that the
/// client announced, `dialect` the name of the dialect that it speaks.
pub(crate) async fn start(
    server: &ServerState,
    mut start_request: StartRequest,
    declared: Option<u64>,
    dialect: &'static str,
) -> Result<String, Error> {
    server.admit_upload()?;
    let limit = server.sessions.max_size(&start_request)?;
    if let (Some(limit), Some(declared)) = (limit, declared)
        && declared > limit
    {
        return Err(start_request.name_link_limit(SessionError::TooLarge { limit }));
    }
    admit(server, &start_request).await?;
    let created = server.clock.now();
    let upload_id = new_upload_id(created);
    let session = NewSession {
        id: session_id(&upload_id),
        context: Vec::new(),
        created,
        expires: server.settings.lifetime().expiry(created, created),
        total: declared,
        owner: start_request.principal.as_ref().map(Principal::to_string),
        dialect: dialect.to_owned(),
    };
    // Only the row needs the start request as bytes. The cached session has the parsed one.
    let context = start_request.to_bytes();
    let row = NewSession {
        context,
        ..session.clone()
    };
    // Committed before the reply: a client that has the `Location` relies on the session.
    let quota = server.quotas.of_start(row.owner.as_deref()).await?;
    server.stores.ledger.start_within(row, quota).await?;
    server.metrics.sessions.started.inc();
    let principal = start_request.principal.as_ref();
    let (action, about) = (AuditAction::Start, start_request.audited(Some(session.id)));
    server
        .audit
        .write(action, AuditOutcome::Done, principal, about);
    Failpoint::SessionStarted.reach();
    // The cache must stay small.
    start_request.drop_details();
    server.sessions.cache.put(CachedSession {
        session: session.into(),
        start_request,
        media: None,
        space: None,
        since: created,
    });
    Ok(upload_id)
}

/// Carries out a request to a session: appends its body, reports the committed offset,
/// finishes, or repeats the final reply. The API method of the session goes into `record`.
pub(crate) async fn continue_session(
    server: &Arc<ServerState>,
    mut head: Box<SessionHead>,
    target: SessionTarget,
    body: &mut Option<RequestBody>,
    record: &RequestRecord,
) -> Result<SessionReply, Error> {
    let id = session_id(head.upload_id.as_str());
    let appends_to_cached = server.sessions.cache.any(id, |cached| {
        let appends_to_cached = server
            .sessions
            .appends_to_cached(cached, &target, &head.request);
        if appends_to_cached {
            record.method(cached.start_request.method_id());
        }
        appends_to_cached
    });
    // A request that continues a cached session does not read the session's row first. Any other is
    // answered without a lease if possible, so that a query does not stop a running append. Boxed,
    // so that its memory is free again while the body is awaited.
    let mut start_request = None;
    if !appends_to_cached {
        let answered = answer_without_lease(server, id, &mut head, &target, body, record);
        match Box::pin(answered).await? {
            Answered::Reply(reply) => return Ok(reply),
            Answered::NeedsLease(read) => start_request = Some(*read),
        }
    }
    let shared = Arc::clone(server);
    let body = body.take().expect(BODY_PRESENT);
    // Boxed separately, so that its memory is free again while the body is awaited.
    let take_lease = Box::pin(async move {
        let sessions = &shared.sessions;
        let lease = sessions.lease_for(id, &target, &head.request, start_request);
        let mut locked = lease.await;
        if let Ok(locked) = &mut locked {
            locked.start_request.client = target.client;
        }
        (shared, locked, head, body)
    });
    // From here on the request may hold a lease and uncommitted bytes. If the client
    // disconnects, the request runs on until the bytes are committed and the guard is released.
    run_to_completion(
        &server.lifecycle,
        Box::pin(async move {
            let (server, locked, head, body) = take_lease.await;
            let first_offset = head.request.first();
            let action = match locked {
                Ok(locked) => begin_action(server, locked, &head, body)?,
                Err(Error::Engine(EngineError::Superseded)) => async move {
                    let reply = server.sessions.yield_to_newer(id, first_offset, body).await;
                    reply.map(SessionReply::Final)
                }
                .boxed(),
                Err(error) => return Err(error),
            };
            // Dropped before the body is awaited, which may take hours.
            drop(head);
            action.await
        }),
    )
    .await
}

/// The result of a request without a lease.
enum Answered {
    Reply(SessionReply),
    /// The request needs the lease of its session. This is the session's start request.
    NeedsLease(Box<StartRequest>),
}

/// Answers a request that need not stop the session's writer.
async fn answer_without_lease(
    server: &ServerState,
    id: SessionId,
    head: &mut SessionHead,
    target: &SessionTarget,
    body: &mut Option<RequestBody>,
    record: &RequestRecord,
) -> Result<Answered, Error> {
    let (mut session, mut start_request) = server.sessions.read_session(id, target).await?;
    record.method(start_request.method_id());
    let rules = server.sessions.rules(&session, &start_request)?;
    // They may be long and are not needed here. The client decides how long the end of the body
    // takes.
    session.context = Vec::new();
    start_request.drop_details();
    let is_foreign = session.dialect != target.dialect;
    // If a finish states no offset, it refers to the bytes that are committed now. The offset is
    // filled in before the takeover: the takeover makes a running request commit more bytes, of
    // which this client does not know.
    if let SessionAction::Finish { first } = &mut head.request.action {
        first.get_or_insert(session.progress.offset);
    }
    let report = async |body: &mut Option<RequestBody>| {
        require_empty(body.as_mut().expect(BODY_PRESENT)).await?;
        let offset = session.progress.offset;
        Ok(Answered::Reply(SessionReply::Committed(offset)))
    };
    let needs_lease = Answered::NeedsLease(Box::new(start_request));
    match step(&snapshot(&session), &rules, &head.request) {
        Ok(Step::Replay) => {
            let reply = server.sessions.replay(&session)?;
            Ok(Answered::Reply(SessionReply::Final(reply)))
        }
        Ok(Step::Report) => report(body).await,
        // A request in any dialect may query a session. Only the session's own dialect may change
        // it: in Google's dialect, a query also finishes an upload that is committed completely.
        Ok(Step::Finish { .. }) if is_foreign && head.request.is_query() => report(body).await,
        Ok(Step::ResumeFinish) if is_foreign && head.request.is_query() => {
            Err(Error::FinishPending)
        }
        _ if is_foreign => Err(Error::OtherDialect),
        // Errors are answered at once, except two that need the lease: an error that ends the
        // session, and a gap. To get the lease, this request takes over the session. A running
        // request then commits the bytes that it has received, which may close the gap.
        Err(error) if !error.ends_session() && !matches!(error, SessionError::Gap { .. }) => {
            Err(error.into())
        }
        Ok(Step::Finish { .. }) => {
            // Before the lease is taken: the body must be empty, and a client may take long to
            // end it. No other request should wait for that.
            require_empty(body.as_mut().expect(BODY_PRESENT)).await?;
            Ok(needs_lease)
        }
        Ok(Step::ResumeFinish | Step::Append(_)) | Err(_) => Ok(needs_lease),
    }
}

/// Cancels a session.
///
/// # Errors
/// [`Error::AlreadyCancelled`] if it was cancelled earlier.
pub(crate) async fn cancel(
    server: &Arc<ServerState>,
    upload_id: &UploadId,
    target: SessionTarget,
    record: &RequestRecord,
) -> Result<SessionReply, Error> {
    let id = session_id(upload_id.as_str());
    let read = server.sessions.read_session(id, &target).await;
    let (session, mut request) = read.map_err(already_cancelled)?;
    record.method(request.method_id());
    if session.dialect != target.dialect {
        return Err(Error::OtherDialect);
    }
    // Dropped early, because the lease may be awaited for a long time.
    drop(session);
    request.drop_details();
    let lifecycle = Arc::clone(&server.lifecycle);
    let server = Arc::clone(server);
    run_to_completion(
        &lifecycle,
        Box::pin(async move {
            let locked = server.sessions.lease(id, &target, request).await;
            let locked = locked.map_err(already_cancelled)?;
            let request = &locked.start_request;
            match locked.session.state {
                SessionState::Active => {
                    let epoch = locked.session.epoch;
                    Failpoint::CancelLeased.reach();
                    server
                        .stores
                        .ledger
                        .end(id, epoch, EndSession::Cancelled)
                        .await?;
                    server.metrics.sessions.cancelled.inc();
                    let (action, about) = (AuditAction::Cancel, request.audited(Some(id)));
                    server.audit.write(
                        action,
                        AuditOutcome::Done,
                        target.principal.as_ref(),
                        about,
                    );
                    Failpoint::CancelCommitted.reach();
                    // The media is now garbage. The sweep need not wait: the client may need the
                    // space soon.
                    server.lifecycle.sweep_now.notify_one();
                    Ok(SessionReply::Cancelled)
                }
                // All bytes are committed, so the server will finish the upload.
                SessionState::Finishing => Err(Error::FinishPending),
                SessionState::Finished => Err(Error::AlreadyFinished),
                SessionState::Cancelled => Err(Error::AlreadyCancelled),
                SessionState::Failed => Err(SessionError::Gone.into()),
            }
        }),
    )
    .await
}

/// Returns the error for a cancel of a session that is refused with `error`.
fn already_cancelled(error: Error) -> Error {
    match error {
        Error::Protocol(ProtocolError::Session(SessionError::Cancelled)) => Error::AlreadyCancelled,
        error => error,
    }
}

/// For this long after its expiry, the server keeps trying to finish a session in the state
/// *finishing* that meets temporary errors, such as a lack of space. All bytes of such a session
/// are acknowledged.
const FINISH_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// Finishes a session that was left in the state *finishing*, for example by a crash. Ends it as
/// failed after an error that the upload itself causes, and after any error if it expired a day
/// ago.
pub(crate) async fn finish_interrupted_upload(
    server: &Arc<ServerState>,
    session: Session,
) -> Result<(), Error> {
    let id = session.id;
    let start_request = start_request_of(&session);
    drop(session);
    let lifecycle = Arc::clone(&server.lifecycle);
    let server = Arc::clone(server);
    run_to_completion(
        &lifecycle,
        Box::pin(async move {
            // A request that is still finishing the session holds the guard. If it does not
            // release the guard in time, nothing is done here: a new lease would fence it.
            let timeout = server.settings.limits.takeover_timeout;
            let Ok(guard) = server.sessions.guards.take_over(id, timeout).await else {
                return Ok(());
            };
            let Some(session) = server.stores.ledger.lease(id).await? else {
                return Ok(());
            };
            // A request may have finished the session in the meantime.
            if session.state != SessionState::Finishing {
                return Ok(());
            }
            let given_up = session.expires.saturating_add(FINISH_GRACE);
            let (epoch, is_given_up) = (session.epoch, server.clock.now() >= given_up);
            let start_request = match start_request {
                // The start request in the row cannot be read, for example because a newer version
                // of the server has written it. Until then it is kept, because that version can
                // still finish it.
                Err(error) if is_given_up => {
                    server.sessions.fail(id, epoch).await;
                    return Err(error);
                }
                start_request => start_request?,
            };
            let locked = Box::new(LockedSession {
                session,
                start_request,
                media: None,
                space: None,
                guard,
            });
            Failpoint::LeftOverLeased.reach();
            match resume_finish(Arc::clone(&server), locked).await {
                Err(error) if is_given_up => {
                    server.sessions.fail(id, epoch).await;
                    Err(error)
                }
                finished => finished.map(drop),
            }
        }),
    )
    .await
}

/// Returns the future that carries out a request to its leased session.
///
/// Not an `async fn`, so that the future does not hold `head` while the body is awaited.
fn begin_action(
    server: Arc<ServerState>,
    locked: Box<LockedSession>,
    head: &SessionHead,
    body: RequestBody,
) -> Result<BoxFuture<'static, Result<SessionReply, Error>>, Error> {
    let rules = server
        .sessions
        .rules(&locked.session, &locked.start_request)?;
    let expected_digests = head.expected;
    let action = match step(&snapshot(&locked.session), &rules, &head.request) {
        Ok(Step::Append(body_filter)) => {
            append(server, locked, body_filter, expected_digests, body)
        }
        Ok(Step::Replay) => replay_final(server, locked, body).boxed(),
        Ok(Step::ResumeFinish) => {
            let finish = resume_finish(server, locked);
            finish.map_ok(SessionReply::Final).boxed()
        }
        Ok(Step::Report) => {
            let offset = locked.session.progress.offset;
            ready(Ok(SessionReply::Committed(offset))).boxed()
        }
        Ok(Step::Finish { total }) => {
            let finish = finish_active(server, locked, total, expected_digests);
            finish.map_ok(SessionReply::Final).boxed()
        }
        Err(error) => refuse(server, locked, error, body).boxed(),
    };
    Ok(action)
}

/// Returns the stored final reply. If the rest of the body is known to be short, reads it first, so
/// that the connection can be reused.
async fn replay_final(
    server: Arc<ServerState>,
    locked: Box<LockedSession>,
    mut body: RequestBody,
) -> Result<SessionReply, Error> {
    let reply = server
        .sessions
        .replay(&locked.session)
        .map(SessionReply::Final);
    drop(locked);
    body.finish_if_short().await;
    reply
}

/// Refuses a request with `error`. Ends the session if the error requires it. If the rest of the
/// body is known to be short, reads it first, so that the connection can be reused.
async fn refuse(
    server: Arc<ServerState>,
    locked: Box<LockedSession>,
    error: SessionError,
    mut body: RequestBody,
) -> Result<SessionReply, Error> {
    let mut answer = locked.start_request.name_link_limit(error);
    if error.ends_session() {
        let failed = server
            .sessions
            .fail(locked.session.id, locked.session.epoch)
            .await;
        answer = failed.error_for_reply(answer);
    }
    drop(locked);
    body.finish_if_short().await;
    Err(answer)
}

/// Refuses a body that has bytes.
async fn require_empty(body: &mut RequestBody) -> Result<(), Error> {
    if body.is_empty().await? {
        Ok(())
    } else {
        Err(SessionError::QueryWithBody.into())
    }
}
