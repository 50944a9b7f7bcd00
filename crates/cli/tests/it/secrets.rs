//! Secrets stay secret: no token, key or session URI is in the log at `trace`, the audit log, the
//! metrics or a reply that did not have to contain it.

use std::path::PathBuf;

use tempfile::TempDir;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Reply, Request, exchange};
use windlass_testkit::session::Session;

use crate::authentication::bearing;
use crate::server::{own, scratch};

const MEDIA: Media = Media::new(64, 600_000);

/// The hashes of these are in the file of credentials.
const TOKEN: &str = "canary-token-7d41f0";
const KEY: &str = "canary-key-93b2ce";

/// Credentials that are not valid are somebody's secrets as well: of another server, perhaps.
const WRONG: &str = "canary-wrong-5a1c08";

const HASHES: [&str; 2] = [
    "5e9f3e8186799b2c17a08d948717a2daa5780956b7a4cd543b474a9305362c86",
    "8548ec7cf8d24f02b8ff0fe299822a92002c92011cf6f9653a3ec903e016bff2",
];

struct Watched {
    server: ServerProcess,
    directory: TempDir,
    /// What the server said, but for what must contain a secret.
    said: String,
}

impl Watched {
    fn new(lines: &str) -> Self {
        let directory = TempDir::new_in(scratch()).expect("it is writable");
        std::fs::write(directory.path().join("auth.toml"), lines).expect("it is writable");
        let config = directory.path().join("windlass.toml");
        let text = "[auth]\nfile = 'auth.toml'\n[audit]\nfile = 'audit.log'\n";
        std::fs::write(&config, text).expect("it is writable");
        Self {
            server: own(&[
                "--config",
                config.to_str().expect("it is UTF-8"),
                "--log",
                "trace",
            ]),
            directory,
            said: String::new(),
        }
    }

    fn audit(&self) -> PathBuf {
        self.directory.path().join("audit.log")
    }

    fn ask(&mut self, request: &Request) -> Reply {
        let reply = exchange(self.server.address(), request);
        self.said += reply.text();
        for (_, value) in &reply.headers {
            self.said += value;
        }
        reply
    }

    /// Sends every kind of request with this parameter, if it is not empty, and this header.
    fn exercise(&mut self, parameter: &str, (name, value): (&str, &str)) {
        let target = |path: &str| match (parameter, path.contains('?')) {
            ("", _) => path.to_owned(),
            (_, true) => format!("{path}&{parameter}"),
            (_, false) => format!("{path}?{parameter}"),
        };
        let mut requests = Vec::new();
        for kind in ["media", "multipart", "resumable", "unknown"] {
            let target = target(&format!("{UPLOADS}?uploadType={kind}"));
            let upload = Request::new("POST", target).header("content-type", "image/png");
            requests.push(upload.body("a cow"));
        }
        for (http_method, path) in [
            ("GET", ANIMALS),
            ("GET", "/farm/v1/animals/1?alt=media"),
            ("DELETE", "/farm/v1/animals/1"),
            ("PUT", "/farm/v1/animals/1"),
            ("GET", "/no/such/path"),
            ("OPTIONS", ANIMALS),
            ("GET", "/farm/v1/animals?maxResults=x&fields=("),
        ] {
            requests.push(Request::new(http_method, target(path)).body(""));
        }
        let batch = "--b\r\ncontent-type: application/http\r\n\r\nGET /farm/v1/animals\r\n--b--";
        let post = Request::new("POST", target("/batch"));
        requests.push(
            post.header("content-type", "multipart/mixed; boundary=b")
                .body(batch),
        );
        for request in requests {
            self.ask(&request.header(name, value));
        }
    }

    /// Everything that was written and answered.
    #[track_caller]
    fn everything(&mut self) -> String {
        self.ask(&Request::new("GET", "/metrics")).expect(200);
        let audit = std::fs::read_to_string(self.audit()).expect("it is readable");
        format!("{}{}{audit}", self.said, self.server.stderr())
    }
}

#[test]
fn secrets_are_in_no_log_no_metric_and_no_reply() {
    let lines = format!(
        "[[tokens]]\nsha256 = '{}'\nprincipal = 'alice'\n[[keys]]\nsha256 = '{}'\nprincipal = 'web'\n",
        HASHES[0], HASHES[1]
    );
    let mut watched = Watched::new(&lines);
    for secret in [TOKEN, KEY, WRONG] {
        watched.exercise("", ("Authorization", &format!("Bearer {secret}")));
        watched.exercise("", ("Authorization", secret));
        watched.exercise("", ("X-Goog-Api-Key", secret));
        for name in ["key", "access_token", "oauth_token", "upload_id", "token"] {
            watched.exercise(&format!("{name}={secret}"), ("x-other", "none"));
        }
    }
    let start = Request::new("POST", format!("{UPLOADS}?uploadType=resumable"));
    let start = bearing(&start.header("content-length", 0), TOKEN);
    // This reply has to contain the session URI.
    let started = exchange(watched.server.address(), &start).expect(200);
    let session = Session::of_reply(watched.server.address(), &started);
    session.append(MEDIA, 0..262_144).expect(308);
    session.query().expect(308);
    let animal = session.append(MEDIA, 262_144..MEDIA.len()).expect(201);
    let download = bearing(&farm::download(&farm::id(&animal)), TOKEN);
    exchange(watched.server.address(), &download).expect(200);
    session.cancel();
    let started = exchange(watched.server.address(), &start).expect(200);
    let ended = Session::of_reply(watched.server.address(), &started);
    ended.put("nonsense", b"ab").expect(400);
    ended.query().expect(410);
    let ids = [session.upload_id(), ended.upload_id()];
    let secrets = [TOKEN, KEY, WRONG, ids[0], ids[1], HASHES[0]].map(str::to_owned);
    let everything = watched.everything();
    assert!(everything.len() > 100_000, "the log is not that of `trace`");
    for part in ["windlass_requests", r#""action":"finish""#, "DEBUG"] {
        assert!(everything.contains(part), "{part} is missing");
    }
    for secret in secrets {
        let at = everything.find(&secret);
        let around = at.map(|at| &everything[at.saturating_sub(300)..at + secret.len()]);
        assert_eq!(around, None, "{secret} is told");
    }
}
