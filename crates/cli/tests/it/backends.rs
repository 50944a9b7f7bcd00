//! Services that a description names, over real connections (docs/apis.md, Services).

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_testkit::error_object::assert_error;
use windlass_testkit::exposition::Exposition;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Reply, Request, exchange};
use windlass_testkit::wait;

use crate::client::run::ClientDir;
use crate::credentials::now;
use crate::server::{own, scratch};

const SECRET: [u8; 32] = [42; 32];

const PHOTOS: &str = "/album/v1/photos";

/// A request that the service has got.
#[derive(Clone)]
struct Got {
    path: String,
    head: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        let mut fields = self.head.iter();
        let field = fields.find(|(field, _)| field == name);
        field.map_or("", |(_, value)| value)
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("it is JSON")
    }

    /// Checks the signature as a library for Standard Webhooks does.
    #[track_caller]
    fn check_signature(&self) {
        let (id, at) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        let signature = self.header("webhook-signature").strip_prefix("v1,");
        let signature = STANDARD.decode(signature.expect("it is there"));
        let signed = [id.as_bytes(), b".", at.as_bytes(), b".", &self.body].concat();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &SECRET);
        hmac::verify(&key, &signed, &signature.expect("it is base64")).expect("it is signed");
        let at: u64 = at.parse().expect("it is a number");
        assert!(now().abs_diff(at) < 60, "{at}");
    }
}

/// A service on this machine. It answers until the process ends.
struct Service {
    address: SocketAddr,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Service {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let log = Arc::clone(&got);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let connection = connection.expect("it listens");
                let log = Arc::clone(&log);
                thread::spawn(move || answer(connection, &log));
            }
        });
        Self { address, got }
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().expect("no thread has panicked").clone()
    }
}

/// Answers one request, and closes the connection.
fn answer(mut connection: TcpStream, log: &Mutex<Vec<Got>>) {
    let mut reader = BufReader::new(&connection);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).is_err() || line.len() <= 2 {
            break;
        }
        lines.push(line);
    }
    let Some((first, fields)) = lines.split_first() else {
        return;
    };
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let split = |line: &String| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let mut got = Got {
        path,
        head: fields.iter().filter_map(split).collect(),
        body: Vec::new(),
    };
    let length = got.header("content-length").parse().unwrap_or(0);
    got.body.resize(length, 0);
    reader.read_exact(&mut got.body).expect("the body arrives");
    log.lock()
        .expect("no thread has panicked")
        .push(got.clone());
    let (status, body) = match &*got.path {
        "/like" => {
            let before = got.json()["resource"]["likes"].as_u64().unwrap_or(0);
            (
                "200 OK",
                json!({"fields": {"likes": before + 1}}).to_string(),
            )
        }
        "/moved" => ("302 Found\r\nLocation: /like", String::new()),
        "/long" => (
            "200 OK",
            json!({"reply": {"a": "x".repeat(1 << 20)}}).to_string(),
        ),
        "/refusal" => (
            "422 Unprocessable Content",
            r#"{"error": "no cows"}"#.to_owned(),
        ),
        "/silence" => {
            // Until the server closes the connection.
            reader.read_to_end(&mut Vec::new()).ok();
            return;
        }
        _ => ("204 No Content", String::new()),
    };
    let reply = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // The server need not read all of it.
    connection.write_all(reply.as_bytes()).ok();
}

/// The methods of the album that the service answers.
const METHODS: [&str; 5] = ["like", "moved", "long", "refusal", "silence"];

fn description(service: SocketAddr, closed: SocketAddr) -> String {
    let mut text = format!(
        "name = \"album\"\nversion = \"v1\"\n[collections.photos]\nmedia = {{}}\n\
         on.finished = \"http://{service}/finished?key=s3cret\"\n\
         [collections.photos.schema]\nlikes = {{ type = \"integer\", default = 0, read_only = true }}\n"
    );
    let of_service = METHODS.map(|name| (name, service));
    for (name, address) in of_service.into_iter().chain([("closed", closed)]) {
        let _ = write!(
            text,
            "[methods.\"photos.{name}\"]\nhttp = \"POST\"\npath = \"photos/{{photoId}}:{name}\"\n\
             response = \"Photo\"\nbackend = \"http://{address}/{name}\"\n"
        );
    }
    text
}

