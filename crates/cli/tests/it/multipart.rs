//! Multipart uploads: metadata and media in one body (docs/protocol.md, 2.6 and 4.14).

use serde_json::Value;
use windlass_testkit::encodings::{chunked, gzip};
use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm::{self, UPLOADS};
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};

use crate::server::farm;

/// The media of all bodies: bytes that look like delimiters but are not.
const MEDIA: &[u8] = b"\r\n--\n--b\r\n--bound\r\n\r\n--boundar \n\xff\x00--boundary--";

/// The form of a client library's requests: the parameters of its `Content-Type`, and its body
/// around [`MEDIA`].
struct Shape {
    client: &'static str,
    content_type: &'static str,
    before: &'static str,
    after: &'static str,
}

const SHAPES: [Shape; 10] = [
    Shape {
        client: "google-api-python-client: bare line feeds, a quoted boundary",
        content_type: "multipart/related; boundary=\"===============7330845974216740156==\"",
        before: "--===============7330845974216740156==\nContent-Type: application/json\n\
                 MIME-Version: 1.0\n\n{\"name\": \"Llama\"}\n\
                 --===============7330845974216740156==\nContent-Type: image/png\n\
                 MIME-Version: 1.0\nContent-Transfer-Encoding: binary\n\n",
        after: "\n--===============7330845974216740156==--\n",
    },
    Shape {
        client: "google-cloud-storage for Python: lower-case headers, no line end at the end",
        content_type: "multipart/related; boundary=\"===============0000000000000000001==\"",
        before: "--===============0000000000000000001==\r\n\
                 content-type: application/json; charset=UTF-8\r\n\r\n{\"name\": \"Llama\"}\r\n\
                 --===============0000000000000000001==\r\ncontent-type: image/png\r\n\r\n",
        after: "\r\n--===============0000000000000000001==--",
    },
    Shape {
        client: "apitools, gsutil, gcloud: single quotes that do not belong to the boundary",
        content_type: "multipart/related; boundary='===============8864122433114598420=='",
        before: "--===============8864122433114598420==\nContent-Type: application/json\n\
                 MIME-Version: 1.0\n\n{\"name\": \"Llama\"}\n\
                 --===============8864122433114598420==\nContent-Type: image/png\n\
                 MIME-Version: 1.0\nContent-Transfer-Encoding: binary\n\n",
        after: "\n--===============8864122433114598420==--\n",
    },
    Shape {
        client: "Go: an unquoted boundary",
        content_type: "multipart/related; boundary=2c1f0b3e7a5d4968",
        before: "--2c1f0b3e7a5d4968\r\nContent-Type: application/json\r\n\r\n{\"name\":\"Llama\"}\n\r\n\
                 --2c1f0b3e7a5d4968\r\nContent-Type: image/png\r\n\r\n",
        after: "\r\n--2c1f0b3e7a5d4968--\r\n",
    },
    Shape {
        client: "Java: lengths of the parts",
        content_type: "multipart/related; boundary=__END_OF_PART__d2f7b8c4-0a4c__",
        before: "--__END_OF_PART__d2f7b8c4-0a4c__\r\nContent-Length: 16\r\n\
                 Content-Type: application/json; charset=UTF-8\r\n\
                 content-transfer-encoding: binary\r\n\r\n{\"name\":\"Llama\"}\r\n\
                 --__END_OF_PART__d2f7b8c4-0a4c__\r\nContent-Type: image/png\r\n\
                 content-transfer-encoding: binary\r\n\r\n",
        after: "\r\n--__END_OF_PART__d2f7b8c4-0a4c__--\r\n",
    },
    Shape {
        client: "Node googleapis",
        content_type: "multipart/related; boundary=51ac2c2f-7ccc-4a1f-8a11-4c8a1f2c2d7b",
        before: "--51ac2c2f-7ccc-4a1f-8a11-4c8a1f2c2d7b\r\ncontent-type: application/json\r\n\r\n\
                 {\"name\":\"Llama\"}\r\n--51ac2c2f-7ccc-4a1f-8a11-4c8a1f2c2d7b\r\n\
                 content-type: image/png\r\n\r\n",
        after: "\r\n--51ac2c2f-7ccc-4a1f-8a11-4c8a1f2c2d7b--",
    },
    Shape {
        client: "PHP with binary parts: a number as boundary",
        content_type: "multipart/related; boundary=1234567890",
        before: "--1234567890\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n\
                 {\"name\":\"Llama\"}\r\n--1234567890\r\nContent-Type: image/png\r\n\
                 Content-Transfer-Encoding: binary\r\n\r\n",
        after: "\r\n--1234567890--",
    },
    Shape {
        client: "Ruby: empty lines behind the end",
        content_type: "multipart/related; boundary=RubyApiClientUpload",
        before: "--RubyApiClientUpload\r\nContent-Type: application/json\r\n\r\n{\"name\":\"Llama\"}\r\n\
                 --RubyApiClientUpload\r\nContent-Type: image/png\r\n\
                 Content-Transfer-Encoding: binary\r\n\r\n",
        after: "\r\n--RubyApiClientUpload--\r\n\r\n",
    },
    Shape {
        client: "google-apis-rs: no space before the boundary, a line end before the first delimiter",
        content_type: "multipart/related;boundary=MDuXWGyeE33QFXGchb2VFWc4Z7945d",
        before: "\r\n--MDuXWGyeE33QFXGchb2VFWc4Z7945d\r\nContent-Length: 16\r\n\
                 Content-Type: application/json\r\n\r\n{\"name\":\"Llama\"}\r\n\
                 --MDuXWGyeE33QFXGchb2VFWc4Z7945d\r\nContent-Type: image/png\r\n\r\n",
        after: "\r\n--MDuXWGyeE33QFXGchb2VFWc4Z7945d--",
    },
    Shape {
        client: "curl by hand: parameters in another order, a preamble",
        content_type: "Multipart/Related; type=\"application/json\"; Boundary=\"a b\"",
        before: "This is a message in several parts.\r\n--a b  \r\nCONTENT-TYPE: application/json\r\n\r\n\
                 {\"name\":\"Llama\"}\r\n--a b\r\nContent-Type: image/png\r\n\r\n",
        after: "\r\n--a b--\r\nand an epilogue",
    },
];

