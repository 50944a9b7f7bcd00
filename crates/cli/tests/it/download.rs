//! Media on its way out.

use std::sync::atomic::{AtomicBool, Ordering};

use windlass_testkit::error_object::assert_error;
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};

use crate::server::{farm, shelf, with_configuration};

/// Kept in the ledger, and kept in the vault.
const SIZES: [u64; 2] = [1000, 300_000];

struct Animal {
    media: Media,
    id: String,
}

impl Animal {
    fn of(len: u64) -> Self {
        let media = Media::new(25, len);
        let id = farm::id(&farm::upload(farm(), media));
        Self { media, id }
    }

    fn get(&self, headers: &[(&str, &str)]) -> Reply {
        let request = farm::download(&self.id);
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(name, value)
        });
        exchange(farm(), &request)
    }
}

#[test]
fn download_path_returns_media_only() {
    for len in SIZES {
        let animal = Animal::of(len);
        let path = format!("/download{}", farm::animal(&animal.id));
        for query in ["", "?alt=media", "?alt=json", "?fields=id&alt=nonsense"] {
            let request = Request::new("GET", format!("{path}{query}"));
            let reply = exchange(farm(), &request).expect(200);
            assert_eq!(reply.header("content-type"), Some("image/png"));
            animal.media.compare(0..len, &reply.body[..]).unwrap();
        }
        let request = Request::new("GET", &path).header("Range", "bytes=5-9");
        let reply = exchange(farm(), &request).expect(206);
        animal.media.compare(5..10, &reply.body[..]).unwrap();
        let reply = exchange(farm(), &Request::new("HEAD", &path)).expect(200);
        assert_eq!(reply.header("content-length"), Some(&*len.to_string()));
    }
}

#[test]
fn the_download_path_of_a_method_without_media_does_not_exist() {
    let request = Request::new("GET", format!("/download{}", farm::ANIMALS));
    assert_error(&exchange(farm(), &request), 404, "notFound", None);
    let request = Request::new("DELETE", format!("/download{}", farm::animal("bella")));
    assert_error(&exchange(farm(), &request), 405, "methodNotAllowed", None);
}

#[test]
fn download_returns_the_media_with_its_headers() {
    for animal in SIZES.map(Animal::of) {
        let reply = animal.get(&[]).expect(200);
        let length = animal.media.len().to_string();
        assert_eq!(reply.header("content-type"), Some("image/png"));
        assert_eq!(reply.header("content-length"), Some(length.as_str()));
        assert_eq!(reply.header("accept-ranges"), Some("bytes"));
        let crc32c = format!("crc32c={}", animal.media.crc32c());
        assert!(reply.header("x-goog-hash").unwrap().contains(&crc32c));
        assert!(reply.header("etag").unwrap().starts_with('"'));
        assert!(reply.header("last-modified").is_some());
        assert_eq!(reply.body, animal.media.whole());
    }
}

#[test]
fn download_states_the_digest_that_its_client_prefers() {
    let animal = Animal::of(1000);
    let crc32c = format!("crc32c=:{}:", animal.media.crc32c());
    for (wanted, digest) in [
        ("crc32c=1", Some(&*crc32c)),
        ("sha-512=9, unixsum=8, crc32c=1", Some(&crc32c)),
        ("crc32c=0", None),
        ("sha-512=10", None),
        ("crc32c", None),
        ("(", None),
    ] {
        let reply = animal.get(&[("Want-Repr-Digest", wanted)]).expect(200);
        assert_eq!(reply.header("repr-digest"), digest, "{wanted}");
    }
    // A digest of the representation is the same for each of its parts.
    let wanted = ("Want-Repr-Digest", "crc32c=1");
    let part = animal.get(&[wanted, ("Range", "bytes=0-9")]).expect(206);
    assert_eq!(part.header("repr-digest"), Some(&*crc32c));
    let plain = animal.get(&[]).expect(200);
    assert_eq!(plain.header("repr-digest"), None);
}

#[test]
fn a_range_gets_its_bytes_and_206() {
    for animal in SIZES.map(Animal::of) {
        let len = animal.media.len();
        let table = [
            ("bytes=0-0".to_owned(), 0..1),
            ("bytes=0-99".to_owned(), 0..100),
            ("bytes=100-".to_owned(), 100..len),
            ("bytes=-7".to_owned(), len - 7..len),
            ("bytes=-999999999".to_owned(), 0..len),
            (format!("bytes=900-{}", len * 2), 900..len),
            (format!("bytes={}-", len - 1), len - 1..len),
        ];
        for (range, expected) in table {
            let reply = animal.get(&[("Range", &range)]).expect(206);
            let content_range = format!("bytes {}-{}/{len}", expected.start, expected.end - 1);
            assert_eq!(reply.header("content-range"), Some(content_range.as_str()));
            assert_eq!(reply.body, animal.media.bytes(expected), "{range}");
        }
    }
}

