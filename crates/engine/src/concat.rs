//! Calls with media that is concatenated from existing media.
//!
//! Such a call continues like an upload in one request, but its media comes from the stores. The
//! order of durable steps is the same as for an upload: first the media, then one commit of the
//! resource. A crash in between leaves media that no row names.
//!
//! The sources are not locked during the copy, which may take long. The handler therefore names the
//! resources that have the media, with their versions. The commit is refused if the version of a
//! resource has changed by then, and the handler is asked again. Concatenated media is reused if
//! the resources still have the same media.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use windlass_digest::Digests;
use windlass_store::{
    Failpoint, LedgerError, Media, MediaId, MediaLocation, MediaRef, NEW_MEDIA_LIFETIME, Part,
    StoredName, Timestamp, VaultError,
};

use crate::completion::{Completion, FinishedMedia, UploadContext as _};
use crate::concatenation::Concatenation;
use crate::copies::CopyCharge;
use crate::disks::Leaving;
use crate::engine::Engine;
use crate::error::{Error, FromStore as _, StoreError};
use crate::finish::try_finish;
use crate::identifiers::{new_media_id, new_small_media_id};
use crate::importance::Importance;
use crate::pool::Permit;
use crate::quotas::Reservation;
use crate::retries::Retries;
use crate::shares::{Caller, SharePermit};
use crate::sink::delete_unnamed;

/// Maximum number of concatenations for one call, if other calls keep replacing its sources. Each
/// concatenation may copy everything.
const ATTEMPTS: usize = 3;

impl<C: Completion> Engine<C> {
    /// Finishes a call with media that is concatenated from existing media, and returns the final
    /// reply. `wanted` is what the completion has asked for.
    ///
    /// # Errors
    /// If the call is refused or fails. Nothing is kept then, except that the outcome may be
    /// unknown after an error of the ledger ([`LedgerError::leaves_outcome_unknown`]).
    ///
    /// # Cancel safety
    /// If the future is dropped, a task completes the call.
    pub async fn concatenate(
        &self,
        context: C::Context,
        wanted: Concatenation,
    ) -> Result<C::Reply, Error> {
        let engine = self.clone();
        self.run_to_completion(Box::pin(async move {
            let concat = Concat::begin(&engine, context).await?;
            Box::pin(concat.run(wanted)).await
        }))
        .await
    }
}

/// A call during the concatenation of its media.
pub(crate) struct Concat<'a, C: Completion> {
    pub(crate) engine: &'a Engine<C>,
    pub(crate) context: C::Context,
    /// Counts against the limit on concatenations. Their copies share few threads, so more of them
    /// would only hold upload permits and memory while they wait for a thread.
    _turn: Permit,
    /// The permit from the caller's own limit.
    _share: Option<SharePermit<Caller>>,
    /// Counts against the limit on running uploads.
    _permit: Permit,
    /// Memory of the context, which outlives its client.
    _memory: Permit,
}

/// Concatenated media.
struct Made {
    sources: Vec<MediaRef>,
    at: MediaRef,
    /// The handle of the media.
    handle: Bytes,
    /// The bytes of small media.
    small_bytes: Option<Bytes>,
    /// The reserved bytes in the quota of the call's principal, until the commit.
    _reservation: Reservation,
    /// The bytes that were copied for the caller.
    copy: CopyCharge,
    /// The last time at which the media may be named.
    not_after: Option<Timestamp>,
}

/// New media that is joined from other media.
pub(crate) struct Joined {
    pub(crate) at: MediaRef,
    /// The handle of the media.
    pub(crate) handle: Bytes,
    /// The bytes of small media.
    pub(crate) small_bytes: Option<Bytes>,
    /// The last time at which the media may be named.
    pub(crate) not_after: Option<Timestamp>,
}

impl Made {
    /// Whether the media of a single source is used directly, without a copy.
    fn is_shared(&self) -> bool {
        self.sources.contains(&self.at)
    }
}

impl<'a, C: Completion> Concat<'a, C> {
    /// Takes the permits for a concatenation.
    pub(crate) async fn begin(engine: &'a Engine<C>, context: C::Context) -> Result<Self, Error> {
        engine.admit_upload()?;
        let parts = engine.parts();
        // The caller's own limit comes first, so that a caller at its limit leaves permits to other
        // callers.
        let turns = async {
            let share = match context.caller() {
                Some(caller) => Some(parts.concatenation_shares.acquire(caller, 1).await),
                None => None,
            };
            (share, parts.concatenations.acquire(1).await)
        };
        let turns = tokio::time::timeout(parts.takeover_timeout, turns).await;
        let (share, turn) = turns.map_err(|_| parts.concatenations.full())?;
        let permit = engine.take_upload(&context, Importance::Start)?;
        let mut memory = parts.metadata.permit();
        memory.resize(context.memory() as u64)?;
        Ok(Self {
            engine,
            context,
            _turn: turn,
            _share: share,
            _permit: permit,
            _memory: memory,
        })
    }

