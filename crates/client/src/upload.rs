//! The description of an upload.

use std::fmt;
use std::time::Duration;

use http::HeaderValue;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::{Origin, Url};
use windlass_proto::transfer::{ChunkSize, Chunking, Protocol, RetryPolicy};
use windlass_proto::upload_type::UploadType;

use crate::checksum::Verified;
use crate::error::{Error, ErrorCause};
use crate::journal::{Journal, NewRecord, Record, RunId, UploadKey};
use crate::origin;
use crate::progress::{Progress, ProgressCallback, RateLimit};
use crate::session_uri::{Redacted, SessionUri};
use crate::source::SourceIdentity;

/// The HTTP method that starts an upload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum HttpMethod {
    /// Creates a resource.
    #[default]
    Post,
    /// Replaces a resource.
    Put,
    /// Changes a resource.
    Patch,
}

impl HttpMethod {
    /// Returns the method's name in HTTP.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
        }
    }

    /// Parses a method's name. Upper and lower case are the same.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Post, Self::Put, Self::Patch]
            .into_iter()
            .find(|http_method| http_method.as_str().eq_ignore_ascii_case(text))
    }
}

/// The description of an upload: URL, HTTP method, metadata and options.
///
/// ```
/// # fn main() -> Result<(), windlass_client::Error> {
/// use serde_json::json;
/// use windlass_client::Upload;
///
/// let upload = Upload::new("http://127.0.0.1:8080/upload/farm/v1/animals".parse().unwrap())?
///     .content_type("image/jpeg")?
///     .metadata(&json!({"name": "Llama"}))?;
/// # Ok(())
/// # }
/// ```
///
/// `Debug` hides the query of the URL, which may contain an API key, and the metadata.
#[derive(Clone)]
pub struct Upload {
    pub(crate) url: Url,
    pub(crate) http_method: HttpMethod,
    pub(crate) requested_type: Option<UploadType>,
    /// The protocol that the caller has chosen.
    pub(crate) protocol: Option<Protocol>,
    pub(crate) metadata: Option<Value>,
    pub(crate) content_type: Option<HeaderValue>,
    /// Origins to which media may be sent, in addition to the origin of the URL.
    session_origins: Vec<Origin>,
    pub(crate) chunking: Chunking,
    pub(crate) retry_policy: RetryPolicy,
    pub(crate) verify: bool,
    pub(crate) rate_limit: Option<RateLimit>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) journal: Option<Journal>,
    pub(crate) ignore_journal: bool,
    pub(crate) one_of_several: bool,
    pub(crate) run: Option<RunId>,
    pub(crate) on_progress: Option<ProgressCallback>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("url", &format_args!("{}", Redacted(&self.url)))
            .field("http_method", &self.http_method)
            .field("upload_type", &self.requested_type)
            .field("protocol", &self.protocol)
            .field("content_type", &self.content_type)
            .field("chunking", &self.chunking)
            .finish_non_exhaustive()
    }
}

