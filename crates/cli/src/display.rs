//! Progress of transfers, for people and for programs.
//!
//! A [`Display`] shows bars, which indicatif draws, if standard error is a terminal and lines
//! otherwise, and prints events to standard output on request. A [`ProgressHandle`] shows one
//! transfer on it. The text is built from a [`View`] by functions without a terminal or a clock, in
//! [`view`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::interval;
use windlass_client::RecordId;

mod total;
mod view;

pub(crate) use view::{Activity, Direction, View, Waiting};
pub(crate) use view::{Downloaded, Event, Failed, Skipped, Uploaded};
pub(crate) use view::{bytes_of, checked, checked_by, committed, elided};

use crate::args::VerbosityArgs;
use crate::output::{self, percent};
use total::{Share, Total};

/// The output of a command. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Display(Arc<DisplayInner>);

#[derive(Debug)]
struct DisplayInner {
    verbosity: Verbosity,
    /// Whether events are printed on standard output.
    events: bool,
    /// Whether only errors are printed on standard error.
    quiet: bool,
    /// The hints about failed transfers that were printed.
    hints: Mutex<HashSet<String>>,
}

/// The kind of output on standard error.
#[derive(Debug)]
enum Verbosity {
    ProgressBars(ProgressBars),
    Lines,
    Silence,
}

