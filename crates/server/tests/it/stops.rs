//! Connections over HTTP/2 while the server stops, over streams in memory.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::sleep;
use windlass_server::Listener;
use windlass_testkit::farm;
use windlass_testkit::http2::{END_HEADERS, HEADERS, PREFACE, SETTINGS, frame, header_block};

use crate::busy_listeners::Queue;
use crate::world::SharedStores;

const DATA: u8 = 0;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;

/// The index of `:status: 200` in the static table of HPACK, as a whole field.
const OK: u8 = 0x88;

/// The connection of a client that acknowledges nothing.
struct Client(DuplexStream);

impl Client {
    async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("it is open");
    }

    /// Begins a request without sending its body yet.
    async fn begin_insert(&mut self, stream: u32) {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", farm::ANIMALS),
            (":authority", "farm.localhost"),
            ("content-type", "application/json"),
        ];
        let block = header_block(&fields);
        self.send(&frame(HEADERS, END_HEADERS, stream, &block))
            .await;
    }

    async fn end_insert(&mut self, stream: u32) {
        self.send(&frame(DATA, END_STREAM, stream, b"{}")).await;
    }

    /// Waits for a frame of this kind. Returns its payload.
    async fn next(&mut self, awaited: u8) -> Vec<u8> {
        loop {
            let mut head = [0; 9];
            let read = self.0.read_exact(&mut head).await;
            read.expect("the connection is open");
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; len as usize];
            let read = self.0.read_exact(&mut payload).await;
            read.expect("the connection is open");
            if head[3] == awaited {
                return payload;
            }
        }
    }
}

/// A server over streams, and a client that has had a reply from it.
async fn idle_client() -> (Client, oneshot::Sender<()>) {
    let world = SharedStores::new().server();
    let (open, accepted) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel();
    tokio::spawn(async move {
        let listener = Listener::plain(Queue(Mutex::new(accepted)));
        world
            .server
            .run(listener, async { drop(stopped.await) })
            .await
    });
    let (client, server) = tokio::io::duplex(64 * 1024);
    open.send(server).expect("it listens");
    let mut client = Client(client);
    client.send(PREFACE).await;
    client.send(&frame(SETTINGS, 0, 0, &[])).await;
    client.begin_insert(1).await;
    client.end_insert(1).await;
    assert!(client.next(HEADERS).await.contains(&OK));
    client.next(DATA).await;
    // The queue stays open: the listener would otherwise find its end.
    tokio::spawn(async move { open.closed().await });
    (client, stop)
}

#[tokio::test(start_paused = true)]
async fn request_on_its_way_at_the_stop_is_answered_over_http2() {
    let (mut client, stop) = idle_client().await;
    stop.send(()).expect("it runs");
    client.next(GOAWAY).await;
    // The farewell and the request have crossed, and the body takes its time.
    sleep(Duration::from_millis(100)).await;
    client.begin_insert(3).await;
    sleep(Duration::from_secs(1)).await;
    client.end_insert(3).await;
    assert!(client.next(HEADERS).await.contains(&OK));
}

#[tokio::test(start_paused = true)]
async fn idle_client_that_says_nothing_delays_a_stop_little() {
    let (mut client, stop) = idle_client().await;
    let begun = tokio::time::Instant::now();
    stop.send(()).expect("it runs");
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).await.expect("it ends");
    // On the clock of the test: the drain has half a minute.
    assert_eq!(begun.elapsed().as_secs(), 0);
}
