//! The sessions that many clients left behind: most are dead, and some live.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use windlass_store::{
    ExpectedSize, ExtentChanges, Ledger as _, MediaId, MediaLocation, MediaRef, NewSession,
    OffsetCommit, Progress, SessionId, SessionState, StoredName, Timestamp, Vault as _,
};
use windlass_store_local::{Durability, LocalStore, Options};
use windlass_testkit::rng::Rng;

/// Calls to the store at the same time.
const SIDE_BY_SIDE: u64 = 256;

/// Numbers of sessions of which one has media in the ledger, one has media in the vault, and one
/// lives.
const SMALL_EVERY: u64 = 10;
const FILE_EVERY: u64 = 100;
const LIVING_EVERY: u64 = 100;

/// How long a session lives.
const LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The approximate length of a session's request context.
const CONTEXT_LEN: usize = 300;

const SMALL_LEN: usize = 512;
const FILE_LEN: usize = 64 << 10;

/// The media that is deleted last: of the session that died last, and the last in the order of
/// names.
const LAST: MediaId = MediaId::from_bytes([0xff; 16]);

/// Sessions in a store.
#[derive(Clone)]
pub(super) struct SeededStore {
    sessions: u64,
    rng: Rng,
    /// When the last session was left.
    now: Timestamp,
    last_to_go: PathBuf,
}

/// The wrong data that was found after the sweep.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    /// Living sessions that are gone.
    pub(super) lost: u64,
    /// Dead sessions that are there.
    pub(super) left: u64,
    /// Media of dead sessions that is still in the vault.
    pub(super) undeleted: u64,
}

impl SeededStore {
    /// Makes the store and closes it. Everything is on the disk then, as far as the file system
    /// knows.
    pub(super) fn fill(data: &Path, sessions: u64, seed: u64) -> anyhow::Result<Self> {
        let name = LAST.to_string();
        let seeded_store = Self {
            sessions,
            rng: Rng::new(seed),
            now: now()?,
            last_to_go: data
                .join("vault")
                .join(&name[..2])
                .join(&name[2..4])
                .join(&name),
        };
        let store = Arc::new(open(data, Durability::Os)?);
        runtime()?.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for first in 0..SIDE_BY_SIDE {
                let (store, sessions) = (Arc::clone(&store), seeded_store.of(first));
                tasks.spawn(async move { make(&store, sessions).await });
            }
            while let Some(made) = tasks.join_next().await {
                made??;
            }
            anyhow::Ok(())
        })?;
        drop(store);
        // Otherwise the server's first sync would have to write everything.
        rustix::fs::syncfs(std::fs::File::open(data)?)?;
        Ok(seeded_store)
    }

    /// The file that is there as long as the sweep is not at its end.
    pub(super) fn last_to_go(&self) -> &Path {
        &self.last_to_go
    }

    /// Opens the store after the server has ended and examines its content.
    pub(super) fn examine(&self, data: &Path) -> anyhow::Result<Leftovers> {
        let store = open(data, Durability::Disk)?;
        runtime()?.block_on(async {
            let mut leftovers = Leftovers::default();
            for number in 0..self.sessions {
                let found = store.ledger.session(self.id(number)).await?.is_some();
                match (is_living(number), found) {
                    (true, false) => leftovers.lost += 1,
                    (false, true) => leftovers.left += 1,
                    _ => {}
                }
            }
            leftovers.undeleted = self.undeleted(&store).await;
            Ok(leftovers)
        })
    }

    /// Counts undeleted media of dead sessions. Leftovers of killed clients are not counted,
    /// because the sweep leaves them alone for a day.
    async fn undeleted(&self, store: &LocalStore) -> u64 {
        let mut undeleted = 0;
        for number in (0..self.sessions).filter(|number| !is_living(*number)) {
            if let Some((at, _)) = self.left(number).media
                && at.location == MediaLocation::Vault
            {
                undeleted +=
                    u64::from(store.vault.read(&StoredName::of(at.id), 0..1).await.is_ok());
            }
        }
        undeleted
    }

    /// Every `SIDE_BY_SIDE`th session from `first` on.
    fn of(&self, first: u64) -> impl Iterator<Item = Left> + use<> {
        let seeded_store = self.clone();
        let step = usize::try_from(SIDE_BY_SIDE).expect("a small number");
        let numbers = (first..self.sessions).step_by(step);
        numbers.map(move |number| seeded_store.left(number))
    }

    fn id(&self, number: u64) -> SessionId {
        self.left(number).session.id
    }

    /// The session with this number. One session was started each millisecond, and the dead
    /// sessions a lifetime earlier.
    fn left(&self, number: u64) -> Left {
        let mut rng = self.rng.fork(number);
        let before = Duration::from_millis(self.sessions - number);
        let recently = self.now.saturating_sub(before);
        let created = if is_living(number) {
            recently
        } else {
            recently.saturating_sub(LIFETIME)
        };
        Left {
            session: NewSession {
                id: SessionId::from_bytes(named(created, &mut rng)),
                context: vec![b'x'; CONTEXT_LEN],
                created,
                expires: created.saturating_add(LIFETIME),
                total: None,
                owner: None,
                dialect: "google".to_owned(),
            },
            media: media(&mut rng, number, self.sessions, created),
        }
    }
}

