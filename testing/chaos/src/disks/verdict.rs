//! Expectations of the disk tiers in addition to the rules of the checker.

use std::ops::Range;
use std::time::{Duration, Instant};

use windlass_testkit::checker::{Event, Rule, Upload, Violation, Workload};

use super::latency_probe::Sample;
use crate::outcome::Outcome;

/// How long after a fault a reply may still report health, because the reply was on its way.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The violations of a server apart from its answers to uploads.
#[derive(Debug, Default)]
pub(super) struct Verdict(Vec<Violation>);

impl Verdict {
    /// Records a violation by the server at `occasion`.
    pub(super) fn blame(&mut self, occasion: &str, what: impl Into<String>) {
        self.0.push(Violation {
            upload: occasion.to_owned(),
            rule: Rule::Misbehaves(what.into()),
        });
    }

    /// Like [`Verdict::blame`], unless something holds.
    pub(super) fn expect(&mut self, holds: bool, occasion: &str, what: impl Into<String>) {
        if !holds {
            self.blame(occasion, what);
        }
    }

    /// Adds the violations of a workload.
    pub(super) fn take_in(&mut self, occasion: &str, workload: &Workload) {
        self.0
            .extend(workload.violations().iter().map(|violation| Violation {
                upload: format!("{occasion}: {}", violation.upload),
                rule: violation.rule.clone(),
            }));
    }

    /// Nothing new may be acknowledged between two moments.
    pub(super) fn expect_silence(
        &mut self,
        occasion: &str,
        workload: &Workload,
        between: Range<Instant>,
    ) {
        let begun = workload.begun();
        let window = between.start.saturating_duration_since(begun)
            ..between.end.saturating_duration_since(begun);
        let said: usize = workload
            .uploads()
            .map(|upload| acknowledgements(upload, &window))
            .sum();
        self.expect(
            said == 0,
            occasion,
            format!("{said} acknowledgements came all the same"),
        );
    }

    /// `/healthz` must not say that all is well from a moment on.
    pub(super) fn expect_ill(&mut self, occasion: &str, samples: &[Sample], from: Instant) {
        let well = |sample: &&Sample| sample.asked > from && sample.status == Some(200);
        let count = samples.iter().filter(well).count();
        self.expect(
            count == 0,
            occasion,
            format!("/healthz said {count} times that all is well"),
        );
    }

    /// Every question must be answered with one of `statuses` within `limit`.
    pub(super) fn expect_answers(
        &mut self,
        occasion: &str,
        samples: &[Sample],
        statuses: &[u16],
        limit: Duration,
    ) {
        for sample in samples {
            let is_fine = sample
                .status
                .is_some_and(|status| statuses.contains(&status));
            if !is_fine || sample.took > limit {
                let (status, took) = (sample.status, sample.took);
                return self.blame(occasion, format!("an answer was {status:?} after {took:?}"));
            }
        }
        self.expect(!samples.is_empty(), occasion, "nothing was asked");
    }

    /// Whether all was well so far.
    pub(super) fn is_clean(&self) -> bool {
        self.0.is_empty()
    }

    /// The outcome of a tier with these figures.
    pub(super) fn outcome(self, figures: String) -> Outcome {
        Outcome::Done {
            figures,
            violations: self.0,
        }
    }
}

/// Counts how often an upload got an acknowledgement of bytes that it had just sent. Answers to
/// queries do not count, because the server could have acknowledged their bytes at any time before.
fn acknowledgements(upload: &Upload, window: &Range<Duration>) -> usize {
    let records = upload.records();
    let mut offset = 0;
    let mut count = 0;
    for (index, record) in records.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| &records[index].event);
        let is_reply = matches!(before, Some(Event::Sent(_) | Event::CancelSent));
        let is_new = match &record.event {
            Event::Started => true,
            Event::Committed(now) => is_reply && *now > offset,
            Event::Finished(_) | Event::Cancelled => is_reply,
            _ => false,
        };
        if let Event::Committed(now) = record.event {
            offset = offset.max(now);
        }
        count += usize::from(is_new && window.contains(&record.at));
    }
    count
}
