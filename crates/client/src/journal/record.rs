//! What is remembered of an upload.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

use serde_json::Value;
use url::Url;

use super::{Damage, JournalError};
use crate::session_uri::Redacted;
use crate::{SessionUri, SourceIdentity};

/// An upload that is not finished.
///
/// `Debug` shows neither the session nor the query of the URL nor the metadata.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// What it is called in the journal.
    pub id: RecordId,
    /// The URL that the upload was asked of, as it was given. It may hold a key.
    pub url: String,
    /// Where the media goes.
    pub session: SessionUri,
    /// How the session was asked for: `POST`, `PUT` or `PATCH`.
    pub http_method: String,
    /// The type of the media, as it was said.
    pub content_type: Option<String>,
    /// The metadata, to ask for another session when this one is gone.
    pub metadata: Option<Value>,
    /// The file, as it was.
    pub source: SourceIdentity,
    /// Bytes in the media.
    pub total: u64,
    /// Bytes that the server was known to have, a second ago or later. It knows better.
    pub committed: u64,
    /// The size of chunks, where it is fixed.
    pub chunk_size: Option<u64>,
    /// When the upload began, in whole seconds.
    pub started: SystemTime,
    /// When something was last committed, in whole seconds.
    pub touched: SystemTime,
}

/// An upload that has just got its session.
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
}

/// What is in a journal under one id.
#[derive(Debug)]
pub enum Entry {
    /// An upload.
    Unfinished(Box<Record>),
    /// A record that cannot be used.
    Damaged {
        /// What it is called.
        id: RecordId,
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
}

/// What makes two uploads the same: from where, to where, with what description.
///
/// The order of fields in the metadata does not matter. Whether the file is still the same is
/// another question: see [`SourceIdentity::difference`].
#[derive(Clone, PartialEq)]
pub struct UploadKey {
    path: PathBuf,
    url: String,
    http_method: String,
    content_type: Option<String>,
    metadata: Option<Value>,
}

impl UploadKey {
    /// The key of an upload that is about to begin.
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
        }
    }

    /// Whether it is the key of this upload.
    pub(super) fn matches(&self, record: &Record) -> bool {
        self.path == record.source.path()
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
            started: now,
            touched: now,
        }
    }

    /// The oldest first, and always the same order.
    pub(super) fn sort_key(&self) -> (SystemTime, RecordId) {
        (self.started, self.id.clone())
    }

    /// By what the same upload is found again.
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
            .field("touched", &self.touched)
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

fn without_secrets(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "..".to_owned(), |url| Redacted(&url).to_string())
}

/// What an unfinished upload is called in its journal: eight characters, `a` to `z` and `2` to `7`.
///
/// It is no secret: it opens nothing without the journal.
///
/// ```
/// use windlass_client::UploadRef;
///
/// let id: UploadRef = "mzxw6ytb".parse().unwrap();
/// assert_eq!(id.to_string(), "mzxw6ytb");
/// assert!("../etc/x".parse::<UploadRef>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId([Digit; 8]);

/// One of 32: five bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Digit(u8);

/// A text that names no upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an upload is named by eight characters of a to z and 2 to 7")]
pub struct InvalidRecordId;

/// RFC 4648, section 6, in lower case.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

impl RecordId {
    pub(super) fn random() -> Result<Self, JournalError> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(JournalError::Random)?;
        Ok(Self(bytes.map(|byte| Digit(byte % 32))))
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
