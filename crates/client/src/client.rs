//! The client: the entry point of uploads, downloads and the management of sessions.

use std::sync::Arc;

use http::StatusCode;
use http::header::AUTHORIZATION;
use serde_json::Value;
use windlass_proto::parameters::Parameters;
use windlass_proto::transfer::{self, ErrorReply, Failure, Head, Protocol, SessionStatus};
use windlass_proto::upload_type::UploadType;

use crate::download::{Download, DownloadProgress, Downloaded};
use crate::error::{Error, ErrorCause};
use crate::journal::{Journal, JournalError, LockedRecord, Record};
use crate::session_uri::SessionUri;
use crate::source::{Media, Source};
use crate::token::{TokenSource, TransportAndToken};
use crate::transport::{Body, Reply, Request, Transport};
use crate::upload::{Upload, Uploaded};
use crate::upload_loop::{Deadline, UploadDriver};

mod builder;

pub use builder::{ClientBuilder, InvalidSetting};

/// Maximum size in bytes of media that is uploaded in a single request by default. Google's
/// documents recommend "5 MB or less".
pub const MAX_SINGLE_REQUEST: u64 = 5 * 1024 * 1024;

/// Uploads and downloads media, and manages upload sessions. Cheap to clone; clones share
/// connections and tokens.
#[derive(Debug, Clone)]
pub struct Client(Arc<TransportAndToken>);

/// The state of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// The session accepts more bytes.
    Active {
        /// Number of committed bytes.
        committed: u64,
    },
    /// The session is finished: all media is committed.
    Finished {
        /// The resource in the server's reply, which describes the stored media; `None` if the body
        /// is not JSON.
        resource: Option<Value>,
    },
    /// The server does not know the session, because it never existed or has expired, or the
    /// session has failed permanently.
    Lost,
    /// The session was cancelled.
    Cancelled,
}

impl Client {
    /// Returns a builder of a client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Creates a client that sends its requests over `transport`. For `token` see
    /// [`ClientBuilder::token`]. The token is sent to `https` URLs and to URLs of this machine.
    pub fn with_transport(transport: Arc<dyn Transport>, token: Option<TokenSource>) -> Self {
        Self::builder().token(token).build_over(transport)
    }

    /// Uploads media.
    ///
    /// If the upload has a [journal](Upload::journal) and the journal has an unfinished upload with
    /// the same [key](crate::UploadKey), continues it. The key consists of the path of the file,
    /// the URL, the HTTP method, the content type and the metadata. Of several such uploads the
    /// newest is continued.
    ///
    /// # Errors
    ///
    /// The upload failed, and a retry cannot help or the retries are used up; [`Error::kind`] says
    /// why. If a later call can continue the upload, [`Error::session`] is its session URI and
    /// [`Error::upload`] is the id of its record in the journal.
    ///
    /// An upload of a file that has changed since the upload began fails with
    /// [`Kind::SourceChanged`](crate::Kind::SourceChanged). Its record stays in the journal, unless
    /// the change is noticed only after the server has finished the upload.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the upload. A session that was started stays on the server, and
    /// its record stays in the journal. The number of bytes that have arrived is unknown.
    pub async fn upload(&self, upload: Upload, source: Source) -> Result<Uploaded, Error> {
        let deadline = Deadline::after(upload.timeout);
        let mut media = deadline.limit(source.open()).await?;
        if let Some(locked) = deadline.limit(unfinished(&upload, &media)).await? {
            return self.resume_with(&upload, media, locked, deadline).await;
        }
        let choice = Choice::of(&upload, &mut media);
        let choice = deadline.limit(choice).await?;
        UploadDriver::start(&self.0, &upload, choice.upload_type, choice.protocol, media)
            .run(deadline)
            .await
    }

    /// Continues the upload of a record, which the caller has [locked](crate::Journal::lock) in a
    /// journal. The media is read from the file that the record names.
    ///
    /// `upload` is created with [`Upload::of_record`], or has the URL, HTTP method, metadata and
    /// content type of the record. If the session is lost, these values start a new session.
    ///
    /// # Errors
    ///
    /// The same as of [`upload`](Self::upload).
    ///
    /// # Cancel safety
    ///
    /// The same as of [`upload`](Self::upload).
    pub async fn resume(&self, upload: Upload, locked: LockedRecord) -> Result<Uploaded, Error> {
        let deadline = Deadline::after(upload.timeout);
        let source = Source::path(locked.record().source.path());
        match deadline.limit(source.open()).await {
            Ok(media) => self.resume_with(&upload, media, locked, deadline).await,
            Err(error) => Err(error.with_record(locked.record())),
        }
    }

