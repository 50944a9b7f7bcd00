//! The loop around [`Transfer`]: it does what the transfer asks for, and tells it what came of it.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use url::Url;
use windlass_proto::transfer::{Action, Event, Request, Transfer, retry_after};
use windlass_proto::upload_type::UploadType;

use crate::checksum::{Checksum, Stated, Verified, compare};
use crate::clock::now;
use crate::error::{Cause, Error};
use crate::journal::{Held, JournalError};
use crate::line::Line;
use crate::progress::{Meter, Progress, Speedometer, State};
use crate::random::random;
use crate::session_uri::SessionUri;
use crate::source::Media;
use crate::transport::{Reply, TransportError};
use crate::upload::{Upload, Uploaded};

mod body;
mod digests;
mod requests;

/// How often the progress is told while media is on its way.
const TICK: Duration = Duration::from_millis(100);

/// One upload on its way.
pub(crate) struct Drive<'a> {
    line: &'a Line,
    upload: &'a Upload,
    upload_type: UploadType,
    media: Media,
    transfer: Transfer,
    session: Option<SessionUri>,
    held: Option<Held>,
    meter: Meter,
    speed: Speedometer,
    checksum: Checksum,
    boundary: String,
    /// The last thing that went wrong on the line.
    trouble: Option<TransportError>,
    /// The reply that finished the upload.
    last: Option<Reply>,
}

impl<'a> Drive<'a> {
    /// An upload that begins.
    pub(crate) fn start(
        line: &'a Line,
        upload: &'a Upload,
        upload_type: UploadType,
        media: Media,
    ) -> Self {
        let plan = requests::plan(line, upload, upload_type, &media);
        let meter = Meter::default();
        Self {
            line,
            upload,
            upload_type,
            media,
            transfer: Transfer::start(plan),
            session: None,
            held: None,
            speed: Speedometer::new(meter.clone()),
            meter,
            checksum: Checksum::default(),
            boundary: body::boundary(),
            trouble: None,
            last: None,
        }
    }

    /// An upload that goes on where the journal says it was.
    pub(crate) fn resume(line: &'a Line, upload: &'a Upload, media: Media, held: Held) -> Self {
        let plan = requests::plan(line, upload, UploadType::Resumable, &media);
        Self {
            transfer: Transfer::resume(plan),
            session: Some(held.record().session.clone()),
            held: Some(held),
            ..Self::start(line, upload, UploadType::Resumable, media)
        }
    }

    /// Does it all.
    pub(crate) async fn run(mut self) -> Result<Uploaded, Error> {
        let done = match self.upload.within {
            None => self.drive().await,
            Some(limit) => timeout(limit, self.drive())
                .await
                .unwrap_or_else(|_| Err(Cause::Timeout(limit).into())),
        };
        match done {
            Ok(uploaded) => {
                self.forget();
                Ok(uploaded)
            }
            Err(error) if error.session_survives() => {
                self.note_committed();
                let upload = self.held.as_ref().map(|held| held.record().id.clone());
                Err(error.in_session(self.session.clone(), upload))
            }
            Err(error) => {
                self.forget();
                Err(error)
            }
        }
    }

    /// How far it is, for those who look into the journal.
    fn note_committed(&mut self) {
        if let Some(Err(error)) = self.held.as_mut().map(Held::write_committed) {
            warn_of_the_journal(&error);
        }
    }

    /// The journal need not know of it any more.
    fn forget(&mut self) {
        if let Some(held) = self.held.take()
            && let Err(error) = held.finish()
        {
            tracing::warn!(%error, "a finished upload stays in the journal");
        }
    }

    async fn drive(&mut self) -> Result<Uploaded, Error> {
        loop {
            match self.transfer.poll() {
                Action::Send(request) => self.exchange(request).await?,
                Action::Fill { upto } => {
                    self.tell(State::Reading);
                    let filled = self.media.fill(upto).await?;
                    self.transfer.filled(filled.end, filled.ended);
                }
                Action::Wait(wait) => {
                    let delay = wait.delay;
                    self.tell(State::Waiting(wait));
                    sleep(delay).await;
                    self.transfer.waited();
                }
                Action::RefreshToken => {
                    self.tell(State::RefreshingToken);
                    self.line.renew().await?;
                    self.transfer.token_refreshed();
                }
                Action::Finished => return self.finished().await,
                Action::Failed(failure) => {
                    let trouble = self.trouble.take();
                    return Err(Cause::Upload { failure, trouble }.into());
                }
            }
        }
    }