/// One session that a client left.
struct Left {
    session: NewSession,
    media: Option<(MediaRef, Bytes)>,
}

fn is_living(number: u64) -> bool {
    number % LIVING_EVERY == 7
}

fn media(
    rng: &mut Rng,
    number: u64,
    sessions: u64,
    created: Timestamp,
) -> Option<(MediaRef, Bytes)> {
    let (id, location, len) = match number {
        _ if number + 1 == sessions => (LAST, MediaLocation::Vault, FILE_LEN),
        _ if number.is_multiple_of(FILE_EVERY) => (
            MediaId::from_bytes(random(rng)),
            MediaLocation::Vault,
            FILE_LEN,
        ),
        _ if number % SMALL_EVERY == 7 => {
            let id = MediaId::from_bytes(named(created, rng));
            (id, MediaLocation::Ledger, SMALL_LEN)
        }
        _ => return None,
    };
    Some((MediaRef { id, location }, Bytes::from(vec![b'm'; len])))
}

async fn make(store: &LocalStore, sessions: impl Iterator<Item = Left>) -> anyhow::Result<()> {
    for Left { session, media } in sessions {
        let id = session.id;
        let lease = store.ledger.start(session).await?;
        let Some((at, bytes)) = media else { continue };
        if at.location == MediaLocation::Vault {
            let writer = store.vault.create(at.id, ExpectedSize::default()).await?;
            writer.append(0, vec![bytes.clone()]).await?;
        }
        let commit = store.ledger.commit_offset(id, lease, advance(at, bytes));
        commit.await?;
    }
    Ok(())
}

/// Checksums stay zero: these sessions are never continued.
fn advance(at: MediaRef, bytes: Bytes) -> OffsetCommit {
    OffsetCommit {
        from: 0,
        progress: Progress {
            offset: bytes.len() as u64,
            media: Some(at),
            ..Progress::none(None)
        },
        small_media: (at.location == MediaLocation::Ledger).then_some(bytes),
        extents: ExtentChanges::default(),
        state: SessionState::Active,
        expires: None,
        releases: true,
    }
}

/// A name as the server gives it: a moment, and random bytes.
fn named<const N: usize>(created: Timestamp, rng: &mut Rng) -> [u8; N] {
    let mut name = random(rng);
    let moment = created.to_sortable_bytes();
    name[..moment.len()].copy_from_slice(&moment);
    name
}

fn random<const N: usize>(rng: &mut Rng) -> [u8; N] {
    let mut bytes = [0; N];
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_be_bytes());
    }
    bytes
}

#[expect(
    clippy::disallowed_methods,
    reason = "what is dead is dead by the clock of the server under proof, which is a process of its own"
)]
fn now() -> anyhow::Result<Timestamp> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(Timestamp::from_millis(u64::try_from(since.as_millis())?))
}

fn open(data: &Path, durability: Durability) -> anyhow::Result<LocalStore> {
    let options = Options::default().durability(durability);
    Ok(LocalStore::open(data, options)?)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().build()
}
