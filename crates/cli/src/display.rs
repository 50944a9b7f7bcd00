//! How far things are, for people and for programs.
//!
//! A [`Display`] is what a command shows itself on: bars where standard error is a terminal, lines
//! where it is not, events on standard output where they were asked for. A [`ProgressHandle`] is one source on
//! it. What is written is made of a [`View`] by functions without a terminal or a clock, in
//! [`view`] and [`event`].

use std::io::IsTerminal as _;
use std::sync::Arc;

mod bars;
mod event;
mod progress;
mod view;

pub(crate) use bars::Meter;
pub(crate) use event::{Downloaded, Event, Failed, Uploaded, checked};
pub(crate) use progress::ProgressHandle;
pub(crate) use view::{Activity, Direction, View, Waiting};
pub(crate) use view::{bytes_of, committed};

use crate::args::VerbosityArgs;
use crate::output;
use bars::ProgressBars;

/// What a command shows itself on. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Display(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    verbosity: Verbosity,
    /// Whether events go to standard output.
    events: bool,
    /// Whether nothing is to be said but what goes wrong.
    quiet: bool,
}

/// What people see.
#[derive(Debug)]
enum Verbosity {
    ProgressBars(ProgressBars),
    Lines,
    Silence,
}

impl Display {
    /// What was asked for, as far as standard error can do it.
    pub(crate) fn new(asked: VerbosityArgs) -> Self {
        let bars = std::io::stderr().is_terminal();
        // Events and bars on one terminal would be a mess.
        let mess = asked.json && std::io::stdout().is_terminal();
        let verbosity = if bars && !mess && !asked.quiet {
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

    /// Shows one more thing: a source of an upload, `-` for standard input, or a URL.
    pub(crate) fn add_progress(&self, source: impl Into<String>) -> ProgressHandle {
        ProgressHandle::new(self.clone(), source.into())
    }

    /// Whether results are events.
    pub(crate) fn has_events(&self) -> bool {
        self.0.events
    }

    /// Says something that is worth knowing.
    pub(crate) fn note(&self, what: &str) {
        match &self.0.verbosity {
            Verbosity::Silence => {}
            Verbosity::ProgressBars(bars) => bars.suspend(|| output::note(what)),
            Verbosity::Lines => output::note(what),
        }
    }

    /// Prints a result, or an event: JSON.
    pub(crate) fn result(&self, json: &str) {
        self.aside(|| output::result(json));
    }

    /// Says what is odd but no error, unless only errors are wanted.
    pub(crate) fn warning(&self, what: &str, hint: Option<&str>) {
        if !self.0.quiet {
            self.aside(|| output::warning(what, hint));
        }
    }

    /// Says what went wrong.
    pub(crate) fn error(&self, what: &str, hint: Option<&str>) {
        self.aside(|| output::failure(what, hint));
    }

    /// Shows no progress any more: somebody wants to go.
    pub(crate) fn leave(&self) {
        if let Verbosity::ProgressBars(bars) = &self.0.verbosity {
            bars.leave();
        }
    }

    /// Prints with the bars out of the way.
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
