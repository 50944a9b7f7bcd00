//! The shape of errors (docs/protocol.md, 2.10).

use serde_json::json;
use windlass_testkit::farm::{self, UPLOADS};
use windlass_testkit::raw::{Request, exchange};

use crate::server::farm;

#[test]
fn an_error_has_google_s_shape_down_to_its_order() {
    let request = Request::new("POST", format!("{UPLOADS}?uploadType=x"))
        .header("Content-Type", "image/png")
        .body("abc");
    let reply = exchange(farm(), &request).expect(400);
    assert_eq!(
        reply.header("content-type"),
        Some("application/json; charset=UTF-8")
    );
    let message = reply.json()["error"]["message"].clone();
    let expected = json!({"error": {
        "code": 400,
        "message": message,
        "errors": [{
            "message": message,
            "domain": "global",
            "reason": "invalidParameter",
            "locationType": "parameter",
            "location": "uploadType",
        }],
        "status": "INVALID_ARGUMENT",
    }});
    assert_eq!(reply.json(), expected);
}

#[test]
fn an_error_says_the_canonical_status() {
    let session = farm::begin(farm(), "canonical");
    let get = |target: &str| Request::new("GET", target);
    let table = [
        (get("/farm/v1/animals/nobody"), 404, "NOT_FOUND"),
        (get(UPLOADS), 405, "UNIMPLEMENTED"),
        (
            get("/farm/v1/animals?maxResults=many"),
            400,
            "INVALID_ARGUMENT",
        ),
        (session.request("GET"), 405, "UNIMPLEMENTED"),
    ];
    for (request, status, canonical) in table {
        let reply = exchange(farm(), &request).expect(status);
        assert_eq!(reply.json()["error"]["status"], canonical);
    }
}

#[test]
fn an_error_never_shows_the_upload_id() {
    let session = farm::begin(farm(), "secret");
    session.put("bytes 0-0/*", "a").expect(400);
    for request in [session.request("GET"), session.ranged("bytes */*").body("")] {
        let reply = session.exchange(&request);
        assert!(reply.status >= 400);
        assert!(!String::from_utf8_lossy(&reply.body).contains(session.upload_id()));
    }
}
