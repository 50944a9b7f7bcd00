//! Client certificates (mutual TLS): which are accepted, and which are refused.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use rustls::ClientConfig;
use serde_json::Value;
use tempfile::TempDir;
use windlass_testkit::farm::{ANIMALS, UPLOADS};
use windlass_testkit::http2::{Event, Http2Peer};
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request};
use windlass_testkit::tls::{Authority, Identity};
use windlass_testkit::wait;

use crate::authentication::bearing;
use crate::server::{own, program, scratch};

const HTTP_1: &[&str] = &["http/1.1"];

/// The hash of the token `abc`.
const TOKEN: &str = "[[tokens]]\nprincipal = 'alice'\n\
                     sha256 = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'\n";

const CAMERA: &str = "[[certificates]]\nname = 'Camera-7.example.com'\nprincipal = 'camera-7'\n";

/// A server that asks for client certificates of its authority.
struct Mutual {
    server: ServerProcess,
    authority: Authority,
    directory: TempDir,
}

impl Mutual {
    /// A server with this file of credentials, if it is not empty, and these settings besides.
    fn new(authority: Authority, credentials: &str, settings: &str) -> Self {
        let directory = TempDir::new_in(scratch()).expect("it is writable");
        let config = configuration(&authority, directory.path(), credentials, settings);
        Self {
            server: own(&["--config", config.to_str().expect("it is UTF-8")]),
            authority,
            directory,
        }
    }

    fn optional(credentials: &str) -> Self {
        Self::new(Authority::new(scratch()), credentials, "")
    }

    fn client(&self, identity: Option<&Identity>) -> Arc<ClientConfig> {
        match identity {
            Some(identity) => self.authority.client_with(HTTP_1, identity),
            None => self.authority.client(HTTP_1),
        }
    }

    #[track_caller]
    fn exchange(&self, identity: Option<&Identity>, request: &Request) -> Reply {
        let client = self.client(identity);
        RawPeer::connect_tls(self.server.address(), &client).exchange(request)
    }

    #[track_caller]
    fn status(&self, identity: Option<&Identity>) -> u16 {
        self.exchange(identity, &Request::new("GET", ANIMALS))
            .status
    }

    /// Returns the error of a client after the server has refused its handshake. In TLS 1.3 the
    /// error comes after the handshake.
    #[track_caller]
    fn refusal(&self, identity: Option<&Identity>) -> String {
        let request = Request::new("GET", "/healthz");
        let tried = self.try_exchange(&self.client(identity), &request);
        tried.expect_err("it is refused").to_string()
    }

    fn try_exchange(&self, client: &Arc<ClientConfig>, request: &Request) -> io::Result<Reply> {
        let mut peer = RawPeer::try_connect_tls(self.server.address(), client)?;
        peer.try_send(request.to_bytes())?;
        peer.try_reply()
    }

    /// Tells the server to read its files again, and waits until it has.
    #[track_caller]
    fn reload(&self, said: &str) {
        let before = self.server.stderr().matches(said).count();
        self.server.hang_up();
        wait::until(said, || self.server.stderr().matches(said).count() > before);
    }

    /// The principals in the audit log.
    fn principals(&self) -> Vec<String> {
        let log = fs::read_to_string(self.directory.path().join("audit.log"));
        let log = log.expect("there is a log");
        let entries = log.lines().filter_map(|line| {
            let entry: Value = serde_json::from_str(line).expect("a line is a JSON object");
            Some(entry.get("principal")?.as_str()?.to_owned())
        });
        entries.collect()
    }
}

/// Writes a configuration, and the file of credentials next to it.
fn configuration(
    authority: &Authority,
    directory: &Path,
    credentials: &str,
    settings: &str,
) -> PathBuf {
    let path = |path: PathBuf| path.display().to_string();
    let file = directory.join("windlass.toml");
    let mut text = format!(
        "tls_cert = '{}'\ntls_key = '{}'\ntls_client_ca = '{}'\n{settings}\n[audit]\nfile = 'audit.log'\n",
        path(authority.certificate()),
        path(authority.key()),
        path(authority.root()),
    );
    if !credentials.is_empty() {
        fs::write(directory.join("auth.toml"), credentials).expect("it is writable");
        text += "[auth]\nfile = 'auth.toml'\n";
    }
    fs::write(&file, text).expect("it is writable");
    file
}

