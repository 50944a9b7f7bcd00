//! From complete media to a resource and a stored reply.

use std::fmt;
use std::mem;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method as HttpMethod, StatusCode};
use serde_json::{Map, Value};
use windlass_digest::Digests;
use windlass_discovery::{Method, PathParameters};
use windlass_engine::identifiers::new_resource_id;
use windlass_engine::{Error as EngineError, Importance, copies};
use windlass_proto::parameters::{Parameters, StandardParameters};
use windlass_store::{
    ChangeSet, Epoch, Expected, Failpoint, FinishSession, LedgerError, Media, MediaLocation,
    Progress, SessionId, Timestamp,
};

use super::ServerState;
use super::start_request::StartRequest;
use crate::audit::{About, AuditAction, AuditOutcome};
use crate::auth::AccessError;
use crate::context::Principal;
use crate::error::Error;
use crate::handler::{
    self, Answer, Call, Concatenation, Conditions, Content, Rejection, ReplyMemoryPermit,
    StoreReader, Uploaded,
};
use crate::link_uses;
use crate::namespace::Namespace;
use crate::outbox::{Source, with_events};
use crate::partial_response::FieldMask;
use crate::registry::{ServedApi, ServedMethod};
use crate::reply::{JSON, json_bytes};

/// Maximum number of times that the handler is called for one upload, if other calls keep changing
/// the same resource. The upload then gets [`Error::Crowded`].
// Calls with the same lock key are serialised in this process, so conflicts are rare.
pub(crate) const ATTEMPTS: usize = 8;

/// The reply that ends an upload, as it is stored and repeated.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FinalReply {
    pub(crate) status: StatusCode,
    pub(crate) content_type: HeaderValue,
    /// The body, already shaped as the client asked for.
    pub(crate) body: Bytes,
}

/// Hides the body, which may be a secret, such as an upload token.
impl fmt::Debug for FinalReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinalReply")
            .field("status", &self.status)
            .field("content_type", &self.content_type)
            .finish_non_exhaustive()
    }
}

/// Set in a stored status if the body is not JSON. Its media type then follows.
const HAS_CONTENT_TYPE: u16 = 0x8000;

impl FinalReply {
    /// Two bytes of status, then the body. If the body is not JSON, its type is between them, after
    /// two bytes with the type's length.
    fn to_bytes(&self) -> Vec<u8> {
        let status = self.status.as_u16();
        let mut bytes = if self.content_type == JSON {
            status.to_be_bytes().to_vec()
        } else {
            let content_type = self.content_type.as_bytes();
            // No client takes a header of 64 KiB.
            let len = u16::try_from(content_type.len()).unwrap_or(u16::MAX);
            let mut bytes = (status | HAS_CONTENT_TYPE).to_be_bytes().to_vec();
            bytes.extend_from_slice(&len.to_be_bytes());
            bytes.extend_from_slice(&content_type[..usize::from(len)]);
            bytes
        };
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Reads the stored form.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (status, rest) = bytes.split_first_chunk::<2>()?;
        let status = u16::from_be_bytes(*status);
        let (content_type, body) = if status & HAS_CONTENT_TYPE == 0 {
            (JSON, rest)
        } else {
            let (len, rest) = rest.split_first_chunk::<2>()?;
            let len = usize::from(u16::from_be_bytes(*len));
            let (content_type, body) = rest.split_at_checked(len)?;
            (HeaderValue::from_bytes(content_type).ok()?, body)
        };
        Some(Self {
            status: StatusCode::from_u16(status & !HAS_CONTENT_TYPE).ok()?,
            content_type,
            body: Bytes::copy_from_slice(body),
        })
    }
}

/// Complete media for which the resource has not been created yet.
#[derive(Debug)]
pub(crate) struct FinishedMedia {
    pub(crate) media: Media,
    /// The bytes of small media, which are committed together with the resource. `None` for media
    /// that is durable already.
    pub(crate) small_bytes: Option<Bytes>,
    /// Whether a resource has this media already. The change set then does not declare it as new.
    pub(crate) is_referenced: bool,
    /// Number of bytes that the client has sent. The server may copy as many for it.
    pub(crate) uploaded: u64,
    /// Resources that the media depends on, as they were read.
    pub(crate) expect: Vec<Expected>,
}

impl FinishedMedia {
    /// Returns media that has been uploaded. It depends on no other resource.
    pub(crate) fn uploaded(media: Media, small_bytes: Option<Bytes>) -> Self {
        Self {
            uploaded: media.length,
            media,
            small_bytes,
            is_referenced: false,
            expect: Vec::new(),
        }
    }
}

