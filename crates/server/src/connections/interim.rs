//! Interim replies (1xx) of HTTP/1.1, which hyper cannot send
//! ([why](../../../../docs/adr/0013-interim-replies.md)).
//!
//! [`InterimStream`] is the stream between hyper and the socket. A request sends its interim replies
//! through [`InterimReplies`] into a queue of the stream. The stream writes the queue at a
//! *boundary*, where a reply may begin. hyper flushes the stream exactly when it has no bytes left,
//! so there is a boundary from each flush to the next write.
//!
//! A request may send from its arrival until its reply is returned. What it sends is left out if
//! hyper still holds bytes of the reply before, or if hyper is in the middle of other bytes when the
//! reply is returned: then the stream could not tell where a reply begins. Nobody depends on an
//! interim reply.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, BytesMut};
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum number of bytes of interim replies in the queue of a connection.
const MAX_QUEUED: usize = 16 * 1024;

// A client that reads nothing before it has sent its request would otherwise fill the socket, and be
// given up as a client that does not read its reply.
/// Maximum number of bytes of interim replies to one request.
const MAX_OF_REQUEST: usize = 64 * 1024;

/// An interim reply: a status line and header fields.
///
/// ```
/// use http::{HeaderMap, HeaderValue, StatusCode};
/// use windlass_server::InterimHead;
///
/// let link = HeaderValue::from_static("</style.css>; rel=preload; as=style");
/// let headers = HeaderMap::from_iter([(http::header::LINK, link)]);
/// assert!(InterimHead::new(StatusCode::EARLY_HINTS, &headers).is_some());
/// assert!(InterimHead::new(StatusCode::OK, &headers).is_none());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct InterimHead(Vec<u8>);

/// Hides the fields, which may name a session.
impl fmt::Debug for InterimHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterimHead").finish_non_exhaustive()
    }
}

impl InterimHead {
    /// Returns the head. `None` if the status is not that of an interim reply, if the HTTP library
    /// sends it itself (100, 101), or if the head is longer than 16 KiB.
    // The types of names and values guarantee that they contain no end of a line.
    pub fn new(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        let hypers_own = [StatusCode::CONTINUE, StatusCode::SWITCHING_PROTOCOLS];
        if !status.is_informational() || hypers_own.contains(&status) {
            return None;
        }
        let reason = match status.as_u16() {
            104 => "Upload Resumption Supported",
            _ => status.canonical_reason().unwrap_or_default(),
        };
        let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
        for (name, value) in headers {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(b"\r\n");
        (head.len() <= MAX_QUEUED).then_some(Self(head))
    }
}

/// Sends interim replies to one request. It is an extension of each request over HTTP/1.1 on the
/// server's own connections; the HTTP library sends none over HTTP/2.
#[derive(Clone)]
pub struct InterimReplies {
    queue: Arc<Mutex<Queue>>,
    /// The number of the request on its connection.
    request: u64,
}

impl fmt::Debug for InterimReplies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterimReplies").finish_non_exhaustive()
    }
}

impl InterimReplies {
    /// Sends an interim reply, without waiting. Nothing is sent once the request's own reply has
    /// been returned, while the client does not read, or beyond 64 KiB for a request.
    ///
    /// Many clients take an interim reply that they do not expect for the reply. Send them to
    /// clients that ask for them.
    pub fn send(&self, head: &InterimHead) {
        let mut queue = lock(&self.queue);
        if queue.open == Some(self.request) {
            queue.push(&head.0);
        }
    }
}

/// The interim replies of one connection.
#[derive(Clone, Default)]
pub(crate) struct InterimQueue(Arc<Mutex<Queue>>);

/// Lets a request send interim replies until it is dropped.
pub(crate) struct Sending(InterimReplies);

impl InterimQueue {
    /// Begins a request of the connection.
    pub(crate) fn begin(&self) -> Sending {
        let mut queue = lock(&self.0);
        queue.begun += 1;
        queue.open = Some(queue.begun);
        queue.left = MAX_OF_REQUEST;
        Sending(InterimReplies {
            queue: Arc::clone(&self.0),
            request: queue.begun,
        })
    }

    /// Returns the stream that writes the replies.
    pub(crate) fn stream<S>(&self, inner: S) -> InterimStream<S> {
        InterimStream {
            inner,
            queue: Arc::clone(&self.0),
        }
    }
}

