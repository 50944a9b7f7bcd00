//! The differences between upload protocols.

mod farm;
mod google;
mod ietf;
mod resumable_308;
mod tus;
mod x_goog_upload;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use crate::media::Media;
use crate::oracle::Answer;
use crate::raw::{Reply, Request};

pub use farm::FarmDialects;
pub use google::Google;
pub use ietf::Ietf;
pub use resumable_308::Resumable308;
pub use tus::Tus;
pub use x_goog_upload::XGoogUpload;

/// Resources by the name of their upload: for each, the arguments of [`Dialect::download`].
pub type Listing = HashMap<String, Vec<String>>;

/// Whether a part states its own digest, where the dialect can: the parts of every other media do.
/// Such a part counts as a whole or not at all.
fn is_digested(media: Media) -> bool {
    media.len().is_multiple_of(2)
}

impl Answer {
    /// Describes a reply that the protocol does not allow.
    pub fn strange(reply: &Reply) -> Self {
        let body = String::from_utf8_lossy(&reply.body);
        let body: String = body.chars().take(200).collect();
        Self::Strange(format!("{} {} {body}", reply.status, reply.reason))
    }
}

/// An upload protocol as a client speaks it: requests out, answers in.
pub trait Dialect: Send + Sync + fmt::Debug {
    /// The name of the dialect in tables.
    fn name(&self) -> &'static str;

    /// Starts a session for media under a name that no other upload has.
    fn start(&self, name: &str, media: Media) -> Request;

    /// Sends a range of the media. A range that reaches its end ends the upload.
    fn append(&self, target: &str, media: Media, range: Range<u64>) -> Request;

    /// Asks how much is committed.
    fn query(&self, target: &str) -> Request;

    /// Cancels a session, where that exists.
    fn cancel(&self, target: &str) -> Option<Request>;

    /// An upload in one request, without a session, where that exists; with the name when
    /// `multipart`.
    fn single_request(&self, name: &str, media: Media, multipart: bool) -> Option<Request> {
        let _ = (name, media, multipart);
        None
    }

    /// Whether a request to this session may begin with bytes that are committed already. If not,
    /// the server refuses it.
    fn may_overlap(&self, target: &str) -> bool {
        let _ = target;
        true
    }

    /// Interprets a reply to any of these requests, or an interim reply (104).
    fn answer(&self, reply: &Reply, media: Media) -> Answer;

    /// Returns the argument of [`Dialect::download`] for a finished upload, made of its session's
    /// target and its final reply. By default it is the target, for servers with media at the URL
    /// of its upload.
    fn resource(&self, target: Option<&str>, finished: &[u8]) -> Option<String> {
        let _ = finished;
        target.map(str::to_owned)
    }

    /// Asks for the media of a resource, where that is possible.
    fn download(&self, resource: &str) -> Option<Request> {
        Some(Request::new("GET", resource))
    }

    /// All resources by name, if the server can list them.
    ///
    /// # Errors
    /// The connection breaks.
    fn listing(&self, address: SocketAddr) -> io::Result<Option<Listing>> {
        let _ = address;
        Ok(None)
    }
}
