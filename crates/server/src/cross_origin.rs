//! Requests from pages of other origins (Fetch standard, "CORS protocol"): the answers to
//! preflights, and the headers that let a page read a reply.
//!
//! The policy ([`CorsPolicy`]) is the policy of the API at the request's path. Paths without an
//! API, and APIs without a policy, have the policy of the settings. Without any policy no CORS
//! headers are sent, except for a session, as follows.
//!
//! A session is open to pages of the origin that sent its start request, as Google's documents
//! promise ([`examine_session`]).
//!
//! A request from an origin that is not allowed is answered like any other request, but without the
//! headers. Its browser then hides the reply from the page. If the server demands no credentials,
//! the request is refused (403), because nothing but the browser keeps the page from the server.

use std::time::Duration;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method as HttpMethod, StatusCode, Uri};
use windlass_discovery::Method;
use windlass_engine::identifiers::session_id;
use windlass_proto::command::effective_method;
use windlass_proto::parameters::Parameters;
use windlass_rest::cors::{CorsPolicy, copied};
use windlass_rest::host::Host;
use windlass_rest::registry::{DiscoveryRequest, VirtualHost, plain_path};

use crate::ambient_authority::AmbientAuthority;
use crate::batch;
use crate::client_certificate::ClientCertificate;
use crate::context::{LocalAddress, RequestContext, Scheme, own_authority};
use crate::error::Error;
use crate::health;
use crate::reply::{Reply, empty};
use crate::state::ServerState;
use crate::uploads::start_request::StartRequest;

/// The longest `Access-Control-Request-Headers` that is answered, in bytes. The reply repeats it.
const MAX_REQUESTED_LEN: usize = 2048;

/// Methods that a preflight of an upload path or session URI allows. Both accept more HTTP methods
/// than the table has for the path, and a page should be able to read their 405.
const UPLOAD_METHODS: [HttpMethod; 6] = [
    HttpMethod::POST,
    HttpMethod::PUT,
    HttpMethod::PATCH,
    HttpMethod::DELETE,
    HttpMethod::GET,
    HttpMethod::HEAD,
];

/// Headers that uploaders and downloads need, in every reply. `*` is not enough: with credentials
/// it is the name of a header.
// Names that are safelisted by the Fetch standard, such as Content-Type and Content-Length, are not
// here.
const EXPOSED: &str = "Accept-Ranges, Allow, Content-Disposition, Content-Encoding, Content-Range, Date, ETag, \
                       Content-Location, Location, Range, Retry-After, Tus-Extension, Tus-Max-Size, Tus-Resumable, \
                       Tus-Version, Upload-Concat, Upload-Defer-Length, Upload-Expires, Upload-Length, Upload-Metadata, \
                       Upload-Offset, WWW-Authenticate, X-GUploader-UploadID, X-Goog-Generation, \
                       X-Goog-Hash, X-Goog-Metageneration, X-Goog-Storage-Class, X-Goog-Stored-Content-Encoding, \
                       X-Goog-Stored-Content-Length, X-Goog-Upload-Chunk-Granularity, X-Goog-Upload-Control-URL, \
                       X-Goog-Upload-Size-Received, X-Goog-Upload-Status, X-Goog-Upload-URL, \
                       X-HTTP-Status-Code-Override";

/// The relation between the page's site and the server (Fetch Metadata).
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Headers with this prefix control access to the reply. They are not for the page.
const OWN_PREFIX: &str = "access-control-";

/// An extension of a batch's head. It marks that a page may read the batch's reply. The heads of
/// the batch's calls get a copy.
#[derive(Debug, Clone, Copy)]
struct ReadableBatch;

/// The answer to a preflight, or the refusal of a call; `None` if the request is to be routed.
pub(crate) type Answered = Option<Result<Reply, Error>>;

/// The headers that a reply needs for browsers, and the rights of the page that sent the request.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    allow_origin: Option<HeaderValue>,
    credentials: bool,
    /// The rights of a change that a page of another origin sent. `None` is the same as
    /// [`AmbientAuthority::None`].
    foreign_authority: Option<AmbientAuthority>,
    vary: Option<&'static str>,
}

