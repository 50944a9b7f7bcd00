//! Uploads that are concatenated from partial uploads.
//!
//! A *partial* upload is a session that stays active when all its bytes are committed
//! ([`UploadKind::Partial`]). The final upload copies the bytes of such sessions into media of its
//! own and ends at once. The order of durable steps is the same as for any upload: first the media,
//! then one commit of the resource and of the end of the session. The row of the session is inserted
//! after the copy, so a crash during the copy leaves media that no row names, and nothing else.
//!
//! The partial uploads are not locked during the copy, which may take long: a client may ask for
//! them, and use them in another upload at the same time. Their bytes never change. If one is
//! cancelled or expires meanwhile, the copy is complete nevertheless, or the request is refused as
//! if the partial upload had gone before.
//!
//! [`UploadKind::Partial`]: windlass_session::UploadKind::Partial

use std::collections::HashMap;

use bytes::Bytes;
use windlass_digest::{Digests, Md5Sha256Hasher};
use windlass_session::partial_length;
use windlass_store::{
    Failpoint, Media, MediaLocation, MediaRef, Progress, Session, SessionId, SessionState,
    StoredName,
};

use crate::checksums::hash;
use crate::completion::{Completion, FinishedMedia, UploadContext as _};
use crate::concat::{Concat, Joined};
use crate::concatenation::Concatenation;
use crate::engine::Engine;
use crate::error::{Error, FromStore as _};
use crate::finish::{SessionRef, finish, media_of};
use crate::first_uses::Used;
use crate::leases::HeldLease;
use crate::offset_committer::OffsetCommitter;
use crate::requests::{InsertedSession, StartedSession};
use crate::retries::Retries;
use crate::seal::Seal;
use crate::sessions::{LockedSession, Target, snapshot};
use crate::sink::delete_unnamed;

/// A partial upload of a list.
#[derive(Debug)]
pub struct Partial<Q> {
    /// Its session.
    pub session: SessionId,
    /// The request in which it is named. The completion checks whether its sender may use the
    /// session.
    pub request: Q,
}

impl<C: Completion> Engine<C> {
    /// Makes an upload of the bytes of partial uploads, one after another, and finishes it. A
    /// partial upload may be in the list several times. Returns the session of the upload, which is
    /// finished, and the final reply. `dialect` is the name of the dialect of all these sessions.
    ///
    /// The bytes are copied by the vault. They are counted as [copies](crate::copies), except those of
    /// the first final upload with a partial upload.
    ///
    /// # Errors
    /// If a partial upload may not be used, is not complete, or is none, or if the upload is refused
    /// or fails. There is no resource then, except that the outcome may be unknown after an error of
    /// the ledger.
    ///
    /// # Cancel safety
    /// If the future is dropped, a task completes the upload, unless it has not begun.
    pub async fn concatenate_partials(
        &self,
        context: C::Context,
        partials: Vec<Partial<C::Request>>,
        dialect: &'static str,
    ) -> Result<(StartedSession, C::Reply), Error> {
        self.admit_upload()?;
        let used = self.check_partials(&partials, dialect).await?;
        let lengths = used.iter().map(|used| used.length);
        let length = lengths.fold(0, u64::saturating_add);
        self.admit_length(&context, Some(length), dialect)?;
        self.completion().admit(&context).await?;
        let engine = self.clone();
        self.run_to_completion(Box::pin(async move {
            let assembly = Assembly {
                concat: Concat::begin(&engine, context).await?,
                partials,
                dialect,
                used,
                length,
            };
            Box::pin(assembly.run()).await
        }))
        .await
    }

    /// Checks each of these partial uploads without a lease.
    async fn check_partials(
        &self,
        partials: &[Partial<C::Request>],
        dialect: &'static str,
    ) -> Result<Vec<Used>, Error> {
        let mut checked = Vec::with_capacity(partials.len());
        for partial in partials {
            let (session, context) = self.read_session(partial.target(dialect)).await?;
            checked.push(Used {
                session: session.id,
                expires: session.expires,
                length: self.partial_length(&session, &context, dialect)?,
            });
        }
        Ok(checked)
    }

