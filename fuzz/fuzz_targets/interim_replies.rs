//! Interim replies lie between the replies of a connection, each before the reply to its request,
//! and every reply is whole, however the socket takes the bytes.
//!
//! The first line of the input is the value of a header field. Each further byte is a step of the
//! connection.

#![no_main]

use http::{HeaderMap, HeaderValue, StatusCode};
use libfuzzer_sys::fuzz_target;
use windlass_fuzz::first_line;
use windlass_server::InterimHead;
use windlass_server::fuzzing::InterimConnection;

/// The interim reply to a request.
fn head(request: usize, value: &HeaderValue) -> InterimHead {
    let status = StatusCode::from_u16(104).expect("a status");
    let mut headers = HeaderMap::new();
    headers.insert("request", request.into());
    headers.insert("value", value.clone());
    InterimHead::new(status, &headers).expect("the input is short")
}

/// The text of the reply to a request.
fn reply(request: usize) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nrequest: {request}\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

fuzz_target!(|input: &[u8]| {
    let (value, steps) = first_line(input);
    let Ok(value) = HeaderValue::from_bytes(value) else {
        return;
    };
    if value.len() > 8 * 1024 {
        return;
    }
    let mut connection = InterimConnection::new();
    let mut begun = 0;
    for step in steps {
        match step % 5 {
            0 => begun += usize::from(connection.begin()),
            1 => connection.send(&head(begun, &value)),
            2 => drop(connection.end(&reply(begun))),
            3 => connection.flush(),
            _ => connection.make_room(usize::from(step / 5) + 1),
        }
    }
    connection.make_room(usize::MAX / 2);
    connection.flush();
    let mut rest = connection.taken();
    for request in 1..=begun {
        let interim = [
            format!("HTTP/1.1 104 Upload Resumption Supported\r\nrequest: {request}\r\nvalue: ")
                .into_bytes(),
            value.as_bytes().to_vec(),
            b"\r\n\r\n".to_vec(),
        ]
        .concat();
        while let Some(after) = rest.strip_prefix(&interim[..]) {
            rest = after;
        }
        // The last request may be running.
        if request < begun || !rest.is_empty() {
            rest = rest
                .strip_prefix(&reply(request)[..])
                .expect("each request has its reply");
        }
    }
    assert_eq!(rest, b"", "no other bytes are sent");
});
