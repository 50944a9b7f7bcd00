//! The state of an upload or a download, and its forms: one line of a terminal or of a log for
//! people, and events for programs. An event is one JSON object per line. The fields of events are
//! part of the interface (docs/cli.md).

use std::time::Duration;

use serde_json::{Map, Value, json};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};
use windlass_client::{Progress, RecordId, State, Verified};

use crate::exit::Code;
use crate::output::{escaped, percent, seconds, size, span};

/// The state of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// Upload or download.
    pub(crate) direction: Direction,
    /// Number of bytes that are safe: committed by the server, or written to disk.
    pub(crate) committed: u64,
    /// Number of bytes that were handed to the network.
    pub(crate) sent: u64,
    /// Size of the media in bytes, if known.
    pub(crate) total: Option<u64>,
    /// Rate in bytes per second.
    pub(crate) rate: u64,
    /// Estimated remaining time.
    pub(crate) left: Option<Duration>,
    /// The current activity.
    pub(crate) activity: Activity,
    /// Id of the upload in the journal.
    pub(crate) upload: Option<RecordId>,
}

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

/// The current activity of a transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Activity {
    Starting,
    Reading,
    Sending,
    Finishing,
    Asking,
    /// A wait before a retry.
    Waiting(Waiting),
    Renewing,
    Checking,
    Done,
    Receiving,
}

/// A wait before the next try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Length of the wait.
    pub(crate) delay: Duration,
    /// Number of the next attempt, counted from 1, and the largest number, if known.
    pub(crate) tries: Option<(u32, u32)>,
    /// Reason of the wait.
    pub(crate) cause: String,
}

impl Activity {
    /// Returns the name in events. The names are part of the interface.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Reading => "reading",
            Self::Sending => "sending",
            Self::Finishing => "finishing",
            Self::Asking => "asking",
            Self::Waiting(_) => "waiting",
            Self::Renewing => "renewing",
            Self::Checking => "checking",
            Self::Done => "done",
            Self::Receiving => "receiving",
        }
    }
}

impl From<&Progress> for View {
    fn from(progress: &Progress) -> Self {
        Self {
            direction: Direction::Up,
            committed: progress.committed,
            sent: progress.sent,
            total: progress.total,
            rate: progress.rate,
            left: progress.time_left(),
            activity: match (Activity::from(&progress.state), &progress.broken) {
                (Activity::Waiting(wait), Some(broken)) => Activity::Waiting(Waiting {
                    cause: broken.clone(),
                    ..wait
                }),
                (activity, _) => activity,
            },
            upload: progress.upload.clone(),
        }
    }
}

impl From<&State> for Activity {
    fn from(state: &State) -> Self {
        match state {
            State::Starting => Self::Starting,
            State::Reading => Self::Reading,
            State::Finishing => Self::Finishing,
            State::Querying => Self::Asking,
            State::Waiting(wait) => Self::Waiting(wait.into()),
            State::RefreshingToken => Self::Renewing,
            State::Checking => Self::Checking,
            State::Done => Self::Done,
            // Unknown future states count as sending.
            _ => Self::Sending,
        }
    }
}

impl From<&windlass_client::Wait> for Waiting {
    fn from(wait: &windlass_client::Wait) -> Self {
        Self {
            delay: wait.delay,
            tries: Some((wait.attempt, wait.of)),
            cause: wait.cause.to_string(),
        }
    }
}

/// Width of the column of names.
const NAME: usize = 24;

/// Possible widths of a bar. There are few, so that bars below each other are mostly equal.
const WIDTHS: [usize; 3] = [30, 20, 10];

/// Amount of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Full,
    Short,
}

/// Returns a terminal line of at most `columns` columns, `since` after the view was made: name, bar
/// and text, as far as they fit.
pub(super) fn with_bar(name: &str, view: &View, since: Duration, columns: usize) -> String {
    let columns = columns.saturating_sub(1);
    let name = elided(name, NAME.min(columns));
    let padding = " ".repeat(NAME.saturating_sub(name.width()));
    let text = details(view, since, Detail::Full);
    let room = columns.saturating_sub(NAME + 2 + 4 + text.width());
    let width = WIDTHS.into_iter().find(|width| *width <= room);
    match (view.total, width) {
        (Some(total), Some(width)) => {
            let bar = bar(view.committed, view.sent, total, width);
            format!("{name}{padding}  [{bar}]  {text}")
        }
        _ if NAME + 2 + text.width() <= columns => format!("{name}{padding}  {text}"),
        _ => {
            let line = format!("{name}  {}", details(view, since, Detail::Short));
            beginning(&line, columns)
        }
    }
}

