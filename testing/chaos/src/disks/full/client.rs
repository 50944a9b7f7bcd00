//! A client of a server that is short of room, and the replies that it got.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;
use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::{Reply, Request};
use windlass_testkit::session::{CHUNK_GRANULARITY, Session, content_range};

use super::super::latency_probe::ask_once;
use super::super::verdict::Verdict;

/// Time limit for the server to report that room was made or has gone. It sweeps media and looks at
/// its disks within seconds.
const SAYS_WITHIN: Duration = Duration::from_secs(15);

/// How often it is asked for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// An upload that was begun.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) session: Session,
    media: Media,
    text: Text,
    offset: u64,
}

impl Begun {
    /// Shortens the media to the acknowledged bytes.
    pub(super) fn shorten_to_what_was_sent(&mut self) {
        self.media = Media::new(self.text.seed, self.offset);
    }
}

/// A resource that was made.
#[derive(Debug)]
pub(super) struct Made {
    id: String,
    text: Option<Text>,
    media: Option<Media>,
}

/// A description of an animal.
#[derive(Debug, Clone, Copy)]
struct Text {
    seed: u64,
    len: u64,
}

impl Text {
    fn text(self) -> String {
        let bytes = Media::new(self.seed, self.len).whole();
        let letters = bytes.iter().map(|byte| char::from(b'a' + byte % 26));
        letters.collect()
    }

    fn metadata(self) -> String {
        json!({ "name": "Llama", "description": self.text() }).to_string()
    }
}

/// Everything that was acknowledged and is not gone.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    pub(super) begun: Vec<Begun>,
    pub(super) made: Vec<Made>,
}

impl Acknowledged {
    pub(super) fn len(&self) -> usize {
        self.begun.len() + self.made.len()
    }
}

/// The client. Its requests follow from the seed.
#[derive(Debug)]
pub(super) struct Client<'a> {
    address: SocketAddr,
    seed: u64,
    pub(super) occasion: String,
    verdict: &'a mut Verdict,
    /// Uploads, sessions and resources.
    pub(super) acknowledged: u64,
    pub(super) refused: u64,
    pub(super) slowest_room: Duration,
}

impl<'a> Client<'a> {
    pub(super) fn new(address: SocketAddr, seed: u64, verdict: &'a mut Verdict) -> Self {
        Self {
            address,
            seed,
            occasion: String::new(),
            verdict,
            acknowledged: 0,
            refused: 0,
            slowest_room: Duration::ZERO,
        }
    }

    /// Continues with the next process of the server.
    pub(super) fn move_to(&mut self, address: SocketAddr) {
        self.address = address;
    }

    /// Whether all was well so far.
    pub(super) fn is_content(&self) -> bool {
        self.verdict.is_clean()
    }

    /// Begins an upload of `media` bytes, with metadata of about `text` bytes.
    pub(super) fn begin(&mut self, text: u64, media: u64) -> anyhow::Result<Option<Begun>> {
        let seed = self.next_seed();
        let text = Text { seed, len: text };
        let reply = self.ask(&farm::start(&text.metadata()))?;
        Ok(self.is_taken(&reply).then(|| Begun {
            session: Session::of_reply(self.address, &reply),
            media: Media::new(seed, media),
            text,
            offset: 0,
        }))
    }

    /// Makes a resource without media, with a body of about `text` bytes.
    pub(super) fn insert(&mut self, text: u64) -> anyhow::Result<Option<Made>> {
        let seed = self.next_seed();
        let text = Text { seed, len: text };
        let insert = Request::new("POST", farm::ANIMALS).header("Content-Type", "application/json");
        let reply = self.ask(&insert.body(text.metadata()))?;
        Ok(self.is_taken(&reply).then(|| Made {
            id: farm::id(&reply),
            text: Some(text),
            media: None,
        }))
    }

    /// Uploads media in one request.
    pub(super) fn upload(&mut self, media: u64) -> anyhow::Result<Option<Made>> {
        let media = Media::new(self.next_seed(), media);
        let reply = self.ask(&farm::simple(media))?;
        Ok(self.is_taken(&reply).then(|| Made {
            id: farm::id(&reply),
            text: None,
            media: Some(media),
        }))
    }

    fn next_seed(&mut self) -> u64 {
        self.seed += 1;
        self.seed
    }

    /// Whether the request was accepted. A refusal must be for lack of room.
    fn is_taken(&mut self, reply: &Reply) -> bool {
        let is_taken = reply.status == 200;
        if is_taken {
            self.acknowledged += 1;
        } else {
            self.judge_refusal(reply);
        }
        is_taken
    }

    /// Sends the media up to `end`, which is not all of it. Returns whether all of that was taken.
    pub(super) fn append(&mut self, begun: &mut Begun, end: u64) -> anyhow::Result<bool> {
        let reply = self.send(begun, end)?;
        if reply.status == 308 {
            self.expect(
                reply.range() == end,
                format!("{} bytes of {end} were taken", reply.range()),
            );
            begun.offset = reply.range();
            return Ok(true);
        }
        self.judge_refusal(&reply);
        // The server keeps and reports the bytes of before.
        let told = self.query(begun)?;
        self.expect(
            (begun.offset..=end).contains(&told),
            format!(
                "{told} bytes are committed, {} to {end} could be",
                begun.offset
            ),
        );
        begun.offset = told;
        Ok(false)
    }

    /// Sends the next piece of the media, unless that is its end, with which it would be finished.
    pub(super) fn append_piece(&mut self, begun: &mut Begun) -> anyhow::Result<bool> {
        let end = begun.offset + CHUNK_GRANULARITY;
        Ok(end < begun.media.len() && self.append(begun, end)?)
    }

