//! The terms of a signed link, which are a part of the link's principal.

use serde::{Deserialize, Serialize};
use windlass_discovery::MediaRange;
use windlass_discovery::media_range::accepts;

/// The terms of a signed link. What authenticates a request attaches them
/// to the principal of a request with [`Principal::with_link`](crate::Principal::with_link).
///
/// The server enforces the terms: the request uploads or downloads media, and does nothing else.
/// The terms of an upload are stored with its session, so that they apply to later requests of the
/// session.
///
/// ```
/// use windlass_rest::{LinkPurpose, LinkTerms, Principal};
///
/// let terms = LinkTerms::new(LinkPurpose::Upload).with_max_size(10 << 20);
/// let principal = Principal::new("link:7").with_link(terms);
/// ```
// The terms of an upload are stored in the start request, so the names of the fields are a format
// on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTerms {
    purpose: LinkPurpose,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<MediaRange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    single_use: Option<SingleUse>,
    /// Names of the parameters of the query that the signature covers. They decide when an upload
    /// starts, so they are not stored.
    #[serde(skip)]
    signed_parameters: Vec<String>,
}

/// The purpose of a request with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkPurpose {
    /// It uploads media.
    Upload,
    /// It downloads media.
    Download,
}

/// A link that may be used once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SingleUse {
    /// Id of the link.
    pub id: String,
    /// Time of its expiry, in seconds since the Unix epoch.
    pub expires: u64,
}

impl LinkTerms {
    /// Returns the terms of a link for any media and any number of uses.
    pub fn new(purpose: LinkPurpose) -> Self {
        Self {
            purpose,
            max_size: None,
            media_type: None,
            single_use: None,
            signed_parameters: Vec::new(),
        }
    }

    /// Bounds the size of an upload's media, in bytes.
    #[must_use]
    pub fn with_max_size(self, max_size: u64) -> Self {
        Self {
            max_size: Some(max_size),
            ..self
        }
    }

    /// Limits an upload to media of these types.
    #[must_use]
    pub fn with_media_type(self, media_type: MediaRange) -> Self {
        Self {
            media_type: Some(media_type),
            ..self
        }
    }

    /// Allows the link to be used once: one upload is finished, or one download begins. `id` is the
    /// link's, and `expires` the time of its expiry in seconds since the Unix epoch. The server
    /// remembers the use until no upload that was begun before the use can still be running.
    #[must_use]
    pub fn once(self, id: impl Into<String>, expires: u64) -> Self {
        let id = id.into();
        Self {
            single_use: Some(SingleUse { id, expires }),
            ..self
        }
    }

    /// Names the query parameters that the link fixes. The link's holder may send further
    /// parameters, except for parameters that give other people access to the uploaded media.
    #[must_use]
    pub fn with_signed_parameters(self, names: impl IntoIterator<Item = String>) -> Self {
        Self {
            signed_parameters: names.into_iter().collect(),
            ..self
        }
    }

    /// Whether the link fixes a parameter of the query.
    pub fn signs(&self, parameter: &str) -> bool {
        self.signed_parameters.iter().any(|name| name == parameter)
    }

    /// Returns the purpose of the request.
    pub fn purpose(&self) -> LinkPurpose {
        self.purpose
    }

    /// Returns the maximum length in bytes of the media, if the link limits it.
    pub fn max_size(&self) -> Option<u64> {
        self.max_size
    }

    /// Returns the types of the media, if the link limits them.
    pub fn media_type(&self) -> Option<&MediaRange> {
        self.media_type.as_ref()
    }

    /// Returns the id and the expiry of a link that may be used once.
    pub fn single_use(&self) -> Option<&SingleUse> {
        self.single_use.as_ref()
    }

    /// Whether media of this type may be uploaded.
    pub fn accepts(&self, content_type: &str) -> bool {
        let range = self.media_type.as_ref();
        range.is_none_or(|range| accepts(std::slice::from_ref(range), content_type))
    }
}
