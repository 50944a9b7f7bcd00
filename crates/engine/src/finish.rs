//! From complete media to the commit of what it becomes.

use std::mem;

use bytes::Bytes;
use windlass_digest::Digests;
use windlass_store::{
    AddedMedia, ChangeSet, Failpoint, FinishSession, Lease, LedgerError, Media, MediaLocation,
    Progress, SessionId,
};

use crate::completion::{Completed, Completion, FinishedMedia, UploadContext as _, UploadEvent};
use crate::copies;
use crate::engine::Engine;
use crate::error::Error;
use crate::retries::Retries;
use crate::seal::Seal;

/// The session that ends when its upload finishes.
#[derive(Debug, Clone)]
pub(crate) struct SessionRef {
    pub(crate) id: SessionId,
    /// The request's lease.
    pub(crate) lease: Lease,
    /// Progress of the complete upload.
    pub(crate) progress: Progress,
    pub(crate) seal: Seal,
}

impl SessionRef {
    fn finish(&self, reply: Vec<u8>) -> FinishSession {
        FinishSession {
            id: self.id,
            lease: self.lease,
            progress: self.progress.clone(),
            reply,
            handle: self.seal.handle.clone(),
            left: self.seal.left.clone(),
        }
    }
}

/// Asks the completion what the media becomes, and commits it together with the end of the session,
/// if there is one.
///
/// Asks again if another request has changed the same resource, for as long as
/// [`EngineParts::takeover_timeout`](crate::EngineParts::takeover_timeout). After an error nothing has changed,
/// except that the outcome of a commit may be unknown ([`LedgerError::leaves_outcome_unknown`]). If the error
/// [is permanent](Error::is_permanent), the caller must end the session as failed.
pub(crate) async fn finish<C: Completion>(
    engine: &Engine<C>,
    context: &C::Context,
    finished: &FinishedMedia,
    session_ref: Option<&SessionRef>,
) -> Result<C::Reply, Error> {
    let mut retries = Retries::within(engine.parts().takeover_timeout);
    loop {
        match try_finish(engine, context, finished, session_ref).await {
            Err(Error::Ledger(LedgerError::Conflict)) if retries.pause().await => {}
            Err(Error::Ledger(LedgerError::Conflict)) => return Err(Error::Crowded),
            ended => return ended,
        }
    }
}

/// As [`finish`], but asks the completion once.
///
/// # Errors
/// [`LedgerError::Conflict`] if another request has changed the same resource.
pub(crate) async fn try_finish<C: Completion>(
    engine: &Engine<C>,
    context: &C::Context,
    finished: &FinishedMedia,
    session_ref: Option<&SessionRef>,
) -> Result<C::Reply, Error> {
    let (completion, parts) = (engine.completion(), engine.parts());
    let session = session_ref.map(|session_ref| session_ref.id);
    // Kept until the commit with all that it holds, so that the next request with the same lock
    // sees this change.
    let mut completed = completion.complete(context, finished, session).await?;
    Failpoint::HandlerAnswered.reach();
    let changes = completed.changes.clone();
    let added = AddedMedia::all_bytes_in_ledger(&completed.added_media);
    let brought = finished.uploaded + context.memory() as u64;
    let beyond = copies::bytes_beyond(brought, &changes, added as u64);
    let copy = parts.copies.charge(|| context.caller(), beyond)?;
    let fields = context.memory() + completed.stored_reply.len() + added;
    let change_set = take_changes(&mut completed, finished, session_ref);
    let quotas = match session_ref {
        None => parts.quotas.of_changes(&change_set).await?,
        Some(_) => parts.quotas.of_finish(&change_set, fields).await?,
    };
    // One transaction for the resource, its events, the reply and the end of the session, so
    // that a crash leaves all of them or none.
    parts.stores.ledger.apply_within(change_set, quotas).await?;
    copy.keep();
    parts
        .copies
        .uploaded(|| context.caller(), finished.uploaded);
    completion.observe(UploadEvent::Finished {
        session,
        context,
        resource: completed.resource.as_deref(),
        changes: &changes,
    });
    Failpoint::FinishApplied.reach();
    let at = finished.media.at;
    let is_used = changes.iter().any(|change| change.references(at));
    if !is_used || completed.replaces {
        // If the completion has not used the new media, that media is now garbage. If the request
        // has changed a resource, the resource's older media may be garbage.
        parts.lifecycle.sweep_now.notify_one();
    }
    Ok(completed.reply)
}

/// Takes the changes out of what a completion has made of its media.
fn take_changes<R, H>(
    completed: &mut Completed<R, H>,
    finished: &FinishedMedia,
    session_ref: Option<&SessionRef>,
) -> ChangeSet {
    let at = finished.media.at;
    let small_bytes = finished.small_bytes.clone();
    let mut expect = mem::take(&mut completed.expect);
    expect.extend_from_slice(&finished.expect);
    ChangeSet {
        // The state on which the completion and the media depend: rows that were read, and
        // collections that must be empty afterwards. If this state has changed, the ledger reports
        // a conflict, and the completion is asked again.
        expect,
        expect_empty: mem::take(&mut completed.expect_empty),
        resources: mem::take(&mut completed.changes),
        small_media: small_bytes.map(|bytes| (at.id, bytes)),
        // Declared here, because the ledger refuses a resource with unknown media.
        new_media: (at.location == MediaLocation::Vault && !finished.is_referenced)
            .then(|| finished.media.name()),
        added_media: mem::take(&mut completed.added_media),
        finish: session_ref
            .map(|session_ref| session_ref.finish(mem::take(&mut completed.stored_reply))),
        not_after: finished.not_after,
    }
}

/// Returns the media that `progress` describes, with its handle and its digests.
///
/// # Panics
/// If `progress` names no media. The progress of a flushed sink always names it.
pub(crate) fn media_of(
    content_type: &str,
    progress: &Progress,
    handle: Bytes,
    digests: Digests,
) -> Media {
    Media {
        at: progress.media.expect("a flushed sink names its media"),
        handle,
        length: progress.offset,
        content_type: content_type.to_owned(),
        digests,
    }
}
