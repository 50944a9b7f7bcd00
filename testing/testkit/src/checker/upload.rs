//! One upload, from the client's side.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::dialect::{Dialect, Listing};
use super::load::{Load, UploadStyle};
use crate::media::Media;
use crate::oracle::{
    Age, Answer, End, Event, Promise, Rule, Violation, judge, judge_resources, lost,
};
use crate::raw::{RawPeer, Reply, Request};
use crate::session::CHUNK_GRANULARITY;

/// The pause after a reply that asks to wait, or after a broken connection.
const PAUSE: Duration = Duration::from_millis(50);

/// An event, and when it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Since the workload was made.
    pub at: Duration,
    /// The workload's stamp at that time, e.g. the length of a log of block writes.
    pub stamp: u64,
    /// The event.
    pub event: Event,
}

/// The parts of its workload that an upload uses.
pub(super) struct Scene<'a> {
    /// How the server is spoken to.
    pub(super) dialect: Arc<dyn Dialect>,
    /// Where it is.
    pub(super) address: SocketAddr,
    /// How long a reply, and progress, may take.
    pub(super) patience: Duration,
    /// Returns the time and the stamp for records.
    pub(super) moment: &'a (dyn Fn() -> (Duration, u64) + Sync),
}

/// An upload with its history.
#[derive(Debug, Clone)]
pub struct Upload {
    name: String,
    media: Media,
    style: UploadStyle,
    target: Option<String>,
    records: Vec<Record>,
    promise: Promise,
    /// The offset is not known since the last connection broke.
    must_ask: bool,
    violations: Vec<Violation>,
    /// Whether a rule was broken. The upload is then not continued.
    let_down: bool,
    /// Acknowledged bytes that are not there any more.
    lost: u64,
}

impl Upload {
    /// The `number`th upload of a client. It has not begun yet.
    pub(super) fn begin(load: &Load, seed: u64, client: usize, number: u64) -> Self {
        let (media, style) = load.upload(seed, client, number);
        Self {
            name: format!("client {client}, upload {number}"),
            media,
            style,
            target: None,
            records: Vec::new(),
            promise: Promise::default(),
            must_ask: false,
            violations: Vec::new(),
            let_down: false,
            lost: 0,
        }
    }

    /// Its name, by which the server knows the resource.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The events of the upload, in order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The server's promise about the upload.
    pub fn promise(&self) -> &Promise {
        &self.promise
    }

    /// Where its session is, once it was started.
    pub fn target(&self) -> Option<&str> {
        self.target.as_deref()
    }

    /// How many acknowledged bytes were not there any more when they were asked for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether the server has broken a rule with this upload. The upload is then over and not
    /// checked again.
    pub(super) fn is_let_down(&self) -> bool {
        self.let_down
    }

    pub(super) fn take_violations(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }

    /// Whether nothing is left to be sent. The upload is over, or it was a single request without a
    /// reply, which cannot be continued: no interim reply has told of a session.
    pub(super) fn is_over(&self) -> bool {
        let is_lost = self.is_one_shot() && self.was_sent() && self.target.is_none();
        self.let_down || self.promise.is_over() || is_lost
    }

    /// The upload as it was at a stamp.
    pub(super) fn at(&self, stamp: u64) -> Self {
        let records = self
            .records
            .iter()
            .take_while(|record| record.stamp <= stamp);
        let records: Vec<_> = records.cloned().collect();
        let promise = Promise::of(records.iter().map(|record| &record.event));
        Self {
            target: self.target.clone().filter(|_| promise.started),
            promise,
            records,
            must_ask: true,
            violations: Vec::new(),
            let_down: false,
            lost: 0,
            ..self.clone()
        }
    }

    /// Sends the next request and takes its answer in.
    ///
    /// # Errors
    /// When the connection breaks.
    pub(super) fn step(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        match (self.next(&*scene.dialect), self.must_ask) {
            (Next::OneShot(request), _) => self.send(scene, 0..self.media.len(), &request),
            (Next::Start(request), _) => self.exchange(scene, &request),
            (_, true) => self.ask(scene),
            (Next::Cancel(request), _) => {
                self.note(scene, Event::CancelSent);
                self.exchange(scene, &request)
            }
            (Next::Append(range), _) if self.vanishes() => self.vanish(scene, range),
            (Next::Append(range), _) => {
                let request = self.append(&*scene.dialect, range.clone());
                self.send(scene, range, &request)
            }
        }
    }

