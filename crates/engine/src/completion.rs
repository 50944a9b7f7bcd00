//! The meaning of uploads: the contract between the engine and the application that is built on it.

use std::fmt::Debug;
use std::future::Future;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use windlass_digest::{ExpectedDigests, Wanted};
use windlass_session::{ChunkRule, Rules, SessionError, UploadKind};
use windlass_store::{AddedMedia, Expected, Media, ResourceChange, Session, SessionId, Timestamp};

use crate::concatenation::Concatenation;
use crate::error::Error;
use crate::importance::Importance;
use crate::shares::Caller;

/// The type of media about which nothing is known.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// The purpose of an upload. The engine keeps it from the start of the upload to its end and does not
/// look into it, except by these methods.
pub trait UploadContext: Debug + Send + Sync + 'static {
    /// Returns the sender of the current request, if it is known. Limits of one caller apply to it.
    fn caller(&self) -> Option<Caller> {
        None
    }

    /// Returns the id of the principal that owns the media, if there is one. Its quota counts the
    /// media.
    fn owner(&self) -> Option<&str> {
        None
    }

    /// Returns the type of the media. Default: `application/octet-stream`.
    fn content_type(&self) -> &str {
        UNKNOWN_TYPE
    }

    /// Returns the digests that the media must have. Default: none.
    fn expected_digests(&self) -> ExpectedDigests {
        ExpectedDigests::default()
    }

    /// Returns what the upload is to other uploads. Default: [`UploadKind::Whole`].
    ///
    /// A partial upload reaches neither [`Completion::complete`] nor a resource. It is media for
    /// [`Engine::concatenate_partials`](crate::Engine::concatenate_partials).
    fn kind(&self) -> UploadKind {
        UploadKind::Whole
    }

    /// Returns the approximate number of bytes in memory.
    fn memory(&self) -> usize;

    /// Drops the parts that only the end of the upload needs, if they are large. The engine reads the context
    /// again from the session's row before the end. Default: drops nothing.
    fn drop_details(&mut self) {}

    /// Whether [`UploadContext::drop_details`] has dropped something.
    fn are_details_dropped(&self) -> bool {
        false
    }
}

/// The terms of one upload.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// The rules of the session. The maximum size applies to uploads of one request as well.
    pub rules: Rules,
    /// The digests to compute in addition to CRC32C.
    pub wanted: Wanted,
}

/// No maximum size, chunks of any size, and no digest but CRC32C.
impl Default for Terms {
    fn default() -> Self {
        Self {
            rules: Rules::default().with_chunks(ChunkRule::Lenient),
            wanted: Wanted::default(),
        }
    }
}

/// Complete media, for the completion to make something of it.
#[derive(Debug)]
pub struct FinishedMedia {
    /// The media.
    pub media: Media,
    /// The bytes of small media, which are committed together with the resource. `None` for media
    /// that is durable already.
    pub small_bytes: Option<Bytes>,
    /// Whether a resource has this media already. The change set then does not declare it as new.
    pub is_referenced: bool,
    /// Number of bytes that the client has sent. They allow the caller [copies](crate::copies).
    pub uploaded: u64,
    /// Resources that the media depends on, as they were read.
    pub expect: Vec<Expected>,
    /// The last time at which new media may be named, as in [`ChangeSet::not_after`].
    ///
    /// [`ChangeSet::not_after`]: windlass_store::ChangeSet::not_after
    pub not_after: Option<Timestamp>,
}

impl FinishedMedia {
    /// Returns media that has been uploaded. It depends on no other resource.
    pub(crate) fn uploaded(media: Media, small_bytes: Option<Bytes>) -> Self {
        Self {
            uploaded: media.length,
            media,
            small_bytes,
            is_referenced: false,
            expect: Vec::new(),
            not_after: None,
        }
    }
}

/// The result of a complete upload. All of it is committed in one transaction, or nothing.
#[derive(Debug)]
#[must_use]
pub struct Completed<R, H> {
    /// Resources that the completion has read, as it has read them. If one has changed before the
    /// commit, the completion is asked again.
    pub expect: Vec<Expected>,
    /// Collections that must have no resource after the last change.
    pub expect_empty: Vec<String>,
    /// Changes of resources, in order. Events to deliver later are resources as well.
    pub changes: Vec<ResourceChange>,
    /// Media that the completion has made, such as a thumbnail, in addition to the upload's.
    pub added_media: Vec<AddedMedia>,
    /// The reply for the client.
    pub reply: R,
    /// The reply as it is stored with the session, for [`Completion::replay`].
    pub stored_reply: Vec<u8>,
    /// Name of the resource, for [`UploadEvent::Finished`].
    pub resource: Option<String>,
    /// Whether an older resource is changed. Its media may become garbage.
    pub replaces: bool,
    /// Permits and locks that the completion holds until the commit.
    pub held: Option<H>,
}

impl<R, H> Completed<R, H> {
    /// Returns the result that makes these changes and depends on no other resource.
    pub fn new(changes: Vec<ResourceChange>, reply: R, stored_reply: Vec<u8>) -> Self {
        Self {
            expect: Vec::new(),
            expect_empty: Vec::new(),
            added_media: Vec::new(),
            changes,
            reply,
            stored_reply,
            resource: None,
            replaces: false,
            held: None,
        }
    }
}

