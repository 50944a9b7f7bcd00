//! Access tokens of an issuer: JWTs that are verified by its keys, and opaque ones about which it
//! is asked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_testkit::farm::{ANIMALS, UPLOADS};
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Reply, Request, exchange};

use crate::authentication::bearing;
use crate::credentials::{Signer, now};
use crate::server::{scratch, with_environment};

const SECRET: &str = "introspection-s3cret";

/// An issuer on this machine. It answers until the process ends.
struct Issuer {
    address: SocketAddr,
    signer: Signer,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Issuer {
    fn new() -> Self {
        let signer = Signer::new();
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let keys = signer.keys();
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let connection = connection.expect("it listens");
                answer(connection, address, &keys, &log);
            }
        });
        Self {
            address,
            signer,
            asked,
        }
    }

    fn name(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A token with the claims of a good one, but for the changes.
    fn token(&self, header: &Value, changes: &Value) -> String {
        let now = now();
        let mut claims = json!({
            "iss": self.name(), "aud": "windlass", "sub": "alice", "iat": now, "exp": now + 600,
        });
        let changes = changes.as_object().expect("it is an object").clone();
        claims
            .as_object_mut()
            .expect("it is an object")
            .extend(changes);
        self.signer.token(header, &claims)
    }

    fn asked(&self, path: &str) -> usize {
        let asked = self.asked.lock().expect("no thread has panicked");
        asked.iter().filter(|line| line.contains(path)).count()
    }
}

/// Answers one request, and closes the connection.
fn answer(mut connection: TcpStream, address: SocketAddr, keys: &Value, log: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(&connection);
    let (mut line, mut length) = (String::new(), 0);
    let mut first = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        let value = line.to_ascii_lowercase();
        if let Some(value) = value.strip_prefix("content-length:") {
            length = value.trim().parse().expect("it is a number");
        }
        if first.is_empty() {
            first.clone_from(&line);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the body arrives");
    let document = if first.contains("openid-configuration") {
        json!({"issuer": format!("http://{address}"), "jwks_uri": format!("http://{address}/keys")})
    } else if first.contains("introspect") {
        let is_good = body.starts_with(b"token=opaque&");
        json!({"active": is_good, "sub": "bob", "scope": "none"})
    } else {
        keys.clone()
    };
    log.lock().expect("no thread has panicked").push(first);
    let text = document.to_string();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let reply = format!("{head}Content-Length: {}\r\n\r\n{text}", text.len());
    connection.write_all(reply.as_bytes()).expect("it is read");
}

/// A proxy that answers nothing. It listens until the process ends.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let mut line = String::new();
                let mut reader = BufReader::new(connection.expect("it listens"));
                reader.read_line(&mut line).ok();
                log.lock().expect("no thread has panicked").push(line);
            }
        });
        Self { address, asked }
    }

    /// The variables by which everything goes through it.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = Vec::new();
        for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
            variables.push((name, format!("http://{}", self.address)));
        }
        for name in ["NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"] {
            variables.push((name, String::new()));
        }
        variables
    }

    /// The first line of each connection.
    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no thread has panicked").clone()
    }
}

/// A server with this file of credentials.
fn server(credentials: &str) -> (TempDir, ServerProcess) {
    server_in(credentials, Vec::new())
}

/// A server with this file of credentials and these variables.
fn server_in(
    credentials: &str,
    environment: Vec<(&'static str, String)>,
) -> (TempDir, ServerProcess) {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("it is writable");
        path
    };
    write("auth.toml", credentials);
    write("secret", &format!("{SECRET}\n"));
    let config = write(
        "windlass.toml",
        "log = 'debug'\n[auth]\nfile = 'auth.toml'\n",
    );
    let config = config.to_str().expect("it is UTF-8");
    let server = with_environment(&["--config", config], environment);
    (directory, server)
}

fn insert(server: &ServerProcess, token: &str) -> Reply {
    let request = Request::new("POST", format!("{UPLOADS}?uploadType=media"));
    let request = request.header("content-type", "image/png").body("a cow");
    exchange(server.address(), &bearing(&request, token))
}

