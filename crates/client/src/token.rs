//! Bearer tokens (RFC 6750) and their sources.
//!
//! Tokens never appear in `Debug` output, errors or logs.
//!
//! ```
//! use windlass_client::TokenSource;
//!
//! let source = TokenSource::parse("file:/run/secrets/token")?;
//! assert_eq!(format!("{source:?}"), "TokenSource(file:/run/secrets/token)");
//! assert!(TokenSource::parse("ya29.a0AfH6SMB").is_err());
//! # Ok::<(), windlass_client::InvalidTokenSource>(())
//! ```

use std::error::Error as StdError;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, io};

use gcp_auth::TokenProvider;
use http::HeaderValue;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt as _, sink};
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;
use url::Url;

use crate::origin::is_private;
use crate::transport::Transport;

#[cfg(test)]
mod tests;

/// Time limit for the fetch of a token.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum length of a token in bytes.
const MAX_TOKEN_LEN: usize = 64 << 10;

/// Default scope, which Google's own tools use, too.
const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";

/// A source of bearer tokens. Cheap to clone; clones share the token, and concurrent callers share
/// one fetch.
///
/// A token is fetched when it is first needed, within 30 seconds, and kept until a server refuses
/// it (401). Tokens from Google are also fetched again shortly before they expire.
#[derive(Clone)]
pub struct TokenSource(Arc<Inner>);

struct Inner {
    kind: TokenSourceKind,
    /// The token, if it was fetched. Locked during a fetch, so that concurrent callers wait for one
    /// fetch.
    cached: Mutex<Cached>,
    /// Number of completed refreshes. Shows a caller that has waited for the lock whether another
    /// caller refreshed the token in the meantime.
    refreshes: AtomicU64,
}

enum TokenSourceKind {
    Fixed(String),
    Environment(String),
    File(PathBuf),
    Command(String),
    Google(Vec<String>),
}

enum Cached {
    Nothing,
    Token(HeaderValue),
    /// Google's provider, which caches its token and handles the expiry.
    Provider(Arc<dyn TokenProvider>),
}

/// Why no token is available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The text from the source is empty, too long, or has characters that are not allowed in
    /// tokens.
    #[error("{token_source} does not provide a valid token")]
    NotAToken {
        /// The source.
        token_source: String,
    },
    /// The environment variable is not set, or its value is not UTF-8.
    #[error("the environment variable {name} is not set")]
    NotSet {
        /// Name of the variable.
        name: String,
    },
    /// The file cannot be read.
    #[error("the token file {} cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Cause of the error.
        #[source]
        source: io::Error,
    },
    /// The command cannot be run.
    #[error("the token command cannot be run")]
    Command(#[source] io::Error),
    /// The command failed.
    #[error("the token command failed: {message}")]
    CommandFailed {
        /// First line of the command's standard error, or its exit status.
        message: String,
    },
    /// The source provided no token within the time limit.
    #[error("{token_source} provided no token within {} s", limit.as_secs())]
    Timeout {
        /// The source.
        token_source: String,
        /// The time limit.
        limit: Duration,
    },
    /// The connection to a server on another machine would not be encrypted, and
    /// [`ClientBuilder::allow_plain_http`](crate::ClientBuilder::allow_plain_http) is not set.
    /// Nothing was sent.
    #[error("the token is not sent to {host}: the connection is not encrypted")]
    NotEncrypted {
        /// The server's host.
        host: String,
    },
    /// Google's application default credentials provide no token.
    #[error("Google's application default credentials provide no token")]
    Google(#[source] Box<dyn StdError + Send + Sync>),
}

/// A text that does not name a token source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTokenSource {
    /// The text does not name a kind of source. It may be a token itself, so it is not shown.
    #[error(
        "a token is given by its source: env:NAME, file:PATH, cmd:COMMAND, google or literal:TOKEN"
    )]
    Bare,
    /// The text ends after the colon.
    #[error("nothing follows \"{kind}:\"")]
    Empty {
        /// The text before the colon.
        kind: &'static str,
    },
    /// The token has characters that are not allowed in tokens.
    #[error("the token after \"literal:\" has characters that are not allowed in tokens")]
    NotAToken,
}

