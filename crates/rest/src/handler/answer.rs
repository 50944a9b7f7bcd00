//! The result of a call.

use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Map, Value};
use windlass_digest::Digests;
use windlass_engine::Concatenation;
use windlass_engine::MAX_SMALL_MEDIA;
use windlass_engine::identifiers::new_small_media_id;
use windlass_store::{
    AddedMedia, Expected, MAX_ADDED_MEDIA, Media, MediaLocation, MediaRef, ResourceChange,
};

use super::{ApiHandler, Call, OutboxEvent, Rejection};
use crate::namespace::Namespace;
use crate::principal::Principal;

/// The result of a call: changes, events and a reply.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// Changes. The ledger applies all of them or none.
    pub changes: Vec<ResourceChange>,
    /// Events to be delivered if the changes are applied, at most
    /// [`MAX_EVENTS`](super::MAX_EVENTS).
    pub events: Vec<OutboxEvent>,
    /// Resources on which the changes depend without changing them. If a resource has another
    /// version when the changes are applied, nothing is changed and the handler is called again.
    /// Not compared for a call without media that changes nothing.
    pub expect: Vec<Expected>,
    /// Collections that must be empty after the changes, such as the content of a deleted folder.
    /// Otherwise nothing is changed and the handler is called again.
    pub expect_empty: Vec<String>,
    /// Media of the handler's own, such as a thumbnail; see [`Answer::add_media`].
    pub added_media: Vec<AddedMedia>,
    /// Content of the reply. `None` for an empty reply.
    pub body: Option<Content>,
    /// Media that the call needs first. If a call without media sets it, the rest of the answer is
    /// ignored. The server then concatenates the media and calls the handler again with the result.
    pub concatenation: Option<Concatenation>,
}

/// The content of a reply.
#[derive(Clone)]
pub enum Content {
    /// A JSON object. The parameters `fields` and `prettyPrint` of the request apply to it, and its
    /// field `etag` becomes the header `ETag`.
    Json(Map<String, Value>),
    /// Bytes of another type, such as the upload token of Google Photos, which is text.
    Bytes {
        /// Media type.
        content_type: HeaderValue,
        /// The bytes.
        bytes: Bytes,
    },
}

/// Hides the content, which may be a secret, such as an upload token.
impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Content")
    }
}

impl From<Map<String, Value>> for Content {
    fn from(object: Map<String, Value>) -> Self {
        Self::Json(object)
    }
}

impl Answer {
    /// Returns an answer that changes nothing, with this content.
    pub fn of(content: impl Into<Content>) -> Self {
        Self {
            body: Some(content.into()),
            ..Self::default()
        }
    }

    /// Adds media that the handler has made, such as a thumbnail of the uploaded picture. Returns
    /// its record for a resource of this answer. The media is committed with the changes, and is
    /// removed when no resource has it any more.
    ///
    /// The bytes stay in the ledger, so they are at most 64 KiB, and at most 16 media per answer.
    /// Beyond 64 KiB and four times what the call has brought they count as a
    /// [copy](windlass_engine::copies).
    ///
    /// A call with longer or more media is refused as a whole: [`Rejection::InvalidArgument`].
    pub fn add_media(
        &mut self,
        call: &Call<'_>,
        content_type: impl Into<String>,
        bytes: impl Into<Bytes>,
    ) -> Media {
        let bytes = bytes.into();
        let id = new_small_media_id(call.now);
        let media = Media {
            at: MediaRef {
                id,
                location: MediaLocation::Ledger,
            },
            // The ledger finds its media by id. Only a vault that chooses names needs a handle.
            handle: Bytes::new(),
            length: bytes.len() as u64,
            content_type: content_type.into(),
            digests: Digests::of(&bytes),
        };
        self.added_media.push(AddedMedia::Small { id, bytes });
        media
    }

    /// Refuses an answer with longer or more media than the ledger may keep.
    pub(super) fn check_added_media(&self) -> Result<(), Rejection> {
        let too_much = |problem: String| Err(Rejection::InvalidArgument { problem });
        if self.added_media.len() > MAX_ADDED_MEDIA {
            return too_much(format!(
                "the call would add more than {MAX_ADDED_MEDIA} media"
            ));
        }
        let longest = self
            .added_media
            .iter()
            .map(AddedMedia::bytes_in_ledger)
            .max();
        match longest {
            Some(length) if length > MAX_SMALL_MEDIA => too_much(format!(
                "the call would add media of {length} bytes; at most {MAX_SMALL_MEDIA} are allowed"
            )),
            _ => Ok(()),
        }
    }

    /// Records the principal as the owner of resources that are inserted without an owner.
    /// Resources that receive new media get the principal as their owner too, because the quota of
    /// the sender counts the media. Rows that do not count have no owner.
    pub(super) fn set_owner(
        &mut self,
        handler: &dyn ApiHandler,
        principal: Option<&Principal>,
        new_media: Option<MediaRef>,
    ) {
        for change in &mut self.changes {
            let added = self.added_media.iter().map(AddedMedia::media);
            let has_new_media = new_media
                .into_iter()
                .chain(added)
                .any(|media| change.references(media));
            match change {
                ResourceChange::Insert(resource) | ResourceChange::Replace { resource, .. }
                    // First, because such a row has no owner even if it names new media.
                    if !handler.counts(&resource.collection) =>
                {
                    resource.owner = None;
                }
                ResourceChange::Insert(resource) if resource.owner.is_none() => {
                    resource.owner = principal.map(Principal::to_string);
                }
                ResourceChange::Replace { resource, .. } if has_new_media => {
                    resource.owner = principal.map(Principal::to_string);
                }
                // A change without new media keeps the owner: no bytes move to another quota.
                _ => {}
            }
        }
    }

    /// Replaces the handler's names of collections by the ledger's names.
    pub(super) fn qualify(&mut self, namespace: &Namespace) {
        namespace.qualify_changes(&mut self.changes);
        namespace.qualify_expected(&mut self.expect);
        for collection in &mut self.expect_empty {
            namespace.qualify(collection);
        }
        if let Some(wanted) = &mut self.concatenation {
            namespace.qualify_expected(&mut wanted.expect);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_hidden_from_debug() {
        let answer = Answer::of(Content::Bytes {
            content_type: HeaderValue::from_static("text/plain"),
            bytes: Bytes::from_static(b"token"),
        });
        assert!(!format!("{answer:?}").contains("token"), "{answer:?}");
    }
}
