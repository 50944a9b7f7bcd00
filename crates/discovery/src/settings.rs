//! Settings of an API for which a discovery document has no field.
//!
//! They are kept apart from the document, so that clients get a plain discovery document.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use http::StatusCode;
use serde::Deserialize;
use thiserror::Error;

use crate::byte_size::ByteSize;
use crate::media_range::{MediaRange, MediaType};
use crate::method::Method;

/// The settings of one API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The status that ends a resumable upload begun by `POST`.
    pub created_status: CreatedStatus,
    /// Which principals see a resource.
    pub access: Access,
    /// Whether a multipart upload may have a third part: a JSON object of checksums of the media,
    /// as Cloud Storage takes it. Default: no, two parts only.
    pub checksum_part: bool,
    /// Whether calls must fit the description: required fields, bounds, and no parameters that are
    /// not described. Default: no, because published documents say less than their services accept.
    /// The short form sets it.
    pub strict: bool,
    /// The URLs of the services that answer methods, by the ids of these.
    pub backends: BTreeMap<String, String>,
    /// Further settings of collections, by name (`animals`, `animals.photos`).
    pub collections: BTreeMap<String, CollectionSettings>,
    /// The largest media by media range, for collections and methods with more than one limit; keys
    /// as for `digests`.
    pub size_limits: BTreeMap<String, Vec<(MediaRange, ByteSize)>>,
    /// The digests that resources show beyond CRC32C, by collection (`animals`), or by the id of a
    /// method (`gmail.users.messages.send`), which wins.
    pub digests: BTreeMap<String, Vec<Digest>>,
    /// The path of the API's resources in the ledger, if it is not the path at which they are
    /// served.
    pub ledger_path: Option<LedgerPath>,
}

/// A path at which resources are served, and their path in the ledger. An operator can then change
/// the first without losing the resources. Both are without slashes at their ends.
///
/// ```
/// use windlass_discovery::settings::LedgerPath;
///
/// let path = LedgerPath {
///     served: "uploads".to_owned(),
///     kept: "files".to_owned(),
/// };
/// assert_eq!(path.to_kept("uploads/7").as_deref(), Some("files/7"));
/// assert_eq!(path.to_served("files/7").as_deref(), Some("uploads/7"));
/// assert_eq!(path.to_kept("uploads-of-others/7"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerPath {
    /// The path in requests and in links.
    pub served: String,
    /// The path in the ledger.
    pub kept: String,
}

/// The settings of one collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectionSettings {
    /// Whether resources may have only the fields that a schema names, and unknown fields are
    /// refused. Otherwise the schema decides about unknown fields.
    pub closed: bool,
    /// What happens to the resources of a nested collection when their parent is deleted. `None`
    /// for a collection without a parent.
    pub on_parent_delete: Option<OnParentDelete>,
    /// Fields that hold ids of resources, each with the collection of these resources. Collections
    /// are named without dots here.
    pub references: BTreeMap<String, String>,
    /// The URL of a service that is notified of each upload that has become a resource.
    pub on_finished: Option<String>,
    /// The fields by which the list can be filtered.
    pub filters: Vec<IndexedField>,
    /// The orders that the list supports in addition to the order of the ids.
    pub orders: Vec<SortOrder>,
}

/// A field by which the server keeps resources in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedField {
    /// The name.
    pub name: String,
    /// How its values compare.
    pub kind: ValueKind,
}

/// An order of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortOrder {
    /// The field.
    pub field: IndexedField,
    /// Whether the greatest value comes first.
    pub descending: bool,
}

/// How values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Whole numbers, also in text, as 64-bit ones are written.
    Integer,
    /// Numbers.
    Number,
    /// False comes before true.
    Boolean,
    /// Text, by its bytes in UTF-8.
    Text,
    /// Times as RFC 3339 writes them.
    Time,
}

/// What happens to the child resources when a resource is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnParentDelete {
    /// The deletion is refused as long as there is content.
    #[default]
    Refuse,
    /// The content is deleted with it.
    Cascade,
}

/// The status that ends a resumable upload begun by `POST`.
///
/// The protocol promises 201, which is the default of the short form. Google's own services answer
/// 200, and the libraries of several of them accept nothing else: 200 is the default of a discovery
/// document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "u16")]
pub enum CreatedStatus {
    /// 200.
    Ok,
    /// 201.
    #[default]
    Created,
}

/// Which resources a principal sees and changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Only its own resources. Resources of other principals appear not to exist.
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
    /// The settings of a published API that is known only by its document.
    pub fn of_document() -> Self {
        Self {
            created_status: CreatedStatus::Ok,
            ..Self::default()
        }
    }

    /// The digests beyond CRC32C that resources show of the media that this method takes.
    pub fn digests_of(&self, method: &Method) -> &[Digest] {
        of_method(&self.digests, method)
    }

    /// The largest media of this `Content-Type` that the method takes; `None` without a limit.
    pub fn max_size(&self, method: &Method, content_type: &str) -> Option<ByteSize> {
        let of_all = method.upload.as_ref()?.max_size;
        let limits = of_method(&self.size_limits, method);
        let media_type: Option<MediaType> = content_type.parse().ok();
        let contains = |range: &MediaRange| match &media_type {
            Some(media_type) => range.accepts(media_type),
            None => *range == MediaRange::All,
        };
        let limits = limits.iter().filter(|(range, _)| contains(range));
        let narrowest = limits.max_by_key(|(range, _)| range.specificity());
        narrowest.map(|(_, limit)| *limit).or(of_all)
    }

    /// The settings of the method's collection, if it has any.
    pub fn collection_of(&self, method: &Method) -> Option<&CollectionSettings> {
        self.collections.get(method.collection())
    }

    /// The URLs of all services that the server calls for the API.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        let collections = self.collections.values();
        let notified = collections.filter_map(|it| it.on_finished.as_deref());
        self.backends.values().map(String::as_str).chain(notified)
    }

    /// The collections directly inside of the resources of a collection, by the last part of their
    /// names.
    pub fn content_of(&self, collection: &str) -> impl Iterator<Item = (&str, OnParentDelete)> {
        self.collections.iter().filter_map(move |(name, settings)| {
            let (outer, inner) = name.rsplit_once('.')?;
            Some((inner, settings.on_parent_delete?)).filter(|_| outer == collection)
        })
    }
}

impl LedgerPath {
    /// Returns the path in the ledger of a path in a request.
    pub fn to_kept(&self, path: &str) -> Option<String> {
        moved(path, &self.served, &self.kept)
    }

    /// Returns the path in links of a path in the ledger.
    pub fn to_served(&self, path: &str) -> Option<String> {
        moved(path, &self.kept, &self.served)
    }
}

/// Returns the path with another beginning; `None` if it is not at or below `from`.
fn moved(path: &str, from: &str, to: &str) -> Option<String> {
    let below = path.strip_prefix(from)?;
    (below.is_empty() || below.starts_with('/')).then(|| format!("{to}{below}"))
}

/// Returns the method's values, or the values of its collection if the method has none.
fn of_method<'a, T>(values: &'a BTreeMap<String, Vec<T>>, method: &Method) -> &'a [T] {
    let own = values.get(&method.id);
    let found = own.or_else(|| values.get(method.collection()));
    found.map_or(&[], Vec::as_slice)
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

/// As in `order_by` and in the parameter `orderBy`: `rating desc`.
impl fmt::Display for SortOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field.name)?;
        f.write_str(if self.descending { " desc" } else { "" })
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
