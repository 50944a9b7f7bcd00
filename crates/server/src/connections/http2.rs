//! HTTP/2: ends stalled streams, idle connections, and connections whose client only begins and
//! resets requests.
//!
//! Over HTTP/1, a client that reads no reply blocks its socket, which [`super::streams`] notices.
//! Over HTTP/2, the socket stays writable while the window of a stream is closed, so each reply is
//! watched separately. hyper accepts a body of any length and keeps it. A reply is therefore handed
//! over in pieces, each after the previous piece has been sent.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
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
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::callers::AddressResets;
use crate::config::Limits;
use crate::connections::MIN_HEAD;
use crate::connections::pace::Pace;
use crate::connections::place::Place;
use crate::reply::{ClientGone, Reply, ReplyBody};

/// The minimum and the maximum of [`Limits::window`], as in its documentation.
const MIN_WINDOW: u32 = 64 * 1024;
const MAX_WINDOW: u32 = 1024 * 1024 * 1024;

// A client has to read one piece within `limits.body_timeout`, however slow it is.
/// Maximum number of bytes of a reply that hyper holds.
const PIECE: usize = 32 * 1024;

tokio::task_local! {
    // Set around each request, because hyper does not pass the stream's id to a service.
    /// The stream of the current task.
    static STREAM: Arc<Stream>;
}

/// The streams of one connection.
#[derive(Debug, Clone)]
pub(super) struct Streams {
    tasks: TaskTracker,
    limits: Timeouts,
    activity: Arc<Mutex<Activity>>,
    /// Counts the requests that the client resets.
    resets: Option<AddressResets>,
    /// Cancelled when the client has reset too many requests, or sends new requests after the
    /// notice that its connection ends.
    shut_out: CancellationToken,
    place: Place,
    /// The initial pace of a reply.
    pace: Pace,
    /// Notified when a request begins while other connections wait for a permit.
    crowded: Arc<Crowded>,
}

#[derive(Debug, Default)]
struct Crowded {
    /// When the client received the notice that the connection ends.
    told: OnceLock<Instant>,
    begun: Notify,
}

/// The reason why the server closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// Other connections wait for its permit. It may end its requests, but not begin new requests.
    Crowded,
    /// It is idle, or its client does not read a reply.
    Stalled,
    /// Its address has reset too many requests, or it continues to send requests although its place
    /// is wanted.
    ShutOut,
}

#[derive(Debug, Clone, Copy)]
struct Timeouts {
    /// Maximum time without a request.
    idle: Duration,
    /// Maximum time in which the client reads nothing of a reply.
    stall: Duration,
}

/// The activity on all streams of a connection.
#[derive(Debug)]
struct Activity {
    /// Number of requests without a reply. The server works on them or waits for a body, which has
    /// its own timeout.
    working: usize,
    /// Number of replies that are being sent.
    replying: usize,
    /// When a request last began, or a client last read a part of a reply.
    last: Instant,
    /// Whether a stalled stream was reset since then.
    has_reset: bool,
    /// Number of requests that ended before the head of their reply, or that the client had
    /// abandoned by then. Not yet reported to [`AddressResets`].
    unanswered: u64,
    /// Number of requests with a reply, not reported yet.
    answered: u64,
}

/// One stream.
#[derive(Debug)]
struct Stream {
    pace: Pace,
    activity: Arc<Mutex<Activity>>,
    /// When the reply began, or the client last read a part of it. `None` before the reply.
    taken: Mutex<Option<Instant>>,
}

impl Streams {
    pub(super) fn new(
        limits: &Limits,
        tasks: &TaskTracker,
        resets: Option<AddressResets>,
        place: Place,
        reply_pace: Pace,
    ) -> Self {
        let activity = Activity {
            working: 0,
            replying: 0,
            last: Instant::now(),
            has_reset: false,
            unanswered: 0,
            answered: 0,
        };
        Self {
            tasks: tasks.clone(),
            limits: Timeouts {
                idle: limits.head_timeout,
                stall: limits.body_timeout,
            },
            activity: Arc::new(Mutex::new(activity)),
            resets,
            shut_out: CancellationToken::new(),
            place,
            pace: reply_pace,
            crowded: Arc::default(),
        }
    }

