use std::future::{Ready, ready};
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

struct DrivenClock(AtomicU64);

impl Clock for DrivenClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

#[derive(Clone)]
struct Inner;

impl Service<Request<Full<Bytes>>> for Inner {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Ready<Result<Response<ReplyBody>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        ready(Ok(reply(StatusCode::IM_A_TEAPOT, &Value::Null)))
    }
}

/// A request without a host, as tests send it, is accepted.
fn knows_host(head: &Parts) -> bool {
    let host = head.headers.get(HOST);
    host.is_none_or(|host| host != "evil.example")
}

fn assertion(claims: &Value) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!(
        "{}.{}.{}",
        part(r#"{"alg":"RS256"}"#),
        part(&claims.to_string()),
        part("no signature")
    )
}

async fn post(tokens: &Arc<DevTokens>, path: &str, form: &str) -> (StatusCode, Value) {
    let mut service = DevTokenService::new(Some(Arc::clone(tokens)), knows_host, Inner);
    let request = Request::post(path).body(Full::new(Bytes::from(form.to_owned())));
    let reply = service.call(request.unwrap()).await.unwrap();
    let status = reply.status();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

async fn check(form: &str, expected: Result<(&str, Option<&[&str]>), &str>) {
    let clock = Arc::new(DrivenClock(AtomicU64::new(1_000_000)));
    let tokens = Arc::new(DevTokens::new(clock.clone()));
    let (status, reply) = post(&tokens, "/token", form).await;
    let (id, scopes) = match expected {
        Ok(expected) => expected,
        Err(error) => {
            assert_eq!(status, StatusCode::BAD_REQUEST, "{form}");
            assert_eq!(reply["error"], error, "{form}");
            return;
        }
    };
    assert_eq!(status, StatusCode::OK, "{form}: {reply}");
    assert_eq!(reply["token_type"], "Bearer");
    assert_eq!(reply["expires_in"], 3600);
    let token = reply["access_token"].as_str().expect("it is a string");
    let found = tokens
        .principal(token, None)
        .await
        .unwrap()
        .expect("it is known");
    assert_eq!(found.id(), id, "{form}");
    let given: Option<Vec<&str>> = found
        .scopes()
        .map(|scopes| scopes.iter().map(String::as_str).collect());
    assert_eq!(given.as_deref(), scopes, "{form}");
    assert_eq!(tokens.principal("dev.unknown", None).await, Ok(None));
    clock.0.fetch_add(3_600_000, Ordering::Relaxed);
    let expired = Err(AccessError::CredentialsExpired);
    assert_eq!(tokens.principal(token, None).await, expired, "{form}");
}

#[tokio::test]
async fn token_is_given_to_whom_the_request_names() {
    let robot = assertion(&json!({"iss": "robot@example.com", "scope": "read write"}));
    let in_the_name_of = assertion(&json!({"iss": "robot@example.com", "sub": "alice"}));
    let jwt_bearer = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
    let scopes: &[&str] = &["read", "write"];
    for (form, id, scopes) in [
        (
            format!("assertion={robot}&{jwt_bearer}"),
            "robot@example.com",
            Some(scopes),
        ),
        (
            format!("{jwt_bearer}&assertion={in_the_name_of}"),
            "alice",
            None,
        ),
        (
            "grant_type=refresh_token&refresh_token=bob%40example.com&scope=read+write".to_owned(),
            "bob@example.com",
            Some(scopes),
        ),
        (
            "grant_type=refresh_token&refresh_token=1%2F%2F0gReal".to_owned(),
            "user-03413b7e916468b3",
            None,
        ),
        (
            "grant_type=client_credentials&client_id=robot&client_secret=x".to_owned(),
            "robot",
            None,
        ),
    ] {
        check(&form, Ok((id, scopes))).await;
    }
    let id_token = assertion(&json!({"iss": "robot", "target_audience": "https://example.com"}));
    for (form, error) in [
        (String::new(), "invalid_request"),
        ("grant_type=password".to_owned(), "unsupported_grant_type"),
        (jwt_bearer.to_owned(), "invalid_grant"),
        (format!("{jwt_bearer}&assertion=x"), "invalid_grant"),
        (
            format!("{jwt_bearer}&assertion={id_token}"),
            "invalid_grant",
        ),
        ("grant_type=refresh_token".to_owned(), "invalid_grant"),
        ("x".repeat(MAX_REQUEST_LEN + 1), "invalid_request"),
    ] {
        check(&form, Err(error)).await;
    }
}

#[tokio::test]
async fn page_of_another_origin_gets_no_token() {
    let tokens = Arc::new(DevTokens::new(Arc::new(DrivenClock(AtomicU64::new(0)))));
    let mut service = DevTokenService::new(Some(Arc::clone(&tokens)), knows_host, Inner);
    for (header, value, expected) in [
        ("origin", "https://evil.example", StatusCode::FORBIDDEN),
        ("origin", "null", StatusCode::FORBIDDEN),
        ("origin", "http://127.0.0.1:8081", StatusCode::FORBIDDEN),
        ("sec-fetch-site", "cross-site", StatusCode::FORBIDDEN),
        ("origin", "http://127.0.0.1:8080", StatusCode::OK),
        ("sec-fetch-site", "same-origin", StatusCode::OK),
    ] {
        let form = "grant_type=client_credentials&client_id=robot";
        let request = Request::post("/token")
            .header("host", "127.0.0.1:8080")
            .header(header, value)
            .body(Full::new(Bytes::from(form)))
            .unwrap();
        let reply = service.call(request).await.unwrap();
        assert_eq!(reply.status(), expected, "{header}: {value}");
    }
    assert_eq!(tokens.tokens().len(), 2);
}

#[tokio::test]
async fn unknown_host_gets_no_token() {
    let tokens = Arc::new(DevTokens::new(Arc::new(DrivenClock(AtomicU64::new(0)))));
    let mut service = DevTokenService::new(Some(Arc::clone(&tokens)), knows_host, Inner);
    let request = Request::post("/token")
        .header("host", "evil.example")
        .header("origin", "http://evil.example")
        .body(Full::new(Bytes::from_static(
            b"grant_type=client_credentials&client_id=robot",
        )));
    let reply = service.call(request.unwrap()).await.unwrap();
    assert_eq!(reply.status(), StatusCode::IM_A_TEAPOT, "it is passed on");
    assert_eq!(tokens.tokens().len(), 0);
}

#[tokio::test]
async fn tokens_beyond_the_bound_replace_the_oldest() {
    let clock = Arc::new(DrivenClock(AtomicU64::new(0)));
    let tokens = DevTokens::new(clock);
    let first = tokens.issue(Principal::new("alice"));
    for _ in 0..MAX_TOKENS {
        tokens.issue(Principal::new("bob"));
    }
    assert_eq!(tokens.tokens().len(), MAX_TOKENS);
    assert_eq!(tokens.principal(&first, None).await, Ok(None));
}

#[tokio::test]
async fn all_other_requests_are_passed_on() {
    let clock = Arc::new(DrivenClock(AtomicU64::new(0)));
    let tokens = Arc::new(DevTokens::new(clock));
    let (status, _) = post(&tokens, "/tokens", "").await;
    assert_eq!(status, StatusCode::IM_A_TEAPOT);
    let mut service = DevTokenService::new(Some(tokens), knows_host, Inner);
    let get = Request::get("/token")
        .body(Full::new(Bytes::new()))
        .unwrap();
    let passed = service.call(get).await.unwrap();
    assert_eq!(passed.status(), StatusCode::IM_A_TEAPOT);
    let mut without = DevTokenService::new(None, knows_host, Inner);
    let post = Request::post("/token")
        .body(Full::new(Bytes::new()))
        .unwrap();
    let passed = without.call(post).await.unwrap();
    assert_eq!(passed.status(), StatusCode::IM_A_TEAPOT);
}
