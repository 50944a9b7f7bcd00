//! A server that demands a token: the accepted credentials, their routes, and the refusal of all
//! further callers.

mod expired;
mod table;

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Request, exchange};
use windlass_testkit::session::{Session, content_range};
use windlass_testkit::wait;

use crate::server::{own, program, scratch};

const MEDIA: Media = Media::new(62, 300_000);

pub(crate) const TOKEN: &str = "dGVzdA.-_~+/42==";

/// A directory with a configuration that names a file with this token.
fn configuration(token: &str) -> (TempDir, PathBuf) {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let file = directory.path().join("token");
    std::fs::write(&file, token).expect("it is writable");
    let config = directory.path().join("windlass.toml");
    let text = format!("[auth]\ntoken_file = '{}'\n", file.display());
    std::fs::write(&config, text).expect("it is writable");
    (directory, config)
}

pub(crate) fn guarded() -> ServerProcess {
    let (_directory, config) = configuration(&format!("{TOKEN}\n"));
    own(&["--config", config.to_str().expect("it is UTF-8")])
}

fn resumable() -> Request {
    let request = Request::new("POST", format!("{UPLOADS}?uploadType=resumable"));
    request.header("content-length", 0)
}

pub(crate) fn bearing(request: &Request, token: &str) -> Request {
    let request = request.clone();
    request.header("Authorization", format!("Bearer {token}"))
}

/// Requests that need the token. Their refusal reveals nothing else to unauthenticated callers.
fn routes() -> Vec<Request> {
    let simple = Request::new("POST", format!("{UPLOADS}?uploadType=media"));
    let multipart = Request::new("POST", format!("{UPLOADS}?uploadType=multipart"));
    vec![
        simple.header("content-type", "image/png").body("a cow"),
        multipart.body(""),
        resumable(),
        Request::new("GET", ANIMALS),
        Request::new("GET", format!("{ANIMALS}/1?alt=media")),
        Request::new("DELETE", format!("{ANIMALS}/1")),
        Request::new("GET", "/no/such/path"),
        Request::new("GET", "//"),
        Request::new("POST", "/"),
        Request::new("POST", "/upload"),
    ]
}

#[test]
fn requests_without_the_token_are_refused_before_anything_else() {
    let server = guarded();
    for request in routes() {
        let reply = exchange(server.address(), &request).expect(401);
        let challenge = reply.header("www-authenticate");
        assert_eq!(challenge, Some("Bearer realm=\"windlass\""), "{request:?}");
        let error = &reply.json()["error"];
        assert_eq!(error["status"], "UNAUTHENTICATED");
        assert_eq!(error["errors"][0]["reason"], "required");
        assert_eq!(error["errors"][0]["location"], "Authorization");
    }
}

#[test]
fn requests_with_another_token_are_refused() {
    let server = guarded();
    for request in routes() {
        let reply = exchange(server.address(), &bearing(&request, "other")).expect(401);
        let challenge = reply.header("www-authenticate").unwrap_or_default();
        assert!(
            challenge.ends_with(", error=\"invalid_token\""),
            "{challenge}"
        );
        assert_eq!(reply.json()["error"]["errors"][0]["reason"], "authError");
    }
}

#[test]
fn bearer_of_the_token_uploads_and_its_session_needs_no_token() {
    let server = guarded();
    let started = exchange(server.address(), &bearing(&resumable(), TOKEN)).expect(200);
    let location = started.header("location").expect("a session URI");
    let session = &location[location.find("/upload").expect("its path")..];
    let put = Request::new("PUT", session).body(MEDIA.whole());
    let animal = exchange(server.address(), &put).expect(201);
    let download = farm::download(&farm::id(&animal));
    exchange(server.address(), &download).expect(401);
    let reply = exchange(server.address(), &bearing(&download, TOKEN)).expect(200);
    assert!(reply.body == MEDIA.whole(), "other media");
}