/// Returns a log line.
pub(super) fn plain(name: &str, view: &View) -> String {
    format!("{name}: {}", details(view, Duration::ZERO, Detail::Full))
}

/// Draws a bar: `=` for committed bytes, `-` for sent bytes, spaces for the rest.
fn bar(committed: u64, sent: u64, total: u64, width: usize) -> String {
    let cells = |bytes: u64| {
        let cells = u128::from(bytes.min(total)) * width as u128;
        let cells = cells
            .checked_div(u128::from(total))
            .unwrap_or(width as u128);
        usize::try_from(cells).unwrap_or(width)
    };
    let committed = cells(committed);
    let sent = cells(sent).max(committed);
    let cell = |at| match at {
        at if at < committed => '=',
        at if at < sent => '-',
        _ => ' ',
    };
    (0..width).map(cell).collect()
}

fn details(view: &View, since: Duration, detail: Detail) -> String {
    let mut parts = vec![match detail {
        Detail::Full => amount(view),
        Detail::Short => short_amount(view),
    }];
    match &view.activity {
        Activity::Sending | Activity::Receiving => parts.extend(rate_and_time_left(view)),
        Activity::Waiting(wait) => parts.push(waiting(wait, since, detail)),
        activity => parts.push(state(activity).to_owned()),
    }
    parts.join(", ")
}

/// Returns the amounts. Bytes that are sent but not committed are shown, because they can still be
/// lost. A server states the committed bytes only at the end of a request. During the first request
/// they are unknown, and a 0 would look as if nothing arrived.
fn amount(view: &View) -> String {
    let whole = bytes_of(view.committed, view.total);
    let part = view
        .total
        .map(|total| (percent(view.sent, total), size(total)));
    match (view.direction, part) {
        (Direction::Up, Some((percent, total))) if view.committed == 0 => {
            format!("{percent:>3} % of {total} sent")
        }
        (Direction::Up, Some((percent, _))) => format!("{percent:>3} % sent, {whole} committed"),
        (Direction::Up, None) if view.committed == 0 => format!("{} sent", size(view.sent)),
        (Direction::Up, None) => format!("{} sent, {whole} committed", size(view.sent)),
        (Direction::Down, Some((percent, _))) => format!("{percent:>3} %, {whole} received"),
        (Direction::Down, None) => format!("{whole} received"),
    }
}

/// Returns the more important amount: the committed bytes or, if an upload has none, the sent
/// bytes.
fn short_amount(view: &View) -> String {
    match (view.direction, view.committed) {
        (Direction::Up, 0) => format!("{} sent", bytes_of(view.sent, view.total)),
        (_, committed) => bytes_of(committed, view.total),
    }
}

/// `512 MiB of 1 GiB`.
pub(crate) fn bytes_of(bytes: u64, total: Option<u64>) -> String {
    match total {
        Some(total) => format!("{} of {}", size(bytes), size(total)),
        None => size(bytes),
    }
}

/// `512 MiB of 1 GiB committed`.
pub(crate) fn committed(bytes: u64, total: Option<u64>) -> String {
    format!("{} committed", bytes_of(bytes, total))
}

fn rate_and_time_left(view: &View) -> Vec<String> {
    let rate = (view.rate > 0).then(|| format!("{}/s", size(view.rate)));
    let left = view.left.map(|left| format!("{} left", span(left)));
    rate.into_iter().chain(left).collect()
}

fn state(activity: &Activity) -> &'static str {
    match activity {
        Activity::Starting => "starting",
        Activity::Reading => "reading",
        Activity::Sending => "sending",
        Activity::Receiving => "receiving",
        Activity::Finishing => "waiting for the answer",
        Activity::Asking => "asking how much is there",
        Activity::Renewing => "fetching another token",
        Activity::Checking => "checking",
        Activity::Done => "done",
        Activity::Waiting(_) => "waiting",
    }
}

fn waiting(wait: &Waiting, since: Duration, detail: Detail) -> String {
    let delay = seconds(wait.delay.saturating_sub(since));
    let attempt = match wait.tries {
        Some((attempt, of)) => format!(", attempt {attempt} of {of}"),
        None => String::new(),
    };
    match detail {
        Detail::Full => format!("waiting {delay}{attempt}: {}", escaped(&wait.cause)),
        Detail::Short => format!("waiting {delay}{attempt}"),
    }
}

