//! The wire forms of an upload.
//!
//! A dialect reads the head of a request into a neutral [`Command`], and writes the head of the
//! reply from a neutral [`Outcome`] or an error. It does not carry out commands: the state machine
//! of a session ([`crate::session`]) and the session's bytes are the same for all dialects. A
//! session remembers the dialect that began it, and only that dialect may change it.
//!
//! [`XGoogUpload`] is the dialect of Firebase's and Gemini's libraries and of Google's newer
//! libraries, [`Tus`] that of tus clients. [`Google`] is the dialect of all requests that no other
//! dialect claims.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::body_digests::DigestField;
use crate::command::{Command, Framing};
use crate::error::ProtocolError;
use crate::parameters::{Parameters, UploadId};
use crate::reply::{ErrorReply, ReplyHead};
use crate::session::Rules;

mod google;
mod head;
mod ietf;
mod session_uri;
mod tus;
mod x_goog_upload;

pub use google::Google;
pub use ietf::Ietf;
pub use session_uri::SessionPath;
pub use tus::Tus;
pub use x_goog_upload::XGoogUpload;

/// A wire form.
///
/// All functions are pure. The matches over errors should have no wildcard, so that a new error
/// does not compile before each dialect has its reply.
pub trait Dialect: fmt::Debug + Send + Sync + 'static {
    /// Returns the name that is stored with sessions. It must not change.
    fn name(&self) -> &'static str;

    /// Returns whether a request is an upload in this dialect. Of several dialects the first that
    /// claims a request gets it.
    ///
    /// A dialect that claims requests to the plain paths of methods gets them as uploads.
    fn claims(&self, target: &RequestTarget<'_>) -> bool;

    /// Returns the dialect as it answers one request, if its replies depend on the request's head:
    /// all further functions are asked of what is returned. Default: `None`, as all requests are
    /// answered alike.
    fn of_request(&self, target: &RequestTarget<'_>) -> Option<Arc<dyn Dialect>> {
        let _ = target;
        None
    }

    /// Returns what a request asks for, judged by parts of its head. A nearly full server asks
    /// before it reads anything else, so the request may turn out to be malformed, or to be no
    /// upload. Default: [`Intent::of_method`].
    fn intent(&self, target: &RequestTarget<'_>) -> Intent {
        Intent::of_method(target.http_method, target.has_session())
    }

    /// Parses the head of a request on an upload URI.
    ///
    /// # Errors
    /// The rule that the head breaks.
    fn command(&self, request: &RequestHead<'_>) -> Result<Command, ProtocolError>;

    /// Returns the fields that state digests of the body of one request. They are checked for each
    /// request of the dialect; see [`BodyDigests`](crate::body_digests::BodyDigests). Default:
    /// `Content-Digest`.
    fn digest_fields(&self) -> &'static [DigestField] {
        &[DigestField::ContentDigest]
    }

    /// Returns the rules of the dialect's sessions, given the configured rules. Default: the
    /// configured rules.
    fn rules(&self, configured: Rules) -> Rules {
        configured
    }

    /// Returns the parameters of a session's URI before its `upload_id`. They show requests to the
    /// session without any header of the dialect. Default: Google's.
    fn session_parameters(&self) -> &'static str {
        "uploadType=resumable"
    }

    /// Returns the segment that begins the [path](SessionPath) of the dialect's session URIs. `None`
    /// if they name the session in their query. Default: `None`.
    fn session_segment(&self) -> Option<&'static str> {
        None
    }

    /// Returns the head of the reply to a request that was carried out.
    fn reply(&self, outcome: Outcome<'_>) -> ReplyHead;

    /// Returns the reply to a request that breaks a rule of the protocol.
    fn protocol_error(&self, error: &ProtocolError) -> ErrorReply;

    /// Returns the reply to a request that cannot be carried out, although it breaks no rule.
    fn condition(&self, condition: Condition) -> ErrorReply;

    /// Completes the reply to an error that is not of the protocol: an API refuses the upload, its
    /// sender may not make it, a store fails. Default: unchanged.
    fn other_error(&self, reply: ErrorReply) -> ErrorReply {
        reply
    }

    /// Adds the headers that all replies to requests of the dialect have, also those of a server
    /// that refuses a request before it routes it. Default: none.
    fn mark(&self, headers: &mut HeaderMap) {
        let _ = headers;
    }

    /// Returns the header fields of an interim reply (104) that reports progress, before the reply to
    /// the request. `None` if the client does not expect one. Default: none.
    fn progress(&self, progress: Progress<'_>) -> Option<HeaderMap> {
        let _ = progress;
        None
    }

    /// Adds what a reply to `OPTIONS` says about uploads to a path. The headers are those of all
    /// dialects, so that clients of each find theirs. Default: nothing.
    fn describe(&self, offer: &Offer, headers: &mut HeaderMap) {
        let _ = (offer, headers);
    }
}

/// The parts of a head by which a request is given to a dialect.
#[derive(Debug, Clone, Copy)]
pub struct RequestTarget<'a> {
    /// HTTP method, the [effective](crate::command::effective_method) one.
    pub http_method: &'a Method,
    /// Whether the path is one for uploads, such as `/upload/farm/v1/animals`. Otherwise it may be
    /// the plain path of a method, or any other path.
    pub is_upload_path: bool,
    /// Whether the path is the plain path of a method with this HTTP method that takes media.
    pub is_media_path: bool,
    /// Parameters of the query.
    pub parameters: &'a Parameters,
    /// Headers.
    pub headers: &'a HeaderMap,
}

