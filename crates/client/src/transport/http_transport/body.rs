//! The body of a request as the connection reads it, and the detection of stalled requests.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, sleep_until};

use crate::transport::{MAX_SLICE, Timeouts};

/// Maximum time between two checks of a request for silence.
const MAX_CHECK: Duration = Duration::from_secs(3600);

/// A request's body. Splits it into slices of at most [`MAX_SLICE`] bytes, without a copy, and
/// records in [`RequestProgress`] when the connection takes one.
pub(super) struct OutgoingBody {
    /// In a `Mutex` only because a body must be `Sync` and the stream is not. Never locked.
    stream: Mutex<BoxStream<'static, io::Result<Bytes>>>,
    /// The rest of the last item of `stream`.
    piece: Bytes,
    /// Number of bytes that the connection has not taken yet.
    left: u64,
    progress: Arc<RequestProgress>,
}

impl OutgoingBody {
    /// Wraps a stream of exactly `length` bytes.
    pub(super) fn new(
        stream: BoxStream<'static, io::Result<Bytes>>,
        length: u64,
        progress: Arc<RequestProgress>,
    ) -> Self {
        Self {
            stream: Mutex::new(stream),
            piece: Bytes::new(),
            left: length,
            progress,
        }
    }

    /// Polls the stream for its next item.
    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.progress.advanced(Awaited::Stream);
        let stream = self.stream.get_mut();
        let stream = stream.unwrap_or_else(PoisonError::into_inner);
        let piece = match ready!(stream.poll_next_unpin(cx)) {
            Some(piece) => piece?,
            None => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
        };
        if piece.len() as u64 > self.left {
            let error = io::Error::new(
                io::ErrorKind::InvalidData,
                "the body is longer than its stated length",
            );
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(piece))
    }
}