/// Examines a request before it is authenticated: a preflight has no credentials (Fetch standard,
/// "CORS-preflight fetch").
pub(crate) fn examine(
    server: &ServerState,
    head: &mut Parts,
    host: Option<&Host>,
) -> (Answered, Marks) {
    let virtual_host = server.registry.on(host);
    let requested = requested_method(head);
    let policy = {
        let called = effective_method(&head.method, &head.headers);
        let called = requested.as_ref().or(called.as_ref().ok());
        policy(server, virtual_host, called.unwrap_or(&head.method), head)
    };
    let allowed = policy.and_then(|policy| policy.allow_origin(head.headers.get(ORIGIN)?));
    if batch::is_inside(head) {
        let refused = head.extensions.get::<ReadableBatch>().is_some() && allowed.is_none();
        let refused = refused.then(|| Err(not_allowed(&head.headers)));
        // The headers of the batch's own reply apply.
        let marks = Marks {
            foreign_authority: Some(authority(policy, allowed.as_ref())),
            ..Marks::default()
        };
        return (refused, marks);
    }
    let Some(policy) = policy else {
        return (None, Marks::default());
    };
    let marks = Marks {
        foreign_authority: Some(authority(Some(policy), allowed.as_ref())),
        credentials: policy.credentials() && allowed.is_some(),
        allow_origin: allowed,
        // Sent for requests without an origin as well: a cache must not give their replies to a
        // page.
        vary: (!policy.allows_all()).then_some("Origin"),
    };
    if let Some(requested) = requested {
        if marks.allow_origin.is_none() {
            return (Some(Err(not_allowed(&head.headers))), marks);
        }
        let methods = methods_at(virtual_host, head.uri.path(), &requested);
        return preflight(&methods, policy.max_age(), head, marks);
    }
    if marks.allow_origin.is_some() {
        head.extensions.insert(ReadableBatch);
    }
    (None, marks)
}

/// Returns the rights of a change by a page. `allowed` is the page's origin, if the policy allows
/// it.
fn authority(policy: Option<&CorsPolicy>, allowed: Option<&HeaderValue>) -> AmbientAuthority {
    match (policy, allowed) {
        (Some(policy), Some(_)) if policy.credentials() => AmbientAuthority::Full,
        (_, Some(_)) => AmbientAuthority::Anonymous,
        (_, None) => AmbientAuthority::None,
    }
}

/// Returns the HTTP method that a preflight asks for. `None` if the request is not a preflight.
fn requested_method(head: &Parts) -> Option<HttpMethod> {
    let is_preflight = head.method == HttpMethod::OPTIONS && head.headers.contains_key(ORIGIN);
    let name = head.headers.get(ACCESS_CONTROL_REQUEST_METHOD)?;
    let requested = HttpMethod::from_bytes(name.as_bytes());
    requested.ok().filter(|_| is_preflight)
}

/// Returns the policy of the API that a path belongs to.
fn policy<'a>(
    server: &'a ServerState,
    virtual_host: &'a VirtualHost,
    http_method: &HttpMethod,
    head: &Parts,
) -> Option<&'a CorsPolicy> {
    let usual = server.settings.cors.as_ref();
    if !virtual_host.has_cors_policies() {
        return usual;
    }
    let http_method = match *http_method {
        HttpMethod::HEAD => &HttpMethod::GET,
        _ => http_method,
    };
    let path = head.uri.path();
    let api = match DiscoveryRequest::at(path) {
        Some(request) => {
            let query = Parameters::parse(head.uri.query()).unwrap_or_default();
            request.served(virtual_host, &query)
        }
        None => virtual_host.api_at(http_method, path).or_else(|| {
            // A session may be older than the upload paths of its API.
            virtual_host.api_at(http_method, plain_path(path)?)
        }),
    };
    api.and_then(|api| api.cors.as_ref()).or(usual)
}

fn not_allowed(headers: &HeaderMap) -> Error {
    let origin = headers.get(ORIGIN).map(HeaderValue::as_bytes);
    let origin = origin.map(|origin| format!("the origin {}", String::from_utf8_lossy(origin)));
    Error::OriginNotAllowed {
        origin: origin.unwrap_or_else(|| "other origins".to_owned()),
    }
}

