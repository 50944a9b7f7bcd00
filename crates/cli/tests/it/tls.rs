//! The same protocol under TLS (docs/protocol.md, 2.17).

use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::ClientConfig;
use serde_json::Value;
use tempfile::TempDir;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request};
use windlass_testkit::session::Session;
use windlass_testkit::tls::Authority;

use crate::server::{own, program, scratch};

const MEDIA: Media = Media::new(61, 3_000_000);

/// A server under TLS, and a client that trusts it.
struct Safe {
    server: ServerProcess,
    authority: Authority,
    client: Arc<ClientConfig>,
}

impl Safe {
    fn new(more: &[&str]) -> Self {
        let authority = Authority::new(scratch());
        let flags = authority.flags();
        let flags = flags.iter().map(String::as_str).chain(more.iter().copied());
        Self {
            server: own(&flags.collect::<Vec<_>>()),
            client: authority.client(&["http/1.1"]),
            authority,
        }
    }

    #[track_caller]
    fn connect(&self) -> RawPeer {
        RawPeer::connect_tls(self.server.address(), &self.client)
    }

    #[track_caller]
    fn exchange(&self, request: &Request) -> Reply {
        let request = request.clone().header("Host", self.server.address());
        self.connect().exchange(&request)
    }

    #[track_caller]
    fn assert_media(&self, resource: &Value) {
        let id = resource["id"].as_str().expect("an id");
        let media = self.exchange(&farm::download(id)).expect(200).body;
        MEDIA
            .compare(0..MEDIA.len(), &media[..])
            .expect("the same media");
    }

    /// The lines of the log that say that something is wrong.
    fn complaints(&self) -> Vec<String> {
        let stderr = self.server.stderr();
        let lines = stderr.lines().filter(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            words.contains(&"WARN") || words.contains(&"ERROR") || line.contains("panicked")
        });
        lines.map(str::to_owned).collect()
    }
}

#[test]
fn simple_upload_over_https_has_https_links() {
    let safe = Safe::new(&[]);
    let url = safe.server.url();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let resource = safe.exchange(&farm::simple(MEDIA)).expect(200).json();
    let link = resource["selfLink"].as_str().expect("a link");
    assert!(link.starts_with(&format!("{url}{ANIMALS}/")), "{link}");
    safe.assert_media(&resource);
    let document = Request::new("GET", "/discovery/v1/apis/farm/v1/rest");
    let document = safe.exchange(&document).expect(200);
    assert_eq!(document.field("rootUrl"), format!("{url}/"));
}

#[test]
fn a_session_that_was_started_over_https_has_an_https_uri() {
    let safe = Safe::new(&[]);
    let reply = safe.exchange(&farm::start("")).expect(200);
    let location = reply.header("location").expect("a session URI").to_owned();
    let expected = format!("{}{UPLOADS}?", safe.server.url());
    assert!(location.starts_with(&expected), "{location}");
    let session = Session::of_reply(safe.server.address(), &reply);
    let half = 1 << 20;
    for (range, status) in [(0..half, 308), (half..MEDIA.len(), 201)] {
        let content_range = format!("bytes {}-{}/{}", range.start, range.end - 1, MEDIA.len());
        let append = session
            .request("PUT")
            .header("Content-Range", content_range);
        let reply = safe.exchange(&append.body(MEDIA.bytes(range)));
        let reply = reply.expect(status);
        if status == 201 {
            safe.assert_media(&reply.json());
        }
    }
}

#[test]
fn the_version_of_http_is_chosen_by_alpn() {
    let safe = Safe::new(&[]);
    for (offered, chosen) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1", "h2"], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&[], None),
    ] {
        let client = safe.authority.client(offered);
        let mut peer = RawPeer::connect_tls(safe.server.address(), &client);
        assert_eq!(peer.alpn(), chosen.map(str::as_bytes), "{offered:?}");
        if chosen == Some("h2") {
            // The preface and an empty SETTINGS, which is answered by the server's own.
            peer.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
            let frame = peer.bytes(9).expect("a frame");
            assert_eq!(frame[3], 4, "{frame:?}");
        } else {
            let reply = peer.exchange(&Request::new("GET", "/healthz"));
            assert_eq!(reply.expect(200).version, "HTTP/1.1");
        }
    }
}

