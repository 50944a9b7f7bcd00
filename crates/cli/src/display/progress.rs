//! One source on the display.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use tokio::time::interval;
use windlass_client::RecordId;

use super::bars::{self, Bar};
use super::throttle::ReportThrottle;
use super::{Activity, Display, Event, Failed, Verbosity, View, line};

/// Shows how far one thing is. Cheap to clone; gone from the display when all clones are.
#[derive(Debug, Clone)]
pub(crate) struct ProgressHandle(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    display: Display,
    source: String,
    bar: Option<Bar>,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    view: Option<(View, Instant)>,
    lines: ReportThrottle,
    events: ReportThrottle,
}

impl ProgressHandle {
    pub(super) fn new(display: Display, source: String) -> Self {
        let bar = match &display.0.verbosity {
            Verbosity::ProgressBars(bars) => Some(bars.add()),
            Verbosity::Lines | Verbosity::Silence => None,
        };
        let inner = Arc::new(Inner {
            source,
            bar,
            now: Mutex::new(Now {
                view: None,
                lines: ReportThrottle::for_lines(),
                events: ReportThrottle::for_events(),
            }),
            display,
        });
        if inner.bar.is_some() {
            tokio::spawn(count_down(Arc::downgrade(&inner)));
        }
        Self(inner)
    }

    /// What it is called in events: as it was typed.
    pub(crate) fn source(&self) -> &str {
        &self.0.source
    }

    /// What people read.
    pub(crate) fn label(&self) -> &str {
        label(&self.0.source)
    }

    /// Shows it.
    pub(crate) fn show(&self, view: &View) {
        self.0.show(view, Instant::now());
    }

    /// What was shown last.
    pub(crate) fn last(&self) -> Option<View> {
        self.0.now().view.as_ref().map(|(view, _)| view.clone())
    }

    /// By what name the journal knows it.
    pub(crate) fn upload(&self) -> Option<RecordId> {
        self.last()?.upload
    }

    /// What it is on.
    pub(crate) fn display(&self) -> &Display {
        &self.0.display
    }

    /// Tells why it failed.
    pub(crate) fn fail(&self, failed: &Failed<'_>) {
        self.event(&Event::Failed(failed));
        let (label, message) = (self.label(), failed.message);
        if message.contains(label) {
            self.0.display.error(message, failed.hint);
        } else {
            let message = format!("{label}: {message}");
            self.0.display.error(&message, failed.hint);
        }
    }

    /// Tells how it ended.
    pub(crate) fn event(&self, event: &Event<'_>) {
        self.clear();
        self.0.display.event(event);
    }

    /// Takes its bar away.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0.bar {
            bar.clear();
        }
    }
}

impl Inner {
    fn show(&self, view: &View, at: Instant) {
        let (line_is_due, event_is_due) = {
            let mut now = self.now();
            now.view = Some((view.clone(), at));
            (now.lines.is_due(view, at), now.events.is_due(view, at))
        };
        if let Some(bar) = &self.bar {
            self.draw(bar, view, at);
        }
        if line_is_due && matches!(self.display.0.verbosity, Verbosity::Lines) {
            self.display.note(&line::plain(label(&self.source), view));
        }
        if event_is_due {
            self.display.event(&Event::Progress {
                source: &self.source,
                view,
            });
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, bar: &Bar, view: &View, at: Instant) {
        let columns = bars::columns();
        let name = label(&self.source);
        bar.show(line::with_bar(name, view, at.elapsed(), columns));
    }

    /// Draws a wait again, which is shorter now.
    fn draw_wait(&self) {
        let Some(bar) = &self.bar else { return };
        let waiting = self.now().view.clone();
        if let Some((view, at)) = waiting
            && matches!(view.activity, Activity::Waiting(_))
        {
            self.draw(bar, &view, at);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.clear();
        }
    }
}

fn label(source: &str) -> &str {
    if source == "-" {
        "standard input"
    } else {
        source
    }
}

/// Nothing happens during a wait but this.
async fn count_down(handle: Weak<Inner>) {
    let mut tick = interval(bars::COUNTDOWN);
    loop {
        tick.tick().await;
        let Some(handle) = handle.upgrade() else {
            return;
        };
        handle.draw_wait();
    }
}
