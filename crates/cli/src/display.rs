//! Progress of transfers, for people and for programs.
//!
//! A [`Display`] shows bars if standard error is a terminal and lines otherwise, and prints events to
//! standard output on request. A [`ProgressHandle`] shows one transfer on it. The text is built from a
//! [`View`] by functions without a terminal or a clock, in [`view`].

use std::io::IsTerminal as _;
use std::sync::Arc;

mod progress;
mod view;

pub(crate) use progress::{Meter, ProgressHandle};
pub(crate) use view::{Activity, Direction, View, Waiting};
pub(crate) use view::{Downloaded, Event, Failed, Uploaded};
pub(crate) use view::{bytes_of, checked, committed};

use crate::args::VerbosityArgs;
use crate::output;
use progress::ProgressBars;

/// The output of a command. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Display(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    verbosity: Verbosity,
    /// Whether events are printed on standard output.
    events: bool,
    /// Whether only errors are printed on standard error.
    quiet: bool,
}

/// What is shown on standard error.
#[derive(Debug)]
enum Verbosity {
    ProgressBars(ProgressBars),
    Lines,
    Silence,
}

impl Display {
    /// Chooses what is shown by the flags and by the kind of standard error.
    pub(crate) fn new(asked: VerbosityArgs) -> Self {
        let bars = std::io::stderr().is_terminal();
        // Bars would overwrite events on the same terminal.
        let is_shared = asked.json && std::io::stdout().is_terminal();
        let verbosity = if bars && !is_shared && !asked.quiet {
            Verbosity::ProgressBars(ProgressBars::new())
        } else if asked.quiet || asked.json {
            Verbosity::Silence
        } else {
            Verbosity::Lines
        };
        Self(Arc::new(Inner {
            verbosity,
            events: asked.json,
            quiet: asked.quiet,
        }))
    }

    /// Adds a transfer: the source of an upload, `-` for standard input, or a URL.
    pub(crate) fn add_progress(&self, source: impl Into<String>) -> ProgressHandle {
        ProgressHandle::new(self.clone(), source.into())
    }

    /// Whether results are printed as events.
    pub(crate) fn has_events(&self) -> bool {
        self.0.events
    }

    /// Prints a note.
    pub(crate) fn note(&self, what: &str) {
        match &self.0.verbosity {
            Verbosity::Silence => {}
            Verbosity::ProgressBars(bars) => bars.suspend(|| output::note(what)),
            Verbosity::Lines => output::note(what),
        }
    }

    /// Prints a result or an event as JSON.
    pub(crate) fn result(&self, json: &str) {
        self.aside(|| output::result(json));
    }

    /// Prints a warning, unless only errors are wanted.
    pub(crate) fn warning(&self, what: &str, hint: Option<&str>) {
        if !self.0.quiet {
            self.aside(|| output::warning(what, hint));
        }
    }

    /// Prints an error.
    pub(crate) fn error(&self, what: &str, hint: Option<&str>) {
        self.aside(|| output::failure(what, hint));
    }

    /// Stops drawing progress: the process is about to end.
    pub(crate) fn leave(&self) {
        if let Verbosity::ProgressBars(bars) = &self.0.verbosity {
            bars.leave();
        }
    }

    /// Prints while the bars are hidden.
    fn aside(&self, print: impl FnOnce()) {
        match &self.0.verbosity {
            Verbosity::ProgressBars(bars) => bars.suspend(print),
            Verbosity::Lines | Verbosity::Silence => print(),
        }
    }

    fn event(&self, event: &Event<'_>) {
        if self.0.events {
            self.result(&event.to_json());
        }
    }
}