    fn send(&self, begun: &Begun, end: u64) -> anyhow::Result<Reply> {
        let range = begun.offset..end;
        let request = begun.session.ranged(&content_range(begun.media, &range));
        self.ask(&request.body(begun.media.bytes(range)))
    }

    /// Everything that was acknowledged is there.
    pub(super) fn look_at(&mut self, all: &Acknowledged) -> anyhow::Result<()> {
        for begun in &all.begun {
            let told = self.query(begun)?;
            self.expect(
                told == begun.offset,
                format!(
                    "{told} bytes are committed, {} were acknowledged",
                    begun.offset
                ),
            );
        }
        all.made.iter().try_for_each(|made| self.compare(made))
    }

    fn query(&mut self, begun: &Begun) -> anyhow::Result<u64> {
        let reply = self.ask(&begun.session.ranged("bytes */*").body(""))?;
        let is_known = self.expect_status(&reply, 308, "a query");
        Ok(if is_known { reply.range() } else { 0 })
    }

    fn compare(&mut self, made: &Made) -> anyhow::Result<()> {
        let reply = self.ask(&Request::new("GET", farm::animal(&made.id)))?;
        if !self.expect_status(&reply, 200, "a GET") {
            return Ok(());
        }
        if let Some(text) = made.text {
            let is_same = reply.field("description") == text.text();
            self.expect(is_same, "the resource differs");
        }
        if let Some(media) = made.media {
            let download = self.ask(&farm::download(&made.id))?;
            let same = media.compare(0..media.len(), &download.body[..]);
            self.expect(same.is_ok(), format!("the media differs: {same:?}"));
        }
        Ok(())
    }

    /// Sends the rest of an upload, or only its end, and compares the resource with the sent media.
    /// Returns `None` if the server refused the request.
    pub(super) fn finish(&mut self, begun: &Begun) -> anyhow::Result<Option<Made>> {
        let finished = self.send(begun, begun.media.len())?;
        if finished.status == 503 {
            self.judge_refusal(&finished);
            return Ok(None);
        }
        if !self.expect_status(&finished, 201, "a finish") {
            return Ok(None);
        }
        let made = Made {
            id: farm::id(&finished),
            text: Some(begun.text),
            media: Some(begun.media),
        };
        self.compare(&made)?;
        Ok(Some(made))
    }

    pub(super) fn cancel(&mut self, begun: &Begun) -> anyhow::Result<()> {
        let reply = self.ask(&begun.session.request("DELETE").body(""))?;
        self.expect_status(&reply, 499, "a cancel");
        Ok(())
    }

    pub(super) fn delete(&mut self, made: &Made) -> anyhow::Result<()> {
        let reply = self.ask(&Request::new("DELETE", farm::animal(&made.id)))?;
        self.expect_status(&reply, 204, "a delete");
        Ok(())
    }

    /// Cancels and deletes all.
    pub(super) fn remove(&mut self, all: &Acknowledged) -> anyhow::Result<()> {
        all.begun.iter().try_for_each(|begun| self.cancel(begun))?;
        all.made.iter().try_for_each(|made| self.delete(made))
    }

    /// Waits until the server says that it takes uploads, or that it does not.
    pub(super) fn wait_until_it_says(&mut self, has_room: bool) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            let reply = self.ask(&Request::new("GET", "/readyz"))?;
            if (reply.status == 200) == has_room {
                break;
            }
            if start.elapsed() > SAYS_WITHIN {
                let is = if has_room { "is room" } else { "is no room" };
                let text = first_words(&reply);
                self.expect(false, format!("there {is}, and /readyz says: {text}"));
                break;
            }
            sleep(LOOK_AGAIN);
        }
        if has_room {
            self.slowest_room = self.slowest_room.max(start.elapsed());
        }
        Ok(())
    }

    /// Tries something until it is taken, which it must be soon.
    pub(super) fn in_time<T>(
        &mut self,
        what: &str,
        mut attempt: impl FnMut(&mut Self) -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<Option<T>> {
        let start = Instant::now();
        while start.elapsed() < SAYS_WITHIN {
            let taken = attempt(self)?;
            if taken.is_some() {
                return Ok(taken);
            }
            sleep(LOOK_AGAIN);
        }
        self.expect(false, format!("there is room, and {what} is not taken"));
        Ok(None)
    }

    pub(super) fn expect_health(&mut self) -> anyhow::Result<()> {
        let health = self.ask(&Request::new("GET", "/healthz"))?;
        self.expect_status(&health, 200, "/healthz");
        Ok(())
    }

    fn judge_refusal(&mut self, reply: &Reply) {
        self.refused += 1;
        self.expect_status(reply, 503, "a refusal");
        let says_when = reply.header("retry-after").is_some();
        self.expect(says_when, "a refusal has no Retry-After");
    }

    fn expect_status(&mut self, reply: &Reply, status: u16, what: &str) -> bool {
        let (is, text) = (reply.status, first_words(reply));
        self.expect(
            is == status,
            format!("{what} was answered {is}, not {status}: {text}"),
        );
        is == status
    }

    /// Records a violation unless the condition holds.
    pub(super) fn expect(&mut self, holds: bool, what: impl Into<String>) {
        self.verdict.expect(holds, &self.occasion, what);
    }

    fn ask(&self, request: &Request) -> anyhow::Result<Reply> {
        Ok(ask_once(self.address, request)?)
    }
}

/// Enough of an error to tell which it is.
fn first_words(reply: &Reply) -> String {
    let text = String::from_utf8_lossy(&reply.body);
    text.split_whitespace()
        .take(20)
        .collect::<Vec<_>>()
        .join(" ")
}
