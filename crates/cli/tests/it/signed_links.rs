//! Signed links, made by `windlass sign` (docs/protocol.md, "Signed links").

mod bounds;
mod once;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::{Session, target_in};
use windlass_testkit::wait;

use crate::server::{own, program, scratch};

const MEDIA: Media = Media::new(71, 300_000);

/// A token with which the tests check the effects of the links.
const TOKENS: &str = "\
[[tokens]]
sha256 = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad' # abc
principal = 'carol'
";

const OLD: &str = "[[links.keys]]\nid = 'old'\nsecret_file = 'old.key'\n";
const NEW: &str =
    "[[links.keys]]\nid = 'new'\nsecret = 'bmV3IG5ldyBuZXcgbmV3IG5ldyBuZXcgbmV3IG5ldyA='\n";
const OLD_SECRET: &str = "6f6c64206f6c64206f6c64206f6c64206f6c64206f6c64206f6c64206f6c6420";

/// A server with keys of links.
struct Linked {
    server: ServerProcess,
    directory: TempDir,
}

impl Linked {
    fn new() -> Self {
        Self::with_settings("")
    }

    fn with_settings(settings: &str) -> Self {
        let directory = TempDir::new_in(scratch()).expect("it is writable");
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).expect("it is writable");
        };
        write("old.key", &format!("{OLD_SECRET}\n"));
        write("auth.toml", &format!("{TOKENS}{OLD}"));
        let config = format!("[auth]\nfile = 'auth.toml'\n{settings}");
        write("windlass.toml", &config);
        let config = directory.path().join("windlass.toml");
        let arguments = ["--log", "trace", "--config", text(&config)];
        let server = own(&arguments);
        Self { server, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Replaces the file of credentials and waits until the server has read it.
    fn replace(&self, links: &str) {
        let reloaded = || self.server.stderr().matches("was read again").count();
        let before = reloaded();
        std::fs::write(self.path("auth.toml"), format!("{TOKENS}{links}")).expect("it is writable");
        self.server.hang_up();
        wait::until("the credentials are read again", || reloaded() > before);
    }

    fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.server.address())
    }

    /// Signs a link, for an hour unless the flags say otherwise.
    #[track_caller]
    fn sign(&self, flags: &[&str], target: &str) -> Link {
        let config = self.path("windlass.toml");
        let url = self.url(target);
        let expires = ["--expires", "1h"];
        let expires = if flags.contains(&"--expires") {
            &[][..]
        } else {
            &expires
        };
        let words = [
            &["sign", "--json", "--config", text(&config)],
            expires,
            flags,
            &[&url],
        ];
        let output = run(&words.concat());
        assert!(output.status.success(), "{output:?}");
        let printed: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let url = printed["url"].as_str().expect("a URL").to_owned();
        let parameter = url[url.find("X-Windlass-Link=").expect("it is one")..].to_owned();
        Link {
            target: url[url[8..].find('/').expect("a path") + 8..].to_owned(),
            id: printed["id"].as_str().expect("an id").to_owned(),
            expires: printed["expires"].as_u64().expect("a time"),
            url,
            parameter,
        }
    }

    /// A request as its client sends it, to the host of the link.
    fn request(&self, verb: &str, target: impl Into<String>) -> Request {
        Request::new(verb, target).header("Host", self.server.address())
    }

    fn simple(&self, link: &Link) -> Request {
        let request = self.request("POST", format!("{}&uploadType=media", link.target));
        request.header("Content-Type", "image/png")
    }

    #[track_caller]
    fn send(&self, request: &Request) -> Reply {
        exchange(self.server.address(), request)
    }

    /// Checks that a request is refused, and why.
    #[track_caller]
    fn check_refused(&self, request: &Request, status: u16, said: &str) {
        check_refusal(&self.send(request), status, said);
    }

    /// Checks the media of the animal that a reply shows.
    #[track_caller]
    fn check_media(&self, reply: &Reply, media: Media) {
        let download = farm::download(&farm::id(reply));
        let reply = self.send(&download.header("Authorization", "Bearer abc"));
        assert!(reply.expect(200).body == media.whole(), "other media");
    }

    /// An animal that a link uploads.
    #[track_caller]
    fn animal(&self) -> Reply {
        let link = self.sign(&[], UPLOADS);
        self.send(&self.simple(&link).body(MEDIA.whole()))
            .expect(200)
    }

    /// Number of animals.
    #[track_caller]
    fn count(&self) -> usize {
        let list = farm::list("").header("Authorization", "Bearer abc");
        let list = self.send(&list).expect(200).json();
        list["items"].as_array().map_or(0, Vec::len)
    }

    /// The log has neither a signature nor a link.
    #[track_caller]
    fn check_log(&self, link: &Link) {
        let (_, signature) = link.parameter.rsplit_once('.').expect("a signature");
        let log = self.server.stderr();
        assert!(
            log.contains("answered") && !log.contains(signature),
            "{log}"
        );
        assert!(!log.contains("X-Windlass-Link"), "{log}");
    }
}