/// Allows the page for which a session was started to use it, whatever the policy says. The page's
/// origin came with the start, either from the page itself or from the program that passed the
/// session URI on to it. The URI is the credential.
///
/// `examined` is the outcome of [`examine`], and is returned for all other requests.
pub(crate) async fn examine_session(
    server: &ServerState,
    head: &Parts,
    examined: (Answered, Marks),
) -> (Answered, Marks) {
    if examined.1.allow_origin.is_some() || batch::is_inside(head) {
        return examined;
    }
    let Some(allow_origin) = allowed_by_session(server, head).await else {
        return examined;
    };
    let marks = Marks {
        allow_origin: Some(allow_origin),
        vary: Some("Origin"),
        ..examined.1
    };
    if requested_method(head).is_some() {
        return preflight(&UPLOAD_METHODS, CorsPolicy::MAX_AGE, head, marks);
    }
    (None, marks)
}

/// Returns the origin of a request if the session was started for it.
async fn allowed_by_session(server: &ServerState, head: &Parts) -> Option<HeaderValue> {
    let origin = head.headers.get(ORIGIN)?;
    plain_path(head.uri.path())?;
    let query = Parameters::parse(head.uri.query()).ok()?;
    let upload_id = query.upload_id()?;
    let is_for_origin = |start_request: &StartRequest| {
        let bound = start_request.origin.as_ref();
        bound.is_some_and(|bound| bound.as_bytes() == origin.as_bytes())
    };
    let id = session_id(upload_id.as_str());
    let is_allowed = server.engine.context_is(id, is_for_origin).await;
    is_allowed.then(|| copied(origin))?
}

/// Answers a preflight of an allowed origin.
fn preflight(
    methods: &[HttpMethod],
    max_age: Duration,
    head: &Parts,
    marks: Marks,
) -> (Answered, Marks) {
    let methods: Vec<_> = methods.iter().map(HttpMethod::as_str).collect();
    let mut reply = empty(StatusCode::NO_CONTENT);
    let headers = reply.headers_mut();
    if let Some(allow_origin) = marks.allow_origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allow_origin);
    }
    if marks.credentials {
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE);
    }
    if let Ok(methods) = HeaderValue::try_from(methods.join(", ")) {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    }
    match requested_headers(&head.headers) {
        Ok(None) => {}
        Ok(Some(names)) => {
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
        }
        Err(error) => return (Some(Err(error)), Marks::default()),
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, max_age.as_secs().into());
    // Also for a policy that allows all origins: the methods and headers depend on the request.
    let vary = Marks {
        vary: Some("Origin, Access-Control-Request-Method, Access-Control-Request-Headers"),
        ..Marks::default()
    };
    (Some(Ok(reply)), vary)
}

const TRUE: HeaderValue = HeaderValue::from_static("true");

/// Returns the HTTP methods of a path. A path that the table lacks, such as the path of a batch or
/// an unknown path, gets the requested method, so that the page can read the reply.
fn methods_at(virtual_host: &VirtualHost, path: &str, requested: &HttpMethod) -> Vec<HttpMethod> {
    if plain_path(path).is_some() {
        return UPLOAD_METHODS.to_vec();
    }
    let mut methods = Vec::new();
    let mut add = |http_method: &HttpMethod| {
        if !methods.contains(http_method) {
            methods.push(http_method.clone());
        }
    };
    for method in virtual_host.table.methods_at(path) {
        let Method { http_method, .. } = &**method;
        add(http_method);
        if http_method == HttpMethod::GET {
            add(&HttpMethod::HEAD);
        }
    }
    if methods.is_empty() {
        methods.push(requested.clone());
    }
    methods
}

/// Returns the names of headers that a preflight asks for, or `None` if there are none.
///
/// All names are allowed. The origin decides who may send, and the set of names is open
/// (`X-Goog-Meta-*`, headers of other dialects, tracing headers). `*` would exclude
/// `Authorization`.
fn requested_headers(headers: &HeaderMap) -> Result<Option<HeaderValue>, Error> {
    let malformed = || Error::RequestedHeaders {
        limit: MAX_REQUESTED_LEN,
    };
    let mut names = Vec::new();
    let mut length = 0;
    for value in headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS) {
        length += value.len();
        let value = value.to_str().map_err(|_| malformed())?;
        let elements = value.split(',').map(str::trim);
        names.extend(elements.filter(|element| !element.is_empty()));
    }
    let are_names = names
        .iter()
        .all(|name| HeaderName::from_bytes(name.as_bytes()).is_ok());
    if length > MAX_REQUESTED_LEN || !are_names {
        return Err(malformed());
    }
    let text = (!names.is_empty()).then(|| names.join(", "));
    Ok(text.and_then(|text| HeaderValue::try_from(text).ok()))
}