#[test]
fn certificate_is_a_credential_over_both_versions_of_http() {
    let authority = Authority::new(scratch());
    let (by_name, by_fingerprint, unknown) = (
        authority.identity("camera-7.example.com"),
        authority.identity("barn.example.com"),
        authority.identity("stranger.example.com"),
    );
    let fingerprint = by_fingerprint.fingerprint();
    let entry = format!("[[certificates]]\nsha256 = '{fingerprint}'\nprincipal = 'barn'\n");
    let mutual = Mutual::new(authority, &format!("{CAMERA}{entry}"), "");
    for (identity, expected) in [
        (Some(&by_name), 200),
        (Some(&by_fingerprint), 200),
        (Some(&unknown), 401),
        (None, 401),
    ] {
        assert_eq!(mutual.status(identity), expected, "{identity:?}");
        let client = match identity {
            Some(identity) => mutual.authority.client_with(&["h2"], identity),
            None => mutual.authority.client(&["h2"]),
        };
        let mut peer = Http2Peer::connect_tls(mutual.server.address(), &client, 65_535);
        // The second request on the connection has the certificate as well.
        for _ in 0..2 {
            let stream = peer.get(ANIMALS);
            let head =
                std::iter::from_fn(|| peer.next_event().expect("an event")).find_map(|event| {
                    match event {
                        Event::Head {
                            stream: of, status, ..
                        } if of == stream => Some(status),
                        _ => None,
                    }
                });
            assert_eq!(head, Some(expected), "{identity:?}");
        }
    }
}

#[test]
fn principal_of_a_certificate_owns_what_it_uploads() {
    let (uri, dns) = ("spiffe://example.com/camera/7", "barn.example.com");
    let credentials = format!("certificates_as_principals = true\n{CAMERA}");
    let mutual = Mutual::optional(&credentials);
    let named = mutual.authority.identity("camera-7.example.com");
    let by_uri = mutual.authority.identity(uri);
    let by_dns = mutual.authority.identity(dns);
    let upload = Request::new("POST", format!("{UPLOADS}?uploadType=media")).body("moo");
    for identity in [&named, &by_uri, &by_dns] {
        mutual.exchange(Some(identity), &upload).expect(200);
    }
    let mut principals = mutual.principals();
    principals.dedup();
    assert_eq!(principals, ["camera-7", uri, dns]);
}

#[test]
fn token_counts_before_the_certificate_and_without_one() {
    let mutual = Mutual::optional(&format!("{TOKEN}{CAMERA}"));
    let identity = mutual.authority.identity("camera-7.example.com");
    let upload = Request::new("POST", format!("{UPLOADS}?uploadType=media")).body("moo");
    for identity in [Some(&identity), None] {
        mutual
            .exchange(identity, &bearing(&upload, "abc"))
            .expect(200);
        mutual
            .exchange(identity, &bearing(&upload, "wrong"))
            .expect(401);
    }
    let mut principals = mutual.principals();
    principals.dedup();
    assert_eq!(principals, ["alice"]);
}

#[test]
fn certificate_that_is_not_valid_ends_the_handshake() {
    let mutual = Mutual::optional(CAMERA);
    let name = "camera-7.example.com";
    let expired = mutual.authority.expired_identity(name);
    assert!(
        mutual
            .refusal(Some(&expired))
            .contains("CertificateExpired")
    );
    let foreign = Authority::new(scratch()).identity(name);
    mutual.refusal(Some(&foreign));
    let healthy = mutual.authority.identity(name);
    assert_eq!(mutual.status(Some(&healthy)), 200);
    // Anyone can send any certificate.
    let stderr = mutual.server.stderr();
    assert!(
        !stderr.contains("WARN") && !stderr.contains("ERROR"),
        "{stderr}"
    );
}

#[test]
fn refused_handshake_is_logged_with_its_reason_and_without_the_certificate() {
    let settings = "log = 'warn,windlass=info,windlass_server=debug'";
    let mutual = Mutual::new(Authority::new(scratch()), CAMERA, settings);
    let expired = mutual.authority.expired_identity("secret-name.example.com");
    mutual.refusal(Some(&expired));
    // The client may see the alert before the line is written.
    wait::until("the refusal is logged", || {
        mutual.server.stderr().contains("the TLS handshake failed")
    });
    let stderr = mutual.server.stderr();
    assert!(stderr.contains("certificate expired"), "{stderr}");
    assert!(!stderr.contains("secret-name"), "{stderr}");
}

#[test]
fn required_certificate_is_demanded_of_every_connection() {
    let required = "tls_client_certificates = 'required'";
    let mutual = Mutual::new(Authority::new(scratch()), "", required);
    assert!(mutual.refusal(None).contains("CertificateRequired"));
    let anyone = mutual.authority.identity("anyone.example.com");
    assert_eq!(mutual.status(Some(&anyone)), 200);
}

#[test]
fn client_that_still_sends_sees_why_it_is_refused() {
    let required = "tls_client_certificates = 'required'";
    let mutual = Mutual::new(Authority::new(scratch()), "", required);
    let upload = Request::new("POST", format!("{UPLOADS}?uploadType=media"));
    let upload = upload.body(vec![0; 8 << 20]);
    let tried = mutual.try_exchange(&mutual.client(None), &upload);
    let told = tried.expect_err("it is refused").to_string();
    assert!(told.contains("CertificateRequired"), "{told}");
}