/// A link that `windlass sign` has printed.
struct Link {
    url: String,
    /// Path and query.
    target: String,
    /// The parameter that makes it a link.
    parameter: String,
    id: String,
    expires: u64,
}

fn text(path: &Path) -> &str {
    path.to_str().expect("it is UTF-8")
}

fn run(words: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(words).current_dir(scratch());
    command.output().expect("it can be run")
}

#[track_caller]
fn check_refusal(reply: &Reply, status: u16, said: &str) {
    assert_eq!(reply.status, status, "{}", reply.text());
    let message = reply.json()["error"]["message"].to_string();
    assert!(message.contains(said), "{message}");
}

#[test]
fn link_uploads_without_credentials_by_every_upload_type() {
    let linked = Linked::new();
    let link = linked.sign(&[], UPLOADS);
    let simple = linked
        .send(&linked.simple(&link).body(MEDIA.whole()))
        .expect(200);
    linked.check_media(&simple, MEDIA);

    let multipart = format!("{}&uploadType=multipart", link.target);
    let body = "--b\r\nContent-Type: application/json\r\n\r\n{\"name\":\"Bella\"}\r\n--b\r\n\
                Content-Type: image/png\r\n\r\ncow\r\n--b--\r\n";
    let multipart = linked.request("POST", multipart);
    let multipart = multipart.header("Content-Type", "multipart/related; boundary=b");
    let animal = linked.send(&multipart.body(body)).expect(200);
    assert_eq!(animal.field("name"), "Bella");

    let start = linked.request("POST", format!("{}&uploadType=resumable", link.target));
    let started = linked.send(&start.body("")).expect(200);
    let location = started.header("location").expect("a session URI");
    assert!(!location.contains("X-Windlass-Link"), "{location}");
    let session = Session::of_reply(linked.server.address(), &started);
    session.append(MEDIA, 0..262_144).expect(308);
    let animal = session.append(MEDIA, 262_144..MEDIA.len()).expect(201);
    linked.check_media(&animal, MEDIA);

    let start = linked
        .request("POST", &link.target)
        .header("X-Goog-Upload-Protocol", "resumable")
        .header("X-Goog-Upload-Command", "start");
    let started = linked.send(&start.body("")).expect(200);
    let target = target_in(&started, "x-goog-upload-url").expect("a session URI");
    let rest = linked
        .request("POST", target)
        .header("X-Goog-Upload-Command", "upload, finalize")
        .header("X-Goog-Upload-Offset", 0);
    let animal = linked.send(&rest.body(MEDIA.whole())).expect(200);
    linked.check_media(&animal, MEDIA);
    linked.check_log(&link);
}

/// Fields of a creation, fields of a part, and the status of the reply to the last part.
type Fields<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)], u16);