#[test]
fn what_was_made_without_a_token_belongs_to_its_bearer_or_to_the_principal_of_the_configuration() {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let token = directory.path().join("token");
    std::fs::write(&token, TOKEN).expect("it is writable");
    let config = directory.path().join("windlass.toml");
    let access = "access = ['farm=owner']\n";
    let guarded = format!("{access}[auth]\ntoken_file = '{}'\n", token.display());
    std::fs::write(&config, access).expect("it is writable");
    let mut server = own(&["--config", config.to_str().expect("it is UTF-8")]);
    exchange(server.address(), &farm::simple(MEDIA)).expect(200);
    for (unowned, seen) in [("", 1), ("unowned = 'somebody'\n", 0)] {
        server.terminate();
        std::fs::write(&config, format!("{guarded}{unowned}")).expect("it is writable");
        server.start_again();
        let list = bearing(&Request::new("GET", ANIMALS), TOKEN);
        let list = exchange(server.address(), &list).expect(200).json();
        let items = list["items"].as_array().map_or(0, Vec::len);
        assert_eq!(items, seen, "{unowned}");
    }
}

#[test]
fn health_and_discovery_are_open() {
    let server = guarded();
    for path in [
        "/healthz",
        "/readyz",
        "/discovery/v1/apis/farm/v1/rest",
        "/discovery/v1/apis",
    ] {
        exchange(server.address(), &Request::new("GET", path)).expect(200);
    }
}

/// A server with a file of credentials, which tests replace.
struct Listed {
    server: ServerProcess,
    file: PathBuf,
    _directory: TempDir,
}

/// The tokens of carol and of dave, and the key of a device. None can be a part of a random id.
pub(crate) const CAROL: &str = "carols-token";
pub(crate) const DAVE: &str = "daves-token";
pub(crate) const DEVICE: &str = "devices-key";

/// Carol may do everything, dave insert alone, and everybody may get.
pub(crate) const CREDENTIALS: &str = "\
[[tokens]]
sha256 = '26bf4b15884bb822e9196ca3a07c800bdc523deb8bbf56c1aecbad5ad7f1b3a0'
principal = 'carol'
groups = ['staff']

[[tokens]]
sha256 = '725d0f40ccb1c82d17c7f2d0c01fb47b8cb844905737dd828e92b3488aa10ef3'
principal = 'dave'

[[keys]]
sha256 = 'e5d56009b4a4d11e53f9f2df7048a0e0c4138f9b22c14e84c6e5bcb14f6c9ac8'
principal = 'device'
scopes = ['none']

[[allow]]
groups = ['staff']

[[allow]]
principals = ['dave', 'device']
apis = ['farm']
collections = ['animals']
methods = ['insert']

[[allow]]
anonymous = true
methods = ['get']
";

impl Listed {
    fn new() -> Self {
        let directory = TempDir::new_in(scratch()).expect("it is writable");
        let file = directory.path().join("auth.toml");
        std::fs::write(&file, CREDENTIALS).expect("it is writable");
        let config = directory.path().join("windlass.toml");
        std::fs::write(&config, "[auth]\nfile = 'auth.toml'\n").expect("it is writable");
        Self {
            server: own(&["--config", config.to_str().expect("it is UTF-8")]),
            file,
            _directory: directory,
        }
    }

    fn status(&self, request: &Request) -> u16 {
        exchange(self.server.address(), request).status
    }
}

#[test]
fn methods_are_allowed_by_the_table_of_the_file() {
    let listed = Listed::new();
    let simple = Request::new("POST", format!("{UPLOADS}?uploadType=media"));
    let insert = simple.header("content-type", "image/png").body("a cow");
    let list = Request::new("GET", ANIMALS);
    let animal = exchange(listed.server.address(), &bearing(&insert, CAROL)).expect(200);
    let get = Request::new("GET", format!("{ANIMALS}/{}", farm::id(&animal)));
    let delete = Request::new("DELETE", format!("{ANIMALS}/{}", farm::id(&animal)));
    for (request, carol, dave, stranger) in [
        (&insert, 200, 200, 401),
        (&resumable(), 200, 200, 401),
        (&list, 200, 403, 401),
        (&get, 200, 200, 200),
        (&Request::new("GET", "/no/such/path"), 404, 404, 404),
        (&delete, 204, 403, 401),
    ] {
        assert_eq!(listed.status(request), stranger, "{request:?}");
        assert_eq!(
            listed.status(&bearing(request, "wrong")),
            401,
            "{request:?}"
        );
        assert_eq!(listed.status(&bearing(request, DAVE)), dave, "{request:?}");
        assert_eq!(
            listed.status(&bearing(request, CAROL)),
            carol,
            "{request:?}"
        );
    }
}

