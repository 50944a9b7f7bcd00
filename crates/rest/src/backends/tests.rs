use futures_util::FutureExt as _;
use windlass_store::Timestamp;

use super::*;
use crate::outbound::NoOutbound;

fn backends(secret: &str) -> Backends {
    let secret = secret.parse().expect("a secret");
    Backends::new(Arc::new(NoOutbound), secret, OutboundAddresses::Public)
}

/// The example of the libraries of Standard Webhooks.
#[test]
fn requests_are_signed_as_standard_webhooks_says() {
    let backends = backends("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let mut request = Request::new(Bytes::from_static(b"{\"test\": 2432232314}"));
    let now = Timestamp::from_millis(1_614_265_330_999);
    backends.sign(&mut request, "msg_p5jXN8AQM9LWM0D4loKWxJek", now);
    let header = |name| request.headers()[name].to_str().expect("a text");
    assert_eq!(header("webhook-timestamp"), "1614265330");
    assert_eq!(
        header("webhook-signature"),
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    );
}

#[test]
fn secrets_are_of_24_to_64_bytes_and_are_not_shown() {
    for (len, fits) in [(23, false), (24, true), (64, true), (65, false)] {
        let text = STANDARD.encode(vec![7; len]);
        assert_eq!(text.parse::<ServiceSecret>().is_ok(), fits, "{len}");
        let text = format!("whsec_{text}\n");
        assert_eq!(text.parse::<ServiceSecret>().is_ok(), fits, "{len}");
    }
    assert!("s3cret, not base64".parse::<ServiceSecret>().is_err());
    let shown = format!("{:?}", backends(&STANDARD.encode([7; 32])));
    assert_eq!(shown, "Backends { .. }");
}

#[test]
fn names_lead_to_public_addresses_and_addresses_to_themselves() {
    let backends = backends(&STANDARD.encode([7; 32]));
    for (url, expected) in [
        ("http://127.0.0.1:9000/", OutboundAddresses::Any),
        ("http://[::1]:9000/", OutboundAddresses::Any),
        ("http://LocalHost/", OutboundAddresses::Any),
        ("https://backend.example/", OutboundAddresses::Public),
        ("https://localhost.example/", OutboundAddresses::Public),
    ] {
        let uri = url.parse().expect("a URL");
        assert_eq!(backends.addresses_for(&uri), expected, "{url}");
    }
}

#[test]
fn each_service_has_its_own_bound_on_calls() {
    let backends = backends(&STANDARD.encode([7; 32]));
    let slow = backends.calls_of("http://127.0.0.1:9000/like").pool;
    let permits: Vec<_> = (0..BACKEND_CALLS).map(|_| slow.take().unwrap()).collect();
    for (url, is_free) in [
        ("http://127.0.0.1:9000/other?x=1", false),
        ("http://127.0.0.1:9001/like", true),
        ("https://service.example/like", true),
    ] {
        let calls = backends.calls_of(url);
        assert_eq!(calls.pool.take().is_ok(), is_free, "{url}");
    }
    drop(permits);
    assert!(slow.take().is_ok());
}

#[tokio::test(start_paused = true)]
async fn caller_of_a_slow_service_leaves_calls_to_others() {
    let calls = Calls::new();
    let caller = |name: &str| Some(Caller::Principal(name.to_owned()));
    let admit = |name| calls.admit(caller(name), Backends::TIMEOUT);
    let mut alices = Vec::new();
    for _ in 0..CALLS_PER_CALLER {
        alices.push(admit("alice").now_or_never().unwrap().unwrap());
    }
    let mut next = Box::pin(admit("alice"));
    assert!((&mut next).now_or_never().is_none(), "it waits");
    let bobs = admit("bob").now_or_never();
    assert!(bobs.unwrap().is_ok());
    alices.pop();
    assert!(next.await.is_ok(), "another one has ended");
    alices.push(admit("alice").await.unwrap());
    assert!(admit("alice").await.is_err(), "after the timeout");
    drop(alices);
    let unknown: Vec<_> = (0..BACKEND_CALLS)
        .filter_map(|_| calls.admit(None, Backends::TIMEOUT).now_or_never()?.ok())
        .collect();
    assert_eq!(unknown.len(), BACKEND_CALLS);
    assert!(admit("bob").now_or_never().unwrap().is_err());
}

#[test]
fn failures_say_their_causes() {
    let error = OutboundError::Failed {
        host: "service.example".to_owned(),
        source: "connection refused".into(),
    };
    assert_eq!(
        with_causes(&error),
        "the exchange with service.example failed: connection refused"
    );
}

/// Knows one method that is not served.
#[derive(Debug)]
struct Incomplete;

#[async_trait]
impl ApiHandler for Incomplete {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        Err(call.not_implemented())
    }

    async fn run(&self, call: &Call<'_>, _: Option<Uploaded>) -> Result<Answer, Rejection> {
        Err(call.not_implemented())
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        Err(call.not_implemented())
    }

    fn not_served(&self, http_method: &HttpMethod, path: &str) -> Option<String> {
        let is_known = *http_method == HttpMethod::GET && path == "/farm/v1/barns";
        is_known.then(|| "farm.barns.list".to_owned())
    }
}

#[test]
fn methods_that_are_not_served_are_those_of_the_handler() {
    let api = "name = \"farm\"\nversion = \"v1\"\n[collections.animals]\n";
    let api = Api::from_toml(api).expect("a valid one");
    let backends = Arc::new(backends(&STANDARD.encode([7; 32])));
    let wrapped = WithBackends::new(Arc::new(Incomplete), backends, &api);
    let at = |path| wrapped.not_served(&HttpMethod::GET, path);
    assert_eq!(at("/farm/v1/barns").as_deref(), Some("farm.barns.list"));
    assert_eq!(at("/farm/v1/animals"), None);
}