#[test]
fn range_behind_the_end_is_416_with_the_length_and_why() {
    let animal = Animal::of(1000);
    for range in [
        "bytes=1000-",
        "bytes=1000-2000",
        "bytes=-0",
        "bytes=18446744073709551615-",
    ] {
        let reply = animal.get(&[("Range", range)]).expect(416);
        assert_eq!(reply.header("content-range"), Some("bytes */1000"));
        assert_error(&reply, 416, "requestedRangeNotSatisfiable", Some("Range"));
        assert!(reply.text().contains("1000 bytes"), "{}", reply.text());
    }
    let empty = Animal::of(0);
    assert_eq!(empty.get(&[]).expect(200).body, b"");
    assert_eq!(
        empty
            .get(&[("Range", "bytes=0-")])
            .expect(416)
            .header("content-range"),
        Some("bytes */0")
    );
}

#[test]
fn a_range_that_cannot_be_followed_is_ignored() {
    let animal = Animal::of(1000);
    for range in [
        "bytes=9-1",
        "bytes=a-b",
        "lines=1-2",
        "bytes=0-1,5-6",
        "0-1",
        "bytes=",
    ] {
        assert_eq!(
            animal.get(&[("Range", range)]).expect(200).body,
            animal.media.whole(),
            "{range}"
        );
    }
}

#[test]
fn media_that_the_client_has_is_not_sent_again() {
    let animal = Animal::of(300_000);
    let etag = animal.get(&[]).header("etag").unwrap().to_owned();
    for condition in [
        etag.as_str(),
        "*",
        &format!("W/{etag}"),
        &format!("\"x\", {etag}"),
    ] {
        let reply = animal.get(&[("If-None-Match", condition)]).expect(304);
        assert_eq!(reply.header("etag"), Some(etag.as_str()));
    }
    animal.get(&[("If-None-Match", "\"another\"")]).expect(200);
}

#[test]
fn a_condition_that_does_not_hold_is_answered_412() {
    let animal = Animal::of(1000);
    let etag = animal.get(&[]).header("etag").unwrap().to_owned();
    animal.get(&[("If-Match", &etag)]).expect(200);
    assert_error(
        &animal.get(&[("If-Match", "\"another\"")]),
        412,
        "conditionNotMet",
        None,
    );
}

#[test]
fn a_range_of_other_media_than_the_client_has_is_the_whole() {
    let animal = Animal::of(1000);
    let etag = animal.get(&[]).header("etag").unwrap().to_owned();
    animal
        .get(&[("Range", "bytes=0-9"), ("If-Range", &etag)])
        .expect(206);
    let reply = animal.get(&[("Range", "bytes=0-9"), ("If-Range", "\"another\"")]);
    assert_eq!(reply.expect(200).body, animal.media.whole());
}

#[test]
fn new_media_has_a_new_tag() {
    let animal = Animal::of(1000);
    let before = animal.get(&[]).header("etag").unwrap().to_owned();
    let target = format!("/upload{}?uploadType=media", farm::animal(&animal.id));
    let update = Request::new("PUT", target)
        .header("Content-Type", "image/png")
        .body("new");
    exchange(farm(), &update).expect(200);
    let reply = animal.get(&[("If-None-Match", &before)]).expect(200);
    assert_eq!(reply.text(), "new");
    assert_ne!(reply.header("etag"), Some(before.as_str()));
}

#[test]
fn media_is_found_while_it_is_replaced_until_its_resource_is_gone() {
    let animal = Animal::of(1000);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let reply = animal.get(&[]);
                        if reply.status != 200 {
                            return assert_error(&reply, 404, "notFound", None);
                        }
                    }
                })
            })
            .collect();
        let target = farm::animal(&animal.id);
        for version in 0..200 {
            let update = Request::new("PUT", format!("/upload{target}?uploadType=media"))
                .header("Content-Type", "image/png")
                .body(format!("version {version}"));
            exchange(farm(), &update).expect(200);
        }
        assert!(readers.iter().all(|reader| !reader.is_finished()));
        exchange(farm(), &Request::new("DELETE", target)).expect(204);
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn head_has_the_headers_of_get() {
    for animal in SIZES.map(Animal::of) {
        let target = format!("{}?alt=media", farm::animal(&animal.id));
        let head = RawPeer::connect(farm()).exchange(&Request::new("HEAD", target));
        let get = animal.get(&[]);
        assert_eq!(head.status, 200);
        for name in [
            "content-type",
            "content-length",
            "etag",
            "x-goog-hash",
            "accept-ranges",
        ] {
            assert_eq!(head.header(name), get.header(name), "{name}");
        }
    }
}

#[test]
fn a_resource_without_media_has_nothing_to_download() {
    let insert = Request::new("POST", farm::ANIMALS).header("Content-Type", "application/json");
    let id = farm::id(&exchange(farm(), &insert.body(farm::named("Echo"))).expect(200));
    assert_error(
        &exchange(farm(), &farm::download(&id)),
        404,
        "notFound",
        None,
    );
    assert_error(
        &exchange(farm(), &farm::download("nobody")),
        404,
        "notFound",
        None,
    );
}

