//! A client that remembers what it was told, and holds the server to it.

use bytes::Bytes;
use windlass_testkit::media::Media;

use super::{Life, Manner};
use crate::world::{Body, LIFETIME, Reply, World};

/// How often it goes on after something went wrong, before it waits for the server to come back.
const TRIES: usize = 3;

const UPLOADS: &str = "/upload/farm/v1/animals";

/// What became of something that the client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Never,
    /// Without an answer that says.
    Unanswered,
    Done,
}

/// What a client sends, and what it knows.
pub(super) struct Client {
    life: Life,
    media: Media,
    /// The media that takes its place, in some lives.
    next_media: Media,
    session: Option<String>,
    /// The highest offset that was acknowledged.
    acknowledged: u64,
    /// The final reply of the upload.
    finished: Option<Bytes>,
    /// Cancelling, deleting or replacing, whatever the life is about.
    second_step: Asked,
}

impl Client {
    pub(super) fn new(life: Life) -> Self {
        let (Life::Simple { len }
        | Life::Multipart { len }
        | Life::Chunks { len, .. }
        | Life::Cancelled { len, .. }
        | Life::Expired { len, .. }
        | Life::Replaced { len }
        | Life::Deleted { len }) = life;
        Self {
            life,
            media: Media::new(len, len),
            next_media: Media::new(len + 1, len + 1),
            session: None,
            acknowledged: 0,
            finished: None,
            second_step: Asked::Never,
        }
    }

    /// Goes about its business as long as the server plays along, and looks at what came of it.
    pub(super) async fn live(&mut self, world: &World) {
        if self.is_in_session() {
            self.start(world).await;
            self.send(world).await;
        } else {
            self.send_at_once(world).await;
        }
        self.take_second_step(world).await;
        self.look(world).await;
    }

    /// Nothing of the business is left undone.
    pub(super) fn assert_complete(&self) {
        match self.life {
            Life::Simple { .. } | Life::Multipart { .. } | Life::Chunks { .. } => {
                assert!(self.finished.is_some());
            }
            Life::Cancelled { .. } | Life::Expired { .. } => assert!(self.acknowledged > 0),
            Life::Replaced { .. } | Life::Deleted { .. } => assert!(self.finished.is_some()),
        }
        if !matches!(
            self.life,
            Life::Simple { .. } | Life::Multipart { .. } | Life::Chunks { .. }
        ) {
            assert_eq!(self.second_step, Asked::Done);
        }
    }

    /// The server is back: what was acknowledged is there. What is left of the business is done.
    pub(super) async fn come_to_an_end(&mut self, world: &World) {
        if let Some(session) = self.session.clone() {
            self.find_session(world, &session).await;
        } else {
            self.find_resource(world).await;
        }
        self.take_second_step(world).await;
        assert_ne!(self.second_step, Asked::Unanswered);
    }

    /// All is as the client was told.
    pub(super) async fn check(&self, world: &World) {
        if let Some(session) = &self.session {
            let reply = world.query(session).await;
            match self.life {
                Life::Cancelled { .. } => assert_eq!(reply.status.as_u16(), 499, "{reply:?}"),
                Life::Expired { .. } => assert_eq!(reply.status.as_u16(), 404, "{reply:?}"),
                _ => {
                    assert!(reply.status.is_success(), "{reply:?}");
                    assert_eq!(self.finished.as_ref(), Some(&reply.body));
                }
            }
        }
        let ids = world.ids().await;
        assert_eq!(ids.len(), usize::from(self.leaves_a_resource()), "{ids:?}");
        for id in ids {
            assert!(world.animal(&id).await.body == self.last_media().whole());
        }
    }

    fn is_in_session(&self) -> bool {
        matches!(
            self.life,
            Life::Chunks { .. } | Life::Cancelled { .. } | Life::Expired { .. }
        )
    }

    fn leaves_a_resource(&self) -> bool {
        match self.life {
            Life::Simple { .. } | Life::Multipart { .. } | Life::Replaced { .. } => true,
            // Without an answer to its start there is no session, as far as the client knows.
            Life::Chunks { .. } => self.session.is_some(),
            Life::Cancelled { .. } | Life::Expired { .. } | Life::Deleted { .. } => false,
        }
    }

    fn last_media(&self) -> Media {
        if self.second_step == Asked::Done {
            self.next_media
        } else {
            self.media
        }
    }