impl Upload {
    /// Describes an upload by POST to the URL of an upload method (`.../upload/...`).
    ///
    /// # Errors
    ///
    /// The scheme of the URL is neither `http` nor `https`.
    pub fn new(url: Url) -> Result<Self, Error> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ErrorCause::Scheme.into());
        }
        Ok(Self {
            requested_type: None,
            protocol: None,
            url,
            http_method: HttpMethod::default(),
            metadata: None,
            content_type: None,
            session_origins: Vec::new(),
            chunking: Chunking::default(),
            retry_policy: RetryPolicy::default(),
            verify: true,
            rate_limit: None,
            timeout: None,
            journal: None,
            ignore_journal: false,
            one_of_several: false,
            run: None,
            on_progress: None,
        })
    }

    /// Describes the upload of a journal's record, for [`Client::resume`](crate::Client::resume).
    /// URL, protocol, HTTP method, metadata, content type and a fixed chunk size are taken from the
    /// record.
    /// All other options have their defaults.
    ///
    /// # Errors
    ///
    /// One of these fields is invalid.
    pub fn of_record(record: &Record) -> Result<Self, Error> {
        let url = Url::parse(&record.url).map_err(|_| ErrorCause::Scheme)?;
        let mut upload = Self::new(url)?.protocol(record.session.protocol());
        upload.http_method =
            HttpMethod::parse(&record.http_method).ok_or(ErrorCause::HttpMethod)?;
        upload.metadata.clone_from(&record.metadata);
        if let Some(content_type) = &record.content_type {
            upload = upload.content_type(content_type)?;
        }
        if let Some(bytes) = record.chunk_size {
            let size = ChunkSize::new(bytes).map_err(ErrorCause::ChunkSize)?;
            upload.chunking = Chunking::Fixed(size);
        }
        Ok(upload)
    }

    /// Returns the key by which the journal finds this upload of the file `source`.
    pub fn key(&self, source: &SourceIdentity) -> UploadKey {
        UploadKey::new(
            source,
            self.url.as_str(),
            self.http_method.as_str(),
            self.content_type_text(),
            self.metadata.as_ref(),
        )
        .with_protocol(self.protocol)
    }

    /// Returns the content of a new record for the journal.
    pub(crate) fn new_record(&self, session: SessionUri, source: SourceIdentity) -> NewRecord {
        NewRecord {
            url: self.url.to_string(),
            session,
            http_method: self.http_method.as_str().to_owned(),
            content_type: self.content_type_text().map(ToOwned::to_owned),
            metadata: self.metadata.clone(),
            total: source.size(),
            source,
            chunk_size: match self.chunking {
                Chunking::Adaptive => None,
                Chunking::Fixed(size) => Some(size.bytes()),
            },
            of_run: self.one_of_several,
        }
    }

    fn content_type_text(&self) -> Option<&str> {
        self.content_type
            .as_ref()
            .and_then(|value| value.to_str().ok())
    }

    /// Sets the HTTP method. Default: POST.
    #[must_use]
    pub fn http_method(self, http_method: HttpMethod) -> Self {
        Self {
            http_method,
            ..self
        }
    }

    /// Sets the protocol.
    ///
    /// By default it is Google's for a URL with a segment `upload` in its path, for a URL with a
    /// parameter `uploadType` or `upload_protocol`, and for an upload in a [single
    /// request](Self::upload_type). Of any other URL the server is asked by OPTIONS: it is tus if
    /// the server speaks 1.0.0 of it, otherwise the IETF's draft if it speaks that, and otherwise
    /// Google's. An upload that is continued stays in the protocol in which it began.
    ///
    /// In the other protocols every upload is a session, whatever its size, and the metadata is
    /// limited. tus sends the name and the type of the file as `filename` and `filetype`, and the
    /// fields of the [metadata](Self::metadata), which must be strings. It starts with
    /// [POST](Self::http_method). The draft sends the name and the type only, and has no metadata. A
    /// call that says otherwise fails with [`Kind::Usage`](crate::Kind::Usage) before the upload
    /// starts.
    #[must_use]
    pub fn protocol(self, protocol: Protocol) -> Self {
        Self {
            protocol: Some(protocol),
            ..self
        }
    }

    /// Sets the upload type. It wins over a parameter `uploadType` in the URL. The type `media`
    /// sends no [metadata](Self::metadata): an upload of this type that has some fails with
    /// [`Kind::Usage`](crate::Kind::Usage) before the first request.
    ///
    /// If there is neither, media of up to 5 MiB is uploaded in a single request, as multipart if
    /// there is metadata, and larger media is resumable. A stream is also resumable if it is longer
    /// than its [window](crate::Source::with_window). To find out, up to 5 MiB of a stream are read
    /// before the first request.
    ///
    /// If a single request breaks, it is sent again as a whole. If only the reply was lost, a
    /// repeated POST creates a second resource. A resumable upload does not.
    ///
    /// An upload in a single request has no record in the [journal](Self::journal). It fails for a
    /// stream that is longer than 5 MiB, or than its window.
    #[must_use]
    pub fn upload_type(self, upload_type: UploadType) -> Self {
        Self {
            requested_type: Some(upload_type),
            ..self
        }
    }

    /// Sets the metadata: any value that serializes to a JSON object.
    ///
    /// # Errors
    ///
    /// The value does not serialize to a JSON object.
    pub fn metadata(self, metadata: &impl Serialize) -> Result<Self, Error> {
        let metadata = serde_json::to_value(metadata).map_err(ErrorCause::Metadata)?;
        if !metadata.is_object() {
            return Err(ErrorCause::MetadataNotAnObject.into());
        }
        Ok(Self {
            metadata: Some(metadata),
            ..self
        })
    }

    /// Sets the content type of the media. By default a resumable upload states none, and an upload
    /// in a single request states `application/octet-stream`.
    ///
    /// # Errors
    ///
    /// The text is not `type/subtype`, with or without parameters, or has characters that a header
    /// cannot have.
    pub fn content_type(self, content_type: &str) -> Result<Self, Error> {
        let value = HeaderValue::from_str(content_type).map_err(|_| ErrorCause::ContentType)?;
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let halves = essence.split_once('/');
        if !halves.is_some_and(|(main, sub)| !main.is_empty() && !sub.is_empty()) {
            return Err(ErrorCause::ContentType.into());
        }
        Ok(Self {
            content_type: Some(value),
            ..self
        })
    }

    /// Allows sessions at the origin (scheme, host and port) of this URL. May be called more than
    /// once.
    ///
    /// A server names the URL of a session when the session starts. By default the upload fails
    /// with [`Kind::Protocol`](crate::Kind::Protocol) before any media is sent, unless that URL has
    /// the host of the upload URL, whatever the port, or both are hosts of Google's APIs
    /// (`googleapis.com` and the names below it). All names and addresses of this machine count as
    /// one host. [`Error::refused_origin`] is the origin that was refused. A session without
    /// encryption is never accepted for an upload URL with `https`.
    ///
    /// Tokens are sent to no such origin.
    #[must_use]
    pub fn session_origin(mut self, url: &Url) -> Self {
        self.session_origins.push(url.origin());
        self
    }

    /// Checks that the media may be sent to this session.
    pub(crate) fn check_session(&self, session: &Url) -> Result<(), Error> {
        if self.url.scheme() == "https" && session.scheme() != "https" {
            return Err(ErrorCause::Downgrade.into());
        }
        if !origin::may_receive_media(&self.url, session, &self.session_origins) {
            let origin = session.origin().ascii_serialization();
            return Err(ErrorCause::OtherOrigin { origin }.into());
        }
        Ok(())
    }

    /// Sets how the media of a resumable upload is split into requests to its session.
    ///
    /// By default a request has all media that is left, and chunks are sent only if two requests in
    /// a row break, or if the server commits only a part of one. A stream is always sent in chunks:
    /// by default of at most 8 MiB, and never larger than its [window](crate::Source::with_window).
    #[must_use]
    pub fn chunking(self, chunking: Chunking) -> Self {
        Self { chunking, ..self }
    }

    /// Sets when and how often failed requests are retried. By default an upload fails after six
    /// attempts without progress, between which it waits about half a minute in all. Replies that
    /// are not part of the protocol are counted separately: an upload fails at the tenth, unless
    /// the server has committed more bytes in between.
    #[must_use]
    pub fn retry_policy(self, retry_policy: RetryPolicy) -> Self {
        Self {
            retry_policy,
            ..self
        }
    }

    /// Sets whether the size, CRC32C and MD5 that the server states are compared with the sent
    /// media. Default: true.
    ///
    /// The CRC32C is computed while bytes are sent, which costs almost nothing. Bytes that an
    /// earlier call sent are read again for it, at the end. If the server states an MD5, all
    /// media is read again; of a stream with a [window](crate::Source::with_window) the MD5 is not
    /// compared.
    #[must_use]
    pub fn verify(self, verify: bool) -> Self {
        Self { verify, ..self }
    }

    /// Limits the rate at which media is sent, by all requests of the upload. Default: no limit.
    #[must_use]
    pub fn rate_limit(self, limit: RateLimit) -> Self {
        Self {
            rate_limit: Some(limit),
            ..self
        }
    }

    /// Limits the duration of a call of [`Client::upload`](crate::Client::upload) or
    /// [`Client::resume`](crate::Client::resume), the opening and reading of the media included.
    /// Default: no limit.
    ///
    /// A call that exceeds it fails with [`Kind::Timeout`](crate::Kind::Timeout). A session that
    /// was started stays on the server, and its record stays in the journal.
    #[must_use]
    pub fn timeout(self, limit: Duration) -> Self {
        Self {
            timeout: Some(limit),
            ..self
        }
    }

    /// Records a resumable upload of a regular file in a journal, so that it survives the end of
    /// the process: a later upload with the same [key](Self::key) continues it. By default nothing
    /// is recorded. Other uploads are never recorded.
    #[must_use]
    pub fn journal(self, journal: Journal) -> Self {
        Self {
            journal: Some(journal),
            ..self
        }
    }

    /// Starts a new upload even if the journal has an unfinished one with the same
    /// [key](Self::key). The new one is recorded as well, and the unfinished one stays.
    #[must_use]
    pub fn ignore_journal(self) -> Self {
        Self {
            ignore_journal: true,
            ..self
        }
    }

    /// Records in the [journal](Self::journal) when the upload of a regular file is finished, until
    /// [`Journal::forget_finished`] forgets it. A run of several uploads can then be stopped and
    /// started again: the journal knows its [finished](Journal::finished_at) uploads.
    ///
    /// Small files are then also uploaded in a session by default, so a small file takes two
    /// requests. The session's record is written before the media is sent. After a kill during a
    /// single request, nobody would know whether its media has arrived.
    ///
    /// Has no effect without a journal.
    #[must_use]
    pub fn one_of_several(self) -> Self {
        Self {
            one_of_several: true,
            ..self
        }
    }

    /// The same as [`one_of_several`](Self::one_of_several), and records the run.
    /// [`Journal::forget_finished_run`] can then distinguish a run from a larger run that was
    /// stopped.
    #[must_use]
    pub fn of_run(self, run: RunId) -> Self {
        Self {
            run: Some(run),
            ..self.one_of_several()
        }
    }

    /// Sets a callback for the progress. It is called before each request, read, wait and check,
    /// with its [`State`](crate::State), and ten times per second while a request is being sent or
    /// its reply is awaited. So the change from `Sending` to `Finishing` is noticed up to a tenth
    /// of a second late, and is not reported if the reply comes earlier. The callback must not
    /// block.
    #[must_use]
    pub fn on_progress(self, callback: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self {
            on_progress: Some(ProgressCallback::new(callback)),
            ..self
        }
    }
}

