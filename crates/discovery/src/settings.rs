//! Settings of an API for which a discovery document has no field.
//!
//! They are kept apart from the document, so that clients get a plain discovery document.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use http::StatusCode;
use serde::Deserialize;
use thiserror::Error;

use crate::method::Method;

/// The settings of one API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The status that ends a resumable upload begun by `POST`.
    pub created_status: CreatedStatus,
    /// Whose resources a principal sees.
    pub access: Access,
    /// Whether a multipart upload may have a third part: a JSON object of checksums of the media, as
    /// Cloud Storage takes it. Default: no, two parts only.
    pub checksum_part: bool,
    /// Whether writes must fit the schemas: required fields and bounds. Default: no, because published
    /// documents say less than their services accept. The short form sets it.
    pub enforce_schemas: bool,
    /// The digests that resources show beyond CRC32C, by collection (`animals`), or by the id of a
    /// method (`gmail.users.messages.send`), which wins.
    pub digests: BTreeMap<String, Vec<Digest>>,
}

/// The status that ends a resumable upload begun by `POST`.
///
/// The protocol promises 201, which is the default of the short form. Google's own services answer 200,
/// and the libraries of several of them accept nothing else: 200 is the default of a discovery document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "u16")]
pub enum CreatedStatus {
    /// 200.
    Ok,
    /// 201.
    #[default]
    Created,
}

/// Whose resources a principal sees and changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Its own. Those of other principals are answered as if they did not exist.
    Owner,
    /// All of them, as far as the server's authorization allows the method.
    #[default]
    Shared,
}

/// A digest of the media that an API computes on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Digest {
    /// Shown as `md5Hash`.
    Md5,
    /// Shown as `sha256Hash`.
    Sha256,
}

/// A word that is neither `owner` nor `shared`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{word}` is neither owner nor shared")]
pub struct NotAnAccess {
    /// The word.
    pub word: String,
}

/// A number that is neither 200 nor 201.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the status of a created resource is 200 or 201, not {status}")]
pub struct NotACreatedStatus {
    /// The number.
    pub status: u16,
}

impl Settings {
    /// The settings of a published API whose document is all that is known of it.
    pub fn of_document() -> Self {
        Self {
            created_status: CreatedStatus::Ok,
            ..Self::default()
        }
    }

    /// The digests beyond CRC32C that resources show of the media that this method takes.
    pub fn digests_of(&self, method: &Method) -> &[Digest] {
        let of_method = self.digests.get(&method.id);
        let found = of_method.or_else(|| self.digests.get(method.collection()));
        found.map_or(&[], Vec::as_slice)
    }
}

impl CreatedStatus {
    /// The status code.
    pub fn status_code(self) -> StatusCode {
        match self {
            Self::Ok => StatusCode::OK,
            Self::Created => StatusCode::CREATED,
        }
    }
}

impl TryFrom<u16> for CreatedStatus {
    type Error = NotACreatedStatus;

    fn try_from(status: u16) -> Result<Self, NotACreatedStatus> {
        match status {
            200 => Ok(Self::Ok),
            201 => Ok(Self::Created),
            _ => Err(NotACreatedStatus { status }),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Owner => "owner",
            Self::Shared => "shared",
        })
    }
}

impl FromStr for Access {
    type Err = NotAnAccess;

    fn from_str(word: &str) -> Result<Self, NotAnAccess> {
        match word {
            "owner" => Ok(Self::Owner),
            "shared" => Ok(Self::Shared),
            _ => Err(NotAnAccess {
                word: word.to_owned(),
            }),
        }
    }
}

impl Digest {
    /// The property of a resource that shows the digest.
    pub fn property(self) -> &'static str {
        match self {
            Self::Md5 => "md5Hash",
            Self::Sha256 => "sha256Hash",
        }
    }
}
