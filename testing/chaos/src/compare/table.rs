//! The results, as one table.

use std::collections::HashSet;
use std::fmt;

use windlass_testkit::checker::{Rule, Violation, Workload};

use super::contestant::Contestant;

const HEAD: [&str; 12] = [
    "server",
    "fault",
    "injected",
    "with a loss",
    "ended by itself",
    "uploads",
    "acknowledged",
    "uploads that lost",
    "worst loss",
    "finished, then gone or damaged",
    "other rules broken",
    "kept of broken requests",
];

/// The effect of one kind of fault on one server.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// The fault.
    pub(super) fault: String,
    /// How often.
    pub(super) injected: u64,
    /// After how many of them acknowledged bytes were missing.
    pub(super) with_loss: u64,
    /// How often the server ended though nobody had killed it.
    pub(super) ended: u64,
    /// After the last one the server did not start.
    pub(super) refuses_to_start: bool,
    /// Uploads that were begun.
    pub(super) uploads: u64,
    /// Bytes that were acknowledged.
    pub(super) acknowledged: u64,
    /// Uploads of which acknowledged bytes were missing.
    pub(super) lost: u64,
    /// The most bytes that one of them missed.
    pub(super) worst: u64,
    /// Uploads that the server called complete, and that were then missing or different.
    pub(super) finished_lost: u64,
    /// Uploads with which another rule was broken, without a loss.
    pub(super) otherwise: u64,
    /// Bytes that arrived in requests that broke off, and how many of them counted.
    pub(super) kept: Option<(u64, u64)>,
    /// The violations behind these numbers.
    pub(super) violations: Vec<Violation>,
}

impl Row {
    pub(super) fn of(fault: String) -> Self {
        Self {
            fault,
            ..Self::default()
        }
    }

    /// Adds the results of a workload up to now. New losses are attributed to the last fault.
    pub(super) fn tally(&mut self, workload: &Workload) {
        let (figures, lost_bytes) = (workload.figures(), workload.lost_bytes());
        if lost_bytes.uploads > self.lost && self.with_loss < self.injected {
            self.with_loss += 1;
        }
        (self.uploads, self.acknowledged) = (figures.uploads, figures.bytes);
        (self.lost, self.worst) = (lost_bytes.uploads, lost_bytes.worst);
        self.finished_lost = lost_bytes.finished;
        self.violations = workload.violations().to_vec();
        let wronged: HashSet<_> = self.violations.iter().map(|it| &it.upload).collect();
        self.otherwise = (wronged.len() as u64).saturating_sub(lost_bytes.uploads);
    }

    /// Adds a broken rule that no workload has seen.
    pub(super) fn violate(&mut self, upload: String, rule: Rule) {
        self.violations.push(Violation { upload, rule });
    }

    /// Every broken rule; to end by itself is one.
    pub(super) fn broken(&self) -> Vec<Violation> {
        let ended = (self.ended > 0).then(|| Violation {
            upload: "the server".to_owned(),
            rule: Rule::Stuck(format!("it ended by itself {} times", self.ended)),
        });
        self.violations.iter().cloned().chain(ended).collect()
    }

    fn cells(&self, server: &str) -> [String; HEAD.len()] {
        let start = if self.refuses_to_start {
            ", then does not start"
        } else {
            ""
        };
        [
            server.to_owned(),
            format!("{}{start}", self.fault),
            self.injected.to_string(),
            self.with_loss.to_string(),
            self.ended.to_string(),
            self.uploads.to_string(),
            format!("{} KiB", self.acknowledged >> 10),
            self.lost.to_string(),
            format!("{} B", self.worst),
            self.finished_lost.to_string(),
            self.otherwise.to_string(),
            self.kept.map_or_else(String::new, |(of, told)| {
                format!("{} %", told * 100 / of.max(1))
            }),
        ]
    }
}

/// All rows, and the remarks about the servers.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<[String; HEAD.len()]>,
    notes: Vec<String>,
    /// The losses of each server in all.
    lost_bytes: Vec<String>,
}

impl Table {
    /// Adds the rows of one server.
    pub(super) fn add(&mut self, contestant: &Contestant, rows: &[Row]) {
        let Contestant {
            name,
            versions,
            note,
            dialect,
            ..
        } = contestant;
        self.rows.extend(rows.iter().map(|row| row.cells(name)));
        let dialect = dialect.name();
        self.notes
            .push(format!("{name} ({versions}; dialect {dialect}): {note}."));
        let of_all = |count: fn(&Row) -> u64| rows.iter().map(count).sum::<u64>();
        let (lost, uploads) = (of_all(|row| row.lost), of_all(|row| row.uploads));
        self.lost_bytes.push(format!("{name} {lost} of {uploads}"));
    }

    /// Whether no server has been added.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = HEAD.map(str::to_owned);
        let all = || [&head].into_iter().chain(&self.rows);
        let widths: Vec<_> = (0..HEAD.len())
            .map(|column| all().map(|row| row[column].len()).max().unwrap_or_default())
            .collect();
        for (number, row) in all().enumerate() {
            line(f, row, &widths)?;
            if number == 0 {
                line(
                    f,
                    &widths
                        .iter()
                        .map(|width| "-".repeat(*width))
                        .collect::<Vec<_>>(),
                    &widths,
                )?;
            }
        }
        writeln!(f, "\n{}\n", self.notes.join("\n"))?;
        write!(f, "uploads that lost bytes: {}", self.lost_bytes.join(", "))
    }
}

fn line(f: &mut fmt::Formatter<'_>, cells: &[String], widths: &[usize]) -> fmt::Result {
    for (cell, width) in cells.iter().zip(widths) {
        write!(f, "| {cell:width$} ")?;
    }
    writeln!(f, "|")
}
