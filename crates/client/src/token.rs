//! Bearer tokens (RFC 6750), and where they come from.
//!
//! What is absent: tokens in `Debug`, in errors and in logs.
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

use crate::transport::Transport;

#[cfg(test)]
mod tests;

/// How long a token may take to come.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// No token is longer.
const MAX_TOKEN_LEN: usize = 64 << 10;

/// What Google's own tools ask for unless told otherwise.
const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Where bearer tokens come from. Cheap to clone; clones share the token, and while one of them
/// fetches it the others wait for the same.
///
/// A token is fetched when it is first needed and kept until a server refuses it. Google's are
/// fetched again a little before they expire.
#[derive(Clone)]
pub struct TokenSource(Arc<Inner>);

struct Inner {
    origin: Origin,
    cached: Mutex<Cached>,
    /// How often the source was asked again.
    refreshes: AtomicU64,
}

enum Origin {
    Fixed(String),
    Environment(String),
    File(PathBuf),
    Command(String),
    Google(Vec<String>),
}

enum Cached {
    Nothing,
    Token(HeaderValue),
    /// Knows itself when its token expires.
    Provider(Arc<dyn TokenProvider>),
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// What came is empty or has characters that no token has.
    #[error("what comes from {origin} is no token")]
    NotAToken {
        /// The source.
        origin: String,
    },
    /// The environment variable is not set.
    #[error("the environment variable {name} is not set")]
    NotSet {
        /// Its name.
        name: String,
    },
    /// The file cannot be read.
    #[error("the token file {} cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The command cannot be run.
    #[error("the token command cannot be run")]
    Command(#[source] io::Error),
    /// The command failed.
    #[error("the token command failed: {message}")]
    CommandFailed {
        /// The first line that it wrote to its standard error, or its exit status.
        message: String,
    },
    /// The source took too long.
    #[error("no token came from {origin} within {} s", limit.as_secs())]
    Timeout {
        /// The source.
        origin: String,
        /// How long was waited.
        limit: Duration,
    },
    /// Google's application default credentials give none.
    #[error("Google's application default credentials give no token")]
    Google(#[source] Box<dyn StdError + Send + Sync>),
}

/// A text that names no source of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTokenSource {
    /// The text names no kind of source; it may well be a token.
    #[error(
        "a token is named by where it is: file:PATH, env:NAME, command:COMMAND or google; one that \
         is written out is seen by everybody who can list processes (literal:TOKEN if that is fine)"
    )]
    Bare,
    /// Nothing comes after the colon.
    #[error("nothing comes after \"{kind}:\"")]
    Empty {
        /// What stands before the colon.
        kind: &'static str,
    },
    /// The token has characters that no token has.
    #[error("the token after \"literal:\" has characters that no token has")]
    NotAToken,
}

impl TokenSource {
    /// A token that is known. When it is refused there is no other.
    ///
    /// # Errors
    ///
    /// It is empty or has other characters than visible ASCII characters.
    pub fn fixed(token: impl Into<String>) -> Result<Self, TokenError> {
        let token = token.into();
        let is_token = bearer(&token).is_some();
        let origin = Origin::Fixed(token);
        if is_token {
            Ok(Self::of(origin))
        } else {
            Err(origin.not_a_token())
        }
    }

