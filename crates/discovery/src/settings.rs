//! What the short form says about an API and a discovery document has no field for.
//!
//! These settings travel beside the document, so that what clients are served stays a plain
//! discovery document.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Deserialize;
use thiserror::Error;

/// The settings of one API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The status that ends a resumable upload begun by `POST`.
    pub created_status: CreatedStatus,
    /// By collection, the digests that its resources show beyond CRC32C.
    pub digests: BTreeMap<String, Vec<Digest>>,
}

/// The status that ends a resumable upload begun by `POST`.
///
/// The protocol promises 201, which is the default. Google's own services answer 200, and the Cloud
/// Storage libraries accept nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "u16")]
pub enum CreatedStatus {
    /// 200.
    Ok,
    /// 201.
    #[default]
    Created,
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

/// A number that is neither 200 nor 201.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the status of a created resource is 200 or 201, not {status}")]
pub struct NotACreatedStatus {
    /// The number.
    pub status: u16,
}

impl Settings {
    /// The digests that resources of this collection show beyond CRC32C.
    pub fn digests_of(&self, collection: &str) -> &[Digest] {
        self.digests.get(collection).map_or(&[], Vec::as_slice)
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

impl Digest {
    /// The property of a resource that shows the digest.
    pub fn property(self) -> &'static str {
        match self {
            Self::Md5 => "md5Hash",
            Self::Sha256 => "sha256Hash",
        }
    }
}
