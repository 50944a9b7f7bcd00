//! SIGHUP while clients work: the certificate and the credentials are replaced, and no request is
//! lost.
//!
//! That a key of links is rotated under running uploads is in `signed_links`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};

use ring::digest;
use serde_json::json;
use tempfile::TempDir;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::http2::Http2Peer;
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request};
use windlass_testkit::session::{content_range, target_in};
use windlass_testkit::tls::Authority;
use windlass_testkit::wait;

use crate::authentication::bearing;
use crate::credentials::{Signer, now};
use crate::server::{own, replace_by_fifo, scratch};

/// Media in a file, in three chunks, and media in a row of the ledger.
const LARGE: Media = Media::new(91, 600_000);
const SMALL: Media = Media::new(92, 10_000);
const CHUNK: u64 = 262_144;

/// How often everything is replaced.
const RELOADS: usize = 8;

/// In every file of credentials.
const TOKEN: &str = "token-that-stays";
const KEY: &str = "key-that-stays";

/// A server under TLS. Its certificate and credentials are replaced.
struct Reloaded {
    server: ServerProcess,
    authority: Authority,
    directory: TempDir,
    signer: Signer,
}

impl Reloaded {
    fn new() -> Self {
        let directory = TempDir::new_in(scratch()).expect("it is writable");
        let signer = Signer::new();
        write(directory.path(), "keys.json", &signer.keys().to_string());
        write(directory.path(), "auth.toml", &credentials(0));
        let config = directory.path().join("windlass.toml");
        write(
            directory.path(),
            "windlass.toml",
            "[auth]\nfile = 'auth.toml'\n",
        );
        let authority = Authority::new(scratch());
        let flags = authority.flags();
        let mut arguments: Vec<_> = flags.iter().map(String::as_str).collect();
        arguments.extend([
            "--log",
            "info",
            "--config",
            config.to_str().expect("it is UTF-8"),
        ]);
        Self {
            server: own(&arguments),
            authority,
            directory,
            signer,
        }
    }

    /// Replaces the certificate and the credentials, and waits until the server has read them.
    fn reload(&self, number: usize) {
        let read = |what: &str| self.server.stderr().matches(what).count();
        let done = || {
            let parts = ["the certificate was", "the file of credentials was"];
            parts.map(|part| read(&format!("{part} read again")))
        };
        assert_eq!(done(), [number - 1; 2]);
        self.authority.renew();
        write(self.directory.path(), "auth.toml", &credentials(number));
        self.server.hang_up();
        wait::until("everything is read again", || done() == [number; 2]);
    }

    /// A connection with a full handshake: a resumed session shows the certificate of its first
    /// handshake.
    fn connect(&self) -> RawPeer {
        let client = self.authority.client(&["http/1.1"]);
        RawPeer::connect_tls(self.server.address(), &client)
    }

    /// Sends a request on a new connection.
    #[track_caller]
    fn ask(&self, request: &Request) -> Reply {
        self.connect().exchange(request)
    }

    fn token_of_issuer(&self) -> String {
        let header = json!({"alg": "EdDSA", "kid": "k1"});
        let claims =
            json!({"iss": "issuer", "aud": "windlass", "sub": "carol", "exp": now() + 3600});
        self.signer.token(&header, &claims)
    }
}

/// The token that is in this file of credentials alone.
fn passing(number: usize) -> String {
    format!("token-of-file-{number}")
}

fn credentials(number: usize) -> String {
    let mut text =
        "[[jwt]]\nissuer = 'issuer'\naudience = ['windlass']\njwks_file = 'keys.json'\n".to_owned();
    let mut add = |kind: &str, secret: &str| {
        write!(text, "[[{kind}]]\nprincipal = 'carol'\nsha256 = '").expect("memory suffices");
        for byte in digest::digest(&digest::SHA256, secret.as_bytes()).as_ref() {
            write!(text, "{byte:02x}").expect("memory suffices");
        }
        text.push_str("'\n");
    };
    add("tokens", TOKEN);
    add("tokens", &passing(number));
    add("keys", KEY);
    text
}

/// Replaces a file at once, as an operator should.
fn write(directory: &Path, name: &str, text: &str) {
    let fresh = directory.join("fresh");
    fs::write(&fresh, text).expect("it is writable");
    fs::rename(fresh, directory.join(name)).expect("it is the same directory");
}

/// How a client shows who it is.
#[derive(Clone)]
enum Credential {
    Token(String),
    Key,
}

impl Credential {
    fn on(&self, request: &Request) -> Request {
        match self {
            Self::Token(token) => bearing(request, token),
            Self::Key => request.clone().header("X-Goog-Api-Key", KEY),
        }
    }
}

/// The shared state of the clients.
#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    /// Animals that were made.
    made: AtomicUsize,
}

/// However the test ends, the clients end as well.
struct Over<'a>(&'a Load);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// A client on one connection over HTTP/1.1, which it keeps.
struct Client<'a> {
    peer: RawPeer,
    credential: &'a Credential,
    load: &'a Load,
}