    /// A file, whose whole content is the token.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::of(Origin::File(path.into()))
    }

    /// A variable of the environment. When its token is refused there is no other.
    pub fn environment(name: impl Into<String>) -> Self {
        Self::of(Origin::Environment(name.into()))
    }

    /// A command, run by `sh -c`, whose standard output is the token: for instance
    /// `gcloud auth print-access-token`. It has 30 seconds and no standard input.
    pub fn command(command: impl Into<String>) -> Self {
        Self::of(Origin::Command(command.into()))
    }

    /// Google's application default credentials, for these scopes: the service account that
    /// `GOOGLE_APPLICATION_CREDENTIALS` names, the user of `gcloud auth application-default login`,
    /// the machine's own account, or what `gcloud` says. They are looked for when a token is needed.
    pub fn google(scopes: &[&str]) -> Self {
        let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
        Self::of(Origin::Google(scopes))
    }

    /// Reads the form of the command line.
    ///
    /// | text | source |
    /// |---|---|
    /// | `file:PATH` | [`file`](Self::file) |
    /// | `env:NAME` | [`environment`](Self::environment) |
    /// | `command:COMMAND`, `cmd:COMMAND` | [`command`](Self::command) |
    /// | `google`, `google:SCOPE,SCOPE` | [`google`](Self::google), for all of Google Cloud unless scopes are given |
    /// | `literal:TOKEN` | [`fixed`](Self::fixed) |
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
            "command" | "cmd" => Ok(Self::command(given("command")?)),
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

    fn of(origin: Origin) -> Self {
        Self(Arc::new(Inner {
            origin,
            cached: Mutex::new(Cached::Nothing),
            refreshes: AtomicU64::new(0),
        }))
    }

    /// The value of an `Authorization` header, marked as sensitive.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the command, if it runs one.
    pub(crate) async fn token(&self) -> Result<HeaderValue, TokenError> {
        let mut cached = self.0.cached.lock().await;
        self.0.origin.cached_or_fetched(&mut cached).await
    }

    /// Whether asking the source again can bring another token.
    pub(crate) fn can_refresh(&self) -> bool {
        !matches!(self.0.origin, Origin::Fixed(_) | Origin::Environment(_))
    }

    /// Asks the source again, since a server has refused the token; `false` when the source can give
    /// no other. Callers that come while the source is asked share what it gives.
    ///
    /// # Cancel safety
    ///
    /// Like [`token`](Self::token).
    pub(crate) async fn refresh(&self) -> Result<bool, TokenError> {
        if !self.can_refresh() {
            return Ok(false);
        }
        let before = self.0.refreshes.load(Ordering::Acquire);
        let mut cached = self.0.cached.lock().await;
        if self.0.refreshes.load(Ordering::Acquire) == before {
            *cached = Cached::Nothing;
            self.0.origin.cached_or_fetched(&mut cached).await?;
            self.0.refreshes.fetch_add(1, Ordering::Release);
        }
        Ok(true)
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenSource({})", self.0.origin)
    }
}

impl Origin {
    /// The token that is kept, or a new one, which is kept from now on.
    async fn cached_or_fetched(&self, cached: &mut Cached) -> Result<HeaderValue, TokenError> {
        if let Cached::Token(token) = cached {
            return Ok(token.clone());
        }
        let token = timeout(FETCH_TIMEOUT, self.fetch(cached)).await;
        let token = token.map_err(|_| TokenError::Timeout {
            origin: self.to_string(),
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
            origin: self.to_string(),
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

/// What may be shown of a source: a command may have a secret among its arguments.
impl fmt::Display for Origin {
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

/// The header of a token; white space around it is not part of it.
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

/// Reads to the end, and keeps a little more than a token can be long.
async fn read_short(mut reader: impl AsyncRead + Unpin) -> io::Result<String> {
    let mut text = Vec::new();
    let limit = MAX_TOKEN_LEN as u64 + 1;
    (&mut reader).take(limit).read_to_end(&mut text).await?;
    tokio::io::copy(&mut reader, &mut sink()).await?;
    // What is not UTF-8 becomes what is no token.
    Ok(String::from_utf8_lossy(&text).into_owned())
}

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

/// The most that is shown of what a command complains.
const LONGEST_MESSAGE: usize = 200;

/// What the command writes to its standard output. Dropping the future ends the command.
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

/// The first line that says something, fit to be printed.
fn first_line(stderr_text: &str) -> Option<String> {
    let line = stderr_text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())?;
    let shown = line.chars().filter(|char| !char.is_control());
    Some(shown.take(LONGEST_MESSAGE).collect())
}

/// What uploads need to reach a server.
pub(crate) struct AuthenticatedTransport {
    transport: Arc<dyn Transport>,
    token: Option<TokenSource>,
}

impl AuthenticatedTransport {
    pub(crate) fn new(transport: Arc<dyn Transport>, token: Option<TokenSource>) -> Self {
        Self { transport, token }
    }

    pub(crate) fn inner(&self) -> &dyn Transport {
        &*self.transport
    }

    pub(crate) fn token(&self) -> Option<&TokenSource> {
        self.token.as_ref()
    }

    /// Whether there may be another token when one is refused.
    pub(crate) fn can_refresh(&self) -> bool {
        self.token.as_ref().is_some_and(TokenSource::can_refresh)
    }

    /// The token for a request to `to`, if it is of the origin that was `asked` for.
    pub(crate) async fn token_for(
        &self,
        asked: &Url,
        to: &Url,
    ) -> Result<Option<HeaderValue>, TokenError> {
        match &self.token {
            Some(token) if asked.origin() == to.origin() => Ok(Some(token.token().await?)),
            _ => Ok(None),
        }
    }

    /// Gets another token.
    pub(crate) async fn refresh(&self) -> Result<(), TokenError> {
        if let Some(token) = &self.token {
            token.refresh().await?;
        }
        Ok(())
    }
}

impl fmt::Debug for AuthenticatedTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("transport", &self.transport)
            .field("token", &self.token)
            .finish()
    }
}
