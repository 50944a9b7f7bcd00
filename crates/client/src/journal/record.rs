//! Records of unfinished uploads and their ids.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

use serde_json::Value;
use url::Url;
use windlass_digest::{Md5Sha256Hasher, Sha256, Wanted};
use windlass_proto::transfer::Protocol;

use super::{Damage, JournalError};
use crate::session_uri::Redacted;
use crate::{SessionUri, SourceIdentity};

/// An unfinished upload.
///
/// `Debug` hides the session, the query of the URL and the metadata.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// Id in the journal.
    pub id: RecordId,
    /// The upload URL as the caller set it. It may contain an API key.
    pub url: String,
    /// The session to which the media is uploaded, with its protocol.
    pub session: SessionUri,
    /// The HTTP method that started the session: `POST`, `PUT` or `PATCH`.
    pub http_method: String,
    /// Content type of the media, if the caller set one.
    pub content_type: Option<String>,
    /// The metadata, if the caller set some. It is sent again if a new session is started.
    pub metadata: Option<Value>,
    /// Identity of the file when the upload began.
    pub source: SourceIdentity,
    /// Size of the media in bytes.
    pub total: u64,
    /// Number of bytes that a reply of the server reported as committed, for display. It may be
    /// less than in the last reply, because it is written at most once per second and when the
    /// upload fails. The server has the authoritative number.
    pub committed: u64,
    /// Size of chunks in bytes, if the caller set a fixed one.
    pub chunk_size: Option<u64>,
    /// Whether the upload is one of several of a [run](crate::Upload::one_of_several): it is
    /// recorded when it is finished.
    pub of_run: bool,
    /// When the upload began, in whole seconds.
    pub started: SystemTime,
    /// When the progress or the session last changed, in whole seconds.
    pub updated: SystemTime,
}

/// The content of a new record, for an upload with a session that has just started.
#[derive(Clone)]
pub struct NewRecord {
    /// See [`Record::url`].
    pub url: String,
    /// See [`Record::session`].
    pub session: SessionUri,
    /// See [`Record::http_method`].
    pub http_method: String,
    /// See [`Record::content_type`].
    pub content_type: Option<String>,
    /// See [`Record::metadata`].
    pub metadata: Option<Value>,
    /// See [`Record::source`].
    pub source: SourceIdentity,
    /// See [`Record::total`].
    pub total: u64,
    /// See [`Record::chunk_size`].
    pub chunk_size: Option<u64>,
    /// See [`Record::of_run`].
    pub of_run: bool,
}

/// An entry of a journal.
#[derive(Debug)]
pub enum Entry {
    /// An unfinished upload.
    Unfinished(Box<Record>),
    /// A record that cannot be used.
    Damaged {
        /// Id of the record.
        id: RecordId,
        /// Path of the record.
        path: PathBuf,
        /// Why it cannot be used.
        damage: Damage,
    },
}

/// The key by which a journal finds an upload: the path of its file, its URL and HTTP method, its
/// content type and its metadata.
///
/// A key with a [protocol](Self::with_protocol) finds unfinished uploads in this protocol only. The
/// order of the metadata's fields is irrelevant. The content of the file is not part of the
/// key: an upload of a file that has changed has the same key, and [`SourceIdentity::difference`]
/// detects the change.
#[derive(Clone, PartialEq)]
pub struct UploadKey {
    path: PathBuf,
    url: String,
    http_method: String,
    content_type: Option<String>,
    metadata: Option<Value>,
    /// The protocol that the caller has chosen.
    protocol: Option<Protocol>,
}

impl UploadKey {
    /// Returns the key of a new upload.
    pub fn new(
        source: &SourceIdentity,
        url: &str,
        http_method: &str,
        content_type: Option<&str>,
        metadata: Option<&Value>,
    ) -> Self {
        Self {
            path: source.path().to_owned(),
            url: url.to_owned(),
            http_method: http_method.to_owned(),
            content_type: content_type.map(ToOwned::to_owned),
            metadata: metadata.cloned(),
            protocol: None,
        }
    }

