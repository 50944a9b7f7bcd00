//! Tokens for tests: an endpoint that gives one to everybody who asks.
//!
//! Google's libraries exchange the key of a service account, or a refresh token, for an access
//! token at the `token_uri` of their credentials file. With [`DevTokenService`] that can be the
//! server itself, so that code under test runs with its usual credentials and without a stub.
//!
//! The endpoint verifies nothing. It is only for developers' machines.

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::future::{BoxFuture, Either};
use hashlink::LruCache;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, Limited};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tower_service::Service;
use windlass_server::{AccessError, Clock, Principal, ReplyBody};
use windlass_store::Timestamp;

use crate::scheme::TokenScheme;
use crate::secrets::SecretHash;

/// Path of the endpoint.
const PATH: &str = "/token";

/// Lifetime of a token. Google's live as long.
const LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Maximum number of tokens. The least recently used token is evicted first.
const MAX_TOKENS: usize = 10_000;

/// Maximum length of a request in bytes.
const MAX_REQUEST_LEN: usize = 8 * 1024;

/// How long a request may take to arrive.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// The tokens that the endpoint has given out. As a [`TokenScheme`] it knows their principals.
///
/// They are kept in memory, at most 10,000, and live for an hour.
pub struct DevTokens {
    clock: Arc<dyn Clock>,
    tokens: Mutex<LruCache<SecretHash, Issued>>,
}

struct Issued {
    principal: Principal,
    expires: Timestamp,
}

impl fmt::Debug for DevTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DevTokens")
    }
}

impl DevTokens {
    /// Returns an endpoint without tokens.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            tokens: Mutex::new(LruCache::new(MAX_TOKENS)),
        }
    }

    fn tokens(&self) -> MutexGuard<'_, LruCache<SecretHash, Issued>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a new token.
    fn issue(&self, principal: Principal) -> String {
        let mut random = [0; 24];
        getrandom::fill(&mut random).expect("the system has random numbers");
        let token = format!("dev.{}", URL_SAFE_NO_PAD.encode(random));
        let issued = Issued {
            principal,
            expires: self.clock.now().saturating_add(LIFETIME),
        };
        self.tokens().insert(SecretHash::of(&token), issued);
        token
    }

    /// Answers a request for a token.
    fn answer(&self, form: &[u8]) -> Response<ReplyBody> {
        match principal_of(form) {
            Ok(principal) => {
                // The client has chosen the name: as a text it is escaped.
                let id = principal.id();
                tracing::info!(principal = id, "a token for tests was given out");
                let token = json!({
                    "access_token": self.issue(principal),
                    "token_type": "Bearer",
                    "expires_in": LIFETIME.as_secs(),
                });
                reply(StatusCode::OK, &token)
            }
            Err(error) => reply(StatusCode::BAD_REQUEST, &error.json()),
        }
    }
}

#[async_trait]
impl TokenScheme for DevTokens {
    async fn principal(
        &self,
        token: &str,
        _: Option<IpAddr>,
    ) -> Result<Option<Principal>, AccessError> {
        let now = self.clock.now();
        let mut tokens = self.tokens();
        match tokens.get(&SecretHash::of(token)) {
            Some(issued) if issued.expires > now => Ok(Some(issued.principal.clone())),
            Some(_) => Err(AccessError::CredentialsExpired),
            None => Ok(None),
        }
    }
}

/// Why no token is given out (RFC 6749, section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// There is no `grant_type`, or the request is no form.
    InvalidRequest,
    /// The assertion is not a JWT, or names no user.
    InvalidGrant,
    UnsupportedGrantType,
    /// A page of another origin asks.
    ForeignPage,
}

impl Refusal {
    fn json(self) -> Value {
        let (error, description) = match self {
            Self::InvalidRequest => (
                "invalid_request",
                "send grant_type and its parameters as a form of at most 8 KB",
            ),
            Self::InvalidGrant => (
                "invalid_grant",
                "the assertion must be a JWT whose claim iss or sub names the principal, and without \
                 target_audience",
            ),
            Self::UnsupportedGrantType => (
                "unsupported_grant_type",
                "grant_type is urn:ietf:params:oauth:grant-type:jwt-bearer, refresh_token or \
                 client_credentials",
            ),
            Self::ForeignPage => (
                "invalid_request",
                "pages of other origins get no tokens for tests",
            ),
        };
        json!({"error": error, "error_description": description})
    }
}

/// The claims of an assertion (RFC 7523, section 3).
#[derive(Deserialize)]
struct Assertion {
    iss: Option<String>,
    /// The user for whom a service account acts.
    sub: Option<String>,
    scope: Option<String>,
    target_audience: Option<String>,
}

/// Returns the user that a request names.
fn principal_of(form: &[u8]) -> Result<Principal, Refusal> {
    let form = str::from_utf8(form).map_err(|_| Refusal::InvalidRequest)?;
    let field = |name| form_field(form, name);
    match field("grant_type").ok_or(Refusal::InvalidRequest)?.as_str() {
        // RFC 7523: the key of a service account has signed the assertion.
        "urn:ietf:params:oauth:grant-type:jwt-bearer" => {
            let assertion = field("assertion").ok_or(Refusal::InvalidGrant)?;
            principal_of_assertion(&assertion)
        }
        "refresh_token" => named(field("refresh_token").map(name_of_user), field("scope")),
        "client_credentials" => named(field("client_id"), field("scope")),
        _ => Err(Refusal::UnsupportedGrantType),
    }
}