#[test]
fn key_is_a_credential_in_its_header_and_in_the_query() {
    let listed = Listed::new();
    let insert = |query: &str| {
        let request = Request::new("POST", format!("{UPLOADS}?uploadType=media{query}"));
        request.header("content-type", "image/png").body("a cow")
    };
    // Farm's methods name no scopes, so that any will do.
    assert_eq!(listed.status(&insert(&format!("&key={DEVICE}"))), 200);
    let in_header = insert("").header("X-Goog-Api-Key", DEVICE);
    assert_eq!(listed.status(&in_header), 200);
    assert_eq!(listed.status(&insert("&key=wrong")), 401);
    // Libraries send the key of a project along with a token.
    let both = bearing(&insert("&key=wrong"), CAROL);
    assert_eq!(listed.status(&both), 200);
}

#[test]
fn token_in_the_query_is_refused_with_the_reason() {
    let listed = Listed::new();
    let request = Request::new("GET", format!("{ANIMALS}?access_token={CAROL}"));
    let reply = exchange(listed.server.address(), &request).expect(400);
    let message = reply.json()["error"]["message"].to_string();
    assert!(message.contains("would stand in the logs"), "{message}");
}

#[test]
fn credentials_are_read_again_on_sighup_and_sessions_go_on() {
    let listed = Listed::new();
    let address = listed.server.address();
    let started = exchange(address, &bearing(&resumable(), CAROL)).expect(200);
    let session = Session::of_reply(address, &started);
    let list = bearing(&Request::new("GET", ANIMALS), CAROL);
    assert_eq!(listed.status(&list), 200);

    std::fs::write(&listed.file, "[[tokens]]\nsecret = 'abc'\n").expect("it is writable");
    listed.server.hang_up();
    wait::until("the error is logged", || {
        listed.server.stderr().contains("unknown field `secret`")
    });
    assert_eq!(listed.status(&list), 200);

    // An empty file, as at the moment when it is being written.
    std::fs::write(&listed.file, "").expect("it is writable");
    listed.server.hang_up();
    wait::until("the error is logged", || {
        listed
            .server
            .stderr()
            .contains("no longer has an [[allow]]")
    });
    assert_eq!(listed.status(&list), 200);

    std::fs::write(&listed.file, "[[allow]]\n").expect("it is writable");
    listed.server.hang_up();
    wait::until("the token counts no more", || listed.status(&list) == 401);
    session.append(MEDIA, 0..MEDIA.len()).expect(201);
    assert!(!listed.server.stderr().contains(CAROL));
}

#[test]
fn session_demands_credentials_of_its_owner_where_that_is_set() {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    std::fs::write(directory.path().join("auth.toml"), CREDENTIALS).expect("it is writable");
    let config = directory.path().join("windlass.toml");
    let text = "[auth]\nfile = 'auth.toml'\n[sessions]\nauth = 'owner'\n";
    std::fs::write(&config, text).expect("it is writable");
    let server = own(&["--config", config.to_str().expect("it is UTF-8")]);
    let started = exchange(server.address(), &bearing(&resumable(), CAROL)).expect(200);
    let session = Session::of_reply(server.address(), &started);
    let first = session
        .ranged(&content_range(MEDIA, &(0..262_144)))
        .body(MEDIA.bytes(0..262_144));
    let query = session.ranged("bytes */*").body("");
    let last = session
        .ranged(&content_range(MEDIA, &(262_144..MEDIA.len())))
        .body(MEDIA.bytes(262_144..MEDIA.len()));
    let cancel = session.request("DELETE").body("");
    let ask = |request: &Request| exchange(server.address(), request);
    // The second append finds the session in the cache.
    for (request, right) in [(&first, 308), (&query, 308), (&last, 201), (&query, 201)] {
        ask(request).expect(401);
        ask(&bearing(request, "wrong")).expect(401);
        let foreign = ask(&bearing(request, DAVE)).expect(403);
        assert!(foreign.text().contains("another principal"), "{foreign:?}");
        ask(&bearing(request, CAROL)).expect(right);
    }
    ask(&cancel).expect(401);
    ask(&bearing(&cancel, DAVE)).expect(403);
}