    /// Limits the key to unfinished uploads in this protocol; `None` for those in any. A finished
    /// upload has the key in any protocol.
    #[must_use]
    pub fn with_protocol(self, protocol: Option<Protocol>) -> Self {
        Self { protocol, ..self }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn http_method(&self) -> &str {
        &self.http_method
    }

    /// Returns a digest of content type and metadata. The order of the metadata's fields is
    /// irrelevant.
    pub(super) fn digest(&self) -> Sha256 {
        let mut metadata = self.metadata.clone().unwrap_or_default();
        metadata.sort_all_objects();
        let content_type = self.content_type.as_deref().unwrap_or_default();
        digest(&[content_type, &metadata.to_string()])
    }

    /// Returns whether a record has this key.
    pub fn matches(&self, record: &Record) -> bool {
        self.protocol
            .is_none_or(|protocol| protocol == record.session.protocol())
            && self.path == record.source.path()
            && self.url == record.url
            && self.http_method == record.http_method
            && self.content_type == record.content_type
            && self.metadata == record.metadata
    }
}

impl Record {
    pub(super) fn new(id: RecordId, new: NewRecord, now: SystemTime) -> Self {
        Self {
            id,
            url: new.url,
            session: new.session,
            http_method: new.http_method,
            content_type: new.content_type,
            metadata: new.metadata,
            source: new.source,
            total: new.total,
            committed: 0,
            chunk_size: new.chunk_size,
            of_run: new.of_run,
            started: now,
            updated: now,
        }
    }

    /// Returns a key that sorts records by age, and records of the same age by id.
    pub(super) fn sort_key(&self) -> (SystemTime, RecordId) {
        (self.started, self.id.clone())
    }

    /// Returns the key by which this upload is found.
    pub fn key(&self) -> UploadKey {
        UploadKey::new(
            &self.source,
            &self.url,
            &self.http_method,
            self.content_type.as_deref(),
            self.metadata.as_ref(),
        )
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("id", &format_args!("{}", self.id))
            .field("url", &format_args!("{}", without_secrets(&self.url)))
            .field("session", &self.session)
            .field("http_method", &self.http_method)
            .field("content_type", &self.content_type)
            .field("source", &self.source)
            .field("total", &self.total)
            .field("committed", &self.committed)
            .field("chunk_size", &self.chunk_size)
            .field("started", &self.started)
            .field("updated", &self.updated)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for NewRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewRecord")
            .field("url", &format_args!("{}", without_secrets(&self.url)))
            .field("session", &self.session)
            .field("http_method", &self.http_method)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for UploadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadKey")
            .field("path", &self.path)
            .field("url", &format_args!("{}", without_secrets(&self.url)))
            .field("http_method", &self.http_method)
            .finish_non_exhaustive()
    }
}

/// Returns the SHA-256 of some texts and their lengths.
pub(super) fn digest(texts: &[&str]) -> Sha256 {
    let mut hasher = Md5Sha256Hasher::new(Wanted {
        md5: false,
        sha256: true,
    });
    for text in texts {
        hasher.update(&(text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    }
    let (_, sha256) = hasher.finish();
    sha256.expect("it is wanted")
}

fn without_secrets(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "..".to_owned(), |url| Redacted(&url).to_string())
}

/// The id of a record in its journal, and so of an unfinished upload: eight characters, `a` to `z`
/// and `2` to `7`.
///
/// It is not secret, because it gives access to nothing without the journal. It is not the
/// protocol's `upload_id`.
///
/// ```
/// use windlass_client::RecordId;
///
/// let id: RecordId = "mzxw6ytb".parse().unwrap();
/// assert_eq!(id.to_string(), "mzxw6ytb");
/// assert!("../etc/x".parse::<RecordId>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId([Digit; 8]);

/// A base-32 digit: five bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Digit(u8);

/// A text that is not a record's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the id of an upload must be eight characters of a to z and 2 to 7")]
pub struct InvalidRecordId;

/// The alphabet of RFC 4648, section 6, in lower case.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

impl RecordId {
    pub(super) fn random() -> Result<Self, JournalError> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(JournalError::Random)?;
        Ok(Self::of_bytes(bytes))
    }

    /// Returns the id that a digest stands for.
    pub(super) fn of_digest(Sha256(digest): Sha256) -> Self {
        Self::of_bytes(std::array::from_fn(|index| digest[index]))
    }

    fn of_bytes(bytes: [u8; 8]) -> Self {
        Self(bytes.map(|byte| Digit(byte % 32)))
    }
}

impl FromStr for RecordId {
    type Err = InvalidRecordId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text: [u8; 8] = text.as_bytes().try_into().map_err(|_| InvalidRecordId)?;
        let mut digits = [Digit(0); 8];
        for (digit, character) in digits.iter_mut().zip(text) {
            *digit = Digit::parse(character).ok_or(InvalidRecordId)?;
        }
        Ok(Self(digits))
    }
}

impl Digit {
    fn parse(character: u8) -> Option<Self> {
        let value = DIGITS.iter().position(|digit| *digit == character)?;
        u8::try_from(value).ok().map(Self)
    }

    fn character(self) -> char {
        char::from(DIGITS[usize::from(self.0)])
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.0.iter().map(|digit| digit.character()).collect();
        f.pad(&text)
    }
}

impl fmt::Debug for Digit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.character(), f)
    }
}
