//! How a connection ends when the server stops.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;

use super::http2::Streams;

// About one round trip. Until the client has read the notice that the connection ends, its next
// request may be on the way, and that request would be lost without a reply. The time must not be
// much longer: some clients read nothing until they send that request, and each of them delays the
// stop of the server by this time.
/// Maximum time in which the client of an idle HTTP/2 connection may acknowledge that the
/// connection ends.
const GOODBYE: Duration = Duration::from_millis(250);

/// Waits for the end of a connection after its graceful shutdown has begun. `streams` is `None` for
/// HTTP/1. An idle HTTP/1 connection ends at once. The client of an HTTP/2 connection first has to
/// acknowledge the end, once its requests have ended.
pub(super) async fn ended<C>(
    mut connection: Pin<Box<C>>,
    streams: Option<&Streams>,
) -> hyper::Result<()>
where
    C: Future<Output = hyper::Result<()>>,
{
    let Some(streams) = streams else {
        // Not limited here: the drain of all connections has its own timeout.
        return connection.await;
    };
    loop {
        let was_idle = streams.are_idle();
        match timeout(GOODBYE, connection.as_mut()).await {
            Ok(ended) => return ended,
            // The client has neither acknowledged nor sent a request in time.
            Err(_) if was_idle && streams.are_idle() => return Ok(()),
            // Its requests are running, or have just ended, or one has arrived in the meantime.
            Err(_) => {}
        }
    }
}
