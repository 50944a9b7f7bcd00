//! Full listeners, over streams in memory.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;
use windlass_server::config::Limits;
use windlass_server::{Accept, Accepted, Listener, METRICS_CONNECTIONS, serve_metrics};

/// Hands out the ends of streams that clients have opened.
pub(crate) struct Queue(pub(crate) Mutex<mpsc::UnboundedReceiver<DuplexStream>>);

impl Accept for Queue {
    type Stream = DuplexStream;

    async fn accept(&self) -> io::Result<Accepted<DuplexStream>> {
        let stream = self.0.lock().await.recv().await;
        Ok(Accepted {
            stream: stream.expect("the test keeps it open"),
            local: None,
            peer: Some(SocketAddr::new(IpAddr::from([192, 0, 2, 1]), 4711)),
        })
    }
}

/// Connects more clients than there are places, each of which sends this and stays, and then scrapes
/// the metrics.
async fn scrape_behind(sent: &[u8]) {
    let (open, accepted) = mpsc::unbounded_channel();
    let listener = Listener::plain(Queue(Mutex::new(accepted)));
    let registry = Arc::new(Registry::default());
    let serving = tokio::spawn(async move {
        serve_metrics(listener, registry, &Limits::default()).await;
    });
    let connect = || {
        let (client, server) = tokio::io::duplex(64 * 1024);
        open.send(server).expect("it listens");
        client
    };
    let begun = Instant::now();
    let mut others = Vec::new();
    for _ in 0..4 * METRICS_CONNECTIONS {
        let mut client = connect();
        client.write_all(sent).await.expect("it is open");
        others.push(client);
    }
    let mut scrape = connect();
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    scrape.write_all(request).await.expect("it is open");
    let mut reply = String::new();
    scrape.read_to_string(&mut reply).await.expect("it is text");
    assert!(reply.starts_with("HTTP/1.1 200 OK"), "{reply:?}");
    // On the clock of the test: the limit on silence is ten seconds.
    assert!(begun.elapsed().as_secs() < 2, "{:?}", begun.elapsed());
    drop(others);
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn silent_connections_do_not_keep_scrapes_out() {
    scrape_behind(b"").await;
}

#[tokio::test(start_paused = true)]
async fn connections_that_stay_after_their_reply_do_not_keep_scrapes_out() {
    scrape_behind(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    scrape_behind(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n").await;
}
