//! The commands of the tool, and the parts that they share: the error of a command, the runtime,
//! the client, signals and warnings.

mod api;
mod download;
mod generate;
mod hints;
mod journal;
mod serve;
mod sign;
mod store;
mod transfers;
mod upload;

use std::collections::HashSet;
use std::fmt::{Debug, Write as _};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error as ThisError;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use windlass_client::{
    Client, ClientIdentity, InvalidIdentity, InvalidTokenSource, JournalError, RecordId,
    RetryPolicy, TokenSource, Upload,
};
use windlass_store_local::backup::BackupError;
use windlass_store_local::verify::VerifyError;

use crate::args::{Command, ConnectionArgs, CredentialArgs, SessionArgs};
use crate::display::Display;
use crate::exit::Code;
use crate::settings::{CLIENT_CERT_VARIABLE, CLIENT_KEY_VARIABLE, TOKEN_VARIABLE, client_variable};
use crate::{exit, output, settings};

/// Runs a command and returns its exit code.
pub(crate) fn run(command: Command) -> Result<Code, Error> {
    match command {
        Command::Serve(args) => {
            serve::run(&args)?;
            Ok(Code::Success)
        }
        Command::Backup(args) => store::run_backup(&args),
        Command::Verify(args) => store::run_verify(&args),
        Command::Upload(args) => block_on(upload::run_upload(args)),
        Command::Resume(args) => block_on(upload::run_resume(args)),
        Command::Uploads(args) => journal::run_uploads(&args),
        Command::Status(args) => block_on(journal::run_status(args)),
        Command::Cancel(args) => block_on(journal::run_cancel(args)),
        Command::Download(args) => block_on(download::run(args)),
        Command::Sign(args) => sign::run(&args),
        Command::Api(args) => Ok(api::run(&args.command)?),
        Command::Completions(args) => {
            generate::completions(&args);
            Ok(Code::Success)
        }
        Command::Man(args) => generate::man(&args),
        #[cfg(feature = "failpoints")]
        Command::Failpoints => {
            serve::list_failpoints();
            Ok(Code::Success)
        }
    }
}

