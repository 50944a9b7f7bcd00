//! The ledger as plain sets, which state the contract without an implementation.
//!
//! The model differs most from an implementation in how it finds garbage. An implementation follows
//! each reference that is removed. Here garbage is media that was referenced before a step and is
//! not after it.

use std::collections::{BTreeMap, BTreeSet};

use windlass_store::{MediaLocation, SessionState};

/// A call of a ledger. Sessions, resources and media have small numbers, so that calls concern the
/// same ones.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Start {
        session: u8,
        expires: u64,
    },
    Lease {
        session: u8,
    },
    OffsetCommit {
        holder: Holder,
        from: From,
        more: u8,
        media: Option<Named>,
        state: SessionState,
    },
    End {
        holder: Holder,
        state: SessionState,
    },
    Apply {
        finish: Option<(Holder, Option<Named>)>,
        small: Option<u8>,
        new: Option<u8>,
        /// Further media that comes with the changes.
        added: Vec<Named>,
        changes: Vec<Change>,
        /// Resources with the versions that are expected before the changes.
        expect: Vec<(u8, Option<u64>)>,
        /// Whether no resource is expected after the changes.
        expect_empty: bool,
    },
    Expire {
        now: u64,
    },
    ForgetGarbage,
    Restart,
}

/// A session, and whether the caller holds its newest lease or the one before that.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holder {
    pub(super) session: u8,
    pub(super) is_late: bool,
}

/// Whether a commit starts at the offset of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    Offset,
    Elsewhere,
}

/// A media, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    pub(super) media: u8,
    pub(super) is_small: bool,
}

impl Named {
    pub(super) fn place(self) -> MediaLocation {
        if self.is_small {
            MediaLocation::Ledger
        } else {
            MediaLocation::Vault
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Insert {
        id: u8,
        media: Option<Named>,
    },
    Replace {
        id: u8,
        media: Option<Named>,
        expected: u64,
    },
    Delete {
        id: u8,
        expected: u64,
    },
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Count(usize),
    /// A lease with its epoch; `None` if there is no such session.
    Leased(Option<u64>),
    Fenced,
    Conflict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) state: SessionState,
    pub(super) expires: u64,
    pub(super) offset: u64,
    pub(super) epoch: u64,
    /// Epoch after a restart.
    kept_epoch: u64,
    /// Whether a lease was given out since the last restart.
    is_leased: bool,
    pub(super) media: Option<Named>,
}

/// The observable state of a ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) sessions: BTreeMap<u8, Session>,
    /// Version and media.
    pub(super) resources: BTreeMap<u8, (u64, Option<Named>)>,
    pub(super) small_media: BTreeMap<u8, u64>,
    pub(super) garbage: BTreeSet<u8>,
}

impl Reference {
    /// Takes a step. A refused one changes nothing.
    pub(super) fn take(&mut self, step: &Step) -> End {
        let mut next = self.clone();
        let mut brought = BTreeSet::new();
        match next.try_step(step, &mut brought) {
            Ok(end) => {
                brought.extend(self.names());
                next.drop_unnamed(&brought);
                *self = next;
                end
            }
            Err(refused) => refused,
        }
    }

    /// Returns all media that sessions and resources reference.
    pub(super) fn names(&self) -> BTreeSet<Named> {
        let sessions = self.sessions.values().filter_map(|session| session.media);
        sessions
            .chain(self.resources.values().filter_map(|(_, media)| *media))
            .collect()
    }

    /// Returns the bytes that are stored in the ledger at an offset.
    pub(super) fn small_bytes(offset: u64) -> Vec<u8> {
        offset.to_be_bytes().to_vec()
    }

    fn drop_unnamed(&mut self, before: &BTreeSet<Named>) {
        let after = self.names();
        for lost in before.difference(&after) {
            if lost.is_small {
                self.small_media.remove(&lost.media);
            } else {
                self.garbage.insert(lost.media);
            }
        }
    }

