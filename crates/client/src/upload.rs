//! The description of an upload.

use std::fmt;
use std::time::Duration;

use http::HeaderValue;
use serde::Serialize;
use serde_json::Value;
use url::Url;
use windlass_proto::transfer::{ChunkSize, Chunking, RetryPolicy};
use windlass_proto::upload_type::UploadType;

use crate::checksum::Verified;
use crate::error::{Error, ErrorCause};
use crate::journal::{Journal, NewRecord, Record, UploadKey};
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

    /// Parses a method's name in either case.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Post, Self::Put, Self::Patch]
            .into_iter()
            .find(|http_method| http_method.as_str().eq_ignore_ascii_case(text))
    }
}

/// The description of an upload: target, metadata and options.
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
/// `Debug` hides the query of the URL, which may hold a key, and the metadata.
#[derive(Clone)]
pub struct Upload {
    pub(crate) url: Url,
    pub(crate) http_method: HttpMethod,
    pub(crate) requested_type: Option<UploadType>,
    pub(crate) metadata: Option<Value>,
    pub(crate) content_type: Option<HeaderValue>,
    pub(crate) chunking: Chunking,
    pub(crate) retry_policy: RetryPolicy,
    pub(crate) verify: bool,
    pub(crate) rate_limit: Option<RateLimit>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) journal: Option<Journal>,
    pub(crate) ignore_journal: bool,
    pub(crate) on_progress: Option<ProgressCallback>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("url", &format_args!("{}", Redacted(&self.url)))
            .field("http_method", &self.http_method)
            .field("upload_type", &self.requested_type)
            .field("content_type", &self.content_type)
            .field("chunking", &self.chunking)
            .finish_non_exhaustive()
    }
}

impl Upload {
    /// Describes an upload by POST to a media upload URI (`.../upload/...`).
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
            url,
            http_method: HttpMethod::default(),
            metadata: None,
            content_type: None,
            chunking: Chunking::default(),
            retry_policy: RetryPolicy::default(),
            verify: true,
            rate_limit: None,
            timeout: None,
            journal: None,
            ignore_journal: false,
            on_progress: None,
        })
    }

    /// Describes the upload of a journal's record, which [`Client::resume`](crate::Client::resume)
    /// continues.
    ///
    /// # Errors
    ///
    /// A field of the record is invalid.
    pub fn of_record(record: &Record) -> Result<Self, Error> {
        let url = Url::parse(&record.url).map_err(|_| ErrorCause::Scheme)?;
        let mut upload = Self::new(url)?;
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

    /// Returns the key under which the journal finds this upload of a file.
    pub fn key(&self, source: &SourceIdentity) -> UploadKey {
        UploadKey::new(
            source,
            self.url.as_str(),
            self.http_method.as_str(),
            self.content_type_text(),
            self.metadata.as_ref(),
        )
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

    /// Sets the upload type. By default, media of up to 5 MiB is uploaded in one request, as
    /// multipart if there is metadata, and larger media is resumable. A parameter `uploadType` in
    /// the URL also sets the type.
    ///
    /// An upload in one request is repeated if the request breaks. If only the reply was lost, a
    /// repeated POST creates a second resource. A resumable upload does not.
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
    /// in one request states `application/octet-stream`.
    ///
    /// # Errors
    ///
    /// The text is not `type/subtype`, with or without parameters.
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

    /// Sets how the media of a resumable upload is split into requests. By default all of it is
    /// sent in one request, and in chunks if requests break repeatedly. Chunks of a stream are
    /// never larger than its [window](crate::Source::with_window).
    #[must_use]
    pub fn chunking(self, chunking: Chunking) -> Self {
        Self { chunking, ..self }
    }

    /// Sets when and how often failed requests are retried.
    #[must_use]
    pub fn retry_policy(self, retry_policy: RetryPolicy) -> Self {
        Self {
            retry_policy,
            ..self
        }
    }

    /// Sets whether the properties that the server states are compared with those of the sent
    /// media. Default: true. The CRC32C costs almost nothing; if the server states an MD5, a file
    /// is read once more.
    #[must_use]
    pub fn verify(self, verify: bool) -> Self {
        Self { verify, ..self }
    }

    /// Limits the rate at which media is sent. Default: no limit.
    #[must_use]
    pub fn rate_limit(self, limit: RateLimit) -> Self {
        Self {
            rate_limit: Some(limit),
            ..self
        }
    }

    /// Limits the duration of a call of [`Client::upload`](crate::Client::upload) or
    /// [`Client::resume`](crate::Client::resume), the opening and reading of the media included.
    /// Default: no limit. A session that was started stays on the server and, if there is a
    /// journal, in the journal.
    #[must_use]
    pub fn timeout(self, limit: Duration) -> Self {
        Self {
            timeout: Some(limit),
            ..self
        }
    }

    /// Records a resumable upload of a file in a journal, so that it survives the end of the
    /// process: a later upload with the same [key](Self::key) continues it. By default nothing is
    /// recorded.
    #[must_use]
    pub fn journal(self, journal: Journal) -> Self {
        Self {
            journal: Some(journal),
            ..self
        }
    }

    /// Starts a new upload even if the journal has an unfinished one with the same
    /// [key](Self::key).
    #[must_use]
    pub fn ignore_journal(self) -> Self {
        Self {
            ignore_journal: true,
            ..self
        }
    }

    /// Sets a progress callback. It is called at each change of state, and ten times per second
    /// while a request is being sent. It must not block.
    #[must_use]
    pub fn on_progress(self, callback: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self {
            on_progress: Some(ProgressCallback::new(callback)),
            ..self
        }
    }
}

/// The result of an upload.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Uploaded {
    /// The resource in the server's reply, which describes the stored media; `None` if the body is
    /// not JSON.
    pub resource: Option<Value>,
    /// The upload type that was used.
    pub upload_type: UploadType,
    /// Size of the media in bytes.
    pub size: u64,
    /// The properties that were compared with the server's and found equal.
    pub verified: Verified,
    /// Number of times that the upload restarted in a new session.
    pub restarts: u32,
}