impl Client<'_> {
    /// Sends a request with credentials.
    #[track_caller]
    fn call(&mut self, request: &Request, status: u16) -> Reply {
        self.peer
            .exchange(&self.credential.on(request))
            .expect(status)
    }

    /// Counts an animal that was made, and checks its media.
    #[track_caller]
    fn made(&mut self, animal: &Reply, media: Media) {
        self.load.made.fetch_add(1, Ordering::Relaxed);
        let download = self.call(&farm::download(&farm::id(animal)), 200);
        assert!(download.body == media.whole(), "other media");
    }

    fn everything(&mut self) {
        for media in [SMALL, LARGE] {
            let animal = self.call(&farm::simple(media), 200);
            self.made(&animal, media);
        }
        self.resumable();
        self.x_goog_upload();
        self.call(&farm::list(""), 200);
        let id = "no-such-animal";
        self.call(&Request::new("GET", farm::animal(id)), 404);
    }

    fn resumable(&mut self) {
        let started = self.call(&farm::start("{}"), 200);
        let target = target_in(&started, "location").expect("a session URI");
        for (at, status) in [(0, 308), (CHUNK, 308), (2 * CHUNK, 201)] {
            let range = at..LARGE.len().min(at + CHUNK);
            let put = Request::new("PUT", &target);
            let put = put.header("Content-Range", content_range(LARGE, &range));
            let reply = self.peer.exchange(&put.body(LARGE.bytes(range)));
            let reply = reply.expect(status);
            if status == 201 {
                self.made(&reply, LARGE);
            }
        }
    }

    fn x_goog_upload(&mut self) {
        let start = Request::new("POST", UPLOADS)
            .header("X-Goog-Upload-Protocol", "resumable")
            .header("X-Goog-Upload-Command", "start");
        let started = self.call(&start.body(""), 200);
        let target = target_in(&started, "x-goog-upload-url").expect("a session URI");
        for (command, range) in [
            ("upload", 0..CHUNK),
            ("query", 0..0),
            ("upload, finalize", CHUNK..LARGE.len()),
        ] {
            let post = Request::new("POST", &target).header("X-Goog-Upload-Command", command);
            let post = post.header("X-Goog-Upload-Offset", range.start);
            let reply = self.peer.exchange(&post.body(LARGE.bytes(range)));
            let reply = reply.expect(200);
            if command == "upload, finalize" {
                self.made(&reply, LARGE);
            }
        }
    }
}

/// Works over HTTP/1.1 until it is over; every other round begins with a new connection, so with
/// the certificate of that moment. Returns the number of rounds.
fn work(reloaded: &Reloaded, credential: &Credential, load: &Load, rounds: &AtomicUsize) {
    let mut kept = None;
    while !load.is_over.load(Ordering::Relaxed) {
        let mut client = kept.take().unwrap_or_else(|| Client {
            peer: reloaded.connect(),
            credential,
            load,
        });
        client.everything();
        if rounds.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            kept = Some(client);
        }
    }
}

