//! HTTP/2: streams that stand still end, and so does a connection on which nothing happens.
//!
//! Over HTTP/1 a client that takes nothing blocks its socket, which [`crate::connections::io`] notices. Over HTTP/2 the socket
//! stays free while a stream's window is shut, so each reply is watched by itself. A piece of it is handed to the HTTP
//! library only when the one before has gone out: the library would take any length and keep it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper_util::rt::TokioTimer;
use pin_project_lite::pin_project;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::task::TaskTracker;

use crate::config::Limits;
use crate::reply::{Reply, ReplyBody};

/// How much a client may send before the server has taken it: of one body, and of all bodies of a connection.
const WINDOW: u32 = 1024 * 1024;

/// How many requests a connection carries at once.
const STREAMS: u32 = 32;

/// The longest request head, unpacked, as over HTTP/1.
const HEAD: u32 = 32 * 1024;

/// As much of a reply is handed to the HTTP library at once. A client has to take it within `limits.body_timeout`.
const PIECE: usize = 32 * 1024;

tokio::task_local! {
    /// The stream that the running task serves.
    static STREAM: Arc<Stream>;
}

/// The streams of one connection.
#[derive(Debug, Clone)]
pub(super) struct Streams {
    tasks: TaskTracker,
    limits: Timeouts,
    activity: Arc<Mutex<Activity>>,
}

#[derive(Debug, Clone, Copy)]
struct Timeouts {
    /// Without a request.
    idle: Duration,
    /// Until some of a reply is taken.
    stall: Duration,
}

/// What a connection's streams do.
#[derive(Debug)]
struct Activity {
    /// Requests that are being carried out: the server is at work, or waits for a body, which has a limit of its own.
    working: usize,
    /// Replies on their way.
    replying: usize,
    /// When the client did something last.
    last: Instant,
    /// Whether a stream was given up since then.
    gave_up: bool,
}

/// One stream.
#[derive(Debug)]
struct Stream {
    activity: Arc<Mutex<Activity>>,
    /// When some of the reply was taken last, or when it began. `None` before that.
    taken: Mutex<Option<Instant>>,
}

impl Streams {
    pub(super) fn new(limits: &Limits, tasks: &TaskTracker) -> Self {
        let activity = Activity {
            working: 0,
            replying: 0,
            last: Instant::now(),
            gave_up: false,
        };
        Self {
            tasks: tasks.clone(),
            limits: Timeouts {
                idle: limits.head_timeout,
                stall: limits.body_timeout,
            },
            activity: Arc::new(Mutex::new(activity)),
        }
    }

    /// How the HTTP library serves the connection.
    pub(super) fn builder(&self) -> http2::Builder<Self> {
        let mut builder = http2::Builder::new(self.clone());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEAD)
            .keep_alive_interval(self.limits.idle);
        builder
    }

    /// Resolves when there has been no request for too long, or no stream has made progress for too long.
    pub(super) async fn stalled(&self) {
        loop {
            let deadline = self.deadline();
            if deadline <= Instant::now() {
                return;
            }
            sleep_until(deadline).await;
        }
    }

    /// When to look again, or in the past if the connection is to be closed.
    fn deadline(&self) -> Instant {
        let activity = lock(&self.activity);
        match *activity {
            Activity { working: 1.., .. } => Instant::now() + self.limits.stall,
            Activity { replying: 1.., .. } | Activity { gave_up: true, .. } => {
                activity.last + self.limits.stall
            }
            Activity { .. } => activity.last + self.limits.idle,
        }
    }
}

impl Activity {
    fn note_progress(&mut self) {
        self.last = Instant::now();
        self.gave_up = false;
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, request: F) {
        let stream = Arc::new(Stream::begin(&self.activity));
        let running = Running {
            request: STREAM.scope(Arc::clone(&stream), request),
            stream,
            timeouts: self.limits.stall,
            timer: None,
        };
        self.tasks.spawn(running);
    }
}

impl Stream {
    fn begin(activity: &Arc<Mutex<Activity>>) -> Self {
        let mut now = lock(activity);
        now.working += 1;
        now.note_progress();
        drop(now);
        Self {
            activity: Arc::clone(activity),
            taken: Mutex::default(),
        }
    }

    /// Notes that the reply begins, or that some of it was taken.
    fn make_progress(&self) {
        let before = lock(&self.taken).replace(Instant::now());
        let mut activity = lock(&self.activity);
        if before.is_none() {
            activity.working -= 1;
            activity.replying += 1;
        }
        activity.note_progress();
    }

    fn last_taken(&self) -> Option<Instant> {
        *lock(&self.taken)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let is_replying = self.last_taken().is_some();
        let mut activity = lock(&self.activity);
        if is_replying {
            activity.replying -= 1;
        } else {
            activity.working -= 1;
        }
        if !activity.gave_up {
            activity.note_progress();
        }
    }
}

