//! Requests to sessions, as the engine gets them.

use std::sync::Arc;

use http::header::CONTENT_LENGTH;
use windlass_engine::identifiers::session_id;
use windlass_engine::{SessionHead, SessionReply};
use windlass_proto::command as proto;
use windlass_proto::dialect::{Dialect, Outcome};
use windlass_proto::parameters::UploadId;

use crate::body::RequestBody;
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
}

/// The command to the session.
pub(super) enum Call {
    Continue(Box<proto::SessionHead>),
    Cancel(UploadId),
}

impl SessionCall {
    pub(crate) async fn carry_out(
        self,
        server: &Arc<ServerState>,
        dialect: &dyn Dialect,
        body: &mut Option<RequestBody>,
        record: &RequestRecord,
    ) -> Result<Reply, Error> {
        let found = |start_request: &StartRequest| record.method(start_request.method_id());
        let Self {
            target: request,
            dialect: dialect_name,
            call,
        } = self;
        let without_body = |outcome| reply::of_dialect(dialect.reply(outcome), reply::nothing());
        let (upload_id, no_308, head) = match call {
            Call::Continue(head) => {
                let proto::SessionHead {
                    upload_id,
                    request: action,
                    no_308,
                    expected,
                } = *head;
                let head = SessionHead {
                    session: session_id(upload_id.as_str()),
                    dialect: dialect_name,
                    action,
                    expected_digests: expected,
                    request,
                };
                (upload_id, no_308, Box::new(head))
            }
            Call::Cancel(upload_id) => {
                let id = session_id(upload_id.as_str());
                let cancel = server.engine.cancel(id, dialect_name, request, found);
                // Boxed to keep the future of a request small: most requests continue a session.
                Box::pin(cancel).await?;
                return Ok(without_body(Outcome::Cancelled));
            }
        };
        match server.engine.continue_session(head, body, found).await? {
            SessionReply::Committed(offset) => Ok(without_body(Outcome::Committed {
                offset,
                upload_id: &upload_id,
                no_308,
            })),
            SessionReply::Final(reply) => Ok(final_reply(dialect, reply, Some(&upload_id))),
        }
    }
}

/// Returns the final reply in the form of a dialect.
pub(super) fn final_reply(
    dialect: &dyn Dialect,
    reply: FinalReply,
    upload_id: Option<&UploadId>,
) -> Reply {
    let mut head = dialect.reply(Outcome::Final {
        status: reply.status,
        content_type: reply.content_type,
        upload_id,
    });
    // The dialect's `Content-Length` would be wrong if the dialect replies without the body.
    head.headers.remove(CONTENT_LENGTH);
    reply::of_dialect(head, reply::full(reply.body))
}
