//! Interim replies over HTTP/1.1: after the reply before, and before their request's own reply.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tower_service::Service;
use windlass_server::{Ended, InterimHead, InterimReplies, Listener, ReplyBody, UploadService};
use windlass_testkit::raw::{RawPeer, Reply};

use crate::embedding::{builder, memory};

/// Sends as many interim replies as the header `count` says, with the number of the reply, and one
/// more after the reply to the request.
#[derive(Clone)]
struct Counting(UploadService);

impl Service<Request<Incoming>> for Counting {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<ReplyBody>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Incoming>>::poll_ready(&mut self.0, context)
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let count = request.headers().get("count");
        let count = count.map_or(0, number);
        let size = request.headers().get("size");
        let size = size.map_or(0, number);
        let replies = request.extensions().get::<InterimReplies>().cloned();
        let name = request.uri().path().to_owned();
        let answered = self.0.call(request);
        Box::pin(async move {
            let Some(replies) = replies else {
                let mut reply = answered.await?;
                reply
                    .headers_mut()
                    .insert("none", HeaderValue::from_static("yes"));
                return Ok(reply);
            };
            // On another thread, as the work of an upload may be.
            let sending = replies.clone();
            let sent = tokio::spawn(async move {
                for number in 0..count {
                    sending.send(&head(&name, number, size));
                }
            });
            sent.await.expect("nothing panics");
            let reply = answered.await;
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                replies.send(&head("/late", 0, 0));
            });
            reply
        })
    }
}

/// The number in a header.
fn number(value: &HeaderValue) -> usize {
    let text = value.to_str().expect("it is text");
    text.parse().expect("it is a number")
}

fn head(name: &str, number: usize, size: usize) -> InterimHead {
    let status = StatusCode::from_u16(104).expect("a status");
    let mut headers = HeaderMap::new();
    headers.insert(
        "name",
        HeaderValue::from_str(name).expect("a path is a value"),
    );
    headers.insert("number", number.into());
    let filling = HeaderValue::from_str(&"x".repeat(size)).expect("a value");
    headers.insert("filling", filling);
    InterimHead::new(status, &headers).expect("it is short")
}

/// Runs a client against a server whose replies are preceded by interim replies.
async fn serve(client: impl FnOnce(SocketAddr) + Send + 'static) {
    let server = builder(memory()).build().expect("its parts fit");
    let service = Counting(server.service());
    let sockets = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = sockets.local_addr().expect("it has an address");
    let client = tokio::task::spawn_blocking(move || client(address));
    let (send_end, ended) = oneshot::channel();
    let stop = async {
        send_end.send(client.await).ok();
    };
    let drained = server.run_with(service, Listener::plain(sockets), stop);
    assert_eq!(drained.await, Ended::Drained);
    let client = ended.await.expect("the client has ended");
    client.expect("the client is content");
}

fn get(name: &str, count: usize) -> String {
    format!("GET {name} HTTP/1.1\r\nHost: app.localhost\r\nCount: {count}\r\n\r\n")
}

#[track_caller]
fn assert_interim(reply: &Reply, name: &str, number: usize) {
    assert_eq!(reply.status, 104, "{reply:?}");
    assert_eq!(reply.header("name"), Some(name));
    assert_eq!(reply.header("number"), Some(&*number.to_string()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interim_replies_come_before_the_reply_of_their_request() {
    serve(|address| {
        let mut peer = RawPeer::connect(address);
        for count in [2, 0, 3] {
            peer.send(get("/healthz", count));
            for number in 0..count {
                assert_interim(&peer.next_reply().unwrap(), "/healthz", number);
            }
            assert_eq!(peer.next_reply().unwrap().status, 200);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interim_replies_to_requests_in_one_packet_keep_their_order() {
    serve(|address| {
        let mut peer = RawPeer::connect(address);
        let names = ["/healthz", "/readyz", "/healthz", "/nothing"];
        peer.send(names.map(|name| get(name, 2)).concat());
        for name in names {
            assert_interim(&peer.next_reply().unwrap(), name, 0);
            assert_interim(&peer.next_reply().unwrap(), name, 1);
            let status = if name == "/nothing" { 404 } else { 200 };
            assert_eq!(peer.next_reply().unwrap().status, status, "{name}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interim_reply_arrives_while_the_body_is_awaited() {
    serve(|address| {
        let mut peer = RawPeer::connect(address);
        peer.send(
            "POST /upload/farm/v1/animals?uploadType=media HTTP/1.1\r\nHost: app.localhost\r\n\
             Content-Type: image/png\r\nContent-Length: 3\r\nExpect: 100-continue\r\nCount: 1\r\n\r\n",
        );
        let mut heads = [peer.next_reply().unwrap(), peer.next_reply().unwrap()];
        heads.sort_by_key(|reply| reply.status);
        assert_eq!(heads[0].status, 100);
        assert_interim(&heads[1], "/upload/farm/v1/animals", 0);
        peer.send("abc");
        assert_eq!(peer.next_reply().unwrap().status, 200);
        peer.send(get("/healthz", 0));
        assert_eq!(peer.next_reply().unwrap().status, 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_of_http_1_0_gets_no_interim_reply() {
    serve(|address| {
        let mut peer = RawPeer::connect(address);
        peer.send("GET /healthz HTTP/1.0\r\nHost: app.localhost\r\nCount: 1\r\n\r\n");
        let reply = peer.next_reply().unwrap();
        assert_eq!((reply.status, reply.header("none")), (200, Some("yes")));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_gets_a_bounded_number_of_interim_replies() {
    serve(|address| {
        let mut peer = RawPeer::connect(address);
        // Sent while the connection waits for the body, so that the queue is emptied meanwhile.
        let request = get("/healthz", 100);
        peer.send(request.replace("\r\n\r\n", "\r\nSize: 10000\r\n\r\n"));
        let mut bytes = 0;
        loop {
            let reply = peer.next_reply().unwrap();
            if reply.status == 200 {
                break;
            }
            bytes += reply.header("filling").unwrap().len();
        }
        assert!((10_000..64 * 1024).contains(&bytes), "{bytes}");
    })
    .await;
}