/// Whether the request may change something. Otherwise its only effect is the reply, which is
/// hidden from the page.
fn may_change(head: &Parts) -> bool {
    !effective_method(&head.method, &head.headers).is_ok_and(|called| called.is_safe())
}

/// Whether a page of another origin made a browser send the request, and the request may change
/// something.
fn is_foreign_change(head: &Parts, base_url: &str) -> bool {
    may_change(head) && is_foreign(head, base_url)
}

/// Whether a page of another origin than the server's made a browser send the request. The server's
/// origins are the origin of `base_url` and the origin that the request itself names, which a proxy
/// may serve under TLS. A browser omits `Origin` if a page embeds a resource. The page then cannot
/// read the reply.
fn is_foreign(head: &Parts, base_url: &str) -> bool {
    let Some(origin) = head.headers.get(ORIGIN) else {
        let site = head.headers.get(SEC_FETCH_SITE);
        let is_other = site.is_some_and(|site| site == "cross-site" || site == "same-site");
        return is_other && may_change(head);
    };
    // A page cannot set this header, and a proxy may have changed the host.
    let site = head.headers.get(SEC_FETCH_SITE);
    if site.is_some_and(|site| site == "same-origin") {
        return false;
    }
    let named = own_authority(&head.uri, &head.headers);
    let is_named = |scheme: &str| {
        let named = named.as_ref().and_then(|named| named.as_str().parse().ok());
        named.is_some_and(|named| *origin == origin_of(scheme, &named))
    };
    let base_url: Option<Uri> = base_url.parse().ok();
    let base_url = base_url.as_ref();
    let own = base_url.and_then(|url| Some(origin_of(url.scheme_str()?, url.authority()?)));
    let is_own = own.is_some_and(|own| *origin == own);
    // An attacker on the network could serve an http page under a host that users reach by https.
    let host = named.as_ref().map(Authority::as_str);
    let is_encrypted = base_url.is_some_and(|url| {
        url.scheme_str() == Some("https") && url.authority().map(Authority::as_str) == host
    });
    let local = head.extensions.get::<LocalAddress>();
    let own_scheme = local.map_or(Scheme::Http, |local| local.scheme);
    !is_own && !is_named("https") && (is_encrypted || !is_named(own_scheme.name()))
}

/// Returns an origin as browsers write it: without the scheme's own port.
fn origin_of(scheme: &str, authority: &Authority) -> String {
    let usual = match scheme {
        "https" => 443,
        _ => 80,
    };
    match authority.port_u16() {
        Some(port) if port != usual => format!("{scheme}://{authority}"),
        _ => format!("{scheme}://{}", authority.host()),
    }
    .to_ascii_lowercase()
}

impl Marks {
    /// Refuses a request by a page of another origin if the server demands no credentials, unless
    /// that origin is allowed. The page could otherwise use services that are open only to its
    /// visitor's network.
    ///
    /// # Errors
    /// [`Error::OriginNotAllowed`].
    pub(crate) fn refuse_foreign(
        &self,
        server: &ServerState,
        head: &Parts,
        context: &RequestContext,
    ) -> Result<(), Error> {
        let is_guarded = server.authorize.demands_credentials() || context.principal.is_some();
        let is_exempt = batch::is_inside(head) || health::is_probe(head.uri.path());
        if is_guarded || is_exempt || self.allow_origin.is_some() {
            return Ok(());
        }
        if is_foreign(head, &context.base_url) {
            return Err(not_allowed(&head.headers));
        }
        Ok(())
    }

