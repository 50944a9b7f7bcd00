//! Simple uploads: the body is the media (docs/protocol.md, 2.5).

use windlass_testkit::encodings::chunked;
use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm::{self, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Request, exchange};

use crate::server::{farm, own};

fn simple(query: &str) -> Request {
    Request::new("POST", format!("{UPLOADS}?{query}"))
}

#[test]
fn a_simple_upload_is_answered_200_with_the_resource() {
    let media = Media::new(1, 100_000);
    let reply = farm::upload(farm(), media);
    assert_eq!(reply.reason, "OK");
    assert_eq!(
        reply.header("content-type"),
        Some("application/json; charset=UTF-8")
    );
    assert_eq!(reply.field("kind"), "farm#animal");
    assert_eq!(reply.field("mimeType"), "image/png");
    farm::assert_media(farm(), &reply, media);
}

#[test]
fn media_of_any_size_is_downloaded_unchanged() {
    for len in [0, 1, 65_535, 65_536, 65_537, 262_144, 3_000_001] {
        let media = Media::new(len, len);
        farm::assert_media(farm(), &farm::upload(farm(), media), media);
    }
}

#[test]
fn a_body_in_chunked_transfer_coding_is_stored_without_it() {
    let media = Media::new(2, 70_000);
    let bytes = media.whole();
    let request = simple("uploadType=media")
        .header("Content-Type", "image/png")
        .header("Transfer-Encoding", "chunked")
        .raw_body(chunked(bytes.chunks(9_999)));
    farm::assert_media(farm(), &exchange(farm(), &request).expect(200), media);
    let empty = simple("uploadType=media").header("Transfer-Encoding", "chunked");
    let reply = exchange(farm(), &empty.raw_body(chunked([]))).expect(200);
    farm::assert_media(farm(), &reply, Media::new(0, 0));
}

#[test]
fn put_and_patch_replace_the_media_of_a_resource_and_keep_the_rest() {
    let reply = exchange(farm(), &named_animal("Dolly")).expect(200);
    let target = format!(
        "/upload{}?uploadType=media",
        farm::animal(&farm::id(&reply))
    );
    for (verb, seed) in [("PUT", 3), ("PATCH", 4)] {
        let media = Media::new(seed, 1_000 * seed);
        let request = Request::new(verb, &target)
            .header("Content-Type", "video/mp4")
            .body(media.whole());
        let replaced = exchange(farm(), &request).expect(200);
        assert_eq!(replaced.field("id"), reply.field("id"));
        assert_eq!(replaced.field("name"), "Dolly");
        assert_eq!(replaced.field("mimeType"), "video/mp4");
        farm::assert_media(farm(), &replaced, media);
    }
}

fn named_animal(name: &str) -> Request {
    Request::new("POST", farm::ANIMALS)
        .header("Content-Type", "application/json")
        .body(farm::named(name))
}

#[test]
fn media_of_no_stated_type_is_an_octet_stream() {
    for request in [
        simple("uploadType=media"),
        simple("uploadType=media").header("Content-Type", ""),
    ] {
        let reply = exchange(farm(), &request.body("abc")).expect(200);
        assert_eq!(reply.field("mimeType"), "application/octet-stream");
    }
}

#[test]
fn media_of_a_type_that_the_method_does_not_accept_is_refused() {
    for content_type in ["font/ttf", "application/x-sh", "text/html; charset=utf-8"] {
        let request = simple("uploadType=media")
            .header("Content-Type", content_type)
            .body("abc");
        assert_error(
            &exchange(farm(), &request),
            400,
            "badRequest",
            Some("Content-Type"),
        );
    }
}

#[test]
fn malformed_content_type_is_refused() {
    for content_type in ["image", "image/", "/png", "im age/png"] {
        let request = simple("uploadType=media")
            .header("Content-Type", content_type)
            .body("abc");
        assert_error(
            &exchange(farm(), &request),
            400,
            "invalid",
            Some("Content-Type"),
        );
    }
}

#[test]
fn an_upload_without_a_length_and_without_chunks_is_answered_411_without_a_body() {
    let request = simple("uploadType=media").header("Content-Type", "image/png");
    let reply = exchange(farm(), &request).expect(411);
    assert_eq!(reply.header("content-length"), Some("0"));
}

#[test]
fn upload_protocol_is_a_synonym_of_upload_type() {
    let request = simple("upload_protocol=raw")
        .header("Content-Type", "image/png")
        .body("abc");
    exchange(farm(), &request).expect(200);
    let request = simple("upload_protocol=resumable").body("");
    assert!(
        exchange(farm(), &request)
            .expect(200)
            .header("location")
            .is_some()
    );
}

#[test]
fn without_an_upload_type_the_body_is_the_media_or_a_document_of_two_parts() {
    for query in ["", "alt=json", "uploadType="] {
        let reply = exchange(farm(), &simple(query).body("abc")).expect(200);
        assert_eq!(reply.field("size"), "3");
    }
    for of in ["related", "form-data"] {
        let body = "--b\r\nContent-Disposition: form-data; name=\"metadata\"\r\nContent-Type: \
                    application/json\r\n\r\n{\"name\":\"ox\"}\r\n--b\r\nContent-Disposition: form-data; \
                    name=\"file\"; filename=\"ox.png\"\r\nContent-Type: image/png\r\n\r\nmoo\r\n--b--\r\n";
        for query in ["", "?uploadType=multipart"] {
            let request = Request::new("POST", format!("{}{query}", farm::UPLOADS))
                .header("Content-Type", format!("multipart/{of}; boundary=b"));
            let reply = exchange(farm(), &request.body(body)).expect(200);
            assert_eq!(
                (reply.field("size"), reply.field("name")),
                ("3".into(), "ox".into())
            );
        }
    }
}

#[test]
fn an_unknown_upload_type_is_refused() {
    for query in [
        "uploadType=carrier-pigeon",
        "uploadType=Media",
        "upload_protocol=smoke",
    ] {
        let reply = exchange(farm(), &simple(query).body("abc"));
        assert_error(&reply, 400, "invalidParameter", Some("uploadType"));
    }
}

#[test]
fn a_body_that_breaks_off_leaves_no_resource() {
    let server = own(&[]);
    let media = Media::new(5, 200_000);
    let mut peer = RawPeer::connect(server.address());
    peer.send(&farm::simple(media).to_bytes()[..150_000]);
    peer.finish_sending();
    // Whether the half-closed connection still gets its 408 is the server's choice.
    if let Ok(reply) = peer.try_reply() {
        assert_error(&reply, 408, "uploadBrokenConnection", None);
    }
    assert!(peer.is_closed());
    let list = exchange(server.address(), &Request::new("GET", farm::ANIMALS)).expect(200);
    assert!(
        list.field("items").as_array().is_none_or(Vec::is_empty),
        "{}",
        list.text()
    );
}
