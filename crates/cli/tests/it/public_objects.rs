//! Anonymous reads on a server that demands credentials: public objects of Cloud Storage, and
//! objects of Firebase by the token of a download URL. Everything else is 401, whether it exists or
//! not.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};

use crate::authentication::{CAROL, CREDENTIALS, DAVE, bearing};
use crate::server::{own, scratch};

const MEDIA: Media = Media::new(63, 100_000);

const BUCKET: &str = "/storage/v1/b/barn";
const COW: &str = "/storage/v1/b/barn/o/cow";

/// The credentials without their grant to strangers.
fn named() -> &'static str {
    let split = CREDENTIALS.split_once("[[allow]]\nanonymous");
    split.expect("it is the last grant").0
}

/// Carol may do everything, with the token `abc`. Dave may do nothing here, with `def`.
struct Guarded {
    server: ServerProcess,
    _directory: TempDir,
}

impl Guarded {
    /// A server with the bucket `barn` and the object `cow`, which are not public.
    fn new() -> Self {
        Self::set(named(), "")
    }

    /// A server with these settings.
    fn set(credentials: &str, settings: &str) -> Self {
        let directory = TempDir::new_in(scratch()).expect("it is writable");
        std::fs::write(directory.path().join("auth.toml"), credentials).expect("it is writable");
        let config = directory.path().join("windlass.toml");
        let text = format!("{settings}\n[auth]\nfile = 'auth.toml'\n");
        std::fs::write(&config, text).expect("it is writable");
        let config = config.to_str().expect("it is UTF-8");
        let arguments = ["--config", config, "--api", "storage", "--api"];
        let server = own(&[&arguments[..], &["firebasestorage"]].concat());
        let guarded = Self {
            server,
            _directory: directory,
        };
        let bucket = json_request(
            "POST",
            "/storage/v1/b?project=farm",
            &json!({"name": "barn"}),
        );
        guarded.carol(&bucket).expect(200);
        guarded.put("cow");
        guarded
    }

    fn address(&self) -> SocketAddr {
        self.server.address()
    }

    fn carol(&self, request: &Request) -> Reply {
        exchange(self.address(), &bearing(request, CAROL))
    }

    fn stranger(&self, request: &Request) -> Reply {
        exchange(self.address(), request)
    }

    fn put(&self, name: &str) {
        let target = format!("/upload/storage/v1/b/barn/o?uploadType=media&name={name}");
        let upload = Request::new("POST", target).body(MEDIA.whole());
        self.carol(&upload).expect(200);
    }

    /// Gives an entity the role of a reader.
    fn publish(&self, path: &str, entity: &str) {
        let entry = json!({"entity": entity, "role": "READER"});
        let insert = json_request("POST", &format!("{path}/acl"), &entry);
        self.carol(&insert).expect(200);
    }

    /// Asserts that the reply to an anonymous caller is the same 401 as at every path.
    #[track_caller]
    fn assert_refused(&self, request: &Request) {
        let reply = self.stranger(request).expect(401);
        let challenge = reply.header("www-authenticate");
        assert_eq!(challenge, Some("Bearer realm=\"windlass\""), "{request:?}");
        if request.verb() != "HEAD" {
            let usual = self.stranger(&Request::new("GET", "/no/such/path"));
            assert_eq!(reply.text(), usual.text(), "{request:?}");
        }
    }
}

fn json_request(verb: &str, target: &str, body: &Value) -> Request {
    Request::new(verb, target)
        .header("Content-Type", "application/json")
        .body(body.to_string())
}

/// All ways to read an object.
fn reads(name: &str) -> Vec<Request> {
    let path = format!("/storage/v1/b/barn/o/{name}");
    vec![
        Request::new("GET", path.clone()),
        Request::new("GET", format!("{path}?alt=media")),
        Request::new("HEAD", format!("{path}?alt=media")),
        Request::new("GET", format!("/download{path}")),
        Request::new("GET", format!("/download{path}?alt=media")).header("Range", "bytes=1-4"),
        Request::new("GET", format!("/barn/{name}")),
        Request::new("HEAD", format!("/barn/{name}")),
    ]
}

