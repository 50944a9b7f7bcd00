//! Secrets stay secret. No token, key, signed link or session URI is in the log at `trace`, the
//! audit log, the metrics, or a reply that did not have to contain it. The same holds for secrets
//! in the operator's files.
//!
//! Not here: tokens for tests (`authentication`), keys of certificates (`tls`), the client's output
//! (`client`), core dumps (`confinement`), secrets inside media and metadata, download URLs of
//! Firebase, and HTTP/2.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tempfile::TempDir;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Reply, Request, exchange};
use windlass_testkit::session::{Session, content_range, target_in};
use windlass_testkit::wait;

use crate::authentication::bearing;
use crate::credentials::{LINK_SECRET, Signer, link, now};
use crate::server::{own, program, scratch};

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
    /// The server's replies, without the parts that must contain a secret.
    said: String,
}

impl Watched {
    fn new(lines: &str) -> Self {
        let config = "[auth]\nfile = 'auth.toml'\n[audit]\nfile = 'audit.log'\n";
        Self::with_files(&[("auth.toml", lines), ("windlass.toml", config)])
    }

    /// With these files, one of which is the configuration.
    fn with_files(files: &[(&str, &str)]) -> Self {
        let directory = TempDir::new_in(scratch()).expect("it is writable");
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).expect("it is writable");
        }
        let config = directory.path().join("windlass.toml");
        let config = config.to_str().expect("it is UTF-8");
        Self {
            server: own(&["--config", config, "--log", "trace"]),
            directory,
            said: String::new(),
        }
    }

    fn audit(&self) -> PathBuf {
        self.directory.path().join("audit.log")
    }

    fn ask(&mut self, request: &Request) -> Reply {
        let reply = exchange(self.server.address(), request);
        self.note(&reply, &[]);
        reply
    }

    /// Sends a request to a session. The client has its id, which these headers have to contain.
    fn ask_session(&mut self, request: &Request) -> Reply {
        let reply = exchange(self.server.address(), request);
        self.note(&reply, &["x-guploader-uploadid"]);
        reply
    }

    fn note(&mut self, reply: &Reply, but: &[&str]) {
        self.said += reply.text();
        let headers = reply.headers.iter();
        for (_, value) in headers.filter(|(name, _)| !but.contains(&&*name.to_lowercase())) {
            self.said += value;
        }
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
        // The parameter in the body.
        for standing_for in ["GET", "DELETE"] {
            let form = Request::new("POST", ANIMALS).header("x-http-method-override", standing_for);
            let form = form.header("content-type", "application/x-www-form-urlencoded");
            requests.push(form.body(format!("maxResults=x&{parameter}")));
        }
        let batch = format!(
            "--b\r\ncontent-type: application/http\r\n\r\nGET {}\r\n{}\r\n\r\n--b--",
            target(ANIMALS),
            if name == "Authorization" {
                format!("{name}: {value}")
            } else {
                String::new()
            },
        );
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

/// Checks that no output contains any of these secrets.
#[track_caller]
fn check_untold(everything: &str, secrets: &[&str]) {
    for secret in secrets {
        let at = everything.find(secret);
        let around = at.map(|at| {
            let from = (at.saturating_sub(300)..at).find(|from| everything.is_char_boundary(*from));
            &everything[from.unwrap_or(at)..at + secret.len()]
        });
        assert_eq!(around, None, "{secret} is told");
    }
}

/// The claims and the signature of a token or a link, each of which lets nobody in, and tells
/// enough.
fn parts(credential: &str) -> impl Iterator<Item = &str> {
    credential.split('.').filter(|part| part.len() > 40)
}

fn credentials(signer_keys: &TempDir) -> String {
    format!(
        "[[tokens]]\nsha256 = '{}'\nprincipal = 'alice'\n\
         [[keys]]\nsha256 = '{}'\nprincipal = 'web'\n\
         [[jwt]]\nissuer = 'issuer'\naudience = ['windlass']\njwks_file = '{}/keys.json'\n\
         [[links.keys]]\nid = 'k'\nsecret = '{LINK_SECRET}'\n",
        HASHES[0],
        HASHES[1],
        signer_keys.path().display()
    )
}

/// Three tokens of the issuer in [`credentials`]: a good token, an expired token and a forged
/// token.
fn tokens(signer: &Signer) -> [String; 3] {
    let header = json!({"alg": "EdDSA", "kid": "k1"});
    let claims = |expires: u64| json!({"iss": "issuer", "aud": "windlass", "sub": "alice", "exp": expires, "jti": TOKEN});
    [
        signer.token(&header, &claims(now() + 600)),
        signer.token(&header, &claims(1)),
        Signer::new().token(&header, &claims(now() + 600)),
    ]
}

#[test]
fn secrets_are_in_no_log_no_metric_and_no_reply() {
    let (signer, keys) = (Signer::new(), TempDir::new_in(scratch()).expect("writable"));
    std::fs::write(keys.path().join("keys.json"), signer.keys().to_string()).expect("writable");
    let mut watched = Watched::new(&credentials(&keys));
    let jwts = tokens(&signer);
    for secret in [TOKEN, KEY, WRONG]
        .into_iter()
        .chain(jwts.iter().map(String::as_str))
    {
        watched.exercise("", ("Authorization", &format!("Bearer {secret}")));
        watched.exercise("", ("Authorization", secret));
        watched.exercise("", ("X-Goog-Api-Key", secret));
        for name in ["key", "access_token", "oauth_token", "upload_id", "token"] {
            watched.exercise(&format!("{name}={secret}"), ("x-other", "none"));
        }
    }
    let sessions = sessions(&mut watched, |start| bearing(start, TOKEN));
    let everything = watched.everything();
    assert!(everything.len() > 100_000, "the log is not that of `trace`");
    for part in ["windlass_requests", r#""action":"finish""#, "DEBUG"] {
        assert!(everything.contains(part), "{part} is missing");
    }
    check_untold(&everything, &[TOKEN, KEY, WRONG, HASHES[0], HASHES[1]]);
    for jwt in &jwts {
        check_untold(&everything, &parts(jwt).collect::<Vec<_>>());
    }
    check_untold(
        &everything,
        &sessions.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

/// Secrets that are in files of the operator.
const TOKEN_FILE: &str = "canary-token-file-1f6b3d";
const RELAY_PASSWORD: &str = "canary-relay-password-60ee47";
const CLIENT_SECRET: &str = "canary-client-secret-8a92f0";
const HOOK: &str = "canary-hook-c4d7e1";
/// The secret of webhooks, in base64 and as it is.
const WEBHOOK: [&str; 2] = [
    "Y2FuYXJ5LXdlYmhvb2sta2V5LTAxMjM0NTY3ODk=",
    "canary-webhook-key-0123456789",
];

/// A server with a secret of each kind in its files. Nobody answers at `closed`.
fn with_secrets_in_files(closed: SocketAddr) -> Watched {
    let config = "apis = ['farm', 'album.toml', 'gmail']\n\
        [auth]\nfile = 'auth.toml'\ntoken_file = 'token'\n[audit]\nfile = 'audit.log'\n\
        [backends]\nsecret_file = 'backends.key'\n\
        [gmail]\nrelay = 'smtps://me@127.0.0.1:1'\nrelay_password_file = 'relay'\n";
    let credentials = format!(
        "[[links.keys]]\nid = 'k'\nsecret_file = 'links'\n\
         [introspection]\nurl = 'http://{closed}/ask'\nclient_id = 'c'\nclient_secret_file = 'client'\n\
         [[proxies]]\nfrom = ['192.0.2.1/32']\n"
    );
    let album = format!(
        "name = 'album'\nversion = 'v1'\n[collections.photos]\nmedia = {{}}\n\
         on.finished = 'http://{closed}/finished?key={HOOK}'\n\
         [methods.'photos.like']\nhttp = 'POST'\npath = 'photos/{{photoId}}:like'\n\
         response = 'Photo'\nbackend = 'http://{closed}/like?key={HOOK}'\n"
    );
    Watched::with_files(&[
        ("windlass.toml", config),
        ("auth.toml", &credentials),
        ("album.toml", &album),
        ("token", TOKEN_FILE),
        ("links", LINK_SECRET),
        ("client", CLIENT_SECRET),
        ("backends.key", &format!("whsec_{}", WEBHOOK[0])),
        ("relay", RELAY_PASSWORD),
    ])
}

#[test]
fn secrets_in_files_and_in_other_headers_are_told_nowhere() {
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let mut watched = with_secrets_in_files(closed.expect("there is a free port"));
    let bearer = format!("Bearer {TOKEN_FILE}");
    watched.exercise("", ("Authorization", &bearer));
    for name in [
        "Cookie",
        "Proxy-Authorization",
        "X-Forwarded-User",
        "X-Forwarded-Access-Token",
        "X-Api-Key",
    ] {
        watched.exercise("", (name, WRONG));
    }
    // Three services do not answer: the service for unknown tokens, the service behind a method,
    // and the receiver of notifications.
    let ask = |target: &str, token: &str| {
        let request = Request::new("POST", target).header("content-type", "image/png");
        bearing(&request.body("a cow"), token)
    };
    watched.ask(&ask(UPLOADS, WRONG)).expect(503);
    let upload = "/upload/album/v1/photos?uploadType=media";
    let photo = watched.ask(&ask(upload, TOKEN_FILE)).expect(200);
    let id = photo.field("id").as_str().expect("an id").to_owned();
    let like = format!("/album/v1/photos/{id}:like");
    let like = bearing(&Request::new("POST", like), TOKEN_FILE);
    watched.ask(&like).expect(503);
    wait::until("the failed delivery is logged", || {
        watched
            .server
            .stderr()
            .contains("an event was not delivered")
    });
    let config = watched.directory.path().join("windlass.toml");
    let checked = Command::new(program())
        .args(["serve", "--check-config", "--config"])
        .arg(config)
        .output()
        .expect("it can be started");
    assert!(checked.status.success(), "{checked:?}");
    watched.said += &String::from_utf8_lossy(&checked.stdout);
    watched.said += &of_process(watched.server.id());
    watched.server.hang_up();
    wait::until("the files are read again", || {
        let log = watched.server.stderr();
        log.contains("the file of credentials was read again")
    });
    let everything = watched.everything();
    let basic = STANDARD.encode(format!("c:{CLIENT_SECRET}"));
    check_untold(&everything, &[TOKEN_FILE, WRONG, RELAY_PASSWORD]);
    check_untold(&everything, &[CLIENT_SECRET, &basic, HOOK, LINK_SECRET]);
    check_untold(&everything, &WEBHOOK);
    check_untold(&everything, &["webhook-signature"]);
}

/// The data about a process that every local user can list on Linux: no secret is an argument. A
/// server starts no other process that could show more.
fn of_process(id: u32) -> String {
    let read = |name: &str| std::fs::read(format!("/proc/{id}/{name}")).unwrap_or_default();
    let children = read(&format!("task/{id}/children"));
    assert_eq!(String::from_utf8_lossy(&children), "");
    [read("cmdline"), read("environ")]
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .concat()
}

#[test]
fn signed_links_are_in_no_log_no_metric_and_no_reply() {
    let keys = TempDir::new_in(scratch()).expect("it is writable");
    std::fs::write(
        keys.path().join("keys.json"),
        Signer::new().keys().to_string(),
    )
    .expect("it is writable");
    let mut watched = Watched::new(&credentials(&keys));
    let good = link("POST", UPLOADS, now() + 600);
    let download = link("GET", "/farm/v1/animals/1", now() + 600);
    let expired = link("POST", UPLOADS, 1);
    let altered = good.replacen("1.k.e", "1.k.f", 1);
    let unknown = good.replacen("1.k.", "1.other.", 1);
    let links = [good, download, expired, altered, unknown];
    for link in &links {
        for name in [
            "X-Windlass-Link",
            "x-windlass-link",
            "X-Windlass-Link=&X-Windlass-Link",
        ] {
            watched.exercise(&format!("{name}={link}"), ("x-other", "none"));
        }
        watched.exercise("", ("Authorization", &format!("Bearer {link}")));
        watched.exercise("", ("X-Windlass-Link", link));
        watched.exercise(
            "",
            (
                "Referer",
                &format!("https://a.example/?X-Windlass-Link={link}"),
            ),
        );
    }
    let link_of = |start: &Request| {
        let head = String::from_utf8(start.head_bytes()).expect("it is ASCII");
        let sign = if head.contains("?uploadType") {
            '&'
        } else {
            '?'
        };
        let line = head.replacen(
            " HTTP/1.1",
            &format!("{sign}X-Windlass-Link={} HTTP/1.1", links[0]),
            1,
        );
        let target = line.split(' ').nth(1).expect("a target").to_owned();
        let mut linked = Request::new("POST", target);
        for line in head.lines().skip(2).take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").expect("a header");
            linked = linked.header(name, value);
        }
        linked
    };
    let sessions = sessions(&mut watched, link_of);
    let everything = watched.everything();
    for part in [
        "link:an-id",
        "has expired",
        "has been altered",
        "several signed links",
    ] {
        assert!(everything.contains(part), "{part} is missing");
    }
    for link in &links {
        check_untold(&everything, &parts(link).collect::<Vec<_>>());
    }
    check_untold(&everything, &[LINK_SECRET, "X-Windlass-Link="]);
    check_untold(
        &everything,
        &sessions.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

/// Uploads in both dialects, also with errors. Returns the ids of the sessions.
fn sessions(watched: &mut Watched, credentials: impl Fn(&Request) -> Request) -> Vec<String> {
    let address = watched.server.address();
    let start = Request::new("POST", format!("{UPLOADS}?uploadType=resumable"));
    let start = credentials(&start.header("content-length", 0));
    // This reply has to contain the session URI, as in Google's dialect.
    let begin = || Session::of_reply(address, &exchange(address, &start).expect(200));
    let (session, ended) = (begin(), begin());
    let put = |range: std::ops::Range<u64>| {
        let put = session.ranged(&content_range(MEDIA, &range));
        put.body(MEDIA.bytes(range))
    };
    let query = session.ranged("bytes */*").body("");
    watched.ask_session(&put(0..262_144)).expect(308);
    watched.ask_session(&query).expect(308);
    let animal = watched.ask_session(&put(262_144..MEDIA.len())).expect(201);
    watched.ask_session(&query).expect(201);
    watched.ask_session(&put(0..262_144));
    let download = bearing(&farm::download(&farm::id(&animal)), TOKEN);
    exchange(address, &download).expect(200);
    watched.ask_session(&session.request("DELETE").body(""));
    watched
        .ask_session(&ended.ranged("nonsense").body("ab"))
        .expect(400);
    watched
        .ask_session(&ended.ranged("bytes */*").body(""))
        .expect(410);
    watched.ask_session(&ended.request("GET").body(""));
    let other = Request::new("POST", UPLOADS)
        .header("X-Goog-Upload-Protocol", "resumable")
        .header("X-Goog-Upload-Command", "start")
        .header("content-length", 0);
    let started = exchange(address, &credentials(&other)).expect(200);
    let target = target_in(&started, "x-goog-upload-url").expect("a session URI");
    let other = Session::at(address, &target);
    for (command, offset) in [
        ("query", 0),
        ("upload", 5),
        ("nonsense", 0),
        ("upload, finalize", 0),
    ] {
        let post = other
            .request("POST")
            .header("X-Goog-Upload-Command", command);
        watched.ask_session(&post.header("X-Goog-Upload-Offset", offset).body("a cow"));
    }
    let sessions = [&session, &ended, &other];
    sessions
        .map(|session| session.upload_id().to_owned())
        .into()
}

#[test]
fn file_of_credentials_that_cannot_be_read_is_reported_without_what_is_in_it() {
    let mut watched = Watched::new("");
    for (count, lines) in [
        format!("tokens = ['{TOKEN}']"),
        format!("[[tokens]]\nsha256 = '{TOKEN}'\nprincipal = 'a'"),
        format!("[[tokens]]\nsha256 = ['{TOKEN}']\nprincipal = 'a'"),
        format!("[[keys]]\nprincipal = 'a'\nsecret = '{KEY}'"),
        format!("[links]\nkeys = ['{LINK_SECRET}']"),
        format!("[links]\nkeys = '{LINK_SECRET}'"),
        format!("[[links.keys]]\nid = 'k'\nsecret = '{LINK_SECRET}' {LINK_SECRET}"),
        format!("[[links.keys]]\nid = 'k'\nsecret = '{LINK_SECRET}0'"),
        format!("[[links.keys]]\nid = '{LINK_SECRET}{LINK_SECRET}'\nsecret = '{LINK_SECRET}'"),
        format!("introspection = '{WRONG}'"),
        format!(
            "[introspection]\nurl = 'https://a.example'\nclient_id = 'a'\nclient_secret = '{WRONG}'"
        ),
        WRONG.to_owned(),
    ]
    .into_iter()
    .enumerate()
    {
        std::fs::write(watched.directory.path().join("auth.toml"), &lines).expect("writable");
        watched.server.hang_up();
        let refused = || {
            watched
                .server
                .stderr()
                .matches("the old one stays in use")
                .count()
        };
        wait::until("the error is logged", || refused() > count);
        assert_eq!(refused(), count + 1, "{lines}");
    }
    let everything = watched.everything();
    check_untold(&everything, &[TOKEN, KEY, WRONG, LINK_SECRET]);
}
