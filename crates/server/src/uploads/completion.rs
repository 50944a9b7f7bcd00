//! What uploads mean: each is a call of an API with media, and its handler says what the media
//! becomes.

use std::mem;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method as HttpMethod, StatusCode};
use serde_json::{Map, Value};
use windlass_discovery::{ByteSize, Found, Method, PathParameters, Target};
use windlass_engine::identifiers::new_resource_id;
use windlass_engine::locks::KeyedGuard;
use windlass_engine::{
    Completed, Completion, Concatenation, Error as EngineError, FinishedMedia, Importance, Terms,
    UploadContext as _, UploadEvent,
};
use windlass_proto::parameters::{Parameters, StandardParameters};
use windlass_proto::session::{Rules, SessionError, UploadKind};
use windlass_rest::handler::{
    self, Call, Conditions, Content, ReplyMemoryPermit, StoreReader, Uploaded,
};
use windlass_rest::namespace::Namespace;
use windlass_rest::outbox::{Source, with_events};
use windlass_rest::partial_response::FieldMask;
use windlass_rest::principal::Principal;
use windlass_rest::registry::{ServedApi, ServedMethod};
use windlass_store::{Session, SessionId, Timestamp};

use super::access::SessionTarget;
use super::final_reply::FinalReply;
use super::start_request::{StartRequest, escaped};
use crate::audit::{self, About, AuditAction, AuditOutcome};
use crate::calls::Calls;
use crate::error::Error;
use crate::link_uses;
use crate::reply::{JSON, json_bytes};

impl Completion for Calls {
    type Context = StartRequest;
    type Request = SessionTarget;
    type Reply = FinalReply;
    type Held = Held;

    fn encode(&self, context: &StartRequest) -> Vec<u8> {
        context.to_bytes()
    }

    fn decode(&self, session: &Session) -> Result<StartRequest, EngineError> {
        let start_request = StartRequest::from_bytes(&session.context);
        let mut start_request = start_request.ok_or(EngineError::NotFound)?;
        start_request.principal = session.owner.as_ref().map(Principal::new);
        Ok(start_request)
    }

    fn check(
        &self,
        session: &Session,
        context: &StartRequest,
        request: &SessionTarget,
    ) -> Result<(), EngineError> {
        Ok(self.check_access(session, context, request)?)
    }

    fn needs_details(&self, request: &SessionTarget) -> bool {
        !request.conditions.is_empty()
    }

    fn continue_by(&self, context: &mut StartRequest, request: &SessionTarget) {
        context.client = request.client;
    }

    fn terms(&self, context: &StartRequest, dialect: Option<&str>) -> Result<Terms, EngineError> {
        let served = context.method(&self.registry)?;
        let rules = Rules::default()
            .with_chunks(self.settings.chunks)
            .with_max_size(max_size(served, context));
        let dialect = dialect.and_then(|name| self.dialects.named(name));
        Ok(Terms {
            rules: dialect.map_or(rules, |dialect| dialect.rules(rules)),
            wanted: context.wanted_digests(served),
        })
    }

    fn explain(&self, context: &StartRequest, error: SessionError) -> EngineError {
        context.name_link_limit(error).into()
    }

    fn importance(&self, context: &StartRequest, importance: Importance) -> Importance {
        self.address_limits
            .importance_to(context.client, importance)
    }

    async fn admit(&self, context: &StartRequest) -> Result<(), EngineError> {
        let admitted = async {
            link_uses::check_unused(&*self.store_handles.ledger, context.link.as_ref()).await?;
            if context.kind() == UploadKind::Partial {
                // Only the upload that is concatenated from it has metadata to be judged.
                return Ok(());
            }
            let parts = CallParts::new(self, context)?;
            let handler = &parts.served_api.handler;
            Ok::<_, Error>(handler.admit(&parts.call(self, context)).await?)
        };
        Ok(admitted.await?)
    }

    async fn complete(
        &self,
        context: &StartRequest,
        media: &FinishedMedia,
        session: Option<SessionId>,
    ) -> Result<Completed<FinalReply, Held>, EngineError> {
        let completed = self.run_with_media(context, media, session);
        Ok(completed.await?)
    }