#[test]
fn link_uploads_without_credentials_by_tus_and_the_draft() {
    let version = ("Tus-Resumable", "1.0.0");
    let tus: Fields<'_> = (
        &[version, ("Upload-Length", "300000")],
        &[
            version,
            ("Content-Type", "application/offset+octet-stream"),
            ("Upload-Offset", "0"),
        ],
        204,
    );
    let draft: Fields<'_> = (
        &[("Upload-Complete", "?0")],
        &[
            ("Content-Type", "application/partial-upload"),
            ("Upload-Offset", "0"),
            ("Upload-Complete", "?1"),
        ],
        201,
    );
    let linked = Linked::new();
    let link = linked.sign(&[], UPLOADS);
    for (creation, part, status) in [tus, draft] {
        let request = |verb: &str, target: &str, fields: &[(&str, &str)]| {
            let request = linked.request(verb, target);
            let fields = fields.iter();
            fields.fold(request, |request, (name, value)| {
                request.header(name, value)
            })
        };
        let creation = request("POST", &link.target, creation).body("");
        let started = linked.send(&creation).expect(201);
        let target = target_in(&started, "location").expect("a session URI");
        assert!(!target.contains("X-Windlass-Link"), "{target}");
        let rest = request("PATCH", &target, part).body(MEDIA.whole());
        linked.send(&rest).expect(status);
        // The link is for POST. The draft creates by PATCH, too.
        let other = request("PATCH", &link.target, part).body("cow");
        let refused = linked.send(&other).expect(403);
        let said = refused.text();
        assert!(said.contains("is for POST, not for"), "{said}");
    }
    assert_eq!(linked.count(), 2);
    linked.check_log(&link);
}

#[test]
fn link_is_good_for_a_session_where_sessions_demand_credentials_of_their_owner() {
    let linked = Linked::with_settings("[sessions]\nauth = 'owner'\n");
    let link = linked.sign(&["--as", "dave"], UPLOADS);
    let start = linked.request("POST", format!("{}&uploadType=resumable", link.target));
    let started = linked.send(&start.body("")).expect(200);
    let session = Session::of_reply(linked.server.address(), &started);
    // The second one finds the session in the cache.
    session.append(MEDIA, 0..262_144).expect(308);
    session.append(MEDIA, 262_144..MEDIA.len()).expect(201);
}

#[test]
fn client_uploads_and_downloads_by_links_and_shows_neither() {
    let linked = Linked::new();
    let file = linked.path("cow.png");
    std::fs::write(&file, MEDIA.whole()).expect("it is writable");
    let journal = linked.path("journal");
    let upload = |kind: &str, link: &Link| {
        run(&[
            "upload",
            text(&file),
            &link.url,
            "--type",
            kind,
            "--journal",
            text(&journal),
            "--json",
            "--retries",
            "0",
        ])
    };
    let link = linked.sign(&[], UPLOADS);
    let (_, secret) = link.parameter.rsplit_once('.').expect("a signature");
    let mut id = String::new();
    for kind in ["media", "multipart", "resumable"] {
        let output = upload(kind, &link);
        assert!(output.status.success(), "{output:?}");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!shown.contains(secret), "{shown}");
        let last = shown.lines().last().expect("an event");
        let event: Value = serde_json::from_str(last).expect("it is JSON");
        id = event["resource"]["id"].as_str().expect("an id").to_owned();
    }
    let link = linked.sign(&[], &format!("{ANIMALS}/{id}"));
    let target = linked.path("again.png");
    let output = run(&["download", &link.url, "-o", text(&target), "--json"]);
    assert!(output.status.success(), "{output:?}");
    assert!(
        std::fs::read(target).expect("a file") == MEDIA.whole(),
        "other media"
    );
    let (_, of_download) = link.parameter.rsplit_once('.').expect("a signature");
    assert!(
        !String::from_utf8_lossy(&output.stdout).contains(of_download),
        "{output:?}"
    );

    let expired = linked.sign(&["--expires", "0s"], UPLOADS);
    let output = upload("resumable", &expired);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("the signed link has expired"), "{said}");
    assert!(!said.contains("X-Windlass-Link"), "{said}");
}

