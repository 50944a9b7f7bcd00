//! The routes: finding the session or method of a request, checking the parameters against the
//! method's description ([`parameters`]), and carrying the request out.

mod destination;
mod parameters;
mod session_call;
mod start;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, CONTENT_LENGTH, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method as HttpMethod, StatusCode};
use percent_encoding::percent_decode_str;
use windlass_discovery::{Access as ApiAccess, ByteSize, Found, Method, PathParameters, Target};
use windlass_engine::{Error as EngineError, Full, Importance};
use windlass_proto::body_digests::DigestField;
use windlass_proto::command::{
    Command, Framing, MultipartHead, SimpleHead, StartHead, effective_method,
};
use windlass_proto::dialect::{Dialect, Offer, RequestHead};
use windlass_proto::error::ProtocolError;
use windlass_proto::parameters::{Parameters, QueryError};
use windlass_rest::access::AccessError;
use windlass_rest::handler::Rejection;
use windlass_rest::link_terms::LinkPurpose;
use windlass_rest::principal::Principal;
use windlass_rest::registry::{DiscoveryRequest, ServedMethod};

use crate::admission::{CalledMethod, Credentials, DeclaredUpload, Ticket};
use crate::batch;
use crate::body::RequestBody;
use crate::context::RequestContext;
use crate::download_host;
use crate::error::Error;
use crate::form_parameters::append_to_query;
use crate::health;
use crate::index_page;
use crate::metrics::{RequestRecord, UploadType};
use crate::reply::{self, Reply, json_bytes, stored_json};
use crate::resources::{CallHead, call, check_link};
use crate::state::ServerState;
use crate::uploads::access::SessionTarget;
use crate::uploads::single_request;
use crate::uploads::start_request::{UploadHead, conditions};
use destination::{Destination, Site};
use parameters::{check_names, check_parameters, check_repeated_method};
use session_call::{Call, ReplyTo, SessionCall, final_reply};

/// The route of a request.
pub(crate) enum Routing {
    Answered(Reply),
    /// A session. The header fields are dropped: a slow upload would hold them for hours.
    Session(SessionCall),
    /// A batch. Each of its calls is routed separately.
    Batch,
}

/// Answers a request, or finds the session that it is for.
pub(crate) async fn route(
    server: &Arc<ServerState>,
    head: &mut Parts,
    context: &mut RequestContext,
    dialect: &mut Arc<dyn Dialect>,
    body: &mut Option<RequestBody>,
    ticket: &mut Ticket,
    record: &RequestRecord,
) -> Result<Routing, Error> {
    if let Some(reply) = answer_at_once(server, head.uri.path(), ticket, record).await? {
        return Ok(Routing::Answered(reply));
    }
    read_form_parameters(server, head, body).await?;
    let head = &*head;
    let http_method = effective_method(&head.method, &head.headers);
    let stated = http_method.as_ref().unwrap_or(&head.method);
    let site = Site::of(server, context);
    // Determined first, so that every error is answered in the dialect of the request.
    let destination = site.destination(head, stated, dialect);
    let query = Parameters::parse(head.uri.query());
    let credentials = Credentials {
        server,
        head,
        http_method: stated,
        access: destination.access(query.as_ref().ok(), server.settings.session_auth),
        is_read: matches!(destination, Destination::Call) && reads(stated),
    };
    credentials.admit(context, ticket).await?;
    if ticket.public_only().is_some() {
        // Boxed to keep the future of a request small.
        let answered = answer_unauthenticated(site, head, context, body, ticket, record);
        return Box::pin(answered).await;
    }
    let framing = framing_of(head, body.as_ref())?;
    check_path(head.uri.path())?;
    let query = query?;
    download_host::check_method(&server.settings, context.host.as_ref(), &head.method)?;
    let request = Routed {
        site,
        head,
        http_method: &http_method?,
        query: &query,
        context,
        principal: context.principal.as_ref(),
        record,
    };
    let answered = request.answer(destination, dialect, framing, body, ticket);
    answered.await
}

