//! Clients that record what was acknowledged, and hold the server to it after a fault.
//!
//! The rules are those of `docs/durability.md`: an acknowledged offset never decreases; the final
//! media equals the bytes that were sent; a finished session stays finished, with one resource and
//! one reply; a cancelled session never yields a resource.
//!
//! The checker speaks the protocol from outside and knows nothing of the server's insides.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::farm;
use crate::media::Media;
use crate::raw::{RawPeer, Reply, Request};
use crate::session::{CHUNK_GRANULARITY, Session, content_range};

/// How a client sends its media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Chunk after chunk.
    Chunks(u64),
    /// All that is missing, in one request.
    Rest,
    /// As [`Manner::Rest`], and then it cancels instead of sending the last byte.
    Cancel,
}

/// One client with one upload.
#[derive(Debug)]
pub struct Client {
    session: Session,
    media: Media,
    manner: Manner,
    name: String,
    /// The highest offset that was acknowledged.
    acknowledged: u64,
    /// The body of the final reply.
    finished: Option<Vec<u8>>,
    cancelled: bool,
}

impl Client {
    /// Starts an upload under a name that no other client has.
    #[track_caller]
    pub fn start(address: SocketAddr, name: &str, media: Media, manner: Manner) -> Self {
        Self {
            session: farm::begin(address, name),
            media,
            manner,
            name: name.to_owned(),
            acknowledged: 0,
            finished: None,
            cancelled: false,
        }
    }

    /// Whether nothing is left to be sent.
    pub fn is_done(&self) -> bool {
        self.finished.is_some() || self.cancelled
    }

    /// The highest offset that was acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Sends until the upload is done, `stop` is set or the connection breaks. Believes nothing but
    /// replies.
    ///
    /// # Panics
    /// When a reply breaks a rule.
    pub fn send(&mut self, stop: &AtomicBool) {
        while !self.is_done() && !stop.load(Ordering::Relaxed) {
            match self.send_next() {
                Ok(reply) => self.note(&reply),
                Err(_) => return,
            }
        }
    }

    /// The server has come back, perhaps at another address: asks what it has kept.
    ///
    /// # Panics
    /// When acknowledged bytes are gone, or an end has come undone.
    pub fn check(&mut self, address: SocketAddr) {
        self.session = self.session.moved_to(address);
        let reply = self.session.query();
        if self.cancelled {
            assert_eq!(
                reply.status, 499,
                "{}: a cancelled session lives: {reply:?}",
                self.name
            );
            return;
        }
        if let Some(finished) = &self.finished {
            assert_eq!(
                reply.status, 201,
                "{}: a finished session does not: {reply:?}",
                self.name
            );
            assert_eq!(
                *finished, reply.body,
                "{}: the final reply has changed",
                self.name
            );
        }
        self.note(&reply);
    }

    /// Looks at the resource that came of it all.
    ///
    /// # Panics
    /// When there is none, more than one, one with other bytes, or one of a cancelled upload.
    pub fn check_resource(&self, address: SocketAddr) {
        let resources = farm::count(address, &self.name);
        if self.cancelled {
            assert_eq!(
                resources, 0,
                "{}: cancelled, and there all the same",
                self.name
            );
            return;
        }
        assert_eq!(resources, 1, "{}", self.name);
        let reply = self.session.moved_to(address).query().expect(201);
        farm::assert_media(address, &reply, self.media);
    }

    fn send_next(&mut self) -> io::Result<Reply> {
        let (from, len) = (self.acknowledged, self.media.len());
        let to = match self.manner {
            Manner::Chunks(chunk) => (from + chunk).min(len),
            Manner::Rest => len,
            Manner::Cancel if from + CHUNK_GRANULARITY < len => {
                (len - 1) / CHUNK_GRANULARITY * CHUNK_GRANULARITY
            }
            Manner::Cancel => return self.try_exchange(&self.session.request("DELETE").body("")),
        };
        let range = content_range(self.media, &(from..to));
        let request = self.session.ranged(&range).body(self.media.bytes(from..to));
        self.try_exchange(&request)
    }

    fn try_exchange(&self, request: &Request) -> io::Result<Reply> {
        let mut peer = RawPeer::try_connect(self.session.address())?;
        peer.try_send(request.to_bytes())?;
        peer.try_reply()
    }

    fn note(&mut self, reply: &Reply) {
        let name = &self.name;
        match reply.status {
            308 => {
                let committed = reply.committed();
                let acknowledged = self.acknowledged;
                assert!(
                    committed >= acknowledged,
                    "{name}: {committed} after {acknowledged}"
                );
                assert!(
                    committed <= self.media.len(),
                    "{name}: more than was sent: {committed}"
                );
                assert!(
                    self.finished.is_none(),
                    "{name}: a finished session is not: {reply:?}"
                );
                self.acknowledged = committed;
            }
            201 => {
                self.acknowledged = self.media.len();
                self.finished = Some(reply.body.clone());
            }
            499 => self.cancelled = true,
            503 => {}
            _ => panic!("{name}: {reply:?}"),
        }
    }
}
