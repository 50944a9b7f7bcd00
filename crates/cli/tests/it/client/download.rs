//! Downloads of media.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use serde_json::Value;
use windlass_testkit::encodings::gzip;
use windlass_testkit::fault_proxy::{Fault, FaultProxy, Plan};
use windlass_testkit::media::Media;

use super::run::{ClientDir, exists, uploads};
use crate::server::farm;
use crate::stored_gzip::{put_gzip, storage};

const MEDIA: Media = Media::new(51, (3 << 20) + 5);

/// A client's directory, and an uploaded animal to download.
fn client_dir() -> (ClientDir, Value) {
    let client_dir = ClientDir::new();
    client_dir.media("cow.jpg", MEDIA);
    let animal = client_dir
        .run(&["upload", "cow.jpg", &uploads(farm())])
        .expect(0)
        .json();
    (client_dir, animal)
}

fn link(animal: &Value) -> &str {
    animal["selfLink"].as_str().expect("a link")
}

#[track_caller]
fn assert_file(client_dir: &ClientDir, name: &str) {
    let content = fs::read(client_dir.path(name)).expect("the file is there");
    MEDIA
        .compare(0..MEDIA.len(), &content[..])
        .expect("it is what was uploaded");
}

#[test]
fn media_is_asked_for_checked_and_called_as_the_url_ends() {
    let (client_dir, animal) = client_dir();
    let ran = client_dir.run(&["download", link(&animal)]).expect(0);
    let id = animal["id"].as_str().expect("an id");
    assert_file(&client_dir, id);
    ran.says("3 MiB downloaded, checked by crc32c");
    assert_eq!(ran.stdout, "");
    client_dir
        .run(&["download", link(&animal), "-o", "copy.jpg", "--json"])
        .expect(0);
    assert_file(&client_dir, "copy.jpg");
}

#[test]
fn a_file_is_replaced_only_on_demand_and_nothing_goes_to_standard_output() {
    let (client_dir, animal) = client_dir();
    client_dir.write("mine", "mine");
    let words = ["download", link(&animal), "-o", "mine"];
    client_dir.run(&words).expect(3).says("--overwrite");
    assert_eq!(
        fs::read(client_dir.path("mine")).expect("it is there"),
        b"mine"
    );
    client_dir
        .run(&[&words[..], &["--overwrite"]].concat())
        .expect(0);
    assert_file(&client_dir, "mine");
    client_dir
        .run(&["download", link(&animal), "-o", "-"])
        .expect(2)
        .says("-o FILE");
}

#[test]
fn exact_url_downloads_its_content() {
    let (client_dir, animal) = client_dir();
    client_dir
        .run(&["download", link(&animal), "-o", "cow.json", "--exact-url"])
        .expect(0);
    let resource: Value =
        serde_json::from_slice(&fs::read(client_dir.path("cow.json")).expect("it is there"))
            .expect("JSON");
    assert_eq!(resource["id"], animal["id"]);
}

#[test]
fn broken_download_continues_where_it_stopped() {
    let (client_dir, animal) = client_dir();
    let proxy = FaultProxy::start(farm());
    proxy.set_plan(Plan::new({
        let mut first = true;
        move |_| std::mem::take(&mut first).then_some(Fault::CutReply { after: 2 << 20 })
    }));
    let url = format!(
        "http://{}/farm/v1/animals/{}",
        proxy.address(),
        animal["id"].as_str().expect("an id")
    );
    let words = [
        "download",
        &url,
        "-o",
        "copy.jpg",
        "--retries",
        "0",
        "--json",
    ];
    let broken = client_dir.run(&words).expect(4);
    assert_eq!(broken.events("failed").remove(0)["kind"], "connection");
    assert!(!exists(&client_dir.path("copy.jpg")) && exists(&client_dir.path("copy.jpg.part")));
    let ran = client_dir.run(&words).expect(0);
    let first = ran.events("progress").remove(0);
    assert!(first["committed"].as_u64() > Some(0), "{first}");
    assert_eq!(ran.events("downloaded").remove(0)["size"], MEDIA.len());
    assert_file(&client_dir, "copy.jpg");
}

#[test]
fn object_stored_in_gzip_is_downloaded_unpacked() {
    let server = storage();
    put_gzip(&server, &gzip(&MEDIA.whole()));
    let object = format!("http://{}/storage/v1/b/barn/o/cow", server.address());
    let client_dir = ClientDir::new();
    let ran = client_dir
        .run(&["download", &object, "-o", "copy.jpg"])
        .expect(0);
    ran.says("not checked");
    assert_file(&client_dir, "copy.jpg");
}

#[test]
fn damaged_object_stored_in_gzip_is_not_kept_under_its_name() {
    let server = storage();
    let packed = gzip(&MEDIA.whole());
    put_gzip(&server, &packed[..packed.len() - 1]);
    let object = format!("http://{}/storage/v1/b/barn/o/cow", server.address());
    let client_dir = ClientDir::new();
    let words = ["download", &object, "-o", "copy.jpg", "--retries", "0"];
    client_dir.run(&words).expect(4);
    assert!(!exists(&client_dir.path("copy.jpg")));
}

#[test]
fn object_that_is_to_stay_in_gzip_is_downloaded_as_stored() {
    let server = storage();
    let origin = format!("http://{}", server.address());
    let client_dir = ClientDir::new();
    client_dir.media("cow.gz", MEDIA);
    let metadata = r#"{"name": "cow", "contentEncoding": "gzip", "cacheControl": "no-transform"}"#;
    let upload = format!("{origin}/upload/storage/v1/b/barn/o");
    let words = ["upload", "cow.gz", &upload, "--metadata", metadata];
    client_dir.run(&words).expect(0);
    let object = format!("{origin}/storage/v1/b/barn/o/cow");
    let ran = client_dir
        .run(&["download", &object, "-o", "copy.gz"])
        .expect(0);
    ran.says("checked by crc32c");
    assert_file(&client_dir, "copy.gz");
}

#[test]
fn missing_resource_is_refused() {
    let client_dir = ClientDir::new();
    let url = format!("http://{}/farm/v1/animals/none", farm());
    client_dir.run(&["download", &url]).expect(1).says("404");
}

/// A server that answers once, with media that does not match its checksum.
fn lying_server() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = listener.local_addr().expect("it has an address");
    std::thread::spawn(move || {
        let (mut peer, _) = listener.accept()?;
        let mut head = BufReader::new(&peer);
        let mut line = String::new();
        while head.read_line(&mut line)? > 2 {
            line.clear();
        }
        peer.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx-goog-hash: crc32c=AAAAAA==\r\n\r\na cow",
        )
    });
    address
}

#[test]
fn media_with_a_wrong_checksum_is_not_kept_under_its_name() {
    let client_dir = ClientDir::new();
    let url = format!("http://{}/cow", lying_server());
    let ran = client_dir.run(&["download", &url, "--json"]).expect(5);
    assert_eq!(ran.events("failed").remove(0)["kind"], "mismatch");
    assert!(!exists(&client_dir.path("cow")));
}