/// A reply on the stream that the running task serves, watched from now on.
pub(super) fn watch(reply: Reply) -> Reply {
    let stream = STREAM.with(Arc::clone);
    stream.make_progress();
    let watched = |body| {
        let watched = WatchedBody {
            body,
            rest: Bytes::new(),
            sent: None,
            stream,
        };
        watched.boxed_unsync()
    };
    reply.map(watched)
}

pin_project! {
    /// A request that is carried out and answered, until its client takes none of the reply for too long. The stream
    /// is reset when it is dropped.
    struct Running<F> {
        #[pin]
        request: F,
        stream: Arc<Stream>,
        timeouts: Duration,
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future> Future for Running<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.request.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        while let Some(taken) = this.stream.last_taken() {
            let deadline = taken + *this.timeouts;
            let timer = this
                .timer
                .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            // It is set again only when it goes off: pieces are taken far more often.
            if timer.is_elapsed() {
                if deadline <= Instant::now() {
                    tracing::debug!("a reply was not taken; its stream is reset");
                    lock(&this.stream.activity).gave_up = true;
                    return Poll::Ready(());
                }
                timer.as_mut().reset(deadline);
            }
            ready!(timer.as_mut().poll(cx));
        }
        Poll::Pending
    }
}

/// A reply's body in pieces, each of which comes when the one before has gone out. So it is dropped, with what it holds,
/// no sooner than its last byte is sent, and no later than its stream ends.
struct WatchedBody {
    body: ReplyBody,
    /// What has come of it and was not handed out yet.
    rest: Bytes,
    /// Resolves when the last piece has gone out.
    sent: Option<oneshot::Receiver<()>>,
    stream: Arc<Stream>,
}

/// A piece that tells when nobody needs it any more, by dropping the other half.
struct Piece {
    bytes: Bytes,
    _sent: oneshot::Sender<()>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(sent) = &mut self.sent {
            ready!(sent.poll_unpin(cx)).ok();
            self.sent = None;
            self.stream.make_progress();
        }
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                end => return Poll::Ready(end),
            }
        }
        let len = self.rest.len().min(PIECE);
        let (told, sent) = oneshot::channel();
        self.sent = Some(sent);
        let piece = Piece {
            bytes: self.rest.split_to(len),
            _sent: told,
        };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.sent.is_none() && self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // It is asked for before anything is handed out.
        self.body.size_hint()
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use tokio::sync::mpsc;
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::reply::stored_json;

    const STALL: Duration = Duration::from_secs(30);

    fn streams() -> Streams {
        let limits = Limits {
            body_timeout: STALL,
            ..Limits::default()
        };
        Streams::new(&limits, &TaskTracker::new())
    }

    /// A stream with the number of pieces that it answers, and the pieces as they go out.
    fn answered(streams: &Streams, pieces: usize) -> mpsc::Receiver<Bytes> {
        let (out, taken) = mpsc::channel(1);
        streams.execute(async move {
            let text = Bytes::from(vec![b' '; pieces * PIECE]);
            let mut body = watch(stored_json(StatusCode::OK, text)).into_body();
            while let Some(Ok(frame)) = body.frame().await {
                out.send(frame.into_data().unwrap()).await.ok();
            }
        });
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_is_taken_slowly_comes_whole() {
        let streams = streams();
        let mut reply = answered(&streams, 5);
        for _ in 0..5 {
            let piece = reply.recv().await.unwrap();
            assert_eq!(piece.len(), PIECE);
            sleep(STALL * 2 / 3).await;
            assert!(reply.try_recv().is_err(), "only one is on its way");
        }
        assert!(reply.recv().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_is_not_taken_is_dropped_though_nobody_asks_for_more() {
        let streams = streams();
        let mut reply = answered(&streams, 2);
        let begun = Instant::now();
        let piece = reply.recv().await.unwrap();
        assert!(reply.recv().await.is_none());
        assert_eq!(begun.elapsed().as_secs(), STALL.as_secs());
        streams.stalled().await;
        assert_eq!(begun.elapsed().as_secs(), STALL.as_secs());
        drop(piece);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_kept_while_the_server_is_at_work_and_a_while_longer() {
        let streams = streams();
        let (done, work) = oneshot::channel::<()>();
        streams.execute(work);
        let long = Limits::default().head_timeout * 10;
        timeout(long, streams.stalled()).await.unwrap_err();
        done.send(()).unwrap();
        let begun = Instant::now();
        streams.stalled().await;
        assert_eq!(begun.elapsed(), Limits::default().head_timeout);
    }
}