    /// Sends one request and tells the transfer what came of it.
    async fn exchange(&mut self, request: Request) -> Result<(), Error> {
        self.media.check_unchanged().await?;
        let url = self.url(&request);
        let outgoing = self.outgoing(&request, url.clone()).await?;
        self.tell(state_of(&request));
        let line = self.line;
        let mut sending = std::pin::pin!(line.transport().send(outgoing));
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut sending => break outcome,
                _ = tick.tick() => self.tell_on_the_way(&request),
            }
        };
        if self.meter.sent() < self.end_of(&request) {
            self.transfer.cut_short();
        }
        match outcome {
            Ok(reply) => self.replied(&url, reply).await,
            Err(TransportError::Media(error)) => {
                self.media.check_unchanged().await?;
                Err(self.media.cannot_read(error).into())
            }
            Err(fatal @ TransportError::Untrusted { .. }) => Err(fatal.into()),
            Err(trouble) => {
                tracing::debug!(error = %trouble, "a request broke");
                self.trouble = Some(trouble);
                self.transfer.broke(random());
                Ok(())
            }
        }
    }

    async fn replied(&mut self, url: &Url, reply: Reply) -> Result<(), Error> {
        self.trouble = None;
        let seen = windlass_proto::transfer::Reply {
            status: reply.status,
            headers: &reply.headers,
            body: &reply.body,
            retry_after: retry_after(&reply.headers, now()),
        };
        match self.transfer.replied(&seen, random()) {
            Event::Started { location } => self.started(url, &location).await,
            Event::Committed { offset } => {
                self.committed(offset);
                Ok(())
            }
            Event::Finished => {
                self.last = Some(reply);
                Ok(())
            }
            Event::Lost => {
                self.session = None;
                Ok(())
            }
            Event::Nothing => Ok(()),
        }
    }

    /// The session's URI is kept before the first byte goes.
    async fn started(&mut self, url: &Url, location: &str) -> Result<(), Error> {
        let session = url
            .join(location)
            .map_err(|_| Cause::SessionUri(crate::InvalidSessionUri::NotAUrl))?;
        if url.scheme() == "https" && session.scheme() != "https" {
            return Err(Cause::Downgrade.into());
        }
        let session = SessionUri::try_from(session).map_err(Cause::SessionUri)?;
        let session = session.named_for(&self.upload.url);
        self.session = Some(session.clone());
        match (&mut self.held, &self.upload.journal) {
            (Some(held), _) => held.new_session(session)?,
            (None, Some(journal)) => {
                if let Some(source) = self.media.identity().await? {
                    let record = self.upload.new_record(session, source);
                    self.held = Some(journal.create(record)?);
                }
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// What is committed need not be kept any more. The server is the one who knows it; the journal only
    /// tells those who look.
    fn committed(&mut self, offset: u64) {
        self.media.release(self.transfer.floor());
        if let Some(Err(error)) = self.held.as_mut().map(|held| held.committed(offset)) {
            warn_of_the_journal(&error);
        }
    }

    /// Offset behind the last byte of media that a request brings.
    fn end_of(&self, request: &Request) -> u64 {
        match request {
            Request::SingleRequest => self.media_size(),
            Request::Data(chunk) => chunk.end,
            Request::Start | Request::Query { .. } => 0,
        }
    }

    async fn finished(&mut self) -> Result<Uploaded, Error> {
        self.media.check_unchanged().await.map_err(Cause::Torn)?;
        let body = self.last.take().map(|reply| reply.body).unwrap_or_default();
        let resource: Option<Value> = serde_json::from_slice(&body).ok();
        let size = self.transfer.total().unwrap_or_default();
        let verified = match &resource {
            Some(resource) if self.upload.verify => {
                self.tell(State::Checking);
                self.verify(&Stated::of(resource), size).await?
            }
            _ => Verified::default(),
        };
        Ok(Uploaded {
            resource,
            upload_type: self.upload_type,
            size,
            verified,
            restarts: self.transfer.restarts(),
        })
    }

    async fn verify(&mut self, stated: &Stated, size: u64) -> Result<Verified, Error> {
        let mut verified = Verified {
            size: compare("size", stated.size, &size)?,
            ..Verified::default()
        };
        if stated.crc32c.is_some() {
            let ours = digests::crc32c(&self.media, &self.checksum, size).await?;
            verified.crc32c = match ours {
                Some(ours) => compare("crc32c", stated.crc32c, &ours)?,
                None => false,
            };
        }
        if stated.md5.is_some()
            && let Some(ours) = digests::md5(&self.media, size).await?
        {
            verified.md5 = compare("md5", stated.md5, &ours)?;
        }
        Ok(verified)
    }

    fn url(&self, request: &Request) -> Url {
        match (request, &self.session) {
            (Request::Query { .. } | Request::Data(_), Some(session)) => session.url().clone(),
            _ => requests::upload_url(&self.upload.url, self.upload_type),
        }
    }

    fn tell_on_the_way(&mut self, request: &Request) {
        let state = match request {
            Request::Data(chunk)
                if self.meter.sent() >= chunk.end && chunk.total == Some(chunk.end) =>
            {
                State::Finishing
            }
            _ => state_of(request),
        };
        self.tell(state);
    }

    fn tell(&mut self, state: State) {
        let Some(watcher) = &self.upload.watcher else {
            return;
        };
        watcher.tell(&Progress {
            committed: self.transfer.committed(),
            sent: self.meter.sent().max(self.transfer.committed()),
            total: self.transfer.total(),
            rate: self.speed.read(),
            state,
            upload: self.held.as_ref().map(|held| held.record().id.clone()),
        });
    }
}

fn warn_of_the_journal(error: &JournalError) {
    tracing::warn!(%error, "the journal does not know how far the upload is");
}

fn state_of(request: &Request) -> State {
    match request {
        Request::Start => State::Starting,
        Request::Query { .. } => State::Asking,
        Request::Data(chunk) if chunk.is_empty() => State::Finishing,
        Request::SingleRequest | Request::Data(_) => State::Sending,
    }
}
