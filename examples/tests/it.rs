//! Every example is run as its documentation says, and keeps the promises of its documentation.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_server::Settings;
use windlass_testkit::media::Media;
use windlass_testkit::raw::{Reply, Request, exchange};
use windlass_testkit::session::{Session, content_range};
use windlass_testkit::wait;

/// An example that serves; it is killed at the end of the test.
struct Program {
    child: Child,
    address: SocketAddr,
}

impl Program {
    /// Starts an example on a free port.
    fn start(program: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .arg("127.0.0.1:0")
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example can be started");
        let stdout = child.stdout.take().expect("it is a pipe");
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("the example writes where it listens");
        let address = line
            .trim_end()
            .strip_prefix("listening on http://")
            .and_then(|address| address.parse().ok());
        let Some(address) = address else {
            child.kill().ok();
            panic!("the first line is {line:?}");
        };
        Self { child, address }
    }

    fn embed(data: &Path) -> Self {
        Self::with_data(env!("CARGO_BIN_EXE_embed"), data)
    }

    fn store(data: &Path) -> Self {
        Self::with_data(env!("CARGO_BIN_EXE_store"), data)
    }

    fn with_data(program: &str, data: &Path) -> Self {
        Self::start(program, &[data.to_str().expect("it is UTF-8")])
    }

    fn exchange(&self, request: &Request) -> Reply {
        exchange(self.address, request)
    }

    /// Asks the example to end, as Ctrl-C does.
    fn interrupt(mut self) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status();
        assert!(sent.expect("kill can be run").success());
        let status = self.child.wait().expect("it is a child");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Sends the bytes of one connection to the example over an engine, and returns its line.
fn line(program: &Program, sent: &[u8]) -> String {
    let mut stream = TcpStream::connect(program.address).expect("the example listens");
    stream.write_all(sent).expect("it reads");
    stream.shutdown(Shutdown::Write).ok();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("it answers");
    reply
}

#[test]
fn upload_over_a_protocol_of_ones_own_goes_on_after_a_kill() {
    let data = directory();
    let start = || Program::with_data(env!("CARGO_BIN_EXE_engine"), data.path());
    let program = start();
    // Too long for the ledger, so that the vault is resumed as well.
    let (first, second) = (vec![b'a'; 300_000], vec![b'b'; 200_000]);
    let started = line(&program, b"start 500000 hello.txt\n");
    let id = started.trim().strip_prefix("upload ").expect(&started);
    let append = |program: &Program, at: usize, bytes: &[u8]| {
        let head = format!("append {id} {at} {}\n", bytes.len());
        line(program, &[head.as_bytes(), bytes].concat())
    };
    assert_eq!(append(&program, 0, &first), "committed 300000\n");
    // Dropped, it is killed.
    drop(program);
    let program = start();
    let query = format!("query {id}\n");
    assert_eq!(line(&program, query.as_bytes()), "committed 300000\n");
    let reply = append(&program, 350_000, &second[..150_000]);
    assert!(reply.contains("exceeds already uploaded size"), "{reply}");
    assert_eq!(append(&program, 300_000, &second), "stored hello.txt\n");
    assert_eq!(line(&program, query.as_bytes()), "stored hello.txt\n");
}

fn directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable")
}

const UPLOADS: &str = "/media/upload/photos/v1/photos";

const PHOTOS: &str = "/media/photos/v1/photos";

/// Media of several chunks, too long for the ledger.
const MEDIA: Media = Media::new(7, 1_000_000);

fn of_alice(request: Request) -> Request {
    request.header("Authorization", "Bearer alice-token")
}

fn get(target: &str) -> Request {
    Request::new("GET", target)
}

fn simple_upload() -> Request {
    simple_upload_of(&MEDIA.whole())
}

fn simple_upload_of(media: &[u8]) -> Request {
    Request::new("POST", format!("{UPLOADS}?uploadType=media"))
        .header("Content-Type", "image/jpeg")
        .body(media)
}

fn start_of_resumable_upload(metadata: &Value) -> Request {
    Request::new("POST", format!("{UPLOADS}?uploadType=resumable"))
        .header("Content-Type", "application/json")
        .header("X-Upload-Content-Type", "image/jpeg")
        .body(metadata.to_string())
}

/// Checks that a reply shows a photo of this user, and that its media is there.
#[track_caller]
fn assert_photo(program: &Program, photo: &Reply, owner: &str) {
    assert_eq!(photo.field("owner"), owner, "{}", photo.text());
    assert_eq!(photo.field("crc32c"), MEDIA.crc32c());
    let id = photo.field("id");
    let path = format!("{PHOTOS}/{}", id.as_str().expect("it is a string"));
    let link = photo.field("selfLink");
    assert_eq!(link, format!("http://farm.localhost{path}"));
    let media = program.exchange(&of_alice(get(&format!("{path}?alt=media"))));
    assert!(media.expect(200).body == MEDIA.whole());
}