#[test]
fn download_link_gives_the_media_whole_and_by_range_and_nothing_else() {
    let linked = Linked::new();
    let animal = format!("{ANIMALS}/{}", farm::id(&linked.animal()));
    let link = linked.sign(&[], &animal);
    let get = linked.request("GET", &link.target);
    assert!(
        linked.send(&get).expect(200).body == MEDIA.whole(),
        "other media"
    );
    let ranged = linked
        .send(&get.clone().header("Range", "bytes=10-19"))
        .expect(206);
    assert!(ranged.body == MEDIA.bytes(10..20), "other media");
    let head = linked.request("HEAD", &link.target);
    let mut peer = RawPeer::connect(linked.server.address());
    peer.send(head.to_bytes());
    assert_eq!(peer.head_reply().status, 200);

    let said = "is for GET, not for";
    for verb in ["DELETE", "POST", "PUT", "PATCH"] {
        let request = linked.request(verb, &link.target).body("{}");
        linked.check_refused(&request, 403, said);
    }
    let overridden = linked.request("POST", &link.target).body("");
    let overridden = overridden.header("X-HTTP-Method-Override", "DELETE");
    linked.check_refused(&overridden, 403, said);
    let plain = linked.request("GET", format!("{animal}?{}", link.parameter));
    linked.check_refused(&plain, 403, "sets the parameter alt");
    // The link is signed for a request that downloads no media.
    for target in [format!("{animal}?alt=json"), format!("{ANIMALS}?alt=json")] {
        let link = linked.sign(&[], &target);
        let request = linked.request("GET", &link.target);
        linked.check_refused(&request, 403, "is only for a download of media");
    }
    let link = linked.sign(&[], ANIMALS);
    linked.check_refused(
        &linked.request("GET", &link.target),
        400,
        "no media to download",
    );
    assert_eq!(linked.count(), 1);
}

#[test]
fn link_for_an_upload_is_refused_for_everything_else() {
    let linked = Linked::new();
    let link = linked.sign(&[], UPLOADS);
    let moved = |verb: &str, path: &str| linked.request(verb, format!("{path}?{}", link.parameter));
    for request in [
        moved("GET", UPLOADS),
        moved("PUT", UPLOADS).body(""),
        moved("DELETE", UPLOADS).body(""),
    ] {
        linked.check_refused(&request, 403, "is for POST, not for");
    }
    for path in [
        ANIMALS,
        "/upload/farm/v1/animals/1",
        "/resumable/upload/farm/v1/animals",
        "/no/such/path",
    ] {
        linked.check_refused(&moved("POST", path).body("{}"), 403, "another path");
    }
    let elsewhere = linked.simple(&link).header("Host", "farm.localhost");
    linked.check_refused(&elsewhere.body("cow"), 403, "another host");
    // Signed for a method that takes no media here.
    let plain = linked.sign(&["--method", "POST"], ANIMALS);
    let insert = linked.request("POST", &plain.target).body("{}");
    linked.check_refused(&insert, 403, "is only for an upload of media");
    assert_eq!(linked.count(), 0);
}

#[test]
fn expired_altered_and_doubled_links_are_refused_with_the_reason() {
    let linked = Linked::new();
    let expired = linked.sign(&["--expires", "0s"], UPLOADS);
    let refused = |link: &Link, said: &str| {
        linked.check_refused(&linked.simple(link).body("cow"), 403, said);
    };
    refused(&expired, "the signed link has expired; get a new one");
    let mut link = linked.sign(&[], UPLOADS);
    let sound = link.target.clone();
    link.target = sound.replace("X-Windlass-Link=1.old.", "X-Windlass-Link=1.other.");
    refused(&link, "a key that this server does not have");
    let at = sound.rfind('.').expect("a signature") + 5;
    let other = if &sound[at..=at] == "A" { "B" } else { "A" };
    link.target = format!("{}{other}{}", &sound[..at], &sound[at + 1..]);
    refused(&link, "has been altered");
    link.target = sound[..sound.len() - 1].to_owned();
    refused(&link, "the signed link");
    link.target = format!("{sound}&{}", link.parameter);
    refused(&link, "several signed links");
    link.target = sound;
    linked.send(&linked.simple(&link).body("cow")).expect(200);
    linked.check_log(&link);
}

#[test]
fn origin_of_a_link_is_demanded() {
    let linked = Linked::new();
    let link = linked.sign(&["--origin", "https://app.example.com"], UPLOADS);
    let said = "may be used only by pages of https://app.example.com";
    linked.check_refused(&linked.simple(&link).body("cow"), 403, said);
    for (origin, status) in [
        ("https://evil.example", 403),
        ("https://app.example.com", 200),
    ] {
        let request = linked.simple(&link).header("Origin", origin).body("cow");
        linked.send(&request).expect(status);
    }
}

#[test]
fn parameters_of_a_link_are_fixed() {
    let linked = Linked::new();
    let link = linked.sign(&[], &format!("{UPLOADS}?fields=id"));
    let body = linked
        .send(&linked.simple(&link).body("cow"))
        .expect(200)
        .json();
    assert_eq!(body.as_object().map(serde_json::Map::len), Some(1));
    let other = link.target.replace("fields=id", "fields=name");
    let request = linked.request("POST", format!("{other}&uploadType=media"));
    linked.check_refused(&request.body("cow"), 403, "sets the parameter fields");
}