/// As much of a text as fits.
fn beginning(text: &str, width: usize) -> String {
    let mut room = width;
    let fits = |c: &char| {
        let left = room.checked_sub(c.width().unwrap_or(0));
        room = left.unwrap_or(0);
        left.is_some()
    };
    text.chars().take_while(fits).collect()
}

/// A name that fits: its end, which tells more than its beginning, is kept.
pub(crate) fn elided(name: &str, width: usize) -> String {
    let name = escaped(name);
    if name.width() <= width {
        return name.into_owned();
    }
    let backwards: String = name.chars().rev().collect();
    let end = beginning(&backwards, width.saturating_sub(2));
    format!("..{}", end.chars().rev().collect::<String>())
}

/// An event.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    Progress {
        source: &'a str,
        view: &'a View,
    },
    /// A finished upload.
    Uploaded(Uploaded<'a>),
    /// An upload that an earlier command has finished.
    Skipped(Skipped<'a>),
    /// A finished download.
    Downloaded(Downloaded<'a>),
    /// A failed transfer.
    Failed(&'a Failed<'a>),
}

/// The event of a finished upload.
#[derive(Debug)]
pub(crate) struct Uploaded<'a> {
    pub(crate) source: &'a str,
    pub(crate) size: u64,
    pub(crate) protocol: &'a str,
    pub(crate) upload_type: &'a str,
    pub(crate) verified: Verified,
    pub(crate) restarts: u32,
    pub(crate) resource: Option<&'a Value>,
}

/// The event of an upload that an earlier command has finished.
#[derive(Debug)]
pub(crate) struct Skipped<'a> {
    pub(crate) source: &'a str,
    pub(crate) size: u64,
    pub(crate) resource_id: Option<&'a str>,
}

/// The event of a finished download.
#[derive(Debug)]
pub(crate) struct Downloaded<'a> {
    pub(crate) source: &'a str,
    pub(crate) file: &'a str,
    pub(crate) size: u64,
    /// Names of the digests that were compared and equal.
    pub(crate) verified: &'a [&'static str],
}

/// The event of a failed transfer.
#[derive(Debug)]
pub(crate) struct Failed<'a> {
    pub(crate) source: &'a str,
    pub(crate) message: &'a str,
    pub(crate) kind: &'static str,
    pub(crate) status: Option<u16>,
    pub(crate) reason: Option<&'a str>,
    pub(crate) upload: Option<RecordId>,
    pub(crate) hint: Option<&'a str>,
    pub(crate) exit_code: Code,
}

impl Event<'_> {
    /// Returns the event as one line of JSON.
    pub(crate) fn to_json(&self) -> String {
        let value = match self {
            Self::Progress { source, view } => progress(source, view),
            Self::Uploaded(uploaded) => uploaded.to_json(),
            Self::Skipped(skipped) => skipped.to_json(),
            Self::Downloaded(downloaded) => downloaded.to_json(),
            Self::Failed(failed) => failed.to_json(),
        };
        value.to_string()
    }
}

fn progress(source: &str, view: &View) -> Value {
    let mut event = json!({
        "event": "progress",
        "source": source,
        "state": view.activity.name(),
        "committed": view.committed,
        "sent": view.sent,
        "total": view.total,
        "rate": view.rate,
    });
    if let Activity::Waiting(wait) = &view.activity {
        event["wait"] = json!({
            "seconds": wait.delay.as_secs_f64(),
            "attempt": wait.tries.map(|(attempt, _)| attempt),
            "of": wait.tries.map(|(_, of)| of),
            "cause": wait.cause,
        });
    }
    if let Some(upload) = &view.upload {
        event["upload"] = upload.to_string().into();
    }
    event
}

impl Uploaded<'_> {
    fn to_json(&self) -> Value {
        json!({
            "event": "uploaded",
            "source": self.source,
            "size": self.size,
            "protocol": self.protocol,
            "type": self.upload_type,
            "verified": verified(self.verified),
            "restarts": self.restarts,
            "resource": self.resource,
        })
    }
}

impl Skipped<'_> {
    fn to_json(&self) -> Value {
        json!({
            "event": "skipped",
            "source": self.source,
            "size": self.size,
            "resource_id": self.resource_id,
        })
    }
}

