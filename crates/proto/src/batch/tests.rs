use proptest::prelude::*;

use super::*;

fn boundary_of(content_type: &str) -> Result<Boundary, BatchError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
    boundary(&headers)
}

const MAX_HEAD: usize = 1024;

fn parse(body: &str) -> Result<Vec<Call>, BatchError> {
    let boundary = boundary_of("multipart/mixed; boundary=b").unwrap();
    calls(Bytes::from(body.to_owned()), boundary, MAX_HEAD)
}

/// A batch of one call, which is everything behind the headers of its part.
fn one(request: &str) -> Result<Call, BatchError> {
    let body = format!("--b\r\nContent-Type: application/http\r\n\r\n{request}\r\n--b--");
    parse(&body).map(|mut calls| calls.remove(0))
}

#[track_caller]
fn assert_problem(parsed: &Result<Call, BatchError>, expected: CallError) {
    let problem = match parsed {
        Err(BatchError::Call { number: 1, problem }) => *problem,
        other => panic!("{other:?}"),
    };
    assert_eq!(problem, expected);
}

#[test]
fn boundary_is_that_of_multipart_mixed_alone() {
    for (content_type, expected) in [
        ("multipart/mixed; boundary=b", "b"),
        ("Multipart/Mixed;boundary=\"===7==\"", "===7=="),
        ("multipart/mixed; charset=x; boundary='b'", "b"),
    ] {
        assert_eq!(boundary_of(content_type).unwrap().as_str(), expected);
    }
    for other in ["multipart/related; boundary=b", "application/json", ""] {
        assert_eq!(boundary_of(other), Err(BatchError::NotMixed), "{other}");
    }
    let none = boundary_of("multipart/mixed");
    assert_eq!(none, Err(RelatedError::NoBoundary.into()));
    assert_eq!(boundary(&HeaderMap::new()), Err(BatchError::NotMixed));
}

/// The forms in which clients write the same call.
#[test]
fn call_of_every_client_library_is_understood() {
    let put = "PUT /farm/v1/animals/pony?fields=id";
    let json = r#"{"name": "Pony"}"#;
    for (client, part) in [
        (
            "CRLF, with a length",
            format!(
                "\r\nContent-Type: application/http\r\nContent-ID: <1>\r\n\r\n\
                 {put} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{json}\r\n"
            ),
        ),
        (
            "bare LF, as of Python's email package",
            format!(
                "\nContent-Type: application/http\nMIME-Version: 1.0\nContent-Transfer-Encoding: binary\n\
                 Content-ID: <1>\n\n{put} HTTP/1.1\nContent-Type: application/json\nContent-Length: 16\n\n\
                 {json}\n"
            ),
        ),
        (
            "CRLF in parts between bare LF",
            format!(
                "\ncontent-type: application/http\ncontent-id: <1>\n\n\
                 {put} HTTP/1.1\r\nContent-Type: application/json\r\ncontent-length: 16\r\n\r\n{json}\n"
            ),
        ),
        (
            "no version, no length, an empty line too many",
            format!(
                "\r\nContent-Type: application/http; msgtype=request\r\nContent-ID: <1>\r\n\r\n\r\n\
                 {put}\r\nContent-Type: application/json\r\n\r\n{json}\r\n\r\n"
            ),
        ),
    ] {
        let calls = parse(&format!("preamble\r\n--b{part}--b--\r\n")).expect(client);
        assert_eq!(calls.len(), 1, "{client}");
        let call = &calls[0];
        assert_eq!(call.content_id.as_deref(), Some("<1>"), "{client}");
        assert_eq!(call.http_method, Method::PUT, "{client}");
        assert_eq!(call.target, "/farm/v1/animals/pony?fields=id", "{client}");
        assert_eq!(call.headers["content-type"], "application/json", "{client}");
        assert_eq!(call.body, json, "{client}");
    }
}

#[test]
fn call_without_a_body_may_end_with_its_delimiter() {
    for end in ["", "\r\n", "\r\n\r\n", "\n", "\r\nContent-Length: 0\r\n"] {
        let call = one(&format!("DELETE /storage/v1/b/barn/o/cow HTTP/1.1{end}")).expect(end);
        assert_eq!(call.http_method, Method::DELETE, "{end:?}");
        assert!(call.body.is_empty(), "{end:?}");
    }
}

#[test]
fn target_may_be_a_path_or_a_url() {
    for target in ["/a%20b?c=d", "http://farm.test:8080/a", "https://x/"] {
        let call = one(&format!("GET {target} HTTP/1.1\r\n\r\n")).unwrap();
        assert_eq!(call.target.to_string(), target);
    }
}

#[test]
fn malformed_request_line_is_refused() {
    for line in [
        "",
        "GET",
        "GET ",
        "GET /a HTTP/2",
        "GET /a HTTP/1.1 x",
        "GET /a b HTTP/1.1",
        "GET a HTTP/1.1",
        "GET * HTTP/1.1",
        "GET farm.test:80 HTTP/1.1",
        "G(T /a HTTP/1.1",
        "GET /a\u{7} HTTP/1.1",
    ] {
        assert_problem(&one(&format!("{line}\r\n\r\n")), CallError::RequestLine);
    }
}

