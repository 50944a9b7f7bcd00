//! The list of partial uploads from which an upload is concatenated.

use std::fmt;

use http::Uri;

/// Maximum number of partial uploads in a list, as of the objects that Cloud Storage composes.
pub const MAX_PARTIALS: usize = 32;

/// The URI of a partial upload, as a client has written it: absolute, or a path with or without a
/// query.
#[derive(Clone, PartialEq, Eq)]
pub struct PartialUri(Uri);

impl PartialUri {
    /// Reads a URI. `None` if it is malformed, or relative to another path than the root.
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let is_absolute = uri.scheme().is_some() && uri.authority().is_some();
        let is_path = uri.authority().is_none() && uri.path().starts_with('/');
        (is_absolute || is_path).then_some(Self(uri))
    }

    /// Returns the URI.
    pub fn uri(&self) -> &Uri {
        &self.0
    }
}

/// Hides the URI, which is a credential.
impl fmt::Debug for PartialUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartialUri(..)")
    }
}

/// Why a request that concatenates partial uploads is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConcatError {
    /// The list has no URI.
    #[error("The list of partial uploads is empty. Name at least one.")]
    Empty,
    /// The list is too long.
    #[error("The list has more than {MAX_PARTIALS} partial uploads. Use fewer and larger ones.")]
    TooMany,
    /// A URI cannot be read.
    #[error("URI {position} in the list of partial uploads is malformed.")]
    Uri {
        /// Position in the list, from 1 on.
        position: usize,
    },
    /// The request states a length.
    #[error(
        "An upload that is concatenated has the length of its partial uploads. State no length."
    )]
    Length,
    /// The request has data.
    #[error("An upload that is concatenated takes no data. Send the request without a body.")]
    Data,
}