    /// Concatenates the media and finishes the call with it. Starts again if another call changes a
    /// source or the resource that this call writes.
    async fn run(self, mut wanted: Concatenation) -> Result<C::Reply, Error> {
        let mut made = None;
        let mut attempt = 0;
        // A copy may take long, so the attempts are counted.
        let mut retries = Retries::within(Duration::MAX);
        let error = loop {
            attempt += 1;
            let asked = wanted.media();
            // The loss of the media is remembered. The error is returned if the handler names the
            // same media again.
            let media_lost = match self.attempt(&mut made, wanted).await {
                Ok(reply) => {
                    if let Some(made) = made {
                        made.copy.keep();
                    }
                    // The call may have replaced or deleted resources.
                    self.engine.parts().lifecycle.sweep_now.notify_one();
                    return Ok(reply);
                }
                Err(error) if is_outdated(&error) && attempt < ATTEMPTS => {
                    is_media_lost(&error).then_some(error)
                }
                Err(Error::Ledger(LedgerError::Conflict)) => {
                    break Error::Crowded;
                }
                Err(error) => break error,
            };
            // Another process may change the same resource as often.
            retries.pause().await;
            wanted = match self.asked_again().await {
                Ok(wanted) => wanted,
                Err(error) => break error,
            };
            // If the handler still names the same media, no other call has deleted it: a resource
            // refers to media that the stores lack. Another attempt would fail as well.
            if let Some(error) = media_lost
                && wanted.media() == asked
            {
                break error;
            }
        };
        // It may be unknown whether a row names the media. If no row does, the sweep deletes it a
        // day later.
        if !error.leaves_outcome_unknown() {
            self.discard(made).await;
        }
        Err(error)
    }

    /// Concatenates the media, unless `made` has the same sources, and asks the handler once.
    async fn attempt(
        &self,
        made: &mut Option<Made>,
        wanted: Concatenation,
    ) -> Result<C::Reply, Error> {
        // Only the references to the media are compared. A source may have another version, or its
        // media another type, but the bytes are still the same.
        let sources = wanted.media();
        let made = match made.take() {
            Some(same) if same.sources == sources => made.insert(same),
            other => {
                self.discard(other).await;
                made.insert(self.make(&wanted, sources).await?)
            }
        };
        let finished = FinishedMedia {
            media: Media {
                at: made.at,
                handle: made.handle.clone(),
                length: wanted.length(),
                content_type: self.context.content_type().to_owned(),
                // The CRC32C of the whole can be computed from the sources' checksums. MD5 and
                // SHA-256 cannot.
                digests: Digests {
                    crc32c: wanted.crc32c(),
                    md5: None,
                    sha256: None,
                },
            },
            small_bytes: made.small_bytes.clone(),
            is_referenced: made.is_shared(),
            uploaded: 0,
            expect: wanted.expect,
            not_after: made.not_after,
        };
        try_finish(self.engine, &self.context, &finished, None).await
    }

    /// Makes the media durable, unless it is small.
    async fn make(&self, wanted: &Concatenation, sources: Vec<MediaRef>) -> Result<Made, Error> {
        let parts = self.engine.parts();
        let mut reservation = parts.quotas.reservation(self.context.owner());
        let ledger = &*parts.stores.ledger;
        reservation.cover(ledger, wanted.length()).await?;
        let length = match &wanted.sources[..] {
            // The new resource has the same media.
            [_] => 0,
            _ => wanted.length(),
        };
        let caller = || self.context.caller();
        let copy = parts.copies.charge(caller, length)?;
        let Joined {
            at,
            handle,
            small_bytes,
            not_after,
        } = match &wanted.sources[..] {
            [only] => Joined {
                at: only.at,
                handle: only.handle.clone(),
                small_bytes: None,
                // A row names it already.
                not_after: None,
            },
            all => self.join(all, wanted.length()).await?,
        };
        Ok(Made {
            sources,
            at,
            handle,
            small_bytes,
            _reservation: reservation,
            copy,
            not_after,
        })
    }

    /// Joins the sources to new media of this length, and makes it durable, unless it is small.
    pub(crate) async fn join(&self, sources: &[Media], length: u64) -> Result<Joined, Error> {
        let parts = self.engine.parts();
        // Before the media is written.
        let not_after = parts.stores.ledger.deadline(NEW_MEDIA_LIFETIME);
        if length <= self.engine.small_media_limit() as u64 {
            let at = MediaRef {
                id: new_small_media_id(parts.clock.now()),
                location: MediaLocation::Ledger,
            };
            return Ok(Joined {
                at,
                handle: Bytes::new(),
                small_bytes: Some(self.read(sources).await?),
                not_after,
            });
        }
        let at = MediaRef {
            id: new_media_id(),
            location: MediaLocation::Vault,
        };
        let copied = self.copy(at.id, sources, length).await;
        if copied.is_err() {
            // A vault with names of its own leaves it to the sweep.
            delete_unnamed(&*parts.stores.vault, &StoredName::of(at.id)).await;
        }
        let handle = copied?;
        Failpoint::SingleRequestSynced.reach();
        Ok(Joined {
            at,
            handle,
            small_bytes: None,
            not_after,
        })
    }