    /// Returns the length of a complete partial upload of this dialect.
    fn partial_length(
        &self,
        session: &Session,
        context: &C::Context,
        dialect: &str,
    ) -> Result<u64, Error> {
        if session.dialect != dialect {
            return Err(Error::OtherDialect);
        }
        let rules = self.rules(session, context)?;
        Ok(partial_length(&snapshot(session), &rules)?)
    }
}

impl<Q> Partial<Q> {
    fn target(&self, dialect: &'static str) -> Target<'_, Q> {
        Target {
            id: self.session,
            dialect,
            request: &self.request,
        }
    }
}

/// An upload during its concatenation.
struct Assembly<'a, C: Completion> {
    concat: Concat<'a, C>,
    partials: Vec<Partial<C::Request>>,
    dialect: &'static str,
    /// The partial uploads, as they were checked.
    used: Vec<Used>,
    /// Length of the media.
    length: u64,
}

/// Concatenated media.
struct Assembled {
    joined: Joined,
    progress: Progress,
    digests: Digests,
}

impl<C: Completion> Assembly<'_, C> {
    async fn run(&self) -> Result<(StartedSession, C::Reply), Error> {
        let (engine, context) = (self.concat.engine, &self.concat.context);
        let parts = engine.parts();
        // Held until the row of the session counts the bytes.
        let mut reservation = parts.quotas.reservation(context.owner());
        let ledger = &*parts.stores.ledger;
        reservation.cover(ledger, self.length).await?;
        let used = self.used.iter().copied();
        let first_uses = engine.first_uses().record(used, parts.clock.now());
        let copied = self.length - first_uses.bytes;
        let copy = parts.copies.charge(|| context.caller(), copied)?;
        let assembled = match self.assemble().await {
            // The bytes of a partial upload that has been cancelled or has expired meanwhile.
            Err(error) if error.is_media_lost() => {
                engine.check_partials(&self.partials, self.dialect).await?;
                return Err(error);
            }
            assembled => assembled?,
        };
        let declared = Some(self.length).filter(|length| *length > 0);
        let inserted = engine.insert_session(context, declared, self.dialect);
        let ended = match inserted.await {
            Ok(inserted) => {
                drop(reservation);
                self.finish(inserted, &assembled).await
            }
            Err(error) => Err(error),
        };
        match &ended {
            Err(error) if !error.leaves_outcome_unknown() => self.discard(&assembled.joined).await,
            // If no row names the media, the sweep deletes it a day later.
            _ => {
                copy.keep();
                first_uses.keep();
            }
        }
        ended
    }

    /// Makes the media durable, unless it is small, and computes its digests.
    async fn assemble(&self) -> Result<Assembled, Error> {
        let media = Concatenation {
            sources: self.sources().await?,
            expect: Vec::new(),
        };
        let joined = self.concat.join(&media.sources, self.length).await?;
        let progress = Progress {
            offset: self.length,
            crc32c: media.crc32c(),
            media: Some(joined.at),
            ..Progress::none(Some(self.length))
        };
        match self.digests(&joined, &progress).await {
            Ok(digests) => Ok(Assembled {
                joined,
                progress,
                digests,
            }),
            Err(error) => {
                self.discard(&joined).await;
                Err(error)
            }
        }
    }

    /// Returns the media of the partial uploads, in their order, without those that are empty.
    async fn sources(&self) -> Result<Vec<Media>, Error> {
        let mut found: HashMap<SessionId, Option<Media>> = HashMap::new();
        let mut sources = Vec::with_capacity(self.partials.len());
        for partial in &self.partials {
            let media = match found.get(&partial.session) {
                Some(media) => media.clone(),
                None => self.source(partial).await?,
            };
            found.insert(partial.session, media.clone());
            sources.extend(media);
        }
        Ok(sources)
    }

    /// Returns the media of a partial upload, which can be read; `None` if it is empty.
    async fn source(&self, partial: &Partial<C::Request>) -> Result<Option<Media>, Error> {
        let engine = self.concat.engine;
        let mut retries = Retries::within(engine.parts().takeover_timeout);
        loop {
            let target = partial.target(self.dialect);
            let (session, context) = engine.read_session(target).await?;
            engine.partial_length(&session, &context, self.dialect)?;
            let Some(MediaRef { location, .. }) = session.progress.media else {
                return Ok(None);
            };
            let sealed = match location {
                MediaLocation::Ledger => Ok(Bytes::new()),
                MediaLocation::Vault => self.seal(target, context).await,
            };
            let digests = Digests {
                crc32c: session.progress.crc32c,
                md5: None,
                sha256: None,
            };
            match sealed {
                Ok(handle) => return Ok(Some(media_of("", &session.progress, handle, digests))),
                // Another request for the same partial upload has come, such as a query.
                Err(Error::Superseded) if retries.pause().await => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Seals the media of a partial upload under a lease. Returns its handle.
    async fn seal(
        &self,
        target: Target<'_, C::Request>,
        context: C::Context,
    ) -> Result<Bytes, Error> {
        let engine = self.concat.engine;
        let locked = engine.lease(target, context).await?;
        engine.partial_length(&locked.session, &locked.context, self.dialect)?;
        let LockedSession {
            session,
            lease,
            extents,
            guard,
            ..
        } = *locked;
        let (verify, total) = (session.progress.extent, session.progress.total);
        let rules = engine.commit_rules();
        let mut committer = OffsetCommitter::new(rules, session, lease, extents, total);
        let vault = &*engine.parts().stores.vault;
        let seal = committer.seal(vault, verify, SessionState::Active).await;
        drop(guard);
        Ok(seal?.handle)
    }

    /// Computes the digests of the media, and checks those that the client states.
    async fn digests(&self, joined: &Joined, progress: &Progress) -> Result<Digests, Error> {
        let (engine, context) = (self.concat.engine, &self.concat.context);
        let expected = context.expected_digests();
        let terms = engine.terms(context, self.dialect)?;
        let wanted = terms.wanted.union(expected.wanted());
        let digests = match &joined.small_bytes {
            None if !wanted.is_none() => {
                let handle = joined.handle.clone();
                let computed = engine.digests_of_sealed(progress, handle, wanted, &expected);
                return computed.await;
            }
            small_bytes => {
                let hasher = Box::new(Md5Sha256Hasher::new(wanted));
                let (md5, sha256) = hash(hasher, small_bytes.as_slice()).finish();
                Digests {
                    crc32c: progress.crc32c,
                    md5,
                    sha256,
                }
            }
        };
        expected.check(&digests)?;
        Ok(digests)
    }

    /// Finishes the session with the media.
    async fn finish(
        &self,
        inserted: InsertedSession,
        assembled: &Assembled,
    ) -> Result<(StartedSession, C::Reply), Error> {
        let (engine, context) = (self.concat.engine, &self.concat.context);
        let InsertedSession {
            upload_id,
            session,
            lease,
        } = inserted;
        Failpoint::SessionStarted.reach();
        let mut held = HeldLease::new(engine.leases(), session.id, lease);
        let Assembled {
            joined,
            progress,
            digests,
        } = assembled;
        let handle = joined.handle.clone();
        let content_type = context.content_type();
        let finished = FinishedMedia {
            media: media_of(content_type, progress, handle.clone(), *digests),
            small_bytes: joined.small_bytes.clone(),
            is_referenced: false,
            uploaded: 0,
            expect: Vec::new(),
            not_after: joined.not_after,
        };
        let session_ref = SessionRef {
            id: session.id,
            lease,
            progress: progress.clone(),
            seal: Seal {
                handle,
                left: Vec::new(),
            },
        };
        let ended = finish(engine, context, &finished, Some(&session_ref)).await;
        match &ended {
            Ok(_) => held.set_released(),
            Err(error) if error.leaves_outcome_unknown() => {}
            Err(_) => drop(engine.fail(session.id, lease).await),
        }
        let expires = session.expires;
        ended.map(|reply| (StartedSession { upload_id, expires }, reply))
    }

    /// Deletes media that no row names.
    async fn discard(&self, joined: &Joined) {
        if joined.at.location == MediaLocation::Vault {
            let name = StoredName {
                media: joined.at.id,
                handle: joined.handle.clone(),
            };
            delete_unnamed(&*self.concat.engine.parts().stores.vault, &name).await;
        }
    }
}