    /// Returns the configuration of HTTP/2.
    pub(super) fn builder(&self, limits: &Limits) -> http2::Builder<Self> {
        let window = saturate(limits.window).clamp(MIN_WINDOW, MAX_WINDOW);
        let mut builder = http2::Builder::new(self.clone());
        builder
            .timer(TokioTimer::new())
            // The same for a stream as for the connection, so that many streams cannot hold many
            // windows.
            .initial_stream_window_size(window)
            .initial_connection_window_size(window)
            .max_concurrent_streams(saturate(limits.streams).max(1))
            // The decompressed size, because HPACK can expand a small frame to a large head. The
            // limit also bounds the frames that continue a head.
            .max_header_list_size(saturate(limits.head.max(MIN_HEAD)))
            // Finds connections that broke silently. Answers to these pings do not count as
            // activity of the client: `stalled` examines the streams.
            .keep_alive_interval(self.limits.idle);
        builder
    }

    /// Returns whether no request is being answered.
    pub(super) fn are_idle(&self) -> bool {
        let activity = lock(&self.activity);
        activity.working == 0 && activity.replying == 0
    }

    /// Resolves when the server closes the connection. Resolves with [`GivenUp::Crowded`] once.
    pub(super) async fn given_up(&self) -> GivenUp {
        tokio::select! {
            () = self.shut_out.cancelled() => GivenUp::ShutOut,
            () = self.crowded.begun.notified() => GivenUp::Crowded,
            () = self.stalled() => GivenUp::Stalled,
        }
    }

    /// Ends the connection after its requests if other connections wait for its permit; see
    /// [`GivenUp::Crowded`]. A client that begins requests long after this notice is disconnected
    /// at once: hyper accepts requests until the client acknowledges the notice.
    fn make_room(&self) {
        match self.crowded.told.get() {
            Some(told) if told.elapsed() > self.limits.idle => self.shut_out.cancel(),
            None if self.place.is_wanted() => {
                self.crowded.told.set(Instant::now()).ok();
                self.crowded.begun.notify_one();
            }
            _ => {}
        }
    }

    /// Reports the requests that the client has reset. It is called when the client sends another
    /// request: requests that end with their connection are not followed by a request, and the
    /// network may have ended the connection.
    fn count_resets(&self) {
        let Some(resets) = &self.resets else {
            return;
        };
        let (unanswered, answered) = {
            let mut activity = lock(&self.activity);
            if activity.unanswered == 0 {
                return;
            }
            let Activity {
                unanswered,
                answered,
                ..
            } = &mut *activity;
            (mem::take(unanswered), mem::take(answered))
        };
        if resets.record(unanswered, answered).is_err() {
            self.shut_out.cancel();
        }
    }

    /// Resolves when there was no request for the idle timeout, or when no stream made progress for
    /// the stall timeout.
    async fn stalled(&self) {
        loop {
            let deadline = self.deadline();
            if deadline <= Instant::now() {
                return;
            }
            sleep_until(deadline).await;
        }
    }

    /// Returns when to check again. A time in the past means that the connection is to be closed.
    fn deadline(&self) -> Instant {
        let activity = lock(&self.activity);
        match *activity {
            // The server owes a reply, so the connection stays open.
            Activity { working: 1.., .. } => Instant::now() + self.limits.stall,
            // After a reset the client may be gone, so it gets no additional idle time.
            Activity { replying: 1.., .. }
            | Activity {
                has_reset: true, ..
            } => activity.last + self.limits.stall,
            Activity { .. } => activity.last + self.limits.idle,
        }
    }
}