    /// Asks the completion again for the media that the call needs, after an attempt has failed. The
    /// sources may have changed since.
    ///
    /// # Errors
    /// The completion's error, for example if a source does not exist any more. [`Error::Crowded`]
    /// if the call needs no media any more, because other calls have changed its effect. The client
    /// then repeats the call, and the repetition is answered without media.
    async fn asked_again(&self) -> Result<Concatenation, Error> {
        let wanted = self
            .engine
            .completion()
            .concatenation(&self.context)
            .await?;
        wanted.ok_or(Error::Crowded)
    }

    /// Reads and joins the bytes of all sources. Together they are small media.
    async fn read(&self, sources: &[Media]) -> Result<Bytes, Error> {
        let parts = self.engine.parts();
        let length = sources.iter().map(|source| source.length).sum();
        let _memory = parts.reading.wait(length, parts.takeover_timeout).await?;
        let mut all = BytesMut::new();
        for source in sources {
            match source.at.location {
                MediaLocation::Ledger => {
                    all.extend_from_slice(&self.small_media(source.at.id).await?);
                }
                MediaLocation::Vault => self.read_vault(source, &mut all).await?,
            }
        }
        Ok(all.freeze())
    }

    /// Appends media of the vault to `all`.
    async fn read_vault(&self, source: &Media, all: &mut BytesMut) -> Result<(), Error> {
        let parts = self.engine.parts();
        let _open = parts.media_reads.wait(1, parts.takeover_timeout).await?;
        let vault = &parts.stores.vault;
        let mut reader = vault.read(&source.name(), 0..source.length).await?;
        loop {
            let piece = reader.next(vault.hints().read_len).await?;
            if piece.is_empty() {
                return Ok(());
            }
            all.extend_from_slice(&piece);
        }
    }

    async fn small_media(&self, id: MediaId) -> Result<Bytes, Error> {
        let bytes = self.engine.parts().stores.ledger.small_media(id).await?;
        bytes.ok_or(Error::MediaLost(id))
    }

    /// Copies the sources into a new media in the vault. Returns its handle. When the server tells running uploads to
    /// end, the copy is cancelled with [`Error::Draining`].
    async fn copy(&self, id: MediaId, sources: &[Media], length: u64) -> Result<Bytes, Error> {
        let parts = self.engine.parts();
        let space = self.engine.media_space(&self.context);
        space.set_aside(length, Leaving::Soft)?;
        let is_small = |source: &&Media| source.at.location == MediaLocation::Ledger;
        let small_bytes = sources.iter().filter(is_small).map(|source| source.length);
        // Memory for the small sources. One permit covers all of them, because a call that holds a
        // permit must not wait for the next.
        let memory = parts
            .reading
            .wait(small_bytes.sum(), parts.takeover_timeout);
        let _memory = memory.await?;
        let mut pieces = Vec::with_capacity(sources.len());
        for source in sources {
            pieces.push(self.part(source).await?);
        }
        let copied = |bytes| drop(space.count_write(bytes));
        tokio::select! {
            biased;
            () = parts.lifecycle.drain_now.cancelled() => Err(Error::Draining),
            done = parts.stores.vault.concat(id, pieces, &copied) => Ok(done?),
        }
    }

    async fn part(&self, source: &Media) -> Result<Part, Error> {
        let MediaRef { id, location } = source.at;
        match location {
            MediaLocation::Vault => Ok(Part::Media {
                media: source.name(),
                length: source.length,
            }),
            MediaLocation::Ledger => Ok(Part::Bytes(self.small_media(id).await?)),
        }
    }

    /// Deletes concatenated media that is not used.
    async fn discard(&self, made: Option<Made>) {
        if let Some(made) = made
            && made.at.location == MediaLocation::Vault
            && !made.is_shared()
        {
            let name = StoredName {
                media: made.at.id,
                handle: made.handle,
            };
            delete_unnamed(&*self.engine.parts().stores.vault, &name).await;
        }
    }
}

/// Whether the call may succeed if the completion is asked again: a source or the resource that the
/// call writes has changed, or other calls kept the ledger or the resource busy.
fn is_outdated(error: &Error) -> bool {
    let is_busy = matches!(
        error,
        Error::Ledger(LedgerError::Conflict | LedgerError::Unavailable(_)) | Error::Crowded
    );
    is_busy || is_media_lost(error)
}

/// Whether the media of a source is not in the stores any more.
fn is_media_lost(error: &Error) -> bool {
    match error {
        Error::MediaLost(_) => true,
        _ => matches!(
            error.store_error(),
            Some(StoreError::Vault(VaultError::Missing(_)))
        ),
    }
}