/// An error that ends a command before it does anything, with a hint and an exit code. The error of
/// one of several uploads is reported where it occurs.
#[derive(Debug, ThisError)]
pub(crate) enum Error {
    #[error(transparent)]
    Serve(#[from] serve::Error),
    #[error(transparent)]
    Sign(#[from] sign::SignError),
    #[error(transparent)]
    Settings(#[from] settings::Error),
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    Api(#[from] api::Error),
    #[error("cannot start threads")]
    Runtime(#[source] io::Error),
    #[error("cannot catch signals")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    Client(#[from] windlass_client::Error),
    #[error(transparent)]
    Token(#[from] InvalidTokenSource),
    #[error("cannot read {}", path.display())]
    IdentityFile { path: PathBuf, source: io::Error },
    #[error("the client certificate in {} cannot be used", path.display())]
    Identity {
        path: PathBuf,
        source: InvalidIdentity,
    },
    #[error("--client-key requires --client-cert")]
    KeyWithoutCertificate,
    #[error("`{variable}` is not Unicode")]
    NotUnicode { variable: &'static str },
    #[error("there is no home directory for the journal of unfinished uploads")]
    NoHome,
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("cannot read the metadata in {}", path.display())]
    MetadataFile { path: PathBuf, source: io::Error },
    #[error("the metadata is not JSON")]
    MetadataNotJson(#[source] serde_json::Error),
    #[error("standard input can be given only once")]
    StdinTwice,
    #[error("standard input has no name and no size for the placeholders in --metadata")]
    PlaceholderOfStdin,
    #[error("{} has no size for the placeholder in --metadata: it is not a file", path.display())]
    NoSize { path: PathBuf },
    #[error(transparent)]
    Placeholder(#[from] upload::NotAPlaceholder),
    #[error("--chunk-size must be at most 1G for standard input, whose chunks are kept in memory")]
    ChunkOfStdin,
    #[error("there is no unfinished upload with the id {text}")]
    NoSuchUpload { text: String },
    #[error(
        "the ids of several unfinished uploads begin with {text}: {}",
        listed(found)
    )]
    Ambiguous { text: String, found: Vec<RecordId> },
    #[error("there are {count} unfinished uploads; which one?")]
    Several { count: usize },
    #[error("there are {count} unfinished uploads; which one is to be cancelled?")]
    WhichToCancel { count: usize },
    #[error("the record of {id} cannot be used")]
    Damaged {
        id: RecordId,
        source: windlass_client::Damage,
    },
    #[error("--protocol is for session URIs; an upload of the journal has its own")]
    ProtocolOfRecord,
    #[error("cannot write to {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("downloads to standard output are not supported")]
    ToStdout,
    #[error("the URL does not end in a file name")]
    NoName,
}

impl Error {
    /// Returns the exit code of the process.
    pub(crate) fn exit_code(&self) -> Code {
        match self {
            Self::Serve(error) => error.exit_code(),
            Self::Api(error) => error.exit_code(),
            Self::Verify(error) => store::verify_exit_code(error),
            Self::Backup(error) => store::backup_exit_code(error),
            Self::Client(error) => hints::exit_code(error),
            Self::Sign(_)
            | Self::Settings(_)
            | Self::Token(_)
            | Self::Identity { .. }
            | Self::KeyWithoutCertificate
            | Self::NotUnicode { .. }
            | Self::MetadataNotJson(_)
            | Self::StdinTwice
            | Self::PlaceholderOfStdin
            | Self::NoSize { .. }
            | Self::Placeholder(_)
            | Self::ChunkOfStdin
            | Self::NoSuchUpload { .. }
            | Self::Ambiguous { .. }
            | Self::Several { .. }
            | Self::WhichToCancel { .. }
            | Self::ProtocolOfRecord
            | Self::ToStdout
            | Self::NoName => Code::Usage,
            Self::Runtime(_)
            | Self::Signals(_)
            | Self::NoHome
            | Self::Journal(_)
            | Self::IdentityFile { .. }
            | Self::MetadataFile { .. }
            | Self::Damaged { .. }
            | Self::Write { .. } => Code::CannotBegin,
        }
    }

    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Serve(error) => return error.hint(),
            Self::Api(error) => return error.hint(),
            Self::Settings(error) => return error.hint(),
            Self::Sign(error) => return error.hint().map(str::to_owned),
            Self::Verify(error) => return store::verify_hint(error).map(str::to_owned),
            Self::Backup(error) => return store::backup_hint(error).map(str::to_owned),
            Self::Client(error) => return hints::hint(error, hints::HintContext::default()),
            Self::NoHome => {
                "choose a directory with --journal, or upload without a journal with --no-journal"
            }
            Self::Damaged { id, source } => return journal::damage_hint(id, source),
            Self::Journal(error) => return hints::journal_hint(error).map(str::to_owned),
            Self::MetadataNotJson(_) => {
                "metadata is a JSON object, as in --metadata '{\"name\": \"Bella\"}', or @FILE"
            }
            Self::Placeholder(_) => {
                "the placeholders are {name}, {stem}, {path} and {size}; {{ and }} are braces themselves"
            }
            Self::PlaceholderOfStdin | Self::NoSize { .. } => {
                "give the text itself, or upload from a file; {{ and }} are braces themselves"
            }
            Self::StdinTwice => "leave out one `-`",
            Self::ChunkOfStdin => "without --chunk-size the chunks have the size that fits",
            Self::MetadataFile { .. } => "--metadata @FILE reads the JSON from a file",
            Self::IdentityFile { .. } => {
                "--client-cert takes a file with the certificate in PEM, --client-key one with its key"
            }
            Self::NoSuchUpload { .. } => "`windlass uploads` lists the unfinished uploads",
            Self::Ambiguous { .. } => "give more characters of the id",
            Self::Several { .. } => "give one of the ids above, or --all to continue all of them",
            Self::WhichToCancel { .. } => "give one of the ids above",
            Self::ProtocolOfRecord => "leave out --protocol",
            Self::ToStdout => {
                "output cannot be withdrawn when its checksum proves wrong; use -o FILE"
            }
            Self::NoName => "give a file name with -o FILE",
            Self::Token(InvalidTokenSource::Bare) => {
                "a token on the command line is visible to everybody who can list processes; env:NAME \
                 reads it from a variable, file:PATH from a file"
            }
            Self::Token(_) => "`windlass help upload` explains the sources of tokens",
            Self::NotUnicode { .. } => "set it to text, or unset it",
            Self::Write { .. } => "choose a directory that does not exist, or one that is writable",
            Self::Identity { .. } | Self::KeyWithoutCertificate => {
                "--client-cert takes a file with the certificate in PEM, --client-key one with its key; \
                 an encrypted key is decrypted by `openssl pkey -in FILE`"
            }
            Self::Runtime(_) | Self::Signals(_) => return None,
        };
        Some(hint.to_owned())
    }
}

fn listed(ids: &[RecordId]) -> String {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}

/// Runs a client command to its end.
fn block_on<T>(command: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    let result = runtime.block_on(command);
    // Remaining tasks wait for a terminal or a pipe that may never be readable.
    runtime.shutdown_background();
    result
}

/// Builds a client, and tells whether it has a token.
fn client(args: &CredentialArgs) -> Result<(Client, bool), Error> {
    let token = token(args)?;
    let has_token = token.is_some();
    let client = Client::builder()
        .token(token)
        .allow_plain_http(args.allow_plain_http)
        .identity(identity(args)?);
    Ok((client.build()?, has_token))
}

/// Allows an upload to send its media to the origins that the user named.
fn with_session_origins(upload: Upload, args: &SessionArgs) -> Upload {
    args.session_origin
        .iter()
        .fold(upload, Upload::session_origin)
}

/// Applies the retry policy and the timeout to an upload.
fn with_retries(upload: Upload, args: &ConnectionArgs) -> Upload {
    let upload = upload.retry_policy(retry_policy(args));
    match args.timeout {
        Some(limit) => upload.timeout(limit),
        None => upload,
    }
}

/// Returns the retry policy of the flags.
fn retry_policy(args: &ConnectionArgs) -> RetryPolicy {
    let mut policy = RetryPolicy::default();
    if let Some(waits) = args.retries {
        policy.schedule = policy.schedule.with_waits(waits);
    }
    policy
}

fn token(args: &CredentialArgs) -> Result<Option<TokenSource>, Error> {
    let text = match &args.token {
        Some(text) => Some(text.clone()),
        None => client_variable(TOKEN_VARIABLE)
            .map(|text| {
                text.into_string().map_err(|_| Error::NotUnicode {
                    variable: TOKEN_VARIABLE,
                })
            })
            .transpose()?,
    };
    let source = text.map(|text| TokenSource::parse(&text)).transpose()?;
    Ok(source)
}

/// Reads the client's certificate and its key, if there are any.
fn identity(args: &CredentialArgs) -> Result<Option<ClientIdentity>, Error> {
    let named = |flag: &Option<PathBuf>, variable| {
        flag.clone()
            .or_else(|| client_variable(variable).map(PathBuf::from))
    };
    let key = named(&args.client_key, CLIENT_KEY_VARIABLE);
    let Some(chain) = named(&args.client_cert, CLIENT_CERT_VARIABLE) else {
        return match key {
            Some(_) => Err(Error::KeyWithoutCertificate),
            None => Ok(None),
        };
    };
    let read = |path: &Path| {
        std::fs::read(path).map_err(|source| Error::IdentityFile {
            path: path.to_owned(),
            source,
        })
    };
    let key = read(key.as_ref().unwrap_or(&chain))?;
    let identity = ClientIdentity::from_pem(&read(&chain)?, &key);
    let identity = identity.map_err(|source| Error::Identity {
        path: chain,
        source,
    })?;
    Ok(Some(identity))
}

/// Makes a write beyond the file size limit fail with an error, as on a full disk. By default
/// SIGXFSZ ends the process.
fn ignore_file_size_signal() -> io::Result<()> {
    // The handler stays installed after the stream is dropped.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// Time after a signal in which further ones count as the same.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// A receiver of SIGTERM and SIGINT.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to catch the signals.
    fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for a signal.
    ///
    /// # Cancel safety
    ///
    /// A signal that arrives between two calls is not lost.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Takes a signal that has come already. Returns whether there was one.
    async fn has_come(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.next() => true,
            () = std::future::ready(()) => false,
        }
    }

    /// Ends the process at the next signal after the current one. Signals within half a second
    /// count as one: `timeout` of coreutils, for example, sends a signal to the process and then to
    /// its group.
    async fn end_process(mut self, code: exit::Code) {
        tokio::time::sleep(SAME_SIGNAL).await;
        // Discard the signals that came during the sleep. A busy machine can deliver them late.
        while self.has_come().await {}
        self.next().await;
        output::warning("stopped immediately by a second signal", None);
        exit::at_once(code);
    }
}

/// Prefix of the crates whose warnings are printed.
const OURS: &str = "windlass";

/// Starts to print warnings of the Windlass crates on standard error.
fn print_warnings() {
    install(|line| output::warning(line, None));
}

/// Starts to print warnings of the Windlass crates on a display.
fn print_warnings_on(display: &Display) {
    let display = display.clone();
    install(move |line| display.warning(line, None));
}

/// Passes every distinct warning to `print` once.
fn install(print: impl Fn(&str) + Send + Sync + 'static) {
    // This fails only if a test has installed a subscriber.
    tracing::subscriber::set_global_default(subscriber(print)).ok();
}

fn subscriber(print: impl Fn(&str) + Send + Sync + 'static) -> impl Subscriber + Send + Sync {
    let ours = Targets::new().with_target(OURS, LevelFilter::WARN);
    tracing_subscriber::registry().with(Warnings::new(print).with_filter(ours))
}

struct Warnings<F> {
    print: F,
    /// An upload may warn at each of its chunks that the journal cannot be written.
    printed: Mutex<HashSet<String>>,
}

impl<F> Warnings<F> {
    fn new(print: F) -> Self {
        Self {
            print,
            printed: Mutex::default(),
        }
    }
}

impl<S: Subscriber, F: Fn(&str) + 'static> Layer<S> for Warnings<F> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let line = line.0;
        let mut printed = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        if printed.insert(line.clone()) {
            drop(printed);
            (self.print)(&line);
        }
    }
}

/// The message, followed by its fields, mostly the cause.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => {
                self.0.insert_str(0, &format!("{value:?}"));
                Ok(())
            }
            "error" => write!(self.0, ": {value:?}"),
            name => write!(self.0, ", {name} {value:?}"),
        };
        written.expect("memory takes everything");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn warnings_of_our_crates_are_lines_and_are_said_once() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let printed = Arc::clone(&heard);
        let subscriber = subscriber(move |line| {
            printed.lock().expect("nobody panics").push(line.to_owned());
        });
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..2 {
                let error = std::io::Error::other("the disk is full");
                tracing::warn!(target: "windlass_client::upload_loop", %error, "it is not remembered");
            }
            tracing::warn!(target: "windlass_client", "no roots");
            tracing::info!(target: "windlass_client", "it goes well");
            tracing::warn!(target: "hyper", "odd");
        });
        assert_eq!(
            *heard.lock().expect("nobody panics"),
            ["it is not remembered: the disk is full", "no roots"]
        );
    }
}
