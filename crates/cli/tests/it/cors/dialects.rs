//! Pages of other origins that speak tus or the IETF's draft.

use windlass_testkit::farm::UPLOADS;
use windlass_testkit::raw::{Request, exchange};
use windlass_testkit::session::target_in;

use super::{APP, FORBIDDEN, OTHER, from, own_headers, plain_farm, send};

/// Makes a request to a session.
type ToSession = fn(&str) -> Request;

/// The creations of tus and of the draft; a part, a query and a cancel; the status of a query.
fn of_tus_and_the_draft() -> [(Request, [ToSession; 3], u16); 2] {
    let tus = Request::new("POST", UPLOADS)
        .header("Tus-Resumable", "1.0.0")
        .header("Upload-Length", 5);
    let draft = Request::new("POST", UPLOADS)
        .header("Content-Type", "image/png")
        .header("Upload-Complete", "?0");
    let of_tus: [ToSession; 3] = [
        |target| {
            Request::new("PATCH", target)
                .header("Tus-Resumable", "1.0.0")
                .header("Content-Type", "application/offset+octet-stream")
                .header("Upload-Offset", 0)
                .body("abc")
        },
        |target| Request::new("HEAD", target).header("Tus-Resumable", "1.0.0"),
        |target| Request::new("DELETE", target).header("Tus-Resumable", "1.0.0"),
    ];
    let of_draft: [ToSession; 3] = [
        |target| {
            Request::new("PATCH", target)
                .header("Content-Type", "application/partial-upload")
                .header("Upload-Offset", 0)
                .header("Upload-Complete", "?0")
                .body("abc")
        },
        |target| Request::new("HEAD", target),
        |target| Request::new("DELETE", target),
    ];
    [(tus, of_tus, 200), (draft, of_draft, 204)]
}

#[test]
fn session_of_tus_or_the_draft_is_bound_to_its_origin() {
    for (creation, requests, asked) in of_tus_and_the_draft() {
        let started = send(&from(&creation.body(""), APP)).expect(201);
        let target = target_in(&started, "location").expect("a session URI");
        for request in requests {
            for origin in ["https://a.example.com", OTHER, "null"] {
                send(&from(&request(&target), origin)).expect(403);
            }
        }
        let [append, query, cancel] = requests.map(|request| from(&request(&target), APP));
        let state = send(&query).expect(asked);
        assert_eq!(state.header("upload-offset"), Some("0"));
        send(&append).expect(204);
        send(&cancel).expect(204);
    }
}

#[test]
fn page_of_another_origin_does_nothing_by_tus_or_the_draft() {
    for (creation, requests, asked) in of_tus_and_the_draft() {
        let begin = exchange(plain_farm(), &creation.clone().body("")).expect(201);
        let target = target_in(&begin, "location").expect("a session URI");
        let whole = creation.clone().body("moo");
        let requests = requests.map(|request| request(&target));
        for request in [&whole].into_iter().chain(&requests) {
            for origin in FORBIDDEN {
                let reply = exchange(plain_farm(), &from(request, origin)).expect(403);
                assert_eq!(own_headers(&reply), [""; 0]);
            }
        }
        let state = exchange(plain_farm(), &requests[1]).expect(asked);
        assert_eq!(state.header("upload-offset"), Some("0"));
    }
}
