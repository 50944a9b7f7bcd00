//! Every example is run as its documentation says, and does what it promises.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;
use windlass_testkit::raw::{Request, exchange};

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
        let data = data.to_str().expect("it is UTF-8");
        Self::start(env!("CARGO_BIN_EXE_embed"), &[data])
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

fn directory() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("the target directory is writable")
}

#[test]
fn embed_serves_its_own_routes_and_uploads_and_keeps_them() {
    let directory = directory();
    let data = directory.path().join("data");
    let program = Program::embed(&data);
    let hello = exchange(program.address, &Request::new("GET", "/hello")).expect(200);
    assert_eq!(hello.text(), "Hello from the application.\n");
    let upload = Request::new("POST", "/upload/farm/v1/animals?uploadType=media")
        .header("content-type", "image/jpeg")
        .body("a llama");
    let animal = exchange(program.address, &upload).expect(200);
    let id = animal.field("id");
    program.interrupt();

    let program = Program::embed(&data);
    let path = format!(
        "/farm/v1/animals/{}?alt=media",
        id.as_str().expect("a string")
    );
    let media = exchange(program.address, &Request::new("GET", path)).expect(200);
    assert_eq!(media.text(), "a llama");
}

#[test]
fn upload_sends_a_file_and_prints_its_resource() {
    let directory = directory();
    let program = Program::embed(&directory.path().join("data"));
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
    let resource: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("it prints JSON");
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
    let note = exchange(program.address, &upload(b"sheep and goats")).expect(200);
    assert_eq!(note.field("words"), json!(3));
    exchange(program.address, &upload(b"\xff\xfe")).expect(400);
}