#[test]
fn revoked_certificate_is_refused_after_sighup_and_open_connections_go_on() {
    let authority = Authority::new(scratch());
    let (kept, revoked) = (
        authority.identity("camera-7.example.com"),
        authority.identity("camera-7.example.com"),
    );
    let list = authority.revoke(&[]);
    let settings = format!("tls_client_crl = '{}'", list.display());
    let mutual = Mutual::new(authority, CAMERA, &settings);
    let request = Request::new("GET", ANIMALS);
    let client = mutual.client(Some(&revoked));
    let mut open = RawPeer::connect_tls(mutual.server.address(), &client);
    open.exchange(&request).expect(200);

    mutual.authority.revoke(&[&revoked]);
    mutual
        .try_exchange(&client, &request)
        .expect("not yet read")
        .expect(200);
    mutual.reload("the trust in client certificates was read again");
    open.exchange(&request).expect(200);
    let refused = mutual
        .try_exchange(&client, &request)
        .expect_err("it is revoked");
    assert!(
        refused.to_string().contains("CertificateRevoked"),
        "{refused}"
    );
    assert_eq!(mutual.status(Some(&kept)), 200);

    fs::write(&list, "nothing").expect("it is writable");
    mutual.reload("holds no revocation list in PEM");
    mutual.refusal(Some(&revoked));
    assert_eq!(mutual.status(Some(&kept)), 200);
}

#[test]
fn new_authority_is_trusted_after_sighup_and_the_old_one_is_not() {
    let mutual = Mutual::optional(CAMERA);
    let old = mutual.authority.identity("camera-7.example.com");
    let authority = Authority::new(scratch());
    let new = authority.identity("camera-7.example.com");
    assert_eq!(mutual.status(Some(&old)), 200);
    fs::copy(authority.root(), mutual.authority.root()).expect("it is writable");
    mutual.reload("the trust in client certificates was read again");
    mutual.refusal(Some(&old));
    assert_eq!(mutual.status(Some(&new)), 200);
}

#[test]
fn each_connection_shows_its_certificate_again() {
    let mutual = Mutual::optional(CAMERA);
    let identity = mutual.authority.identity("camera-7.example.com");
    let client = mutual.client(Some(&identity));
    for _ in 0..2 {
        let mut peer = RawPeer::connect_tls(mutual.server.address(), &client);
        peer.exchange(&Request::new("GET", ANIMALS)).expect(200);
        assert!(!peer.is_resumed());
    }
}

#[test]
fn page_of_another_origin_changes_nothing_by_the_browsers_certificate() {
    let settings = "[cors]\norigins = ['https://app.example']\ncredentials = true";
    let mutual = Mutual::new(Authority::new(scratch()), CAMERA, settings);
    let identity = mutual.authority.identity("camera-7.example.com");
    let own = mutual.server.url();
    let upload = Request::new("POST", format!("{UPLOADS}?uploadType=media")).body("moo");
    let batch =
        "--b\r\nContent-Type: application/http\r\n\r\nDELETE /farm/v1/animals/1\r\n\r\n--b--";
    let batch = Request::new("POST", "/batch")
        .header("content-type", "multipart/mixed; boundary=b")
        .body(batch);
    for (origin, expected) in [
        ("https://evil.example", 401),
        ("null", 401),
        ("https://app.example", 200),
        (&own, 200),
    ] {
        let ask = |request: &Request| {
            let request = request.clone().header("Origin", origin);
            let request = request.header("Host", mutual.server.address());
            mutual.exchange(Some(&identity), &request)
        };
        assert_eq!(ask(&upload).status, expected, "{origin}");
        let reply = ask(&batch);
        assert_eq!(reply.status, expected, "{origin}");
        let is_found = reply.text().contains("HTTP/1.1 404");
        assert_eq!(is_found, expected == 200, "{origin}: {reply:?}");
        ask(&Request::new("GET", ANIMALS)).expect(200);
    }
}

fn windlass(mutual: &Mutual, arguments: &[&str], identity: Option<&Identity>) -> Output {
    let mut command = Command::new(program());
    command
        .args(arguments)
        .env("SSL_CERT_FILE", mutual.authority.root())
        .env_remove("SSL_CERT_DIR")
        .env_remove("WINDLASS_CLIENT_CERT")
        .env_remove("WINDLASS_CLIENT_KEY")
        .current_dir(mutual.directory.path())
        .stdin(Stdio::null());
    if let Some(identity) = identity {
        command.arg("--client-cert").arg(identity.file());
    }
    command.output().expect("it can be run")
}

