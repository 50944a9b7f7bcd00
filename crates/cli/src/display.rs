//! How far things are, for people and for programs.
//!
//! A [`Display`] is what a command shows itself on: bars where standard error is a terminal, lines
//! where it is not, events on standard output where they were asked for. A [`Track`] is one source on
//! it. What is written is made of a [`View`] by functions without a terminal or a clock, in
//! [`text`], [`mod@line`] and [`event`].

use std::io::IsTerminal as _;
use std::sync::Arc;

mod bars;
mod event;
mod line;
mod meter;
mod pace;
mod text;
mod track;
mod view;

pub(crate) use event::{Downloaded, Event, Failed, Uploaded, checked};
pub(crate) use line::{bytes_of, committed};
pub(crate) use meter::Meter;
pub(crate) use text::{age, json_shown, percent, shown, size};
pub(crate) use track::Track;
pub(crate) use view::{Doing, View, Waiting, Way};

use crate::args::TalkArgs;
use crate::output;
use bars::Bars;

/// What a command shows itself on. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Display(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    talk: Talk,
    /// Whether events go to standard output.
    events: bool,
    /// Whether nothing is to be said but what goes wrong.
    quiet: bool,
}

/// What people see.
#[derive(Debug)]
enum Talk {
    Bars(Bars),
    Lines,
    Silence,
}

impl Display {
    /// What was asked for, as far as standard error can do it.
    pub(crate) fn new(asked: TalkArgs) -> Self {
        let bars = std::io::stderr().is_terminal();
        // Events and bars on one terminal would be a mess.
        let mess = asked.json && std::io::stdout().is_terminal();
        let talk = if bars && !mess && !asked.quiet {
            Talk::Bars(Bars::new())
        } else if asked.quiet || asked.json {
            Talk::Silence
        } else {
            Talk::Lines
        };
        Self(Arc::new(Inner {
            talk,
            events: asked.json,
            quiet: asked.quiet,
        }))
    }

    /// Shows one more thing: a source of an upload, `-` for standard input, or a URL.
    pub(crate) fn track(&self, source: impl Into<String>) -> Track {
        Track::new(self.clone(), source.into())
    }

    /// Whether results are events.
    pub(crate) fn has_events(&self) -> bool {
        self.0.events
    }

    /// Says something that is worth knowing.
    pub(crate) fn note(&self, what: &str) {
        match &self.0.talk {
            Talk::Silence => {}
            Talk::Bars(bars) => bars.suspend(|| output::note(what)),
            Talk::Lines => output::note(what),
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
        if let Talk::Bars(bars) = &self.0.talk {
            bars.leave();
        }
    }

    /// Prints with the bars out of the way.
    fn aside(&self, print: impl FnOnce()) {
        match &self.0.talk {
            Talk::Bars(bars) => bars.suspend(print),
            Talk::Lines | Talk::Silence => print(),
        }
    }

    fn event(&self, event: &Event<'_>) {
        if self.0.events {
            self.result(&event.to_json());
        }
    }
}