impl TokenSource {
    /// Uses a fixed token. It cannot be refreshed when a server refuses it.
    ///
    /// # Errors
    ///
    /// The token is empty or has characters other than visible ASCII characters.
    pub fn fixed(token: impl Into<String>) -> Result<Self, TokenError> {
        let token = token.into();
        let is_token = bearer(&token).is_some();
        let kind = TokenSourceKind::Fixed(token);
        if is_token {
            Ok(Self::of(kind))
        } else {
            Err(kind.not_a_token())
        }
    }

    /// Reads the token from a file, which contains nothing else except white space around it.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::of(TokenSourceKind::File(path.into()))
    }

    /// Reads the token from an environment variable. It cannot be refreshed when a server refuses
    /// it.
    pub fn environment(name: impl Into<String>) -> Self {
        Self::of(TokenSourceKind::Environment(name.into()))
    }

    /// Runs a command with `sh -c` and uses its standard output as the token, for instance `gcloud
    /// auth print-access-token`. The command has no standard input, and is killed after 30 seconds.
    pub fn command(command: impl Into<String>) -> Self {
        Self::of(TokenSourceKind::Command(command.into()))
    }

    /// Uses Google's application default credentials for these scopes. They are the first of these
    /// that exists when a token is needed: the service account in the file that
    /// `GOOGLE_APPLICATION_CREDENTIALS` names, the user of `gcloud auth application-default login`,
    /// the machine's own account, the user of `gcloud auth login`.
    pub fn google(scopes: &[&str]) -> Self {
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        Self::of(TokenSourceKind::Google(scopes))
    }

    /// Parses the form of a source that is used on a command line. Nothing is read or run yet.
    ///
    /// | text | source |
    /// |---|---|
    /// | `file:PATH` | [`file`](Self::file) |
    /// | `env:NAME` | [`environment`](Self::environment) |
    /// | `cmd:COMMAND`, `command:COMMAND` | [`command`](Self::command) |
    /// | `google`, `google:SCOPE,SCOPE` | [`google`](Self::google), for all of Google Cloud unless scopes are given |
    /// | `literal:TOKEN` | [`fixed`](Self::fixed) |
    ///
    /// # Errors
    ///
    /// The text has none of these forms. The error does not show it, because it may be a token.
    pub fn parse(text: &str) -> Result<Self, InvalidTokenSource> {
        if text == "google" {
            return Ok(Self::google(&[CLOUD_PLATFORM]));
        }
        let (kind, rest) = text.split_once(':').ok_or(InvalidTokenSource::Bare)?;
        let given = |kind| match rest {
            "" => Err(InvalidTokenSource::Empty { kind }),
            rest => Ok(rest),
        };
        match kind {
            "file" => Ok(Self::file(given("file")?)),
            "env" => Ok(Self::environment(given("env")?)),
            "command" | "cmd" => Ok(Self::command(given("cmd")?)),
            "google" => {
                let scopes: Vec<_> = given("google")?.split(',').map(str::trim).collect();
                Ok(Self::google(&scopes))
            }
            "literal" => {
                let token = given("literal")?;
                Self::fixed(token).map_err(|_| InvalidTokenSource::NotAToken)
            }
            _ => Err(InvalidTokenSource::Bare),
        }
    }

    fn of(kind: TokenSourceKind) -> Self {
        Self(Arc::new(Inner {
            kind,
            cached: Mutex::new(Cached::Nothing),
            refreshes: AtomicU64::new(0),
        }))
    }

    /// Returns the value of the `Authorization` header, marked as sensitive.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills a running token command.
    pub(crate) async fn token(&self) -> Result<HeaderValue, TokenError> {
        let mut cached = self.0.cached.lock().await;
        self.0.kind.cached_or_fetched(&mut cached).await
    }

    /// Returns whether a refresh can return another token.
    pub(crate) fn can_refresh(&self) -> bool {
        !matches!(
            self.0.kind,
            TokenSourceKind::Fixed(_) | TokenSourceKind::Environment(_)
        )
    }

    /// Fetches a new token after a server has refused the current one. Returns `false`, and fetches
    /// nothing, if the source always returns the same token. Concurrent callers share one fetch.
    ///
    /// # Cancel safety
    ///
    /// The same as of [`token`](Self::token).
    pub(crate) async fn refresh(&self) -> Result<bool, TokenError> {
        if !self.can_refresh() {
            return Ok(false);
        }
        // Loaded before the lock is taken: if the count is different under the lock, another caller
        // has refreshed the token in the meantime. `Acquire` pairs with the `Release` below.
        let before = self.0.refreshes.load(Ordering::Acquire);
        let mut cached = self.0.cached.lock().await;
        if self.0.refreshes.load(Ordering::Acquire) == before {
            *cached = Cached::Nothing;
            self.0.kind.cached_or_fetched(&mut cached).await?;
            self.0.refreshes.fetch_add(1, Ordering::Release);
        }
        Ok(true)
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenSource({})", self.0.kind)
    }
}