/// The result of a finished upload.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Uploaded {
    /// The resource in the server's reply, which describes the stored media; `None` if the body is
    /// not JSON. In tus, the resource that the last reply names, if it names one.
    pub resource: Option<Value>,
    /// The protocol that was used.
    pub protocol: Protocol,
    /// The upload type that was used.
    pub upload_type: UploadType,
    /// Size of the media in bytes.
    pub size: u64,
    /// The properties of the media that were compared with those in the resource, and are equal.
    pub verified: Verified,
    /// Number of times that the server lost the session and the upload restarted in a new one.
    pub restarts: u32,
}

/// Returns the `id` of a resource. Without an `id`, returns its `name`.
pub(crate) fn resource_id(resource: &Value) -> Option<String> {
    ["id", "name"]
        .into_iter()
        .find_map(|field| match &resource[field] {
            Value::String(id) => Some(id.clone()),
            Value::Number(id) => Some(id.to_string()),
            _ => None,
        })
}

impl Uploaded {
    /// Returns the resource as a type of the application.
    ///
    /// # Errors
    /// The reply is not JSON, or its JSON does not match the type.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(self.resource.as_ref().unwrap_or(&Value::Null))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resource_becomes_a_type_of_the_application() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Photo {
            id: String,
        }
        let mut uploaded = Uploaded {
            resource: Some(json!({"id": "1", "size": "3"})),
            protocol: Protocol::Google,
            upload_type: UploadType::Media,
            size: 3,
            verified: Verified::default(),
            restarts: 0,
        };
        let photo: Photo = uploaded.json().expect("it is a photo");
        assert_eq!(photo.id, "1");
        assert!(uploaded.json::<Vec<u8>>().is_err());
        uploaded.resource = None;
        assert!(uploaded.json::<Photo>().is_err());
    }
}
