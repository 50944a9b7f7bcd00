//! Calls of methods on their plain URIs: metadata only.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderValue, Method as HttpMethod, StatusCode, Uri, Version};
use serde_json::{Map, Value};
use windlass_digest::ExpectedDigests;
use windlass_discovery::{Method, PathParameters, ResponseFields};
use windlass_engine::identifiers::new_resource_id;
use windlass_engine::{Error as EngineError, Permit, Retries, copies};
use windlass_proto::command::ContentCoding;
use windlass_proto::metadata::parse_metadata;
use windlass_proto::parameters::{Alt, Parameters, StandardParameters};
use windlass_rest::access::AccessError;
use windlass_rest::default_handler::is_index;
use windlass_rest::handler::{
    self, Call, Concatenation, Conditions, Content, Embedded, ReplyMemoryPermit, StoreReader,
};
use windlass_rest::link_terms::{LinkPurpose, LinkTerms};
use windlass_rest::namespace::Namespace;
use windlass_rest::outbox::{Source, with_events};
use windlass_rest::partial_response::FieldMask;
use windlass_rest::principal::{Principal, caller};
use windlass_rest::registry::ServedMethod;
use windlass_rest::reply_pools::json_cost;
use windlass_store::{AddedMedia, ChangeSet, LedgerError, ResourceChange};

use crate::audit::{About, AuditAction, AuditOutcome};
use crate::body::RequestBody;
use crate::download::{self, Caching};
use crate::download_host;
use crate::error::{BodyError, Error};
use crate::link_uses;
use crate::reply::{self, Reply, empty, json_bytes, stored_json};
use crate::state::ServerState;
use crate::uploads::single_request;
use crate::uploads::start_request::UploadHead;

/// The text, its parsed values and the decoded media are in memory at the same time.
const COPIES: u64 = 3;

/// Parameters that belong to requests to an upload URI.
const OF_UPLOADS: [&str; 3] = ["uploadType", "upload_protocol", "upload_id"];

/// The head of a call.
#[derive(Clone, Copy)]
pub(crate) struct CallHead<'a> {
    pub(crate) method: ServedMethod<'a>,
    /// The path as it was sent.
    pub(crate) raw_path: &'a str,
    pub(crate) path: &'a PathParameters,
    pub(crate) query: &'a Parameters,
    pub(crate) http_method: &'a HttpMethod,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) version: Version,
    pub(crate) base_url: &'a str,
    pub(crate) principal: Option<&'a Principal>,
    /// The address of the client, if it is known.
    pub(crate) client: Option<IpAddr>,
    /// Why authorization refuses the call, if the handler decides whether the call reads something
    /// public.
    pub(crate) refusal: Option<&'a AccessError>,
    /// Whether it is a call in a batch.
    pub(crate) in_batch: bool,
    pub(crate) uri: &'a Uri,
    /// Whether the requested host serves only downloads of media.
    pub(crate) media_only: bool,
    /// Whether `raw_path` is the method's path, for which the request's path is an alias
    /// ([`ApiHandler::alias`](handler::ApiHandler::alias)).
    pub(crate) at_alias: bool,
}

impl<'h> CallHead<'h> {
    fn as_upload(self) -> UploadHead<'h> {
        UploadHead {
            method: self.method,
            http_method: self.http_method,
            path: self.raw_path,
            query: self.query,
            base_url: self.base_url,
            headers: self.headers,
            principal: self.principal,
            client: self.client,
        }
    }

    fn call<'a>(
        &'a self,
        server: &'a ServerState,
        metadata: &'a Map<String, Value>,
        fresh_id: &'a str,
        reply_memory: &'a ReplyMemoryPermit,
        ownership: &'a (Option<&'a Principal>, Namespace),
    ) -> Call<'a> {
        let (separate_owner, namespace) = ownership;
        Call {
            api: &self.method.served.api,
            method: self.method.method,
            path: self.path,
            query: self.query,
            metadata,
            now: server.clock.now(),
            fresh_id,
            base_url: self.base_url,
            principal: self.principal,
            refusal: self.refusal,
            separate_owner: *separate_owner,
            lookup: StoreReader::new(&server.calls().store_handles, namespace),
            conditions: Conditions::of(self.http_method, self.headers),
            file_name: None,
            reply_memory,
            limits: server.settings.limits.resource_json(),
            client: self.client,
        }
    }
}

