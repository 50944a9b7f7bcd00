//! A case: the upload, the server and the faults.

use proptest::prelude::*;
use proptest::sample::select;
use windlass_proto::backoff::Schedule as Waits;
use windlass_proto::dialect::{self, Google, XGoogUpload};
use windlass_proto::session::CHUNK_GRANULARITY;
use windlass_proto::transfer::{ChunkSize, Chunking, Media, Plan, RetryPolicy};
use windlass_proto::upload_type::UploadType;

use crate::fault::{Fault, Keep};

const Q: u64 = CHUNK_GRANULARITY;

/// One case.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    pub(crate) len: u64,
    pub(crate) source: Source,
    /// An upload in one request.
    pub(crate) single_request: bool,
    /// Size of fixed chunks in multiples of 256 KiB.
    pub(crate) chunk: Option<u64>,
    pub(crate) refreshable: bool,
    pub(crate) dialect: Dialect,
    /// The faults of the requests, in order.
    pub(crate) faults: Vec<Fault>,
    /// The behaviour after the last fault.
    pub(crate) after: After,
}

/// The source of the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Seekable,
    Streamed {
        total_known: bool,
    },
    /// Only this many multiples of 256 KiB are kept.
    Windowed {
        total_known: bool,
        window: u64,
    },
}

/// The dialect of client and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Google(Options),
    XGoogUpload(Habits),
}

/// The differences between clients of Google's dialect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The server replies `201` when an upload is finished.
    pub(crate) created: bool,
    /// The server sends `Range: 0-42`.
    pub(crate) bare_range: bool,
    /// The client asks for `200` in place of `308`.
    pub(crate) no_308: bool,
}

/// The differences between the clients of `X-Goog-Upload`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Habits {
    /// Sends the same chunk again after a failure, and does not ask for the offset first.
    pub(crate) repeats: bool,
    /// Rounds the offset of a chunk down to a multiple of the granularity.
    pub(crate) rounds: bool,
    pub(crate) finish: Finish,
}

/// How a client finishes an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    /// With the last chunk.
    WithData,
    /// With a separate request.
    Alone,
    /// With a separate request that states the offset.
    AloneAtOffset,
}

impl Dialect {
    /// The side of the server.
    pub(crate) fn of_server(self) -> &'static dyn dialect::Dialect {
        match self {
            Self::Google(_) => &Google,
            Self::XGoogUpload(_) => &XGoogUpload,
        }
    }
}

/// The behaviour after the last fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// No more faults.
    Fine,
    /// The faults repeat.
    Again,
}

impl Schedule {
    /// Returns a case with seekable media of this size, one request for all remaining bytes, and
    /// these faults.
    pub(crate) fn new(len: u64, faults: &[Fault]) -> Self {
        Self {
            len,
            source: Source::Seekable,
            single_request: false,
            chunk: None,
            refreshable: true,
            dialect: Dialect::Google(Options::default()),
            faults: faults.to_vec(),
            after: After::Fine,
        }
    }

    /// Returns the fault of the request with this number, from 0.
    pub(crate) fn fault(&self, request: usize) -> Fault {
        let fault = match self.after {
            After::Fine => self.faults.get(request),
            After::Again => self.faults.get(request % self.faults.len().max(1)),
        };
        fault.copied().unwrap_or(Fault::Fine)
    }

    pub(crate) fn total_known(&self) -> bool {
        match self.source {
            Source::Seekable => true,
            Source::Streamed { total_known } | Source::Windowed { total_known, .. } => total_known,
        }
    }

    pub(crate) fn window(&self) -> Option<u64> {
        match self.source {
            Source::Windowed { window, .. } => Some(window * Q),
            _ => None,
        }
    }

    pub(crate) fn plan(&self, retry_policy: RetryPolicy) -> Plan {
        let total = self.total_known().then_some(self.len);
        let media = match self.source {
            Source::Seekable => Media::seekable(self.len),
            Source::Streamed { .. } => Media::streamed(total),
            Source::Windowed { window, .. } => Media::streamed(total).with_window(window * Q),
        };
        let upload_type = if self.single_request {
            UploadType::Media
        } else {
            UploadType::Resumable
        };
        let size = |multiples| ChunkSize::new(multiples * Q).expect("a multiple above zero");
        let chunking = self
            .chunk
            .map_or(Chunking::Adaptive, |chunk| Chunking::Fixed(size(chunk)));
        Plan::new(upload_type, media)
            .with_chunking(chunking)
            .with_retry_policy(retry_policy)
            .with_refreshable_token(self.refreshable)
    }

    /// Without an offset and a declared size an end takes the bytes that there are for all of them.
    /// A server that has lost some cannot know.
    fn without_undetectable_losses(mut self) -> Self {
        let ends_anywhere = matches!(
            self.dialect,
            Dialect::XGoogUpload(Habits {
                finish: Finish::Alone,
                ..
            })
        );
        if ends_anywhere && !self.total_known() {
            let loses = |fault: &Fault| matches!(fault, Fault::Restart { .. });
            self.faults.retain(|fault| !loses(fault));
        }
        self
    }

    /// Returns a retry policy that this number of consecutive faults does not exhaust.
    pub(crate) fn sufficient_retry_policy(&self) -> RetryPolicy {
        let faults = u32::try_from(self.faults.len()).expect("few faults");
        RetryPolicy::default()
            .with_schedule(Waits::default().with_waits(faults))
            .with_other_tries(faults + 1)
            .with_restarts(faults)
    }
}

fn len() -> impl Strategy<Value = u64> {
    let around = (0..12u64, -2..=2i64);
    let around = around.prop_map(|(multiples, off)| (multiples * Q).saturating_add_signed(off));
    prop_oneof![6 => around, 1 => Just(0), 1 => 0..Q, 3 => 0..8 * Q]
}

