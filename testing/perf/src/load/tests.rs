//! The load against a server with scripted replies.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use http::{Method, Request, Response, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::*;

/// A server for one connection, which answers each of the requests that it expects by its length.
fn server(script: Vec<(usize, &'static str)>) -> (SocketAddr, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut requests = Vec::new();
        for (body, reply) in script {
            requests.push(request(&mut stream, body));
            stream.write_all(reply.as_bytes()).unwrap();
        }
        requests
    });
    (address, thread)
}

/// Reads the head of a request with a body of this length.
fn request(stream: &mut std::net::TcpStream, body: usize) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    stream.read_exact(&mut vec![0; body]).unwrap();
    String::from_utf8(head).unwrap()
}

fn load(size: u64, count: u64) -> Load {
    Load {
        size,
        count,
        first: 0,
        connections: 1,
        chunk: 10,
        limit: Duration::from_secs(60),
    }
}

fn targets() -> Targets {
    toml::from_str("put = \"/{name}\"\nsession = \"/start\"").unwrap()
}

#[test]
fn a_session_is_opened_and_filled_in_chunks() {
    let (address, server) = server(vec![
        (
            18,
            "HTTP/1.1 200 OK\r\nLocation: http://h/s?id=1\r\nContent-Length: 0\r\n\r\n",
        ),
        (10, "HTTP/1.1 308 Resume\r\nContent-Length: 0\r\n\r\n"),
        (
            5,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        ),
    ]);
    let block = Block::random().unwrap();
    let load_target = LoadTarget {
        address,
        targets: &targets(),
        shape: Shape::SessionChunks,
        block: &block,
        transport: Transport::Http1,
    };
    let tally = carry_out(load_target, &load(15, 1), Operation::Upload).unwrap();
    let requests = server.join().unwrap();
    assert_eq!((tally.done, tally.bytes, tally.laps.len()), (1, 15, 3));
    assert!(requests[0].contains("X-Upload-Content-Length: 15\r\n"));
    assert!(requests[1].starts_with("PUT /s?id=1 "));
    assert!(requests[1].contains("Content-Range: bytes 0-9/15\r\n"));
    assert!(requests[2].contains("Content-Range: bytes 10-14/15\r\n"));
}

#[test]
fn an_unexpected_status_ends_the_run_and_is_named() {
    let (address, server) = server(vec![
        (5, "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"),
        (5, "HTTP/1.1 507 Full\r\nContent-Length: 7\r\n\r\nno room"),
    ]);
    let block = Block::random().unwrap();
    let load_target = LoadTarget {
        address,
        targets: &targets(),
        shape: Shape::Put,
        block: &block,
        transport: Transport::Http1,
    };
    let failure = carry_out(load_target, &load(5, 3), Operation::Upload).unwrap_err();
    server.join().unwrap();
    let expected = "PUT /bench-1: unexpected status 507: no room";
    assert_eq!(failure.to_string(), expected);
}

#[test]
fn a_server_of_http_1_0_closes_after_each_reply() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            request(&mut stream, 5);
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n{}").unwrap();
        }
    });
    let block = Block::random().unwrap();
    let load_target = LoadTarget {
        address,
        targets: &targets(),
        shape: Shape::Put,
        block: &block,
        transport: Transport::Http1,
    };
    assert_eq!(
        carry_out(load_target, &load(5, 2), Operation::Upload)
            .unwrap()
            .done,
        2
    );
    server.join().unwrap();
}

#[test]
fn a_quantile_is_one_of_the_laps() {
    let laps: Vec<_> = (1..=200).map(Duration::from_millis).collect();
    let tally = Tally {
        elapsed: Duration::ZERO,
        done: 0,
        bytes: 0,
        laps,
        sample: None,
    };
    let quantiles = [0, 50, 99, 100].map(|percent| tally.quantile(percent).as_millis());
    assert_eq!(quantiles, [1, 101, 199, 200]);
}

