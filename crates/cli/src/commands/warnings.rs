//! What the client crate warns of, in the words of this tool.
//!
//! It warns where nobody can be handed an error: the upload goes on, but somebody should know. Other
//! crates speak to those who debug them, and are not heard here.

use std::collections::HashSet;
use std::fmt::{Debug, Write as _};
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

use crate::display::Display;
use crate::output;

/// The crates that are heard begin with this.
const OURS: &str = "windlass";

/// Says warnings on standard error from now on.
pub(super) fn print_warnings() {
    install(|line| output::warning(line, None));
}

/// Says warnings on a display from now on.
pub(super) fn print_warnings_on(display: &Display) {
    let display = display.clone();
    install(move |line| display.warning(line, None));
}

/// Hands every warning to `print`, each of them once.
fn install(print: impl Fn(&str) + Send + Sync + 'static) {
    // Another subscriber can only be one of a test.
    tracing::subscriber::set_global_default(subscriber(print)).ok();
}

fn subscriber(print: impl Fn(&str) + Send + Sync + 'static) -> impl Subscriber + Send + Sync {
    let ours = Targets::new().with_target(OURS, LevelFilter::WARN);
    tracing_subscriber::registry().with(Warnings::new(print).with_filter(ours))
}

struct Warnings<F> {
    print: F,
    /// An upload of many chunks may fail to be remembered at each of them.
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

/// The message, then its fields: mostly why.
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
                tracing::warn!(target: "windlass_client::drive", %error, "it is not remembered");
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