    #[expect(
        clippy::too_many_lines,
        reason = "one arm for each transition of the model"
    )]
    fn try_step(&mut self, step: &Step, brought: &mut BTreeSet<Named>) -> Result<End, End> {
        match step {
            Step::Start { session, expires } => self.start(*session, *expires)?,
            Step::Lease { session } => return Ok(self.lease(*session)),
            Step::OffsetCommit {
                holder,
                from,
                more,
                media,
                state,
            } => {
                let session = self.held(*holder)?;
                if *from == From::Elsewhere {
                    return Err(End::Fenced);
                }
                session.offset += u64::from(*more);
                session.media = *media;
                session.state = *state;
                let offset = session.offset;
                if let Some(Named {
                    media,
                    is_small: true,
                }) = *media
                {
                    self.small_media.insert(media, offset);
                }
            }
            Step::End { holder, state } => {
                let session = self.held(*holder)?;
                session.state = *state;
                session.media = None;
            }
            Step::Apply {
                finish,
                small,
                new,
                added,
                changes,
                expect,
                expect_empty,
            } => {
                let mut nameable = self.names();
                let before = self.resources.clone();
                if let Some((holder, media)) = finish {
                    let session = self.held(*holder)?;
                    session.state = SessionState::Finished;
                    session.media = None;
                    brought.extend(*media);
                }
                if let Some(media) = *small {
                    self.small_media.insert(media, 0);
                    brought.insert(Named {
                        media,
                        is_small: true,
                    });
                }
                brought.extend(new.map(|media| Named {
                    media,
                    is_small: false,
                }));
                for media in added {
                    if media.is_small {
                        self.small_media.insert(media.media, 0);
                    }
                    brought.insert(*media);
                }
                let version = |id: u8| before.get(&id).map(|(version, _)| *version);
                if expect
                    .iter()
                    .any(|(id, expected)| version(*id) != *expected)
                {
                    return Err(End::Conflict);
                }
                nameable.extend(&*brought);
                for change in changes {
                    let media = self.change(*change)?;
                    if media.is_some_and(|media| !nameable.contains(&media)) {
                        return Err(End::Conflict);
                    }
                    brought.extend(media);
                }
                if *expect_empty && !self.resources.is_empty() {
                    return Err(End::Conflict);
                }
            }
            Step::Expire { now } => return Ok(End::Count(self.expire(*now))),
            Step::ForgetGarbage => self.garbage.clear(),
            Step::Restart => {
                for session in self.sessions.values_mut() {
                    session.epoch = session.kept_epoch;
                    session.is_leased = false;
                }
            }
        }
        Ok(End::Done)
    }

    fn start(&mut self, id: u8, expires: u64) -> Result<(), End> {
        if self.sessions.contains_key(&id) {
            return Err(End::Conflict);
        }
        let state = SessionState::Active;
        let session = Session {
            state,
            expires,
            offset: 0,
            epoch: 0,
            kept_epoch: 0,
            is_leased: true,
            media: None,
        };
        self.sessions.insert(id, session);
        Ok(())
    }

    fn lease(&mut self, id: u8) -> End {
        let Some(session) = self.sessions.get_mut(&id) else {
            return End::Leased(None);
        };
        if matches!(
            session.state,
            SessionState::Active | SessionState::Finishing
        ) {
            session.epoch += 1;
            session.is_leased = true;
        }
        End::Leased(Some(session.epoch))
    }

    fn held(&mut self, holder: Holder) -> Result<&mut Session, End> {
        let session = self.sessions.get_mut(&holder.session).ok_or(End::Fenced)?;
        let is_open = matches!(
            session.state,
            SessionState::Active | SessionState::Finishing
        );
        if holder.is_late || !session.is_leased || !is_open {
            return Err(End::Fenced);
        }
        session.kept_epoch = session.epoch;
        Ok(session)
    }

    /// Returns the media that the change references.
    fn change(&mut self, change: Change) -> Result<Option<Named>, End> {
        let (id, expected, next) = match change {
            Change::Insert { id, media } => (id, None, Some((1, media))),
            Change::Replace {
                id,
                media,
                expected,
            } => (id, Some(expected), Some((expected + 1, media))),
            Change::Delete { id, expected } => (id, Some(expected), None),
        };
        if self.resources.get(&id).map(|(version, _)| *version) != expected {
            return Err(End::Conflict);
        }
        match next {
            Some(resource) => drop(self.resources.insert(id, resource)),
            None => drop(self.resources.remove(&id)),
        }
        Ok(next.and_then(|(_, media)| media))
    }

    fn expire(&mut self, now: u64) -> usize {
        let before = self.sessions.len();
        let lives =
            |session: &Session| session.expires >= now || session.state == SessionState::Finishing;
        self.sessions.retain(|_, session| lives(session));
        before - self.sessions.len()
    }
}
