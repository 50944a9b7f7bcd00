//! Requests to sessions, as the engine gets them.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use http::header::CONTENT_LENGTH;
use http::{HeaderValue, StatusCode};
use windlass_digest::ExpectedDigests;
use windlass_engine::identifiers::session_id;
use windlass_engine::{Committed, Error as EngineError, SessionHead, SessionReply};
use windlass_proto::command::{
    self as proto, BodyLength, End, FirstPart, Overlap, SessionAction, SessionRequest,
};
use windlass_proto::dialect::{Dialect, Expiry, Final, Outcome, Progress, SessionStatus};
use windlass_proto::parameters::UploadId;
use windlass_store::{SessionId, Timestamp};

use crate::body::RequestBody;
use crate::connections::{InterimHead, InterimReplies};
use crate::error::Error;
use crate::metrics::RequestRecord;
use crate::reply::{self, Reply};
use crate::state::ServerState;
use crate::uploads::access::SessionTarget;
use crate::uploads::final_reply::FinalReply;
use crate::uploads::start_request::StartRequest;

/// A request that is routed to a session.
pub(crate) struct SessionCall {
    pub(super) target: SessionTarget,
    /// Name of the request's dialect.
    pub(super) dialect: &'static str,
    pub(super) call: Call,
    /// The session, if this request has started it.
    pub(super) started: Option<Started>,
}

/// The command to the session.
pub(super) enum Call {
    Continue(Box<proto::SessionHead>),
    Cancel(UploadId),
}

/// A session that this request has started.
pub(super) struct Started {
    /// URI of the session.
    pub(super) location: HeaderValue,
    pub(super) expires: Timestamp,
    /// Length of the media, if the start declares it.
    pub(super) declared: Option<u64>,
    /// Whether the body of the request is the first part of the media. It may be empty.
    pub(super) with_data: bool,
    /// Whether the client has been told the URI by an interim reply.
    pub(super) is_told: bool,
}

/// The first part of the media, which is the body of a start.
#[derive(Clone, Copy)]
pub(super) struct BodyPart {
    pub(super) part: FirstPart,
    pub(super) length: BodyLength,
}

impl Call {
    /// Appends the first part of the media to a new session.
    pub(super) fn first_part(upload_id: &str, body: Option<&BodyPart>) -> Self {
        let (end, length) = body.map_or((End::Never, None), |it| (it.part.end, it.part.length));
        Self::Continue(Box::new(proto::SessionHead {
            upload_id: UploadId::from(upload_id),
            request: SessionRequest {
                action: SessionAction::AppendAt {
                    first: 0,
                    overlap: Overlap::Conflict,
                    end,
                    length,
                },
                body: body.map_or(BodyLength::Exact(0), |it| it.length),
            },
            no_308: false,
            expected: ExpectedDigests::default(),
        }))
    }
}

impl SessionCall {
    pub(crate) async fn carry_out(
        self,
        server: &Arc<ServerState>,
        dialect: &dyn Dialect,
        body: &mut Option<RequestBody>,
        record: &RequestRecord,
    ) -> Result<Reply, Error> {
        let Self {
            target: request,
            dialect: dialect_name,
            call,
            started,
        } = self;
        let head = match call {
            Call::Continue(head) => *head,
            Call::Cancel(upload_id) => {
                let found = |start_request: &StartRequest| record.method(start_request.method_id());
                let id = session_id(upload_id.as_str());
                // Boxed to keep the future of a request small: most requests continue a session.
                Box::pin(server.engine.cancel(id, dialect_name, request, found)).await?;
                return Ok(without_body(dialect, Outcome::Cancelled));
            }
        };
        let proto::SessionHead {
            upload_id,
            request: action,
            no_308,
            expected,
        } = head;
        // Only a query reports the kept text of its dialect. It may be long, and an upload takes hours.
        let kept = OnceLock::new();
        let found = |start_request: &StartRequest| {
            record.method(start_request.method_id());
            if action.is_query() {
                kept.get_or_init(|| start_request.kept.clone());
            }
        };
        let id = session_id(upload_id.as_str());
        let unknown = started.as_ref().filter(|started| !started.is_told);
        let undo = unknown.map(|_| request.clone());
        let head = SessionHead {
            session: id,
            dialect: dialect_name,
            action,
            expected_digests: expected,
            request,
        };
        let continued = server.engine.continue_session(Box::new(head), body, found);
        let continued = continued.await;
        if let (Err(_), Some(request)) = (&continued, undo) {
            Box::pin(end_unknown(server, id, dialect_name, request)).await;
        }
        let reply = continued?;
        let kept = kept.get().and_then(Option::as_deref);
        match (reply, started) {
            (SessionReply::Committed(committed), None) => {
                let outcome = Outcome::Committed {
                    status: status_of(server, committed, kept),
                    upload_id: &upload_id,
                    no_308,
                };
                Ok(without_body(dialect, outcome))
            }
            (SessionReply::Committed(committed), Some(started)) => {
                let status = status_of(server, committed, kept);
                started.report(dialect, &upload_id, status)
            }
            (SessionReply::Final(reply), started) => {
                let to = ReplyTo {
                    upload_id: Some(&upload_id),
                    location: started.map(|started| started.location),
                    kept,
                };
                Ok(final_reply(dialect, reply, to))
            }
        }
    }

