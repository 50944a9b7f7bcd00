//! The upload loop: performs the I/O of one upload.
//!
//! A [`Transfer`] is the state machine of the protocol and decides the next [`Action`]. The loop
//! executes the action and reports its result to the transfer.
//!
//! Here and in [`requests`], `transfer::Request` is the decision of the state machine, and
//! `Request` is the HTTP request that carries it out. `transfer::Reply` borrows from [`Reply`], the
//! HTTP reply.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout_at};
use url::Url;
use windlass_proto::transfer::{self, Action, Event, Protocol, Transfer, retry_after};
use windlass_proto::upload_type::UploadType;

use crate::checksum::{
    RunningChecksum, StatedProperties, Verified, compare, media_crc32c, media_md5,
};
use crate::error::{Error, ErrorCause, WithCauses};
use crate::journal::{JournalError, LockedRecord, RecordId};
use crate::progress::{ByteCounter, Progress, RateMeter, State};
use crate::session_uri::SessionUri;
use crate::source::{Media, SourceError};
use crate::token::TransportAndToken;
use crate::transport::{Reply, TransportError};
use crate::upload::{Upload, Uploaded, resource_id};
use crate::{now, random};

mod requests;
mod resource;

/// Interval of progress reports while a request is being sent.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// The end of the time that the caller allows for an upload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<(Instant, Duration)>);

impl Deadline {
    /// Creates a deadline that ends `limit` from now, or never.
    pub(crate) fn after(limit: Option<Duration>) -> Self {
        let deadline = limit.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        Self(deadline)
    }

    /// Runs a step of the upload. Drops it when the time is over.
    pub(crate) async fn limit<T, E: Into<Error>>(
        self,
        step: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Error> {
        let Some((end, limit)) = self.0 else {
            return step.await.map_err(Into::into);
        };
        match timeout_at(end, step).await {
            Ok(done) => done.map_err(Into::into),
            Err(_) => Err(ErrorCause::Timeout(limit).into()),
        }
    }
}

/// One running upload.
pub(crate) struct UploadDriver<'a> {
    transport: &'a TransportAndToken,
    upload: &'a Upload,
    upload_type: UploadType,
    media: Media,
    transfer: Transfer,
    /// The current session; `None` before it has started and after it was lost.
    session: Option<SessionUri>,
    /// The journal's record, if the upload has one.
    locked: Option<LockedRecord>,
    /// Committed bytes, as far as they are known. The last reply of the server counts; before the
    /// first reply, the journal's record counts. Once the upload is finished, all bytes are
    /// committed.
    committed: u64,
    /// Counts the bytes that requests have taken from the media.
    counter: ByteCounter,
    rate_meter: RateMeter,
    /// CRC32C of the media that requests have taken, repeats ignored.
    checksum: RunningChecksum,
    /// Boundary of the multipart body of a single request.
    boundary: String,
    /// The transport error of the last request, if that request got no reply.
    last_error: Option<TransportError>,
    /// Whether the server's address is known to be right: something was reached there.
    is_known_host: bool,
    /// The reply that finished the upload.
    final_reply: Option<Reply>,
}

impl<'a> UploadDriver<'a> {
    /// Creates the driver of a new upload. Without a protocol it asks the server which it speaks.
    pub(crate) fn start(
        transport: &'a TransportAndToken,
        upload: &'a Upload,
        upload_type: UploadType,
        protocol: Option<Protocol>,
        media: Media,
    ) -> Self {
        let plan = requests::plan(transport, upload, (upload_type, protocol), &media);
        let counter = ByteCounter::default();
        Self {
            transport,
            upload,
            upload_type,
            media,
            transfer: Transfer::start(plan),
            session: None,
            locked: None,
            committed: 0,
            rate_meter: RateMeter::new(counter.clone()),
            counter,
            checksum: RunningChecksum::default(),
            boundary: requests::boundary(),
            last_error: None,
            is_known_host: false,
            final_reply: None,
        }
    }

    /// Creates the driver of an upload that continues the one of a journal's record.
    pub(crate) fn resume(
        transport: &'a TransportAndToken,
        upload: &'a Upload,
        media: Media,
        locked: LockedRecord,
    ) -> Self {
        let upload_type = UploadType::Resumable;
        let protocol = Some(locked.record().session.protocol());
        let plan = requests::plan(transport, upload, (upload_type, protocol), &media);
        Self {
            transfer: Transfer::resume(plan),
            committed: locked.record().committed,
            session: Some(locked.record().session.clone()),
            locked: Some(locked),
            // An earlier process has started the session.
            is_known_host: true,
            ..Self::start(transport, upload, upload_type, protocol, media)
        }
    }

