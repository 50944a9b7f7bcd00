//! Lines that are dead, and lines that only look so.

use super::*;

fn assert_silent(reply: Result<Reply, TransportError>) {
    let error = reply.unwrap_err();
    assert!(matches!(error, TransportError::Silent { .. }), "{error:?}");
}

#[tokio::test]
async fn a_peer_that_stops_reading_in_the_middle_of_a_body_is_silent() {
    let (listener, url) = listen().await;
    let timeouts = Timeouts {
        idle: SHORT,
        ..patient()
    };
    let peer = async {
        let mut stream = accept(&listener).await;
        read_head(&mut stream).await;
        sleep(SHORT * 6).await;
    };
    assert_silent(send_and(&transport(timeouts), put(&url, media(1 << 30)), peer).await);
}

#[tokio::test]
async fn a_reply_may_take_longer_than_a_piece_but_not_for_ever() {
    let timeouts = Timeouts {
        idle: SHORT / 2,
        reply: SHORT * 3,
        connect: SHORT,
    };
    for body in [Body::Empty, media(5)] {
        let (listener, url) = listen().await;
        let peer = async {
            let mut stream = accept(&listener).await;
            read_head(&mut stream).await;
            sleep(SHORT).await;
            write(
                &mut stream,
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            )
            .await;
            let mut stream = accept(&listener).await;
            read_head(&mut stream).await;
            sleep(SHORT * 4).await;
        };
        let transport = transport(timeouts);
        let exchanges = async {
            transport.send(put(&url, body)).await.unwrap();
            assert_silent(transport.send(put(&url, media(5))).await);
        };
        timeout(LONG, async { tokio::join!(exchanges, peer) })
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_reply_that_stops_in_its_middle_is_silent() {
    let (listener, url) = listen().await;
    let timeouts = Timeouts {
        idle: SHORT,
        ..patient()
    };
    let peer = async {
        let mut stream = accept(&listener).await;
        read_head(&mut stream).await;
        write(
            &mut stream,
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe",
        )
        .await;
        sleep(SHORT * 2).await;
    };
    assert_silent(send_and(&transport(timeouts), put(&url, Body::Empty), peer).await);
}

#[tokio::test]
async fn a_slow_line_that_moves_is_not_silent() {
    let (listener, url) = listen().await;
    let timeouts = Timeouts {
        idle: SHORT * 2,
        ..patient()
    };
    let length = 12 << 20;
    let peer = async {
        let mut stream = accept(&listener).await;
        read_head(&mut stream).await;
        let mut buf = vec![0; 256 << 10];
        for _ in 0..length / buf.len() {
            stream.read_exact(&mut buf).await.unwrap();
            sleep(SHORT / 10).await;
        }
        write(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    };
    let reply = send_and(&transport(timeouts), put(&url, media(length as u64)), peer).await;
    assert_eq!(reply.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn a_source_that_is_slow_is_not_silence() {
    let (listener, url) = listen().await;
    let timeouts = Timeouts {
        idle: SHORT / 3,
        reply: SHORT / 2,
        ..patient()
    };
    let pieces = stream::iter([b"first", b"again"]).then(async |piece| {
        sleep(SHORT).await;
        Ok(Bytes::from_static(piece))
    });
    let peer = async {
        let mut stream = accept(&listener).await;
        read_head(&mut stream).await;
        stream.read_exact(&mut [0; 10]).await.unwrap();
        write(&mut stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    };
    let request = put(&url, streamed(10, pieces.boxed()));
    let reply = send_and(&transport(timeouts), request, peer).await;
    assert_eq!(reply.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn who_accepts_and_says_no_word_of_tls_is_no_connection() {
    let (listener, url) = listen().await;
    let url = url.as_str().replace("http://", "https://").parse().unwrap();
    let timeouts = Timeouts {
        connect: SHORT,
        ..patient()
    };
    let peer = async {
        let _stream = accept(&listener).await;
        sleep(SHORT * 2).await;
    };
    let error = send_and(&transport(timeouts), put(&url, Body::Empty), peer).await;
    let error = error.unwrap_err();
    assert!(matches!(error, TransportError::Connect { .. }), "{error:?}");
}
