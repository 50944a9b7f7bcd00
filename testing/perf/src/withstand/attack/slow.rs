//! Requests that do not end.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::withstand::client::{UPLOAD, connect};

use super::{Attacker, Attempts, End};

/// The pause between two bytes.
const PAUSE: Duration = Duration::from_secs(1);

/// Begins a head and sends no more.
pub(super) async fn send_head(attacker: Attacker) -> Attempts {
    let begun = format!("POST {UPLOAD} HTTP/1.1\r\nHost: farm.localhost\r\nX-More: ");
    attempt(attacker, begun, None).await
}

/// Sends a whole head, and of the body a byte a second.
pub(super) async fn send_body(attacker: Attacker) -> Attempts {
    let head = format!(
        "POST {UPLOAD} HTTP/1.1\r\nHost: farm.localhost\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\n"
    );
    attempt(attacker, head, Some(b'w')).await
}

/// Sends the beginning of a request on one connection, then `drip` again and again, until the
/// server says or does anything.
async fn attempt(attacker: Attacker, beginning: String, drip: Option<u8>) -> Attempts {
    sleep_until(attacker.begins).await;
    let connected = timeout_at(attacker.end, connect(attacker.from, attacker.server)).await;
    let Ok(Ok(mut stream)) = connected else {
        return Attempts {
            ends: vec![End::Unconnected],
            sent: 0,
        };
    };
    let start = Instant::now();
    let mut sent = 0;
    let request = send(&mut stream, beginning.as_bytes(), drip, &mut sent);
    let end = match timeout_at(attacker.end, request).await {
        Ok(_) => End::Cut(start.elapsed()),
        Err(_) => End::Open,
    };
    Attempts {
        ends: vec![end],
        sent,
    }
}

/// Returns when something comes, or when the connection has ended.
async fn send(
    stream: &mut TcpStream,
    beginning: &[u8],
    drip: Option<u8>,
    sent: &mut u64,
) -> io::Result<()> {
    stream.write_all(beginning).await?;
    *sent += beginning.len() as u64;
    let mut next = Instant::now() + PAUSE;
    loop {
        let mut reply = [0];
        let read = stream.read(&mut reply);
        match drip {
            None => return read.await.map(drop),
            Some(byte) => {
                if let Ok(read) = timeout_at(next, read).await {
                    return read.map(drop);
                }
                stream.write_all(&[byte]).await?;
                *sent += 1;
                next += PAUSE;
            }
        }
    }
}