/// Requests to which the answer is 401 although the object is public.
fn other_requests() -> Vec<Request> {
    let upload = "/upload/storage/v1/b/barn/o?uploadType=media&name=cow";
    let entry = json!({"entity": "allUsers", "role": "OWNER"});
    let acl = format!("{COW}/acl");
    vec![
        Request::new("GET", format!("{COW}?projection=full")),
        Request::new("GET", acl.clone()),
        Request::new("GET", format!("{acl}/allUsers")),
        json_request("POST", &acl, &entry),
        json_request("PATCH", COW, &json!({"cacheControl": "no-store"})),
        json_request("PUT", COW, &json!({})),
        Request::new("DELETE", COW),
        Request::new("POST", COW)
            .header("X-HTTP-Method-Override", "DELETE")
            .body(""),
        Request::new("OPTIONS", COW),
        Request::new("POST", upload).body("moo"),
        Request::new("GET", BUCKET),
        Request::new("GET", format!("{BUCKET}/o")),
        Request::new("GET", format!("{BUCKET}/acl")),
        Request::new("GET", "/storage/v1/b?project=farm"),
        Request::new("GET", format!("{COW}?generation=1")),
        Request::new("GET", format!("{COW}?generation=x")),
        Request::new("GET", format!("{COW}?alt=none")),
        Request::new("GET", format!("{COW}?softDeleted=true")),
        Request::new("GET", COW).header("X-Goog-Encryption-Key", "k"),
        Request::new("GET", "/batch/storage/v1"),
        Request::new("GET", "/storage/v1/b/barn/o/c%ff"),
    ]
}

#[test]
fn stranger_reads_public_object_by_every_path_and_nothing_else() {
    let guarded = Guarded::new();
    for request in reads("cow").iter().chain(&other_requests()) {
        guarded.assert_refused(request);
    }
    guarded.publish(COW, "allUsers");
    for request in reads("cow") {
        let reply = guarded.stranger(&request);
        let wanted = if request.to_bytes().windows(6).any(|it| it == b"Range:") {
            206
        } else {
            200
        };
        let reply = reply.expect(wanted);
        if wanted == 206 {
            assert_eq!(reply.body, MEDIA.bytes(1..5));
        }
    }
    let behind = Request::new("GET", "/barn/cow").header("Range", "bytes=99999999-");
    guarded.stranger(&behind).expect(416);
    // The service overrides headers for requests with credentials alone.
    let overridden = Request::new("GET", "/barn/cow?response-content-type=text%2Fplain");
    guarded.assert_refused(&overridden);
    let object = guarded.stranger(&Request::new("GET", COW)).expect(200);
    assert_eq!(object.field("acl"), Value::Null);
    let media = guarded.stranger(&Request::new("GET", "/barn/cow"));
    assert!(media.body == MEDIA.whole(), "other media");
    for request in other_requests() {
        guarded.assert_refused(&request);
    }
    // The object is neither gone nor changed.
    let after = guarded.stranger(&Request::new("GET", COW)).expect(200);
    assert_eq!(after.json(), object.json());
    // Wrong credentials are no credentials of a stranger.
    for request in reads("cow") {
        exchange(guarded.address(), &bearing(&request, "wrong")).expect(401);
    }
}

#[test]
fn missing_object_is_to_a_stranger_as_a_private_one() {
    let guarded = Guarded::new();
    guarded.put("calf");
    guarded.publish(COW, "allUsers");
    for name in ["calf", "none"] {
        for request in reads(name) {
            guarded.assert_refused(&request);
            let conditional = request.header("If-None-Match", "*");
            guarded.assert_refused(&conditional);
            guarded.assert_refused(&conditional.header("If-Match", "\"x\""));
        }
        let path = format!("/storage/v1/b/barn/o/{name}?ifGenerationMatch=1");
        guarded.assert_refused(&Request::new("GET", path));
    }
    guarded.assert_refused(&Request::new("GET", "/storage/v1/b/none/o"));
    let (public, known) = (Request::new("GET", COW), "ifGenerationNotMatch");
    let object = guarded.stranger(&public).expect(200);
    let generation = object.field("generation");
    let generation = generation.as_str().expect("it is a string");
    let request = Request::new("GET", format!("{COW}?{known}={generation}"));
    guarded.stranger(&request).expect(304);
}