#[test]
fn the_client_uploads_and_downloads_by_its_certificate() {
    let required = "tls_client_certificates = 'required'";
    let mutual = Mutual::new(Authority::new(scratch()), CAMERA, required);
    let identity = mutual.authority.identity("camera-7.example.com");
    fs::write(mutual.directory.path().join("cow.txt"), "moo").expect("it is writable");
    let url = format!("{}{UPLOADS}", mutual.server.url());
    for upload_type in ["media", "resumable"] {
        let upload = [
            "upload",
            "cow.txt",
            &url,
            "--no-journal",
            "--type",
            upload_type,
        ];
        let output = windlass(&mutual, &upload, Some(&identity));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        let resource: Value = serde_json::from_slice(&output.stdout).expect("a resource");
        let link = format!(
            "{}{ANIMALS}/{}",
            mutual.server.url(),
            resource["id"].as_str().expect("an id")
        );
        let download = ["download", &link, "-o", upload_type];
        let output = windlass(&mutual, &download, Some(&identity));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let media = fs::read_to_string(mutual.directory.path().join(upload_type));
        assert_eq!(media.expect("it is there"), "moo");
    }
    let upload = ["upload", "cow.txt", &url, "--no-journal"];
    let output = windlass(&mutual, &upload, None);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("demands a client certificate"), "{stderr}");
    assert!(stderr.contains("hint: --client-cert"), "{stderr}");
}

#[test]
fn certificate_of_the_client_that_cannot_be_used_is_an_error_before_anything_is_sent() {
    let mutual = Mutual::optional(CAMERA);
    let url = format!("{}{UPLOADS}", mutual.server.url());
    let root = mutual.authority.root();
    let root = root.to_str().expect("it is UTF-8");
    for (flags, code, said) in [
        (
            &["--client-cert", "nowhere.pem"][..],
            3,
            "cannot read nowhere.pem",
        ),
        (
            &["--client-cert", root],
            2,
            "no unencrypted private key in PEM",
        ),
        (
            &["--client-key", root],
            2,
            "--client-key requires --client-cert",
        ),
    ] {
        let upload = [&["upload", "windlass.toml", &url, "--no-journal"], flags].concat();
        let output = windlass(&mutual, &upload, None);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
}

#[test]
fn settings_that_contradict_each_other_are_errors_at_the_start() {
    let authority = Authority::new(scratch());
    let root = authority.root();
    let root = root.to_str().expect("it is UTF-8");
    let [cert, cert_file, key, key_file] = authority.flags();
    let tls = [cert, cert_file, key, key_file];
    let list = authority.revoke(&[]);
    let list = list.to_str().expect("it is UTF-8");
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let auth = directory.path().join("auth.toml");
    fs::write(&auth, CAMERA).expect("it is writable");
    let auth = auth.to_str().expect("it is UTF-8");
    let (ca, required) = (("CA", root), ("CERTIFICATES", "required"));
    let check = |variables: &[(&str, &str)], flags: &[String], said: &str| {
        let mut command = Command::new(program());
        command.args(["serve", "--check-config"]).args(flags);
        for (name, value) in variables {
            let name = match *name {
                "AUTH" => "WINDLASS_AUTH_FILE".to_owned(),
                name => format!("WINDLASS_TLS_CLIENT_{name}"),
            };
            command.env(name, value);
        }
        let output = command
            .current_dir(scratch())
            .output()
            .expect("it can be run");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let code = if said.is_empty() { 0 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{variables:?}: {stderr}");
        assert!(stderr.contains(said), "{variables:?}: {stderr}");
    };
    check(&[ca, ("AUTH", auth)], &tls, "");
    check(&[ca, required, ("CRL", list)], &tls, "");
    let open = [&tls[..], &["--listen".to_owned(), "0.0.0.0:80".to_owned()]].concat();
    check(&[ca, required], &open, "");
    for (variables, flags, said) in [
        (
            &[ca, required][..],
            &tls[..0],
            "requires tls_cert and tls_key",
        ),
        (&[ca], &tls, "requires auth.file"),
        (&[required], &tls, "requires tls_client_ca"),
        (&[("CRL", list)], &tls, "requires tls_client_ca"),
        (
            &[ca, ("CERTIFICATES", "always")],
            &tls,
            "neither optional nor required",
        ),
        (
            &[("CA", "nowhere.pem"), required],
            &tls,
            "nowhere.pem cannot be read",
        ),
        (
            &[("CA", list), required],
            &tls,
            "holds no certificate in PEM",
        ),
        (
            &[ca, required, ("CRL", root)],
            &tls,
            "holds no revocation list in PEM",
        ),
    ] {
        check(variables, flags, said);
    }
}
