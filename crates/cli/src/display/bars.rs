//! Progress bars on a terminal, drawn by indicatif. [`super::view`] provides the text of each line.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// The assumed width of a terminal that does not report one.
const USUAL_COLUMNS: usize = 80;

/// All bars of a command.
#[derive(Debug)]
pub(super) struct ProgressBars(MultiProgress);

/// One bar.
#[derive(Debug, Clone)]
pub(super) struct Bar(ProgressBar);

impl ProgressBars {
    pub(super) fn new() -> Self {
        Self(MultiProgress::with_draw_target(
            ProgressDrawTarget::stderr_with_hz(10),
        ))
    }

    pub(super) fn add(&self) -> Bar {
        let style = ProgressStyle::with_template("{msg}").expect("it is a template");
        Bar(self.0.add(ProgressBar::no_length().with_style(style)))
    }

    /// Draws nothing any more and leaves what is there. The cursor goes below it.
    ///
    /// After Ctrl-C the terminal has written `^C`, so the cursor is not where indicatif expects it:
    /// clearing the bars would clear other lines.
    pub(super) fn leave(&self) {
        self.0.set_draw_target(ProgressDrawTarget::hidden());
        output::note("");
    }

    /// Runs `what` while nothing is drawn.
    pub(super) fn suspend(&self, what: impl FnOnce()) {
        self.0.suspend(what);
    }
}

impl Bar {
    pub(super) fn show(&self, line: String) {
        self.0.set_message(line);
        self.0.tick();
    }

    /// Removes the bar.
    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Returns the width of the terminal in columns.
pub(super) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { USUAL_COLUMNS } else { columns }
}

/// The interval at which a wait is counted down.
pub(super) const COUNTDOWN: Duration = Duration::from_millis(250);

/// A line with the progress of a long command. Shown only if standard error is a terminal, and
/// removed on drop.
#[derive(Debug)]
pub(crate) struct Meter(Option<(ProgressBars, Bar)>);

impl Meter {
    /// An empty line.
    pub(crate) fn new() -> Self {
        let bars = std::io::stderr().is_terminal().then(ProgressBars::new);
        Self(bars.map(|bars| {
            let bar = bars.add();
            (bars, bar)
        }))
    }

    /// Shows something else on it.
    pub(crate) fn show(&self, line: impl FnOnce() -> String) {
        if let Self(Some((_, bar))) = self {
            bar.show(line());
        }
    }

    /// Prints something with the line out of the way.
    pub(crate) fn aside(&self, print: impl FnOnce()) {
        match &self.0 {
            Some((bars, _)) => bars.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Self(Some((_, bar))) = self {
            bar.clear();
        }
    }
}