/// Works over HTTP/2, on one connection from the beginning to the end.
fn work_over_http2(reloaded: &Reloaded, load: &Load, rounds: &AtomicUsize) {
    let client = reloaded.authority.client(&["h2"]);
    let window = 1 << 20;
    let mut peer = Http2Peer::connect_tls(reloaded.server.address(), &client, window);
    peer.open_window(0, window);
    let bearer = format!("Bearer {TOKEN}");
    while !load.is_over.load(Ordering::Relaxed) {
        let headers = [
            ("authorization", &*bearer),
            ("content-type", "image/png"),
            ("content-length", "10000"),
        ];
        let target = format!("{UPLOADS}?uploadType=media");
        let stream = peer.request("POST", &target, &headers, false);
        peer.data(stream, &SMALL.whole(), true);
        let animal = peer.reply(stream).expect(200);
        load.made.fetch_add(1, Ordering::Relaxed);
        let target = format!("{ANIMALS}/{}?alt=media", farm::id(&animal));
        for (target, is_list) in [(&*target, false), (ANIMALS, true)] {
            let stream = peer.request("GET", target, &headers[..1], true);
            let reply = peer.reply(stream).expect(200);
            assert!(is_list || reply.body == SMALL.whole(), "other media");
            let taken = u32::try_from(reply.body.len()).expect("it is short");
            peer.open_window(0, taken);
        }
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until each client has done everything once more, from its beginning to its end.
fn wait_for_rounds(rounds: &[AtomicUsize], clients: &[ScopedJoinHandle<'_, ()>]) {
    let count = || rounds.iter().map(|it| it.load(Ordering::Relaxed));
    let before: Vec<_> = count().collect();
    wait::until("every client has done everything", || {
        let failed = clients.iter().any(ScopedJoinHandle::is_finished);
        assert!(!failed, "a client has failed");
        count().zip(&before).all(|(now, before)| now >= before + 2)
    });
}

/// A request and a session that are under way while the file with their credentials is replaced.
struct UnderWay {
    peer: RawPeer,
    rest: Vec<u8>,
    session: String,
}

impl UnderWay {
    /// Begins with the token of a file that is replaced next.
    fn begin(reloaded: &Reloaded, number: usize) -> Self {
        let token = passing(number);
        let started = reloaded.ask(&bearing(&farm::start("{}"), &token));
        let session = target_in(&started.expect(200), "location").expect("a session URI");
        let bytes = bearing(&farm::simple(LARGE), &token).to_bytes();
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        let mut peer = reloaded.connect();
        let expect = b"HTTP/1.1\r\nExpect: 100-continue\r\n";
        let at = first.windows(10).position(|it| it == b"HTTP/1.1\r\n");
        let at = at.expect("a request line");
        peer.send([&first[..at], expect, &first[at + 10..]].concat());
        // The server reads the body, so it has judged the credentials.
        assert_eq!(peer.head().expect("an interim reply").status, 100);
        Self {
            peer,
            rest: rest.to_owned(),
            session,
        }
    }

    fn end(mut self, reloaded: &Reloaded) {
        self.peer.send(self.rest);
        self.peer.reply().expect(200);
        let put = Request::new("PUT", self.session).body(LARGE.whole());
        reloaded.ask(&put).expect(201);
    }
}

#[test]
fn sighup_under_load_loses_no_request() {
    let reloaded = Reloaded::new();
    let credentials = [
        Credential::Token(TOKEN.to_owned()),
        Credential::Token(reloaded.token_of_issuer()),
        Credential::Key,
    ];
    let load = Load::default();
    let rounds: [AtomicUsize; 4] = Default::default();
    let list = |number| reloaded.ask(&bearing(&farm::list(""), &passing(number)));
    let certificate = || reloaded.connect().certificate().cloned();
    thread::scope(|scope| {
        let over = Over(&load);
        let (load, reloaded) = (&load, &reloaded);
        let [of_http2, others @ ..] = &rounds;
        let mut clients = vec![scope.spawn(|| work_over_http2(reloaded, load, of_http2))];
        for (credential, rounds) in credentials.iter().zip(others) {
            clients.push(scope.spawn(move || work(reloaded, credential, load, rounds)));
        }
        for number in 1..=RELOADS {
            wait_for_rounds(&rounds, &clients);
            let under_way = UnderWay::begin(reloaded, number - 1);
            let before = certificate();
            reloaded.reload(number);
            assert_ne!(certificate(), before, "the old certificate");
            list(number - 1).expect(401);
            list(number).expect(200);
            under_way.end(reloaded);
            load.made.fetch_add(2, Ordering::Relaxed);
        }
        wait_for_rounds(&rounds, &clients);
        drop(over);
        for client in clients {
            client.join().expect("no client has failed");
        }
    });
    assert_eq!(animals(&reloaded), load.made.into_inner());
    for number in 0..RELOADS {
        list(number).expect(401);
    }
    list(RELOADS).expect(200);
    let log = reloaded.server.stderr();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
}

#[test]
fn what_is_no_regular_file_or_too_long_is_refused_on_sighup_and_the_next_good_one_counts() {
    let reloaded = Reloaded::new();
    let directory = reloaded.directory.path();
    let [_, chain, _, key] = reloaded.authority.flags();
    let files = [
        directory.join("auth.toml"),
        directory.join("keys.json"),
        PathBuf::from(chain),
        PathBuf::from(key),
    ];
    let list = |number| reloaded.ask(&bearing(&farm::list(""), &passing(number)));
    let refuse = |why: &str| {
        let count = || reloaded.server.stderr().matches(why).count();
        let before = count();
        reloaded.server.hang_up();
        wait::until("it is refused", || count() > before);
        list(0).expect(200);
    };
    let peak = reloaded.server.peak_memory();
    for path in files {
        let good = fs::read(&path).expect("it is there");
        replace_by_fifo(&path);
        refuse("it is a pipe (FIFO); replace it by a regular file");
        fs::remove_file(&path).expect("it is there");
        let sparse = File::create(&path).expect("it is writable");
        sparse.set_len(1 << 30).expect("it can be sparse");
        refuse("it exceeds the limit of 16 MiB");
        fs::write(&path, good).expect("it is writable");
    }
    assert!(reloaded.server.peak_memory() < peak + (64 << 20));
    write(directory, "auth.toml", &credentials(1));
    reloaded.server.hang_up();
    wait::until("the new token counts", || list(1).status == 200);
    list(0).expect(401);
}

/// Number of animals.
fn animals(reloaded: &Reloaded) -> usize {
    let (mut count, mut page) = (0, String::new());
    loop {
        let list = reloaded
            .ask(&bearing(&farm::list(&page), TOKEN))
            .expect(200);
        count += list.field("items").as_array().map_or(0, Vec::len);
        match list.field("nextPageToken").as_str() {
            Some(next) => next.clone_into(&mut page),
            None => return count,
        }
    }
}