impl Shape {
    fn body(&self) -> Vec<u8> {
        [self.before.as_bytes(), MEDIA, self.after.as_bytes()].concat()
    }

    fn request(&self) -> Request {
        multipart(self.content_type)
    }
}

fn multipart(content_type: &str) -> Request {
    Request::new("POST", format!("{UPLOADS}?uploadType=multipart"))
        .header("Content-Type", content_type)
}

fn boundary() -> Request {
    multipart("multipart/related; boundary=boundary")
}

#[track_caller]
fn assert_llama(client: &str, reply: &Reply) {
    let reply = reply.clone().expect(200);
    assert_eq!(reply.field("name"), "Llama", "{client}");
    assert_eq!(reply.field("mimeType"), "image/png", "{client}");
    assert_media(client, &reply, MEDIA);
}

#[track_caller]
fn assert_media(client: &str, reply: &Reply, media: &[u8]) {
    assert_eq!(reply.field("size"), media.len().to_string(), "{client}");
    let download = exchange(farm(), &farm::download(&farm::id(reply))).expect(200);
    assert_eq!(download.body, media, "{client}");
}

#[test]
fn the_body_of_every_client_library_is_understood() {
    for shape in &SHAPES {
        let reply = exchange(farm(), &shape.request().body(shape.body()));
        assert_llama(shape.client, &reply);
    }
}

#[test]
fn a_body_may_be_cut_into_segments_anywhere() {
    for shape in &SHAPES {
        let mut peer = RawPeer::connect(farm());
        let body = shape.body();
        peer.send(
            shape
                .request()
                .header("Content-Length", body.len())
                .head_bytes(),
        );
        for segment in body.chunks(7) {
            peer.send(segment);
        }
        assert_llama(shape.client, &peer.reply());
    }
}