#[test]
fn the_client_uploads_and_downloads_over_https() {
    let safe = Safe::new(&[]);
    let client_dir = tempfile::tempdir_in(scratch()).expect("a directory");
    std::fs::write(client_dir.path().join("cow.png"), MEDIA.whole()).expect("a file");
    let url = format!("{}{UPLOADS}", safe.server.url());
    for upload_type in ["media", "resumable"] {
        let output = Command::new(program())
            .args([
                "upload",
                "cow.png",
                &url,
                "--no-journal",
                "--type",
                upload_type,
            ])
            .env("SSL_CERT_FILE", safe.authority.root())
            .env_remove("SSL_CERT_DIR")
            .current_dir(client_dir.path())
            .stdin(Stdio::null())
            .output()
            .expect("the command can be run");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        let resource = serde_json::from_slice(&output.stdout).expect("a resource");
        safe.assert_media(&resource);
    }
}

#[test]
fn certificate_that_is_not_trusted_ends_a_command_at_once_in_words() {
    let safe = Safe::new(&[]);
    let other = Authority::new(scratch());
    let client_dir = TempDir::new_in(scratch()).expect("the scratch directory is writable");
    std::fs::write(client_dir.path().join("cow.png"), "a cow").expect("a file");
    let upload = format!("{}{UPLOADS}", safe.server.url());
    let wrong_name = upload.replace("127.0.0.1", "localhost");
    let known = safe.authority.root();
    for (url, roots, expected) in [
        // Another authority of the same name.
        (
            &upload,
            other.root(),
            "not signed by the authority of that name",
        ),
        (&wrong_name, known, "for another name: 127.0.0.1"),
    ] {
        let output = Command::new(program())
            .args(["upload", "cow.png", url, "--no-journal"])
            .env("SSL_CERT_FILE", roots)
            .env_remove("SSL_CERT_DIR")
            .current_dir(client_dir.path())
            .stdin(Stdio::null())
            .output()
            .expect("the command can be run");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
        assert!(stderr.contains("hint: SSL_CERT_FILE names"), "{stderr}");
        assert!(!stderr.contains("invalid peer certificate"), "{stderr}");
    }
}

#[test]
fn a_client_that_still_sends_sees_the_reply_and_a_clean_end() {
    let safe = Safe::new(&[]);
    let mut peer = safe.connect();
    let request = Request::new("POST", "/upload/farm/v1/cows?uploadType=media")
        .header("Content-Length", 1 << 30);
    peer.send(request.head_bytes());
    peer.send(vec![0; 8 << 20]);
    assert_eq!(peer.reply().status, 404);
    assert!(peer.is_ended());
}

#[test]
fn connection_without_tls_is_closed_and_others_go_on() {
    let safe = Safe::new(&[]);
    let plain = Request::new("GET", "/healthz").to_bytes();
    let garbage = vec![0xff; 100_000];
    for bytes in [&plain, &garbage] {
        let mut peer = RawPeer::connect(safe.server.address());
        peer.try_send(bytes).ok();
        let error = peer.try_reply().expect_err("an alert is no HTTP").kind();
        let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
        assert!(closed.contains(&error), "{error}");
    }
    let stranger = Authority::new(scratch()).client(&[]);
    RawPeer::try_connect_tls(safe.server.address(), &stranger).expect_err("nobody it knows");
    safe.exchange(&Request::new("GET", "/healthz")).expect(200);
    assert_eq!(safe.complaints(), [""; 0]);
}

#[test]
fn a_handshake_or_a_head_that_stands_still_is_given_up() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/impatient.toml");
    let safe = Safe::new(&["--config", config]);
    for sent in ["", "\x16\x03\x01"] {
        let mut peer = RawPeer::connect(safe.server.address());
        peer.send(sent);
        assert!(peer.is_closed(), "{sent:?}");
    }
    for sent in ["", "G", "GET /healthz HTTP/1.1\r\nHost: f"] {
        let mut peer = safe.connect();
        peer.send(sent);
        if let Ok(reply) = peer.try_reply() {
            assert_eq!(reply.status, 408, "{reply:?}");
        }
        assert!(peer.is_closed(), "{sent:?}");
    }
}

#[test]
fn connections_without_a_handshake_are_closed_in_time() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/few_connections.toml");
    let safe = Safe::new(&["--config", config]);
    let silent: Vec<_> = (0..3)
        .map(|_| RawPeer::connect(safe.server.address()))
        .collect();
    // They count as connections, so this one waits until they are given up.
    safe.exchange(&Request::new("GET", "/healthz")).expect(200);
    drop(silent);
}

