//! A client that works on its uploads and checks each reply.

use serde_json::json;
use windlass_testkit::farm::{self, ANIMALS, UPLOADS};
use windlass_testkit::media::Media;
use windlass_testkit::oracle::{Answer, Event, Rule, judge_resources};

use super::oracle::{Oracle, strange};
use super::{Life, Manner};
use crate::protocols::Protocol;
use crate::world::{Body, LIFETIME, Peer as _, Reply, World};

/// Number of attempts after a failure, before the client waits for the server to come back.
const TRIES: usize = 3;

/// The type of all media.
const PNG: &str = "image/png";

// The statuses of completed second steps.
const CANCELLED: u16 = 499;
const EXPIRED: u16 = 404;
const DELETED: u16 = 204;
const REPLACED: u16 = 200;

/// The known result of a request for the second step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Never,
    /// Sent, without a reply that shows the result.
    Unanswered,
    Done,
}

/// The client's plan, and its knowledge.
pub(super) struct Client {
    life: Life,
    media: Media,
    /// The replacement media, in some lives.
    next_media: Media,
    session: Option<String>,
    oracle: Oracle,
    /// Cancelling, deleting or replacing, depending on the life.
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
            oracle: Oracle::new(life),
            second_step: Asked::Never,
        }
    }

    /// Works until the server fails, and then reads the results.
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

    /// Checks that all work is done.
    pub(super) fn assert_complete(&self) {
        let promise = self.oracle.promise();
        let is_done = self.second_step == Asked::Done;
        let is_complete = match self.life {
            Life::Simple { .. } | Life::Multipart { .. } | Life::Chunks { .. } => {
                self.is_finished()
            }
            Life::Cancelled { .. } | Life::Expired { .. } => promise.offset > 0 && is_done,
            Life::Replaced { .. } | Life::Deleted { .. } => self.is_finished() && is_done,
        };
        if !is_complete {
            let second_step = self.second_step;
            self.stuck(&format!("{promise:?}, {second_step:?}"));
        }
    }

    /// Checks after the restart that everything acknowledged is present, and completes the work.
    pub(super) async fn come_to_an_end(&mut self, world: &World) {
        if let Some(session) = self.session.clone() {
            self.find_session(world, &session).await;
        } else {
            self.find_resource(world).await;
        }
        self.take_second_step(world).await;
        if self.second_step == Asked::Unanswered {
            self.stuck("the second step is refused");
        }
    }

    /// Checks that everything is as the replies have promised.
    pub(super) async fn check(&mut self, world: &World) {
        if let Some(session) = self.session.clone() {
            let reply = world.query(&session).await;
            self.oracle.take(&reply);
            let is_right = match self.life {
                Life::Cancelled { .. } => reply.status == CANCELLED,
                Life::Expired { .. } => reply.status == EXPIRED,
                _ => reply.status.is_success(),
            };
            if !is_right {
                self.oracle.violate(strange(&reply));
            }
        }
        self.check_resources(world).await;
    }

    fn is_in_session(&self) -> bool {
        matches!(
            self.life,
            Life::Chunks { .. } | Life::Cancelled { .. } | Life::Expired { .. }
        )
    }

    fn manner(&self) -> Manner {
        match self.life {
            Life::Chunks { manner, .. } => manner,
            _ => Manner::Plain,
        }
    }

    fn is_finished(&self) -> bool {
        self.oracle.promise().finished.is_some()
    }

    /// Fails the test: the server makes no progress although there are no faults.
    #[track_caller]
    fn stuck(&self, how: &str) -> ! {
        self.oracle.violate(Rule::Stuck(how.to_owned()))
    }

    async fn start(&mut self, world: &World) {
        let started = match self.manner() {
            Manner::OpenEnded => world.start(None).await,
            Manner::In(dialect) => {
                let reply = dialect.start(Some(self.media.len())).to(world).await;
                if reply.status.is_success() {
                    Ok(dialect.session(&reply))
                } else {
                    Err(reply)
                }
            }
            Manner::Plain | Manner::Overlapping | Manner::Broken => {
                world.start(Some(self.media.len())).await
            }
        };
        match started {
            Ok(session) => {
                self.oracle.note(&Event::Started);
                self.session = Some(session);
            }
            Err(reply) => self.oracle.take_refusal(&reply),
        }
    }

    /// Sends the media of the session, which may be a part of it.
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
        while tries > 0 && !self.is_finished() && !(is_part && self.committed() >= end) {
            let to = (self.committed() + chunk).min(end);
            if manner == Manner::Broken {
                self.break_off(world, &session, to).await;
            }
            let reply = self.send_chunk(world, &session, manner, to).await;
            if let Answer::NotNow(_) = self.take(&reply) {
                tries -= 1;
                self.ask(world, &session).await;
            }
        }
    }

    /// The offset from which the client continues.
    fn committed(&self) -> u64 {
        self.oracle.promise().offset
    }

    async fn send_chunk(&mut self, world: &World, session: &str, manner: Manner, to: u64) -> Reply {
        if let Manner::In(dialect) = manner {
            return self.send_part(world, dialect, session, to).await;
        }
        let (committed, len) = (self.committed(), self.media.len());
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
            return world.put(session, &range, "").await;
        }
        self.oracle.note(&Event::Sent(from..to));
        let range = format!("bytes {from}-{}/{total}", to - 1);
        world.put(session, &range, self.media.bytes(from..to)).await
    }

    /// Sends a chunk in another dialect than Google's. The last chunk ends the upload.
    async fn send_part(
        &mut self,
        world: &World,
        dialect: Protocol,
        session: &str,
        to: u64,
    ) -> Reply {
        let range = self.committed()..to;
        self.oracle.note(&Event::Sent(range.clone()));
        let bytes = self.media.bytes(range.clone());
        let part = if to == self.media.len() {
            dialect.end(session, range, bytes)
        } else {
            dialect.append(session, range, bytes)
        };
        part.to(world).await
    }

    /// Records a reply to a request to the session.
    fn take(&mut self, reply: &Reply) -> Answer {
        match self.manner() {
            Manner::In(dialect) => self.oracle.take_in(dialect, reply),
            _ => self.oracle.take(reply),
        }
    }

    /// Sends half of the bytes up to `to`, and then queries the committed offset.
    async fn break_off(&mut self, world: &World, session: &str, to: u64) {
        let (from, len) = (self.committed(), self.media.len());
        let half = from.midpoint(to);
        if half == from {
            return;
        }
        self.oracle.note(&Event::Sent(from..half));
        let range = format!("bytes {from}-{}/{len}", to - 1);
        let body = Body::Broken(self.media.bytes(from..half));
        let reply = world.put(session, &range, body).await;
        self.oracle.take_refusal(&reply);
        self.ask(world, session).await;
    }

    async fn ask(&mut self, world: &World, session: &str) -> Answer {
        let reply = match self.manner() {
            Manner::In(dialect) => dialect.query(session).to(world).await,
            _ => world.query(session).await,
        };
        self.take(&reply)
    }

    async fn send_at_once(&mut self, world: &World) {
        self.oracle.note(&Event::Sent(0..self.media.len()));
        let reply = match self.life {
            Life::Multipart { .. } => {
                let (metadata, media) = (json!({"name": "ox"}), self.media.whole());
                world.multipart(ANIMALS, &metadata, PNG, &media).await
            }
            _ => world.simple(ANIMALS, PNG, &self.media.whole()).await,
        };
        self.oracle.take(&reply);
    }

    /// Takes the second step of the life, unless it is done.
    async fn take_second_step(&mut self, world: &World) {
        if self.second_step == Asked::Done {
            return;
        }
        let resource = self.oracle.resource();
        let (reply, done) = match (self.life, &self.session, resource) {
            (Life::Cancelled { .. }, Some(session), _) => {
                self.oracle.note(&Event::CancelSent);
                let reply = world.call("DELETE", session).await;
                self.oracle.take(&reply);
                (reply, CANCELLED)
            }
            (Life::Expired { .. }, Some(session), _) => {
                world.clock.advance(LIFETIME);
                self.oracle.note_expiry();
                let reply = world.query(session).await;
                self.oracle.take(&reply);
                (reply, EXPIRED)
            }
            (Life::Deleted { .. }, _, Some(id)) => {
                let reply = world.call("DELETE", &farm::animal(&id)).await;
                (reply, DELETED)
            }
            (Life::Replaced { .. }, _, Some(id)) => {
                let uri = format!("{UPLOADS}/{id}?uploadType=media");
                let headers = [("content-type", PNG)];
                let reply = world.send("PUT", &uri, &headers, self.next_media).await;
                (reply, REPLACED)
            }
            _ => return,
        };
        self.second_step = match reply.status.as_u16() {
            status if status == done => Asked::Done,
            // The deletion was done before, without a reply.
            404 if done == DELETED && self.second_step == Asked::Unanswered => Asked::Done,
            503 => Asked::Unanswered,
            _ => self.oracle.violate(strange(&reply)),
        };
    }

    /// Reads the uploaded media. No wrong byte may be returned, even if the read fails.
    async fn look(&self, world: &World) {
        let Some(id) = self.oracle.resource() else {
            return;
        };
        let uri = format!("{}?alt=media", farm::animal(&id));
        for headers in [&[][..], &[("range", "bytes=2-")]] {
            let reply = world.try_send("GET", &uri, headers, "").await;
            match reply.status.as_u16() {
                200 | 206 => {
                    self.judge_count(1);
                    self.judge_media(2 * headers.len() as u64, &reply);
                }
                404 => self.judge_count(0),
                503 => {}
                _ => self.oracle.violate(strange(&reply)),
            }
        }
    }

    /// Continues a session after a restart.
    async fn find_session(&mut self, world: &World, session: &str) {
        let answer = self.ask(world, session).await;
        match (self.life, &answer) {
            (Life::Chunks { .. }, Answer::Committed(_) | Answer::Finished(_)) => {
                self.send(world).await;
                if !self.is_finished() {
                    self.stuck("it does not end");
                }
            }
            (Life::Cancelled { .. }, Answer::Cancelled | Answer::Committed(_))
            | (Life::Expired { .. }, Answer::Unknown | Answer::Committed(_)) => {}
            _ => self.stuck(&format!("its session answers {answer:?}")),
        }
    }

    /// Looks for a resource that a request may have created before its reply was lost. Repeats the
    /// request if there is no resource.
    async fn find_resource(&mut self, world: &World) {
        let ids = self.check_resources(world).await;
        if self.is_in_session() || self.is_finished() {
            return;
        }
        match ids.first() {
            None => self.send_at_once(world).await,
            // The list replaces the reply that was lost.
            Some(id) => {
                let body = format!(r#"{{"id":"{id}"}}"#);
                self.oracle.note(&Event::Finished(body.into()));
            }
        }
        if !self.is_finished() {
            self.stuck("it is refused");
        }
    }

    /// Checks how many resources there are, and the media of one. Returns their ids.
    async fn check_resources(&self, world: &World) -> Vec<String> {
        let ids = world.ids().await;
        self.judge_count(ids.len());
        if let Some(found) = ids.first() {
            let id = self.oracle.resource();
            let media = world.download(id.as_ref().unwrap_or(found)).await;
            self.judge_media(0, &media);
        }
        ids
    }

    /// Judges how many resources there are.
    #[track_caller]
    fn judge_count(&self, found: usize) {
        let most = match (self.life, self.second_step) {
            (Life::Deleted { .. }, Asked::Done) => 0,
            (Life::Deleted { .. }, Asked::Unanswered) => 1,
            _ => {
                let end = self.oracle.promise().end(self.media.len());
                return self.oracle.demand(judge_resources(end, found, false));
            }
        };
        if found > most {
            let least = 0;
            self.oracle.violate(Rule::Resources { found, least, most });
        }
    }

    /// Checks a download of all bytes from `first` on. The last bytes may be missing.
    #[track_caller]
    fn judge_media(&self, first: u64, reply: &Reply) {
        if !reply.status.is_success() {
            let how = format!("its download answers {}", reply.status);
            self.oracle.violate(Rule::MediaDiffers(how));
        }
        let differs = |media: &Media| {
            let arrived = first + reply.body.len() as u64;
            let end = if reply.is_whole {
                media.len()
            } else {
                arrived.min(media.len())
            };
            media.compare(first..end, &reply.body[..]).err()
        };
        // `None` as soon as one media matches.
        let how: Option<Vec<_>> = self.may_be_there().iter().map(differs).collect();
        if let Some(how) = how {
            self.oracle.violate(Rule::MediaDiffers(format!("{how:?}")));
        }
    }

    /// The media that its resource may have.
    fn may_be_there(&self) -> Vec<Media> {
        match (self.life, self.second_step) {
            (Life::Replaced { .. }, Asked::Done) => vec![self.next_media],
            (Life::Replaced { .. }, Asked::Unanswered) => vec![self.media, self.next_media],
            _ => vec![self.media],
        }
    }
}
