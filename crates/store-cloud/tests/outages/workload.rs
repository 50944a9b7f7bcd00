//! Callers that make changes and compare each answer with what the ledger then has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use tokio::task::JoinSet;
use windlass_store::{EndSession, Ledger, LedgerError, Session, SessionId};
use windlass_store_cloud::CloudLedger;

use crate::sample;

/// Repeats a call until the database answers.
macro_rules! repeat {
    ($call:expr) => {
        loop {
            match $call.await {
                Ok(answer) => break answer,
                Err(LedgerError::Unavailable(_) | LedgerError::Unknown(_)) => {
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("no other error may come: {error:?}"),
            }
        }
    };
}

/// Callers that run until they are stopped.
pub(crate) struct Workload {
    shared: Arc<Shared>,
    callers: JoinSet<()>,
}

struct Shared {
    ledger: CloudLedger,
    stops: AtomicBool,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    acknowledged: AtomicUsize,
    unavailable: AtomicUsize,
    unknown: AtomicUsize,
}

/// Number of answers of each kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) acknowledged: usize,
    pub(crate) unavailable: usize,
    pub(crate) unknown: usize,
}

impl Workload {
    pub(crate) fn start(ledger: CloudLedger, callers: u8) -> Self {
        let shared = Arc::new(Shared {
            ledger,
            stops: AtomicBool::new(false),
            counts: Counts::default(),
        });
        let mut running = JoinSet::new();
        for n in 0..callers {
            running.spawn(append(Arc::clone(&shared), n));
            running.spawn(insert(Arc::clone(&shared), n));
        }
        Self {
            shared,
            callers: running,
        }
    }

    pub(crate) fn seen(&self) -> Seen {
        let counts = &self.shared.counts;
        Seen {
            acknowledged: counts.acknowledged.load(Relaxed),
            unavailable: counts.unavailable.load(Relaxed),
            unknown: counts.unknown.load(Relaxed),
        }
    }

    /// Waits for the callers. Panics if one has found a difference.
    pub(crate) async fn stop(mut self) -> Seen {
        self.shared.stops.store(true, Relaxed);
        while let Some(ended) = self.callers.join_next().await {
            ended.unwrap();
        }
        self.seen()
    }
}

/// What an answer says of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Made,
    NotMade,
    Unknown,
}

impl Shared {
    fn is_stopped(&self) -> bool {
        self.stops.load(Relaxed)
    }

    fn judge(&self, answer: &Result<(), LedgerError>) -> Answer {
        let counts = &self.counts;
        let (counter, answer) = match answer {
            Ok(()) => (&counts.acknowledged, Answer::Made),
            Err(LedgerError::Unavailable(_)) => (&counts.unavailable, Answer::NotMade),
            Err(LedgerError::Unknown(_)) => (&counts.unknown, Answer::Unknown),
            Err(error) => panic!("no other error may come: {error:?}"),
        };
        counter.fetch_add(1, Relaxed);
        answer
    }

    async fn session(&self, id: SessionId) -> Session {
        let session = repeat!(self.ledger.session(id));
        session.expect("it was started and is never deleted")
    }
}

/// Commits offsets of one session, one byte at a time.
async fn append(shared: Arc<Shared>, n: u8) {
    let new = sample::session(n);
    let id = new.id;
    loop {
        match shared.ledger.start(new.clone()).await {
            // An earlier attempt of unknown outcome has started it.
            Ok(_) | Err(LedgerError::Conflict) => break,
            Err(LedgerError::Unavailable(_) | LedgerError::Unknown(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    let mut offset = 0;
    while !shared.is_stopped() {
        let leased = repeat!(shared.ledger.lease(id));
        let leased = leased.expect("it was started");
        assert_eq!(leased.session.progress.offset, offset, "session {n}");
        for _ in 0..5 {
            let commit = sample::commit(offset, offset + 1);
            let answer = shared.ledger.commit_offset(id, leased.lease, commit).await;
            match shared.judge(&answer) {
                Answer::Made => offset += 1,
                Answer::NotMade => break,
                Answer::Unknown => {
                    // A commit that was on its way may come after a read. The next lease fences it.
                    let leased = repeat!(shared.ledger.lease(id));
                    let now = leased.expect("it was started").session.progress.offset;
                    assert!((offset..=offset + 1).contains(&now), "session {n}");
                    offset = now;
                    break;
                }
            }
        }
    }
    let leased = repeat!(shared.ledger.lease(id));
    let lease = leased.expect("it was started").lease;
    assert_eq!(shared.session(id).await.progress.offset, offset);
    let ended = shared.ledger.end(id, lease, EndSession::Cancelled).await;
    shared.judge(&ended);
}

/// Inserts resources, two in each change set.
async fn insert(shared: Arc<Shared>, n: u8) {
    let collection = format!("resources of {n}");
    for step in 0.. {
        if shared.is_stopped() {
            break;
        }
        let ids = [format!("{step} a"), format!("{step} b")];
        let rows = ids.each_ref();
        let rows = rows.map(|id| sample::resource(&collection, id, None));
        let changes = sample::insert(rows.into());
        let answer = shared.ledger.apply(changes).await;
        let answer = shared.judge(&answer);
        let keys = ids.each_ref().map(|id| (&collection[..], &id[..]));
        let found = repeat!(shared.ledger.fetch(&keys));
        let is_there = found[0].is_some();
        assert_eq!(is_there, found[1].is_some(), "all or nothing");
        match answer {
            Answer::Made => assert!(is_there, "{n}, {step}: acknowledged and lost"),
            Answer::NotMade => assert!(!is_there, "{n}, {step}: refused and made"),
            Answer::Unknown => {}
        }
    }
}
