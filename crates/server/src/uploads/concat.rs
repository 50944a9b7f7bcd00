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

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};
use windlass_digest::{Digests, ExpectedDigests};
use windlass_engine::copies::CopyCharge;
use windlass_engine::disks::Leaving;
use windlass_engine::identifiers::{new_media_id, new_small_media_id};
use windlass_engine::quotas::Reservation;
use windlass_engine::{Caller, Error as EngineError, Importance, Permit, SharePermit};
use windlass_store::{
    Failpoint, LedgerError, Media, MediaId, MediaLocation, MediaRef, Part, VaultError,
};

use super::finish::{FinalReply, FinishedMedia, concatenation, try_finish};
use super::start_request::{StartRequest, UploadHead};
use super::{ServerState, run_to_completion};
use crate::context::Principal;
use crate::error::Error;
use crate::handler::{Concatenation, Rejection, StoreReader};
use crate::namespace;

/// Maximum number of concatenations for one call, if other calls keep replacing its sources. Each
/// concatenation may copy everything.
const ATTEMPTS: usize = 3;

/// Carries out a call for which the handler has asked for `wanted`.
pub(crate) async fn concatenate(
    server: &Arc<ServerState>,
    head: &UploadHead<'_>,
    metadata: &Map<String, Value>,
    wanted: Concatenation,
) -> Result<FinalReply, Error> {
    let start_request = head.with_body(metadata, None, ExpectedDigests::default())?;
    let shared = Arc::clone(server);
    run_to_completion(
        &server.lifecycle,
        Box::pin(async move {
            let concat = Concat::begin(&shared, start_request).await?;
            Box::pin(concat.run(wanted)).await
        }),
    )
    .await
}

/// A call during the concatenation of its media.
struct Concat<'a> {
    server: &'a ServerState,
    start_request: StartRequest,
    /// Counts against the limit on concatenations. Their copies share few threads, so more of them
    /// would only hold upload permits and memory while they wait for a thread.
    _turn: Permit,
    /// The permit from the caller's own limit.
    _share: Option<SharePermit<'a, Caller>>,
    /// Counts against the limit on running uploads.
    _permit: Permit,
    /// Memory of the start request, which outlives its client.
    _memory: Permit,
}

/// Concatenated media.
struct Made {
    sources: Vec<MediaRef>,
    at: MediaRef,
    /// The bytes of small media.
    small_bytes: Option<Bytes>,
    /// The reserved bytes in the quota of the call's principal, until the commit.
    _reservation: Reservation,
    /// The bytes that were copied for the caller.
    copy: CopyCharge,
}

impl Made {
    /// Whether the media of a single source is used directly, without a copy.
    fn is_shared(&self) -> bool {
        self.sources.contains(&self.at)
    }
}

impl<'a> Concat<'a> {
    async fn begin(server: &'a ServerState, start_request: StartRequest) -> Result<Self, Error> {
        server.admit_upload()?;
        let capacity = &server.capacity;
        // The caller's own limit comes first, so that a caller at its limit leaves permits to other
        // callers.
        let turns = async {
            let share = match start_request.caller() {
                Some(caller) => Some(capacity.concatenation_shares.acquire(caller).await),
                None => None,
            };
            (share, capacity.concatenations.acquire(1).await)
        };
        let turns = tokio::time::timeout(capacity.timeout, turns).await;
        let (share, turn) = turns.map_err(|_| capacity.concatenations.full())?;
        let permit = server
            .capacity
            .uploads
            .take_for(|| server.importance_to(start_request.client, Importance::Start))?;
        let mut memory = server.capacity.metadata.permit();
        memory.resize(start_request.memory() as u64)?;
        Ok(Self {
            server,
            start_request,
            _turn: turn,
            _share: share,
            _permit: permit,
            _memory: memory,
        })
    }