#[test]
fn a_body_may_be_chunked_anywhere() {
    for shape in &SHAPES {
        for size in [1, 2, 3, 50] {
            let body = chunked(shape.body().chunks(size));
            let request = shape
                .request()
                .header("Transfer-Encoding", "chunked")
                .raw_body(body);
            assert_llama(shape.client, &exchange(farm(), &request));
        }
    }
}

#[test]
fn a_body_may_be_packed_with_gzip() {
    for shape in &SHAPES {
        let request = shape
            .request()
            .header("Content-Encoding", "gzip")
            .body(gzip(&shape.body()));
        assert_llama(shape.client, &exchange(farm(), &request));
    }
}

#[test]
fn a_media_part_in_base64_is_decoded() {
    for text in ["AAEC/f7/\r\n", "AAEC\r\n/f7/", "AAEC/f7/"] {
        let body = format!(
            "--boundary\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{{}}\r\n\
             --boundary\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n\
             {text}\r\n--boundary--"
        );
        let reply = exchange(farm(), &boundary().body(body)).expect(200);
        assert_media(text, &reply, &[0, 1, 2, 0xfd, 0xfe, 0xff]);
    }
}

#[test]
fn a_media_part_without_any_header_is_an_octet_stream() {
    let body = "--boundary\r\nContent-Type: application/json\r\n\r\n{}\r\n--boundary\r\n\r\nabc\r\n--boundary--";
    let reply = exchange(farm(), &boundary().body(body)).expect(200);
    assert_eq!(reply.field("mimeType"), "application/octet-stream");
    assert_media("rclone", &reply, b"abc");
}

#[test]
fn a_media_part_may_be_empty() {
    let body =
        "--boundary\r\n\r\n{}\r\n--boundary\r\nContent-Type: image/png\r\n\r\n\r\n--boundary--";
    assert_media(
        "empty",
        &exchange(farm(), &boundary().body(body)).expect(200),
        b"",
    );
}

#[test]
fn metadata_may_be_absent_or_null() {
    for metadata in ["", "{}", "null", " \r\n ", "\u{feff}{}"] {
        let reply = exchange(farm(), &boundary().body(parts(&[metadata, "abc"]))).expect(200);
        assert_eq!(reply.field("name"), Value::Null);
        assert_media(metadata, &reply, b"abc");
    }
}

#[test]
fn metadata_that_is_no_json_object_is_a_parse_error() {
    for metadata in [
        "{",
        "Llama",
        "[]",
        "\"Llama\"",
        "7",
        "true",
        "{\"name\":\"\u{0}\"}",
    ] {
        let reply = exchange(farm(), &boundary().body(parts(&[metadata, "abc"])));
        assert_error(&reply, 400, "parseError", None);
    }
    let body = [
        b"--boundary\r\n\r\n{\"name\":\"\xff\"}",
        &b"\r\n--boundary\r\n\r\nabc\r\n--boundary--"[..],
    ];
    let reply = exchange(farm(), &boundary().body(body.concat()));
    assert_error(&reply, 400, "parseError", None);
}

