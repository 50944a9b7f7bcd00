//! How a connection ends when the server stops.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;

use super::http2::Streams;

// As long as an ordinary round trip: until the client has read the farewell, its next request may be
// on the way, and would be lost without a reply. It must not be much longer: some clients read
// nothing until they send that request, and each of them delays the end of the server by it.
/// Maximum time in which the client of an idle HTTP/2 connection may acknowledge that the
/// connection ends.
const GOODBYE: Duration = Duration::from_millis(250);

/// Waits for the end of a connection whose graceful shutdown has begun. `streams` are those of
/// HTTP/2, whose client has to acknowledge; over HTTP/1 an idle connection ends at once.
pub(super) async fn ended<C>(
    mut connection: Pin<Box<C>>,
    streams: Option<&Streams>,
) -> hyper::Result<()>
where
    C: Future<Output = hyper::Result<()>>,
{
    let are_idle = || streams.is_some_and(Streams::are_idle);
    if are_idle() {
        match timeout(GOODBYE, connection.as_mut()).await {
            Ok(ended) => return ended,
            Err(_) if are_idle() => return Ok(()),
            // A request has come meanwhile.
            Err(_) => {}
        }
    }
    // Without a timeout of its own: the drain of all connections limits the wait.
    connection.await
}