    /// Reports the session and its commits to the client by interim replies, if its dialect has such
    /// replies and the client expects them.
    pub(crate) fn report_progress(
        &mut self,
        interim: InterimReplies,
        dialect: &Arc<dyn Dialect>,
        body: &mut RequestBody,
    ) {
        if let Some(started) = &mut self.started {
            let location = &started.location;
            started.is_told = send(&interim, &**dialect, Progress::Started { location });
        }
        if dialect
            .progress(Progress::Committed { offset: 0 })
            .is_some()
        {
            let dialect = Arc::clone(dialect);
            body.on_commit(move |offset| {
                send(&interim, &*dialect, Progress::Committed { offset });
            });
        }
    }

    /// Replies to a start that has brought no data.
    pub(super) fn report_start(
        self,
        server: &ServerState,
        dialect: &dyn Dialect,
    ) -> Result<Reply, Error> {
        let (Call::Continue(head), Some(started)) = (self.call, self.started) else {
            unreachable!("it was made by a start");
        };
        let committed = Committed {
            offset: 0,
            total: started.declared,
            expires: started.expires,
        };
        let status = status_of(server, committed, None);
        started.report(dialect, &head.upload_id, status)
    }
}

/// Ends a session whose URI no client knows: it would count in the quota of its owner until it
/// expires. A session whose upload goes on to its end stays.
async fn end_unknown(
    server: &ServerState,
    id: SessionId,
    dialect: &'static str,
    request: SessionTarget,
) {
    let ended = server.engine.cancel(id, dialect, request, |_| {}).await;
    if let Err(error) = ended {
        tracing::debug!(session = ?id, %error, "a session that nobody knows stays until it expires");
    }
}

/// Sends an interim reply. Returns false if the dialect has none for the client.
fn send(interim: &InterimReplies, dialect: &dyn Dialect, progress: Progress<'_>) -> bool {
    let status = StatusCode::from_u16(104).expect("104 is a valid status");
    let headers = dialect.progress(progress);
    if let Some(head) = headers.and_then(|headers| InterimHead::new(status, &headers)) {
        interim.send(&head);
        return true;
    }
    false
}

impl Started {
    fn report(
        self,
        dialect: &dyn Dialect,
        upload_id: &UploadId,
        status: SessionStatus<'_>,
    ) -> Result<Reply, Error> {
        let upload_id = HeaderValue::try_from(upload_id.as_str());
        Ok(without_body(
            dialect,
            Outcome::Started {
                location: self.location,
                upload_id: upload_id.map_err(|_| EngineError::NotFound)?,
                status,
                with_data: self.with_data,
            },
        ))
    }
}

/// Returns the state of an unfinished session for the reply of a dialect.
fn status_of<'a>(
    server: &ServerState,
    committed: Committed,
    kept: Option<&'a str>,
) -> SessionStatus<'a> {
    let Committed {
        offset,
        total,
        expires,
    } = committed;
    let now = server.engine.parts().clock.now().as_millis();
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(expires.as_millis()));
    SessionStatus {
        offset,
        length: total,
        expires: at.map(|at| Expiry {
            at,
            left: Duration::from_millis(expires.as_millis().saturating_sub(now)),
        }),
        kept,
    }
}

fn without_body(dialect: &dyn Dialect, outcome: Outcome<'_>) -> Reply {
    reply::of_dialect(dialect.reply(outcome), reply::nothing())
}

/// The request that a final reply answers.
#[derive(Default)]
pub(super) struct ReplyTo<'a> {
    /// The session, unless the upload was made in one request.
    pub(super) upload_id: Option<&'a UploadId>,
    /// URI of the session, if the request has started it.
    pub(super) location: Option<HeaderValue>,
    /// The kept text of the dialect, if the reply reports it.
    pub(super) kept: Option<&'a str>,
}

/// Returns the final reply in the form of a dialect.
pub(super) fn final_reply(dialect: &dyn Dialect, reply: FinalReply, to: ReplyTo<'_>) -> Reply {
    let mut head = dialect.reply(Outcome::Final(Final {
        status: reply.status,
        content_type: reply.content_type,
        length: reply.length,
        resource: reply.resource,
        upload_id: to.upload_id,
        location: to.location,
        kept: to.kept,
    }));
    if head.drops_body {
        return reply::of_dialect(head, reply::nothing());
    }
    // The dialect's `Content-Length` would be wrong if the dialect replies without the body.
    head.headers.remove(CONTENT_LENGTH);
    reply::of_dialect(head, reply::full(reply.body))
}
