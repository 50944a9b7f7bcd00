//! Bodies of requests.

use std::pin::pin;

use super::*;

#[tokio::test]
async fn empty_body_has_content_length_zero() {
    for method in [Method::PUT, Method::POST, Method::DELETE] {
        for body in [Body::Empty, Body::Bytes(Bytes::new()), media(0)] {
            let (listener, url) = listen().await;
            let peer = async {
                let mut stream = accept(&listener).await;
                let head = read_head(&mut stream).await;
                assert_eq!(head.matches("\r\ncontent-length: 0\r\n").count(), 1);
                assert!(!head.contains("transfer-encoding"), "{head}");
                write(&mut stream, "HTTP/1.1 204 No Content\r\n\r\n").await;
            };
            let request = Request {
                method: method.clone(),
                ..put(&url, body)
            };
            let reply = send_and(&transport(long_timeouts()), request, peer).await;
            assert_eq!(reply.unwrap().status, StatusCode::NO_CONTENT);
        }
    }
}

#[tokio::test]
async fn body_arrives_complete_with_its_length() {
    let length = (3 << 20) + 7;
    let bytes = Bytes::from(vec![b'm'; length]);
    for body in [Body::Bytes(bytes), media(length as u64)] {
        let (listener, url) = listen().await;
        let peer = async {
            let mut stream = accept(&listener).await;
            let head = read_head(&mut stream).await;
            let expected = format!("\r\ncontent-length: {length}\r\n");
            assert_eq!(head.matches(&expected).count(), 1, "{head}");
            assert!(head.contains("\r\ncontent-range: bytes 0-9/10\r\n"));
            let mut received = vec![0; length];
            stream.read_exact(&mut received).await.unwrap();
            assert!(received.iter().all(|byte| *byte == b'm'));
            write(
                &mut stream,
                "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
            )
            .await;
        };
        let mut request = put(&url, body);
        let range = HeaderValue::from_static("bytes 0-9/10");
        request.headers.insert("content-range", range);
        let reply = send_and(&transport(long_timeouts()), request, peer).await;
        assert_eq!(reply.unwrap().status, StatusCode::CREATED);
    }
}

#[tokio::test]
async fn early_refusal_is_returned_and_stops_the_body() {
    for server_reads in [false, true] {
        let (listener, url) = listen().await;
        let peer = async {
            let mut stream = accept(&listener).await;
            read_head(&mut stream).await;
            write(
                &mut stream,
                "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig",
            )
            .await;
            if server_reads {
                let mut received = 0;
                let mut buf = vec![0; 64 << 10];
                while let Ok(len @ 1..) = stream.read(&mut buf).await {
                    received += len;
                }
                assert!(received < 1 << 30, "the whole body came");
            }
        };
        let reply = send_and(&transport(long_timeouts()), put(&url, media(1 << 30)), peer).await;
        let reply = reply.unwrap();
        assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(reply.body, "big");
    }
}

#[tokio::test]
async fn media_error_is_returned_with_its_cause() {
    let failing = stream::iter([
        Ok(Bytes::from_static(b"0123456789")),
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "no disk")),
    ]);
    let short = stream::iter([Ok(Bytes::from_static(b"0123456789"))]);
    let long = stream::iter([Ok(Bytes::from(vec![0; 101]))]);
    for (media, kind) in [
        (failing.boxed(), io::ErrorKind::PermissionDenied),
        (short.boxed(), io::ErrorKind::UnexpectedEof),
        (long.boxed(), io::ErrorKind::InvalidData),
    ] {
        let (listener, url) = listen().await;
        let peer = async {
            let mut stream = accept(&listener).await;
            let mut received = Vec::new();
            // The connection is closed during the body.
            let _ = stream.read_to_end(&mut received).await;
        };
        let request = put(&url, streamed(100, media));
        let error = send_and(&transport(long_timeouts()), request, peer).await;
        match error.unwrap_err() {
            TransportError::Media(error) => assert_eq!(error.kind(), kind),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn dropped_request_closes_its_connection() {
    let (listener, url) = listen().await;
    let transport = transport(long_timeouts());
    let mut stream = {
        let mut sending = pin!(transport.send(put(&url, media(1 << 30))));
        tokio::select! {
            _ = &mut sending => panic!("nobody answered"),
            stream = async {
                let mut stream = accept(&listener).await;
                read_head(&mut stream).await;
                stream
            } => stream,
        }
    };
    let mut rest = Vec::new();
    let end = timeout(LONG, stream.read_to_end(&mut rest)).await;
    let _ = end.expect("the connection ends");
    assert!(rest.len() < 1 << 30);
}