    async fn concatenation(
        &self,
        context: &StartRequest,
    ) -> Result<Option<Concatenation>, EngineError> {
        let asked = async {
            let parts = CallParts::new(self, context)?;
            let call = parts.call(self, context);
            let answer = handler::run(&*parts.served_api.handler, &call, None).await?;
            Ok::<_, Error>(answer.concatenation)
        };
        Ok(asked.await?)
    }

    /// The body of the reply counts against the bound on reply memory until it is sent.
    fn replay(&self, stored: &[u8], length: u64) -> Result<Option<FinalReply>, EngineError> {
        let Some(reply) = FinalReply::from_bytes(stored, length) else {
            return Ok(None);
        };
        let body = self
            .capacity
            .replies
            .reply(reply.body, || Importance::Query)?;
        Ok(Some(FinalReply { body, ..reply }))
    }

    fn observe(&self, event: UploadEvent<'_, Self>) {
        let counts = &self.metrics.sessions;
        let (action, principal, about) = match event {
            UploadEvent::Failed { .. } => {
                counts.failed.inc();
                return;
            }
            UploadEvent::Started { session, context } => {
                counts.started.inc();
                let about = context.audited(Some(session));
                (AuditAction::Start, context.principal.as_ref(), about)
            }
            UploadEvent::Cancelled {
                session,
                context,
                request,
            } => {
                counts.cancelled.inc();
                let about = context.audited(Some(session));
                (AuditAction::Cancel, request.principal.as_ref(), about)
            }
            UploadEvent::Finished {
                session,
                context,
                resource,
                changes,
            } => {
                if session.is_some() {
                    counts.finished.inc();
                }
                self.outbox.wake(changes);
                let about = About {
                    resource,
                    ..context.audited(session)
                };
                (AuditAction::Finish, context.principal.as_ref(), about)
            }
        };
        self.audit
            .write(action, AuditOutcome::Done, principal, about);
    }

    /// The current request stays the origin of the work in the audit log.
    fn in_request<T: Send + 'static>(&self, work: BoxFuture<'static, T>) -> BoxFuture<'static, T> {
        audit::in_current_request(work)
    }
}

/// The lock of the call, and the memory of the rows that it has read.
type Held = (Option<KeyedGuard>, ReplyMemoryPermit);

impl Calls {
    /// Runs the call with its media.
    async fn run_with_media(
        &self,
        start_request: &StartRequest,
        finished: &FinishedMedia,
        session: Option<SessionId>,
    ) -> Result<Completed<FinalReply, Held>, Error> {
        let parts = CallParts::new(self, start_request)?;
        let handler = &*parts.served_api.handler;
        let call = parts.call(self, start_request);
        let guard = self.lock_for(handler, &call).await?;
        let link = start_request.link.as_ref();
        link_uses::check_unused(&*self.store_handles.ledger, link).await?;
        let media = Uploaded::new(
            self.store_handles.clone(),
            finished.media.clone(),
            finished.small_bytes.clone(),
        );
        let record = media.media.clone();
        let mut answer = handler::run(handler, &call, Some(media)).await?;
        if let Some(callback) = &parts.served_api.on_uploaded {
            let body = answer.body.as_ref();
            let event = callback.event(&call.method.id, call.principal, body, record);
            answer.events.push(event);
        }
        let body = answer.body.take();
        let status = status(parts.served_api, start_request, session);
        let resource = audited_id(body.as_ref());
        let named = start_request.kept.is_some();
        let path = body.as_ref().filter(|_| named);
        let path = path.and_then(|body| self.path_of(start_request, body));
        let (content_type, body) = build_reply(start_request, body)?;
        let mut reply = FinalReply {
            status,
            content_type,
            body,
            length: finished.media.length,
            resource: path.and_then(|path| {
                HeaderValue::try_from(format!("{}{path}", start_request.base_url)).ok()
            }),
        };
        // The body counts against the bound on reply memory from here on. Before the commit: a
        // committed upload cannot be refused for lack of reply memory.
        reply.body = self.capacity.replies.reply(reply.body, || {
            self.importance(start_request, Importance::Finish)
        })?;
        let events = mem::take(&mut answer.events);
        let mut changes = with_events(answer.changes, events, &Source::of(&call))?;
        changes.extend(link_uses::record(link, call.now));
        Ok(Completed {
            expect: answer.expect,
            expect_empty: answer.expect_empty,
            added_media: answer.added_media,
            changes,
            stored_reply: session.map_or_else(Vec::new, |_| reply.to_bytes()),
            reply,
            resource,
            replaces: !start_request.creates(),
            held: Some((guard, parts.reply_memory)),
        })
    }
}