    async fn resume_with(
        &self,
        upload: &Upload,
        media: Media,
        locked: LockedRecord,
        deadline: Deadline,
    ) -> Result<Uploaded, Error> {
        let check = async {
            let session = &locked.record().session;
            let began = session.protocol();
            if let Some(chosen) = upload.protocol.filter(|chosen| *chosen != began) {
                return Err(ErrorCause::OtherProtocol { began, chosen }.into());
            }
            upload.check_session(session.url())?;
            let unchanged = media.check_identity(&locked.record().source);
            unchanged.await.map_err(Error::from)
        };
        if let Err(error) = deadline.limit(check).await {
            return Err(error.with_record(locked.record()));
        }
        UploadDriver::resume(&self.0, upload, media, locked)
            .run(deadline)
            .await
    }

    /// Queries the state of a session. The query does not interrupt an upload that is running in
    /// the session. If the server has committed all bytes and was interrupted before it finished
    /// the upload, the query finishes it.
    ///
    /// # Errors
    ///
    /// The server does not reply, or its reply does not state a session's state. The query is
    /// repeated only with a refreshed token, after a 401.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect on the session.
    pub async fn status(&self, session: &SessionUri) -> Result<Status, Error> {
        let protocol = session.protocol();
        let reply = self.send_to_session(session, protocol.query()).await?;
        let status = protocol.read_query(&as_transfer_reply(&reply));
        Status::of(status, &reply)
    }

    /// Cancels a session. The server deletes the media that it has received. Returns
    /// [`Status::Cancelled`] if the session was cancelled now or earlier, and [`Status::Lost`] if
    /// the server does not know it.
    ///
    /// # Errors
    ///
    /// The server does not reply, or its reply says that the session was not cancelled, for
    /// instance because it is finished. The request is repeated only with a refreshed
    /// token, after a 401.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the session may be cancelled or not.
    pub async fn cancel(&self, session: &SessionUri) -> Result<Status, Error> {
        let protocol = session.protocol();
        let reply = self.send_to_session(session, protocol.cancel()).await?;
        let status = protocol.read_cancel(&as_transfer_reply(&reply));
        Status::of(status, &reply)
    }

    /// Downloads media to a file. Calls `on_progress` whenever bytes have arrived and before each
    /// wait; it must not block.
    ///
    /// An interrupted download of the same URL to the same file is continued if the server stated a
    /// strong `ETag` for the media and still has the same media. Otherwise the download starts at
    /// the first byte.
    ///
    /// # Errors
    ///
    /// The download failed, and a retry cannot help or the retries are used up; the media has
    /// another size or digest than stated; or a file cannot be written. [`Error::kind`] says which.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future interrupts the download. The received bytes stay on disk, except the
    /// last ones, at most a few MiB.
    pub async fn download(
        &self,
        download: &Download,
        on_progress: impl Fn(DownloadProgress) + Send + Sync,
    ) -> Result<Downloaded, Error> {
        let token = self
            .0
            .token_for(download.url())
            .map_err(ErrorCause::Token)?;
        let done = download.run(self.0.transport(), token, on_progress);
        Ok(done.await?)
    }

    async fn send_to_session(&self, session: &SessionUri, head: Head) -> Result<Reply, Error> {
        let reply = self.send_once(session, head.clone()).await?;
        let is_token_refused =
            reply.status == StatusCode::UNAUTHORIZED && session.may_receive_token();
        if is_token_refused && self.0.can_refresh() {
            self.0.refresh().await?;
            return self.send_once(session, head).await;
        }
        Ok(reply)
    }

    async fn send_once(&self, session: &SessionUri, head: Head) -> Result<Reply, Error> {
        let mut headers = head.headers;
        if session.may_receive_token()
            && let Some(token) = self.0.authorization(session.url()).await?
        {
            headers.insert(AUTHORIZATION, token);
        }
        let request = Request {
            method: head.method,
            url: session.url().clone(),
            headers,
            body: Body::Empty,
            may_receive_credentials: session.may_receive_token(),
        };
        let sent = self.0.transport().send(request).await;
        Ok(sent.map_err(ErrorCause::Transport)?)
    }
}

impl Status {
    /// Adds the resource of a finished session, and returns an error for a reply without a status.
    fn of(status: Option<SessionStatus>, reply: &Reply) -> Result<Self, Error> {
        let resource = || serde_json::from_slice(&reply.body).ok();
        match status {
            Some(SessionStatus::Active { committed }) => Ok(Self::Active { committed }),
            Some(SessionStatus::Finished) => Ok(Self::Finished {
                resource: resource(),
            }),
            Some(SessionStatus::Lost) => Ok(Self::Lost),
            Some(SessionStatus::Cancelled) => Ok(Self::Cancelled),
            None => Err(error_reply(reply)),
        }
    }
}