    /// Queries the session, if there is one.
    pub(super) fn ask(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        let Some(target) = &self.target else {
            return Ok(());
        };
        self.exchange(scene, &scene.dialect.query(target))
    }

    /// Like [`Upload::ask`], repeated until there is an answer.
    pub(super) fn check(&mut self, scene: &Scene<'_>) {
        let undecided = |upload: &Self| upload.must_ask;
        self.must_ask = self.target.is_some() && !self.let_down;
        self.persist(scene, undecided, Self::ask);
        if self.must_ask {
            // Bytes of an unreachable session are lost.
            self.lost = self.promise.acknowledged();
        }
    }

    /// Brings the upload to its end. The client does not vanish any more.
    pub(super) fn finish(&mut self, scene: &Scene<'_>) {
        if self.style == UploadStyle::Vanish {
            self.style = UploadStyle::Rest;
        }
        self.persist(scene, |upload| !upload.is_over(), Self::step);
    }

    fn persist(
        &mut self,
        scene: &Scene<'_>,
        goes_on: impl Fn(&Self) -> bool,
        step: impl Fn(&mut Self, &Scene<'_>) -> io::Result<()>,
    ) {
        let mut since = Instant::now();
        while goes_on(self) && self.violations.is_empty() {
            let before = self.promise.clone();
            let result = step(self, scene);
            if self.promise != before {
                since = Instant::now();
                continue;
            }
            if result.is_ok() && !goes_on(self) {
                return;
            }
            if since.elapsed() > scene.patience {
                return self.violate(Rule::Stuck(format!(
                    "{:?}, {:?}",
                    result,
                    self.records.last()
                )));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Checks the media of the upload's resource, and the number of its resources.
    ///
    /// # Errors
    /// The connection breaks.
    pub(super) fn check_resource(
        &mut self,
        scene: &Scene<'_>,
        listing: Option<&Listing>,
    ) -> io::Result<()> {
        if self.let_down {
            return Ok(());
        }
        let named = listing.filter(|_| self.style != UploadStyle::Simple);
        let found = named.map(|listing| listing.get(&self.name).map_or(&[][..], Vec::as_slice));
        let end = self.promise.end(self.media.len());
        if let Some(found) = found.map(<[_]>::len)
            && let Some(rule) = judge_resources(end, found, false)
        {
            if end == End::Finished && found == 0 {
                self.lost = self.promise.acknowledged();
            }
            self.violate(rule);
        }
        let body = self.promise.finished.as_deref();
        let resource = body.and_then(|body| scene.dialect.resource(self.target(), body));
        let resource = resource.or_else(|| found?.first().cloned());
        if resource.is_none() && end == End::Finished && !self.let_down {
            self.violate(Rule::Strange(
                "the final reply names no resource".to_owned(),
            ));
        }
        match resource.and_then(|resource| scene.dialect.download(&resource)) {
            Some(download) => self.compare(scene, &download),
            None => Ok(()),
        }
    }

    fn compare(&mut self, scene: &Scene<'_>, download: &Request) -> io::Result<()> {
        let reply = exchange(scene, download, |_| {})?;
        let how = match self.media.compare(0..self.media.len(), &reply.body[..]) {
            _ if reply.status != 200 => format!("its download answers {}", reply.status),
            Err(how) => how.to_string(),
            Ok(()) => return Ok(()),
        };
        let body = reply.body.iter().filter(|_| reply.status == 200);
        let pairs = self.media.whole().into_iter().zip(body);
        let right = pairs.filter(|(sent, now)| sent == *now).count() as u64;
        // Where nothing is missing and something was added, every byte that was acknowledged is
        // still there.
        self.lost = self.promise.acknowledged().saturating_sub(right);
        self.violate(Rule::MediaDiffers(how));
        Ok(())
    }

    fn next(&self, dialect: &dyn Dialect) -> Next {
        let multipart = self.style == UploadStyle::Multipart;
        if self.is_one_shot()
            && self.target.is_none()
            && let Some(request) = dialect.single_request(&self.name, self.media, multipart)
        {
            return Next::OneShot(request);
        }
        let Some(target) = &self.target else {
            return Next::Start(dialect.start(&self.name, self.media));
        };
        let (from, len) = (self.promise.offset, self.media.len());
        let granules = |bytes: u64| bytes / CHUNK_GRANULARITY * CHUNK_GRANULARITY;
        match self.style {
            // From wherever a checkpoint has left it: a shorter chunk would be refused.
            UploadStyle::Cancel if from + CHUNK_GRANULARITY < len => {
                Next::Append(from..from + granules(len - 1 - from))
            }
            UploadStyle::Cancel => dialect
                .cancel(target)
                .map_or(Next::Append(from..len), Next::Cancel),
            UploadStyle::Chunks(chunk) => Next::Append(from..(from + chunk).min(len)),
            UploadStyle::Overlap(chunk) => {
                let overlap = if dialect.may_overlap(target) {
                    chunk / 2
                } else {
                    0
                };
                Next::Append(from.saturating_sub(overlap)..(from + chunk).min(len))
            }
            _ => Next::Append(from..len),
        }
    }

    fn append(&self, dialect: &dyn Dialect, range: Range<u64>) -> Request {
        let target = self.target.as_deref().expect("the session was started");
        dialect.append(target, self.media, range)
    }

    /// Every other request of a client that vanishes.
    fn vanishes(&self) -> bool {
        let sent = |record: &&Record| matches!(record.event, Event::Sent(_));
        self.style == UploadStyle::Vanish && self.records.iter().filter(sent).count() % 2 == 0
    }

    /// Sends half of a request and hangs up.
    fn vanish(&mut self, scene: &Scene<'_>, range: Range<u64>) -> io::Result<()> {
        let bytes = self.append(&*scene.dialect, range.clone()).to_bytes();
        self.note(scene, Event::Sent(range));
        self.must_ask = true;
        let mut peer = RawPeer::try_connect(scene.address)?;
        peer.try_send(&bytes[..bytes.len() - bytes.len() / 2])
    }

    fn send(&mut self, scene: &Scene<'_>, range: Range<u64>, request: &Request) -> io::Result<()> {
        self.note(scene, Event::Sent(range));
        self.exchange(scene, request)
    }

    fn exchange(&mut self, scene: &Scene<'_>, request: &Request) -> io::Result<()> {
        let answered = exchange(scene, request, |interim| {
            let answer = scene.dialect.answer(interim, self.media);
            self.take_in(scene, answer);
        });
        match answered {
            Ok(reply) => {
                let answer = scene.dialect.answer(&reply, self.media);
                self.take_in(scene, answer);
                Ok(())
            }
            Err(error) => {
                self.must_ask = true;
                self.note(scene, Event::Broken(error.kind()));
                Err(error)
            }
        }
    }

    fn take_in(&mut self, scene: &Scene<'_>, answer: Answer) {
        if let Some(rule) = judge(&self.promise, &answer, Age::default()) {
            self.lost = lost(&self.promise, &answer);
            self.violate(rule);
        }
        self.must_ask = matches!(answer, Answer::NotNow(_));
        let event = match answer {
            // Only a session with a sent cancel may be unknown.
            Answer::Unknown => Some(Event::Cancelled),
            _ => answer.event(),
        };
        if let Some(event) = event {
            self.note(scene, event);
        }
        if let Answer::Started(target) = answer {
            self.target.get_or_insert(target);
        }
    }

    pub(super) fn note(&mut self, scene: &Scene<'_>, event: Event) {
        let (at, stamp) = (scene.moment)();
        self.promise.note(&event);
        self.records.push(Record { at, stamp, event });
    }

    fn violate(&mut self, rule: Rule) {
        let upload = self.name.clone();
        self.violations.push(Violation { upload, rule });
        self.let_down = true;
    }

    fn is_one_shot(&self) -> bool {
        matches!(self.style, UploadStyle::Simple | UploadStyle::Multipart)
    }

    fn was_sent(&self) -> bool {
        self.promise.sent > 0
    }
}

/// The next step of an upload.
enum Next {
    OneShot(Request),
    Start(Request),
    Append(Range<u64>),
    Cancel(Request),
}

/// Sends a request and returns the reply. `interim` gets each interim reply (104).
fn exchange(
    scene: &Scene<'_>,
    request: &Request,
    mut interim: impl FnMut(&Reply),
) -> io::Result<Reply> {
    let mut peer = RawPeer::try_connect(scene.address)?;
    peer.set_patience(scene.patience);
    // A server that refuses may answer and hang up before it has read all.
    let sent = peer.try_send(request.to_bytes());
    loop {
        match peer.next_reply_to(request) {
            Ok(reply) if reply.status == 104 => interim(&reply),
            Ok(reply) => return Ok(reply),
            Err(error) => return Err(sent.err().unwrap_or(error)),
        }
    }
}