impl Calls {
    /// Returns the path of the resource that an upload has become: that of the link to itself in
    /// `body`, the path of the upload with the name in `body`, or the path of the upload. `None` if
    /// there is no method that reads it.
    fn path_of(&self, start_request: &StartRequest, body: &Content) -> Option<String> {
        let Content::Json(body) = body else {
            return None;
        };
        let path = &start_request.path;
        let link = body.get("selfLink").and_then(Value::as_str);
        let linked = link.and_then(|link| link.strip_prefix(&start_request.base_url));
        let names = ["id", "name"]
            .into_iter()
            .filter_map(|name| body.get(name)?.as_str());
        let below = names.map(|name| format!("{path}/{}", escaped(name)));
        let linked = linked.map(str::to_owned).into_iter();
        let mut paths = linked.chain(below).chain([path.clone()]);
        let table = &self.registry.on(start_request.host()).table;
        paths.find(|path| {
            let found = table.find(&HttpMethod::GET, path);
            matches!(found, Found::Method { target: Target::Plain, method, .. }
                if method.api_name == start_request.api_name() && method.verb() != "list")
        })
    }
}

/// Returns the maximum size in bytes of the media, by the upload's API method and media type and by
/// its signed link; `None` if neither sets a limit.
fn max_size(served: ServedMethod<'_>, start_request: &StartRequest) -> Option<u64> {
    let ServedMethod { served, method } = served;
    let settings = served.api.settings();
    let of_method = settings.max_size(method, start_request.content_type());
    let limits = [
        of_method.map(ByteSize::bytes),
        start_request.link_max_size(),
    ];
    limits.into_iter().flatten().min()
}

/// The id of a resource, for the audit log.
fn audited_id(body: Option<&Content>) -> Option<String> {
    match body? {
        Content::Json(body) => body.get("id")?.as_str().map(str::to_owned),
        Content::Bytes { .. } => None,
    }
}

/// Returns the status of the final reply. For a resumable upload that was started by POST, it is
/// the API's `created_status`, which is 201 by default as Google's documents promise. For all other
/// uploads it is 200 (docs/protocol.md, decision 1).
fn status(
    served_api: &ServedApi,
    start_request: &StartRequest,
    session: Option<SessionId>,
) -> StatusCode {
    if session.is_none() || !start_request.creates() {
        return StatusCode::OK;
    }
    served_api.api.settings().created_status.status_code()
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
    fn new(calls: &'a Calls, start_request: &'a StartRequest) -> Result<Self, Error> {
        let served_method = start_request.method(&calls.registry)?;
        let ServedMethod {
            served: served_api,
            method,
        } = served_method;
        let now = calls.clock.now();
        let principal = start_request.principal.as_ref();
        let (separate_owner, namespace) = calls.ownership(served_api, principal);
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
            reply_memory: calls.reply_memory(principal, start_request.client),
        })
    }

    /// Returns the call for the handler.
    fn call<'b>(&'b self, calls: &'b Calls, start_request: &'b StartRequest) -> Call<'b> {
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
            lookup: StoreReader::new(&calls.store_handles, &self.namespace),
            conditions: Conditions::of(&self.conditions.0, &self.conditions.1),
            file_name: start_request.file_name.as_deref(),
            reply_memory: &self.reply_memory,
            limits: calls.settings.limits.resource_json(),
            client: start_request.client,
        }
    }
}

/// Returns the body of the final reply, and its type. JSON is shaped as the start request asks.
fn build_reply(
    start_request: &StartRequest,
    body: Option<Content>,
) -> Result<(HeaderValue, Bytes), Error> {
    let object = match body {
        None => Map::new(),
        Some(Content::Json(object)) => object,
        Some(Content::Bytes {
            content_type,
            bytes,
        }) => {
            return Ok((content_type, bytes));
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
    Ok((JSON, json_bytes(&body, standard.pretty_print)))
}
