//! Servers that lie, redirect elsewhere, or send harmful text.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use windlass_testkit::media::Media;

use super::run::{ClientDir, Ran, exists};

const MEDIA: Media = Media::new(97, 3000);

/// The answer of a hostile server: some bytes, and then a text that is repeated without end unless
/// it is empty.
struct Answer(Vec<u8>, &'static str);

/// A server that answers each request as a test says, and closes the connection.
struct Hostile {
    address: SocketAddr,
    /// The heads of the requests.
    heads: Arc<Mutex<Vec<String>>>,
}

impl Hostile {
    /// `answer` gets the place of a request among all, from 0.
    fn start(answer: impl Fn(usize) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().expect("it has an address");
        let heads = Arc::new(Mutex::default());
        let seen = Arc::clone(&heads);
        thread::spawn(move || {
            for peer in listener.incoming().flatten() {
                // A client may close the connection early.
                serve(&peer, &seen, &answer).ok();
            }
        });
        Self { address, heads }
    }

    /// A server that answers all requests in the same way.
    fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |_| Answer(answer.clone(), ""))
    }

    /// A server that starts a session itself, and answers all further requests in this way.
    fn in_session(answer: impl Fn(usize) -> String + Send + 'static) -> Self {
        Self::start(move |index| {
            let text = match index {
                0 => head("200 OK", "Location: /s?upload_id=1"),
                index => answer(index),
            };
            Answer(text.into_bytes(), "")
        })
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no test panicked").clone()
    }
}

fn serve(
    mut peer: &TcpStream,
    seen: &Mutex<Vec<String>>,
    answer: &impl Fn(usize) -> Answer,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(peer);
    let mut head = String::new();
    while reader.read_line(&mut head)? > 2 {}
    let head = head.to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().expect("a length"));
    std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
    let index = {
        let mut heads = seen.lock().expect("no test panicked");
        heads.push(head);
        heads.len() - 1
    };
    let Answer(bytes, endless) = answer(index);
    peer.write_all(&bytes)?;
    let endless = endless.repeat(1000);
    while !endless.is_empty() {
        peer.write_all(endless.as_bytes())?;
    }
    Ok(())
}

