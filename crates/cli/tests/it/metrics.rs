//! `/metrics`: its content and its addresses (docs/metrics.md).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;
use windlass_testkit::error_object::assert_error;
use windlass_testkit::exposition::{Exposition, Metric};
use windlass_testkit::farm::{self, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::wait;

use crate::backends::album;
use crate::server::{own, program, scratch};

const DOCUMENT: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/metrics.md"
));

fn metrics() -> Request {
    Request::new("GET", "/metrics")
}

#[track_caller]
fn scrape(address: SocketAddr) -> Exposition {
    Exposition::parse(exchange(address, &metrics()).expect(200).text())
}

#[track_caller]
fn assert_value(scrape: &Exposition, series: &str, expected: u64) {
    let value = scrape.value(series);
    assert_eq!(value.to_string(), expected.to_string(), "{series}");
}

/// The series of a count of requests.
fn requests(method: &str, upload_type: &str, status: &str) -> String {
    let labels = format!("method=\"{method}\",status=\"{status}\",upload_type=\"{upload_type}\"");
    format!("windlass_requests_total{{{labels}}}")
}

#[test]
fn a_scrape_counts_what_the_server_and_its_store_did() {
    let server = own(&[]);
    let address = server.address();
    let (small, large) = (Media::new(1, 1000), Media::new(2, 300_000));
    let (small_len, large_len) = (small.len(), large.len());
    let animal = farm::id(&farm::upload(address, small));
    let multipart = farm::multipart("Dolly", large);
    exchange(address, &multipart).expect(200);
    let session = farm::begin(address, "Molly");
    session.query().expect(308);
    session.append(large, 0..262_144).expect(308);
    session.append(large, 262_144..large_len).expect(201);
    exchange(address, &farm::download(&animal)).expect(200);
    exchange(address, &Request::new("GET", "/nothing")).expect(404);
    exchange(address, &Request::new("GET", "/healthz")).expect(200);

    let scrape = scrape(address);
    let insert = "farm.animals.insert";
    let expected = [
        (requests(insert, "media", "2xx"), 1.0),
        (requests(insert, "multipart", "2xx"), 1.0),
        (requests(insert, "resumable_start", "2xx"), 1.0),
        (requests(insert, "resumable_query", "3xx"), 1.0),
        (requests(insert, "resumable_append", "3xx"), 1.0),
        (requests(insert, "resumable_append", "2xx"), 1.0),
        (requests("farm.animals.get", "none", "2xx"), 1.0),
        (requests("other", "none", "4xx"), 1.0),
        (requests("health", "none", "2xx"), 1.0),
    ];
    let counted = scrape.non_zero("windlass_requests_total").into_iter();
    let counted = counted.map(|(labels, n)| (format!("windlass_requests_total{{{labels}}}"), n));
    assert_eq!(
        counted.collect::<BTreeMap<_, _>>(),
        BTreeMap::from(expected)
    );
    assert_value(&scrape, "windlass_sessions_started_total", 1);
    assert_value(&scrape, "windlass_sessions_finished_total", 1);
    assert_value(&scrape, "windlass_storage_failed", 0);
    assert_value(&scrape, "windlass_capacity_used{resource=\"uploads\"}", 0);
    // Closed connections may still count.
    assert!(scrape.value("windlass_capacity_used{resource=\"connections\"}") >= 1.0);
    // The metadata of the session and of the multipart body come on top.
    let received = scrape.value("windlass_received_bytes_total");
    let media = small_len + 2 * large_len;
    let metadata = received - f64::from(u32::try_from(media).unwrap());
    assert!((1.0..1000.0).contains(&metadata), "{received}");
    assert!(scrape.value("windlass_sent_bytes_total") > 1000.0);

    // One commit for each single request, the start and the first append; two for the last append.
    // The sweep makes further commits.
    let commits = scrape.value("windlass_store_commit_duration_seconds_count");
    assert!(commits >= 6.0, "{commits}");
    assert!(scrape.value("windlass_store_commit_changes_sum") >= commits);
    wait::until("no call waits", || {
        self::scrape(address).value("windlass_store_queued_calls") == 0.0
    });
    assert!(scrape.value("windlass_store_wal_bytes") > 0.0);
    assert!(scrape.value("windlass_store_media_sync_duration_seconds_count") >= 4.0);
    let reply = exchange(address, &metrics()).expect(200);
    let text = reply.text();
    for secret in [session.upload_id(), animal.as_str()] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[test]
fn a_connection_that_breaks_is_no_error_of_the_server() {
    let server = own(&[]);
    let session = farm::begin(server.address(), "Molly");
    let media = Media::new(1, 1_000_000);
    let request = session.ranged("bytes 0-999999/1000000").body(media.whole());
    let mut peer = session.peer();
    peer.send(&request.to_bytes()[..500_000]);
    drop(peer);
    let aborted = requests("farm.animals.insert", "resumable_append", "aborted");
    wait::until("it is counted", || {
        scrape(server.address()).value(&aborted) > 0.0
    });
    let failed = requests("farm.animals.insert", "resumable_append", "5xx");
    assert_value(&scrape(server.address()), &failed, 0);
}

/// `| name | type | labels | meaning |` of docs/metrics.md.
fn documented() -> BTreeMap<String, [String; 3]> {
    let rows = DOCUMENT
        .lines()
        .filter(|line| line.starts_with("| `windlass_"));
    let rows = rows.map(|line| {
        let plain = line.replace('`', "");
        let mut cells = plain.trim_matches('|').split('|').map(str::trim);
        let mut cell = || cells.next().unwrap_or_default().to_owned();
        (cell(), [cell(), cell(), cell()])
    });
    rows.collect()
}

#[test]
fn the_document_lists_each_metric_of_a_scrape_and_no_other() {
    let (_directory, server, _) = album("10s");
    let scrape = scrape(server.address());
    let labels_of = |metric: &Metric| {
        let suffixes: &[&str] = match metric.kind.as_str() {
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let names: Vec<_> = suffixes
            .iter()
            .map(|it| format!("{}{it}", metric.name))
            .collect();
        let samples = scrape.samples.iter().filter(|it| names.contains(&it.name));
        let labels = samples.flat_map(|sample| sample.labels.keys());
        let labels: BTreeSet<_> = labels.filter(|label| *label != "le").cloned().collect();
        labels.into_iter().collect::<Vec<_>>().join(", ")
    };
    let shown: BTreeMap<_, _> = scrape
        .metrics
        .iter()
        .map(|metric| {
            let row = [metric.kind.clone(), labels_of(metric), metric.help.clone()];
            (metric.name.clone(), row)
        })
        .collect();
    assert_eq!(documented(), shown);
    for label in ["method", "upload_type", "status", "resource", "outcome"] {
        let samples = scrape.samples.iter();
        for value in samples.filter_map(|sample| sample.labels.get(label)) {
            let is_id = label == "method" && value.contains('.');
            let quoted = format!("`{value}`");
            assert!(is_id || DOCUMENT.contains(&quoted), "{label}={value}");
        }
    }
}

#[test]
fn the_path_takes_get_and_head_alone() {
    let server = own(&[]);
    let mut peer = RawPeer::connect(server.address());
    let reply = peer.exchange(&metrics()).expect(200);
    assert_eq!(
        reply.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    peer.send(Request::new("HEAD", "/metrics").to_bytes());
    let head = peer.head_reply().expect(200);
    assert_eq!(head.header("content-type"), reply.header("content-type"));
    let reply = peer.exchange(&Request::new("POST", "/metrics").body("abc"));
    assert_error(&reply, 405, "methodNotAllowed", None);
    assert_eq!(reply.header("allow"), Some("GET, HEAD"));
    let open = metrics().header("Accept", "application/openmetrics-text; version=1.0.0");
    let reply = exchange(server.address(), &open).expect(200);
    assert_eq!(
        reply.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(reply.text().ends_with("# EOF\n"));
}

/// A server with an address and environment chosen by the test. It is killed when it is dropped.
struct Exposed {
    child: Child,
    lines: BufReader<ChildStdout>,
    _data: TempDir,
}

impl Exposed {
    fn start(listen: &str, variables: &[(&str, &str)]) -> Self {
        let data = TempDir::with_prefix_in("metrics-", scratch()).expect("it is writable");
        let mut command = Command::new(program());
        command
            .args([
                "serve",
                "--allow-unauthenticated",
                "--allow-unsafe-filesystem",
                "--listen",
                listen,
                "--data",
            ])
            .arg(data.path())
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("the server can be started");
        let lines = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Self {
            child,
            lines,
            _data: data,
        }
    }

    /// The port that the next line of its output names after `before`.
    fn port(&mut self, before: &str) -> u16 {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("it writes text");
        let rest = line
            .strip_prefix(before)
            .unwrap_or_else(|| panic!("{line:?}"));
        let rest = rest.trim_end().trim_end_matches("/metrics");
        rest.parse().unwrap_or_else(|_| panic!("{line:?}"))
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn loopback(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

#[track_caller]
fn get(address: SocketAddr, path: &str) -> Reply {
    exchange(address, &Request::new("GET", path))
}

#[test]
fn a_listener_that_is_not_on_a_loopback_address_has_no_metrics() {
    let mut server = Exposed::start("0.0.0.0:0", &[]);
    let address = loopback(server.port("listening on http://0.0.0.0:"));
    assert_error(&get(address, "/metrics"), 404, "notFound", None);
    get(address, "/healthz").expect(200);

    let mut server = Exposed::start("127.0.0.2:0", &[]);
    let port = server.port("listening on http://127.0.0.2:");
    scrape(([127, 0, 0, 2], port).into());
}

#[test]
fn metrics_on_an_address_of_their_own_are_nowhere_else_and_nothing_else_is_there() {
    for listen in ["0.0.0.0", "127.0.0.1"] {
        let variables = [
            ("WINDLASS_METRICS_LISTEN", "127.0.0.1:0"),
            ("WINDLASS_LIMITS_CONNECTIONS", "1"),
        ];
        let mut server = Exposed::start(&format!("{listen}:0"), &variables);
        let address = loopback(server.port(&format!("listening on http://{listen}:")));
        let own = loopback(server.port("metrics on http://127.0.0.1:"));
        farm::upload(address, Media::new(1, 1000));
        assert_error(&get(address, "/metrics"), 404, "notFound", None);

        // The only connection of the main listener is taken.
        let mut busy = RawPeer::connect(address);
        busy.exchange(&Request::new("GET", "/healthz")).expect(200);
        let scrape = scrape(own);
        assert_value(&scrape, &requests("farm.animals.insert", "media", "2xx"), 1);
        assert_value(
            &scrape,
            "windlass_capacity_used{resource=\"connections\"}",
            1,
        );
        for path in ["/", "/healthz", "/farm/v1/animals"] {
            assert_error(&get(own, path), 404, "notFound", None);
        }
        let upload = Request::new("POST", format!("{UPLOADS}?uploadType=media")).body("abc");
        assert_error(&exchange(own, &upload), 404, "notFound", None);

        // Nobody keeps one of the few connections.
        let mut peer = RawPeer::connect(own);
        peer.exchange(&metrics()).expect(200);
        assert!(peer.is_closed());
        let mut http2 = RawPeer::connect(own);
        http2.send(windlass_testkit::http2::PREFACE);
        assert!(http2.is_closed());
    }
}

#[test]
fn an_address_in_use_keeps_the_server_from_starting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = taken.local_addr().expect("it is bound").to_string();
    let mut server = Exposed::start("127.0.0.1:0", &[("WINDLASS_METRICS_LISTEN", &address)]);
    let status = server.child.wait().expect("it is a child");
    assert_eq!(status.code(), Some(3));
}