/// Uploads five bytes, and lets `check` ask another server for them, which gives this reply.
/// Returns the head of its request.
fn after_an_upload(
    reply: &'static str,
    check: impl FnOnce(LoadTarget<'_>, &Load, &Tally),
) -> String {
    let targets = toml::from_str("put = \"/{name}\"\ndownload = \"{location}\"").unwrap();
    let (address, taker) = server(vec![(
        5,
        "HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    )]);
    let block = Block::random().unwrap();
    let mut load_target = LoadTarget {
        address,
        targets: &targets,
        shape: Shape::Put,
        block: &block,
        transport: Transport::Http1,
    };
    let load = load(5, 1);
    let uploaded = carry_out(load_target, &load, Operation::Upload).unwrap();
    taker.join().unwrap();
    let (address, giver) = server(vec![(0, reply)]);
    load_target.address = address;
    check(load_target, &load, &uploaded);
    giver.join().unwrap().remove(0)
}

#[test]
fn what_is_read_back_must_be_what_was_sent() {
    for reply in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
        "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
    ] {
        let request = after_an_upload(reply, |load_target, load, uploaded| {
            compare(load_target, load, uploaded).unwrap_err();
        });
        assert!(request.starts_with("GET /bench-0 "));
    }
}

#[test]
fn the_status_of_a_session_is_asked_as_its_protocol_does() {
    let sessions = ["/s".to_owned()];
    let block = Block::random().unwrap();
    for (shape, reply, request) in [
        (
            Shape::Session,
            "HTTP/1.1 308 Resume\r\nContent-Length: 0\r\n\r\n",
            "PUT /s HTTP/1.1",
        ),
        // The length is of a body that a HEAD does not get.
        (
            Shape::Tus,
            "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n",
            "HEAD /s HTTP/1.1",
        ),
    ] {
        let (address, server) = server(vec![(0, reply); 2]);
        let load_target = LoadTarget {
            address,
            targets: &targets(),
            shape,
            block: &block,
            transport: Transport::Http1,
        };
        let tally = carry_out(load_target, &load(15, 2), Operation::Status(&sessions)).unwrap();
        assert_eq!((tally.done, tally.bytes, tally.laps.len()), (2, 0, 2));
        for head in server.join().unwrap() {
            assert!(head.starts_with(request), "{head}");
            assert_eq!(
                head.contains("Content-Range: bytes */15\r\n"),
                shape == Shape::Session
            );
        }
    }
}

#[test]
fn a_list_that_is_too_short_is_no_list() {
    let targets = toml::from_str("list = \"/list\"").unwrap();
    let reply = "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{\"items\":[{}]}";
    let (address, server) = server(vec![(0, reply)]);
    let load_target = LoadTarget {
        address,
        targets: &targets,
        shape: Shape::Simple,
        block: &Block::random().unwrap(),
        transport: Transport::Http1,
    };
    let failure = check_list(load_target, &load(5, 1)).unwrap_err();
    server.join().unwrap();
    assert_eq!(failure.to_string(), "GET /list: 1 entries");
}

#[test]
fn whoever_is_slow_must_not_be_answered_before_the_end() {
    let slow = Slow {
        connections: 1,
        size: 30,
        first: 10,
        later: 10,
        seconds: 1,
    };
    let block = Block::random().unwrap();
    let load = load(slow.size, 1);
    for (script, is_patient) in [
        (vec![], true),
        (
            vec![(10, "HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n")],
            false,
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let load_target = LoadTarget {
            address,
            targets: &targets(),
            shape: Shape::Put,
            block: &block,
            transport: Transport::Http1,
        };
        let mut crowd = Crowd::gather(load_target, &load, &slow).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        for (body, reply) in script {
            assert!(request(&mut stream, body).contains("Content-Length: 30\r\n"));
            stream.write_all(reply.as_bytes()).unwrap();
        }
        assert_eq!(crowd.go_on().is_ok(), is_patient);
    }
}

/// The requests of a server under TLS, and its stored body.
#[derive(Default)]
struct Stored {
    requests: Vec<(Version, String)>,
    body: Bytes,
}

/// A server under TLS that stores one body, over the version of HTTP that a client asks for.
fn tls_server(tls: &Tls) -> (SocketAddr, Arc<Mutex<Stored>>, tokio::runtime::Runtime) {
    let [certificate, key] = tls.files();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(certificate).unwrap()],
            PrivateKeyDer::from_pem_file(key).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let stored = Arc::<Mutex<Stored>>::default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
    let listener = listener.unwrap();
    let address = listener.local_addr().unwrap();
    let shared = Arc::clone(&stored);
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (stored, acceptor) = (Arc::clone(&shared), acceptor.clone());
            tokio::spawn(async move {
                let stream = acceptor.accept(stream).await.unwrap();
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let service = service_fn(move |request| exchange(request, Arc::clone(&stored)));
                let stream = TokioIo::new(stream);
                if is_http2 {
                    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    builder.serve_connection(stream, service).await.ok();
                } else {
                    let builder = hyper::server::conn::http1::Builder::new();
                    builder.serve_connection(stream, service).await.ok();
                }
            });
        }
    });
    (address, stored, runtime)
}

async fn exchange(
    request: Request<Incoming>,
    stored: Arc<Mutex<Stored>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let told = format!("{} {}", request.method(), request.uri().path());
    let (version, is_put) = (request.version(), request.method() == Method::PUT);
    let body = request.into_body().collect().await?.to_bytes();
    let mut stored = stored.lock().unwrap();
    stored.requests.push((version, told));
    if is_put {
        stored.body = body;
        return Ok(Response::default());
    }
    Ok(Response::new(Full::new(stored.body.clone())))
}

#[test]
fn upload_under_tls_goes_over_its_version_of_http_and_is_downloaded_over_http_1() {
    let scratch = tempfile::tempdir().unwrap();
    let tls = Tls::new(scratch.path());
    let targets = toml::from_str("put = \"/{name}\"\ndownload = \"{location}\"").unwrap();
    let block = Block::random().unwrap();
    for (protocol, version) in [
        (Protocol::Http1Tls, Version::HTTP_11),
        (Protocol::Http2Tls, Version::HTTP_2),
    ] {
        let (address, stored, _runtime) = tls_server(&tls);
        let load_target = LoadTarget {
            address,
            targets: &targets,
            shape: Shape::Put,
            block: &block,
            transport: protocol.with(&tls),
        };
        let load = load(3_000_000, 1);
        let uploaded = carry_out(load_target, &load, Operation::Upload).unwrap();
        assert_eq!((uploaded.done, uploaded.bytes), (1, load.size));
        let tally = carry_out(load_target, &load, Operation::Download(&uploaded)).unwrap();
        assert_eq!(
            (tally.done, tally.bytes, tally.laps.len()),
            (1, load.size, 1)
        );
        assert!(compare(load_target, &load, &uploaded).unwrap());
        let expected = [
            (version, "PUT /bench-0".to_owned()),
            (Version::HTTP_11, "GET /bench-0".to_owned()),
            (Version::HTTP_11, "GET /bench-0".to_owned()),
        ];
        assert_eq!(stored.lock().unwrap().requests, expected);
    }
}

#[test]
fn download_that_is_too_short_is_refused() {
    let reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno";
    after_an_upload(reply, |load_target, load, uploaded| {
        carry_out(load_target, load, Operation::Download(uploaded)).unwrap_err();
    });
}