impl Downloaded<'_> {
    fn to_json(&self) -> Value {
        json!({
            "event": "downloaded",
            "source": self.source,
            "file": self.file,
            "size": self.size,
            "verified": self.verified,
        })
    }
}

impl Failed<'_> {
    /// Unknown fields are left out.
    fn to_json(&self) -> Value {
        let fields = [
            ("event", Some("failed".into())),
            ("source", Some(self.source.into())),
            ("message", Some(self.message.into())),
            ("kind", Some(self.kind.into())),
            ("status", self.status.map(Value::from)),
            ("reason", self.reason.map(Value::from)),
            (
                "upload",
                self.upload.as_ref().map(|id| id.to_string().into()),
            ),
            ("hint", self.hint.map(Value::from)),
            ("exit_code", Some(self.exit_code.number().into())),
        ];
        let known = fields.into_iter();
        let known = known.filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(known.collect::<Map<_, _>>())
    }
}

/// Describes the comparison for people.
pub(crate) fn checked(by: Verified) -> String {
    checked_by(&verified(by))
}

/// Describes the comparison of these properties for people.
pub(crate) fn checked_by(by: &[&str]) -> String {
    if by.is_empty() {
        "not checked".to_owned()
    } else {
        format!("checked by {}", by.join(", "))
    }
}