impl TokenSourceKind {
    /// Returns the cached token, or fetches one and caches it.
    async fn cached_or_fetched(&self, cached: &mut Cached) -> Result<HeaderValue, TokenError> {
        if let Cached::Token(token) = cached {
            return Ok(token.clone());
        }
        let token = timeout(FETCH_TIMEOUT, self.fetch(cached)).await;
        let token = token.map_err(|_| TokenError::Timeout {
            token_source: self.to_string(),
            limit: FETCH_TIMEOUT,
        })??;
        let bearer = bearer(&token).ok_or_else(|| self.not_a_token())?;
        if matches!(cached, Cached::Nothing) {
            *cached = Cached::Token(bearer.clone());
        }
        Ok(bearer)
    }

    fn not_a_token(&self) -> TokenError {
        TokenError::NotAToken {
            token_source: self.to_string(),
        }
    }

    async fn fetch(&self, cached: &mut Cached) -> Result<String, TokenError> {
        match self {
            Self::Fixed(token) => Ok(token.clone()),
            Self::Environment(name) => {
                std::env::var(name).map_err(|_| TokenError::NotSet { name: name.clone() })
            }
            Self::File(path) => read(path).await.map_err(|source| TokenError::File {
                path: path.clone(),
                source,
            }),
            Self::Command(command) => command_output(command).await,
            Self::Google(scopes) => google(scopes, cached)
                .await
                .map_err(|error| TokenError::Google(error.into())),
        }
    }
}

/// Shows the kind of the source. Hides tokens, and also commands, because their arguments may be
/// secret.
impl fmt::Display for TokenSourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(_) => f.write_str("literal"),
            Self::Environment(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Command(_) => f.write_str("command"),
            Self::Google(_) => f.write_str("google"),
        }
    }
}

/// Returns the value of the `Authorization` header for a token; `None` if the text is not a token.
/// Surrounding white space is ignored.
fn bearer(token: &str) -> Option<HeaderValue> {
    let token = token.trim();
    if token.is_empty()
        || token.len() > MAX_TOKEN_LEN
        || !token.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return None;
    }
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

async fn read(path: &PathBuf) -> io::Result<String> {
    read_short(File::open(path).await?).await
}