    /// Removes rights from a change that a page of another origin made a browser send. The browser
    /// sends a client certificate, and cookies for a proxy in front, without a preflight
    /// (cross-site request forgery).
    pub(crate) fn limit_authority(&self, head: &mut Parts, context: &mut RequestContext) {
        if !is_foreign_change(head, &context.base_url) {
            return;
        }
        // A call of a batch has at most the rights of the batch.
        let of_page = self.foreign_authority.unwrap_or(AmbientAuthority::None);
        let authority = context.ambient_authority.min(of_page);
        context.ambient_authority = authority;
        head.extensions.insert(authority);
        if authority < AmbientAuthority::Full {
            context.certificate = None;
            head.extensions.remove::<ClientCertificate>();
        }
    }

    /// Adds the headers to a reply.
    pub(crate) fn add_to(self, reply: &mut Reply) {
        let headers = reply.headers_mut();
        if let Some(vary) = self.vary {
            headers.append(VARY, HeaderValue::from_static(vary));
        }
        let Some(allow_origin) = self.allow_origin else {
            return;
        };
        let exposed = exposed(headers);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allow_origin);
        if self.credentials {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE);
        }
    }
}

/// Returns the names of headers that a page may read: the usual headers, and other headers of the
/// reply that a handler or another dialect has set.
fn exposed(headers: &HeaderMap) -> HeaderValue {
    let usual = || EXPOSED.split(", ");
    let is_usual = |name: &str| usual().any(|known| known.eq_ignore_ascii_case(name));
    let names = headers.keys().map(HeaderName::as_str);
    let others: Vec<_> = names
        .filter(|name| !name.starts_with(OWN_PREFIX) && !is_usual(name))
        .collect();
    if others.is_empty() {
        return HeaderValue::from_static(EXPOSED);
    }
    let all = format!("{EXPOSED}, {}", others.join(", "));
    HeaderValue::try_from(all).unwrap_or(HeaderValue::from_static(EXPOSED))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn check(method: &str, headers: &[(&'static str, &'static str)], expected: bool) {
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let found = is_foreign_change(&head, "https://up.example.com:8443/media");
        assert_eq!(found, expected, "{method} {headers:?}");
    }

    #[test]
    fn origins_have_no_port_that_is_the_scheme_s_own() {
        for (scheme, authority, origin) in [
            ("https", "up.example.com:443", "https://up.example.com"),
            ("https", "up.example.com", "https://up.example.com"),
            ("http", "up.example.com:443", "http://up.example.com:443"),
            ("http", "[::1]:80", "http://[::1]"),
        ] {
            assert_eq!(origin_of(scheme, &authority.parse().unwrap()), origin);
        }
    }

    /// Anybody on the network can serve an http page under the name and the port of the server.
    #[test]
    fn page_of_http_is_foreign_where_the_server_is_reached_by_https() {
        let host = ("host", "up.example.com:8443");
        check(
            "POST",
            &[host, ("origin", "https://up.example.com:8443")],
            false,
        );
        check(
            "POST",
            &[host, ("origin", "http://up.example.com:8443")],
            true,
        );
        // A proxy has changed the host: the page of http under its own name is the server's.
        let inner = ("host", "inner.example");
        check("POST", &[inner, ("origin", "http://inner.example")], false);
    }

    #[test]
    fn changes_that_pages_of_other_origins_send_are_foreign() {
        let own = ("origin", "https://up.example.com:8443");
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            check(method, &[], false);
            check(method, &[own], false);
            check(method, &[("sec-fetch-site", "none")], false);
            check(method, &[("sec-fetch-site", "same-origin")], false);
            check(method, &[("sec-fetch-site", "cross-site")], true);
            check(method, &[("sec-fetch-site", "same-site")], true);
            check(method, &[("origin", "null")], true);
            check(method, &[("origin", "https://up.example.com")], true);
            check(method, &[("origin", "http://up.example.com:8443")], true);
            // As behind a proxy that has changed the host.
            let site = ("sec-fetch-site", "same-origin");
            check(method, &[("origin", "https://up.example.com"), site], false);
        }
        let foreign = ("origin", "https://app.example");
        check("GET", &[foreign], false);
        check("HEAD", &[foreign], false);
        check("POST", &[foreign, ("x-http-method-override", "get")], false);
        check("POST", &[foreign, ("x-http-method-override", "()")], true);
        check(
            "GET",
            &[foreign, ("x-http-method-override", "DELETE")],
            false,
        );
    }
}