/// A reply without a body.
fn head(status: &str, field: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{field}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

fn with_body(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

fn client_dir() -> ClientDir {
    let client_dir = ClientDir::new();
    client_dir.media("cow.jpg", MEDIA);
    client_dir
}

/// Uploads to a session, and tries nothing twice.
fn upload(client_dir: &ClientDir, server: &Hostile) -> Ran {
    let url = server.url("/upload");
    let flags = ["--type", "resumable", "--retries", "0"];
    client_dir.run(&[&["upload", "cow.jpg", &url][..], &flags].concat())
}

fn download(client_dir: &ClientDir, url: &str) -> Ran {
    client_dir.run(&["download", url, "--retries", "0"])
}

/// Checks that a command has failed in a few plain lines.
#[track_caller]
fn assert_plain_failure(ran: &Ran) {
    assert!(matches!(ran.code, Some(1..=5)), "{ran:?}");
    let is_odd = |c: char| {
        c.is_control() && c != '\n'
            || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!ran.stderr.contains(is_odd), "{ran:?}");
    let count = |word| {
        ran.stderr
            .lines()
            .filter(|line| line.starts_with(word))
            .count()
    };
    assert_eq!(count("error: "), 1, "{ran:?}");
    assert!(count("hint: ") <= 1, "{ran:?}");
    assert!(ran.stderr.len() < 2000, "{ran:?}");
}

#[test]
fn replies_without_end_end_the_command() {
    let client_dir = client_dir();
    let chunked = "HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n";
    let endless = [
        ("HTTP/1.1 200 ".to_owned(), "a"),
        ("HTTP/1.1 200 OK\r\nX-Long: ".to_owned(), "a"),
        ("HTTP/1.1 200 OK\r\n".to_owned(), "X-Many: a\r\n"),
        ("HTTP/1.1 400 No\r\n\r\n".to_owned(), "a"),
        (format!("{chunked}1;"), "a"),
        (chunked.to_owned(), "10\r\naaaaaaaaaaaaaaaa\r\n"),
        (format!("{chunked}0\r\n"), "X-Many: a\r\n"),
    ];
    for (begin, filler) in endless {
        let endless = || {
            let begin = begin.clone().into_bytes();
            Hostile::start(move |_| Answer(begin.clone(), filler))
        };
        let server = endless();
        assert_plain_failure(&upload(&client_dir, &server));
        assert_eq!(server.heads().len(), 1, "{begin:?}");
        let server = endless();
        assert_plain_failure(&download(&client_dir, &server.url("/cow")));
        assert!(!exists(&client_dir.path("cow")));
    }
}

#[test]
fn locations_that_lead_astray_get_no_media() {
    let client_dir = client_dir();
    for location in [
        "http://elsewhere.invalid/s",
        "http://127.0.0.1@elsewhere.invalid/s",
        "//elsewhere.invalid/s",
        "http://127.0.0.1.elsewhere.invalid/s",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "data:text/plain,cow",
        "http://",
        "",
        "/s\r\nLocation: //elsewhere.invalid/s\u{1b}[2J",
    ] {
        let server = Hostile::saying(head("200 OK", &format!("Location: {location}")));
        let ran = upload(&client_dir, &server);
        assert_plain_failure(&ran);
        assert_eq!(server.heads().len(), 1, "{location}");
        assert!(client_dir.unfinished().is_empty(), "{location}");
    }
}

/// The command, with one proxy for every server.
fn through(proxy: &Hostile, client_dir: &ClientDir, words: &[&str]) -> Ran {
    let mut command = client_dir.command(words);
    command.env("http_proxy", proxy.url(""));
    command.env_remove("no_proxy").env_remove("NO_PROXY");
    Ran::of(&mut command)
}

#[test]
fn media_goes_to_another_server_only_where_the_user_allows_it() {
    let client_dir = client_dir();
    let elsewhere = || {
        Hostile::start(|index| {
            let text = match index {
                0 => head("200 OK", "Location: http://media.example/s?upload_id=1"),
                _ => with_body("201 Created", "{}"),
            };
            Answer(text.into_bytes(), "")
        })
    };
    let words = [
        "upload",
        "cow.jpg",
        "http://farm.example/upload",
        "--type",
        "resumable",
    ];
    let proxy = elsewhere();
    let ran = through(&proxy, &client_dir, &words).expect(1);
    ran.says("http://media.example, which is not the server of the upload URL");
    ran.says("--session-origin http://media.example");
    assert_eq!(proxy.heads().len(), 1);

    let proxy = elsewhere();
    let words = [&words[..], &["--session-origin", "http://media.example"]].concat();
    through(&proxy, &client_dir, &words).expect(0);
    let heads = proxy.heads();
    assert!(
        heads[1].starts_with("put http://media.example/s"),
        "{heads:?}"
    );
}

#[test]
fn token_is_sent_without_encryption_only_where_the_user_allows_it() {
    let client_dir = client_dir();
    let proxy = Hostile::saying(with_body("200 OK", "{}"));
    let session = "http://farm.example/s?upload_id=1";
    let token = ["--token", "literal:s3cret"];
    for words in [
        &["upload", "cow.jpg", "http://farm.example/upload"][..],
        &["download", "http://farm.example/cow"],
        &["status", session],
        &["cancel", session],
    ] {
        let words = [words, &token].concat();
        let ran = through(&proxy, &client_dir, &words).expect(3);
        ran.says("the token is not sent to farm.example: the connection is not encrypted");
        ran.says("--allow-plain-http");
        assert!(proxy.heads().is_empty(), "{words:?}");
    }
    let words = [
        "upload",
        "cow.jpg",
        "http://farm.example/upload",
        "--allow-plain-http",
    ];
    through(&proxy, &client_dir, &[&words[..], &token].concat()).expect(0);
    assert!(proxy.heads()[0].contains("\r\nauthorization: bearer s3cret\r\n"));
}

#[test]
fn redirections_of_downloads_lead_to_web_addresses_and_without_the_token() {
    let client_dir = client_dir();
    for location in [
        "file:///etc/passwd",
        "ftp://127.0.0.1/cow",
        "http://",
        "/cow\u{1b}]8;;",
        "/again",
    ] {
        let server = Hostile::saying(head("302 Found", &format!("Location: {location}")));
        assert_plain_failure(&download(&client_dir, &server.url("/cow")));
        assert!(server.heads().len() <= 6, "{location}");
    }
    let other = Hostile::saying(with_body("200 OK", "moo"));
    let location = format!("Location: {}", other.url("/..%2f..%2fevil"));
    let server = Hostile::saying(head("302 Found", &location));
    let url = server.url("/cow");
    let words = ["download", &url, "--token", "literal:s3cret"];
    client_dir.run(&words).expect(0);
    assert!(server.heads()[0].contains("\r\nauthorization: bearer s3cret\r\n"));
    assert!(!other.heads()[0].contains("s3cret"), "{:?}", other.heads());
    // The name is taken from the user's URL.
    assert_eq!(
        fs::read(client_dir.path("cow")).expect("it is there"),
        b"moo"
    );
}

#[test]
fn server_does_not_choose_the_name_of_a_download() {
    for name in ["../evil", "/tmp/evil", "evil\0", ".bashrc", "CON"] {
        let client_dir = ClientDir::new();
        let fields =
            format!("Content-Disposition: attachment; filename=\"{name}\"\r\nContent-Length: 3");
        let reply = format!("HTTP/1.1 200 OK\r\n{fields}\r\nConnection: close\r\n\r\nmoo");
        let server = Hostile::saying(reply);
        let ran = download(&client_dir, &server.url("/a/cow"));
        let names = fs::read_dir(client_dir.path(".")).expect("it is ours");
        let names: Vec<_> = names
            .map(|entry| entry.expect("it is ours").file_name())
            .collect();
        // HTTP does not allow the zero byte, and the reply is not taken.
        let expected: &[&str] = if ran.code == Some(0) { &["cow"] } else { &[] };
        assert_eq!(names, expected, "{name:?} {ran:?}");
    }
}

#[test]
fn offsets_that_lie_end_the_upload() {
    let client_dir = client_dir();
    for (range, code) in [("bytes=0-3000", 1), ("bytes=0-9999999999", 1), ("", 4)] {
        let field = match range {
            "" => String::new(),
            range => format!("Range: {range}\r\n"),
        };
        let reply = head("308 Resume Incomplete", &format!("{field}X-Odd: 1"));
        let server = Hostile::in_session(move |_| reply.clone());
        let ran = upload(&client_dir, &server).expect(code);
        assert_plain_failure(&ran);
        assert!(server.heads().len() <= 3, "{range}");
    }
    // Forwards and backwards, again and again: nothing that was not there before.
    let server = Hostile::in_session(|index| {
        let last = [999, 499][index % 2];
        head("308 Resume Incomplete", &format!("Range: bytes=0-{last}"))
    });
    let ran = upload(&client_dir, &server).expect(4);
    assert_plain_failure(&ran);
    assert!(server.heads().len() < 10, "{:?}", server.heads());
}

#[test]
fn texts_of_a_server_cannot_steer_the_terminal_in_any_command() {
    let client_dir = client_dir();
    let odd =
        "a\\u001b[31m\\u001b]8;;http://x\\u0007b\\u0000\\r\\nerror: c\\u009b\\u061c\\u202ed\\u2066";
    let object = format!(r#"{{"error":{{"message":"{odd}","errors":[{{"reason":"{odd}"}}]}}}}"#);
    for reply in [
        with_body("400 Bad", &object),
        with_body("400 Bad", "\u{1b}[2J\u{202e}over"),
        head("400 \u{9b}31m\u{1b}[2J", "X-Odd: 1"),
        with_body("400 Bad", "\u{1f}\u{8b}\u{8}\u{0}\u{0}"),
        head("301 Moved", "Location: http://x/\u{9b}31m\u{202e}"),
    ] {
        let server = Hostile::saying(reply);
        assert_plain_failure(&upload(&client_dir, &server));
        assert_plain_failure(&download(&client_dir, &server.url("/cow")));
        let session = server.url("/s");
        for command in ["status", "cancel"] {
            assert_plain_failure(&client_dir.run(&[command, &session]));
        }
    }
}

#[test]
fn waits_that_a_server_asks_for_are_bounded() {
    let client_dir = client_dir();
    for wait in ["3153600000", "Fri, 31 Dec 9999 23:59:59 GMT"] {
        let field = format!("Retry-After: {wait}");
        let server = Hostile::saying(head("503 Busy", &field));
        let url = server.url("/upload");
        let ran = client_dir.run(&["upload", "cow.jpg", &url]).expect(4);
        ran.says("it asks to wait");
        let url = server.url("/cow");
        client_dir.run(&["download", &url]).expect(4);
        assert_eq!(server.heads().len(), 2, "{wait}");
    }
}

#[test]
fn body_shorter_than_announced_is_no_download() {
    let client_dir = client_dir();
    let reply = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nmoo";
    let server = Hostile::saying(reply);
    download(&client_dir, &server.url("/cow")).expect(4);
    assert!(!exists(&client_dir.path("cow")));
}