impl Activity {
    fn record_progress(&mut self) {
        self.last = Instant::now();
        self.has_reset = false;
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, request: F) {
        self.count_resets();
        self.make_room();
        let stream = Arc::new(Stream::begin(&self.activity, self.pace.clone()));
        // hyper spawns one future per stream. The task-local is set in this future, and dropping
        // the future resets the stream.
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
    fn begin(activity: &Arc<Mutex<Activity>>, pace: Pace) -> Self {
        let mut now = lock(activity);
        now.working += 1;
        now.record_progress();
        drop(now);
        Self {
            pace,
            activity: Arc::clone(activity),
            taken: Mutex::default(),
        }
    }

    /// Records that the reply begins, and whether the client is still there to read it.
    fn begin_reply(&self, is_answered: bool) {
        // The two locks are taken one after the other, never both at once. `Drop` does the same.
        *lock(&self.taken) = Some(Instant::now());
        let mut activity = lock(&self.activity);
        activity.working -= 1;
        activity.replying += 1;
        if is_answered {
            activity.answered += 1;
        } else {
            activity.unanswered += 1;
        }
        activity.record_progress();
    }

    /// Records that the client has read a part of the reply.
    fn make_progress(&self) {
        *lock(&self.taken) = Some(Instant::now());
        lock(&self.activity).record_progress();
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
            activity.unanswered += 1;
        }
        // A stream that was reset does not count as activity of the client.
        if !activity.has_reset {
            activity.record_progress();
        }
    }
}

/// Watches a reply on the stream of the current task.
///
/// # Panics
/// If the current task was not spawned by [`Streams`].
pub(super) fn watch(reply: Reply) -> Reply {
    let stream = STREAM.with(Arc::clone);
    stream.begin_reply(reply.extensions().get::<ClientGone>().is_none());
    let watched = |body| {
        let watched = WatchedBody {
            body,
            rest: Bytes::new(),
            sent: None,
            on_its_way: 0,
            pace: stream.pace.clone(),
            stream,
        };
        watched.boxed_unsync()
    };
    reply.map(watched)
}

pin_project! {
    /// The future of one stream. If the client reads nothing of the reply for too long, the future
    /// ends early, which resets the stream.
    struct Running<F> {
        #[pin]
        request: F,
        stream: Arc<Stream>,
        // Maximum time in which the client reads nothing of the reply.
        timeouts: Duration,
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future> Future for Running<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        // The request is polled first, so that a complete reply is not reset.
        if this.request.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        // The timer polls the stream, because hyper does not poll the body while the window is
        // closed.
        while let Some(taken) = this.stream.last_taken() {
            let deadline = taken + *this.timeouts;
            let timer = this
                .timer
                .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            // The timer is reset only when it fires, because pieces are read far more often.
            if timer.is_elapsed() {
                if deadline <= Instant::now() {
                    tracing::debug!("a reply was not taken; its stream is reset");
                    lock(&this.stream.activity).has_reset = true;
                    return Poll::Ready(());
                }
                timer.as_mut().reset(deadline);
            }
            ready!(timer.as_mut().poll(cx));
        }
        Poll::Pending
    }
}

/// The body of a reply, in pieces. A piece follows only after the previous piece has been sent.
///
/// The body is dropped, with the permits that it holds, after its last byte is sent and before its
/// stream ends.
struct WatchedBody {
    body: ReplyBody,
    /// Bytes of the body that have not been handed over yet.
    rest: Bytes,
    /// Resolves when the last piece has been sent.
    sent: Option<oneshot::Receiver<()>>,
    /// Number of bytes of the last piece.
    on_its_way: usize,
    pace: Pace,
    stream: Arc<Stream>,
}

