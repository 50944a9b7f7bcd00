//! The bounds of a link on the size and the type of the media, in every upload type.

use super::*;

const LIMIT: u64 = 1000;
const SMALL: Media = Media::new(72, LIMIT);
const LARGE: Media = Media::new(73, LIMIT + 1);

const TOO_LARGE: &str = "exceeds the limit of 1000 bytes that the signed link sets";
const WRONG_TYPE: &str = "is not accepted; the signed link allows image/*";

fn bound(linked: &Linked) -> Link {
    linked.sign(&["--max-size", "1000B", "--type", "image/*"], UPLOADS)
}

fn multipart(linked: &Linked, link: &Link, metadata: &str, kind: &str, media: Media) -> Request {
    let mut body = format!(
        "--b\r\nContent-Type: application/json\r\n\r\n{metadata}\r\n--b\r\nContent-Type: {kind}\r\n\r\n"
    )
    .into_bytes();
    body.extend(media.whole());
    body.extend(b"\r\n--b--\r\n");
    let request = linked.request("POST", format!("{}&uploadType=multipart", link.target));
    request
        .header("Content-Type", "multipart/related; boundary=b")
        .body(body)
}

fn start(linked: &Linked, link: &Link, kind: &str) -> Request {
    let start = linked.request("POST", format!("{}&uploadType=resumable", link.target));
    start.header("X-Upload-Content-Type", kind)
}

fn chunked(media: Media) -> Vec<u8> {
    let mut body = format!("{:x}\r\n", media.len()).into_bytes();
    body.extend(media.whole());
    body.extend(b"\r\n0\r\n\r\n");
    body
}

#[test]
fn media_over_the_size_of_the_link_is_refused_in_one_request() {
    let linked = Linked::new();
    let link = bound(&linked);
    let simple = linked.simple(&link);
    let unknown = simple.clone().header("Transfer-Encoding", "chunked");
    let image = |media| multipart(&linked, &link, "{}", "image/png", media);
    for (small, large) in [
        (
            simple.clone().body(SMALL.whole()),
            simple.body(LARGE.whole()),
        ),
        (
            unknown.clone().raw_body(chunked(SMALL)),
            unknown.raw_body(chunked(LARGE)),
        ),
        (image(SMALL), image(LARGE)),
    ] {
        let reply = linked.send(&small).expect(200);
        linked.check_media(&reply, SMALL);
        linked.check_refused(&large, 413, TOO_LARGE);
    }
    assert_eq!(linked.count(), 3);
}

#[test]
fn media_over_the_size_of_the_link_is_refused_in_a_session() {
    let linked = Linked::new();
    let link = bound(&linked);
    let declared = |length: u64| {
        let start = start(&linked, &link, "image/png");
        start.header("X-Upload-Content-Length", length).body("")
    };
    linked.check_refused(&declared(LIMIT + 1), 413, TOO_LARGE);
    let address = linked.server.address();
    let session = Session::of_reply(address, &linked.send(&declared(LIMIT)).expect(200));
    session.append(SMALL, 0..LIMIT).expect(201);

    // The length is stated later, or never.
    let begin = || {
        let start = start(&linked, &link, "image/png").body("");
        Session::of_reply(address, &linked.send(&start).expect(200))
    };
    check_refusal(&begin().append(LARGE, 0..LARGE.len()), 413, TOO_LARGE);
    let session = begin();
    let unknown = session
        .request("PUT")
        .header("Transfer-Encoding", "chunked");
    let refused = session.exchange(&unknown.raw_body(chunked(LARGE)));
    check_refusal(&refused, 413, TOO_LARGE);
    session.query().expect(410);
    assert_eq!(linked.count(), 1);
}