impl Body for OutgoingBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.progress.is_stopped(cx.waker()) {
            return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        while self.piece.is_empty() {
            match ready!(self.poll_stream(cx)) {
                Ok(piece) => self.piece = piece,
                Err(error) => {
                    let kind = error.kind();
                    self.progress.keep_stream_error(error);
                    return Poll::Ready(Some(Err(kind.into())));
                }
            }
        }
        let len = self.piece.len().min(MAX_SLICE);
        let slice = self.piece.split_to(len);
        self.left -= len as u64;
        self.progress.advanced(if self.left == 0 {
            Awaited::Reply
        } else {
            Awaited::Write
        });
        Poll::Ready(Some(Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The progress of one request: the event that it waits for, and since when. The future of the
/// request and its body share it, because a task of the connection polls the body.
#[derive(Debug)]
pub(super) struct RequestProgress {
    timeouts: Timeouts,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    awaited: Awaited,
    /// When the request began to wait for `awaited`.
    since: Instant,
    /// Whether the request is over, so that the body must end.
    is_stopped: bool,
    /// Wakes the body when the request is over.
    waker: Option<Waker>,
    /// The error with which the stream of the body ended. Kept here, because the HTTP library does
    /// not return it unchanged.
    stream_error: Option<io::Error>,
}

/// The event that a request waits for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Awaited {
    /// A connection is established and asks for the first bytes of the body.
    Connection,
    /// The stream of the body provides the next bytes.
    Stream,
    /// The connection has taken a slice, and asks for the next one.
    Write,
    /// The connection has taken the whole request, and the reply begins.
    Reply,
    /// A connection is established, and the reply begins. For a request without a body: the
    /// connection never asks for one, so the end of the first step is not visible.
    ConnectionAndReply,
}

impl RequestProgress {
    pub(super) fn new(timeouts: Timeouts, has_body: bool) -> Self {
        let awaited = if has_body {
            Awaited::Connection
        } else {
            Awaited::ConnectionAndReply
        };
        let state = State {
            awaited,
            since: Instant::now(),
            is_stopped: false,
            waker: None,
            stream_error: None,
        };
        Self {
            timeouts,
            state: Mutex::new(state),
        }
    }

    /// Records progress and the next awaited event.
    pub(super) fn advanced(&self, awaited: Awaited) {
        let mut state = self.lock();
        state.awaited = awaited;
        state.since = Instant::now();
    }

    pub(super) fn keep_stream_error(&self, error: io::Error) {
        self.lock().stream_error = Some(error);
    }

    pub(super) fn take_stream_error(&self) -> Option<io::Error> {
        self.lock().stream_error.take()
    }

    /// Returns whether the request is over. If not, `waker` is woken when it ends.
    pub(super) fn is_stopped(&self, waker: &Waker) -> bool {
        let mut state = self.lock();
        match &mut state.waker {
            Some(kept) => kept.clone_from(waker),
            None => state.waker = Some(waker.clone()),
        }
        state.is_stopped
    }

    fn stop(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Completes when the awaited event has exceeded its time limit, and returns that limit.
    pub(super) async fn silence(&self) -> Duration {
        loop {
            let (limit, since) = {
                let state = self.lock();
                (self.limit(state.awaited), state.since)
            };
            let now = Instant::now();
            // The awaited event may change during the sleep. Every limit is at least as long as the
            // sleep, so the new one cannot be exceeded before the next check.
            let shortest = self.timeouts.idle.min(self.timeouts.reply);
            let until_check = shortest.min(MAX_CHECK);
            let wake_at = match limit {
                // The elapsed time is compared: a limit may be too long to be added to a time.
                Some(limit) => match limit.checked_sub(now.duration_since(since)) {
                    None | Some(Duration::ZERO) => return limit,
                    Some(rest) => now + rest.min(until_check),
                },
                None => now + until_check,
            };
            sleep_until(wake_at).await;
        }
    }

    /// Returns the time limit of an event.
    fn limit(&self, awaited: Awaited) -> Option<Duration> {
        let Timeouts {
            connect,
            idle,
            reply,
        } = self.timeouts;
        match awaited {
            Awaited::Connection => Some(connect.saturating_add(idle)),
            Awaited::Stream => None,
            Awaited::Write => Some(idle),
            Awaited::Reply => Some(reply),
            Awaited::ConnectionAndReply => Some(connect.saturating_add(reply)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops the body of a request when dropped. The request is then over: its reply was read, or the
/// caller no longer waits for it.
#[derive(Debug)]
pub(super) struct StopOnDrop(pub(super) Arc<RequestProgress>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A connection may take 10 s, a piece 2 s, a reply 5 s.
    fn progress(has_body: bool) -> RequestProgress {
        let timeouts = Timeouts {
            connect: SECOND * 10,
            idle: SECOND * 2,
            reply: SECOND * 5,
        };
        RequestProgress::new(timeouts, has_body)
    }

    /// Returns how long the wait took after these steps, and the exceeded limit.
    async fn silent_after(
        progress: &RequestProgress,
        steps: &[(Duration, Awaited)],
    ) -> (Duration, Duration) {
        let begun = Instant::now();
        let moves = async {
            for (pause, awaited) in steps {
                tokio::time::sleep(*pause).await;
                progress.advanced(*awaited);
            }
            std::future::pending::<()>().await;
        };
        let limit = tokio::select! {
            limit = progress.silence() => limit,
            () = moves => unreachable!("it is pending"),
        };
        (begun.elapsed(), limit)
    }

    #[tokio::test(start_paused = true)]
    async fn connection_with_each_piece_in_time_is_not_silent() {
        let pieces = [(SECOND * 3 / 2, Awaited::Write); 100];
        let silent = silent_after(&progress(true), &pieces).await;
        assert_eq!(silent, (SECOND * 152, SECOND * 2));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_source_does_not_time_out() {
        let steps = [(SECOND, Awaited::Stream), (SECOND * 3600, Awaited::Write)];
        let silent = silent_after(&progress(true), &steps).await;
        assert_eq!(silent, (SECOND * 3603, SECOND * 2));
    }

    #[tokio::test(start_paused = true)]
    async fn reply_has_a_longer_limit_than_a_piece() {
        let silent = silent_after(&progress(true), &[(SECOND, Awaited::Reply)]).await;
        assert_eq!(silent, (SECOND * 6, SECOND * 5));
    }

    #[tokio::test(start_paused = true)]
    async fn limits_may_be_as_long_as_a_duration_can_be() {
        let timeouts = Timeouts {
            connect: Duration::MAX,
            idle: Duration::MAX,
            reply: Duration::MAX,
        };
        for has_body in [false, true] {
            let progress = RequestProgress::new(timeouts, has_body);
            let silence = tokio::time::timeout(SECOND * 100_000, progress.silence());
            assert!(silence.await.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connecting_has_its_own_limit() {
        let silent = silent_after(&progress(true), &[]).await;
        assert_eq!(silent, (SECOND * 12, SECOND * 12));
        let silent = silent_after(&progress(false), &[]).await;
        assert_eq!(silent, (SECOND * 15, SECOND * 15));
    }
}