/// A piece of a body. hyper drops the piece after sending it, and dropping its sender notifies the
/// body.
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
            // Always an error: the sender is dropped without a value.
            ready!(sent.poll_unpin(cx)).ok();
            self.sent = None;
            self.stream.make_progress();
            let bytes = self.on_its_way;
            let kept_pace = self.pace.end_wait(bytes);
            // An error resets the stream. A reply that the client has read completely is no error,
            // even if it was late.
            if !(self.rest.is_empty() && self.body.is_end_stream()) {
                kept_pace?;
            }
        }
        while self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(cx) {
                // The server's replies have no trailers.
                Poll::Ready(Some(Ok(frame))) => {
                    self.rest = frame.into_data().unwrap_or_default();
                }
                Poll::Ready(end) => return Poll::Ready(end),
                Poll::Pending => {
                    // The client has read everything, and the server works on the rest.
                    self.stream.make_progress();
                    return Poll::Pending;
                }
            }
        }
        let len = self.rest.len().min(PIECE);
        let (told, sent) = oneshot::channel();
        self.sent = Some(sent);
        self.on_its_way = len;
        self.pace.begin_wait();
        let piece = Piece {
            bytes: self.rest.split_to(len),
            _sent: told,
        };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        // Not before the last piece is sent, because hyper drops a body that has ended.
        self.sent.is_none() && self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Converts a limit to the type that HTTP/2 has for it.
fn saturate(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
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
    use crate::callers::CallerMetrics;
    use crate::connections::pace::Rate;
    use crate::connections::place::Places;
    use crate::reply::stored_json;
    use windlass_engine::{LimitedResource, Pool};

    const STALL: Duration = Duration::from_secs(30);

    fn streams() -> Streams {
        streams_at(Pace::default())
    }

    fn streams_at(reply_pace: Pace) -> Streams {
        let limits = Limits {
            body_timeout: STALL,
            ..Limits::default()
        };
        let pool = Pool::of_count(LimitedResource::Connections, 1);
        let place = Places::new(pool).of_connection(None);
        let tasks = TaskTracker::new();
        Streams::new(&limits, &tasks, None, place, reply_pace)
    }

    /// Starts a stream with a reply of `pieces` pieces, and returns the pieces as they are sent.
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
    async fn slowly_taken_reply_is_sent_completely() {
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
    async fn reply_below_the_minimum_rate_ends_before_its_end() {
        let rate = Rate {
            min: PIECE as u64,
            is_hurried: false,
        };
        let streams = streams_at(Pace::new(rate, CallerMetrics::default()));
        let mut reply = answered(&streams, 20);
        let mut taken = 0;
        while let Some(_piece) = reply.recv().await {
            taken += 1;
            sleep(STALL * 2 / 3).await;
        }
        assert!((2..20).contains(&taken), "{taken}");
    }

    #[tokio::test(start_paused = true)]
    async fn reply_that_is_not_taken_is_dropped_without_a_poll_of_its_body() {
        let streams = streams();
        let mut reply = answered(&streams, 2);
        let begun = Instant::now();
        let piece = reply.recv().await.unwrap();
        assert!(reply.recv().await.is_none());
        assert_eq!(begun.elapsed().as_secs(), STALL.as_secs());
        assert_eq!(streams.given_up().await, GivenUp::Stalled);
        assert_eq!(begun.elapsed().as_secs(), STALL.as_secs());
        drop(piece);
    }

    #[tokio::test(start_paused = true)]
    async fn reply_on_which_the_server_works_for_long_is_not_reset() {
        let streams = streams();
        let (out, mut taken) = mpsc::channel(1);
        streams.execute(async move {
            let slow = futures_util::stream::once(async {
                sleep(STALL * 5).await;
                Ok(Frame::data(Bytes::from_static(b"{}")))
            });
            let slow = http_body_util::StreamBody::new(slow).boxed_unsync();
            let mut body = watch(http::Response::new(slow)).into_body();
            while let Some(Ok(frame)) = body.frame().await {
                out.send(frame.into_data().unwrap()).await.ok();
            }
        });
        assert_eq!(taken.recv().await.unwrap(), "{}");
    }

    #[tokio::test(start_paused = true)]
    async fn connection_is_kept_while_the_server_works_and_for_the_idle_timeout() {
        let streams = streams();
        let (done, work) = oneshot::channel::<()>();
        streams.execute(work);
        let long = Limits::default().head_timeout * 10;
        timeout(long, streams.given_up()).await.unwrap_err();
        done.send(()).unwrap();
        let begun = Instant::now();
        assert_eq!(streams.given_up().await, GivenUp::Stalled);
        assert_eq!(begun.elapsed(), Limits::default().head_timeout);
    }
}