impl RequestTarget<'_> {
    /// Whether the query has an `upload_id`.
    pub fn has_session(&self) -> bool {
        self.parameters.first("upload_id").is_some()
    }

    /// Whether requests with this HTTP method may carry media.
    pub fn may_carry_media(&self) -> bool {
        head::UPLOAD_METHODS.contains(self.http_method)
    }
}

/// What a server offers to uploads to one path.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// The most bytes of an upload; `None` if there is no limit.
    pub max_size: Option<u64>,
    /// How long a session lasts after its start.
    pub lifetime: Duration,
}

/// The head of a request on an upload URI.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// HTTP method, the [effective](crate::command::effective_method) one.
    pub http_method: &'a Method,
    /// Parameters of the query.
    pub parameters: &'a Parameters,
    /// Headers.
    pub headers: &'a HeaderMap,
    /// Length of the body as stated.
    pub framing: Framing,
}

/// What a request asks for, judged by its head alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// The start of an upload, an upload in one request, or another write.
    Start,
    /// The state of an upload, or a call that reads.
    Query,
    /// More bytes of an upload.
    Append,
    /// The end of an upload, with or without bytes; a cancel; a deletion.
    Finish,
}

impl Intent {
    /// Returns the intent of a request of which only the HTTP method tells it.
    pub fn of_method(http_method: &Method, has_session: bool) -> Self {
        let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(http_method);
        match has_session {
            _ if http_method == Method::DELETE => Self::Finish,
            _ if is_safe => Self::Query,
            // The last bytes look like all others. A refused `Finish` costs the client more than a
            // refused `Append`, but a client must not get that class for each of its requests.
            true => Self::Append,
            false => Self::Start,
        }
    }
}

/// The outcome of a request.
#[derive(Debug)]
pub enum Outcome<'a> {
    /// A session has started, and its upload is not finished.
    Started {
        /// Absolute session URI, which carries the `upload_id`.
        location: HeaderValue,
        /// The `upload_id`.
        upload_id: HeaderValue,
        /// The session.
        status: SessionStatus<'a>,
        /// Whether the body of the request is the first part of the media. It may be empty.
        with_data: bool,
    },
    /// Bytes are committed, and the upload is not finished.
    Committed {
        /// The session.
        status: SessionStatus<'a>,
        /// The `upload_id`.
        upload_id: &'a UploadId,
        /// Whether the client has asked for `200` in place of `308`; see
        /// [`SessionHead`](crate::command::SessionHead).
        no_308: bool,
    },
    /// The upload is finished. The body of the reply is the API's.
    Final(Final<'a>),
    /// The session was cancelled by this request.
    Cancelled,
}

/// The progress of a request that brings data.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// The request has started a session.
    Started {
        /// Absolute session URI.
        location: &'a HeaderValue,
    },
    /// Bytes are committed.
    Committed {
        /// Number of committed bytes of the media.
        offset: u64,
    },
}

/// An unfinished session.
#[derive(Debug, Clone, Copy)]
pub struct SessionStatus<'a> {
    /// Number of committed bytes.
    pub offset: u64,
    /// Length of the whole media, if it is known. `None` for a request in another dialect than the
    /// session's: its client could take a session with all bytes for finished.
    pub length: Option<u64>,
    /// When the session ends if it is not continued; `None` if that is not known.
    pub expires: Option<Expiry>,
    /// What the dialect has asked to keep ([`StartHead::kept`](crate::command::StartHead::kept)).
    /// Only queries get it.
    pub kept: Option<&'a str>,
}

impl SessionStatus<'_> {
    /// Returns the status of a session of which only the offset is known.
    pub const fn with_offset(offset: u64) -> Self {
        Self {
            offset,
            length: None,
            expires: None,
            kept: None,
        }
    }
}

/// A time to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// The time.
    pub at: SystemTime,
    /// How long it is until then.
    pub left: Duration,
}

/// A finished upload.
#[derive(Debug)]
pub struct Final<'a> {
    /// Status that the API gives to the reply.
    pub status: StatusCode,
    /// Media type of the body.
    pub content_type: HeaderValue,
    /// Length of the media.
    pub length: u64,
    /// Path of the resource that the upload has become, if one is known.
    pub resource: Option<HeaderValue>,
    /// The session, unless the upload was made in one request.
    pub upload_id: Option<&'a UploadId>,
    /// Absolute URI of the session, if this request has started it.
    pub location: Option<HeaderValue>,
    /// What the dialect has asked to keep. Only queries get it.
    pub kept: Option<&'a str>,
}

/// Why a request cannot be carried out, although it breaks no rule of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The session is unknown or has expired.
    SessionNotFound,
    /// The session was begun in another dialect.
    OtherDialect,
    /// The body did not arrive completely. Received bytes are kept.
    Interrupted,
    /// A newer request has taken the session over.
    Superseded,
    /// All bytes are committed, and the resource is not created yet.
    FinishPending,
    /// A finished upload cannot be cancelled.
    AlreadyFinished,
    /// The session that is to be cancelled has been cancelled before.
    AlreadyCancelled,
    /// The media of the session or the resource is lost.
    MediaLost,
    /// The server cannot carry it out now.
    Unavailable {
        /// Number of seconds after which another try makes sense.
        retry_after: u32,
    },
}