    async fn start(&mut self, world: &World) {
        let declared = match self.life {
            Life::Chunks {
                manner: Manner::OpenEnded,
                ..
            } => None,
            _ => Some(self.media.len()),
        };
        match world.start(declared).await {
            Ok(session) => self.session = Some(session),
            Err(reply) => assert_eq!(reply.status.as_u16(), 503, "{reply:?}"),
        }
    }

    /// Sends what is to be sent in the session, which may be a part.
    async fn send(&mut self, world: &World) {
        let Some(session) = self.session.clone() else {
            return;
        };
        let (chunk, manner, end) = match self.life {
            Life::Chunks { len, chunk, manner } => (chunk, manner, len),
            Life::Cancelled { len, chunk } | Life::Expired { len, chunk } => {
                (chunk, Manner::Plain, len - chunk)
            }
            _ => unreachable!("it has no session"),
        };
        let is_part = end < self.media.len();
        let mut tries = TRIES;
        while tries > 0 && self.finished.is_none() && !(is_part && self.acknowledged >= end) {
            let to = (self.acknowledged + chunk).min(end);
            if manner == Manner::Broken {
                self.break_off(world, &session, to).await;
            }
            let reply = self.send_chunk(world, &session, manner, to).await;
            if !self.take(reply, to) {
                tries -= 1;
                self.ask(world, &session).await;
            }
        }
    }

    async fn send_chunk(&self, world: &World, session: &str, manner: Manner, to: u64) -> Reply {
        let (committed, len) = (self.acknowledged, self.media.len());
        let total = match manner {
            Manner::OpenEnded => "*".to_owned(),
            _ => len.to_string(),
        };
        let from = match manner {
            Manner::Overlapping => committed.saturating_sub(3),
            _ => committed,
        };
        if committed == len {
            let range = format!("bytes */{len}");
            return world.put(session, &range, Body::Whole(Vec::new())).await;
        }
        let range = format!("bytes {from}-{}/{total}", to - 1);
        let body = Body::Whole(self.media.bytes(from..to));
        world.put(session, &range, body).await
    }

    /// Sends a half of what is to come up to `to`, and asks what there is.
    async fn break_off(&mut self, world: &World, session: &str, to: u64) {
        let (from, len) = (self.acknowledged, self.media.len());
        let half = from.midpoint(to);
        if half == from {
            return;
        }
        let range = format!("bytes {from}-{}/{len}", to - 1);
        let body = Body::Broken(self.media.bytes(from..half));
        let reply = world.put(session, &range, body).await;
        assert_eq!(reply.status.as_u16(), 503, "{reply:?}");
        self.ask(world, session).await;
    }

    async fn ask(&mut self, world: &World, session: &str) {
        let reply = world.query(session).await;
        self.take(reply, self.media.len());
    }

    /// Learns from a reply to a request that ended at `sent`. Says whether it was one.
    fn take(&mut self, reply: Reply, sent: u64) -> bool {
        match reply.status.as_u16() {
            308 => {
                let committed = reply.committed();
                let known = self.acknowledged;
                assert!(self.finished.is_none(), "a finished upload is unfinished");
                assert!(
                    committed >= known,
                    "{committed} after {known} was acknowledged"
                );
                assert!(committed <= self.media.len().max(sent));
                self.acknowledged = committed;
                true
            }
            200 | 201 => {
                if let Some(before) = &self.finished {
                    assert_eq!(*before, reply.body, "the final reply has changed");
                }
                self.finished = Some(reply.body);
                true
            }
            503 => false,
            _ => panic!("{reply:?}"),
        }
    }

    async fn send_at_once(&mut self, world: &World) {
        let reply = match self.life {
            Life::Multipart { .. } => world.multipart(UPLOADS, self.media).await,
            _ => world.simple("POST", UPLOADS, self.media).await,
        };
        self.take(reply, self.media.len());
    }

    /// Does what the life is about besides uploading, if it has not been done.
    async fn take_second_step(&mut self, world: &World) {
        if self.second_step == Asked::Done {
            return;
        }
        let done = match (self.life, &self.session, &self.finished) {
            (Life::Cancelled { .. }, Some(session), _) => {
                let body = Body::Whole(Vec::new());
                (world.send("DELETE", session, &[], body).await, 499)
            }
            (Life::Expired { .. }, Some(session), _) => {
                world.clock.advance(LIFETIME);
                (world.query(session).await, 404)
            }
            (Life::Deleted { .. }, _, Some(finished)) => {
                let uri = format!("/farm/v1/animals/{}", id(finished));
                (
                    world
                        .send("DELETE", &uri, &[], Body::Whole(Vec::new()))
                        .await,
                    204,
                )
            }
            (Life::Replaced { .. }, _, Some(finished)) => {
                let uri = format!("{UPLOADS}/{}", id(finished));
                (world.simple("PUT", &uri, self.next_media).await, 200)
            }
            _ => return,
        };
        self.second_step = match (done.0.status.as_u16(), done.1) {
            (status, expected) if status == expected => Asked::Done,
            // It was done before, unheard.
            (404, 204) if self.second_step == Asked::Unanswered => Asked::Done,
            (503, _) => Asked::Unanswered,
            (status, expected) => panic!("{status} instead of {expected}: {:?}", done.0),
        };
    }