/// The headers that keep media from acting in a browser, of all replies that are about it.
#[track_caller]
fn assert_protected(content_type: &str, disposition: Option<&str>) {
    let upload = Request::new("POST", "/upload/shelf/v1/things?uploadType=media");
    let upload = upload
        .header("Content-Type", content_type)
        .body("<script>act()</script>");
    let id = farm::id(&exchange(shelf(), &upload).expect(200));
    let target = format!("/shelf/v1/things/{id}?alt=media");
    for (verb, header, value, status) in [
        ("GET", "X", "1", 200),
        ("HEAD", "X", "1", 200),
        ("GET", "Range", "bytes=0-3", 206),
        ("GET", "If-None-Match", "*", 304),
    ] {
        let request = Request::new(verb, &target).header(header, value);
        let reply = exchange(shelf(), &request).expect(status);
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        let policy = reply.header("content-security-policy");
        assert_eq!(policy, Some("sandbox; default-src 'none'"));
        assert_eq!(
            reply.header("content-disposition"),
            disposition,
            "{content_type} {status}"
        );
        assert_eq!(
            reply.header("cross-origin-resource-policy"),
            Some("same-origin")
        );
    }
}

#[test]
fn uploaded_html_does_not_run_as_a_page_of_the_server() {
    assert_protected("text/html; charset=utf-8", Some("attachment"));
}

#[test]
fn media_that_may_act_is_saved_as_a_file() {
    for saved in [
        "image/svg+xml",
        "application/pdf",
        "application/json",
        "text/javascript",
    ] {
        assert_protected(saved, Some("attachment"));
    }
    for shown in ["image/png", "audio/ogg", "video/mp4", "text/plain"] {
        assert_protected(shown, None);
    }
}

#[test]
fn media_is_embedded_by_pages_of_its_origin_alone() {
    let animal = farm::id(&farm::upload(farm(), Media::new(9, 100)));
    let policy = |address, id: &str| {
        let reply = exchange(address, &farm::download(id)).expect(200);
        reply
            .header("cross-origin-resource-policy")
            .map(str::to_owned)
    };
    assert_eq!(policy(farm(), &animal).as_deref(), Some("same-origin"));
    let open = with_configuration("[downloads]\ninline = []\nresource_policy = 'cross-origin'\n");
    let animal = farm::id(&farm::upload(open.address(), Media::new(9, 100)));
    assert_eq!(
        policy(open.address(), &animal).as_deref(),
        Some("cross-origin")
    );
    let shown = exchange(open.address(), &farm::download(&animal)).expect(200);
    assert_eq!(shown.header("content-disposition"), Some("attachment"));
}

const DOCUMENTS: &str = "media.example";

/// A server with a host for media, and an animal on it.
fn with_host_of_downloads() -> (ServerProcess, String) {
    let server = with_configuration(&format!("[downloads]\nhost = '{DOCUMENTS}'\n"));
    let animal = farm::id(&farm::upload(server.address(), Media::new(9, 100)));
    (server, animal)
}

#[test]
fn document_is_opened_on_the_host_of_downloads() {
    let (server, animal) = with_host_of_downloads();
    let target = format!("{}?alt=media&x=1", farm::animal(&animal));
    let get = |host: &str, mode: &str| {
        let request = Request::new("GET", &target).header("Host", host);
        exchange(server.address(), &request.header("Sec-Fetch-Mode", mode))
    };
    let sent = get("farm.localhost:8080", "navigate").expect(307);
    let location = format!("http://{DOCUMENTS}:8080{target}");
    assert_eq!(sent.header("location"), Some(location.as_str()));
    assert_eq!(sent.header("vary"), Some("Sec-Fetch-Mode"));
    let document = get(DOCUMENTS, "navigate").expect(200);
    assert_eq!((document.body.len(), document.header("vary")), (100, None));
    for mode in ["no-cors", "cors", "same-origin"] {
        let media = get("farm.localhost", mode).expect(200);
        assert_eq!(media.body.len(), 100, "{mode}");
        assert_eq!(media.header("vary"), Some("Sec-Fetch-Mode"), "{mode}");
    }
    let library = exchange(server.address(), &farm::download(&animal)).expect(200);
    assert_eq!(library.body.len(), 100);
    let resource = Request::new("GET", farm::animal(&animal)).header("Sec-Fetch-Mode", "navigate");
    exchange(server.address(), &resource).expect(200);
}

#[test]
fn host_of_downloads_has_nothing_else() {
    let (server, animal) = with_host_of_downloads();
    let session = farm::begin(server.address(), "elsewhere");
    for request in [
        Request::new("GET", farm::ANIMALS),
        Request::new("GET", farm::animal(&animal)),
        Request::new("DELETE", farm::animal(&animal)),
        Request::new("GET", "/discovery/v1/apis"),
        Request::new("GET", "/"),
        Request::new("POST", "/batch"),
        Request::new("GET", "/batch"),
        farm::simple(Media::new(9, 1)),
        farm::start("{}"),
        session.ranged("bytes */*").body(""),
        session.request("GET"),
    ] {
        let request = request.header("Host", DOCUMENTS);
        assert_eq!(
            exchange(server.address(), &request).status,
            404,
            "{request:?}"
        );
    }
    session.query().expect(308);
}
