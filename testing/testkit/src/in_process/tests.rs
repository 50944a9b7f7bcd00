use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll, Waker};

use http::StatusCode;
use serde_json::json;

use super::*;

/// Answers with the body of the request.
struct Echo;

impl Service<Request<Body>> for Echo {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        ready(Ok(Response::new(request.into_body())))
    }
}

impl Peer for Echo {
    const ORIGIN: &str = "http://echo.test";

    async fn try_exchange(&self, request: Request<Body>) -> Reply {
        try_exchange(Self, request).await
    }
}

/// The result of work that waits for nothing.
fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn whole_request_states_its_length_and_a_broken_one_does_not() {
    let whole = request("PUT", "/a", &[("x-b", "c")], "four");
    assert_eq!(whole.headers()["content-length"], "4");
    assert_eq!(whole.headers()["x-b"], "c");
    let broken = request("PUT", "/a", &[], Body::Broken(b"four".to_vec()));
    assert!(!broken.headers().contains_key("content-length"));
    assert_eq!(broken.headers()["transfer-encoding"], "chunked");
}

#[test]
fn reply_has_the_bytes_that_came_and_tells_whether_it_broke_off() {
    let whole = now(Echo.send("PUT", "/a", &[], "four"));
    assert_eq!((&whole.body[..], whole.is_whole), (&b"four"[..], true));
    let empty = now(Echo.get("/a"));
    assert_eq!((empty.body.len(), empty.is_whole), (0, true));
    for len in [0, 4] {
        let broken = Body::Broken(vec![7; len]);
        let broken = now(Echo.try_send("PUT", "/a", &[], broken));
        assert_eq!((broken.body.len(), broken.is_whole), (len, false));
    }
}

#[test]
#[should_panic(expected = "is_whole: false")]
fn reply_that_breaks_off_fails_the_test() {
    now(Echo.send("PUT", "/a", &[], Body::Broken(b"four".to_vec())));
}

#[test]
fn multipart_body_has_metadata_and_media() {
    let sent = now(Echo.multipart("/a?b=c", &json!({"name": "ox"}), "image/png", b"moo"));
    let expected = "--=b=\r\nContent-Type: application/json\r\n\r\n{\"name\":\"ox\"}\r\n\
                    --=b=\r\nContent-Type: image/png\r\n\r\nmoo\r\n--=b=--\r\n";
    assert_eq!(sent.body, expected);
    assert_eq!(
        upload_uri("/a?b=c", "media"),
        "/upload/a?b=c&uploadType=media"
    );
}

fn reply(status: u16, headers: &[(&'static str, &'static str)], body: &Value) -> Reply {
    let mut reply = Response::new(());
    for (name, value) in headers {
        let value = value.parse().expect("tests write valid headers");
        reply.headers_mut().insert(*name, value);
    }
    Reply {
        status: StatusCode::from_u16(status).expect("tests write valid statuses"),
        headers: reply.into_parts().0.headers,
        body: body.to_string().into(),
        is_whole: true,
    }
}

#[test]
fn reply_is_read_as_clients_read_it() {
    let started = reply(200, &[("location", "http://a.test/b?c=d")], &Value::Null);
    assert_eq!(started.location("http://a.test"), "/b?c=d");
    assert_eq!(reply(308, &[], &Value::Null).committed(), 0);
    let range = [("range", "bytes=0-41")];
    assert_eq!(reply(308, &range, &Value::Null).committed(), 42);
    assert_eq!(reply(201, &[], &json!({"id": "7"})).field("id"), "7");
    let error = json!({"error": {"message": "no", "errors": [{"reason": "notFound"}]}});
    assert_eq!(reply(404, &[], &error).refusal(404, "notFound"), "no");
}
