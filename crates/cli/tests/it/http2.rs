//! Requests over HTTP/2 that make the server hold resources end in time (docs/protocol.md, 2.11).

use windlass_testkit::farm;
use windlass_testkit::http2::{Event, Http2Peer};
use windlass_testkit::media::Media;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::exchange;
use windlass_testkit::wait;

use crate::server::own;

/// Media that the server keeps in a file.
const MEDIA: Media = Media::new(41, 600_000);

/// As many requests as a connection carries at once.
const STREAMS: usize = 32;

fn impatient() -> ServerProcess {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/impatient.toml");
    own(&["--config", config])
}

/// The path of media that was uploaded to a server.
fn media_of(server: &ServerProcess) -> String {
    let animal = farm::upload(server.address(), MEDIA);
    format!("{}?alt=media", farm::animal(&farm::id(&animal)))
}

#[test]
fn downloads_that_are_never_taken_are_given_up_with_their_files() {
    let server = impatient();
    let media = media_of(&server);
    let before = server.open_files();
    let mut peers: Vec<_> = (0..3)
        .map(|_| Http2Peer::connect(server.address(), 0))
        .collect();
    for peer in &mut peers {
        for _ in 0..STREAMS {
            peer.get(&media);
        }
    }
    for peer in &mut peers {
        let (mut begun, mut given_up) = (0, 0);
        while given_up < STREAMS {
            match peer.next_event().expect("it goes on") {
                Some(Event::Head { status: 200, .. }) => begun += 1,
                Some(Event::Reset { .. }) => given_up += 1,
                Some(Event::GoAway) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(begun, STREAMS);
    }
    wait::until("all files are closed", || server.open_files() <= before);
    drop(peers);
}

#[test]
fn replies_of_which_only_the_beginning_is_taken_are_given_up() {
    let server = impatient();
    let media = media_of(&server);
    let animal = media.strip_suffix("?alt=media").expect("it ends so");
    for path in [&media, animal] {
        // All of the reply is handed to the connection as soon as a byte of it may be sent.
        let mut peer = Http2Peer::connect(server.address(), 10);
        let stream = peer.get(path);
        let mut events = std::iter::from_fn(|| peer.next_event().expect("it goes on"))
            .filter(|event| *event != Event::GoAway);
        let [head, data, reset] = [(); 3].map(|()| events.next().expect("it is open"));
        assert!(matches!(head, Event::Head { status: 200, .. }), "{head:?}");
        assert!(
            matches!(&data, Event::Data { bytes, .. } if bytes.len() == 10),
            "{data:?}"
        );
        assert_eq!(reset, Event::Reset { stream });
    }
}

#[test]
fn slowly_read_reply_is_complete() {
    let server = impatient();
    let media = media_of(&server);
    let mut peer = Http2Peer::connect(server.address(), 1_000_000);
    peer.open_window(0, 1_000_000);
    let stream = peer.get(&media);
    let reply = peer.reply(stream);
    assert_eq!(reply.status, 200);
    MEDIA
        .compare(0..MEDIA.len(), &reply.body[..])
        .expect("the same media");
}

#[test]
fn connection_that_only_answers_pings_is_closed() {
    let server = impatient();
    let mut silent = Http2Peer::connect(server.address(), 0);
    let mut asked = Http2Peer::connect(server.address(), 1000);
    let stream = asked.get("/healthz");
    assert_eq!(asked.reply(stream).body, b"ok\n");
    for peer in [&mut silent, &mut asked] {
        assert!(matches!(peer.next_event(), Ok(Some(Event::GoAway))));
        assert!(peer.is_closed());
    }
}

#[test]
fn a_connection_on_which_every_stream_stands_still_is_closed() {
    let server = impatient();
    let media = media_of(&server);
    let mut peer = Http2Peer::connect(server.address(), 0);
    peer.get(&media);
    peer.get("/healthz");
    // A body that never comes is answered, and that is not taken either.
    let length = [("content-length", "10")];
    peer.request("POST", farm::ANIMALS, &length, false);
    assert!(peer.is_closed());
    exchange(server.address(), &farm::list("")).expect(200);
}

#[test]
fn idle_connection_does_not_delay_the_end_of_the_server() {
    // With a drain that the test does not outlive.
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/long_drain.toml");
    let mut server = own(&["--config", config]);
    let mut used = Http2Peer::connect(server.address(), 1000);
    let stream = used.get("/healthz");
    assert_eq!(used.reply(stream).body, b"ok\n");
    let silent = Http2Peer::connect(server.address(), 0);
    // Neither client reads the server's last frames.
    assert!(server.terminate().success(), "{}", server.stderr());
    drop((used, silent));
}

/// The content of the PING with which the server asks whether a client has read that the connection
/// ends (h2's `Ping::SHUTDOWN`).
const GOODBYE: [u8; 8] = [0x0b, 0x7b, 0xa2, 0xf0, 0x8b, 0x9b, 0xfe, 0x54];

#[test]
fn request_that_ends_during_the_drain_does_not_delay_the_end_of_the_server() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/long_drain.toml");
    let mut server = own(&["--config", config]);
    let mut peer = Http2Peer::connect(server.address(), 1_000_000);
    peer.leave_unanswered(GOODBYE);
    let simple = format!("{}?uploadType=media", farm::UPLOADS);
    let headers = [("content-type", "image/png"), ("content-length", "6")];
    let stream = peer.request("POST", &simple, &headers, false);
    peer.data(stream, b"abc", false);
    peer.ping().expect("the server has read it");
    server.ask_to_end();
    wait::until("the server drains", || server.stderr().contains("draining"));
    peer.data(stream, b"def", true);
    assert_eq!(peer.reply(stream).status, 200);
    let ended = server.wait_for_end();
    assert!(ended.success(), "{}", server.stderr());
}
