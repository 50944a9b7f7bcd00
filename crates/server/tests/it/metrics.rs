//! Metrics of a server, as a scrape of the application's registry shows them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{FutureExt as _, stream};
use http::{Method, Request, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::registry::Registry;
use tower_service::Service;
use windlass_server::{
    Clock, LimitedResource, MetricsService, Principal, Server, Settings, UploadService, Usage,
};
use windlass_testkit::exposition::Exposition;
use windlass_testkit::in_process::exchange;

use crate::embedding::{
    HOUR, MEDIA, ORIGIN, SESSIONS, ask, builder, failing_with, get, memory, start, started,
};
use crate::world::{Body, LIFETIME, ManualClock, Reply};

const SIMPLE: &str = "/upload/farm/v1/animals?uploadType=media";

const QUERY: [(&str, &str); 1] = [("content-range", "bytes */*")];

/// A server with a separate registry.
struct Metered {
    server: Server,
    registry: Registry,
}

impl Metered {
    async fn new() -> Self {
        let mut registry = Registry::default();
        let server = started(builder(memory()).metrics(&mut registry)).await;
        Self { server, registry }
    }

    fn service(&self) -> UploadService {
        self.server.service()
    }

    fn scrape(&self) -> Exposition {
        scrape(&self.registry)
    }
}

fn scrape(registry: &Registry) -> Exposition {
    let mut text = String::new();
    encode(&mut text, registry).expect("the registry can be written");
    Exposition::parse(&text)
}

/// The labels of a count of requests.
fn labels(method: &str, upload_type: &str, status: &str) -> String {
    format!("method=\"{method}\",status=\"{status}\",upload_type=\"{upload_type}\"")
}

#[track_caller]
fn assert_requests(scrape: &Exposition, expected: &[(&str, &str, &str, u32)]) {
    let expected: BTreeMap<_, _> = expected
        .iter()
        .map(|(method, upload_type, status, count)| {
            (labels(method, upload_type, status), f64::from(*count))
        })
        .collect();
    assert_eq!(scrape.non_zero("windlass_requests_total"), expected);
}

#[track_caller]
fn assert_value(scrape: &Exposition, series: &str, expected: u64) {
    let value = scrape.value(series);
    assert_eq!(value.to_string(), expected.to_string(), "{series}");
}

/// Compares how many durations there are of each type of upload.
#[track_caller]
fn assert_durations(scrape: &Exposition, expected: [u64; 7]) {
    let upload_types = [
        "none",
        "media",
        "multipart",
        "resumable_start",
        "resumable_append",
        "resumable_query",
        "resumable_cancel",
    ];
    for (upload_type, expected) in upload_types.into_iter().zip(expected) {
        let series = "windlass_request_duration_seconds_count";
        let series = format!("{series}{{upload_type=\"{upload_type}\"}}");
        assert_value(scrape, &series, expected);
    }
}

fn multipart(metadata: &str, media: &[u8]) -> Vec<u8> {
    let body = format!("--b\r\nContent-Type: application/json\r\n\r\n{metadata}\r\n--b\r\n\r\n");
    let mut body = body.into_bytes();
    body.extend_from_slice(media);
    body.extend_from_slice(b"\r\n--b--\r\n");
    body
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one request of each kind")]
async fn each_kind_of_request_is_counted_by_method_upload_type_and_status() {
    let metered = Metered::new().await;
    let service = || metered.service();
    let (mut received, mut sent) = (0, 0);
    let mut tally = |len: u64, reply: Reply, status: u16| {
        assert_eq!(reply.status.as_u16(), status, "{reply:?}");
        received += len;
        sent += reply.body.len() as u64;
        reply
    };

    let reply = ask(service(), "POST", SIMPLE, &[], MEDIA.whole()).await;
    let animal = tally(MEDIA.len(), reply, 200).field("id");
    let animal = format!("/farm/v1/animals/{animal}");

    let uri = "/upload/farm/v1/animals?uploadType=multipart";
    let headers = [("content-type", "multipart/related; boundary=b")];
    let body = multipart("{\"name\": \"Dolly\"}", b"wool");
    let len = body.len() as u64;
    let reply = ask(service(), "POST", uri, &headers, body).await;
    tally(len, reply, 200);

    let reply = ask(service(), "POST", SESSIONS, &[], Vec::new()).await;
    let started = tally(0, reply, 200);
    let session = started.location(ORIGIN);
    let reply = ask(service(), "PUT", session, &QUERY, Vec::new()).await;
    tally(0, reply, 308);
    for (range, bytes, status) in [
        ("bytes 0-99999/200000", 0..100_000, 308),
        ("bytes 100000-199999/200000", 100_000..200_000, 201),
    ] {
        let headers = [("content-range", range)];
        let reply = ask(service(), "PUT", session, &headers, MEDIA.bytes(bytes)).await;
        tally(100_000, reply, status);
    }

    let reply = ask(service(), "POST", SESSIONS, &[], Vec::new()).await;
    let started = tally(0, reply, 200);
    let session = started.location(ORIGIN);
    let reply = ask(service(), "DELETE", session, &[], Vec::new()).await;
    tally(0, reply, 499);

    for (uri, status) in [
        (animal.as_str(), 200),
        (&format!("{animal}?alt=media"), 200),
        ("/farm/v1/animals/none", 404),
        ("/nothing/here", 404),
        ("/discovery/v1/apis", 200),
        ("/healthz", 200),
        ("/readyz", 200),
    ] {
        tally(0, get(service(), uri).await, status);
    }
    let uri = "/upload/farm/v1/animals?uploadType=pigeon";
    tally(
        3,
        ask(service(), "POST", uri, &[], b"abc".into()).await,
        400,
    );
    let gone = format!("{SESSIONS}&upload_id={}", "A".repeat(32));
    tally(
        0,
        ask(service(), "PUT", &gone, &QUERY, Vec::new()).await,
        404,
    );

    let scrape = metered.scrape();
    assert_requests(
        &scrape,
        &[
            ("farm.animals.insert", "media", "2xx", 1),
            ("farm.animals.insert", "multipart", "2xx", 1),
            ("farm.animals.insert", "resumable_start", "2xx", 2),
            ("farm.animals.insert", "resumable_query", "3xx", 1),
            ("farm.animals.insert", "resumable_append", "3xx", 1),
            ("farm.animals.insert", "resumable_append", "2xx", 1),
            ("farm.animals.insert", "resumable_cancel", "4xx", 1),
            ("farm.animals.insert", "none", "4xx", 1),
            ("farm.animals.get", "none", "2xx", 2),
            ("farm.animals.get", "none", "4xx", 1),
            ("discovery", "none", "2xx", 1),
            ("health", "none", "2xx", 2),
            ("other", "none", "4xx", 1),
            ("other", "resumable_query", "4xx", 1),
        ],
    );
    assert_value(&scrape, "windlass_received_bytes_total", received);
    assert_value(&scrape, "windlass_sent_bytes_total", sent);
    for (outcome, expected) in [
        ("started", 2),
        ("finished", 1),
        ("cancelled", 1),
        ("failed", 0),
        ("expired", 0),
    ] {
        let series = format!("windlass_sessions_{outcome}_total");
        assert_value(&scrape, &series, expected);
    }
    assert_durations(&scrape, [8, 1, 1, 2, 2, 2, 1]);
}

#[tokio::test]
async fn session_that_an_error_ends_is_counted_as_failed() {
    let metered = Metered::new().await;
    let session = start(metered.service()).await;
    let malformed = [("content-range", "bytes a-b/c")];
    let reply = ask(metered.service(), "PUT", &session, &malformed, Vec::new()).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{reply:?}");
    let scrape = metered.scrape();
    assert_value(&scrape, "windlass_sessions_failed_total", 1);
    assert_value(&scrape, "windlass_sessions_finished_total", 0);
}

#[tokio::test(start_paused = true)]
async fn swept_session_is_counted_as_expired() {
    let mut registry = Registry::default();
    let clock = Arc::new(ManualClock::default());
    let builder = builder(memory()).metrics(&mut registry);
    let server = started(builder.clock(Arc::clone(&clock) as Arc<dyn Clock>)).await;
    start(server.service()).await;
    clock.advance(LIFETIME + HOUR);
    tokio::time::sleep(HOUR).await;
    assert_value(&scrape(&registry), "windlass_sessions_expired_total", 1);
}

#[tokio::test]
async fn unknown_paths_sessions_and_names_make_no_new_series() {
    let metered = Metered::new().await;
    let before = metered.scrape();
    for n in 0..1000 {
        get(metered.service(), &format!("/farm/v1/{n}/{n}")).await;
        let uri = format!("/upload/farm/v{n}/animals?uploadType=media&upload_id={n}");
        ask(metered.service(), "PUT", &uri, &QUERY, Vec::new()).await;
        get(metered.service(), &format!("/farm/v1/animals/{n}")).await;
        let method = format!("METHOD{n}");
        ask(metered.service(), &method, "/healthz", &[], Vec::new()).await;
    }
    let after = metered.scrape();
    assert_eq!(after.series(), before.series());
    assert_requests(
        &after,
        &[
            ("other", "none", "4xx", 1000),
            ("other", "resumable_query", "4xx", 1000),
            ("farm.animals.get", "none", "4xx", 1000),
            ("health", "none", "2xx", 1000),
        ],
    );
}

#[tokio::test]
async fn labels_name_no_session_resource_principal_or_token() {
    let metered = Metered::new().await;
    let session = start(metered.service()).await;
    let upload_id = session.split_once("upload_id=").unwrap().1;
    let request = Request::put(format!("{session}&access_token=secret-token"))
        .extension(Principal::new("alice@example.com"))
        .header("authorization", "Bearer secret-token")
        .header("content-length", MEDIA.len())
        .body(Body::from(MEDIA))
        .unwrap();
    let animal = &exchange(metered.service(), request).await.field("id");
    get(
        metered.service(),
        &format!("/farm/v1/animals/{animal}?alt=media"),
    )
    .await;

    let mut text = String::new();
    encode(&mut text, &metered.registry).unwrap();
    for secret in [upload_id, animal, "alice", "secret-token", "upload_id"] {
        assert!(!text.contains(secret), "{secret} in\n{text}");
    }
    let samples = metered.scrape().samples;
    let names: BTreeSet<_> = samples
        .iter()
        .flat_map(|sample| sample.labels.keys())
        .collect();
    let expected = ["le", "limit", "method", "resource", "status", "upload_type"];
    assert_eq!(names.into_iter().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn two_servers_of_one_process_do_not_mix() {
    let (one, other) = (Metered::new().await, Metered::new().await);
    for _ in 0..3 {
        get(one.service(), "/healthz").await;
    }
    get(other.service(), "/healthz").await;
    assert_requests(&one.scrape(), &[("health", "none", "2xx", 3)]);
    assert_requests(&other.scrape(), &[("health", "none", "2xx", 1)]);

    let mut registry = Registry::default();
    let mut services = Vec::new();
    let mut servers = Vec::new();
    for name in ["a", "b"] {
        let label = (Cow::from("server"), Cow::from(name));
        let builder = builder(memory()).metrics(registry.sub_registry_with_label(label));
        let server = started(builder).await;
        services.push(server.service());
        servers.push(server);
    }
    get(services[1].clone(), "/healthz").await;
    let scrape = scrape(&registry);
    for (name, count) in [("a", 0), ("b", 1)] {
        let labels = "method=\"health\",server=\"NAME\",status=\"2xx\",upload_type=\"none\"";
        let series = format!("windlass_requests_total{{{labels}}}").replace("NAME", name);
        assert_value(&scrape, &series, count);
    }
}

/// Sends the head of an append. Returns the request, which waits for a body that never comes.
async fn uploading(
    server: &Server,
    session: &str,
) -> <UploadService as Service<Request<Body>>>::Future {
    let body = stream::pending::<Result<Frame<Bytes>, Infallible>>();
    let request = Request::put(session).header("content-length", 10);
    let request = request.body(StreamBody::new(body)).expect("it is valid");
    let mut running = server.service().call(request);
    let is_upload = |usage: &Usage| usage.resource == LimitedResource::Uploads && usage.used > 0;
    while !server.usage().iter().any(is_upload) {
        assert!((&mut running).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    running
}

#[tokio::test]
async fn request_whose_client_goes_is_counted_as_aborted_and_its_upload_is_in_use_meanwhile() {
    let metered = Metered::new().await;
    let session = start(metered.service()).await;
    let running = uploading(&metered.server, &session).await;
    let scrape = metered.scrape();
    assert_value(&scrape, "windlass_capacity_used{resource=\"uploads\"}", 1);
    assert_value(&scrape, "windlass_capacity_used{resource=\"requests\"}", 1);
    assert_value(
        &scrape,
        "windlass_capacity_limit{resource=\"requests\"}",
        16384,
    );
    // The head is dropped while the body comes.
    assert_value(
        &scrape,
        "windlass_capacity_used_bytes{resource=\"metadata\"}",
        0,
    );
    let limit = "windlass_capacity_limit_bytes{resource=\"replies\"}";
    assert_value(&scrape, limit, 48 << 20);
    drop(running);
    let scrape = metered.scrape();
    assert_requests(
        &scrape,
        &[
            ("farm.animals.insert", "resumable_start", "2xx", 1),
            ("farm.animals.insert", "resumable_append", "aborted", 1),
        ],
    );
    assert_value(&scrape, "windlass_capacity_used{resource=\"requests\"}", 0);
}

#[tokio::test]
async fn request_whose_body_breaks_off_is_counted_as_aborted_and_not_as_an_error_of_the_server() {
    let metered = Metered::new().await;
    let session = start(metered.service()).await;
    for uri in [session.as_str(), SIMPLE] {
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let frames = [
            Ok(Frame::data(Bytes::from(MEDIA.bytes(0..100)))),
            Err(broken),
        ];
        let request = Request::post(uri).header("content-length", MEDIA.len());
        let request = request.body(StreamBody::new(stream::iter(frames)));
        metered.service().call(request.unwrap()).await.unwrap();
    }
    assert_requests(
        &metered.scrape(),
        &[
            ("farm.animals.insert", "resumable_start", "2xx", 1),
            ("farm.animals.insert", "resumable_append", "aborted", 1),
            ("farm.animals.insert", "media", "aborted", 1),
        ],
    );
}

#[tokio::test]
async fn refused_request_shows_which_limit_has_refused_it() {
    let mut settings = Settings::default();
    settings.limits.requests = 1;
    let mut registry = Registry::default();
    let builder = builder(memory()).settings(settings).metrics(&mut registry);
    let server = started(builder).await;
    let session = start(server.service()).await;
    let _running = uploading(&server, &session).await;
    let begun = scrape(&registry).value("windlass_sent_bytes_total");
    let reply = get(server.service(), "/farm/v1/animals").await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    let scrape = scrape(&registry);
    assert_requests(
        &scrape,
        &[
            ("farm.animals.insert", "resumable_start", "2xx", 1),
            ("other", "none", "5xx", 1),
        ],
    );
    let refusals = "windlass_capacity_refusals_total";
    assert_value(&scrape, &format!("{refusals}{{resource=\"requests\"}}"), 1);
    assert_value(&scrape, &format!("{refusals}{{resource=\"uploads\"}}"), 0);
    let sent = scrape.value("windlass_sent_bytes_total") - begun;
    assert_eq!(sent.to_string(), reply.body.len().to_string());
}

/// A service with the metrics of `registry` in front of it.
fn with_metrics(server: &Server, registry: Registry) -> MetricsService<UploadService> {
    MetricsService::new(Arc::new(registry), server.service())
}

#[tokio::test(start_paused = true)]
async fn metrics_are_served_after_a_storage_fault() {
    let mut registry = Registry::default();
    let (server, _) = failing_with(1, memory(), |builder| builder.metrics(&mut registry)).await;
    let service = with_metrics(&server, registry);
    let storage_failed = async || {
        let reply = ask(service.clone(), "GET", "/metrics", &[], Vec::new()).await;
        assert_eq!(reply.status, StatusCode::OK);
        let text = std::str::from_utf8(&reply.body).unwrap();
        Exposition::parse(text).value("windlass_storage_failed")
    };
    assert_eq!(storage_failed().await.to_string(), "0");
    let refused = ask(service.clone(), "POST", SESSIONS, &[], Vec::new()).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(storage_failed().await.to_string(), "1");
    let health = ask(service.clone(), "GET", "/healthz", &[], Vec::new()).await;
    assert_eq!(health.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn metrics_service_answers_its_path_alone_in_both_formats() {
    let Metered { server, registry } = Metered::new().await;
    let service = with_metrics(&server, registry);
    let plain = "text/plain; version=0.0.4; charset=utf-8";
    let open = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let scraper = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3";
    for (accept, content_type) in [("*/*", plain), ("text/html", plain), (scraper, open)] {
        let headers = [("accept", accept)];
        let reply = ask(service.clone(), "GET", "/metrics", &headers, Vec::new()).await;
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!(reply.headers["content-type"], content_type);
        let text = std::str::from_utf8(&reply.body).unwrap();
        assert!(text.contains("\n# TYPE windlass_requests"), "{text}");
        assert_eq!(text.ends_with("# EOF\n"), content_type == open);
    }
    let query = ask(service.clone(), "GET", "/metrics?name=x", &[], Vec::new()).await;
    assert_eq!(query.status, StatusCode::OK);
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let body = b"abc".to_vec();
        let reply = ask(service.clone(), method.as_str(), "/metrics", &[], body).await;
        assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_eq!(reply.headers["allow"], "GET, HEAD");
        assert_eq!(reply.headers["connection"], "close", "its body is not read");
    }
    for uri in ["/metrics/", "/metricsx", "/v1/metrics", "//metrics"] {
        let reply = ask(service.clone(), "GET", uri, &[], Vec::new()).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{uri}");
    }
    let health = ask(service.clone(), "GET", "/healthz", &[], Vec::new()).await;
    assert_eq!(health.status, StatusCode::OK);
    let bare = get(server.service(), "/metrics").await;
    assert_eq!(
        bare.status,
        StatusCode::NOT_FOUND,
        "no path of the server itself"
    );
}

#[tokio::test]
async fn registry_does_not_keep_the_stores_open() {
    let stores = memory();
    let ledger = Arc::downgrade(&stores.ledger);
    let mut registry = Registry::default();
    let server = started(builder(stores).metrics(&mut registry)).await;
    drop(server);
    assert!(ledger.upgrade().is_none());
    assert_value(
        &scrape(&registry),
        "windlass_capacity_used{resource=\"requests\"}",
        0,
    );
}