fn source() -> impl Strategy<Value = Source> {
    let windowed = (any::<bool>(), 1..=4u64);
    let windowed = windowed.prop_map(|(total_known, window)| Source::Windowed {
        total_known,
        window,
    });
    prop_oneof![
        4 => Just(Source::Seekable),
        3 => any::<bool>().prop_map(|total_known| Source::Streamed { total_known }),
        2 => windowed,
    ]
}

fn dialect() -> impl Strategy<Value = Dialect> {
    let google = any::<[bool; 3]>().prop_map(|[created, bare_range, no_308]| {
        Dialect::Google(Options {
            created,
            bare_range,
            no_308,
        })
    });
    let finish = select(vec![Finish::WithData, Finish::Alone, Finish::AloneAtOffset]);
    let x_goog_upload = (any::<[bool; 2]>(), finish).prop_map(|([repeats, rounds], finish)| {
        Dialect::XGoogUpload(Habits {
            repeats,
            rounds,
            finish,
        })
    });
    prop_oneof![google, x_goog_upload]
}

fn late() -> impl Strategy<Value = u8> {
    prop_oneof![2 => Just(0), 1 => 1..=3u8]
}

fn torn() -> impl Strategy<Value = Fault> {
    let keep = select(vec![Keep::All, Keep::Floor, Keep::Nothing]);
    (0..=1000u16, keep, late()).prop_map(|(after, keep, late)| Fault::Torn { after, keep, late })
}

fn overload() -> impl Strategy<Value = Fault> {
    let status = select(vec![503u16, 500, 502, 504, 429, 408]);
    let retry_after = select(vec![None, None, Some(0), Some(7), Some(600)]);
    (status, any::<bool>(), retry_after, any::<bool>()).prop_map(
        |(status, effect, retry_after, page)| Fault::Overload {
            status,
            effect,
            retry_after,
            page,
        },
    )
}

fn unexpected() -> impl Strategy<Value = Fault> {
    let status = select(vec![200u16, 201, 202, 206, 302, 307, 409, 425]);
    (status, any::<bool>()).prop_map(|(status, effect)| Fault::Unexpected { status, effect })
}

/// Generates a fault after which an upload can continue.
fn recoverable() -> impl Strategy<Value = Fault> {
    prop_oneof![
        12 => Just(Fault::Fine),
        3 => Just(Fault::Lost),
        6 => torn(),
        4 => late().prop_map(|late| Fault::ReplyLost { late }),
        4 => overload(),
        1 => Just(Fault::RateLimit),
        1 => select(vec![404, 410]).prop_map(|status| Fault::SessionDies { status }),
        1 => Just(Fault::NoRange),
        1 => Just(Fault::OddRange),
        2 => unexpected(),
        1 => (0..=1000u16).prop_map(|left| Fault::Restart { left }),
        2 => any::<bool>().prop_map(|effect| Fault::Kill { effect }),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    let asks_too_much = Fault::Overload {
        status: 503,
        effect: false,
        retry_after: Some(601),
        page: false,
    };
    prop_oneof![
        40 => recoverable(),
        3 => Just(Fault::Unauthorized),
        1 => Just(Fault::Cancel),
        1 => Just(asks_too_much),
    ]
}

fn with_faults(faults: impl Strategy<Value = Vec<Fault>>) -> impl Strategy<Value = Schedule> {
    let how = (
        len(),
        source(),
        proptest::bool::weighted(0.05),
        proptest::option::of(1..=5u64),
        proptest::bool::weighted(0.8),
        dialect(),
    );
    let schedules = (how, faults).prop_map(
        |((len, source, single_request, chunk, refreshable, dialect), faults)| Schedule {
            len,
            source: if single_request {
                Source::Seekable
            } else {
                source
            },
            single_request,
            chunk,
            refreshable,
            dialect,
            faults,
            after: After::Fine,
        },
    );
    schedules.prop_map(Schedule::without_undetectable_losses)
}

/// Generates any faults, followed by none.
pub(crate) fn any_faults() -> impl Strategy<Value = Schedule> {
    with_faults(proptest::collection::vec(fault(), 0..24))
}

/// Generates a few faults that repeat. Cases that need not end soon are left out: a client that is
/// killed again and again, and a network that lets a thousandth of the rest through each time.
pub(crate) fn endless_faults() -> impl Strategy<Value = Schedule> {
    let fault = fault().prop_map(|fault| match fault {
        Fault::Kill { .. } => Fault::Lost,
        Fault::Torn { after, keep, late } => Fault::Torn {
            after: after - after % 100,
            keep,
            late,
        },
        other => other,
    });
    with_faults(proptest::collection::vec(fault, 1..8)).prop_map(|schedule| Schedule {
        after: After::Again,
        ..schedule
    })
}

/// Generates faults after which the upload can continue, with the token refused once. If media is
/// windowed, no fault makes the server lose committed bytes.
pub(crate) fn recoverable_faults() -> impl Strategy<Value = Schedule> {
    let faults = (
        proptest::collection::vec(recoverable(), 1..16),
        proptest::option::of(any::<proptest::sample::Index>()),
    );
    let faults = faults.prop_map(|(mut faults, unauthorized)| {
        if let Some(index) = unauthorized {
            *index.get_mut(&mut faults) = Fault::Unauthorized;
        }
        faults
    });
    with_faults(faults).prop_map(|mut schedule| {
        schedule.refreshable = true;
        if schedule.window().is_some() {
            schedule.faults.retain(|fault| !fault.goes_back());
        }
        schedule
    })
}
