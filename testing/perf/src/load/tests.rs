//! The load against a server that says what it is told to.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

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

/// The head of a request, whose body has this length.
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

#[test]
fn what_is_read_back_must_be_what_was_sent() {
    let targets = toml::from_str("put = \"/{name}\"\ndownload = \"{location}\"").unwrap();
    let (address, server) = server(vec![(
        5,
        "HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    )]);
    let block = Block::random().unwrap();
    let mut load_target = LoadTarget {
        address,
        targets: &targets,
        shape: Shape::Put,
        block: &block,
    };
    let load = load(5, 1);
    let tally = carry_out(load_target, &load, Operation::Upload).unwrap();
    server.join().unwrap();
    for reply in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
        "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
    ] {
        let (address, server) = self::server(vec![(0, reply)]);
        load_target.address = address;
        compare(load_target, &load, &tally).unwrap_err();
        assert!(server.join().unwrap()[0].starts_with("GET /bench-0 "));
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
