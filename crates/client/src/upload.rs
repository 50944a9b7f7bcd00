//! What is uploaded, where to, and how.

use std::fmt;
use std::time::Duration;

use http::HeaderValue;
use serde::Serialize;
use serde_json::Value;
use url::Url;
use windlass_proto::transfer::{ChunkSize, Chunking, RetryPolicy};
use windlass_proto::upload_type::UploadType;

use crate::checksum::Verified;
use crate::error::{Cause, Error};
use crate::journal::{Journal, NewRecord, Record, UploadKey};
use crate::progress::{Progress, ProgressCallback};
use crate::rate_limit::RateLimit;
use crate::session_uri::{Redacted, SessionUri};
use crate::source::SourceIdentity;

/// The verb that an upload begins with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum HttpMethod {
    /// Makes a resource.
    #[default]
    Post,
    /// Replaces one.
    Put,
    /// Changes one.
    Patch,
}

impl HttpMethod {
    /// The verb as HTTP writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
        }
    }

    /// Reads a verb of either case.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Post, Self::Put, Self::Patch]
            .into_iter()
            .find(|http_method| http_method.as_str().eq_ignore_ascii_case(text))
    }
}

/// An upload that is to be done.
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
/// `Debug` shows neither the query of the URL, which may hold a key, nor the metadata.
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
    /// An upload to a URI of media uploads (`.../upload/...`), by POST.
    ///
    /// # Errors
    ///
    /// The URL begins with neither `http` nor `https`.
    pub fn new(url: Url) -> Result<Self, Error> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Cause::Scheme.into());
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

    /// The upload that a journal tells of, to be [resumed](crate::Client::resume).
    pub fn of_record(record: &Record) -> Result<Self, Error> {
        let url = Url::parse(&record.url).map_err(|_| Cause::Scheme)?;
        let mut upload = Self::new(url)?;
        upload.http_method = HttpMethod::parse(&record.http_method).unwrap_or_default();
        upload.metadata.clone_from(&record.metadata);
        if let Some(content_type) = &record.content_type {
            upload = upload.content_type(content_type)?;
        }
        if let Some(bytes) = record.chunk_size {
            let size = ChunkSize::new(bytes).map_err(Cause::ChunkSize)?;
            upload.chunking = Chunking::Fixed(size);
        }
        Ok(upload)
    }

    /// By what the journal recognises this upload of a file.
    pub fn key(&self, source: &SourceIdentity) -> UploadKey {
        UploadKey::new(
            source,
            self.url.as_str(),
            self.http_method.as_str(),
            self.content_type_text(),
            self.metadata.as_ref(),
        )
    }

    /// What the journal is to keep.
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

    /// Sets the verb: POST unless set.
    #[must_use]
    pub fn http_method(self, http_method: HttpMethod) -> Self {
        Self {
            http_method,
            ..self
        }
    }

    /// Sets the upload type. Unless set, media of up to 5 MiB goes in one request, with metadata as
    /// multipart; all else is resumable. A parameter `uploadType` in the URL counts as setting it.
    ///
    /// An upload in one request that breaks is sent again. If it was a reply that got lost, a POST has
    /// made two resources then; a resumable upload has not.
    #[must_use]
    pub fn upload_type(self, upload_type: UploadType) -> Self {
        Self {
            requested_type: Some(upload_type),
            ..self
        }
    }

    /// Sets the metadata: anything that is a JSON object when serialised.
    ///
    /// # Errors
    ///
    /// It is something else.
    pub fn metadata(self, metadata: &impl Serialize) -> Result<Self, Error> {
        let metadata = serde_json::to_value(metadata).map_err(Cause::Metadata)?;
        if !metadata.is_object() {
            return Err(Cause::MetadataNotAnObject.into());
        }
        Ok(Self {
            metadata: Some(metadata),
            ..self
        })
    }

    /// Sets the type of the media. Unless set, the server is told nothing, or `application/octet-stream`
    /// where it has to be told something.
    ///
    /// # Errors
    ///
    /// It is not `type/subtype`, with or without parameters.
    pub fn content_type(self, content_type: &str) -> Result<Self, Error> {
        let value = HeaderValue::from_str(content_type).map_err(|_| Cause::ContentType)?;
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let halves = essence.split_once('/');
        if !halves.is_some_and(|(main, sub)| !main.is_empty() && !sub.is_empty()) {
            return Err(Cause::ContentType.into());
        }
        Ok(Self {
            content_type: Some(value),
            ..self
        })
    }

    /// Sets how the media is cut into requests. Unless set, everything goes in one request, and in chunks
    /// when requests keep breaking. Chunks of a stream are no larger than its
    /// [window](crate::Source::with_window).
    #[must_use]
    pub fn chunking(self, chunking: Chunking) -> Self {
        Self { chunking, ..self }
    }

    /// Sets how often is tried what fails.
    #[must_use]
    pub fn retry_policy(self, retry_policy: RetryPolicy) -> Self {
        Self {
            retry_policy,
            ..self
        }
    }

    /// Sets whether what the server says of the media is compared with what was sent. It is unless set.
    /// CRC32C costs next to nothing; where the server offers MD5, files are read once more.
    #[must_use]
    pub fn verify(self, verify: bool) -> Self {
        Self { verify, ..self }
    }

    /// Sets a limit on the rate.
    #[must_use]
    pub fn rate_limit(self, limit: RateLimit) -> Self {
        Self {
            rate_limit: Some(limit),
            ..self
        }
    }

    /// Sets how long all of it may take. No limit unless set.
    #[must_use]
    pub fn timeout(self, limit: Duration) -> Self {
        Self {
            timeout: Some(limit),
            ..self
        }
    }

    /// Keeps a resumable upload of a file in a journal, so that it survives the end of the process: the
    /// same upload, asked for again, goes on where it was. Nothing is kept unless set.
    #[must_use]
    pub fn journal(self, journal: Journal) -> Self {
        Self {
            journal: Some(journal),
            ..self
        }
    }

    /// Begins at the first byte, whatever the journal tells.
    #[must_use]
    pub fn ignore_journal(self) -> Self {
        Self {
            ignore_journal: true,
            ..self
        }
    }

    /// Calls back with the progress: when something happens, and ten times per second while media is on
    /// its way. The call must not block.
    #[must_use]
    pub fn on_progress(self, watch: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self {
            on_progress: Some(ProgressCallback::new(watch)),
            ..self
        }
    }
}

/// An upload that is done.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Uploaded {
    /// The resource as the server shows it; `None` when it shows none.
    pub resource: Option<Value>,
    /// How it was uploaded.
    pub upload_type: UploadType,
    /// Size of the media.
    pub size: u64,
    /// What was compared with what the server says, and found equal.
    pub verified: Verified,
    /// How often the upload had to start again.
    pub restarts: u32,
}