#[test]
fn dev_token_is_given_out_and_demanded() {
    let server = own(&["--dev-tokens"]);
    let list = Request::new("GET", ANIMALS);
    exchange(server.address(), &list).expect(401);
    let ask = Request::new("POST", "/token").body("grant_type=client_credentials&client_id=me");
    let reply = exchange(server.address(), &ask).expect(200);
    let token = reply.field("access_token");
    let token = token.as_str().expect("it is a string");
    exchange(server.address(), &bearing(&list, token)).expect(200);
    assert!(!server.stderr().contains(token));
    // With DNS rebinding, a page is served from a foreign host that is also its origin.
    let rebound = ask
        .header("Host", "evil.example")
        .header("Origin", "http://evil.example");
    exchange(server.address(), &rebound).expect(421);

    let output = Command::new(program())
        .args([
            "serve",
            "--check-config",
            "--dev-tokens",
            "--listen",
            "0.0.0.0:80",
        ])
        .current_dir(scratch())
        .output()
        .expect("it can be run");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("must be used on a loopback address only"),
        "{said}"
    );
}

#[test]
fn address_that_others_reach_demands_credentials_or_a_flag() {
    let check = |arguments: &[&str]| {
        let output = Command::new(program())
            .args(["serve", "--check-config", "--listen", "0.0.0.0:80"])
            .args(arguments)
            .current_dir(scratch())
            .output()
            .expect("it can be run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let (code, said) = check(&[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--allow-unauthenticated"), "{said}");
    let (code, said) = check(&["--allow-unauthenticated"]);
    assert_eq!(code, Some(0), "{said}");
    let (_directory, config) = configuration(TOKEN);
    let (code, said) = check(&["--config", config.to_str().expect("it is UTF-8")]);
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn policy_that_lets_everybody_do_everything_is_for_a_loopback_address_or_demands_a_flag() {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("it is writable");
        path
    };
    let config = file("windlass.toml", "[auth]\nfile = 'auth.toml'\n");
    let check = |policy: &str, arguments: &[&str]| {
        file("auth.toml", policy);
        let output = Command::new(program())
            .args(["serve", "--check-config", "--config"])
            .arg(&config)
            .args(arguments)
            .output()
            .expect("it can be run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let open = "[[allow]]\nanonymous = true\n";
    let (code, said) = check(open, &["--listen", "0.0.0.0:80"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("lets everybody do everything"), "{said}");
    assert!(said.contains("--allow-unauthenticated"), "{said}");
    let some = "[[allow]]\nanonymous = true\nmethods = ['get']\n";
    for (policy, arguments) in [
        (open, &["--listen", "127.0.0.1:80"][..]),
        (open, &["--listen", "0.0.0.0:80", "--allow-unauthenticated"]),
        (some, &["--listen", "0.0.0.0:80"]),
    ] {
        let (code, said) = check(policy, arguments);
        assert_eq!(code, Some(0), "{policy}: {said}");
    }
}

#[test]
fn token_that_no_client_could_send_is_an_error_at_the_start() {
    for token in ["", "\n", "two words", "two\nlines", "naïve"] {
        let (_directory, config) = configuration(token);
        let refused = Command::new(program())
            .args(["serve", "--check-config", "--config"])
            .arg(config)
            .output()
            .expect("it can be run");
        assert_eq!(refused.status.code(), Some(2), "{token:?}");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("is empty or has characters"), "{said}");
        assert!(said.contains("openssl rand"), "{said}");
    }
}