/// Reads to the end, so that the writer is never blocked. Returns at most one byte more than the
/// maximum length of a token, so that a longer text is refused as a token.
async fn read_short(mut reader: impl AsyncRead + Unpin) -> io::Result<String> {
    let mut text = Vec::new();
    let limit = MAX_TOKEN_LEN as u64 + 1;
    (&mut reader).take(limit).read_to_end(&mut text).await?;
    tokio::io::copy(&mut reader, &mut sink()).await?;
    // A text that is not UTF-8 gets replacement characters and is then refused as a token.
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns a token of Google's application default credentials. Keeps the provider in `cached`.
async fn google(scopes: &[String], cached: &mut Cached) -> Result<String, gcp_auth::Error> {
    let provider = match cached {
        Cached::Provider(provider) => Arc::clone(provider),
        _ => gcp_auth::provider().await?,
    };
    *cached = Cached::Provider(Arc::clone(&provider));
    let scopes: Vec<_> = scopes.iter().map(String::as_str).collect();
    let token = provider.token(&scopes).await?;
    Ok(token.as_str().to_owned())
}

/// Maximum length of a command's error message in characters.
const MAX_MESSAGE_LEN: usize = 200;

/// Runs a command and returns its standard output. Dropping the future kills the command, but not
/// the processes that it has started in the background.
async fn command_output(command: &str) -> Result<String, TokenError> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(TokenError::Command)?;
    let stdout = child.stdout.take().expect("it is piped");
    let stderr = child.stderr.take().expect("it is piped");
    let (token, stderr_text) =
        tokio::try_join!(read_short(stdout), read_short(stderr)).map_err(TokenError::Command)?;
    let status = child.wait().await.map_err(TokenError::Command)?;
    if status.success() {
        return Ok(token);
    }
    let message = first_line(&stderr_text).unwrap_or_else(|| status.to_string());
    Err(TokenError::CommandFailed { message })
}

/// Returns the first line that is not blank, without control characters.
fn first_line(stderr_text: &str) -> Option<String> {
    let line = stderr_text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())?;
    let shown = line.chars().filter(|char| !char.is_control());
    Some(shown.take(MAX_MESSAGE_LEN).collect())
}

/// A transport, and the source of the tokens for its requests. It adds no token to a request by
/// itself: the caller asks for one where a token may be sent.
pub(crate) struct TransportAndToken {
    transport: Arc<dyn Transport>,
    token: Option<TokenSource>,
    /// Whether tokens may be sent where others can read them.
    allows_plain_http: bool,
}

impl TransportAndToken {
    pub(crate) fn new(
        transport: Arc<dyn Transport>,
        token: Option<TokenSource>,
        allows_plain_http: bool,
    ) -> Self {
        Self {
            transport,
            token,
            allows_plain_http,
        }
    }

    pub(crate) fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    /// Returns the source of the tokens for `url`, if there is one. The caller has checked that the
    /// user named its origin.
    pub(crate) fn token_for(&self, url: &Url) -> Result<Option<&TokenSource>, TokenError> {
        match &self.token {
            Some(_) if !self.allows_plain_http && !is_private(url) => {
                let host = url.host_str().unwrap_or_default().to_owned();
                Err(TokenError::NotEncrypted { host })
            }
            token => Ok(token.as_ref()),
        }
    }

    /// Returns whether a refresh can return another token than the refused one.
    pub(crate) fn can_refresh(&self) -> bool {
        self.token.as_ref().is_some_and(TokenSource::can_refresh)
    }

    /// Returns the value of the `Authorization` header for a request to `url`; `None` if there is
    /// no token source. The caller has checked that the user named the origin of `url`.
    pub(crate) async fn authorization(&self, url: &Url) -> Result<Option<HeaderValue>, TokenError> {
        match self.token_for(url)? {
            Some(token) => Ok(Some(token.token().await?)),
            None => Ok(None),
        }
    }

    /// Returns the value of the `Authorization` header for a request to `url`; `None` if there is
    /// no token source, or if `url` has another origin than `caller_url`, the URL that the caller
    /// set.
    pub(crate) async fn authorization_for(
        &self,
        caller_url: &Url,
        url: &Url,
    ) -> Result<Option<HeaderValue>, TokenError> {
        if caller_url.origin() == url.origin() {
            self.authorization(url).await
        } else {
            Ok(None)
        }
    }

    /// Fetches a new token, if there is a token source.
    pub(crate) async fn refresh(&self) -> Result<(), TokenError> {
        if let Some(token) = &self.token {
            token.refresh().await?;
        }
        Ok(())
    }
}

impl fmt::Debug for TransportAndToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportAndToken")
            .field("transport", &self.transport)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
