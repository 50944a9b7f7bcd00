//! Resumable downloads.
//!
//! The *target* is the file that the caller names. Media is received into `TARGET.part` (the
//! *part*). `TARGET.part.json` (the *sidecar*) identifies the media and the bytes received so far.
//! A download that broke, in this process or in an earlier one, continues with `Range` and
//! `If-Range` (RFC 9110, 13.1.5 and 14.2) if the server stated a strong `ETag`. The part gets the
//! name of the target when the media is complete and has the size, the CRC32C and the MD5 that were
//! stated, if any.
//!
//! Not supported: several connections for one download, and targets that are not files.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use futures_util::StreamExt as _;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, IF_RANGE, LOCATION, RANGE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::time::{Instant, sleep};
use url::Url;
use windlass_digest::{Crc32c, Md5};
use windlass_proto::backoff::{Backoff, Schedule};
use windlass_proto::transfer::ErrorReply;

use crate::progress::RateLimit;
use crate::random;
use crate::session_uri::Redacted;
use crate::token::{TokenError, TokenSource};
use crate::transport::{Body, Incoming, Request, Transport, TransportError};
use partial::Partial;
use response::{AttemptError, Response};

mod partial;
mod response;
#[cfg(test)]
mod tests;

/// Maximum number of consecutive redirections.
const MAX_REDIRECTIONS: usize = 5;

/// Maximum `Retry-After` that is waited for. The download fails at once if a server states more.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// New bytes that are progress, after which the attempts are counted from one again. Fewer are not,
/// so that a server which sends next to nothing is given up in the end.
const PROGRESS: u64 = 64 << 10;

/// Bytes per second that they must have on average, waits included, to be progress.
const SLOWEST: u64 = 1 << 10;

/// The description of a download: URL, file and options.
///
/// `Debug` hides the query of the URL, which may contain credentials.
#[derive(Clone)]
pub struct Download {
    url: Url,
    target: PathBuf,
    overwrite: bool,
    expected: Option<Crc32c>,
    schedule: Schedule,
    rate: Option<RateLimit>,
}

/// A snapshot of a download's progress.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DownloadProgress {
    /// Number of bytes received, including the bytes of earlier runs that this run continues.
    pub received: u64,
    /// Size of the media in bytes, if the server states it.
    pub total: Option<u64>,
    /// Length of the wait that begins now, after an attempt that failed; `None` while bytes are
    /// received.
    pub waiting: Option<Duration>,
    /// Why the attempt failed, in a few words, while it waits.
    pub cause: Option<String>,
}

/// The result of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Downloaded {
    /// Size of the media in bytes.
    pub size: u64,
    /// CRC32C of the received media.
    pub crc32c: Crc32c,
    /// Whether the server or the caller stated a CRC32C and it is equal.
    pub verified: bool,
    /// Whether the server stated an MD5 and it is equal.
    pub md5_verified: bool,
}

impl Download {
    /// Describes a download of `url` to the file `target`. The file must not exist, unless
    /// [`overwrite`](Self::overwrite) permits it. The bytes are received into a file of the same
    /// name with the suffix `.part`.
    ///
    /// A process that is killed in the moment in which it begins a download may leave a small file
    /// in the same directory. Its name begins with `.tmp`. It can be removed.
    pub fn new(url: Url, target: impl Into<PathBuf>) -> Self {
        Self {
            url,
            target: target.into(),
            overwrite: false,
            expected: None,
            schedule: Schedule::default(),
            rate: None,
        }
    }

    /// Sets whether existing files are replaced. Default: false.
    ///
    /// The target is replaced when the media is complete. Files with the names `TARGET.part` and
    /// `TARGET.part.json` that another program, or a download of another URL, wrote are replaced
    /// when a response with media arrives. Links and directories of these names are never replaced.
    #[must_use]
    pub fn overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Sets the CRC32C that the media must have, for instance the `crc32c` in its resource, the
    /// JSON object with which the server describes it.
    ///
    /// In any case, the media must have the digests in the headers of the response: CRC32C and MD5
    /// in `X-Goog-Hash`, or without them the MD5 in `Content-MD5`. Malformed headers are ignored.
    /// If the server stores the media in gzip and decodes it for the download, all digests are
    /// ignored, because they are digests of the encoded bytes.
    #[must_use]
    pub fn expect_crc32c(mut self, expected: Crc32c) -> Self {
        self.expected = Some(expected);
        self
    }