#[test]
fn embed_answers_users_of_the_application_only() {
    let directory = directory();
    let program = Program::embed(&directory.path().join("data"));
    let hello = program.exchange(&of_alice(get("/hello"))).expect(200);
    assert_eq!(hello.text(), "Hello, alice.\n");
    let list = program.exchange(&of_alice(get(PHOTOS))).expect(200);
    assert_eq!(list.json()["items"], json!([]));

    let with_id = format!("{PHOTOS}?upload_id=x");
    let mut refused = vec![
        get(PHOTOS),
        // It is no URI of a session, so its `upload_id` is no credential.
        get(&with_id),
        get(&format!("{UPLOADS}?uploadType=media&no_upload_id=x")),
        // Short: axum closes the connection without reading the rest of a body.
        simple_upload_of(b"photo"),
        start_of_resumable_upload(&json!({})),
    ];
    refused.push(simple_upload_of(b"photo").header("Authorization", "Bearer mallory-token"));
    for request in refused {
        let reply = program.exchange(&request).expect(401);
        let challenge = reply.header("www-authenticate");
        assert_eq!(challenge, Some("Bearer realm=\"windlass\""));
    }
    // The application's own route answers for itself.
    program.exchange(&get("/hello")).expect(401);
}

#[test]
fn embed_serves_discovery_documents_of_its_prefix_without_a_token() {
    let directory = directory();
    let program = Program::embed(&directory.path().join("data"));
    let uri = "/media/discovery/v1/apis/photos/v1/rest";
    let apis = program.exchange(&get("/media/discovery/v1/apis"));
    let listed = &apis.expect(200).json()["items"][0]["discoveryRestUrl"];
    assert_eq!(*listed, format!("http://farm.localhost{uri}"));
    let document = program.exchange(&get(uri)).expect(200).json();
    assert_eq!(document["rootUrl"], "http://farm.localhost/media/");
}

#[test]
fn embed_stores_who_uploaded_a_photo() {
    let directory = directory();
    let program = Program::embed(&directory.path().join("data"));
    let simple = program.exchange(&of_alice(simple_upload())).expect(200);
    assert_photo(&program, &simple, "alice");

    let metadata = r#"{"title":"A llama","owner":"bob"}"#;
    let mut body = format!(
        "--b\r\nContent-Type: application/json\r\n\r\n{metadata}\r\n\
         --b\r\nContent-Type: image/jpeg\r\n\r\n"
    )
    .into_bytes();
    body.extend(MEDIA.whole());
    body.extend(b"\r\n--b--\r\n");
    let multipart = Request::new("POST", format!("{UPLOADS}?uploadType=multipart"))
        .header("Content-Type", "multipart/related; boundary=b")
        .body(body);
    let multipart = program.exchange(&of_alice(multipart)).expect(200);
    assert_eq!(multipart.field("title"), "A llama");
    assert_photo(&program, &multipart, "alice");

    let start = start_of_resumable_upload(&json!({"title": "A llama"}));
    let started = program.exchange(&of_alice(start)).expect(200);
    let location = started.header("location").unwrap_or_default();
    assert!(
        location.starts_with(&format!("http://farm.localhost{UPLOADS}?")),
        "{location}"
    );
    // The session URI is a credential by itself.
    let session = Session::of_reply(program.address, &started);
    session.append(MEDIA, 0..262_144).expect(308);
    let resumable = session.append(MEDIA, 262_144..MEDIA.len()).expect(201);
    assert_photo(&program, &resumable, "alice");
}

#[test]
fn embed_commits_running_uploads_when_it_is_interrupted() {
    const SENT: u64 = 300_000;
    const MORE: u64 = SENT + 100_000;
    let directory = directory();
    let data = directory.path().join("data");
    let program = Program::embed(&data);
    let start = start_of_resumable_upload(&json!({}));
    let started = program.exchange(&of_alice(start)).expect(200);
    let session = Session::of_reply(program.address, &started);
    let mut running = session.peer();
    let all = session.ranged(&content_range(MEDIA, &(0..MEDIA.len())));
    let head = all.header("Content-Length", MEDIA.len()).head_bytes();
    running.send(head);
    running.send(MEDIA.bytes(0..SENT));
    wait::until("what was sent is committed", || {
        session.query().expect(308).committed() == SENT
    });
    // Nobody knows how many of these bytes the server reads before it gets the signal to end.
    running.send(MEDIA.bytes(SENT..MORE));
    // The client sends no more. Without a drain the upload would last until its body times out.
    let start = Instant::now();
    program.interrupt();
    assert!(start.elapsed() < Settings::default().limits.body_timeout / 2);
    assert_eq!(running.reply().status, 503);

    let program = Program::embed(&data);
    let session = session.moved_to(program.address);
    let committed = session.query().expect(308).committed();
    assert!((SENT..=MORE).contains(&committed), "{committed}");
    let photo = session.append(MEDIA, committed..MEDIA.len()).expect(201);
    assert_photo(&program, &photo, "alice");
}