    /// Reads what it has uploaded. Whatever goes wrong, no wrong byte comes.
    async fn look(&self, world: &World) {
        let Some(finished) = &self.finished else {
            return;
        };
        let (old, new) = (self.media.whole(), self.next_media.whole());
        for headers in [&[][..], &[("range", "bytes=2-")]] {
            let uri = format!("/farm/v1/animals/{}?alt=media", id(finished));
            let reply = world
                .try_send("GET", &uri, headers, Body::Whole(Vec::new()))
                .await;
            let skipped = 2 * headers.len();
            match reply.status.as_u16() {
                200 | 206 => {
                    let is_part_of = |media: &[u8]| media[skipped..].starts_with(&reply.body);
                    let is_all_of = |media: &[u8]| reply.body == media[skipped..];
                    let is_right =
                        |media| is_all_of(media) || (!reply.is_whole && is_part_of(media));
                    assert!(is_right(&old) || is_right(&new), "{uri}");
                }
                404 => assert!(matches!(self.life, Life::Deleted { .. })),
                503 => {}
                _ => panic!("{reply:?}"),
            }
        }
    }

    /// Goes on with a session after a restart.
    async fn find_session(&mut self, world: &World, session: &str) {
        let reply = world.query(session).await;
        match (self.life, reply.status.as_u16(), self.second_step) {
            (Life::Cancelled { .. }, 499, Asked::Unanswered | Asked::Done)
            | (Life::Expired { .. }, 404, Asked::Unanswered | Asked::Done) => {}
            (Life::Cancelled { .. } | Life::Expired { .. }, 308, Asked::Never)
            | (Life::Cancelled { .. }, 308, Asked::Unanswered) => {
                self.take(reply, self.media.len());
            }
            (Life::Chunks { .. }, _, _) => {
                assert!(self.take(reply, self.media.len()), "{session}");
                self.send(world).await;
                assert!(self.finished.is_some(), "it does not end");
            }
            _ => panic!("{:?}: {reply:?}", self.second_step),
        }
    }

    /// Looks for what a request may have made before it was answered, and asks again if it has not.
    async fn find_resource(&mut self, world: &World) {
        let ids = world.ids().await;
        if self.is_in_session() {
            // No request to the session was ever sent.
            assert_eq!(ids.len(), 0);
            return;
        }
        match (&self.finished, &ids[..], self.second_step) {
            (None, [], Asked::Never) => self.send_at_once(world).await,
            (None, [id], Asked::Never) => {
                self.finished = Some(format!(r#"{{"id":"{id}"}}"#).into());
            }
            (Some(finished), [found], _) => assert_eq!(id(finished), *found),
            (Some(_), [], Asked::Unanswered | Asked::Done)
                if matches!(self.life, Life::Deleted { .. }) => {}
            _ => panic!("{ids:?} after {:?}, {:?}", self.finished, self.second_step),
        }
        assert!(self.finished.is_some());
        for id in ids {
            self.check_media(&world.animal(&id).await.body);
        }
    }

    /// The bytes of a resource are those that were sent, before or after a replacement.
    fn check_media(&self, bytes: &Bytes) {
        let is_old = *bytes == self.media.whole();
        let is_new = *bytes == self.next_media.whole();
        match (self.life, self.second_step) {
            (Life::Replaced { .. }, Asked::Done) => assert!(is_new),
            (Life::Replaced { .. }, Asked::Unanswered) => assert!(is_old || is_new),
            (Life::Deleted { .. }, Asked::Done) => panic!("what was deleted is back"),
            _ => assert!(is_old),
        }
    }
}

/// The id of the resource that a final reply shows.
fn id(reply: &Bytes) -> String {
    let json: serde_json::Value = serde_json::from_slice(reply).expect("it is JSON");
    json["id"]
        .as_str()
        .expect("a resource has an id")
        .to_owned()
}