/// Answers a probe. Refuses any other request while the server carries out none, or has no room.
async fn answer_at_once(
    server: &ServerState,
    path: &str,
    ticket: &Ticket,
    record: &RequestRecord,
) -> Result<Option<Reply>, Error> {
    if health::is_probe(path) {
        record.health();
    }
    match path {
        "/healthz" => Ok(Some(health::liveness(server))),
        "/readyz" => Ok(Some(health::readiness(server).await)),
        // Before the limits: the client should try another server at once.
        _ if server.lifecycle.has_failed() => Err(EngineError::Draining.into()),
        _ if !server.lifecycle.is_started() => Err(Error::NotStarted),
        _ => {
            ticket.refuse_if_full()?;
            Ok(None)
        }
    }
}

/// Moves the parameters of a form into the query, if the form stands for a query.
async fn read_form_parameters(
    server: &ServerState,
    head: &mut Parts,
    body: &mut Option<RequestBody>,
) -> Result<(), Error> {
    let unread = body.as_mut().expect("nobody has taken the body yet");
    append_to_query(head, unread, server.settings.limits.head).await
}

/// Answers a request without the credentials that the server demands. A guarded method may read
/// something public. All other errors are replaced by the error for missing credentials, so that an
/// unauthenticated caller does not learn which paths and resources exist.
async fn answer_unauthenticated(
    site: Site<'_>,
    head: &Parts,
    context: &RequestContext,
    body: &mut Option<RequestBody>,
    ticket: &mut Ticket,
    record: &RequestRecord,
) -> Result<Routing, Error> {
    let answered = async {
        framing_of(head, body.as_ref())?;
        check_path(head.uri.path())?;
        let request = Routed {
            site,
            head,
            http_method: &effective_method(&head.method, &head.headers)?,
            query: &Parameters::parse(head.uri.query())?,
            context,
            // A layer may have set one, but the server demands other credentials.
            principal: None,
            record,
        };
        request.call(body, ticket).await.map(Routing::Answered)
    };
    let answered: Result<Routing, Error> = answered.await;
    answered.map_err(|error| error.or_refusal(&AccessError::CredentialsMissing))
}

/// Returns how the body states its length.
fn framing_of(head: &Parts, body: Option<&RequestBody>) -> Result<Framing, ProtocolError> {
    let empty = body.is_none_or(|body| body.end_flag().is_set());
    Framing::of(head.version, &head.headers, empty)
}

/// Refuses a path that is not UTF-8, because no method has such a path. A 404 would mean that the
/// resource does not exist.
fn check_path(path: &str) -> Result<(), ProtocolError> {
    let decoded = percent_decode_str(path).decode_utf8();
    decoded.map(drop).map_err(|_| ProtocolError::PathNotUtf8)
}

/// Whether requests with this HTTP method only read.
fn reads(method: &HttpMethod) -> bool {
    [HttpMethod::GET, HttpMethod::HEAD].contains(method)
}

/// Returns the parameters of a request on a download path, which serves only media. The first of
/// several values is used.
fn for_media(query: Option<&str>) -> Result<Parameters, QueryError> {
    Parameters::parse(Some(&format!("alt=media&{}", query.unwrap_or_default())))
}

/// A request with a parsed head.
struct Routed<'a> {
    site: Site<'a>,
    head: &'a Parts,
    http_method: &'a HttpMethod,
    query: &'a Parameters,
    context: &'a RequestContext,
    principal: Option<&'a Principal>,
    record: &'a RequestRecord,
}