fn principal_of_assertion(assertion: &str) -> Result<Principal, Refusal> {
    let claims = assertion.split('.').nth(1).ok_or(Refusal::InvalidGrant)?;
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('='));
    let claims = claims.map_err(|_| Refusal::InvalidGrant)?;
    let claims: Assertion = serde_json::from_slice(&claims).map_err(|_| Refusal::InvalidGrant)?;
    // The request asks for an id token, which an upload server cannot use.
    if claims.target_audience.is_some() {
        return Err(Refusal::InvalidGrant);
    }
    named(claims.sub.or(claims.iss), claims.scope)
}

/// Returns the principal of a refresh token: the token itself, if it can be a name. A real refresh
/// token that is sent by mistake must not reach logs and rows.
fn name_of_user(refresh_token: String) -> String {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"@._+-".contains(&byte);
    if refresh_token.len() <= 64 && refresh_token.bytes().all(is_name) {
        return refresh_token;
    }
    let hash = Sha256::digest(&refresh_token);
    let (beginning, _) = hash.split_first_chunk().expect("it has 32 bytes");
    format!("user-{:016x}", u64::from_be_bytes(*beginning))
}

fn named(id: Option<String>, scope: Option<String>) -> Result<Principal, Refusal> {
    let id = id
        .filter(|id| !id.is_empty())
        .ok_or(Refusal::InvalidGrant)?;
    let principal = Principal::new(id);
    Ok(match scope.filter(|scope| !scope.is_empty()) {
        Some(scope) => principal.with_scopes(scope.split_whitespace().map(str::to_owned)),
        None => principal,
    })
}

/// A field of a form, decoded (`application/x-www-form-urlencoded`).
fn form_field(form: &str, wanted: &str) -> Option<String> {
    form.split('&').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let value = value.replace('+', " ");
        let value = percent_decode_str(&value).decode_utf8().ok()?;
        (name == wanted).then(|| value.into_owned())
    })
}

/// Whether the headers of a browser say that a page of another origin makes the request. Libraries
/// send no such headers.
fn is_of_a_foreign_page(uri: &Uri, headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else {
        let site = headers.get("sec-fetch-site");
        return site.is_some_and(|site| site == "cross-site" || site == "same-site");
    };
    // HTTP/2 has the host in the URI.
    let host = match uri.authority() {
        Some(host) => Some(host.as_str().as_bytes()),
        None => headers.get(HOST).map(HeaderValue::as_bytes),
    };
    let mut schemes = [&b"http://"[..], b"https://"].into_iter();
    let page = schemes.find_map(|scheme| origin.as_bytes().strip_prefix(scheme));
    page.is_none() || page != host
}

fn reply(status: StatusCode, body: &Value) -> Response<ReplyBody> {
    let body = Full::new(Bytes::from(body.to_string()));
    let mut reply = Response::new(body.map_err(|never| match never {}).boxed_unsync());
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // RFC 6749, section 5.1.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// Answers `POST /token` by giving out a token, and passes all other requests to the service
/// inside.
#[derive(Clone)]
pub struct DevTokenService<S> {
    tokens: Option<Arc<DevTokens>>,
    knows_host: Arc<KnowsHost>,
    inner: S,
}

/// Whether the server answers for the host that a request names.
type KnowsHost = dyn Fn(&Parts) -> bool + Send + Sync;

impl<S> DevTokenService<S> {
    /// Puts the endpoint in front of `inner`. Without `tokens` all requests are passed on.
    ///
    /// `knows_host` is [`UploadService::knows_host`](windlass_server::UploadService::knows_host). A
    /// request for an unknown host is passed on, too, and `inner` refuses it like any other such
    /// request. A page that points its own domain at the server (DNS rebinding) therefore gets no
    /// token.
    pub fn new(
        tokens: Option<Arc<DevTokens>>,
        knows_host: impl Fn(&Parts) -> bool + Send + Sync + 'static,
        inner: S,
    ) -> Self {
        Self {
            tokens,
            knows_host: Arc::new(knows_host),
            inner,
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for DevTokenService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevTokenService")
            .field("tokens", &self.tokens)
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

impl<B, S> Service<Request<B>> for DevTokenService<S>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S: Service<Request<B>, Response = Response<ReplyBody>, Error = Infallible>,
{
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Either<BoxFuture<'static, Result<Response<ReplyBody>, Infallible>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let asks = request.uri().path() == PATH && request.method() == Method::POST;
        let Some(tokens) = self.tokens.clone().filter(|_| asks) else {
            return Either::Right(self.inner.call(request));
        };
        let (head, body) = request.into_parts();
        if !(self.knows_host)(&head) {
            let request = Request::from_parts(head, body);
            return Either::Right(self.inner.call(request));
        }
        if is_of_a_foreign_page(&head.uri, &head.headers) {
            let refused = reply(StatusCode::FORBIDDEN, &Refusal::ForeignPage.json());
            return Either::Left(Box::pin(ready(Ok(refused))));
        }
        Either::Left(Box::pin(async move {
            let body = Limited::new(body, MAX_REQUEST_LEN);
            let form = tokio::time::timeout(REQUEST_TIME, body.collect()).await;
            Ok(match form {
                Ok(Ok(form)) => tokens.answer(&form.to_bytes()),
                Ok(Err(_)) | Err(_) => {
                    reply(StatusCode::BAD_REQUEST, &Refusal::InvalidRequest.json())
                }
            })
        }))
    }
}

#[cfg(test)]
mod tests;