impl Sending {
    /// Returns the handle of the request.
    pub(crate) fn replies(&self) -> InterimReplies {
        self.0.clone()
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let mut queue = lock(&self.0.queue);
        if queue.open == Some(self.0.request) {
            queue.open = None;
            queue.is_reply_held = true;
            if queue.is_written {
                queue.bytes = BytesMut::new();
            }
        }
    }
}

#[derive(Default)]
struct Queue {
    /// What is to be written next. At a boundary it begins with a whole reply, or with the rest of
    /// a reply that the socket has taken a part of.
    bytes: BytesMut,
    /// Number of requests of the connection.
    begun: u64,
    /// The request that may send.
    open: Option<u64>,
    /// Number of bytes that the request may still send.
    left: usize,
    /// Whether hyper has written since its last flush. If not, there is a boundary.
    is_written: bool,
    /// Whether hyper has been given a reply since its last flush.
    is_reply_held: bool,
    /// Wakes the connection.
    waker: Option<Waker>,
}

impl Queue {
    fn push(&mut self, head: &[u8]) {
        let is_room = self.bytes.len() + head.len() <= MAX_QUEUED && !self.is_reply_held;
        let Some(left) = self.left.checked_sub(head.len()).filter(|_| is_room) else {
            return;
        };
        self.left = left;
        self.bytes.extend_from_slice(head);
        // hyper then flushes the stream, unless it is running already.
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Writes what is queued.
    fn poll_empty<S: AsyncWrite + Unpin>(
        &mut self,
        inner: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.bytes.is_empty() {
            let written = ready!(Pin::new(&mut *inner).poll_write(cx, &self.bytes))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.bytes.advance(written);
        }
        // Most connections send no interim reply, or one.
        self.bytes = BytesMut::new();
        Poll::Ready(Ok(()))
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    // No code panics while it holds the lock.
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream that writes interim replies between the replies of hyper.
pub(crate) struct InterimStream<S> {
    inner: S,
    queue: Arc<Mutex<Queue>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for InterimStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

#[cfg(feature = "fuzzing")]
impl<S> InterimStream<S> {
    /// Returns the stream below.
    pub(crate) fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }
}

impl<S: AsyncWrite + Unpin> InterimStream<S> {
    /// Writes what is queued before bytes of hyper.
    fn poll_before(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut queue = lock(&self.queue);
        if !queue.is_written {
            ready!(queue.poll_empty(&mut self.inner, cx))?;
        }
        queue.is_written = true;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for InterimStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_before(cx))?;
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_before(cx))?;
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    /// hyper has no bytes left when it calls this.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        {
            let mut queue = lock(&this.queue);
            (queue.is_written, queue.is_reply_held) = (false, false);
            ready!(queue.poll_empty(&mut this.inner, cx))?;
            if !queue
                .waker
                .as_ref()
                .is_some_and(|it| it.will_wake(cx.waker()))
            {
                queue.waker = Some(cx.waker().clone());
            }
        }
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;

    fn head(number: usize) -> InterimHead {
        let mut headers = HeaderMap::new();
        headers.insert("number", number.into());
        InterimHead::new(StatusCode::PROCESSING, &headers).unwrap()
    }

    fn text(number: usize) -> String {
        format!("HTTP/1.1 102 Processing\r\nnumber: {number}\r\n\r\n")
    }

    /// Returns what the client has received.
    async fn received(mut client: DuplexStream, server: InterimStream<DuplexStream>) -> String {
        drop(server);
        let mut received = String::new();
        client.read_to_string(&mut received).await.unwrap();
        received
    }

    #[test]
    fn head_is_an_interim_reply_or_none() {
        let mut headers = HeaderMap::new();
        headers.append("upload-offset", HeaderValue::from_static("7"));
        headers.append("upload-offset", HeaderValue::from_static("8"));
        let status = StatusCode::from_u16(104).unwrap();
        let head = InterimHead::new(status, &headers).unwrap();
        assert_eq!(
            head.0,
            b"HTTP/1.1 104 Upload Resumption Supported\r\nupload-offset: 7\r\n\
              upload-offset: 8\r\n\r\n"
        );
        for status in [99_u16, 100, 101, 200, 308].map(StatusCode::from_u16) {
            let head = status.ok().and_then(|it| InterimHead::new(it, &headers));
            assert_eq!(head, None);
        }
        let long = HeaderValue::from_str(&"x".repeat(MAX_QUEUED)).unwrap();
        let headers = HeaderMap::from_iter([(http::header::LINK, long)]);
        assert_eq!(InterimHead::new(status, &headers), None);
    }

    #[tokio::test]
    async fn replies_are_written_by_a_flush_or_before_the_next_write() {
        let (client, server) = tokio::io::duplex(1024);
        let queue = InterimQueue::default();
        let mut server = queue.stream(server);
        let sending = queue.begin();
        sending.replies().send(&head(1));
        server.flush().await.unwrap();
        sending.replies().send(&head(2));
        drop(sending);
        server.write_all(b"reply").await.unwrap();
        server.flush().await.unwrap();
        let sent = received(client, server).await;
        assert_eq!(sent, format!("{}{}reply", text(1), text(2)));
    }

    #[tokio::test]
    async fn nothing_is_sent_before_or_after_a_request() {
        let (client, server) = tokio::io::duplex(1024);
        let queue = InterimQueue::default();
        let mut server = queue.stream(server);
        let first = queue.begin();
        let of_first = first.replies();
        drop(first);
        of_first.send(&head(1));
        server.flush().await.unwrap();
        let second = queue.begin();
        of_first.send(&head(2));
        second.replies().send(&head(3));
        server.flush().await.unwrap();
        assert_eq!(received(client, server).await, text(3));
    }

    #[tokio::test]
    async fn reply_is_never_inside_another_one() {
        let (client, server) = tokio::io::duplex(1024);
        let queue = InterimQueue::default();
        let mut server = queue.stream(server);
        // The rest of the first reply is still with hyper when the second request sends.
        server.write_all(b"first ").await.unwrap();
        let second = queue.begin();
        second.replies().send(&head(1));
        server.write_all(b"reply ").await.unwrap();
        server.flush().await.unwrap();
        server.write_all(b"second ").await.unwrap();
        second.replies().send(&head(2));
        // hyper may hold the end of an earlier reply and the beginning of this one.
        drop(second);
        server.write_all(b"reply").await.unwrap();
        server.flush().await.unwrap();
        let sent = received(client, server).await;
        assert_eq!(sent, format!("first reply {}second reply", text(1)));
    }

    #[tokio::test]
    async fn request_sends_nothing_before_the_reply_to_the_request_before() {
        let (client, server) = tokio::io::duplex(1024);
        let queue = InterimQueue::default();
        let mut server = queue.stream(server);
        drop(queue.begin());
        let second = queue.begin();
        second.replies().send(&head(1));
        server.write_all(b"first reply ").await.unwrap();
        server.flush().await.unwrap();
        second.replies().send(&head(2));
        server.flush().await.unwrap();
        let sent = received(client, server).await;
        assert_eq!(sent, format!("first reply {}", text(2)));
    }

    #[tokio::test]
    async fn reply_that_the_socket_takes_in_parts_stays_whole() {
        let (mut client, server) = tokio::io::duplex(7);
        let queue = InterimQueue::default();
        let mut server = queue.stream(server);
        let sending = queue.begin();
        sending.replies().send(&head(1));
        let reading = tokio::spawn(async move {
            let mut received = String::new();
            client.read_to_string(&mut received).await.unwrap();
            received
        });
        drop(sending);
        server.write_all(b"reply").await.unwrap();
        server.flush().await.unwrap();
        drop(server);
        assert_eq!(reading.await.unwrap(), format!("{}reply", text(1)));
    }

    #[test]
    fn queue_and_request_have_bounds() {
        let queue = InterimQueue::default();
        let sending = queue.begin();
        let replies = sending.replies();
        for _ in 0..10_000 {
            replies.send(&head(1));
        }
        let mut queued = lock(&queue.0);
        assert!(queued.bytes.len() <= MAX_QUEUED);
        let mut sent = queued.bytes.len();
        for _ in 0..10_000 {
            queued.bytes.clear();
            queued.push(text(1).as_bytes());
            sent += queued.bytes.len();
        }
        assert!((MAX_OF_REQUEST - 100..=MAX_OF_REQUEST).contains(&sent));
    }
}