/// Carries out a call on a plain URI.
pub(crate) async fn call(
    server: &Arc<ServerState>,
    head: CallHead<'_>,
    body: &mut RequestBody,
) -> Result<Reply, Error> {
    let standard = StandardParameters::from_parameters(head.query)?;
    let is_media = standard.alt == Alt::Media || is_media_only(head.method.method);
    let mask = match &standard.fields {
        Some(fields) => Some(FieldMask::parse(fields)?),
        None => None,
    };
    check_link(head.principal, is_media.then_some(LinkPurpose::Download))?;
    if is_media {
        if head.in_batch {
            return Err(Error::MediaInBatch);
        }
        return media(server, head).await;
    }
    if head.media_only {
        return Err(Error::MediaOnly);
    }
    // Media has no fields, so a mask cannot apply to it.
    if let Some(mask) = &mask {
        mask.check(&ResponseFields::of(
            &head.method.served.api,
            head.method.method,
        ))?;
    }
    let CallBody {
        metadata,
        embedded,
        length: brought,
    } = read_metadata(server, head, body).await?;
    if let Some(embedded) = embedded {
        return Box::pin(upload(server, head, &metadata, embedded)).await;
    }
    let shape = Shape {
        mask,
        pretty: standard.pretty_print,
    };
    run(server, head, &metadata, brought, &shape).await
}

/// Refuses a request with a signed link if the link has another purpose. `purpose` is the purpose
/// of the request; `None` for a call without media.
pub(crate) fn check_link(
    principal: Option<&Principal>,
    purpose: Option<LinkPurpose>,
) -> Result<(), Error> {
    let Some(link) = principal.and_then(Principal::link) else {
        return Ok(());
    };
    if purpose == Some(link.purpose()) {
        return Ok(());
    }
    let purpose = match link.purpose() {
        LinkPurpose::Upload => "an upload of media",
        LinkPurpose::Download => "a download of media (alt=media)",
    };
    Err(Error::LinkPurpose { purpose })
}

/// The form of the reply that the client asks for.
struct Shape {
    mask: Option<FieldMask>,
    pretty: bool,
}

impl Shape {
    fn reply(
        &self,
        body: Option<Content>,
        reply_memory: ReplyMemoryPermit,
    ) -> Result<Reply, Error> {
        let body = match body {
            None => return Ok(empty(StatusCode::NO_CONTENT)),
            Some(Content::Json(body)) => body,
            Some(Content::Bytes {
                content_type,
                bytes,
            }) => {
                let bytes = reply_memory.into_reply(bytes)?;
                return Ok(reply::reply(StatusCode::OK, content_type, bytes));
            }
        };
        let etag = body.get("etag").and_then(Value::as_str);
        let etag = etag.and_then(|etag| HeaderValue::try_from(etag).ok());
        let body = Value::Object(body);
        let body = match &self.mask {
            Some(mask) => mask.apply(body),
            None => body,
        };
        let text = json_bytes(&body, self.pretty);
        let mut reply = stored_json(StatusCode::OK, reply_memory.into_reply(text)?);
        if let Some(etag) = etag {
            reply.headers_mut().insert(ETAG, etag);
        }
        Ok(reply)
    }
}

/// Whether the method replies only with media, so that clients may omit `alt=media`.
fn is_media_only(method: &Method) -> bool {
    method.supports_media_download && method.response.is_none()
}