    /// Runs the upload to its end, and then updates or removes its record in the journal.
    pub(crate) async fn run(mut self, deadline: Deadline) -> Result<Uploaded, Error> {
        match deadline.limit(self.run_actions()).await {
            Ok(uploaded) => {
                match self.record_finished(&uploaded).await {
                    Ok(false) => self.remove_record(LockedRecord::finish),
                    Ok(true) => self.remove_record(LockedRecord::finish_recorded),
                    // Its record stays: a later run asks the server, and learns that it is
                    // finished.
                    Err(error) => {
                        let error = WithCauses(&error);
                        tracing::warn!(%error, "cannot record that an upload is finished");
                    }
                }
                Ok(uploaded)
            }
            Err(error) if error.keeps_session() => {
                self.write_progress();
                let record_id = self.record_id();
                Err(error.with_resume_info(self.session.clone(), record_id))
            }
            Err(error) => {
                self.remove_record(LockedRecord::finish);
                Err(error)
            }
        }
    }

    /// Returns the id of the journal's record, if the upload has one.
    fn record_id(&self) -> Option<RecordId> {
        let locked = self.locked.as_ref()?;
        Some(locked.record().id.clone())
    }

    /// Writes the progress, which is shown when the journal is listed.
    fn write_progress(&mut self) {
        if let Some(Err(error)) = self.locked.as_mut().map(LockedRecord::write_progress) {
            warn_progress_not_written(&error);
        }
    }

    /// Records that the upload of a run is finished, before the record of its session is removed. A
    /// process that is killed in between leaves both, and never neither. Returns whether it is a
    /// part of a run, and so recorded.
    async fn record_finished(&self, uploaded: &Uploaded) -> Result<bool, Error> {
        let record = self.locked.as_ref().map(LockedRecord::record);
        let of_record = self.locked.as_ref().map(LockedRecord::journal);
        let Some(journal) = of_record.or_else(|| self.upload.journal.clone()) else {
            return Ok(false);
        };
        if !self.upload.one_of_several && !record.is_some_and(|record| record.of_run) {
            return Ok(false);
        }
        let (key, source) = match record {
            Some(record) => (record.key(), record.source.clone()),
            None => match self.media.identity().await? {
                Some(source) => (self.upload.key(&source), source),
                None => return Ok(false),
            },
        };
        let id = uploaded.resource.as_ref().and_then(resource_id);
        journal.add_finished(&key, source, id, self.upload.run)?;
        Ok(true)
    }

    /// Removes the record of an upload that is finished or cannot be continued.
    fn remove_record(&mut self, remove: fn(LockedRecord) -> Result<(), JournalError>) {
        if let Some(locked) = self.locked.take()
            && let Err(error) = remove(locked)
        {
            let error = WithCauses(&error);
            tracing::warn!(%error, "cannot remove the record of an ended upload from the journal");
        }
    }

    /// Executes the actions of the transfer until the upload is finished or has failed.
    async fn run_actions(&mut self) -> Result<Uploaded, Error> {
        loop {
            match self.transfer.poll() {
                Action::Send(request) => self.exchange(request).await?,
                Action::Fill { upto } => {
                    self.report(State::Reading);
                    let filled = self.media.fill(upto).await?;
                    self.transfer.filled(filled.end, filled.ended);
                }
                Action::Wait(wait) => {
                    let delay = wait.delay;
                    self.report(State::Waiting(wait));
                    sleep(delay).await;
                    self.transfer.waited();
                }
                Action::RefreshToken => {
                    self.report(State::RefreshingToken);
                    self.transport.refresh().await?;
                    self.transfer.token_refreshed();
                }
                Action::Finished => return self.finished().await,
                Action::Failed(failure) => {
                    let last_error = self.last_error.take();
                    return Err(ErrorCause::Upload {
                        failure,
                        last_error,
                    }
                    .into());
                }
            }
        }
    }