/// A server of the album and of the Farm API, which gives services this time.
pub(crate) fn album(timeout: &str) -> (TempDir, ServerProcess, SocketAddr) {
    let (directory, server, service) = album_with(timeout);
    (directory, server, service.address)
}

fn album_with(timeout: &str) -> (TempDir, ServerProcess, Service) {
    album_and("", timeout)
}

/// The same, with the service at this path for the uploads to all APIs.
fn album_and(all: &str, timeout: &str) -> (TempDir, ServerProcess, Service) {
    let service = Service::new();
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let closed = closed.expect("there is a free port");
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("it is writable");
        path.to_str().expect("it is UTF-8").to_owned()
    };
    let api = write("album.toml", &description(service.address, closed));
    write(
        "backends.key",
        &format!("whsec_{}\n", STANDARD.encode(SECRET)),
    );
    let webhooks = match all {
        "" => String::new(),
        path => format!(
            "[webhooks]\nfinished = 'http://{}{path}'\n",
            service.address
        ),
    };
    let config = write(
        "windlass.toml",
        &format!("[backends]\nsecret_file = 'backends.key'\ntimeout = '{timeout}'\n{webhooks}"),
    );
    let server = own(&["--config", &config, "--api", "farm", "--api", &api]);
    (directory, server, service)
}

fn upload(server: &ServerProcess) -> String {
    let uri = format!("/upload{PHOTOS}?uploadType=media");
    let request = Request::new("POST", uri)
        .header("content-type", "image/png")
        .body("a cow");
    let made = exchange(server.address(), &request).expect(200);
    let id = made.field("id").as_str().map(str::to_owned);
    id.expect("it has an id")
}

fn call(server: &ServerProcess, id: &str, verb: &str) -> Reply {
    let request = Request::new("POST", format!("{PHOTOS}/{id}:{verb}"));
    exchange(server.address(), &request)
}

#[test]
fn service_is_told_of_an_upload_and_answers_a_call_by_signed_requests() {
    let (_directory, server, service) = album_with("10s");
    let id = upload(&server);
    wait::until("the service is told", || !service.got().is_empty());
    assert_eq!(call(&server, &id, "like").expect(200).field("likes"), 1);
    let refusal = call(&server, &id, "refusal");
    assert_error(&refusal, 422, "badRequest", None);
    assert!(refusal.text().contains("no cows"), "{}", refusal.text());
    let got = service.got();
    let paths: Vec<_> = got.iter().map(|got| got.path.as_str()).collect();
    assert_eq!(paths, ["/finished?key=s3cret", "/like", "/refusal"]);
    for got in &got {
        got.check_signature();
        assert_eq!(got.header("content-type"), "application/json");
    }
    assert_eq!(got[0].json()["type"], "album.photos.finished");
    assert_eq!(got[0].json()["data"]["resource"]["id"], *id);
    assert_eq!(got[1].json()["resource"]["id"], *id);
    let value = |series: &str| {
        let scrape = exchange(server.address(), &Request::new("GET", "/metrics")).expect(200);
        let series = format!("windlass_backend_{series}");
        Exposition::parse(scrape.text()).value(&series).to_string()
    };
    let delivered = "deliveries_total{event=\"album.photos.finished\",outcome=\"delivered\"}";
    wait::until("the delivery is counted", || value(delivered) == "1");
    for (series, expected) in [
        (
            "calls_total{method=\"album.photos.like\",outcome=\"answered\"}",
            "1",
        ),
        (
            "calls_total{method=\"album.photos.refusal\",outcome=\"refused\"}",
            "1",
        ),
        (
            "calls_total{method=\"album.photos.silence\",outcome=\"failed\"}",
            "0",
        ),
        ("call_duration_seconds_count", "2"),
    ] {
        assert_eq!(value(series), expected, "{series}");
    }
}