async fn run(
    server: &Arc<ServerState>,
    head: CallHead<'_>,
    metadata: &Map<String, Value>,
    brought: u64,
    shape: &Shape,
) -> Result<Reply, Error> {
    let ownership = server.calls().ownership(head.method.served, head.principal);
    let mut retries = Retries::within(server.engine.parts().takeover_timeout);
    let mut is_first = true;
    // The same for all attempts, because services identify a call by it.
    let fresh_id = new_resource_id(server.clock.now());
    loop {
        let mut reply_memory = server.calls().reply_memory(head.principal, head.client);
        if head.in_batch {
            reply_memory = reply_memory.without_waiting();
        }
        let call = head.call(server, metadata, &fresh_id, &reply_memory, &ownership);
        let handler = &*head.method.served.handler;
        let key = if std::mem::take(&mut is_first) {
            handler.lock_key(&call)
        } else {
            handler.retry_lock_key(&call)
        };
        let guard = server.calls().lock(key, &call).await?;
        let mut answer = handler::run(handler, &call, None).await?;
        if let Some(wanted) = answer.concatenation.take() {
            // Other calls need not wait for the copy, nor for the memory of the rows that were
            // read.
            drop((guard, reply_memory));
            return Box::pin(concatenate(server, head, metadata, wanted)).await;
        }
        let resources = with_events(answer.changes, answer.events, &Source::of(&call))?;
        let added = AddedMedia::all_bytes_in_ledger(&answer.added_media) as u64;
        let copied = copies::bytes_beyond(brought, &resources, added);
        let caller = || caller(head.principal, head.client);
        let copy = server.engine.parts().copies.charge(caller, copied)?;
        // Before the commit: afterwards the reply cannot be refused for lack of memory.
        let reply = shape.reply(answer.body, reply_memory)?;
        if resources.is_empty() {
            return Ok(reply);
        }
        let changes = ChangeSet {
            expect: answer.expect,
            expect_empty: answer.expect_empty,
            resources: resources.clone(),
            added_media: answer.added_media,
            ..ChangeSet::default()
        };
        let quotas = server.engine.parts().quotas.of_changes(&changes).await?;
        match server.stores.ledger.apply_within(changes, quotas).await {
            Ok(()) => {
                copy.keep();
                write_change(server, &head, &resources);
                server.outbox.wake(&resources);
                server.lifecycle.sweep_now.notify_one();
                return Ok(reply);
            }
            Err(LedgerError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
        // Other calls with the same lock need not wait for the pause.
        drop((guard, reply, copy));
        if !retries.pause().await {
            return Err(EngineError::Crowded.into());
        }
    }
}

/// Writes into the audit log that a call has deleted something, or changed it.
fn write_change(server: &ServerState, head: &CallHead<'_>, resources: &[ResourceChange]) {
    let handler = &head.method.served.handler;
    let deletes = |change: &ResourceChange| match change {
        ResourceChange::Delete { collection, .. } => {
            !is_index(collection) && handler.counts(collection)
        }
        _ => false,
    };
    // A change of a resource may also replace rows that belong to it.
    let is_change = [HttpMethod::PATCH, HttpMethod::PUT].contains(head.http_method);
    let action = if !is_change && resources.iter().any(deletes) {
        AuditAction::Delete
    } else {
        AuditAction::Change
    };
    let about = About {
        method: Some(&head.method.method.id),
        path: Some(head.raw_path),
        ..About::default()
    };
    server
        .audit
        .write(action, AuditOutcome::Done, head.principal, about);
}

/// Answers a download.
async fn media(server: &ServerState, head: CallHead<'_>) -> Result<Reply, Error> {
    // The host for media serves only the APIs that are on every host. A signed link is valid only
    // on the host for which it was signed.
    let has_link = head.principal.is_some_and(|it| it.link().is_some());
    let may_redirect = !head.media_only && !has_link && head.method.served.host.is_none();
    let mut reply = media_or_redirection(server, head, may_redirect).await?;
    if may_redirect {
        download_host::vary(&server.settings, reply.headers_mut());
    }
    Ok(reply)
}

async fn media_or_redirection(
    server: &ServerState,
    head: CallHead<'_>,
    may_redirect: bool,
) -> Result<Reply, Error> {
    let method = head.method.method;
    if !method.supports_media_download {
        return Err(Error::NotDownload {
            method: method.id.clone(),
        });
    }
    let metadata = Map::new();
    let reply_memory = server.calls().reply_memory(head.principal, head.client);
    let ownership = server.calls().ownership(head.method.served, head.principal);
    let call = head.call(server, &metadata, "", &reply_memory, &ownership);
    // The conditions of a download are about the media, not about the resource.
    let call = Call {
        conditions: call.conditions.of_media(),
        ..call
    };
    let mut attempt = 0;
    loop {
        attempt += 1;
        let handler = &*head.method.served.handler;
        let resource = handler.find(&call).await?;
        // Not earlier: an unauthenticated caller must not be redirected to media that is not
        // public.
        if may_redirect
            && let Some(reply) =
                download_host::redirection(&server.settings, head.headers, head.base_url, head.uri)
        {
            return Ok(reply);
        }
        let headers = if head.at_alias {
            handler.media_headers_at_alias(&call, &resource)?
        } else {
            handler.media_headers(&resource)
        };
        let link = head.principal.and_then(Principal::link);
        let caching = match link.and_then(LinkTerms::single_use) {
            Some(_) => Caching::Never,
            None if handler.is_public(&call) => Caching::Public,
            None => Caching::Private,
        };
        let own = download::Own {
            etag: handler.media_etag(&resource),
            headers,
            caching,
        };
        let request = download::Request {
            http_method: head.http_method,
            version: head.version,
            headers: head.headers,
            client: head.client,
        };
        link_uses::check_unused(&*server.stores.ledger, link).await?;
        match download::media(server, &resource, request, own).await {
            Err(error) if download::is_gone(&error) && attempt < MAX_READS => {}
            // A reply without the media, such as the reply to HEAD, does not use up the link.
            Ok(reply) if has_media(head.http_method, &reply) => {
                link_uses::commit(&*server.stores.ledger, link, call.now).await?;
                return Ok(reply);
            }
            reply => return reply,
        }
    }
}

/// Maximum number of times that media is looked up for one download, if other calls keep replacing
/// it.
const MAX_READS: usize = 8;

/// Whether a reply to a download brings bytes of the media.
fn has_media(http_method: &HttpMethod, reply: &Reply) -> bool {
    let with_media = [StatusCode::OK, StatusCode::PARTIAL_CONTENT];
    *http_method != HttpMethod::HEAD && with_media.contains(&reply.status())
}

/// Continues as an upload of the media that the JSON contained.
async fn upload(
    server: &Arc<ServerState>,
    head: CallHead<'_>,
    metadata: &Map<String, Value>,
    embedded: Embedded,
) -> Result<Reply, Error> {
    let upload = head.as_upload();
    let reply = single_request::embedded(server, &upload, metadata, embedded).await?;
    Ok(reply::reply(reply.status, reply.content_type, reply.body))
}

/// Continues as an upload of media that is concatenated from existing media.
async fn concatenate(
    server: &Arc<ServerState>,
    head: CallHead<'_>,
    metadata: &Map<String, Value>,
    wanted: Concatenation,
) -> Result<Reply, Error> {
    let upload = head.as_upload();
    let start_request = upload.with_body(metadata, None, ExpectedDigests::default())?;
    let reply = server.engine.concatenate(start_request, wanted).await?;
    Ok(reply::reply(reply.status, reply.content_type, reply.body))
}

/// The body of a call.
#[derive(Default)]
struct CallBody {
    /// Its JSON.
    metadata: Map<String, Value>,
    /// The media that the handler finds inside.
    embedded: Option<Embedded>,
    /// Its length in bytes.
    length: u64,
}

async fn read_metadata(
    server: &ServerState,
    head: CallHead<'_>,
    body: &mut RequestBody,
) -> Result<CallBody, Error> {
    if matches!(
        *head.http_method,
        HttpMethod::GET | HttpMethod::HEAD | HttpMethod::DELETE
    ) {
        return Ok(CallBody::default());
    }
    let method = head.method.method;
    check_is_no_upload(&head)?;
    // A body with an unsupported content coding must not be parsed as JSON.
    ContentCoding::from_headers(head.headers)?;
    let handler = &head.method.served.handler;
    let usual = server.settings.limits.metadata;
    let limit = handler.body_limit(method).unwrap_or(usual).max(usual);
    let (text, _permit) = collect(server, body, limit).await?;
    let counted = text.len() - text.len().min(usual);
    body.set_held_bytes(text.len() as u64 + json_cost(&text) - counted as u64)?;
    let mut metadata = parse_metadata(&text, server.settings.limits.json())?;
    let embedded = handler.embedded(method, &mut metadata)?;
    if embedded.is_none() && text.len() > usual {
        return Err(BodyError::TooLong { limit: usual }.into());
    }
    Ok(CallBody {
        metadata,
        embedded,
        length: text.len() as u64,
    })
}

/// Refuses a call with parameters of an upload, and a call with a media body if the method accepts
/// media.
///
/// JSON on the plain path would be carried out as a change of the metadata, and the media would be
/// lost.
fn check_is_no_upload(head: &CallHead<'_>) -> Result<(), Error> {
    let takes_media = head.method.method.upload.is_some();
    let mut of_uploads = OF_UPLOADS.into_iter();
    let parameter = of_uploads.find(|name| head.query.first(name).is_some());
    match parameter {
        Some(parameter) if !takes_media => Err(Error::ParameterOfUploads { parameter }),
        None if !takes_media || !head.headers.get(CONTENT_TYPE).is_some_and(is_media) => Ok(()),
        _ => Err(Error::WrongUrlForUpload { parameter }),
    }
}

/// Reads the whole body. A body over the usual limit takes permits of a second pool as it arrives,
/// so that a request holds no more of the pool than it has sent.
async fn collect(
    server: &ServerState,
    body: &mut RequestBody,
    limit: usize,
) -> Result<(Vec<u8>, Permit), Error> {
    let capacity = &server.capacity;
    let usual = server.settings.limits.metadata;
    let (mut text, mut permit) = (Vec::new(), capacity.large_bodies.permit());
    while body.append(&mut text, limit).await? {
        if text.len() <= usual {
            body.set_held_bytes(text.capacity() as u64)?;
            continue;
        }
        let unusual = COPIES * (text.len() - usual) as u64;
        permit.resize_in_time(unusual, capacity.timeout).await?;
    }
    Ok((text, permit))
}

/// Whether the stated type excludes JSON. A body without a type, or with a generic one, is parsed
/// as JSON.
fn is_media(content_type: &HeaderValue) -> bool {
    let text = content_type
        .to_str()
        .unwrap_or_default()
        .to_ascii_lowercase();
    [
        "image/",
        "video/",
        "audio/",
        "message/",
        "multipart/",
        "application/octet-stream",
        "application/pdf",
        "application/zip",
    ]
    .iter()
    .any(|prefix| text.starts_with(prefix))
}