#[test]
fn object_that_is_made_private_or_replaced_is_public_no_more() {
    let guarded = Guarded::new();
    let read = Request::new("GET", "/barn/cow");
    let delete = Request::new("DELETE", format!("{COW}/acl/allUsers"));
    let private = json_request("PATCH", &format!("{COW}?predefinedAcl=private"), &json!({}));
    let uniform = json!({"iamConfiguration": {"uniformBucketLevelAccess": {"enabled": true}}});
    let prevented = json!({"iamConfiguration": {"publicAccessPrevention": "enforced"}});
    let uniform = json_request("PATCH", BUCKET, &uniform);
    let prevented = json_request("PATCH", BUCKET, &prevented);
    for (change, status) in [(&delete, 204), (&private, 200), (&prevented, 200)] {
        guarded.publish(COW, "allUsers");
        guarded.stranger(&read).expect(200);
        guarded.carol(change).expect(status);
        guarded.assert_refused(&read);
    }
    let inherited = json!({"iamConfiguration": {"publicAccessPrevention": "inherited"}});
    guarded
        .carol(&json_request("PATCH", BUCKET, &inherited))
        .expect(200);
    guarded.stranger(&read).expect(200);
    guarded.put("cow");
    guarded.assert_refused(&read);
    guarded.publish(COW, "allUsers");
    guarded.carol(&uniform).expect(200);
    guarded.assert_refused(&read);
}

#[test]
fn public_bucket_is_listed_and_its_objects_stay_private() {
    let guarded = Guarded::new();
    let list = Request::new("GET", format!("{BUCKET}/o?maxResults=1"));
    guarded.assert_refused(&list);
    guarded.publish(BUCKET, "allUsers");
    let listed = guarded.stranger(&list).expect(200).json();
    assert_eq!(listed["items"][0]["name"], "cow");
    guarded.assert_refused(&Request::new("GET", format!("{BUCKET}/o?projection=full")));
    for request in reads("cow").iter().chain(&[Request::new("GET", BUCKET)]) {
        guarded.assert_refused(request);
    }
    // Objects that are uploaded from now on are public.
    let entry = json!({"entity": "allUsers", "role": "READER"});
    let default = format!("{BUCKET}/defaultObjectAcl");
    guarded
        .carol(&json_request("POST", &default, &entry))
        .expect(200);
    guarded.put("calf");
    guarded
        .stranger(&Request::new("GET", "/barn/calf"))
        .expect(200);
    guarded.assert_refused(&Request::new("GET", "/barn/cow"));
}

#[test]
fn everybody_with_valid_credentials_reads_what_is_public_to_them() {
    let guarded = Guarded::new();
    let dave = |request: &Request| exchange(guarded.address(), &bearing(request, DAVE));
    for request in reads("cow").iter().chain(&reads("none")) {
        let refused = dave(request).expect(403);
        assert_eq!(refused.header("www-authenticate"), None);
    }
    guarded.publish(COW, "allAuthenticatedUsers");
    for request in reads("cow") {
        assert!([200, 206].contains(&dave(&request).status), "{request:?}");
        guarded.assert_refused(&request);
    }
    for request in other_requests() {
        let status = dave(&request).status;
        assert!((400..500).contains(&status), "{status}, {request:?}");
    }
    // An entity of another form gives nothing.
    guarded.put("cow");
    guarded.publish(COW, "user-dave");
    dave(&Request::new("GET", COW)).expect(403);
}

#[test]
fn public_object_is_public_where_strangers_may_call_other_methods() {
    let listing = CREDENTIALS.replace(
        "anonymous = true\nmethods = ['get']",
        "anonymous = true\napis = ['farm']",
    );
    let guarded = Guarded::set(&listing, "");
    let read = Request::new("GET", "/barn/cow");
    guarded.stranger(&read).expect(401);
    guarded.publish(COW, "allUsers");
    guarded.stranger(&read).expect(200);
    guarded
        .stranger(&Request::new("GET", "/barn/none"))
        .expect(401);
    guarded.stranger(&Request::new("DELETE", COW)).expect(401);
}

#[test]
fn nothing_is_public_of_an_api_that_keeps_principals_apart() {
    let closed = Guarded::set(named(), "access = ['storage=owner']");
    closed.publish(COW, "allUsers");
    let get = Request::new("GET", COW);
    closed.assert_refused(&get);
    exchange(closed.address(), &bearing(&get, DAVE)).expect(403);
    closed.carol(&get).expect(200);
}

#[test]
fn browser_is_sent_to_the_host_of_downloads_for_what_is_public_alone() {
    let guarded = Guarded::set(named(), "[downloads]\nhost = 'media.example'");
    guarded.publish(COW, "allUsers");
    let open = |target: &str| Request::new("GET", target).header("Sec-Fetch-Mode", "navigate");
    let sent = guarded.stranger(&open("/barn/cow")).expect(307);
    let location = sent.header("location").expect("another host");
    assert!(location.starts_with("http://media.example"), "{location}");
    guarded.assert_refused(&open("/barn/none"));
}

