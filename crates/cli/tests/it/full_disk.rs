//! When the disk is nearly full, no upload begins; when it is full, nothing new is taken.
//!
//! The limits are set so high that every disk is too small.

use windlass_testkit::farm::{self, ANIMALS};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Request, exchange};

use crate::server::own;

fn with_limits(file: &str) -> ServerProcess {
    own(&[
        "--config",
        &format!("{}/tests/it/{file}", env!("CARGO_MANIFEST_DIR")),
    ])
}

#[test]
fn upload_without_disk_space_is_refused_with_retry_after() {
    for file in ["low_disk.toml", "full_disk.toml"] {
        let server = with_limits(file);
        for request in [farm::simple(Media::new(1, 100)), farm::start("{}")] {
            let reply = exchange(server.address(), &request).expect(503);
            assert!(reply.header("retry-after").is_some(), "{reply:?}");
        }
        exchange(server.address(), &Request::new("GET", "/readyz")).expect(503);
        exchange(server.address(), &Request::new("GET", "/healthz")).expect(200);
    }
}

#[test]
fn full_disk_refuses_writes_and_allows_reads_and_deletes() {
    let mut first = own(&[]);
    let insert = Request::new("POST", ANIMALS).body(r#"{"name":"Llama"}"#);
    let animal = exchange(first.address(), &insert).expect(200);
    let path = farm::animal(&farm::id(&animal));
    first.terminate();

    let mut server = with_limits("full_disk.toml");
    server.kill9();
    server.replace_data(&first.data());
    server.start_again();
    let change = Request::new("PATCH", &path).body(r#"{"name":"Alpaca"}"#);
    for request in [insert, change] {
        let reply = exchange(server.address(), &request).expect(503);
        assert!(reply.header("retry-after").is_some(), "{reply:?}");
    }
    exchange(server.address(), &Request::new("GET", &path)).expect(200);
    exchange(server.address(), &Request::new("DELETE", &path)).expect(204);
}

#[test]
fn readiness_check_reports_free_and_required_space() {
    let server = with_limits("full_disk.toml");
    let reply = exchange(server.address(), &Request::new("GET", "/readyz")).expect(503);
    let text = reply.text();
    assert!(
        text.contains("MB free, less than free_space.hard"),
        "{text}"
    );
}