/// An event in the life of an upload, after its commit.
#[derive(Debug)]
pub enum UploadEvent<'a, C: Completion> {
    /// A session was started.
    Started {
        /// The session.
        session: SessionId,
        /// The purpose of the upload.
        context: &'a C::Context,
    },
    /// A session was cancelled.
    Cancelled {
        /// The session.
        session: SessionId,
        /// The purpose of the upload.
        context: &'a C::Context,
        /// The request that cancels it.
        request: &'a C::Request,
    },
    /// A session has ended without a resource, because of an error.
    Failed {
        /// The session.
        session: SessionId,
    },
    /// The changes of [`Completion::complete`] are committed.
    Finished {
        /// The session; `None` if the upload was one request.
        session: Option<SessionId>,
        /// The purpose of the upload.
        context: &'a C::Context,
        /// [`Completed::resource`].
        resource: Option<&'a str>,
        /// [`Completed::changes`].
        changes: &'a [ResourceChange],
    },
}

/// The meaning of uploads. The engine stores bytes. It asks the completion who may append to a
/// session, under which terms, and which changes a complete upload makes.
///
/// A completion returns [`Error`]s of the engine, such as errors of the stores. It wraps its
/// refusals in [`Error::Refused`].
pub trait Completion: Send + Sync + Sized + 'static {
    /// The purpose of one upload.
    type Context: UploadContext;
    /// A request to a session: its sender, and the values that the completion checks.
    type Request: Debug + Send + Sync + 'static;
    /// The reply that ends an upload.
    type Reply: Debug + Send + 'static;
    /// The type of [`Completed::held`].
    type Held: Debug + Send;

    /// Returns the form of the context that is stored in the session's row.
    fn encode(&self, context: &Self::Context) -> Vec<u8>;

    /// Reads the context in a session's row.
    ///
    /// # Errors
    /// If the row cannot be read, for example because a newer version has written it.
    /// [`Error::NotFound`] hides the session.
    fn decode(&self, session: &Session) -> Result<Self::Context, Error>;

    /// Checks whether a request may use a session. `session` may lack its context.
    ///
    /// # Errors
    /// [`Error::NotFound`] hides the session.
    fn check(
        &self,
        session: &Session,
        context: &Self::Context,
        request: &Self::Request,
    ) -> Result<(), Error>;

    /// Whether [`Completion::check`] needs the context with its details for this request. Otherwise
    /// it may be asked with a context without [details](UploadContext::drop_details).
    fn needs_details(&self, request: &Self::Request) -> bool {
        let _ = request;
        false
    }

    /// Makes the request the current one of the upload: [`UploadContext::caller`] is its sender.
    fn continue_by(&self, context: &mut Self::Context, request: &Self::Request) {
        let _ = (context, request);
    }

    /// Returns the terms of an upload. `dialect` is the dialect of its session; `None` for an upload
    /// of one request. Default: [`Terms::default`].
    ///
    /// # Errors
    /// If the upload can have no meaning any more.
    fn terms(&self, context: &Self::Context, dialect: Option<&str>) -> Result<Terms, Error> {
        let _ = (context, dialect);
        Ok(Terms::default())
    }

    /// Returns the error for a request that the rules of its upload refuse, for example to say who
    /// has set a limit.
    fn explain(&self, context: &Self::Context, error: SessionError) -> Error {
        let _ = context;
        error.into()
    }

    /// Returns the importance of a request of this upload, if the engine has found `importance`.
    fn importance(&self, context: &Self::Context, importance: Importance) -> Importance {
        let _ = context;
        importance
    }

    /// Refuses an upload before its first byte.
    ///
    /// # Errors
    /// The reason, for the client.
    fn admit(&self, context: &Self::Context) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = context;
        std::future::ready(Ok(()))
    }

    /// Returns the changes that a complete upload makes. It is asked again if another request changes the same
    /// resources before the commit, and after a crash. It must have no other effects.
    ///
    /// `session` is the session of the upload; `None` if the upload was one request.
    ///
    /// # Errors
    /// If [`Error::is_permanent`], the upload has failed. After any other error a session stays
    /// *finishing*, and the engine tries again later. An upload in one request has then failed.
    fn complete(
        &self,
        context: &Self::Context,
        media: &FinishedMedia,
        session: Option<SessionId>,
    ) -> impl Future<Output = Result<Completed<Self::Reply, Self::Held>, Error>> + Send;

    /// Returns the media that the upload is to be concatenated from; `None` if it needs none. Asked
    /// only for a call that was begun by [`Engine::concatenate`](crate::Engine::concatenate), if
    /// its sources may have changed.
    ///
    /// # Errors
    /// For example if a source does not exist any more.
    fn concatenation(
        &self,
        context: &Self::Context,
    ) -> impl Future<Output = Result<Option<Concatenation>, Error>> + Send {
        let _ = context;
        std::future::ready(Ok(None))
    }

    /// Reads the stored reply to an upload of this length; `None` if it cannot be read.
    ///
    /// # Errors
    /// If there is no memory for it now.
    fn replay(&self, stored: &[u8], length: u64) -> Result<Option<Self::Reply>, Error>;

    /// Takes notice of an event. It must not block.
    fn observe(&self, event: UploadEvent<'_, Self>) {
        let _ = event;
    }

    /// Wraps work that may outlive the request that began it, for example to keep the values of
    /// that request's task.
    fn in_request<T: Send + 'static>(&self, work: BoxFuture<'static, T>) -> BoxFuture<'static, T> {
        work
    }
}