/// Returns the names of the properties that were compared and equal.
fn verified(verified: Verified) -> Vec<&'static str> {
    let all = [
        ("size", verified.size),
        ("crc32c", verified.crc32c),
        ("md5", verified.md5),
    ];
    let equal = all.into_iter().filter(|(_, equal)| *equal);
    equal.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn view(committed: u64, sent: u64, total: Option<u64>, activity: Activity) -> View {
        View {
            direction: Direction::Up,
            committed,
            sent,
            total,
            rate: 12 * MIB,
            left: total.map(|_| Duration::from_secs(41)),
            activity,
            upload: None,
        }
    }

    fn down(view: View) -> View {
        View {
            direction: Direction::Down,
            ..view
        }
    }

    fn broken(delay: u64) -> Activity {
        Activity::Waiting(Waiting {
            delay: Duration::from_millis(delay),
            tries: Some((3, 6)),
            cause: "the connection broke".to_owned(),
        })
    }

    #[test]
    fn line_shows_committed_bytes_and_activity() {
        let gib = Some(1024 * MIB);
        let cases = [
            (
                view(256 * MIB, 512 * MIB, gib, Activity::Sending),
                "cow.jpg:  50 % sent, 256 MiB of 1 GiB committed, 12 MiB/s, 41 s left",
            ),
            (
                view(0, 0, gib, Activity::Starting),
                "cow.jpg:   0 % of 1 GiB sent, starting",
            ),
            (
                view(0, 300 * MIB, None, Activity::Sending),
                "cow.jpg: 300 MiB sent, 12 MiB/s",
            ),
            (
                view(256 * MIB, 300 * MIB, None, Activity::Sending),
                "cow.jpg: 300 MiB sent, 256 MiB committed, 12 MiB/s",
            ),
            (
                view(0, 1024 * MIB, gib, Activity::Finishing),
                "cow.jpg: 100 % of 1 GiB sent, waiting for the answer",
            ),
            (
                view(MIB, 512 * MIB, gib, broken(3200)),
                "cow.jpg:  50 % sent, 1 MiB of 1 GiB committed, waiting 4 s, attempt 3 of 6: the connection broke",
            ),
            (
                down(view(512 * MIB, 512 * MIB, gib, Activity::Receiving)),
                "cow.jpg:  50 %, 512 MiB of 1 GiB received, 12 MiB/s, 41 s left",
            ),
            (
                down(view(MIB, MIB, None, Activity::Receiving)),
                "cow.jpg: 1 MiB received, 12 MiB/s",
            ),
            (
                down(view(512 * MIB, 512 * MIB, gib, broken(3200))),
                "cow.jpg:  50 %, 512 MiB of 1 GiB received, waiting 4 s, attempt 3 of 6: the connection broke",
            ),
        ];
        for (view, line) in cases {
            assert_eq!(plain("cow.jpg", &view), line);
        }
    }

    #[test]
    fn a_wait_counts_down() {
        for (since, left) in [(0, "4 s"), (1000, "3 s"), (3100, "1 s"), (9000, "0 s")] {
            let view = view(0, 0, None, broken(4000));
            let text = details(&view, Duration::from_millis(since), Detail::Short);
            assert_eq!(text, format!("0 B sent, waiting {left}, attempt 3 of 6"));
        }
    }

    #[test]
    fn a_bar_tells_committed_from_sent() {
        let cases = [
            (0, 0, 100, "          "),
            (20, 50, 100, "==---     "),
            (50, 20, 100, "=====     "),
            (100, 100, 100, "=========="),
            (0, 100, 100, "----------"),
            (99, 99, 100, "========= "),
            (0, 0, 0, "=========="),
            (u64::MAX, u64::MAX, u64::MAX, "=========="),
        ];
        for (committed, sent, total, expected) in cases {
            assert_eq!(
                bar(committed, sent, total, 10),
                expected,
                "{committed} {sent} {total}"
            );
        }
    }

    #[test]
    fn line_fits_the_terminal_and_its_bar_fills_the_rest() {
        let view = view(256 * MIB, 512 * MIB, Some(1024 * MIB), Activity::Sending);
        let line = |columns| with_bar("cow.jpg", &view, Duration::ZERO, columns);
        let text = " 50 % sent, 256 MiB of 1 GiB committed, 12 MiB/s, 41 s left";
        assert_eq!(
            line(120),
            format!("cow.jpg                   [=======--------               ]  {text}")
        );
        assert_eq!(
            line(103),
            format!("cow.jpg                   [==---     ]  {text}")
        );
        assert_eq!(line(90), format!("cow.jpg                   {text}"));
        assert_eq!(line(80), "cow.jpg  256 MiB of 1 GiB, 12 MiB/s, 41 s left");
        assert_eq!(line(21), "cow.jpg  256 MiB of ");
    }

    #[test]
    fn long_names_keep_their_ends_and_no_name_moves_the_cursor() {
        assert_eq!(elided("cow.jpg", 24), "cow.jpg");
        assert_eq!(elided("herd/of/many/cows/bella.jpg", 11), "..bella.jpg");
        assert_eq!(elided("\u{1b}[2Jcow\n.jpg", 24), r"\u{1b}[2Jcow\u{a}.jpg");
        assert_eq!(elided("牛牛牛牛", 6), "..牛牛");
    }

    #[test]
    fn the_fields_of_events_are_those_of_the_document() {
        let wait = Waiting {
            delay: Duration::from_millis(1500),
            tries: Some((2, 6)),
            cause: "the connection broke".to_owned(),
        };
        let view = View {
            direction: Direction::Up,
            committed: 1,
            sent: 2,
            total: None,
            rate: 3,
            left: None,
            activity: Activity::Waiting(wait),
            upload: "mzxw6ytb".parse().ok(),
        };
        let resource = json!({"id": "7"});
        let verified = Verified::default();
        let cases = [
            (
                Event::Progress {
                    source: "a",
                    view: &view,
                },
                r#"{"event":"progress","source":"a","state":"waiting","committed":1,"sent":2,"total":null,"rate":3,"wait":{"seconds":1.5,"attempt":2,"of":6,"cause":"the connection broke"},"upload":"mzxw6ytb"}"#,
            ),
            (
                Event::Uploaded(Uploaded {
                    source: "a",
                    size: 5,
                    protocol: "google",
                    upload_type: "media",
                    verified,
                    restarts: 0,
                    resource: Some(&resource),
                }),
                r#"{"event":"uploaded","source":"a","size":5,"protocol":"google","type":"media","verified":[],"restarts":0,"resource":{"id":"7"}}"#,
            ),
            (
                Event::Downloaded(Downloaded {
                    source: "u",
                    file: "a",
                    size: 5,
                    verified: &["crc32c"],
                }),
                r#"{"event":"downloaded","source":"u","file":"a","size":5,"verified":["crc32c"]}"#,
            ),
            (
                Event::Failed(&Failed {
                    source: "a",
                    message: "no",
                    kind: "refused",
                    status: Some(404),
                    reason: Some("notFound"),
                    upload: None,
                    hint: None,
                    exit_code: Code::Failure,
                }),
                r#"{"event":"failed","source":"a","message":"no","kind":"refused","status":404,"reason":"notFound","exit_code":1}"#,
            ),
        ];
        for (event, line) in cases {
            assert_eq!(event.to_json(), line);
        }
    }
}
