//! One line on a terminal that tells how far something is.

use std::io::IsTerminal as _;

use super::bars::{Bar, ProgressBars};

/// The line, taken away when it is dropped. Where standard error is no terminal there is none.
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