/// The session that ends when its upload finishes.
#[derive(Debug, Clone)]
pub(crate) struct SessionRef {
    pub(crate) id: SessionId,
    /// Epoch of the request's lease.
    pub(crate) epoch: Epoch,
    /// Progress of the complete upload.
    pub(crate) progress: Progress,
}

/// Creates the resource and commits it together with the end of the session, if there is one.
///
/// Calls the handler again if another call has changed the same resource. After an error nothing
/// has changed, except that the outcome of a commit is unknown after a fault of the ledger. If the
/// error [is permanent](is_permanent), the caller must end the session as failed.
pub(crate) async fn finish(
    server: &ServerState,
    start_request: &StartRequest,
    finished: &FinishedMedia,
    session_ref: Option<&SessionRef>,
) -> Result<FinalReply, Error> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match try_finish(server, start_request, finished, session_ref).await {
            Err(Error::Engine(EngineError::Ledger(LedgerError::Conflict)))
                if attempt < ATTEMPTS => {}
            Err(Error::Engine(EngineError::Ledger(LedgerError::Conflict))) => {
                return Err(Error::Crowded);
            }
            ended => return ended,
        }
    }
}

/// As [`finish`], but calls the handler once.
///
/// # Errors
/// [`LedgerError::Conflict`] if another call has changed the same resource.
pub(super) async fn try_finish(
    server: &ServerState,
    start_request: &StartRequest,
    finished: &FinishedMedia,
    session_ref: Option<&SessionRef>,
) -> Result<FinalReply, Error> {
    let parts = CallParts::new(server, start_request)?;
    let handler = &*parts.served_api.handler;
    let call = parts.call(server, start_request);
    // Held until the commit, so that the next call of the same key sees this change.
    let _guard = server.lock_for(handler, &call).await?;
    let link = start_request.link.as_ref();
    link_uses::check_unused(&*server.stores.ledger, link).await?;
    let media = uploaded(server, finished);
    let record = media.media.clone();
    let mut answer = handler::run(handler, &call, Some(media)).await?;
    if let Some(callback) = &parts.served_api.on_uploaded {
        let body = answer.body.as_ref();
        let event = callback.event(&call.method.id, call.principal, body, record);
        answer.events.push(event);
    }
    Failpoint::HandlerAnswered.reach();
    let body = answer.body.take();
    let status = status(server, start_request, session_ref)?;
    let made = audited_id(body.as_ref());
    let mut reply = build_reply(start_request, body, status)?;
    // The body counts against the bound on reply memory from here on. Before the commit: a
    // committed upload cannot be refused for lack of reply memory.
    reply.body = server.capacity.reply(reply.body, || {
        server.importance_to(start_request.client, Importance::Finish)
    })?;
    let events = mem::take(&mut answer.events);
    answer.changes = with_events(answer.changes, events, &Source::of(&call))?;
    answer.changes.extend(link_uses::record(link, call.now));
    let changes = answer.changes.clone();
    let brought = finished.uploaded + start_request.memory() as u64;
    let copy = server.copies.charge(
        || start_request.caller(),
        copies::bytes_beyond(brought, &changes),
    )?;
    let change_set = change_set(answer, finished, session_ref, &reply);
    // One transaction for the resource, its events, the reply and the end of the session, so
    // that a crash leaves all of them or none.
    let fields = start_request.memory() + reply.body.len();
    let quotas = match session_ref {
        None => server.quotas.of_changes(&change_set).await?,
        Some(_) => server.quotas.of_finish(&change_set, fields).await?,
    };
    let ledger = &server.stores.ledger;
    ledger.apply_within(change_set, quotas).await?;
    copy.keep();
    let uploaded = finished.uploaded;
    server.copies.uploaded(|| start_request.caller(), uploaded);
    if session_ref.is_some() {
        server.metrics.sessions.finished.inc();
    }
    let about = About {
        resource: made.as_deref(),
        ..start_request.audited(session_ref.map(|session_ref| session_ref.id))
    };
    server.audit.write(
        AuditAction::Finish,
        AuditOutcome::Done,
        call.principal,
        about,
    );
    Failpoint::FinishApplied.reach();
    server.outbox.wake(&changes);
    let at = finished.media.at;
    let is_used = changes.iter().any(|change| change.references(at));
    if !is_used || !start_request.creates() {
        // If the handler has not used the new media, that media is now garbage. If the request has
        // changed a resource, the resource's older media may be garbage.
        server.lifecycle.sweep_now.notify_one();
    }
    Ok(reply)
}