    /// Sends one request and reports its result to the transfer.
    async fn exchange(&mut self, request: transfer::Request) -> Result<(), Error> {
        self.media.check_unchanged().await?;
        let url = self.url(&request);
        let outgoing = self.outgoing(&request, url.clone()).await?;
        self.report(state_of(&request));
        let transport = self.transport.transport();
        let mut sending = std::pin::pin!(transport.send(outgoing));
        // The first tick of an `interval` is at once, and would report the same a second time.
        let mut tick = interval_at(Instant::now() + REPORT_INTERVAL, REPORT_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let outcome = loop {
            tokio::select! {
                // The outcome first, so that no progress is reported for a request that has ended.
                biased;
                outcome = &mut sending => break outcome,
                _ = tick.tick() => self.report_sending(&request),
            }
        };
        // A reply may arrive before the whole body is sent. The transfer must know this before it
        // gets the outcome: a success then does not mean that the server has all media.
        if self.counter.sent() < self.end_of(&request) {
            self.transfer.cut_short();
        }
        let is_unknown_host = matches!(
            outcome,
            Err(TransportError::UnknownHost { .. } | TransportError::NotHttp { .. })
        );
        self.is_known_host = self.is_known_host || !is_unknown_host;
        match outcome {
            // A wrong name or port stays wrong. A name that was right may be unknown for a while,
            // and something else may reply while a server or a proxy restarts.
            Err(unknown) if !self.is_known_host => Err(unknown.into()),
            Ok(reply) => self.replied(&url, reply).await,
            Err(TransportError::Media(error)) => {
                self.media.check_unchanged().await?;
                Err(self.media.cannot_read(error).into())
            }
            Err(
                fatal @ (TransportError::Untrusted { .. }
                | TransportError::NotTls { .. }
                | TransportError::CertificateRefused { .. }
                // The server has answered, and would answer the same again.
                | TransportError::TransferCoding { .. }
                | TransportError::ReplyTooLong { .. }),
            ) => Err(fatal.into()),
            Err(last_error) => {
                tracing::debug!(error = %last_error, "a request broke");
                self.last_error = Some(last_error);
                let jitter = random();
                self.transfer.broke(jitter);
                Ok(())
            }
        }
    }

    /// Reports a reply to the transfer, and executes its effect. `url` is the URL of the request.
    async fn replied(&mut self, url: &Url, reply: Reply) -> Result<(), Error> {
        self.last_error = None;
        let seen = transfer::Reply {
            status: reply.status,
            headers: &reply.headers,
            body: &reply.body,
            retry_after: retry_after(&reply.headers, now()),
        };
        let jitter = random();
        match self.transfer.replied(&seen, jitter) {
            Event::Started { location } => self.started(url, &location).await,
            Event::Committed { offset } => {
                self.committed(offset);
                Ok(())
            }
            Event::Finished => {
                self.committed = self.transfer.total().unwrap_or(self.committed);
                self.final_reply = Some(reply);
                Ok(())
            }
            Event::Lost => {
                self.committed = 0;
                self.session = None;
                Ok(())
            }
            Event::Nothing => Ok(()),
        }
    }

    /// Stores the URI of a new session, in the journal as well, before any media is sent to it.
    async fn started(&mut self, url: &Url, location: &str) -> Result<(), Error> {
        let session = url
            .join(location)
            .map_err(|_| ErrorCause::SessionUri(crate::InvalidSessionUri::NotAUrl))?;
        let session = SessionUri::try_from(session).map_err(ErrorCause::SessionUri)?;
        self.upload.check_session(session.url())?;
        let session = session
            .issued_for(&self.upload.url)
            .with_protocol(self.protocol());
        self.session = Some(session.clone());
        match (&mut self.locked, &self.upload.journal) {
            (Some(locked), _) => locked.new_session(session)?,
            (None, Some(journal)) => {
                if let Some(source) = self.media.identity().await? {
                    let record = self.upload.new_record(session, source);
                    self.locked = Some(journal.create(record)?);
                }
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Drops the media before the transfer's offset [`kept_from`](Transfer::kept_from), which will
    /// not be sent again, and records the progress. The recorded offset is for display only,
    /// because an upload that continues queries the server for the offset.
    fn committed(&mut self, offset: u64) {
        self.committed = offset;
        self.media.release(self.transfer.kept_from());
        if let Some(Err(error)) = self
            .locked
            .as_mut()
            .map(|locked| locked.set_committed(offset))
        {
            warn_progress_not_written(&error);
        }
    }

    /// Returns the offset after the last byte of media that a request is to send; 0 if it sends
    /// none.
    fn end_of(&self, request: &transfer::Request) -> u64 {
        match request {
            transfer::Request::SingleRequest => self.media_size(),
            transfer::Request::Data(chunk) => chunk.end,
            transfer::Request::Discover
            | transfer::Request::Start
            | transfer::Request::Query { .. } => 0,
        }
    }

    /// Checks the media after the upload is finished, and returns the result.
    async fn finished(&mut self) -> Result<Uploaded, Error> {
        let unchanged = self.media.check_unchanged().await;
        unchanged.map_err(|error| match error {
            SourceError::Changed { .. } => ErrorCause::ChangedDuringUpload(error),
            // Whether the file has changed is unknown. The session is kept, so that a later call
            // can get the final reply.
            error => error.into(),
        })?;
        let size = self.transfer.total().unwrap_or_default();
        let (resource, stated) = match self.final_reply.take() {
            Some(reply) => {
                let resource = self.resource_of(&reply, size).await?;
                let stated = StatedProperties::of(resource.as_ref(), &reply.headers);
                (resource, stated)
            }
            None => (None, StatedProperties::default()),
        };
        let is_stated = resource.is_some() || stated != StatedProperties::default();
        let verified = if self.upload.verify && is_stated {
            self.report(State::Checking);
            self.verify(&stated, size).await?
        } else {
            Verified::default()
        };
        self.report(State::Done);
        Ok(Uploaded {
            resource,
            protocol: self.protocol(),
            upload_type: self.upload_type(),
            size,
            verified,
            restarts: self.transfer.restarts(),
        })
    }

    /// Compares the media with the properties that the resource states.
    async fn verify(&mut self, stated: &StatedProperties, size: u64) -> Result<Verified, Error> {
        let mut verified = Verified {
            size: compare("size", stated.size, &size)?,
            ..Verified::default()
        };
        if stated.crc32c.is_some() {
            let ours = media_crc32c(&self.media, &self.checksum, size).await?;
            verified.crc32c = match ours {
                Some(ours) => compare("crc32c", stated.crc32c, &ours)?,
                None => false,
            };
        }
        if stated.md5.is_some()
            && let Some(ours) = media_md5(&self.media, size).await?
        {
            verified.md5 = compare("md5", stated.md5, &ours)?;
        }
        Ok(verified)
    }

    /// Returns the protocol of the upload. An upload that has started has one.
    fn protocol(&self) -> Protocol {
        self.transfer.protocol().unwrap_or_default()
    }

    fn upload_type(&self) -> UploadType {
        if self.protocol().has_single_requests() {
            self.upload_type
        } else {
            UploadType::Resumable
        }
    }

    /// Returns the URL of a request: the session URI for a query or data, otherwise the upload URL.
    fn url(&self, request: &transfer::Request) -> Url {
        match (&self.session, self.transfer.protocol()) {
            (Some(session), _) if request.is_in_session() => session.url().clone(),
            (_, Some(Protocol::Google)) => requests::upload_url(&self.upload.url, self.upload_type),
            _ => self.upload.url.clone(),
        }
    }

    /// Reports the progress while a request is being sent or its reply is awaited.
    fn report_sending(&mut self, request: &transfer::Request) {
        let is_last = match request {
            transfer::Request::SingleRequest => true,
            transfer::Request::Data(chunk) => chunk.total == Some(chunk.end),
            transfer::Request::Discover
            | transfer::Request::Start
            | transfer::Request::Query { .. } => false,
        };
        self.report(if is_last && self.counter.sent() >= self.end_of(request) {
            State::Finishing
        } else {
            state_of(request)
        });
    }

    fn report(&mut self, state: State) {
        let Some(on_progress) = &self.upload.on_progress else {
            return;
        };
        on_progress.report(&Progress {
            committed: self.committed,
            sent: self.counter.sent().max(self.committed),
            total: self.transfer.total(),
            rate: self.rate_meter.bytes_per_second(),
            broken: match state {
                State::Waiting(_) => self.last_error.as_ref().map(TransportError::summary),
                _ => None,
            },
            state,
            upload: self.record_id(),
        });
    }
}

fn warn_progress_not_written(error: &JournalError) {
    let error = WithCauses(error);
    tracing::warn!(%error, "cannot write the progress to the journal");
}

fn state_of(request: &transfer::Request) -> State {
    match request {
        transfer::Request::Discover | transfer::Request::Start => State::Starting,
        transfer::Request::Query { .. } => State::Querying,
        transfer::Request::Data(chunk) if chunk.is_empty() => State::Finishing,
        transfer::Request::SingleRequest | transfer::Request::Data(_) => State::Sending,
    }
}