#[test]
fn connection_of_a_refused_stranger_stays_open() {
    let guarded = Guarded::new();
    guarded.publish(COW, "allUsers");
    let mut peer = RawPeer::connect(guarded.address());
    for (target, status) in [("/barn/none", 401), ("/barn/cow", 200), ("/x", 401)] {
        let reply = peer.exchange(&Request::new("GET", target));
        assert_eq!(reply.status, status, "{target}");
    }
}

#[test]
fn download_url_of_firebase_needs_its_token_and_no_credentials() {
    let guarded = Guarded::new();
    let objects = "/v0/b/stall/o";
    let upload = Request::new("POST", format!("{objects}?name=calf"))
        .header("X-Goog-Upload-Protocol", "raw")
        .body(MEDIA.whole());
    let made = guarded.carol(&upload).expect(200);
    let token = made.field("downloadTokens");
    let token = token.as_str().expect("it is a string").to_owned();
    let calf = format!("{objects}/calf");
    let right = Request::new("GET", format!("{calf}?alt=media&token={token}"));
    let media = guarded.stranger(&right).expect(200);
    assert!(media.body == MEDIA.whole(), "other media");
    let part = guarded
        .stranger(&right.clone().header("Range", "bytes=1-4"))
        .expect(206);
    assert_eq!(part.body, MEDIA.bytes(1..5));
    let metadata = Request::new("GET", format!("{calf}?token={token}"));
    assert_eq!(
        guarded.stranger(&metadata).expect(200).field("name"),
        "calf"
    );
    for target in [
        calf.clone(),
        format!("{calf}?alt=media"),
        format!("{calf}?alt=media&token="),
        format!("{calf}?alt=media&token=x{token}"),
        format!("{objects}/none?alt=media&token={token}"),
        format!("{objects}?token={token}"),
    ] {
        guarded.assert_refused(&Request::new("GET", target));
    }
    for verb in ["PATCH", "DELETE"] {
        guarded.assert_refused(&json_request(
            verb,
            &format!("{calf}?token={token}"),
            &json!({}),
        ));
    }
    guarded
        .carol(&Request::new("GET", format!("{calf}?alt=media")))
        .expect(200);
    guarded.stranger(&right).expect(200);
    let logged = guarded.server.stderr();
    assert!(!logged.contains(&token), "{logged}");
}

#[test]
fn private_media_is_kept_by_no_shared_cache() {
    let guarded = Guarded::new();
    let is_media = |request: &Request| {
        let text = String::from_utf8_lossy(&request.to_bytes()).into_owned();
        !text.starts_with(&format!("GET {COW} "))
    };
    let media = || reads("cow").into_iter().filter(is_media);
    let caching = |reply: &Reply| reply.header("cache-control").map(str::to_owned);
    let private = Some("private, no-cache".to_owned());
    for request in media() {
        assert_eq!(caching(&guarded.carol(&request)), private, "{request:?}");
    }
    let reply = guarded.carol(&Request::new("GET", "/barn/cow"));
    let etag = reply.header("etag").expect("it has one").to_owned();
    for request in media() {
        let reply = guarded.carol(&request.header("If-None-Match", &etag));
        assert_eq!(caching(&reply.expect(304)), private);
    }
    let firebase = Request::new("GET", "/v0/b/barn/o/calf?alt=media");
    let upload =
        Request::new("POST", "/v0/b/barn/o?name=calf").header("Content-Type", "text/plain");
    let upload = upload.header("X-Goog-Upload-Protocol", "raw").body("moo");
    let made = guarded.carol(&upload).expect(200);
    assert_eq!(caching(&guarded.carol(&firebase).expect(200)), private);
    // The token in the URL is a credential.
    let token = made.field("downloadTokens");
    let token = token.as_str().expect("a token");
    let by_token = Request::new("GET", format!("/v0/b/barn/o/calf?alt=media&token={token}"));
    assert_eq!(caching(&guarded.stranger(&by_token).expect(200)), private);

    guarded.publish(COW, "allUsers");
    for request in media() {
        assert_eq!(caching(&guarded.stranger(&request)), None, "{request:?}");
    }
    let stated = json_request("PATCH", COW, &json!({"cacheControl": "public, max-age=60"}));
    guarded.carol(&stated).expect(200);
    for request in media() {
        let own = Some("public, max-age=60".to_owned());
        assert_eq!(caching(&guarded.carol(&request)), own, "{request:?}");
    }
}