    /// Concatenates the media and finishes the call with it. Starts again if another call changes a
    /// source or the resource that this call writes.
    async fn run(self, mut wanted: Concatenation) -> Result<FinalReply, Error> {
        let mut made = None;
        let mut attempt = 0;
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
                    self.server.lifecycle.sweep_now.notify_one();
                    return Ok(reply);
                }
                Err(error) if is_outdated(&error) && attempt < ATTEMPTS => {
                    is_media_lost(&error).then_some(error)
                }
                Err(Error::Engine(EngineError::Ledger(LedgerError::Conflict))) => {
                    break Error::Crowded;
                }
                Err(error) => break error,
            };
            wanted = match concatenation(self.server, &self.start_request).await {
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
        // After a fault of the ledger it is unknown whether a row names the media. If no row does,
        // the sweep deletes it a day later.
        if !matches!(
            error,
            Error::Engine(EngineError::Ledger(LedgerError::Fault(_)))
        ) {
            self.discard(made).await;
        }
        Err(error)
    }

    /// Concatenates the media, unless `made` has the same sources, and asks the handler once.
    async fn attempt(
        &self,
        made: &mut Option<Made>,
        wanted: Concatenation,
    ) -> Result<FinalReply, Error> {
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
                length: wanted.length(),
                content_type: self.start_request.content_type.clone(),
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
        };
        try_finish(self.server, &self.start_request, &finished, None).await
    }

    /// Makes the media durable, unless it is small.
    async fn make(&self, wanted: &Concatenation, sources: Vec<MediaRef>) -> Result<Made, Error> {
        let small_media_limit = self.server.small_media_limit() as u64;
        let principal = self.start_request.principal.as_ref();
        let mut reservation = self.server.quotas.reservation(principal.map(Principal::id));
        let ledger = &*self.server.stores.ledger;
        reservation.cover(ledger, wanted.length()).await?;
        let length = match &wanted.sources[..] {
            // The new resource has the same media.
            [_] => 0,
            _ => wanted.length(),
        };
        let caller = || self.start_request.caller();
        let copy = self.server.copies.charge(caller, length)?;
        let (at, small_bytes) = match &wanted.sources[..] {
            [only] => (only.at, None),
            all if wanted.length() <= small_media_limit => {
                let at = MediaRef {
                    id: new_small_media_id(self.server.clock.now()),
                    location: MediaLocation::Ledger,
                };
                (at, Some(self.read(all).await?))
            }
            all => {
                let at = MediaRef {
                    id: new_media_id(),
                    location: MediaLocation::Vault,
                };
                if let Err(error) = self.copy(at.id, all, wanted.length()).await {
                    self.delete(at.id).await;
                    return Err(error);
                }
                Failpoint::SingleRequestSynced.reach();
                (at, None)
            }
        };
        Ok(Made {
            sources,
            at,
            small_bytes,
            _reservation: reservation,
            copy,
        })
    }

    /// Reads and joins the bytes of all sources. Together they are small media.
    async fn read(&self, sources: &[Media]) -> Result<Bytes, Error> {
        let lookup = StoreReader::new(&self.server.store_handles, &namespace::ROOT);
        let mut all = BytesMut::new();
        for source in sources {
            let bytes = lookup.media(source).read(0..source.length).await?;
            all.extend_from_slice(&bytes);
        }
        Ok(all.freeze())
    }

    /// Copies the sources into a new media in the vault. When the server tells running uploads to
    /// end, the copy is cancelled with [`EngineError::Draining`].
    async fn copy(&self, id: MediaId, sources: &[Media], length: u64) -> Result<(), Error> {
        let server = self.server;
        let space = server.stores.media_space(self.start_request.caller());
        space.set_aside(length, Leaving::Soft)?;
        let is_small = |source: &&Media| source.at.location == MediaLocation::Ledger;
        let small_bytes = sources.iter().filter(is_small).map(|source| source.length);
        // Memory for the small sources. One permit covers all of them, because a call that holds a
        // permit must not wait for the next.
        let memory = server
            .capacity
            .reading
            .wait(small_bytes.sum(), server.capacity.timeout);
        let _memory = memory.await?;
        let mut parts = Vec::with_capacity(sources.len());
        for source in sources {
            parts.push(self.part(source).await?);
        }
        let copied = |bytes| space.count_write(bytes);
        tokio::select! {
            biased;
            () = server.lifecycle.drain_now.cancelled() => Err(EngineError::Draining.into()),
            done = server.stores.vault.concat(id, parts, &copied) => Ok(done?),
        }
    }

    async fn part(&self, source: &Media) -> Result<Part, Error> {
        let MediaRef { id, location } = source.at;
        match location {
            MediaLocation::Vault => Ok(Part::Media {
                id,
                length: source.length,
            }),
            MediaLocation::Ledger => {
                let bytes = self.server.stores.ledger.small_media(id).await?;
                bytes
                    .map(Part::Bytes)
                    .ok_or(EngineError::MediaLost(id).into())
            }
        }
    }

    /// Deletes concatenated media that is not used.
    async fn discard(&self, made: Option<Made>) {
        if let Some(made) = made
            && made.at.location == MediaLocation::Vault
            && !made.is_shared()
        {
            self.delete(made.at.id).await;
        }
    }

    async fn delete(&self, id: MediaId) {
        if let Err(error) = self.server.stores.vault.delete(id).await {
            tracing::warn!(media = %id, %error, "left for the sweep to delete");
        }
    }
}

/// Whether the call may succeed if the handler is asked again: a source or the resource that the
/// call writes has changed, or other calls kept the ledger or the resource busy.
fn is_outdated(error: &Error) -> bool {
    let is_busy = matches!(
        error,
        Error::Engine(EngineError::Ledger(
            LedgerError::Conflict | LedgerError::Busy
        )) | Error::Crowded
    );
    is_busy || is_media_lost(error)
}

/// Whether the media of a source is not in the stores any more.
fn is_media_lost(error: &Error) -> bool {
    matches!(
        error,
        Error::Engine(EngineError::MediaLost(_) | EngineError::Vault(VaultError::Missing(_)))
            | Error::Rejection(Rejection::MediaLost(_) | Rejection::Vault(VaultError::Missing(_)))
    )
}