/// The id of a resource, for the audit log.
fn audited_id(body: Option<&Content>) -> Option<String> {
    match body? {
        Content::Json(body) => body.get("id")?.as_str().map(str::to_owned),
        Content::Bytes { .. } => None,
    }
}

/// Asks the handler again for the media that the call needs, after an attempt has failed. The
/// sources may have changed since.
///
/// # Errors
/// The handler's error, for example if a source does not exist any more. [`Error::Crowded`] if the
/// call needs no media any more, because other calls have changed its effect. The client then
/// repeats the call, and the repetition is answered without media.
pub(super) async fn concatenation(
    server: &ServerState,
    start_request: &StartRequest,
) -> Result<Concatenation, Error> {
    let parts = CallParts::new(server, start_request)?;
    let call = parts.call(server, start_request);
    let answer = handler::run(&*parts.served_api.handler, &call, None).await?;
    answer.concatenation.ok_or(Error::Crowded)
}

/// Returns an error if the handler refuses to let the upload begin, or the signed link has been
/// used.
pub(crate) async fn admit(server: &ServerState, start_request: &StartRequest) -> Result<(), Error> {
    link_uses::check_unused(&*server.stores.ledger, start_request.link.as_ref()).await?;
    let parts = CallParts::new(server, start_request)?;
    let handler = &parts.served_api.handler;
    Ok(handler.admit(&parts.call(server, start_request)).await?)
}

/// Returns the media as the handler sees it.
fn uploaded(server: &ServerState, finished: &FinishedMedia) -> Uploaded {
    Uploaded::new(
        server.store_handles.clone(),
        finished.media.clone(),
        finished.small_bytes.clone(),
    )
}

/// Returns the status of the final reply. For a resumable upload that was started by POST, it is
/// the API's `created_status`, which is 201 by default as Google's documents promise. For all other
/// uploads it is 200 (docs/protocol.md, decision 1).
fn status(
    server: &ServerState,
    start_request: &StartRequest,
    session_ref: Option<&SessionRef>,
) -> Result<StatusCode, Error> {
    if session_ref.is_none() || !start_request.creates() {
        return Ok(StatusCode::OK);
    }
    let method = start_request.method(&server.registry)?;
    let settings = method.served.api.settings();
    Ok(settings.created_status.status_code())
}

/// The values that a [`Call`] borrows.
struct CallParts<'a> {
    served_api: &'a ServedApi,
    method: &'a Method,
    path: PathParameters,
    query: Parameters,
    now: Timestamp,
    fresh_id: String,
    metadata: Map<String, Value>,
    conditions: (HttpMethod, HeaderMap),
    reply_memory: ReplyMemoryPermit,
    separate_owner: Option<&'a Principal>,
    namespace: Namespace,
}

impl<'a> CallParts<'a> {
    fn new(server: &'a ServerState, start_request: &'a StartRequest) -> Result<Self, Error> {
        let served_method = start_request.method(&server.registry)?;
        let ServedMethod {
            served: served_api,
            method,
        } = served_method;
        let now = server.clock.now();
        let principal = start_request.principal.as_ref();
        let (separate_owner, namespace) = server.ownership(served_api, principal);
        Ok(Self {
            separate_owner,
            namespace,
            served_api,
            method,
            path: start_request.path_parameters(served_method),
            query: start_request.parameters(),
            now,
            fresh_id: new_resource_id(now),
            metadata: start_request.metadata()?,
            conditions: start_request.conditions(),
            reply_memory: server.reply_memory(principal, start_request.client),
        })
    }

    /// Returns the call for the handler.
    fn call<'b>(&'b self, server: &'b ServerState, start_request: &'b StartRequest) -> Call<'b> {
        Call {
            api: &self.served_api.api,
            method: self.method,
            path: &self.path,
            query: &self.query,
            metadata: &self.metadata,
            now: self.now,
            fresh_id: &self.fresh_id,
            base_url: &start_request.base_url,
            principal: start_request.principal.as_ref(),
            refusal: None,
            separate_owner: self.separate_owner,
            lookup: StoreReader::new(&server.store_handles, &self.namespace),
            conditions: Conditions::of(&self.conditions.0, &self.conditions.1),
            file_name: start_request.file_name.as_deref(),
            reply_memory: &self.reply_memory,
            limits: &server.settings.limits,
            client: start_request.client,
        }
    }
}