impl Routed<'_> {
    /// Answers the request, or finds its session.
    async fn answer(
        &self,
        destination: Destination<'_>,
        dialect: &Arc<dyn Dialect>,
        framing: Framing,
        body: &mut Option<RequestBody>,
        ticket: &mut Ticket,
    ) -> Result<Routing, Error> {
        let media_only = self.site.media_only;
        if let Destination::Upload { .. } | Destination::Call = destination
            && !media_only
            && let Some(reply) = self.describe_uploads()
        {
            return Ok(Routing::Answered(reply));
        }
        let plain = match destination {
            Destination::Discovery(_) | Destination::Upload { .. } if media_only => {
                return Err(Error::MediaOnly);
            }
            Destination::Discovery(wanted) => {
                self.record.discovery();
                return self.discovery(&wanted).map(Routing::Answered);
            }
            Destination::Index => {
                self.record.discovery();
                return self.index().map(Routing::Answered);
            }
            Destination::Call if !media_only && self.is_batch()? => {
                self.verify(body, &[DigestField::ContentDigest])?;
                return Ok(Routing::Batch);
            }
            Destination::Call => {
                // Boxed to keep the future of a request small.
                let reply = Box::pin(self.call(body, ticket));
                return reply.await.map(Routing::Answered);
            }
            Destination::Upload { .. } if batch::is_inside(self.head) => {
                return Err(Error::MediaInBatch);
            }
            Destination::Upload { plain } => plain,
        };
        self.answer_upload(plain, dialect, framing, body, ticket)
            .await
    }

    /// Answers a request to the upload path of `plain`, or finds its session.
    async fn answer_upload(
        &self,
        plain: &str,
        dialect: &Arc<dyn Dialect>,
        framing: Framing,
        body: &mut Option<RequestBody>,
        ticket: &mut Ticket,
    ) -> Result<Routing, Error> {
        let headers = &self.head.headers;
        let upload_head = RequestHead {
            http_method: self.http_method,
            parameters: self.query,
            headers,
            framing,
        };
        // A session is found by its `upload_id` alone, whether or not its method is still served.
        let method = match self.query.upload_id() {
            Some(_) => {
                self.check_session_headers()?;
                None
            }
            None => Some(self.upload_method(plain, ticket).await?),
        };
        let call = |call| {
            Ok(Routing::Session(SessionCall {
                target: self.session_target(plain),
                dialect: dialect.name(),
                call,
                started: None,
            }))
        };
        let command = dialect.command(&upload_head)?;
        self.verify(body, dialect.digest_fields())?;
        self.record.upload_type(UploadType::of(&command));
        let upload = match command {
            Command::Session(session) => return call(Call::Continue(Box::new(session))),
            Command::Cancel { upload_id } => return call(Call::Cancel(upload_id)),
            Command::Simple(simple) => Upload::Simple(simple),
            Command::Multipart(multipart) => Upload::Multipart(multipart),
            Command::Start(start) => Upload::Start(start),
        };
        // A request with an `upload_id` was authenticated as a request to a session, and must not
        // be handled as anything else.
        let method = method.ok_or(EngineError::NotFound)?;
        self.upload(&**dialect, method, plain, upload, body).await
    }

    /// Lets the body be verified by the digests that these fields state for it. A question has no
    /// body.
    fn verify(
        &self,
        body: &mut Option<RequestBody>,
        fields: &[DigestField],
    ) -> Result<(), ProtocolError> {
        if reads(self.http_method) {
            return Ok(());
        }
        let unread = body.as_mut().expect("nobody has taken the body yet");
        Ok(unread.verify(&self.head.headers, fields)?)
    }

    /// The session that the request is for, at the upload path of `plain`.
    fn session_target(&self, plain: &str) -> SessionTarget {
        let headers = &self.head.headers;
        SessionTarget {
            path: plain.to_owned(),
            principal: self.principal.cloned(),
            origin: headers.get(ORIGIN).cloned(),
            client: self.context.client,
            conditions: conditions(headers),
        }
    }

    /// Describes uploads to the path to a client that asks by `OPTIONS`. `None` if it does not ask,
    /// no dialect describes them, or the path takes no uploads.
    fn describe_uploads(&self) -> Option<Reply> {
        // A preflight is a question about pages, and its answer comes from a policy alone.
        let is_preflight = self
            .head
            .headers
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if *self.http_method != HttpMethod::OPTIONS || is_preflight {
            return None;
        }
        let Site {
            server,
            virtual_host,
            ..
        } = self.site;
        let path = self.head.uri.path();
        let mut methods = UPLOAD_METHODS.iter().filter_map(|http_method| {
            match virtual_host.table.find(http_method, path) {
                Found::Method { method, .. } => Some(method).filter(|it| it.upload.is_some()),
                Found::WrongHttpMethod { .. } | Found::Nothing => None,
            }
        });
        let method = methods.next()?;
        let settings = virtual_host.of(method).served.api.settings();
        let headers = server.dialects.describe(&Offer {
            max_size: settings.max_size(method, "").map(ByteSize::bytes),
            lifetime: server.settings.session_lifetime,
        });
        if headers.is_empty() {
            return None;
        }
        self.record.method(&method.id);
        let mut reply = reply::empty(StatusCode::NO_CONTENT);
        reply.headers_mut().extend(headers);
        Some(reply)
    }

    /// Refuses a call that the principal may not make. A refused call of a guarded method is
    /// admitted to public resources. The handler then refuses everything else.
    async fn authorize(
        &self,
        method: &Method,
        is_guarded: bool,
        ticket: &mut Ticket,
    ) -> Result<(), AccessError> {
        let called = CalledMethod {
            server: self.site.server,
            principal: self.principal,
            method,
            is_guarded,
        };
        called.admit(ticket).await
    }

    /// Whether the call may read something public.
    fn is_guarded(&self, ServedMethod { served, method }: ServedMethod<'_>) -> bool {
        // Resources that belong to one principal are never public.
        let is_shared = served.api.settings().access == ApiAccess::Shared;
        is_shared && reads(self.http_method) && served.handler.guards(method)
    }

    fn discovery(&self, request: &DiscoveryRequest<'_>) -> Result<Reply, Error> {
        let readable = [HttpMethod::GET, HttpMethod::HEAD];
        if !readable.contains(self.http_method) {
            return Err(Error::MethodNotAllowed {
                allowed: readable.into(),
            });
        }
        let document = request
            .document(self.site.virtual_host, self.query, &self.context.base_url)
            .ok_or_else(|| no_such(self.head.uri.path()))?;
        let text = self.counted(json_bytes(&document, true))?;
        Ok(stored_json(StatusCode::OK, text))
    }

    fn index(&self) -> Result<Reply, Error> {
        let headers = &self.head.headers;
        let (content_type, page) =
            index_page::page(self.site.virtual_host, &self.context.base_url, headers);
        let page = self.counted(page)?;
        Ok(index_page::reply((content_type, page)))
    }

    /// Counts the text of a reply.
    fn counted(&self, text: Bytes) -> Result<Bytes, Full> {
        let importance = || {
            self.site
                .server
                .importance_to(self.context.client, Importance::Query)
        };
        self.site.server.capacity.replies.reply(text, importance)
    }

    /// Whether the request is a batch.
    fn is_batch(&self) -> Result<bool, Error> {
        let is_taken = self.site.server.settings.batches;
        if !is_taken
            || !self
                .site
                .virtual_host
                .takes_batches_at(self.head.uri.path())
        {
            return Ok(false);
        }
        self.record.batch();
        if *self.http_method != HttpMethod::POST {
            let allowed = vec![HttpMethod::POST];
            return Err(Error::MethodNotAllowed { allowed });
        }
        if batch::is_inside(self.head) {
            return Err(Error::BatchInBatch);
        }
        Ok(true)
    }

    async fn call(
        &self,
        body: &mut Option<RequestBody>,
        ticket: &mut Ticket,
    ) -> Result<Reply, Error> {
        // HEAD is a GET with a reply that omits the body.
        let http_method = if *self.http_method == HttpMethod::HEAD {
            &HttpMethod::GET
        } else {
            self.http_method
        };
        let asked = self.head.uri.path();
        let alias;
        let (mut path, mut found) = (asked, self.site.virtual_host.table.find(http_method, asked));
        if matches!(found, Found::Nothing)
            && http_method == HttpMethod::GET
            && let Some(other) = self.site.virtual_host.alias(asked)
        {
            alias = other;
            (path, found) = (
                &alias,
                self.site.virtual_host.table.find(http_method, &alias),
            );
        }
        let (method, target, parameters) = match found {
            Found::Method {
                method,
                target,
                parameters,
            } => (method, target, parameters),
            Found::WrongHttpMethod { allowed } => return Err(Error::MethodNotAllowed { allowed }),
            Found::Nothing => return Err(self.nothing_at(asked, ticket)),
        };
        self.record.method(&method.id);
        let served = self.site.virtual_host.of(method);
        let is_guarded = self.is_guarded(served);
        self.authorize(method, is_guarded, ticket).await?;
        let answered = async {
            self.check_inputs(served, &parameters)?;
            let for_media = match target {
                Target::Download => Some(for_media(self.head.uri.query())?),
                Target::Plain | Target::Upload => None,
            };
            let head = CallHead {
                method: served,
                raw_path: path,
                path: &parameters,
                query: for_media.as_ref().unwrap_or(self.query),
                http_method: self.http_method,
                headers: &self.head.headers,
                version: self.head.version,
                base_url: &self.context.base_url,
                principal: self.principal,
                client: self.context.client,
                refusal: ticket.public_only(),
                in_batch: batch::is_inside(self.head),
                uri: &self.head.uri,
                media_only: self.site.media_only,
                at_alias: path != asked,
            };
            self.verify(body, &[DigestField::ContentDigest])?;
            let body = body.as_mut().expect("nobody has taken the body yet");
            call(self.site.server, head, body).await
        };
        let answered: Result<Reply, Error> = answered.await;
        answered.map_err(|error| match ticket.public_only() {
            Some(refusal) => error.or_refusal(refusal),
            None => error,
        })
    }

    /// Returns the error for a path without a method.
    fn nothing_at(&self, path: &str, ticket: &Ticket) -> Error {
        let not_served = self.site.virtual_host.not_served(self.http_method, path);
        match not_served {
            // An unauthenticated caller does not learn which APIs are served.
            Some(method) if ticket.public_only().is_none() => {
                Rejection::NotImplemented { method }.into()
            }
            _ => no_such(path),
        }
    }

    /// Refuses a call with parameters that contradict the description, or with an input that the
    /// API refuses.
    fn check_inputs(
        &self,
        called: ServedMethod<'_>,
        path: &PathParameters,
    ) -> Result<(), Rejection> {
        let ServedMethod { served, method } = called;
        let headers = &self.head.headers;
        check_repeated_method(self.query, self.http_method)?;
        served.refused.check(method, self.query, headers)?;
        check_names(&served.api, method, self.query)?;
        check_parameters(method, path, self.query)
    }

    /// Refuses a request to a session with a header that the method at its path refuses, such as an
    /// encryption key for the media.
    fn check_session_headers(&self) -> Result<(), Rejection> {
        let (path, headers) = (self.head.uri.path(), &self.head.headers);
        // Most chunks have no such header, so their method need not be looked up.
        let may_be_refused = |name: &HeaderName| {
            let prefixes = ["x-goog-", "x-amz-"];
            prefixes
                .iter()
                .any(|prefix| name.as_str().starts_with(prefix))
        };
        if !headers.keys().any(may_be_refused) {
            return Ok(());
        }
        for http_method in [HttpMethod::POST, HttpMethod::PUT, HttpMethod::PATCH] {
            if let Found::Method { method, .. } =
                self.site.virtual_host.table.find(&http_method, path)
            {
                let refused = &self.site.virtual_host.of(method).served.refused;
                refused.check_headers(method, headers)?;
            }
        }
        Ok(())
    }

    async fn upload(
        &self,
        dialect: &dyn Dialect,
        method: ServedMethod<'_>,
        plain: &str,
        upload: Upload,
        body: &mut Option<RequestBody>,
    ) -> Result<Routing, Error> {
        let head = UploadHead {
            method,
            http_method: self.http_method,
            path: plain,
            query: self.query,
            base_url: &self.context.base_url,
            headers: &self.head.headers,
            principal: self.principal,
            client: self.context.client,
        };
        let server = self.site.server;
        let (sessions, len) = upload.occupies(&self.head.headers);
        let declared = DeclaredUpload {
            server,
            principal: self.principal,
            sessions,
            len,
        };
        declared.admit().await?;
        let reply = match upload {
            Upload::Simple(upload) => {
                // Boxed to keep the future of a request small.
                Box::pin(single_request::simple(
                    self.site.server,
                    &head,
                    upload,
                    take(body),
                ))
                .await?
            }
            Upload::Multipart(upload) => {
                Box::pin(single_request::multipart(
                    self.site.server,
                    &head,
                    upload,
                    take(body),
                ))
                .await?
            }
            Upload::Start(start) => return Box::pin(self.start(dialect, &head, start, body)).await,
        };
        let reply = final_reply(dialect, reply, ReplyTo::default());
        Ok(Routing::Answered(reply))
    }

    async fn upload_method(
        &self,
        plain: &str,
        ticket: &mut Ticket,
    ) -> Result<ServedMethod<'_>, Error> {
        let path = self.head.uri.path();
        match self.site.virtual_host.table.find(self.http_method, path) {
            Found::Method {
                method, parameters, ..
            } => {
                self.record.method(&method.id);
                // Nobody uploads without being allowed to.
                self.authorize(method, false, ticket).await?;
                check_link(self.principal, Some(LinkPurpose::Upload))?;
                if method.upload.is_none() {
                    return Err(not_upload(method));
                }
                let served = self.site.virtual_host.of(method);
                self.check_inputs(served, &parameters)?;
                Ok(served)
            }
            Found::WrongHttpMethod { allowed } => Err(Error::MethodNotAllowed { allowed }),
            Found::Nothing => {
                let mut methods = self.site.virtual_host.table.methods_at(plain);
                Err(match methods.find(|method| method.upload.is_none()) {
                    Some(method) => not_upload(method),
                    None => no_such(path),
                })
            }
        }
    }
}

/// HTTP methods of requests that upload.
const UPLOAD_METHODS: [HttpMethod; 3] = [HttpMethod::POST, HttpMethod::PUT, HttpMethod::PATCH];

/// A command that a method carries out.
enum Upload {
    Simple(SimpleHead),
    Multipart(MultipartHead),
    Start(StartHead),
}

impl Upload {
    /// Returns the number of sessions that the command creates, and the length that it declares.
    fn occupies(&self, headers: &HeaderMap) -> (u64, Option<u64>) {
        match self {
            Self::Simple(_) | Self::Multipart(_) => {
                let length = headers.get(CONTENT_LENGTH);
                (0, length.and_then(|it| it.to_str().ok()?.parse().ok()))
            }
            Self::Start(start) => (1, start.declared_total()),
        }
    }
}

fn take(body: &mut Option<RequestBody>) -> RequestBody {
    body.take().expect("nobody has taken the body yet")
}

fn not_upload(method: &Method) -> Error {
    Error::NotUpload {
        method: method.id.clone(),
    }
}

fn no_such(path: &str) -> Error {
    Error::NoSuchPath {
        path: path.to_owned(),
    }
}
