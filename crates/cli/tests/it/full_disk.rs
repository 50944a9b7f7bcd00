//! When the disk is nearly full, nothing new begins; when it is full, no media is taken.
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
fn no_upload_begins_without_room_and_the_client_is_told_to_come_back() {
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
fn what_needs_no_room_goes_on_without_room() {
    let server = with_limits("full_disk.toml");
    let insert = Request::new("POST", ANIMALS).body(r#"{"name":"Llama"}"#);
    let animal = exchange(server.address(), &insert).expect(200);
    let path = farm::animal(&farm::id(&animal));
    exchange(server.address(), &Request::new("GET", &path)).expect(200);
    exchange(server.address(), &Request::new("DELETE", &path)).expect(204);
}