    /// Sets the waits between attempts. By default a download fails after six attempts without
    /// progress; the waits between them last about half a minute in all.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Limits the rate at which media is received. Default: no limit.
    #[must_use]
    pub fn rate_limit(mut self, limit: RateLimit) -> Self {
        self.rate = Some(limit);
        self
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Runs the download. The token is sent only to the origin of the URL, and not to other origins
    /// to which the server redirects.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future interrupts the download. A later run continues it if the server stated a
    /// strong `ETag`. It receives bytes again that the sidecar does not cover, at most a few MiB.
    pub(crate) async fn run(
        &self,
        transport: &dyn Transport,
        token: Option<&TokenSource>,
        progress: impl Fn(DownloadProgress) + Send + Sync,
    ) -> Result<Downloaded, DownloadError> {
        let partial = Partial::open(&self.target, &self.url, self.overwrite).await?;
        let run = Run {
            download: self,
            transport,
            token,
            can_refresh: token.is_some(),
            // An earlier run has reached it.
            is_known_host: partial.received() > 0,
            partial,
            continues: false,
            waited: Duration::ZERO,
            progress: &progress,
        };
        run.execute().await
    }
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download")
            .field("url", &format_args!("{}", Redacted(&self.url)))
            .field("target", &self.target)
            .field("overwrite", &self.overwrite)
            .field("expected", &self.expected)
            .field("schedule", &self.schedule)
            .field("rate", &self.rate)
            .finish()
    }
}

/// One run of a download.
struct Run<'run> {
    download: &'run Download,
    transport: &'run dyn Transport,
    token: Option<&'run TokenSource>,
    /// Whether the token may be refreshed after a 401. A refresh clears this, so that a second 401
    /// in a row is final. A response with media sets it.
    can_refresh: bool,
    partial: Partial,
    /// Whether the attempt continues where the earlier one ended.
    continues: bool,
    /// Whether the server's address is known to be right: something was reached there.
    is_known_host: bool,
    /// How long it has waited since the last progress: for the server, and between attempts.
    waited: Duration,
    progress: &'run (dyn Fn(DownloadProgress) + Send + Sync),
}