#[test]
fn access_token_of_an_issuer_uploads_and_every_other_is_refused() {
    let issuer = Issuer::new();
    let text = format!(
        "[[jwt]]\nissuer = '{}'\naudience = ['windlass']\n",
        issuer.name()
    );
    let (_directory, server) = server(&text);
    let header = json!({"alg": "EdDSA", "kid": "k1", "typ": "at+jwt"});
    let good = issuer.token(&header, &json!({}));
    insert(&server, &good).expect(200);
    insert(&server, &good).expect(200);
    assert_eq!(
        (issuer.asked("/.well-known/"), issuer.asked("/keys")),
        (1, 1)
    );

    let expired = insert(&server, &issuer.token(&header, &json!({"exp": 1}))).expect(401);
    let challenge = expired.header("www-authenticate").unwrap_or_default();
    assert!(challenge.contains("the token has expired"), "{challenge}");
    let (head, _) = good.rsplit_once('.').expect("it has parts");
    for wrong in [
        issuer.token(&header, &json!({"aud": "else"})),
        issuer.token(&header, &json!({"iss": "http://127.0.0.1:1"})),
        issuer.token(&json!({"alg": "none", "kid": "k1"}), &json!({})),
        issuer.token(&json!({"alg": "HS256", "kid": "k1"}), &json!({})),
        issuer.token(
            &json!({"alg": "EdDSA", "kid": "k1", "jku": issuer.name()}),
            &json!({}),
        ),
        issuer.token(
            &json!({"alg": "EdDSA", "kid": "k1", "typ": "logout+jwt"}),
            &json!({}),
        ),
        Issuer {
            address: issuer.address,
            ..Issuer::new()
        }
        .token(&header, &json!({})),
        format!("{head}."),
    ] {
        let refused = insert(&server, &wrong).expect(401);
        assert_eq!(
            refused.json()["error"]["errors"][0]["reason"],
            "authError",
            "{wrong}"
        );
    }
    let log = server.stderr();
    let (_, signature) = good.rsplit_once('.').expect("it has parts");
    assert!(!log.contains(signature) && !log.contains(head), "{log}");
}

#[test]
fn token_whose_keys_cannot_be_had_is_answered_503() {
    let issuer = Issuer::new();
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let closed = closed.expect("there is a free port");
    let text = format!(
        "[[jwt]]\nissuer = '{}'\naudience = ['windlass']\njwks_uri = 'http://{closed}/keys'\n",
        issuer.name()
    );
    let (_directory, server) = server(&text);
    let token = issuer.token(&json!({"alg": "EdDSA", "kid": "k1"}), &json!({}));
    let reply = insert(&server, &token).expect(503);
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
}

#[test]
fn opaque_token_is_introspected_once() {
    let issuer = Issuer::new();
    let text = format!(
        "[introspection]\nurl = '{}/introspect'\nclient_id = 'windlass'\n\
         client_secret_file = 'secret'\n\
         [[allow]]\nprincipals = ['bob']\nmethods = ['insert']\n",
        issuer.name()
    );
    let (_directory, server) = server(&text);
    for _ in 0..3 {
        insert(&server, "opaque").expect(200);
        insert(&server, "other").expect(401);
    }
    let list = bearing(&Request::new("GET", ANIMALS), "opaque");
    exchange(server.address(), &list).expect(403);
    assert_eq!(issuer.asked("/introspect"), 2);
    let log = server.stderr();
    assert!(!log.contains("opaque") && !log.contains(SECRET), "{log}");
}

#[test]
fn services_on_this_machine_are_asked_without_the_proxy_and_others_through_it() {
    let (issuer, proxy) = (Issuer::new(), Proxy::new());
    let text = format!(
        "[[jwt]]\nissuer = '{}'\naudience = ['windlass']\n\
         [[jwt]]\nissuer = 'far'\naudience = ['windlass']\njwks_uri = 'https://far.example/keys'\n\
         [introspection]\nurl = 'http://localhost:{}/introspect'\nclient_id = 'windlass'\n\
         client_secret_file = 'secret'\n",
        issuer.name(),
        issuer.address.port()
    );
    let (_directory, server) = server_in(&text, proxy.environment());
    let header = json!({"alg": "EdDSA", "kid": "k1"});
    insert(&server, &issuer.token(&header, &json!({}))).expect(200);
    insert(&server, "opaque").expect(200);
    assert_eq!((issuer.asked("/keys"), issuer.asked("/introspect")), (1, 1));
    assert_eq!(proxy.asked(), Vec::<String>::new());
    // The environment's proxy counts: the keys of an issuer elsewhere are asked for through it.
    insert(&server, &issuer.token(&header, &json!({"iss": "far"}))).expect(503);
    let asked = proxy.asked();
    assert!(
        !asked.is_empty()
            && asked
                .iter()
                .all(|line| line.starts_with("CONNECT far.example:443 ")),
        "{asked:?}"
    );
}

#[test]
fn file_without_its_secret_or_keys_is_an_error_at_the_start() {
    for (credentials, said) in [
        (
            "[introspection]\nurl = 'https://issuer.example'\nclient_id = 'a'\n\
             client_secret_file = 'missing'\n",
            "client_secret_file",
        ),
        ("[[jwt]]\nissuer = 'a'\naudience = ['b']\n", "jwks_uri"),
        (
            "[[jwt]]\nissuer = 'a'\naudience = ['b']\nalgorithms = ['HS256']\n",
            "shared secret",
        ),
    ] {
        let directory = TempDir::new_in(scratch()).expect("it is writable");
        let file = directory.path().join("auth.toml");
        std::fs::write(&file, credentials).expect("it is writable");
        let refused = std::process::Command::new(crate::server::program())
            .args(["serve", "--check-config"])
            .env("WINDLASS_AUTH_FILE", &file)
            .output()
            .expect("it can be run");
        let error = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains(said), "{error}");
    }
}
