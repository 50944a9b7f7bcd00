//! Looking into media, on threads that may block.

use std::io;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use windlass_server::handler::{BlockingMedia, MediaSource, Rejection};

/// How many looks are taken at a time: it bounds the memory that they take together.
static LOOKS: Semaphore = Semaphore::const_new(8);

/// How long a look waits for others to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `inspect` over the media.
///
/// # Errors
/// [`Rejection::Busy`] when too many looks went on for too long, and whatever `inspect` refuses.
pub(crate) async fn inspect<T: Send + 'static>(
    source: &MediaSource,
    inspect: impl FnOnce(BlockingMedia) -> Result<T, Rejection> + Send + 'static,
) -> Result<T, Rejection> {
    let permit = timeout(PATIENCE, LOOKS.acquire()).await;
    let permit = permit.map_err(|_| Rejection::Busy)?;
    let media = source.blocking();
    // The permit goes along: a request that is dropped leaves its look running.
    let looked = spawn_blocking(move || {
        let _permit = permit;
        inspect(media)
    });
    looked.await.map_err(|_| Rejection::Busy)?
}

/// What a failed read is to the client: the store's trouble, or a media that is not what it seems.
pub(crate) fn refusal(error: io::Error) -> Rejection {
    match error.downcast::<Rejection>() {
        Ok(rejection) => rejection,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => invalid("it is cut off"),
        Err(error) => invalid(error.to_string()),
    }
}

/// A media that is not acceptable.
pub(crate) fn invalid(problem: impl Into<String>) -> Rejection {
    Rejection::InvalidMedia {
        problem: problem.into(),
    }
}