impl Run<'_> {
    /// Runs the download to its end: all attempts, and then the rename to the target.
    async fn execute(mut self) -> Result<Downloaded, DownloadError> {
        match self.run_with_retries().await {
            Ok(()) => self.partial.finish(self.download.expected).await,
            Err(error) => {
                self.partial.abandon().await;
                Err(error)
            }
        }
    }

    async fn run_with_retries(&mut self) -> Result<(), DownloadError> {
        let mut backoff = Backoff::new(self.download.schedule);
        let mut furthest = self.partial.received();
        // Bytes that count since the last progress.
        let mut gained = 0;
        loop {
            let before = self.partial.received();
            self.continues = false;
            let (error, retry_after) = match self.attempt().await {
                Ok(()) => return Ok(()),
                Err(AttemptError::Permanent(error)) => return Err(error),
                // A wrong name or port stays wrong. A name that was right may be unknown for a
                // while, and something else may reply while a server or a proxy restarts.
                Err(AttemptError::Transient { error, .. }) if !self.knows_host(&error) => {
                    return Err(error);
                }
                Err(AttemptError::Transient { error, retry_after }) => (error, retry_after),
            };
            let received = self.partial.received();
            // An attempt that starts at the first byte again may break off anywhere, so only bytes
            // beyond the furthest one so far are progress.
            gained += if self.continues {
                received.saturating_sub(before)
            } else {
                received.saturating_sub(furthest)
            };
            if gained >= PROGRESS.max(self.waited.as_secs() * SLOWEST) {
                backoff.reset();
                (gained, self.waited) = (0, Duration::ZERO);
            }
            furthest = furthest.max(received);
            let requested_wait = retry_after.unwrap_or_default();
            let wait = match backoff.next(random()) {
                Some(wait) if requested_wait <= MAX_RETRY_AFTER => wait.max(requested_wait),
                _ => return Err(error),
            };
            tracing::debug!(%error, "the download broke");
            self.report(Some((wait, &error)));
            sleep(wait).await;
            self.waited += wait;
        }
    }

    /// Sends one request and handles its response.
    async fn attempt(&mut self) -> Result<(), AttemptError> {
        let began = Instant::now();
        let opened = self.open().await;
        self.waited += began.elapsed();
        let incoming = opened?;
        match Response::of(&incoming, &self.partial.state()) {
            Response::Full(media_headers) => {
                let end = media_headers.size;
                self.partial.begin(media_headers).await?;
                self.receive(incoming, end).await
            }
            Response::Continuation { end, total } => {
                self.continues = true;
                self.partial.set_total(total);
                self.receive(incoming, Some(end)).await
            }
            Response::Complete => Ok(()),
            Response::NotAContinuation => {
                self.partial.request_full();
                Err(AttemptError::transient(DownloadError::Changed))
            }
            Response::NotTheMedia => Err(AttemptError::transient(DownloadError::NotTheMedia {
                path: self.partial.path().to_owned(),
            })),
            Response::Encoded(encoding) => Err(DownloadError::Encoded { encoding }.into()),
            Response::Error => Err(response::error_reply(incoming).await),
        }
    }

    /// Sends the request and follows redirections. If the token is refused, refreshes it once.
    async fn open(&mut self) -> Result<Incoming, AttemptError> {
        let mut url = self.download.url.clone();
        // A request with a refreshed token counts like a redirection.
        for _ in 0..=MAX_REDIRECTIONS {
            let incoming = self.transport.open(self.request(&url).await?).await?;
            match incoming.status.as_u16() {
                301 | 302 | 303 | 307 | 308 => url = redirected(&url, &incoming.headers)?,
                401 => {
                    if !self.refresh_for(&url).await? {
                        return Ok(incoming);
                    }
                }
                _ => return Ok(incoming),
            }
        }
        Err(DownloadError::TooManyRedirections.into())
    }

    async fn request(&self, url: &Url) -> Result<Request, DownloadError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Some(etag) = self.partial.resume_etag() {
            let range = format!("bytes={}-", self.partial.received());
            let range = HeaderValue::try_from(range).expect("digits are visible");
            headers.insert(RANGE, range);
            headers.insert(IF_RANGE, etag.clone());
        }
        if let Some(token) = self.token_for(url) {
            headers.insert(AUTHORIZATION, token.token().await?);
        }
        Ok(Request {
            method: Method::GET,
            url: url.clone(),
            headers,
            body: Body::Empty,
            may_receive_credentials: self.is_own_origin(url),
        })
    }

    fn token_for(&self, url: &Url) -> Option<&TokenSource> {
        self.token.filter(|_| self.is_own_origin(url))
    }

    /// Whether the user named the origin of `url`, so that it may receive credentials.
    fn is_own_origin(&self, url: &Url) -> bool {
        url.origin() == self.download.url.origin()
    }

    /// Refreshes the token if it is sent to `url` and may be refreshed. Returns whether there is a
    /// new token.
    async fn refresh_for(&mut self, url: &Url) -> Result<bool, DownloadError> {
        match self.token_for(url) {
            Some(token) if self.can_refresh => {
                let refreshed = token.refresh().await?;
                self.can_refresh = false;
                Ok(refreshed)
            }
            _ => Ok(false),
        }
    }

    /// Receives a body that ends at offset `end` of the media, if that is known.
    async fn receive(&mut self, incoming: Incoming, end: Option<u64>) -> Result<(), AttemptError> {
        self.can_refresh = self.token.is_some();
        let position = self.partial.position().await?;
        let mut body = incoming.body;
        let outcome = loop {
            self.report(None);
            let began = Instant::now();
            let piece = body.next().await;
            self.waited += began.elapsed();
            match piece {
                Some(Ok(piece)) if self.exceeds(end, &piece) => {
                    // The body is longer than the range or the length that the head states. The
                    // start that it states may be wrong as well, so none of these bytes is kept.
                    self.partial.rewind(&position).await?;
                    self.partial.request_full();
                    break Err(AttemptError::transient(DownloadError::TooLong));
                }
                Some(Ok(piece)) => {
                    self.throttle(piece.len()).await;
                    self.partial.write(piece).await?;
                }
                Some(Err(error)) => break Err(error.into()),
                None => break self.check_complete(end),
            }
        };
        // Also after an error: a later attempt continues after the received bytes.
        self.partial.flush().await?;
        outcome
    }

    fn exceeds(&self, end: Option<u64>, piece: &[u8]) -> bool {
        let received = self.partial.received() + piece.len() as u64;
        end.is_some_and(|end| received > end)
    }

    async fn throttle(&self, len: usize) {
        if let Some(limit) = &self.download.rate {
            sleep(limit.reserve(len)).await;
        }
    }

    /// Checks at the end of a body that no bytes are missing. `end` is the offset at which it ends
    /// according to the response's head. A server may send fewer bytes than requested, and fewer
    /// than it states; a retry then requests the rest.
    fn check_complete(&self, end: Option<u64>) -> Result<(), AttemptError> {
        let received = self.partial.received();
        match self.partial.total().or(end) {
            Some(expected) if received < expected => {
                Err(AttemptError::transient(DownloadError::Size {
                    expected,
                    received,
                }))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether something was reached at the server's address, also if this was the error.
    fn knows_host(&mut self, error: &DownloadError) -> bool {
        let is_unknown = matches!(
            error.transport_error(),
            Some(TransportError::UnknownHost { .. } | TransportError::NotHttp { .. })
        );
        self.is_known_host = self.is_known_host || !is_unknown;
        self.is_known_host
    }

    fn report(&self, waiting: Option<(Duration, &DownloadError)>) {
        (self.progress)(DownloadProgress {
            received: self.partial.received(),
            total: self.partial.total(),
            waiting: waiting.map(|(wait, _)| wait),
            cause: waiting.map(|(_, error)| error.summary()),
        });
    }
}

/// Returns the URL to which the server redirects. A redirection from HTTPS to HTTP is refused.
fn redirected(url: &Url, headers: &HeaderMap) -> Result<Url, DownloadError> {
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let to = location.and_then(|location| url.join(location).ok());
    match to {
        Some(to) if to.scheme() == "https" => Ok(to),
        Some(to) if to.scheme() == "http" && url.scheme() == "http" => Ok(to),
        _ => Err(DownloadError::BadRedirection),
    }
}

/// Appends a suffix such as `.part` to the name of the target file.
fn with_suffix(target: &Path, suffix: &str) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Why a download failed. No variant shows the query of a URL, which may contain credentials.
///
/// Bytes are received into `TARGET.part`. `TARGET.part.json` holds the data for a later
/// continuation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// The target exists, and [`Download::overwrite`] does not permit to replace it.
    #[error("{} already exists", path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// Another process, or another download of this process, has the same target, or has just
    /// finished with it.
    #[error("another process is writing {}", path.display())]
    InUse {
        /// `TARGET.part`.
        path: PathBuf,
    },
    /// A file is in the way, and [`Download::overwrite`] does not permit to replace it. It is a
    /// `TARGET.part.json` that no download wrote, or a `TARGET.part` with content but without a
    /// `TARGET.part.json` or with an empty one.
    #[error(
        "{} is in the way: nothing shows that a download wrote it; rename it, or permit to overwrite it",
        path.display()
    )]
    UnrelatedFile {
        /// The path. A file there was not changed.
        path: PathBuf,
    },
    /// During the download, `TARGET.part` was removed, renamed or replaced.
    #[error("{} was removed or replaced during the download", path.display())]
    PartReplaced {
        /// `TARGET.part`. A file there was not changed.
        path: PathBuf,
    },
    /// `TARGET.part` belongs to a download of another URL, and [`Download::overwrite`] does not
    /// permit to replace it.
    #[error("{} is in the way: it belongs to a download of another URL", path.display())]
    OtherUrl {
        /// `TARGET.part`. It was not changed.
        path: PathBuf,
    },
    /// The target is a directory or a device, or a link, a directory or another special file has
    /// the name `TARGET.part` or `TARGET.part.json`. It is never replaced.
    #[error("{} is in the way: it is not a regular file", path.display())]
    NotAFile {
        /// The path. Its file was not changed.
        path: PathBuf,
    },
    /// The file `TARGET.part` or `TARGET.part.json` belongs to another user, or has another name as
    /// well (a hard link). It is never used: others could read the media, or change it after it was
    /// checked.
    #[error("{} is in the way: {why}; remove it, or download to another name", path.display())]
    NotOwn {
        /// The path. The file was not changed.
        path: PathBuf,
        /// The reason why the file is not used.
        why: &'static str,
    },
    /// A file cannot be read, written, renamed, removed or synced.
    #[error("{}, or another file of the download, cannot be read or written", path.display())]
    File {
        /// `TARGET.part`, even if the error concerns `TARGET.part.json`, the target or their
        /// directory.
        path: PathBuf,
        /// Cause of the error.
        #[source]
        source: io::Error,
    },
    /// No token is available.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The transport failed: the connection cannot be established, keeps breaking or stalling, or
    /// has an invalid certificate; or the body of a reply with an error exceeds 4 MiB. Holds a
    /// [`TransportError`](crate::transport::TransportError).
    #[error("{0}")]
    Connection(#[source] Box<dyn StdError + Send + Sync>),
    /// The server replied with an error: it refuses the request or is overloaded.
    #[error("the server refused the request: {0}")]
    Refused(Box<ErrorReply>),
    /// The server redirects more than five times in a row. A repetition with a refreshed token
    /// counts like a redirection.
    #[error("the server redirects too often")]
    TooManyRedirections,
    /// A redirection has no valid URL, leads to a URL that is neither HTTP nor HTTPS, or leads from
    /// HTTPS to HTTP.
    #[error("the server redirects to an address that is not followed")]
    BadRedirection,
    /// A response does not continue the bytes received before, presumably because the media has
    /// changed. The next attempt requests the whole media; this error is returned only if no
    /// attempt is left.
    #[error("the response does not continue the bytes received before: the media may have changed")]
    Changed,
    /// Bytes were received before, and the response is neither the same media nor a newer version
    /// of it: it lacks an `ETag`, which the media had, or it is an HTML page, which the media was
    /// not.
    #[error(
        "the response is not the media, but perhaps the login page of a network; {} has the bytes received before",
        path.display()
    )]
    NotTheMedia {
        /// The file with the bytes received so far.
        path: PathBuf,
    },
    /// The media is encoded although no encoding was requested. The stated digests would not match
    /// the received bytes.
    #[error("the server encodes the media ({encoding}) although no encoding was requested")]
    Encoded {
        /// The encoding that the server states.
        encoding: String,
    },
    /// The body of a response is longer than its head states.
    #[error("the server sent more bytes than it announced")]
    TooLong,
    /// The media does not have the stated size: the body ended too early.
    #[error("received {received} bytes instead of {expected}")]
    Size {
        /// Size in bytes that the server states.
        expected: u64,
        /// Number of bytes received.
        received: u64,
    },
    /// The media does not have the stated CRC32C.
    #[error("the media has the CRC32C {received} instead of {expected}")]
    Crc32c {
        /// CRC32C that the server or the caller states.
        expected: Crc32c,
        /// CRC32C of the received bytes.
        received: Crc32c,
    },
    /// The media does not have the stated MD5.
    #[error("the media has the MD5 {received} instead of {expected}")]
    Md5 {
        /// MD5 that the server states.
        expected: Md5,
        /// MD5 of the received bytes.
        received: Md5,
    },
}

impl DownloadError {
    /// Returns the error of the transport that it holds.
    pub(crate) fn transport_error(&self) -> Option<&TransportError> {
        match self {
            Self::Connection(error) => error.downcast_ref(),
            _ => None,
        }
    }

    /// Describes the failure in a few words.
    fn summary(&self) -> String {
        match self.transport_error() {
            Some(error) => error.summary(),
            None => self.to_string(),
        }
    }

    fn connection(error: TransportError) -> Self {
        Self::Connection(error.into())
    }

    /// Returns whether the server replied with an error that may be temporary.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Refused(reply) if reply.is_transient())
    }

    /// Returns the status of the response that the download failed with, if any.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused(reply) => Some(reply.status),
            _ => None,
        }
    }

    /// Returns the `reason` of Google's error object, if the server sent one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Refused(reply) => reply.reason.as_deref(),
            _ => None,
        }
    }
}
