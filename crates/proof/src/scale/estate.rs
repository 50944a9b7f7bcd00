//! What many clients left behind: sessions that have died, and some that live.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use windlass_store::{
    Advance, Epoch, Ledger as _, MediaId, MediaRef, NewSession, Place, Progress, SessionId,
    SessionState, Timestamp, Vault as _,
};
use windlass_store_local::{Durability, LocalStore, Options};
use windlass_testkit::dice::Dice;

/// Calls to the store at the same time.
const SIDE_BY_SIDE: u64 = 256;

/// Of so many sessions one has media in the ledger, and one in the vault, and one lives.
const SMALL_EVERY: u64 = 10;
const FILE_EVERY: u64 = 100;
const LIVING_EVERY: u64 = 100;

/// About what the server remembers of a request.
const CONTEXT_LEN: usize = 300;

const SMALL_LEN: usize = 512;
const FILE_LEN: usize = 64 << 10;

/// The media that is deleted last: of the session that died last, and the last in the order of names.
const LAST: MediaId = MediaId::from_bytes([0xff; 16]);

/// Sessions in a store.
pub(super) struct Estate {
    sessions: u64,
    dice: Dice,
    last_to_go: PathBuf,
}

/// What was found after the sweep, and should not have been.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// Living sessions that are gone.
    pub(super) lost: u64,
    /// Dead sessions that are there.
    pub(super) left: u64,
    /// Media of dead sessions that is still in the vault.
    pub(super) undeleted: u64,
}

impl Estate {
    /// Makes the store and closes it. Everything is on the disk then, as far as the file system knows.
    pub(super) fn fill(data: &Path, sessions: u64, seed: u64) -> anyhow::Result<Self> {
        let name = LAST.to_string();
        let estate = Self {
            sessions,
            dice: Dice::new(seed),
            last_to_go: data
                .join("vault")
                .join(&name[..2])
                .join(&name[2..4])
                .join(&name),
        };
        let now = now()?;
        let store = Arc::new(open(data, Durability::Os)?);
        runtime()?.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for first in 0..SIDE_BY_SIDE {
                let (store, sessions) = (Arc::clone(&store), estate.of(first, now));
                tasks.spawn(async move { make(&store, sessions).await });
            }
            while let Some(made) = tasks.join_next().await {
                made??;
            }
            anyhow::Ok(())
        })?;
        drop(store);
        // Else the server's first sync would carry it all.
        rustix::fs::syncfs(std::fs::File::open(data)?)?;
        Ok(estate)
    }

    /// The file that is there as long as the sweep is not at its end.
    pub(super) fn last_to_go(&self) -> &Path {
        &self.last_to_go
    }

    /// Opens the store that a server has left and looks what is in it.
    pub(super) fn examine(&self, data: &Path) -> anyhow::Result<Remains> {
        let store = open(data, Durability::Disk)?;
        runtime()?.block_on(async {
            let mut remains = Remains::default();
            for number in 0..self.sessions {
                let found = store.ledger.session(self.id(number)).await?.is_some();
                match (is_living(number), found) {
                    (true, false) => remains.lost += 1,
                    (false, true) => remains.left += 1,
                    _ => {}
                }
            }
            remains.undeleted = self.undeleted(&store).await;
            Ok(remains)
        })
    }

    /// What a kill left of the clients that were served is not counted: the sweep leaves that alone for a day.
    async fn undeleted(&self, store: &LocalStore) -> u64 {
        let mut undeleted = 0;
        for number in (0..self.sessions).filter(|number| !is_living(*number)) {
            let mut dice = self.dice.fork(number);
            session_id(&mut dice);
            if let Some((at, _)) = media(&mut dice, number, self.sessions)
                && at.place == Place::Vault
            {
                undeleted += u64::from(store.vault.read(at.id, 0..1).await.is_ok());
            }
        }
        undeleted
    }

    /// Every `SIDE_BY_SIDE`th session from `first` on.
    fn of(&self, first: u64, now: Timestamp) -> impl Iterator<Item = Left> + use<> {
        let (dice, sessions) = (self.dice.clone(), self.sessions);
        let step = usize::try_from(SIDE_BY_SIDE).expect("a small number");
        (first..sessions)
            .step_by(step)
            .map(move |number| Left::new(&dice, number, sessions, now))
    }

    fn id(&self, number: u64) -> SessionId {
        session_id(&mut self.dice.fork(number))
    }
}

/// One session that a client left.
struct Left {
    session: NewSession,
    media: Option<(MediaRef, Bytes)>,
}

impl Left {
    fn new(dice: &Dice, number: u64, sessions: u64, now: Timestamp) -> Self {
        let mut dice = dice.fork(number);
        let id = session_id(&mut dice);
        let expires = if is_living(number) {
            now.saturating_add(Duration::from_secs(7 * 24 * 60 * 60))
        } else {
            now.saturating_sub(Duration::from_millis(sessions - number))
        };
        Self {
            session: NewSession {
                id,
                context: vec![b'x'; CONTEXT_LEN],
                created: now.saturating_sub(Duration::from_secs(8 * 24 * 60 * 60)),
                expires,
                total: None,
            },
            media: media(&mut dice, number, sessions),
        }
    }
}

fn is_living(number: u64) -> bool {
    number % LIVING_EVERY == 7
}

fn media(dice: &mut Dice, number: u64, sessions: u64) -> Option<(MediaRef, Bytes)> {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&dice.throw().to_be_bytes());
    bytes[8..].copy_from_slice(&dice.throw().to_be_bytes());
    let (id, place, len) = match number {
        _ if number + 1 == sessions => (LAST, Place::Vault, FILE_LEN),
        _ if number.is_multiple_of(FILE_EVERY) => {
            (MediaId::from_bytes(bytes), Place::Vault, FILE_LEN)
        }
        _ if number % SMALL_EVERY == 7 => (MediaId::from_bytes(bytes), Place::Ledger, SMALL_LEN),
        _ => return None,
    };
    Some((MediaRef { id, place }, Bytes::from(vec![b'm'; len])))
}

async fn make(store: &LocalStore, sessions: impl Iterator<Item = Left>) -> anyhow::Result<()> {
    for Left { session, media } in sessions {
        let id = session.id;
        store.ledger.start(session).await?;
        let Some((at, bytes)) = media else { continue };
        if at.place == Place::Vault {
            let writer = store.vault.create(at.id).await?;
            writer.write(0, vec![bytes.clone()]).await?;
        }
        store.ledger.lease(id).await?;
        store
            .ledger
            .advance(id, Epoch(1), advance(at, bytes))
            .await?;
    }
    Ok(())
}

/// Checksums stay zero: nobody goes on with these.
fn advance(at: MediaRef, bytes: Bytes) -> Advance {
    Advance {
        from: 0,
        progress: Progress {
            offset: bytes.len() as u64,
            media: Some(at),
            ..Progress::none(None)
        },
        small_media: (at.place == Place::Ledger).then_some(bytes),
        state: SessionState::Active,
        expires: None,
    }
}

fn session_id(dice: &mut Dice) -> SessionId {
    let mut bytes = [0; 32];
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&dice.throw().to_be_bytes());
    }
    SessionId::from_bytes(bytes)
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
    let options = Options {
        durability,
        ..Options::default()
    };
    Ok(LocalStore::open(data, options)?)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().build()
}
