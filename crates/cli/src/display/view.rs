//! What there is to show of an upload or a download.

use std::time::Duration;

use windlass_client::{Progress, RecordId, State};

/// How far something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    /// Where it goes.
    pub(crate) direction: Direction,
    /// Bytes that are safe: committed by the server, or written to the disk.
    pub(crate) committed: u64,
    /// Bytes that were handed to the network.
    pub(crate) sent: u64,
    /// Size of the media, if it is known.
    pub(crate) total: Option<u64>,
    /// Bytes per second.
    pub(crate) rate: u64,
    /// How long it will take.
    pub(crate) left: Option<Duration>,
    /// What is going on.
    pub(crate) activity: Activity,
    /// By what name the journal knows it.
    pub(crate) upload: Option<RecordId>,
}

/// Where media goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

/// What is going on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Activity {
    Starting,
    Reading,
    Sending,
    Finishing,
    Asking,
    Waiting(Waiting),
    Renewing,
    Checking,
    Receiving,
}

/// A wait before the next try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// How long.
    pub(crate) delay: Duration,
    /// Which try comes then, the first being 1, and how many there are, if that is known.
    pub(crate) tries: Option<(u32, u32)>,
    /// Why.
    pub(crate) cause: String,
}

impl Activity {
    /// Its name in events. They are part of the interface.
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
            Self::Receiving => "receiving",
        }
    }
}

impl From<&Progress> for View {
    fn from(progress: &Progress) -> Self {
        let committed = match (&progress.state, progress.total) {
            // The answer is there: all is safe.
            (State::Checking, Some(total)) => total,
            _ => progress.committed,
        };
        Self {
            direction: Direction::Up,
            committed,
            sent: progress.sent,
            total: progress.total,
            rate: progress.rate,
            left: progress.time_left(),
            activity: Activity::from(&progress.state),
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
            State::Asking => Self::Asking,
            State::Waiting(wait) => Self::Waiting(wait.into()),
            State::RefreshingToken => Self::Renewing,
            State::Checking => Self::Checking,
            // Whatever else there will be, media is on its way.
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