#[test]
fn a_server_that_is_asked_to_stop_does_not_wait_for_handshakes() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/long_drain.toml");
    let mut safe = Safe::new(&["--config", config]);
    let silent = RawPeer::connect(safe.server.address());
    safe.exchange(&Request::new("GET", "/healthz")).expect(200);
    assert!(safe.server.terminate().success());
    drop(silent);
}

#[test]
fn renewed_certificate_is_reloaded_on_sighup() {
    let safe = Safe::new(&[]);
    let certificate = || safe.connect().certificate().cloned();
    let old = certificate();
    safe.authority.renew();
    assert_eq!(certificate(), old);
    safe.server.hang_up();
    let renewed = (0..10_000).any(|_| certificate() != old);
    assert!(renewed, "{}", safe.server.stderr());
    let new = certificate();
    std::fs::write(safe.authority.key(), "nothing").expect("it is writable");
    safe.server.hang_up();
    let told = (0..10_000).any(|_| {
        assert_eq!(certificate(), new);
        safe.server.stderr().contains("holds no private key in PEM")
    });
    assert!(told, "{}", safe.server.stderr());
}

#[test]
fn unusable_certificate_is_reported_before_the_server_starts() {
    let (one, other) = (Authority::new(scratch()), Authority::new(scratch()));
    let flags = |cert: &Authority, key: &Authority| {
        let ([cert_flag, cert, ..], [_, _, key_flag, key]) = (cert.flags(), key.flags());
        vec![cert_flag, cert, key_flag, key]
    };
    let good = flags(&one, &one);
    let missing = [&good[..3], &["nowhere.pem".to_owned()]].concat();
    let of_chain = |chain: &str| [&good[..1], &[chain.to_owned()], &good[2..]].concat();
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "").expect("it is writable");
    let empty = of_chain(empty.to_str().expect("it is UTF-8"));
    for (flags, expected) in [
        (flags(&one, &other), "does not belong to the certificate in"),
        (missing, "nowhere.pem cannot be read"),
        (empty, "empty.pem holds no certificate in PEM"),
        (
            of_chain("/dev/zero"),
            "/dev/zero cannot be read: it is a device; replace it by a regular file",
        ),
        (
            good[..2].to_vec(),
            "tls_cert (flag --tls-cert): requires tls_key",
        ),
        (
            good[2..].to_vec(),
            "tls_key (flag --tls-key): requires tls_cert",
        ),
        (good, ""),
    ] {
        let output = Command::new(program())
            .args(["serve", "--check-config"])
            .args(flags)
            .current_dir(scratch())
            .output()
            .expect("the command can be run");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(expected), "{stderr}");
        let code = if expected.is_empty() { 0 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(!stderr.contains("PRIVATE"), "{stderr}");
    }
}

#[test]
fn interim_replies_come_before_the_reply_under_tls() {
    let safe = Safe::new(&[]);
    let mut peer = safe.connect();
    let creation = Request::new("POST", UPLOADS)
        .header("Host", safe.server.address())
        .header("Content-Type", "image/png")
        .header("Upload-Draft-Interop-Version", 8)
        .header("Upload-Complete", "?1")
        .header("Content-Length", MEDIA.len());
    peer.send(creation.head_bytes());
    let started = peer.next_reply().unwrap();
    assert_eq!(started.status, 104, "{started:?}");
    let location = started.header("location").expect("it names the upload");
    assert!(location.starts_with(&safe.server.url()), "{location}");
    peer.send(MEDIA.bytes(0..2_000_000));
    let progress = peer.next_reply().unwrap();
    assert_eq!(progress.status, 104, "{progress:?}");
    let offset: u64 = progress.header("upload-offset").unwrap().parse().unwrap();
    assert!((1..=2_000_000).contains(&offset), "{offset}");
    peer.send(MEDIA.bytes(2_000_000..MEDIA.len()));
    let reply = peer.reply().expect(201);
    assert_eq!(reply.header("upload-complete"), Some("?1"));
    safe.assert_media(&reply.json());
    // The connection is as before.
    let next = Request::new("GET", "/healthz").header("Host", safe.server.address());
    peer.exchange(&next).expect(200);
}