#[test]
fn revoked_link_is_refused_after_sighup_and_others_are_not() {
    let linked = Linked::new();
    let (link, other) = (linked.sign(&[], UPLOADS), linked.sign(&[], UPLOADS));
    let start = linked.request("POST", format!("{}&uploadType=resumable", link.target));
    let started = linked.send(&start.body("")).expect(200);
    let Link { id, expires, .. } = &link;
    linked.replace(&format!(
        "{OLD}[[links.revoked]]\nid = '{id}'\nexpires = {expires}\n"
    ));
    let refused = linked.simple(&link).body("cow");
    linked.check_refused(&refused, 403, "the signed link has been revoked");
    linked.send(&linked.simple(&other).body("cow")).expect(200);
    // The session of the link is a separate credential.
    let session = Session::of_reply(linked.server.address(), &started);
    session.append(MEDIA, 0..MEDIA.len()).expect(201);
}

#[test]
fn key_is_rotated_under_running_uploads_and_none_fails() {
    let linked = Linked::new();
    let address = linked.server.address();
    let old = linked.sign(&[], UPLOADS);
    let start = |link: &Link| {
        let start = linked.request("POST", format!("{}&uploadType=resumable", link.target));
        Session::of_reply(address, &linked.send(&start.body("")).expect(200))
    };
    // The body of one request is on its way during both changes, and a session is between two
    // requests.
    let request = linked.simple(&old).body(MEDIA.whole());
    let bytes = request.to_bytes();
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    let mut running = RawPeer::connect(address);
    running.send(first);
    let session = start(&old);
    session.append(MEDIA, 0..262_144).expect(308);

    linked.replace(&format!("{NEW}{OLD}"));
    let new = linked.sign(&[], UPLOADS);
    assert!(
        new.parameter.starts_with("X-Windlass-Link=1.new."),
        "{}",
        new.target
    );
    for link in [&old, &new] {
        linked.send(&linked.simple(link).body("cow")).expect(200);
    }
    let later = start(&old);

    linked.replace(NEW);
    let refused = linked.simple(&old).body("cow");
    linked.check_refused(&refused, 403, "a key that this server does not have");
    linked.send(&linked.simple(&new).body("cow")).expect(200);
    running.send(rest);
    running.reply().expect(200);
    session.append(MEDIA, 262_144..MEDIA.len()).expect(201);
    later.append(MEDIA, 0..MEDIA.len()).expect(201);
}

#[test]
fn server_without_keys_refuses_links() {
    let linked = Linked::new();
    let link = linked.sign(&[], UPLOADS);
    linked.replace("");
    let refused = linked.simple(&link).body("cow");
    linked.check_refused(&refused, 403, "a key that this server does not have");
}

#[test]
fn link_is_not_made_without_a_key() {
    let linked = Linked::new();
    let sign = |flags: &[&str]| {
        let url = linked.url(UPLOADS);
        let output = run(&[&["sign", "--expires", "1h"], flags, &[&url]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let file = linked.path("auth.toml");
    let (code, said) = sign(&["--key-file", text(&file)]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("id ") && said.contains("expires "), "{said}");
    let check = |links: &str, message: &str| {
        std::fs::write(&file, links).expect("it is writable");
        let (code, said) = sign(&["--key-file", text(&file)]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(message), "{said}");
    };
    check(TOKENS, "no keys of links");
    check(
        "[[links.keys]]\nid = 'a'\nsecret = 's3cret'\n",
        "at least 32 bytes",
    );
    check(
        "[[links.keys]]\nid = 'a.b'\nsecret_file = 'old.key'\n",
        "letters, digits",
    );
    check(
        "[[links.keys]]\nid = 'a'\n",
        "exactly one of secret and secret_file",
    );
    check(
        "[[links.keys]]\nid = 'a'\nsecret_file = 'no.key'\n",
        "cannot read",
    );
    check(
        "[[links.keys]]\nid = 'a'\nsecret_file = 'windlass.toml'\n",
        "at least 32 bytes",
    );
    let (code, said) = sign(&[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--key-file"), "{said}");
}