#[test]
fn service_of_all_apis_is_told_of_each_upload_also_to_built_in_apis() {
    let (_directory, server, service) = album_and("/all", "10s");
    let photo = upload(&server);
    let animal = Request::new("POST", "/upload/farm/v1/animals?uploadType=media")
        .header("content-type", "image/png")
        .body("a cow");
    let animal = exchange(server.address(), &animal).expect(200);
    wait::until("the services are told", || service.got().len() == 3);
    let of_all = |got: &Got| got.path == "/all";
    let told: Vec<_> = service.got().into_iter().filter(of_all).collect();
    for (event, id) in [
        ("album.photos.finished", &json!(photo)),
        ("farm.animals.finished", &animal.field("id")),
    ] {
        let mut told = told.iter().filter(|got| got.json()["type"] == event);
        let (Some(got), None) = (told.next(), told.next()) else {
            panic!("{event} is not told once");
        };
        got.check_signature();
        assert_eq!(&got.json()["data"]["resource"]["id"], id);
    }
    let delivered =
        "windlass_backend_deliveries_total{event=\"webhooks.finished\",outcome=\"delivered\"}";
    wait::until("the deliveries are counted", || {
        let scrape = exchange(server.address(), &Request::new("GET", "/metrics")).expect(200);
        Exposition::parse(scrape.text())
            .value(delivered)
            .to_string()
            == "2"
    });
}

#[test]
fn failure_of_a_service_is_503_and_its_reason_is_in_the_log_alone() {
    let (_directory, server, service) = album_with("300ms");
    let id = upload(&server);
    let failures = [
        ("moved", "it answered 302"),
        ("long", "is longer than 1048576 bytes"),
        ("silence", "did not reply within 0.3 s"),
        // The client's text, followed by the system's text.
        ("closed", "failed: "),
    ];
    for (verb, reason) in failures {
        let reply = call(&server, &id, verb);
        assert_error(&reply, 503, "backendError", None);
        let says = format!("the service behind album.photos.{verb} failed; try again later");
        assert!(reply.text().contains(&says), "{}", reply.text());
        assert!(reply.header("retry-after").is_some());
        let method = format!("album.photos.{verb}");
        wait::until(&format!("{verb} is logged"), || {
            let log = server.stderr();
            let is_failure = |line: &&str| line.contains("WARN") && line.contains(&*method);
            let line = log.lines().find(is_failure).map(str::to_owned);
            line.is_some_and(|line| line.contains(reason))
        });
    }
    let log = server.stderr();
    assert!(!log.contains("s3cret") && !log.contains("webhook-signature"));
    let liked = service.got().iter().any(|got| got.path == "/like");
    assert!(!liked, "a redirection is not followed");
    let photo = Request::new("GET", format!("{PHOTOS}/{id}"));
    let photo = exchange(server.address(), &photo).expect(200);
    assert_eq!(photo.field("likes"), 0);
}

/// Without `backend`.
const SILENT: &str = "name = \"album\"\nversion = \"v1\"\n[collections.photos]\n\
    [methods.\"photos.like\"]\nhttp = \"POST\"\npath = \"photos/{photoId}:like\"\n";

#[test]
fn method_that_nothing_answers_is_warned_of_by_the_check_and_at_the_start() {
    let client_dir = ClientDir::new();
    client_dir.write("album.toml", SILENT);
    let check = ["api", "check", "album.toml"];
    let ran = client_dir.run(&check).expect(0);
    let warning =
        "warning: `photos.like` is not implemented and returns 501\n --> album.toml:4:10\n";
    assert!(ran.stdout.starts_with(warning), "{}", ran.stdout);
    assert_eq!(ran.stderr, "no errors, 1 warning\n");
    let answered = format!("{SILENT}backend = \"http://127.0.0.1:9000/like\"\n");
    client_dir.write("album.toml", &answered);
    let ran = client_dir.run(&check).expect(0);
    assert_eq!(
        (&*ran.stdout, &*ran.stderr),
        ("", "no errors, no warnings\n")
    );

    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let api = directory.path().join("album.toml");
    std::fs::write(&api, SILENT).expect("it is writable");
    let server = own(&["--api", api.to_str().expect("it is UTF-8")]);
    let warning = "album.photos.like is not implemented and returns 501";
    wait::until("it is warned of", || server.stderr().contains(warning));
    assert_error(&call(&server, "a", "like"), 501, "notImplemented", None);
}