#[test]
fn store_keeps_media_in_files_of_its_directory() {
    let directory = directory();
    let data = directory.path().join("data");
    let program = Program::store(&data);
    let upload = Request::new("POST", "/upload/farm/v1/animals?uploadType=media")
        .header("Content-Type", "image/jpeg")
        .body(MEDIA.whole());
    let animal = program.exchange(&upload).expect(200);
    let files: Vec<_> = std::fs::read_dir(data.join("files"))
        .and_then(Iterator::collect)
        .expect("the vault has made it");
    assert_eq!(files.len(), 1);
    let bytes = std::fs::read(files[0].path()).expect("it can be read");
    assert!(bytes == MEDIA.whole());
    program.interrupt();

    let program = Program::store(&data);
    let id = animal.field("id");
    let path = format!("/farm/v1/animals/{}", id.as_str().expect("a string"));
    let media = program.exchange(&get(&format!("{path}?alt=media")));
    assert!(media.expect(200).body == MEDIA.whole());
    program.exchange(&Request::new("DELETE", path)).expect(204);
}

#[test]
fn upload_sends_a_file_and_prints_its_resource() {
    let directory = directory();
    let program = Program::store(&directory.path().join("data"));
    let file = directory.path().join("llama.jpg");
    // More than the client sends in one request, so that there is a session.
    std::fs::write(&file, vec![7; 6 << 20]).expect("the directory is writable");
    let output = Command::new(env!("CARGO_BIN_EXE_upload"))
        .arg(&file)
        .arg(format!("http://{}/upload/farm/v1/animals", program.address))
        .arg(directory.path().join("uploads"))
        .output()
        .expect("the example can be started");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("6291456 bytes sent"), "{stderr}");
    let resource: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    assert_eq!(resource["size"], json!("6291456"));
}

#[test]
fn handler_counts_the_words_of_notes_and_refuses_media_that_is_not_text() {
    let program = Program::start(env!("CARGO_BIN_EXE_handler"), &[]);
    let upload = |note: &[u8]| {
        Request::new("POST", "/upload/notes/v1/notes?uploadType=media")
            .header("content-type", "text/plain")
            .body(note)
    };
    let note = program.exchange(&upload(b"sheep and goats")).expect(200);
    assert_eq!(note.field("words"), json!(3));
    program.exchange(&upload(b"\xff\xfe")).expect(400);
}

#[test]
fn gallery_notes_an_upload_also_when_it_is_killed_in_between() {
    let directory = directory();
    let data = directory.path().join("data");
    let program = Program::with_data(env!("CARGO_BIN_EXE_gallery"), &data);
    // Opening a pipe that nobody reads waits, so the photo is committed and not noted.
    let list = data.join("thumbnails-to-make");
    let pipe = Command::new("mkfifo").arg(&list).status();
    assert!(pipe.expect("mkfifo can be run").success());
    let upload = Request::new("POST", "/media/upload/album/v1/photos?uploadType=media")
        .header("Content-Type", "image/jpeg")
        .body(MEDIA.whole());
    program.exchange(&upload).expect(401);
    let photo = program.exchange(&of_alice(upload)).expect(200);
    drop(program);

    std::fs::remove_file(&list).expect("it is the test's own");
    let program = Program::with_data(env!("CARGO_BIN_EXE_gallery"), &data);
    wait::until("the photo is noted", || {
        let noted = std::fs::read_to_string(&list).unwrap_or_default();
        noted == format!("{}\n", photo.field("id"))
    });
    let photos = get("/media/album/v1/photos");
    let of_bob = photos.clone().header("Authorization", "Bearer bob-token");
    for (request, count) in [(of_alice(photos), 1), (of_bob, 0)] {
        let list = program.exchange(&request).expect(200);
        assert_eq!(list.json()["items"].as_array().map(Vec::len), Some(count));
    }
    program.interrupt();
}

#[test]
fn plain_serves_without_a_framework() {
    let directory = directory();
    let program = Program::with_data(env!("CARGO_BIN_EXE_plain"), &directory.path().join("data"));
    let upload = Request::new("POST", "/upload/album/v1/photos?uploadType=media")
        .header("Content-Type", "image/jpeg")
        .body(MEDIA.whole());
    let photo = program.exchange(&upload).expect(200);
    assert_eq!(photo.field("crc32c"), MEDIA.crc32c());
    program.interrupt();
}
