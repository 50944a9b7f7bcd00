//! The totals of all uploads of a command, as a separate view.

use std::time::{Duration, Instant};

use super::view::{Activity, Direction, View};

/// All uploads together.
#[derive(Debug)]
pub(super) struct Total {
    begun: Instant,
    files: usize,
    uploaded: usize,
    failed: usize,
    /// Size of all media that has not failed; `None` if one size is not known.
    bytes: Option<u64>,
    sent: u64,
    committed: u64,
    /// Bytes that this command has sent. The bytes of an earlier command say nothing about the
    /// rate.
    moved: u64,
}

/// The part of the totals that one upload has added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Share {
    sent: u64,
    committed: u64,
}

/// Time at the beginning in which the rate says little.
const GRACE: Duration = Duration::from_secs(2);

impl Total {
    /// Begins to count uploads of media of these sizes.
    pub(super) fn new(sizes: impl Iterator<Item = Option<u64>>, now: Instant) -> Self {
        let sizes: Vec<_> = sizes.collect();
        Self {
            begun: now,
            files: sizes.len(),
            uploaded: 0,
            failed: 0,
            bytes: sizes.into_iter().sum(),
            sent: 0,
            committed: 0,
            moved: 0,
        }
    }

    /// Takes the new state of one upload into account.
    pub(super) fn update(&mut self, share: &mut Share, view: &View) {
        // The view of a resumed upload starts at its committed bytes, which this command has not
        // sent.
        let known = match view.activity {
            Activity::Checking | Activity::Done => share.sent,
            _ => share.sent.max(view.committed),
        };
        self.moved += view.sent.saturating_sub(known);
        let new = Share {
            sent: view.sent,
            committed: view.committed,
        };
        self.replace(share, new);
    }

    /// Records the end of an upload. A failed upload is removed from the totals.
    pub(super) fn end(&mut self, share: &mut Share, is_uploaded: bool, size: Option<u64>) {
        if is_uploaded {
            self.uploaded += 1;
        } else {
            self.failed += 1;
            self.replace(share, Share::default());
            self.bytes = self
                .bytes
                .zip(size)
                .map(|(bytes, size)| bytes - size.min(bytes));
        }
    }

    fn replace(&mut self, share: &mut Share, new: Share) {
        self.sent = self.sent - share.sent + new.sent;
        self.committed = self.committed - share.committed + new.committed;
        *share = new;
    }

    /// Returns the number of uploads: `12 of 20, 1 failed`.
    pub(super) fn name(&self) -> String {
        let Self {
            files,
            uploaded,
            failed,
            ..
        } = self;
        match failed {
            0 => format!("{uploaded} of {files} files"),
            failed => format!("{uploaded} of {files}, {failed} failed"),
        }
    }

    /// Returns the sum as the state of one upload.
    pub(super) fn view(&self, now: Instant) -> View {
        let lasts = now.duration_since(self.begun);
        let rate = u128::from(self.moved) * 1000 / lasts.as_millis().max(1);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let left = self.bytes.map(|bytes| bytes.saturating_sub(self.sent));
        let left = left.and_then(|left| left.checked_div(rate));
        let is_measured = lasts >= GRACE;
        View {
            direction: Direction::Up,
            committed: self.committed,
            sent: self.sent,
            total: self.bytes,
            rate: if is_measured { rate } else { 0 },
            left: left.filter(|_| is_measured).map(Duration::from_secs),
            activity: Activity::Sending,
            upload: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(sent: u64, committed: u64, activity: Activity) -> View {
        View {
            direction: Direction::Up,
            committed,
            sent,
            total: Some(100),
            rate: 0,
            left: None,
            activity,
            upload: None,
        }
    }

    #[test]
    fn total_is_the_sum_of_all_that_have_not_failed() {
        let begun = Instant::now();
        let mut total = Total::new([Some(100), Some(100), Some(50)].into_iter(), begun);
        let (mut first, mut second) = (Share::default(), Share::default());
        total.update(&mut first, &view(60, 0, Activity::Sending));
        total.update(&mut second, &view(30, 0, Activity::Sending));
        assert_eq!(total.name(), "0 of 3 files");
        let now = total.view(begun + Duration::from_secs(3));
        assert_eq!((now.sent, now.committed, now.total), (90, 0, Some(250)));
        assert_eq!((now.rate, now.left), (30, Some(Duration::from_secs(5))));
        total.update(&mut first, &view(100, 100, Activity::Done));
        total.end(&mut first, true, Some(100));
        total.end(&mut second, false, Some(100));
        assert_eq!(total.name(), "1 of 3, 1 failed");
        let now = total.view(begun + Duration::from_secs(3));
        assert_eq!((now.sent, now.committed, now.total), (100, 100, Some(150)));
    }

    #[test]
    fn bytes_of_an_earlier_command_do_not_count_for_the_rate() {
        let begun = Instant::now();
        let mut total = Total::new(std::iter::once(Some(100)), begun);
        let mut share = Share::default();
        total.update(&mut share, &view(80, 80, Activity::Sending));
        total.update(&mut share, &view(90, 80, Activity::Sending));
        assert_eq!(total.view(begun + Duration::from_secs(2)).rate, 5);
        // A second of a transfer says little.
        assert_eq!(total.view(begun + Duration::from_secs(1)).rate, 0);
    }

    #[test]
    fn total_of_unknown_sizes_has_no_size() {
        let begun = Instant::now();
        let total = Total::new([Some(1), None].into_iter(), begun);
        assert_eq!(total.view(begun).total, None);
    }
}
