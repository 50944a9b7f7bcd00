//! The wire forms of an upload.
//!
//! A dialect reads the head of a request into a neutral [`Command`], and writes the head of the
//! reply from a neutral [`Outcome`] or an error. It does not carry out commands: the state machine
//! of a session ([`crate::session`]) and the session's bytes are the same for all dialects. A
//! session remembers the dialect that began it, and only that dialect may change it.
//!
//! [`XGoogUpload`] is the dialect of Firebase's and Gemini's libraries and of Google's newer
//! libraries. [`Google`] is the dialect of all requests that no other dialect claims.

use std::fmt;

use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::command::{Command, Framing};
use crate::error::ProtocolError;
use crate::parameters::{Parameters, UploadId};
use crate::reply::{ErrorReply, ReplyHead};
use crate::session::Rules;

mod google;
mod head;
mod x_goog_upload;

pub use google::Google;
pub use x_goog_upload::XGoogUpload;

/// A wire form.
///
/// All functions are pure. The matches over errors should have no wildcard, so that a new error
/// does not compile before each dialect has its reply.
pub trait Dialect: fmt::Debug + Send + Sync + 'static {
    /// Returns the name that is stored with sessions. It must not change.
    fn name(&self) -> &'static str;

    /// Returns whether a request on an upload URI is in this dialect, by its headers. Of several
    /// dialects the first that claims a request gets it.
    fn claims(&self, headers: &HeaderMap) -> bool;

    /// Returns whether clients of the dialect also upload to the plain path of a method, so that
    /// requests there may be claimed, too. Default: no.
    fn claims_plain_paths(&self) -> bool {
        false
    }

    /// Returns what a request asks for, judged by parts of its head. A nearly full server asks
    /// before it reads anything else, so the request may turn out to be malformed, or to be no
    /// upload. Default: [`Intent::of_method`].
    ///
    /// `http_method` is the [effective](crate::command::effective_method) method. `has_session`
    /// says whether the query has an `upload_id`.
    fn intent(&self, http_method: &Method, has_session: bool, headers: &HeaderMap) -> Intent {
        let _ = headers;
        Intent::of_method(http_method, has_session)
    }

    /// Parses the head of a request on an upload URI.
    ///
    /// # Errors
    /// The rule that the head breaks.
    fn command(&self, request: &RequestHead<'_>) -> Result<Command, ProtocolError>;

    /// Returns the rules of the dialect's sessions, given the configured rules. Default: the
    /// configured rules.
    fn rules(&self, configured: Rules) -> Rules {
        configured
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
    /// A session has started.
    Started {
        /// Absolute session URI, which carries the `upload_id`.
        location: HeaderValue,
        /// The `upload_id`.
        upload_id: HeaderValue,
    },
    /// Bytes are committed, and the upload is not finished.
    Committed {
        /// Number of committed bytes.
        offset: u64,
        /// The session.
        upload_id: &'a UploadId,
        /// Whether the client has asked for `200` in place of `308`; see
        /// [`SessionHead`](crate::command::SessionHead).
        no_308: bool,
    },
    /// The upload is finished. The body of the reply is the API's.
    Final {
        /// Status that the API gives to the reply.
        status: StatusCode,
        /// Media type of the body.
        content_type: HeaderValue,
        /// The session, unless the upload was made in one request.
        upload_id: Option<&'a UploadId>,
    },
    /// The session was cancelled by this request.
    Cancelled,
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
