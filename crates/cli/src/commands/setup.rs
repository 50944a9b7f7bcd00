//! The parts that commands set up alike: the runtime, the client, signals and warnings.

use std::collections::HashSet;
use std::fmt::{Debug, Write as _};
use std::future::Future;
use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use windlass_client::{Client, RetryPolicy, Settings, TokenSource, Upload};

use super::Error;
use crate::args::{ConnectionArgs, TokenArgs};
use crate::display::Display;
use crate::settings::{TOKEN_VARIABLE, client_variable};
use crate::{exit, output};

/// Runs a client command to its end.
pub(super) fn block_on<T>(command: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
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
pub(super) fn client(args: &TokenArgs) -> Result<(Client, bool), Error> {
    let token = token(args)?;
    let has_token = token.is_some();
    let settings = Settings::default().with_token(token);
    Ok((Client::new(settings)?, has_token))
}

/// Applies the retry policy and the timeout to an upload.
pub(super) fn with_retries(upload: Upload, args: &ConnectionArgs) -> Upload {
    let upload = upload.retry_policy(retry_policy(args));
    match args.timeout {
        Some(limit) => upload.timeout(limit),
        None => upload,
    }
}

/// Returns the retry policy of the flags.
pub(super) fn retry_policy(args: &ConnectionArgs) -> RetryPolicy {
    let mut policy = RetryPolicy::default();
    if let Some(waits) = args.retries {
        policy.schedule = policy.schedule.with_waits(waits);
    }
    policy
}

fn token(args: &TokenArgs) -> Result<Option<TokenSource>, Error> {
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

/// Makes a write beyond the file size limit fail with an error, as on a full disk. By default
/// SIGXFSZ ends the process.
pub(super) fn ignore_file_size_signal() -> io::Result<()> {
    // The handler stays installed after the stream is dropped.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// A receiver of SIGTERM and SIGINT.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts to catch the signals.
    pub(super) fn catch() -> io::Result<Self> {
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
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Ends the process at the next signal.
    pub(super) async fn end_process(mut self, code: exit::Code) {
        self.next().await;
        output::warning("stopped immediately by a second signal", None);
        exit::at_once(code);
    }
}

/// Prefix of the crates whose warnings are printed.
const OURS: &str = "windlass";

/// Starts to print warnings of the Windlass crates on standard error.
pub(super) fn print_warnings() {
    install(|line| output::warning(line, None));
}

/// Starts to print warnings of the Windlass crates on a display.
pub(super) fn print_warnings_on(display: &Display) {
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
