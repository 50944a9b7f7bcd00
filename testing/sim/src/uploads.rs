//! The uploads of a run, and the clients that carry them out.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use windlass_client::{
    ChunkSize, Chunking, Client, Journal, RateLimit, RetryPolicy, Schedule, Source, Upload,
    UploadType,
};
use windlass_testkit::rng::Rng;

use crate::oracle::Oracle;
use crate::os::trace::note;
use crate::wire::Wire;

/// Chunks are multiples of this.
const GRANULARITY: u64 = 256 * 1024;

/// The pause before a client, or its supervisor, tries again.
const AGAIN: Duration = Duration::from_millis(300);

/// Bytes in a second: slow enough for faults to meet an upload, and not held back at all.
const RATES: [NonZeroU64; 3] = [
    NonZeroU64::new(200_000).expect("it is not 0"),
    NonZeroU64::new(1_000_000).expect("it is not 0"),
    NonZeroU64::MAX,
];

/// One upload.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Its name, which no other has.
    pub(crate) name: String,
    /// The media.
    pub(crate) file: PathBuf,
    pub(crate) style: UploadStyle,
    chunking: Chunking,
    /// Bytes in a second.
    rate: NonZeroU64,
}

/// How it is uploaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadStyle {
    /// In a session, to its end.
    Session,
    /// In a session that is cancelled after some time.
    Cancelled(Duration),
    /// In one request. Sent twice, it may make two resources: that is the protocol's.
    OneRequest,
}

/// How far an upload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Open,
    Finished,
    Cancelled,
}

/// The uploads of one client, and how far they are. It survives the client.
#[derive(Debug, Clone)]
pub(crate) struct Work(Rc<Inner>);

#[derive(Debug)]
struct Inner {
    client: String,
    journal: PathBuf,
    plans: Vec<Plan>,
    outcomes: RefCell<Vec<Outcome>>,
    tries: Cell<u64>,
}

impl Work {
    /// Plans some uploads and writes their media into `directory`.
    pub(crate) fn plan(client: String, directory: &Path, rng: &mut Rng) -> Self {
        let directory = directory.join(&client);
        std::fs::create_dir_all(&directory).expect("there is room for media");
        let count = rng.within(2..5);
        let plans: Vec<Plan> = (0..count)
            .map(|index| Plan::draw(format!("{client}-{index}"), &directory, rng))
            .collect();
        Self(Rc::new(Inner {
            client,
            journal: directory.join("journal"),
            outcomes: RefCell::new(vec![Outcome::Open; plans.len()]),
            plans,
            tries: Cell::new(0),
        }))
    }

    /// The plans with their outcomes.
    pub(crate) fn outcomes(&self) -> Vec<(Plan, Outcome)> {
        let outcomes = self.0.outcomes.borrow();
        self.0
            .plans
            .iter()
            .cloned()
            .zip(outcomes.iter().copied())
            .collect()
    }

    pub(crate) fn is_done(&self) -> bool {
        !self.0.outcomes.borrow().contains(&Outcome::Open)
    }

    /// Carries out the open uploads, in one life of a client's process after another.
    pub(crate) async fn run(self, oracle: Oracle) -> turmoil::Result {
        let wire = Wire::new(&self.0.client, oracle);
        let client = Client::with_transport(Arc::new(wire), None);
        for (index, plan) in self.0.plans.iter().enumerate() {
            while self.0.outcomes.borrow()[index] == Outcome::Open {
                self.0.tries.set(self.0.tries.get() + 1);
                let outcome = self.attempt(&client, plan).await;
                note!("{:<8} {}: {outcome:?}", self.0.client, plan.name);
                self.0.outcomes.borrow_mut()[index] = outcome;
                if outcome == Outcome::Open {
                    sleep(AGAIN).await;
                }
            }
        }
        Ok(())
    }

    async fn attempt(&self, client: &Client, plan: &Plan) -> Outcome {
        let upload = plan.upload(&self.0.journal, self.0.tries.get());
        let Err(error) = client.upload(upload, Source::path(&plan.file)).await else {
            return Outcome::Finished;
        };
        note!("{:<8} {}: {error}", self.0.client, plan.name);
        match (plan.style, error.session()) {
            (UploadStyle::Cancelled(_), Some(session)) => match client.cancel(session).await {
                Ok(_) => Outcome::Cancelled,
                Err(_) => Outcome::Open,
            },
            _ => Outcome::Open,
        }
    }
}

impl Plan {
    fn draw(name: String, directory: &Path, rng: &mut Rng) -> Self {
        let size = match rng.below(6) {
            0 => rng.within(0..1024),
            1 => rng.within(1024..64 * 1024 + 2),
            2 | 3 => rng.within(64 * 1024..GRANULARITY),
            _ => rng.within(GRANULARITY..4 * GRANULARITY),
        };
        let mut media = vec![0; usize::try_from(size).expect("it is short")];
        rng.fill(&mut media);
        let file = directory.join(&name);
        std::fs::write(&file, media).expect("there is room for media");
        let chunk = ChunkSize::new(rng.pick(&[1, 2]) * GRANULARITY).expect("a multiple");
        Self {
            name,
            file,
            style: match rng.below(8) {
                0 => UploadStyle::OneRequest,
                1 | 2 => UploadStyle::Cancelled(Duration::from_millis(rng.within(5..800))),
                _ => UploadStyle::Session,
            },
            chunking: rng.pick(&[Chunking::Adaptive, Chunking::Fixed(chunk)]),
            rate: rng.pick(&RATES),
        }
    }

    fn upload(&self, journal: &Path, tries: u64) -> Upload {
        let url = "http://server/upload/farm/v1/animals"
            .parse()
            .expect("a URL");
        let journal = Journal::open(journal).expect("there is room for a journal");
        let schedule = Schedule::default()
            .with_unit(Duration::from_millis(50))
            .with_waits(6)
            .with_longest(Duration::from_secs(1));
        let upload = Upload::new(url)
            .and_then(|upload| upload.metadata(&json!({ "name": self.name })))
            .and_then(|upload| upload.content_type("application/octet-stream"))
            .expect("the upload is well-formed")
            .chunking(self.chunking)
            .rate_limit(RateLimit::new(self.rate))
            .retry_policy(RetryPolicy::default().with_schedule(schedule))
            .journal(journal);
        match self.style {
            UploadStyle::OneRequest => upload.upload_type(UploadType::Multipart),
            UploadStyle::Session => upload.upload_type(UploadType::Resumable),
            // Each time later, so that it gets as far as a session some time.
            UploadStyle::Cancelled(after) => {
                let after = after.saturating_mul(u32::try_from(tries).unwrap_or(u32::MAX));
                upload.upload_type(UploadType::Resumable).timeout(after)
            }
        }
    }
}
