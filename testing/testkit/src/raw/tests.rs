use std::net::TcpListener;
use std::thread;

use super::*;

/// Lets a server say `reply` to the first connection, then close it, while `look` reads.
fn check(reply: &'static [u8], look: impl FnOnce(RawPeer)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || listener.accept().unwrap().0.write_all(reply).unwrap());
        look(RawPeer::connect(address));
    });
}

#[test]
fn a_reply_is_shown_as_it_came() {
    let wire =
        b"HTTP/1.1 308 Resume Incomplete\r\nrAnGe:  bytes=0-9\r\nContent-Length: 2\r\n\r\nokHTTP";
    check(wire, |mut peer| {
        let reply = peer.reply();
        assert_eq!(reply.reason, "Resume Incomplete");
        assert_eq!(
            reply.headers[0],
            ("rAnGe".to_owned(), "bytes=0-9".to_owned())
        );
        assert_eq!((reply.text(), reply.committed()), ("ok", 10));
        assert_eq!(
            peer.try_reply().unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
    });
}

#[test]
fn interim_replies_are_passed_over_unless_asked_for() {
    let wire = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
    check(wire, |mut peer| assert_eq!(peer.reply().status, 204));
    check(wire, |mut peer| {
        assert_eq!(peer.head().unwrap().status, 100);
    });
}

#[test]
fn a_body_ends_by_its_chunks_or_with_the_connection() {
    let chunked =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";
    check(chunked, |mut peer| {
        assert_eq!(peer.reply().text(), "abc");
        assert!(peer.is_closed());
    });
    check(b"HTTP/1.0 200 OK\r\n\r\nabc", |mut peer| {
        assert_eq!(peer.reply().text(), "abc");
    });
}

#[test]
fn a_request_has_the_headers_that_it_shows_and_a_host() {
    let request = Request::new("PUT", "/x?y=z").header("X-Y", 1).body("abc");
    let wire =
        "PUT /x?y=z HTTP/1.1\r\nHost: farm.localhost\r\nX-Y: 1\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(String::from_utf8(request.to_bytes()).unwrap(), wire);
}
