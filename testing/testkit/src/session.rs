//! A resumable upload as a well-behaved client does it, one request at a time.

use std::net::SocketAddr;
use std::ops::Range;

use crate::media::Media;
use crate::raw::{RawPeer, Reply, Request, exchange};

/// The length of every chunk but the last is a multiple of this.
pub const CHUNK_GRANULARITY: u64 = 256 * 1024;

/// A session as its client knows it.
#[derive(Debug, Clone)]
pub struct Session {
    address: SocketAddr,
    target: String,
}

impl Session {
    /// Starts a session with a request that must be answered with 200 and a session URI.
    #[track_caller]
    pub fn start(address: SocketAddr, start: &Request) -> Self {
        let reply = exchange(address, start).expect(200);
        Self::of_reply(address, &reply)
    }

    /// The session that a reply to a start names.
    #[track_caller]
    pub fn of_reply(address: SocketAddr, reply: &Reply) -> Self {
        let target = target_of(reply).expect("a started session has an absolute URI");
        Self { address, target }
    }

    /// The session with a URI of this path and query.
    pub fn at(address: SocketAddr, target: &str) -> Self {
        Self {
            address,
            target: target.to_owned(),
        }
    }

    /// The same session at another address, such as the address of the server's next life.
    #[must_use]
    pub fn moved_to(&self, address: SocketAddr) -> Self {
        Self {
            address,
            target: self.target.clone(),
        }
    }

    /// Where its server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Path and query of the session URI.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The session's `upload_id`.
    #[track_caller]
    pub fn upload_id(&self) -> &str {
        let in_query = self.target.split_once("upload_id=");
        let (_, id) = in_query
            .or_else(|| self.target.split_once("/upload/-tus/"))
            .expect("a session URI has an upload_id");
        id.split(['&', '/']).next().unwrap_or(id)
    }

    /// A connection to the session's server.
    #[track_caller]
    pub fn peer(&self) -> RawPeer {
        RawPeer::connect(self.address)
    }

    /// A request to the session.
    pub fn request(&self, verb: &str) -> Request {
        Request::new(verb, &self.target)
    }

    /// A PUT with this `Content-Range`, without its body.
    pub fn ranged(&self, content_range: &str) -> Request {
        self.request("PUT").header("Content-Range", content_range)
    }

    /// Sends a request on a new connection.
    #[track_caller]
    pub fn exchange(&self, request: &Request) -> Reply {
        exchange(self.address, request)
    }

    /// Sends a body with this `Content-Range`.
    #[track_caller]
    pub fn put(&self, content_range: &str, body: impl AsRef<[u8]>) -> Reply {
        self.exchange(&self.ranged(content_range).body(body))
    }

    /// Sends a range of the media. Only a request that reaches its end names the total.
    #[track_caller]
    pub fn append(&self, media: Media, range: Range<u64>) -> Reply {
        self.put(&content_range(media, &range), media.bytes(range))
    }

    /// Queries the committed bytes.
    #[track_caller]
    pub fn query(&self) -> Reply {
        self.put("bytes */*", "")
    }

    /// Cancels the upload.
    #[track_caller]
    pub fn cancel(&self) -> Reply {
        self.exchange(&self.request("DELETE").body(""))
    }
}

/// Path and query of the absolute URI in a reply's `Location`.
pub fn target_of(reply: &Reply) -> Option<String> {
    target_in(reply, "location")
}

/// Path and query of the absolute URI in a header of a reply.
pub fn target_in(reply: &Reply, header: &str) -> Option<String> {
    let (_, rest) = reply.header(header)?.split_once("://")?;
    Some(rest[rest.find('/')?..].to_owned())
}

/// The `Content-Range` of a range of the media. A range that reaches the end names the total.
pub fn content_range(media: Media, range: &Range<u64>) -> String {
    let (first, last) = (range.start, range.end.saturating_sub(1));
    match range.end == media.len() {
        _ if range.is_empty() => format!("bytes */{}", media.len()),
        true => format!("bytes {first}-{last}/{}", media.len()),
        false => format!("bytes {first}-{last}/*"),
    }
}