/// Whether the upload itself causes the error, so that a second attempt would fail as well.
pub(crate) fn is_permanent(error: &Error) -> bool {
    match error {
        Error::Protocol(_)
        | Error::MediaType { .. }
        | Error::MalformedMediaType { .. }
        | Error::FieldMask(_)
        | Error::LinkMediaType { .. }
        | Error::LinkMediaSize { .. }
        | Error::LinkUsed => true,
        Error::Rejection(rejection) => !matches!(
            rejection,
            Rejection::Ledger(_)
                | Rejection::Vault(_)
                | Rejection::Busy
                | Rejection::Full(_)
                // Not caused by the uploaded media: a later attempt succeeds once the handler
                // accepts the principal.
                | Rejection::Access(
                    AccessError::CredentialsMissing
                        | AccessError::CredentialsInvalid
                        | AccessError::CredentialsExpired
                        | AccessError::ForeignPage
                        | AccessError::Unverifiable
                )
        ),
        _ => false,
    }
}

/// Returns the media that `progress` describes, with its digests.
///
/// # Panics
/// If `progress` names no media. The progress of a flushed sink always names it.
pub(crate) fn media_of(
    start_request: &StartRequest,
    progress: &Progress,
    digests: Digests,
) -> Media {
    Media {
        at: progress.media.expect("a flushed sink names its media"),
        length: progress.offset,
        content_type: start_request.content_type.clone(),
        digests,
    }
}

/// Returns the final reply with the handler's `body`. JSON is shaped as the start request asks.
fn build_reply(
    start_request: &StartRequest,
    body: Option<Content>,
    status: StatusCode,
) -> Result<FinalReply, Error> {
    let object = match body {
        None => Map::new(),
        Some(Content::Json(object)) => object,
        Some(Content::Bytes {
            content_type,
            bytes,
        }) => {
            return Ok(FinalReply {
                status,
                content_type,
                body: bytes,
            });
        }
    };
    let standard = StandardParameters::from_parameters(&start_request.parameters())?;
    let mask = standard.fields.as_deref().map(FieldMask::parse);
    let body = match mask.transpose()? {
        // Otherwise it would be `{}`, which libraries do not take for the end (docs/protocol.md,
        // 3.6).
        Some(mask) if mask.selects_of(&object) => mask.apply(Value::Object(object)),
        _ => Value::Object(object),
    };
    Ok(FinalReply {
        status,
        content_type: JSON,
        body: json_bytes(&body, standard.pretty_print),
    })
}

fn change_set(
    answer: Answer,
    finished: &FinishedMedia,
    session_ref: Option<&SessionRef>,
    reply: &FinalReply,
) -> ChangeSet {
    let at = finished.media.at;
    let small_bytes = finished.small_bytes.clone();
    let mut expect = answer.expect;
    expect.extend_from_slice(&finished.expect);
    ChangeSet {
        // The state on which the handler and the media depend: rows that were read, and collections
        // that must be empty afterwards. If this state has changed, the ledger reports a conflict,
        // and the handler is called again.
        expect,
        expect_empty: answer.expect_empty,
        resources: answer.changes,
        small_media: small_bytes.map(|bytes| (at.id, bytes)),
        // Declared here, because the ledger refuses a resource with unknown media.
        new_media: (at.location == MediaLocation::Vault && !finished.is_referenced)
            .then_some(at.id),
        finish: session_ref.map(|session_ref| FinishSession {
            id: session_ref.id,
            epoch: session_ref.epoch,
            progress: session_ref.progress.clone(),
            reply: reply.to_bytes(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(content_type: HeaderValue) -> FinalReply {
        FinalReply {
            status: StatusCode::CREATED,
            content_type,
            body: Bytes::from_static(b"{}"),
        }
    }

    #[test]
    fn json_reply_is_stored_as_its_status_and_its_body() {
        let json = reply(JSON);
        assert_eq!(json.to_bytes(), b"\x00\xc9{}");
        assert_eq!(FinalReply::from_bytes(b"\x00\xc9{}"), Some(json));
    }

    #[test]
    fn reply_of_another_type_is_stored_with_it() {
        let long = format!("text/plain; {}", "x".repeat(300));
        for content_type in ["text/plain", "", &long] {
            let typed = reply(HeaderValue::from_str(content_type).unwrap());
            assert_eq!(FinalReply::from_bytes(&typed.to_bytes()), Some(typed));
        }
    }

    #[test]
    fn damaged_reply_is_none() {
        for bytes in [
            &b""[..],
            b"\x00",
            b"\x80\xc9",
            b"\x80\xc9\x00\x05text",
            b"\x00\x01{}",
        ] {
            assert_eq!(FinalReply::from_bytes(bytes), None, "{bytes:?}");
        }
    }
}