#[test]
fn media_over_the_size_of_the_link_is_refused_after_a_restart() {
    let mut linked = Linked::new();
    let link = bound(&linked);
    let begun = linked
        .send(&start(&linked, &link, "image/png").body(""))
        .expect(200);
    let session = Session::of_reply(linked.server.address(), &begun);
    linked.server.kill9();
    linked.server.start_again();
    let session = session.moved_to(linked.server.address());
    check_refusal(&session.append(LARGE, 0..LARGE.len()), 413, TOO_LARGE);
}

#[test]
fn media_over_the_size_of_the_link_is_refused_in_x_goog_upload() {
    let linked = Linked::new();
    let link = bound(&linked);
    let begin = |length: Option<u64>| {
        let start = linked
            .request("POST", &link.target)
            .header("X-Goog-Upload-Protocol", "resumable")
            .header("X-Goog-Upload-Command", "start")
            .header("X-Goog-Upload-Header-Content-Type", "image/png");
        let declared = "X-Goog-Upload-Header-Content-Length";
        match length {
            Some(length) => start.header(declared, length).body(""),
            None => start.body(""),
        }
    };
    linked.check_refused(&begin(Some(LIMIT + 1)), 413, TOO_LARGE);
    for (media, status) in [(SMALL, 200), (LARGE, 413)] {
        let started = linked.send(&begin(None)).expect(200);
        let target = target_in(&started, "x-goog-upload-url").expect("a session URI");
        let rest = linked
            .request("POST", target)
            .header("X-Goog-Upload-Command", "upload, finalize")
            .header("X-Goog-Upload-Offset", 0);
        let reply = linked.send(&rest.body(media.whole())).expect(status);
        if status == 413 {
            check_refusal(&reply, 413, TOO_LARGE);
        }
    }
    assert_eq!(linked.count(), 1);
}

#[test]
fn media_of_another_type_than_the_link_allows_is_refused() {
    let linked = Linked::new();
    let link = bound(&linked);
    let simple = linked.request("POST", format!("{}&uploadType=media", link.target));
    let x_goog = linked
        .request("POST", &link.target)
        .header("X-Goog-Upload-Protocol", "resumable")
        .header("X-Goog-Upload-Command", "start");
    for request in [
        simple
            .clone()
            .header("Content-Type", "text/plain")
            .body("cow"),
        // The type of media that states none.
        simple.clone().body("cow"),
        multipart(&linked, &link, "{}", "text/plain", SMALL),
        // The type that some APIs prefer.
        multipart(
            &linked,
            &link,
            r#"{"contentType":"text/plain"}"#,
            "image/png",
            SMALL,
        ),
        // Each API ignores the fields of other APIs.
        multipart(
            &linked,
            &link,
            r#"{"mimeType":"image/png","contentType":"text/plain"}"#,
            "image/png",
            SMALL,
        ),
        start(&linked, &link, "text/plain").body(""),
        start(&linked, &link, "image/png").body(r#"{"mimeType":"text/plain"}"#),
        x_goog
            .clone()
            .header("X-Goog-Upload-Header-Content-Type", "text/plain")
            .body(""),
        x_goog.body(""),
    ] {
        linked.check_refused(&request, 400, WRONG_TYPE);
    }
    let image = simple.header("Content-Type", "image/svg+xml; charset=utf-8");
    linked.send(&image.body("cow")).expect(200);
    assert_eq!(linked.count(), 1);
}

#[test]
fn link_does_not_widen_the_bounds_of_the_method() {
    let linked = Linked::new();
    let link = linked.sign(&["--type", "*/*", "--max-size", "1TB"], UPLOADS);
    let simple = linked.request("POST", format!("{}&uploadType=media", link.target));
    let executable = simple.header("Content-Type", "application/x-msdownload");
    linked.check_refused(&executable.body("cow"), 400, "the method accepts");
    let start = start(&linked, &link, "image/png");
    let start = start.header("X-Upload-Content-Length", 51_u64 << 30);
    linked.check_refused(&start.body(""), 413, "at most 53687091200 byte(s)");
}