#[test]
fn malformed_headers_are_refused() {
    for headers in ["nothing", "a b: c", ": c", "a: \u{1}"] {
        let call = format!("GET /a HTTP/1.1\r\n{headers}\r\n\r\n");
        assert_problem(&one(&call), CallError::Header);
    }
    let many = "a: b\r\n".repeat(MAX_FIELDS);
    one(&format!("GET /a HTTP/1.1\r\n{many}\r\n")).expect("it is at the limit");
    let call = format!("GET /a HTTP/1.1\r\n{many}c: d\r\n\r\n");
    assert_problem(&one(&call), CallError::TooManyFields);
    let long = "x".repeat(MAX_HEAD);
    let call = format!("GET /a HTTP/1.1\r\na: {long}\r\n\r\n");
    assert_problem(&one(&call), CallError::HeadTooLarge { limit: MAX_HEAD });
}

#[test]
fn body_shorter_than_its_length_is_refused() {
    for (length, expected) in [
        ("2", Ok("{}")),
        // Of characters; the part tells where the body ends.
        ("1", Ok("{}")),
        ("3", Err(CallError::Length)),
        ("-1", Err(CallError::Length)),
        ("99999999999999999999", Err(CallError::Length)),
    ] {
        let call = one(&format!(
            "POST /a HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{{}}"
        ));
        match expected {
            Ok(body) => assert_eq!(call.unwrap().body, body, "{length}"),
            Err(problem) => assert_problem(&call, problem),
        }
    }
}

#[test]
fn part_that_is_no_call_is_refused() {
    let parts = [
        ("", CallError::NotHttp),
        ("Content-ID: <1>", CallError::NotHttp),
        ("Content-Type: application/json", CallError::NotHttp),
        (
            "Content-Type: application/http\r\nContent-Transfer-Encoding: base64",
            CallError::TransferEncoding,
        ),
        (
            "Content-Type: application/http\r\nContent-ID: <ä>",
            CallError::ContentId,
        ),
    ];
    for (headers, problem) in parts {
        let body = format!("--b\r\n{headers}\r\n\r\nGET /a HTTP/1.1\r\n\r\n--b--");
        assert_problem(&parse(&body).map(|mut calls| calls.remove(0)), problem);
    }
}

#[test]
fn calls_keep_their_order_up_to_a_hundred() {
    let part = |n| {
        format!("--b\r\nContent-Type: application/http\r\nContent-ID: <{n}>\r\n\r\nGET /{n}\r\n")
    };
    let hundred: String = (0..MAX_CALLS).map(part).collect();
    let calls = parse(&format!("{hundred}--b--")).unwrap();
    assert_eq!(calls.len(), MAX_CALLS);
    for (n, call) in calls.iter().enumerate() {
        assert_eq!(call.target, *format!("/{n}"));
        assert_eq!(call.content_id, Some(format!("<{n}>")));
    }
    let more = parse(&format!("{hundred}{}--b--", part(MAX_CALLS)));
    assert_eq!(more, Err(BatchError::TooManyCalls));
}

#[test]
fn batch_without_calls_or_without_its_end_is_refused() {
    assert_eq!(parse("--b--"), Err(BatchError::NoCalls));
    let part = "--b\r\nContent-Type: application/http\r\n\r\nGET /a HTTP/1.1\r\n\r\n";
    for body in [
        "",
        "nothing",
        part,
        &format!("{part}--b"),
        &format!("{part}--b\r\n"),
    ] {
        let refused = Err(RelatedError::NoFinalBoundary.into());
        assert_eq!(parse(body), refused, "{body:?}");
    }
}

#[test]
fn reply_names_the_call_that_it_answers() {
    for (content_id, expected) in [
        ("<item1:7@barn>", "<response-item1:7@barn>"),
        ("<4d2a + 1>", "<response-4d2a + 1>"),
        ("1", "response-1"),
    ] {
        assert_eq!(response_id(content_id), expected);
    }
}

proptest! {
    #[test]
    fn any_body_is_parsed_without_panic(
        pieces in prop::collection::vec(
            prop_oneof![
                Just("--b\r\n".as_bytes().to_vec()),
                Just("\n--b\n".as_bytes().to_vec()),
                Just("\r\n--b--".as_bytes().to_vec()),
                Just("Content-Type: application/http\r\n\r\n".as_bytes().to_vec()),
                Just("GET /a HTTP/1.1\r\nA: b\r\n".as_bytes().to_vec()),
                prop::collection::vec(any::<u8>(), 0..20),
            ],
            0..12,
        )
    ) {
        let boundary = boundary_of("multipart/mixed; boundary=b").unwrap();
        calls(pieces.concat().into(), boundary, MAX_HEAD).ok();
    }
}