impl Display {
    /// Chooses the output by the flags and by the kind of standard error.
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
        Self(Arc::new(DisplayInner {
            verbosity,
            events: asked.json,
            quiet: asked.quiet,
            hints: Mutex::default(),
        }))
    }

    /// Adds a transfer: the source of an upload, `-` for standard input, or a URL; and the size of
    /// the media, if it is known. Its bar is there from its first state on.
    pub(crate) fn add_progress(
        &self,
        source: impl Into<String>,
        size: Option<u64>,
    ) -> ProgressHandle {
        ProgressHandle::new(self.clone(), source.into(), size)
    }

    /// Shows the sum of these uploads on a bar below theirs.
    pub(crate) fn begin_total<'a>(&self, handles: impl Iterator<Item = &'a ProgressHandle>) {
        if let Verbosity::ProgressBars(bars) = &self.0.verbosity {
            let sizes = handles.map(ProgressHandle::size);
            bars.begin_total(Total::new(sizes, Instant::now()));
        }
    }

    /// Removes the bar of the totals, and prints the outcome of all uploads.
    pub(crate) fn end_total(&self, what: &str) {
        if let Verbosity::ProgressBars(bars) = &self.0.verbosity {
            bars.end_total();
        }
        self.note(what);
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

    /// Prints a failure. A hint that was printed for another transfer is not repeated: many files
    /// may fail in the same way.
    fn failure(&self, what: &str, hint: Option<&str>) {
        let hints = &self.0.hints;
        let mut hints = hints.lock().unwrap_or_else(PoisonError::into_inner);
        self.error(what, hint.filter(|hint| hints.insert((*hint).to_owned())));
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

/// The progress of one transfer. Cheap to clone; removed from the display when the last clone is
/// dropped.
#[derive(Debug, Clone)]
pub(crate) struct ProgressHandle(Arc<ProgressInner>);

#[derive(Debug)]
struct ProgressInner {
    display: Display,
    source: String,
    size: Option<u64>,
    /// Added at the first state: thousands of files may wait for their turn.
    bar: OnceLock<Bar>,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    view: Option<(View, Instant)>,
    /// The part of the totals that this transfer has added.
    share: Share,
    lines: ReportThrottle,
    events: ReportThrottle,
}

impl ProgressHandle {
    fn new(display: Display, source: String, size: Option<u64>) -> Self {
        Self(Arc::new(ProgressInner {
            source,
            size,
            bar: OnceLock::new(),
            now: Mutex::new(Now {
                view: None,
                share: Share::default(),
                lines: ReportThrottle::for_lines(),
                events: ReportThrottle::for_events(),
            }),
            display,
        }))
    }

    /// Returns the size of the media, if it is known.
    pub(crate) fn size(&self) -> Option<u64> {
        self.0.size
    }

    /// Returns the source as given on the command line, which is its name in events.
    pub(crate) fn source(&self) -> &str {
        &self.0.source
    }

    /// Returns the name for people.
    pub(crate) fn label(&self) -> &str {
        label(&self.0.source)
    }

    /// Shows a new state.
    pub(crate) fn show(&self, view: &View) {
        if let Some(bars) = self.0.bars()
            && self.0.bar.get().is_none()
            && self.0.bar.set(bars.add()).is_ok()
        {
            tokio::spawn(count_down(Arc::downgrade(&self.0)));
        }
        self.0.show(view, Instant::now());
    }

    /// Returns the state that was shown last.
    pub(crate) fn last(&self) -> Option<View> {
        self.0.now().view.as_ref().map(|(view, _)| view.clone())
    }

    /// Returns the id of the upload in the journal.
    pub(crate) fn upload(&self) -> Option<RecordId> {
        self.last()?.upload
    }

    /// Returns the display.
    pub(crate) fn display(&self) -> &Display {
        &self.0.display
    }

    /// Prints the failure, with the name of the source unless the message has it.
    pub(crate) fn fail(&self, failed: &Failed<'_>) {
        let label = Some(self.label());
        self.fail_as(
            label.filter(|label| !failed.message.contains(label)),
            failed,
        );
    }

    /// Prints the failure of an item with a separate name.
    pub(crate) fn fail_as(&self, name: Option<&str>, failed: &Failed<'_>) {
        self.event(&Event::Failed(failed));
        let message = match name {
            Some(name) => Cow::Owned(format!("{name}: {}", failed.message)),
            None => Cow::Borrowed(failed.message),
        };
        self.0.display.failure(&message, failed.hint);
    }

    /// Prints the final event and removes the bar.
    pub(crate) fn event(&self, event: &Event<'_>) {
        self.0.end(!matches!(event, Event::Failed(_)));
        self.0.display.event(event);
    }
}

impl ProgressInner {
    fn show(&self, view: &View, at: Instant) {
        let (line_is_due, event_is_due) = {
            let mut now = self.now();
            now.view = Some((view.clone(), at));
            if let Some(bars) = self.bars() {
                bars.update_total(|total| total.update(&mut now.share, view), at);
            }
            (now.lines.is_due(view, at), now.events.is_due(view, at))
        };
        if let Some(bar) = self.bar.get() {
            self.draw(bar, view, at);
        }
        if line_is_due && matches!(self.display.0.verbosity, Verbosity::Lines) {
            self.display.note(&view::plain(label(&self.source), view));
        }
        if event_is_due {
            self.display.event(&Event::Progress {
                source: &self.source,
                view,
            });
        }
    }

    fn bars(&self) -> Option<&ProgressBars> {
        match &self.display.0.verbosity {
            Verbosity::ProgressBars(bars) => Some(bars),
            Verbosity::Lines | Verbosity::Silence => None,
        }
    }

    /// Removes the bar.
    fn end(&self, is_done: bool) {
        let Some(bars) = self.bars() else { return };
        self.clear();
        let mut now = self.now();
        let size = self.size;
        let end = |total: &mut Total| total.end(&mut now.share, is_done, size);
        bars.update_total(end, Instant::now());
    }

    fn clear(&self) {
        if let (Some(bars), Some(bar)) = (self.bars(), self.bar.get()) {
            bars.remove(bar);
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, bar: &Bar, view: &View, at: Instant) {
        let columns = columns();
        let name = label(&self.source);
        bar.show(view::with_bar(name, view, at.elapsed(), columns));
    }

    /// Draws the remaining time of a wait.
    fn draw_wait(&self) {
        let Some(bar) = self.bar.get() else { return };
        let waiting = self.now().view.clone();
        if let Some((view, at)) = waiting
            && matches!(view.activity, Activity::Waiting(_))
        {
            self.draw(bar, &view, at);
        }
    }
}

impl Drop for ProgressInner {
    fn drop(&mut self) {
        self.clear();
    }
}

fn label(source: &str) -> &str {
    if source == "-" {
        "standard input"
    } else {
        source
    }
}

/// Redraws waits, during which nothing else updates the bar, until the handle is dropped.
async fn count_down(handle: Weak<ProgressInner>) {
    let mut tick = interval(COUNTDOWN);
    loop {
        tick.tick().await;
        let Some(handle) = handle.upgrade() else {
            return;
        };
        handle.draw_wait();
    }
}

/// Decides when a change is reported as a line or as an event.
#[derive(Debug)]
struct ReportThrottle {
    /// Longest time between reports.
    every: Duration,
    /// Step in percent that is reported at once.
    step: Option<u64>,
    /// Time at the beginning in which only waits are reported, so that short transfers print
    /// nothing.
    grace: Duration,
    begin: Option<Instant>,
    last: Option<LastReport>,
}

#[derive(Debug)]
struct LastReport {
    at: Instant,
    activity: Activity,
    percent: Option<u64>,
}

impl ReportThrottle {
    /// Lines of a log: every ten seconds or ten percent, after the first second.
    fn for_lines() -> Self {
        Self {
            every: Duration::from_secs(10),
            step: Some(10),
            grace: Duration::from_secs(1),
            begin: None,
            last: None,
        }
    }

    /// Events: every second.
    fn for_events() -> Self {
        Self {
            every: Duration::from_secs(1),
            step: None,
            grace: Duration::ZERO,
            begin: None,
            last: None,
        }
    }

    /// Whether to report this state; if so, it counts as reported. A change of the activity is
    /// always reported.
    fn is_due(&mut self, view: &View, now: Instant) -> bool {
        let percent = view.total.map(|total| percent(view.sent, total));
        let lasts = now.duration_since(*self.begin.get_or_insert(now));
        let due = match &self.last {
            _ if lasts < self.grace && !matches!(view.activity, Activity::Waiting(_)) => false,
            None => true,
            Some(last) => {
                last.activity != view.activity
                    || now.duration_since(last.at) >= self.every
                    || self.has_stepped(last.percent, percent)
            }
        };
        if due {
            self.last = Some(LastReport {
                at: now,
                activity: view.activity.clone(),
                percent,
            });
        }
        due
    }

    fn has_stepped(&self, from: Option<u64>, to: Option<u64>) -> bool {
        match (self.step, from, to) {
            (Some(step), Some(from), Some(to)) => to / step > from / step,
            _ => false,
        }
    }
}

/// All bars of a command.
#[derive(Debug)]
struct ProgressBars {
    all: MultiProgress,
    /// The sum of several transfers, and its bar.
    total: Mutex<Option<(Total, Bar)>>,
}

/// One bar.
#[derive(Debug, Clone)]
struct Bar(ProgressBar);

impl ProgressBars {
    fn new() -> Self {
        let target = ProgressDrawTarget::stderr_with_hz(10);
        Self {
            all: MultiProgress::with_draw_target(target),
            total: Mutex::default(),
        }
    }

    /// Adds a bar above the bar of the totals.
    fn add(&self) -> Bar {
        let bar = new_bar();
        Bar(match &*self.total() {
            Some((_, Bar(total))) => self.all.insert_before(total, bar),
            None => self.all.add(bar),
        })
    }

    fn remove(&self, bar: &Bar) {
        bar.clear();
        self.all.remove(&bar.0);
    }

    fn begin_total(&self, total: Total) {
        let bar = Bar(self.all.add(new_bar()));
        *self.total() = Some((total, bar));
    }

    /// Changes the sum, if there is one, and draws it.
    fn update_total(&self, change: impl FnOnce(&mut Total), now: Instant) {
        if let Some((total, bar)) = &mut *self.total() {
            change(total);
            let view = total.view(now);
            bar.show(view::with_bar(
                &total.name(),
                &view,
                Duration::ZERO,
                columns(),
            ));
        }
    }

    fn end_total(&self) {
        if let Some((_, bar)) = self.total().take() {
            self.remove(&bar);
        }
    }

    fn total(&self) -> MutexGuard<'_, Option<(Total, Bar)>> {
        self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops drawing and leaves the bars in place. The cursor moves below them.
    ///
    /// After Ctrl-C the terminal has written `^C`, so the cursor is not where indicatif expects it.
    /// Clearing the bars would clear other lines.
    fn leave(&self) {
        self.all.set_draw_target(ProgressDrawTarget::hidden());
        output::note("");
    }

    /// Runs `what` while the bars are hidden.
    fn suspend(&self, what: impl FnOnce()) {
        self.all.suspend(what);
    }
}

fn new_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg}").expect("it is a template");
    ProgressBar::no_length().with_style(style)
}

impl Bar {
    fn show(&self, line: String) {
        self.0.set_message(line);
        self.0.tick();
    }

    /// Removes the bar.
    fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Returns the width of the terminal of standard error in columns.
pub(crate) fn columns() -> usize {
    output::columns_of(std::io::stderr())
}

/// The interval at which a wait is counted down.
const COUNTDOWN: Duration = Duration::from_millis(250);

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

    /// Replaces the text of the line.
    pub(crate) fn show(&self, line: impl FnOnce() -> String) {
        if let Self(Some((_, bar))) = self {
            bar.show(line());
        }
    }

    /// Prints while the line is hidden.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn view(sent: u64, activity: Activity) -> View {
        View {
            direction: Direction::Up,
            committed: 0,
            sent,
            total: Some(100),
            rate: 0,
            left: None,
            activity,
            upload: None,
        }
    }

    /// Each step: milliseconds, bytes sent of a hundred, activity, and whether a report is due.
    fn check(mut throttle: ReportThrottle, steps: &[(u64, u64, Activity, bool)]) {
        let start = Instant::now();
        for (millis, sent, activity, due) in steps {
            let now = start + Duration::from_millis(*millis);
            assert_eq!(
                throttle.is_due(&view(*sent, activity.clone()), now),
                *due,
                "at {millis}"
            );
        }
    }

    #[test]
    fn a_line_is_due_at_a_change_after_ten_percent_and_after_ten_seconds() {
        check(
            ReportThrottle::for_lines(),
            &[
                (0, 0, Activity::Starting, false),
                (1, 0, Activity::Sending, false),
                (1500, 9, Activity::Sending, true),
                (1600, 10, Activity::Sending, true),
                (1700, 19, Activity::Sending, false),
                (11_599, 19, Activity::Sending, false),
                (11_600, 19, Activity::Sending, true),
                (11_700, 100, Activity::Finishing, true),
            ],
        );
    }

    #[test]
    fn wait_in_the_first_second_is_reported() {
        let wait = Waiting {
            delay: Duration::from_secs(1),
            tries: None,
            cause: "the connection broke".to_owned(),
        };
        check(
            ReportThrottle::for_lines(),
            &[
                (0, 0, Activity::Starting, false),
                (1, 0, Activity::Waiting(wait.clone()), true),
                (2, 0, Activity::Waiting(wait), false),
            ],
        );
    }

    #[test]
    fn an_event_is_due_at_a_change_and_after_a_second() {
        check(
            ReportThrottle::for_events(),
            &[
                (0, 0, Activity::Sending, true),
                (999, 90, Activity::Sending, false),
                (1000, 90, Activity::Sending, true),
                (1001, 90, Activity::Asking, true),
                (1002, 90, Activity::Asking, false),
            ],
        );
    }
}