/// Finds and locks the newest unfinished upload with the same [key](Upload::key), if the journal
/// has one.
async fn unfinished(upload: &Upload, media: &Media) -> Result<Option<LockedRecord>, Error> {
    let (Some(journal), false) = (&upload.journal, upload.ignore_journal) else {
        return Ok(None);
    };
    let Some(source) = media.identity().await? else {
        return Ok(None);
    };
    lock_newest(journal, journal.find(&upload.key(&source))?)
}

/// Locks the newest of these records that still exists. The last one is the newest.
fn lock_newest(journal: &Journal, found: Vec<Record>) -> Result<Option<LockedRecord>, Error> {
    for record in found.into_iter().rev() {
        match journal.lock(&record.id) {
            Ok(locked) => return Ok(Some(locked)),
            // Another process has finished this upload after the record was found.
            Err(JournalError::NotFound { .. }) => {}
            Err(error @ JournalError::InUse { .. }) => {
                return Err(Error::new(error).with_record(&record));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// How an upload is sent.
struct Choice {
    upload_type: UploadType,
    /// `None` if the server is to be asked.
    protocol: Option<Protocol>,
}

impl Choice {
    /// The choice of the caller comes first, then what the URL says. A file of a
    /// [run](Upload::one_of_several) is otherwise resumable, and any other upload's type depends on
    /// the size of the media. Refuses metadata for a type that does not send it, and a type that
    /// the protocol does not have.
    async fn of(upload: &Upload, media: &mut Media) -> Result<Self, Error> {
        let parameters = Parameters::parse(upload.url.query()).map_err(ErrorCause::from)?;
        let requested = upload
            .requested_type
            .or_else(|| UploadType::from_parameters(&parameters).ok().flatten());
        let is_single = requested.is_some_and(|requested| requested != UploadType::Resumable);
        let of_url = || Protocol::of_url(upload.url.path(), upload.url.query());
        // Only Google's protocol has single requests.
        let of_type = || is_single.then_some(Protocol::Google);
        let protocol = upload.protocol.or_else(of_url).or_else(of_type);
        let upload_type = match protocol.filter(|protocol| !protocol.has_single_requests()) {
            Some(protocol) if is_single => {
                return Err(ErrorCause::NoSingleRequest(protocol).into());
            }
            Some(_) => UploadType::Resumable,
            None => choose_upload_type(upload, requested, media).await?,
        };
        Ok(Self {
            upload_type,
            protocol,
        })
    }
}

/// Returns the type of an upload in Google's protocol.
async fn choose_upload_type(
    upload: &Upload,
    requested: Option<UploadType>,
    media: &mut Media,
) -> Result<UploadType, Error> {
    match requested {
        Some(UploadType::Resumable) => return Ok(UploadType::Resumable),
        Some(UploadType::Media) if upload.metadata.is_some() => {
            return Err(ErrorCause::MetadataNotSent.into());
        }
        None if upload.one_of_several && upload.journal.is_some() && media.has_identity() => {
            return Ok(UploadType::Resumable);
        }
        _ => {}
    }
    let size = single_request_size(media).await?;
    match (requested, size) {
        (Some(_), None) => Err(ErrorCause::TooLongForOneRequest.into()),
        (Some(requested), Some(_)) => Ok(requested),
        (None, Some(size)) if size <= MAX_SINGLE_REQUEST && upload.metadata.is_some() => {
            Ok(UploadType::Multipart)
        }
        (None, Some(size)) if size <= MAX_SINGLE_REQUEST => Ok(UploadType::Media),
        (None, _) => Ok(UploadType::Resumable),
    }
}

/// Returns the size of media that can be sent in a single request; `None` for other media.
///
/// A file and bytes in memory qualify, whatever their size. A stream qualifies if it ends within
/// [`MAX_SINGLE_REQUEST`] bytes and within its window, because the request must be repeatable. To
/// find out, up to that many bytes and one more are read into the window, even if the length was
/// stated.
async fn single_request_size(media: &mut Media) -> Result<Option<u64>, Error> {
    if media.is_stream() {
        let filled = media.fill(MAX_SINGLE_REQUEST + 1).await?;
        return Ok(filled.ended.then_some(filled.end));
    }
    Ok(media.total())
}

fn as_transfer_reply(reply: &Reply) -> transfer::Reply<'_> {
    transfer::Reply {
        status: reply.status,
        headers: &reply.headers,
        body: &reply.body,
        retry_after: None,
    }
}

/// Returns the error for a reply with an unexpected status.
fn error_reply(reply: &Reply) -> Error {
    let failure = Failure::Refused(ErrorReply::of(&as_transfer_reply(reply)));
    ErrorCause::Upload {
        failure,
        last_error: None,
    }
    .into()
}

#[cfg(test)]
mod tests;
