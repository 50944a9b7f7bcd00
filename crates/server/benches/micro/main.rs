//! The cost of a request between the HTTP library and the disk: routing, parameters, the
//! application core over stores in memory, and the reply. No socket and no sync is involved.

use std::sync::Arc;

use bytes::Bytes;
use criterion::{BatchSize, Bencher, Criterion, criterion_group, criterion_main};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use tokio::runtime::{Builder, Runtime};
use tower_service::Service as _;
use windlass_discovery::Api;
use windlass_server::{Registry, ServedApi, Server, Settings, Stores};
use windlass_store::memory::{MemoryLedger, MemoryVault};
use windlass_testkit::farm;

const SIMPLE: &str = "/upload/farm/v1/animals?uploadType=media";
const RESUMABLE: &str = "/upload/farm/v1/animals?uploadType=resumable";
const UNKNOWN: &str =
    "/upload/farm/v1/animals?uploadType=resumable&upload_id=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

criterion_group!(server, replies, uploads);
criterion_main!(server);

/// Requests that only read.
fn replies(criterion: &mut Criterion) {
    let fixture = Fixture::new();
    let open = fixture.start();
    let finished = fixture.start();
    fixture.ask(fixture.request("PUT", &finished, "", 4096));
    let mut group = criterion.benchmark_group("reply");
    let cases = [
        ("health", fixture.request("GET", "/healthz", "", 0), 200),
        (
            "308 to a query",
            fixture.request("PUT", &open, "bytes */*", 0),
            308,
        ),
        (
            "final reply again",
            fixture.request("PUT", &finished, "bytes */*", 0),
            201,
        ),
        (
            "error object",
            fixture.request("PUT", UNKNOWN, "bytes */*", 0),
            404,
        ),
        (
            "error text",
            fixture.request("PUT", &open, "bytes 9-9/10", 1),
            503,
        ),
    ];
    for (name, request, status) in cases {
        assert_eq!(
            fixture.ask(request.clone()).status().as_u16(),
            status,
            "{name}"
        );
        group.bench_function(name, |bencher| fixture.repeat(bencher, &request));
    }
    group.finish();
}

/// Uploads of 4 KiB. Uploaded media stays in memory, so the server is replaced from time to time.
fn uploads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("upload of 4 KiB");
    group.bench_function("simple", |bencher| {
        let fixture = Fixture::new();
        let request = fixture.request("POST", SIMPLE, "", 4096);
        fixture.repeat(bencher, &request);
    });
    group.bench_function("start of a session", |bencher| {
        let fixture = Fixture::new();
        let request = fixture.request("POST", RESUMABLE, "", 0);
        fixture.repeat(bencher, &request);
    });
    group.bench_function("whole media to a session", |bencher| {
        let fixture = Fixture::new();
        bencher.iter_batched(
            || fixture.request("PUT", &fixture.start(), "", 4096),
            |request| fixture.ask(request),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// A server and its client.
struct Fixture {
    runtime: Runtime,
    server: Server,
}

impl Fixture {
    fn new() -> Self {
        let farm = Api::from_toml(farm::SHORT_FORM).expect("it is valid");
        let registry =
            Registry::new([ServedApi::with_default_handler(farm)]).expect("there is one API");
        let stores = Stores {
            ledger: Arc::new(MemoryLedger::new()),
            vault: Arc::new(MemoryVault::new()),
        };
        let mut settings = Settings::default();
        settings.public_url = Some("http://farm.test".to_owned());
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("there is memory for a runtime");
        let server = Server::builder(registry, stores).settings(settings);
        let server = server.build().expect("its parts fit");
        runtime.block_on(server.start_without_maintenance());
        Self { runtime, server }
    }

    /// A request with `len` bytes of media, and a `Content-Range` unless `range` is empty.
    #[expect(clippy::unused_self, reason = "a method reads better next to `ask`")]
    fn request(&self, verb: &str, uri: &str, range: &str, len: usize) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(verb).uri(uri);
        if !range.is_empty() {
            request = request.header("content-range", range);
        }
        let body = Full::new(Bytes::from(vec![7; len]));
        let request = request.header("content-type", "image/png");
        let request = request.header("content-length", len).body(body);
        request.expect("it is valid")
    }

    /// Starts a session and returns its URI.
    fn start(&self) -> String {
        let reply = self.ask(self.request("POST", RESUMABLE, "", 0));
        assert_eq!(reply.status(), StatusCode::OK);
        let location = reply.headers()["location"].to_str().expect("a URI is text");
        location.replacen("http://farm.test", "", 1)
    }

    fn ask(&self, request: Request<Full<Bytes>>) -> Response<Bytes> {
        self.runtime.block_on(async {
            let reply = self.server.service().call(request).await;
            let (head, body) = reply.expect("there is always a reply").into_parts();
            let body = body.collect().await.expect("it is all there");
            Response::from_parts(head, body.to_bytes())
        })
    }

    fn repeat(&self, bencher: &mut Bencher<'_>, request: &Request<Full<Bytes>>) {
        bencher.iter_batched(
            || request.clone(),
            |request| self.ask(request),
            BatchSize::SmallInput,
        );
    }
}
