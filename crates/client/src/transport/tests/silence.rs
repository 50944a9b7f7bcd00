//! Connections that make no progress, or hardly any. The unit tests of `http_transport::body` use a
//! paused clock and show that a slow connection is not reported as silent.

use super::*;

fn assert_silent(reply: Result<Reply, TransportError>) {
    let error = reply.unwrap_err();
    assert!(matches!(error, TransportError::Silent { .. }), "{error:?}");
}

/// Accepts a request and never replies.
async fn say_nothing(listener: &TcpListener) -> TcpStream {
    let mut stream = accept(listener).await;
    read_head(&mut stream).await;
    stream
}

#[tokio::test]
async fn peer_that_stops_reading_during_a_body_is_silent() {
    let (listener, url) = listen().await;
    let timeouts = Timeouts {
        idle: SHORT,
        ..long_timeouts()
    };
    let request = put(&url, media(1 << 30));
    assert_silent(send_and(&transport(timeouts), request, say_nothing(&listener)).await);
}

#[tokio::test]
async fn peer_without_reply_is_silent_and_the_connection_is_replaced() {
    let timeouts = Timeouts {
        // A request without a body also has the time limit of a connection.
        connect: Duration::from_secs(3),
        reply: SHORT,
        ..long_timeouts()
    };
    for body in [Body::Empty, media(5)] {
        let (listener, url) = listen().await;
        let transport = transport(timeouts);
        assert_silent(send_and(&transport, put(&url, body), say_nothing(&listener)).await);
        assert_silent(send_and(&transport, put(&url, media(5)), say_nothing(&listener)).await);
    }
}

#[track_caller]
fn assert_slow(reply: Result<Reply, TransportError>) {
    let error = reply.unwrap_err();
    assert!(matches!(error, TransportError::Slow { .. }), "{error:?}");
}

/// Answers a request with `head`, and then sends a byte at a time until the client has gone.
async fn drip(listener: &TcpListener, head: &str) {
    let mut stream = say_nothing(listener).await;
    write(&mut stream, head).await;
    while stream.write_all(b"x").await.is_ok() {
        tokio::time::sleep(SHORT / 30).await;
    }
}

#[tokio::test]
async fn reply_that_stops_halfway_is_silent() {
    let (listener, url) = listen().await;
    let timeouts = Timeouts {
        idle: SHORT,
        ..long_timeouts()
    };
    let peer = async {
        let mut stream = say_nothing(&listener).await;
        let reply = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe";
        write(&mut stream, reply).await;
        stream
    };
    assert_silent(send_and(&transport(timeouts), put(&url, Body::Empty), peer).await);
}

#[tokio::test]
async fn head_that_drips_is_silent() {
    let timeouts = Timeouts {
        reply: SHORT,
        ..long_timeouts()
    };
    for head in ["HTTP/1.1 200 ", "HTTP/1.1 200 OK\r\nX-Endless: "] {
        let (listener, url) = listen().await;
        let request = put(&url, media(5));
        assert_silent(send_and(&transport(timeouts), request, drip(&listener, head)).await);
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";

#[tokio::test]
async fn media_that_drips_is_too_slow() {
    let (listener, url) = listen().await;
    let timeouts = Timeouts {
        idle: SHORT,
        ..long_timeouts()
    };
    let transport = transport(timeouts);
    let receive = async { transport.open(put(&url, media(5))).await?.collect().await };
    let exchange = async { tokio::join!(receive, drip(&listener, HEAD)).0 };
    assert_slow(timeout(LONG, exchange).await.expect("the exchange ends"));
}

/// The time limit for the body of a reply to an upload is `reply`. The limit of `idle` for 64 KiB
/// of media does not apply.
#[tokio::test]
async fn reply_that_drips_may_take_longer_than_media() {
    let (listener, url) = listen().await;
    let idle = SHORT * 8;
    let timeouts = Timeouts {
        idle,
        ..long_timeouts()
    };
    let peer = async {
        let mut stream = say_nothing(&listener).await;
        write(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n").await;
        for _ in 0..10 {
            tokio::time::sleep(idle / 8).await;
            write(&mut stream, "x").await;
        }
        stream
    };
    let reply = send_and(&transport(timeouts), put(&url, media(5)), peer).await;
    assert_eq!(reply.unwrap().body, "x".repeat(10));
}

#[tokio::test]
async fn body_at_a_good_pace_ends_in_time_as_well() {
    let (listener, url) = listen().await;
    let timeouts = Timeouts {
        reply: SHORT,
        ..long_timeouts()
    };
    let peer = drip(&listener, HEAD);
    let error = send_and(&transport(timeouts), put(&url, media(5)), peer).await;
    // On a busy machine the head may be late already.
    assert!(
        matches!(
            error,
            Err(TransportError::Slow { .. } | TransportError::Silent { .. })
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn interim_replies_without_end_are_silent() {
    let (listener, url) = listen().await;
    let timeouts = Timeouts {
        reply: SHORT,
        ..long_timeouts()
    };
    let peer = async {
        let mut stream = say_nothing(&listener).await;
        while stream
            .write_all(b"HTTP/1.1 102 Processing\r\n\r\n")
            .await
            .is_ok()
        {
            tokio::time::sleep(SHORT / 30).await;
        }
    };
    assert_silent(send_and(&transport(timeouts), put(&url, media(5)), peer).await);
}

#[tokio::test]
async fn peer_without_tls_handshake_is_a_connect_error() {
    let (listener, url) = listen().await;
    let url = url.as_str().replace("http://", "https://").parse().unwrap();
    let timeouts = Timeouts {
        connect: SHORT,
        ..long_timeouts()
    };
    let error = send_and(
        &transport(timeouts),
        put(&url, Body::Empty),
        accept(&listener),
    )
    .await;
    let error = error.unwrap_err();
    assert!(matches!(error, TransportError::Connect { .. }), "{error:?}");
}