#[test]
fn metadata_says_the_type_of_media_whose_part_does_not() {
    let body = parts(&[r#"{"mimeType":"video/mp4"}"#, "abc"]);
    let reply = exchange(farm(), &boundary().body(body)).expect(200);
    assert_eq!(reply.field("mimeType"), "video/mp4");
}

#[test]
fn media_type_that_is_long_or_no_line_is_refused() {
    let long = format!("text/plain;a={}", "x".repeat(1100));
    let stated = |content_type: &str| serde_json::json!({"mimeType": content_type}).to_string();
    for content_type in [&long, "text/plain\r\nX-Evil: 1"] {
        let body = parts(&[&stated(content_type), "media"]);
        let refused = exchange(farm(), &boundary().body(&body));
        assert_error(&refused, 400, "badRequest", Some("Content-Type"));
        let session = exchange(farm(), &farm::start(&stated(content_type)));
        assert_error(&session, 400, "badRequest", Some("Content-Type"));
    }
    let simple = Request::new("POST", format!("{UPLOADS}?uploadType=media"));
    let refused = exchange(farm(), &simple.header("Content-Type", long).body("media"));
    assert_error(&refused, 400, "badRequest", Some("Content-Type"));
}

/// Parts without headers.
fn parts(parts: &[&str]) -> String {
    let mut body = String::new();
    for part in parts {
        body.push_str("--boundary\r\n\r\n");
        body.push_str(part);
        body.push_str("\r\n");
    }
    body + "--boundary--"
}

#[test]
fn a_malformed_body_is_a_parse_error() {
    let whole = parts(&["{}", "abc"]);
    let three = parts(&["{}", "abc", r#"{"crc32c":"AAAAAA=="}"#]);
    let bodies = [
        "",
        "--boundary--",
        "no boundary at all",
        &parts(&["{}"]),
        &three,
        &parts(&["{}", "abc", "def", "ghi"]),
        &whole[..whole.len() - 2],
        &whole[..whole.len() - 20],
        &whole.replace("boundary", "another"),
        "--boundary\r\nno header\r\n\r\n{}\r\n--boundary\r\n\r\nabc\r\n--boundary--",
        "--boundary\r\n\r\n{}\r\n--boundary\r\nContent-Transfer-Encoding: base64\r\n\r\n!!\r\n--boundary--",
    ];
    for body in bodies {
        let reply = exchange(farm(), &boundary().body(body));
        assert_eq!(reply.status, 400, "{body:?}: {}", reply.text());
        assert_error(&reply, 400, "parseError", None);
    }
}

#[test]
fn a_content_type_without_a_boundary_is_a_parse_error() {
    for content_type in [
        "multipart/related",
        "multipart/related; boundary=",
        "multipart/related; boundary=\"\"",
    ] {
        let reply = exchange(farm(), &multipart(content_type).body(parts(&["{}", "abc"])));
        assert_error(&reply, 400, "parseError", Some("Content-Type"));
    }
}

#[test]
fn a_content_type_other_than_multipart_related_is_invalid() {
    for content_type in [
        "multipart/mixed; boundary=boundary",
        "application/json",
        "image/png",
        "",
    ] {
        let reply = exchange(farm(), &multipart(content_type).body(parts(&["{}", "abc"])));
        assert_error(&reply, 400, "invalid", Some("Content-Type"));
    }
}

#[test]
fn a_media_part_of_a_type_that_the_method_does_not_accept_is_refused() {
    let body =
        "--boundary\r\n\r\n{}\r\n--boundary\r\nContent-Type: font/ttf\r\n\r\nabc\r\n--boundary--";
    let reply = exchange(farm(), &boundary().body(body));
    assert_error(&reply, 400, "badRequest", Some("Content-Type"));
}

#[test]
fn a_refused_multipart_upload_leaves_no_resource() {
    let name = "nobody-of-a-multipart-upload";
    let metadata = farm::named(name);
    for body in [
        parts(&[&metadata, "abc", "def"]),
        parts(&[&metadata, "abc"]).replace("y--", "y"),
    ] {
        exchange(farm(), &boundary().body(body)).expect(400);
    }
    assert_eq!(farm::count(farm(), name), 0);
}

#[test]
fn a_multipart_upload_by_put_replaces_metadata_and_media_and_by_patch_merges() {
    let start = parts(&[r#"{"name":"Llama","species":"llama"}"#, "abc"]);
    let reply = exchange(farm(), &boundary().body(start)).expect(200);
    let target = format!(
        "/upload{}?uploadType=multipart",
        farm::animal(&farm::id(&reply))
    );
    let table = [
        ("PATCH", "Alpaca", Value::from("llama")),
        ("PUT", "Vicuna", Value::Null),
    ];
    for (verb, name, species) in table {
        let request = Request::new(verb, &target)
            .header("Content-Type", "multipart/related; boundary=boundary")
            .body(parts(&[&farm::named(name), name]));
        let reply = exchange(farm(), &request).expect(200);
        assert_eq!(
            (reply.field("name"), reply.field("species")),
            (name.into(), species)
        );
        assert_media(verb, &reply, name.as_bytes());
    }
}
