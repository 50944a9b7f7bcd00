//! The query string and the standard parameters of every API (docs/protocol.md, 2.2).

use std::fmt;

use percent_encoding::percent_decode;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// A session's `upload_id` as the client sent it. It is a credential, so `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct UploadId(String);

impl UploadId {
    /// Returns the decoded identifier.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for UploadId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UploadId(..)")
    }
}

/// The decoded parameters of a query string in their order. Unknown parameters are kept.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    pairs: Vec<(String, String)>,
}

/// The most parameters of a query. Each takes a hundred bytes of memory, of which two may be in the
/// query.
pub const MAX_PARAMETERS: usize = 1000;

/// Why a query is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The decoded name or value of a parameter is not UTF-8.
    #[error("Parameter {name} is not valid UTF-8.")]
    NotUtf8 {
        /// Name of the parameter, with replacement characters where it is not UTF-8.
        name: String,
    },
    /// There are more than [`MAX_PARAMETERS`].
    #[error("The query has more than {MAX_PARAMETERS} parameters.")]
    TooMany,
}

impl Parameters {
    /// Parses a query string. `+` is a space, and a parameter without `=` is empty.
    ///
    /// # Errors
    /// A name or a value is not UTF-8: replacement characters could make several names equal. Or
    /// there are too many.
    pub fn parse(query: Option<&str>) -> Result<Self, QueryError> {
        let pairs = || {
            let pairs = query.unwrap_or_default().split('&');
            pairs.filter(|pair| !pair.is_empty())
        };
        if pairs().count() > MAX_PARAMETERS {
            return Err(QueryError::TooMany);
        }
        Ok(Self {
            pairs: pairs().map(pair).collect::<Result<_, _>>()?,
        })
    }

    /// Returns the first value of a parameter.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    /// Iterates over all parameters in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the session that the request addresses, if any.
    pub fn upload_id(&self) -> Option<UploadId> {
        self.first("upload_id").map(UploadId::from)
    }
}

/// Hides the values that are credentials.
impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECRET: [&str; 5] = [
            "upload_id",
            "access_token",
            "oauth_token",
            "key",
            "X-Windlass-Link",
        ];
        f.debug_map()
            .entries(
                self.iter()
                    .map(|(name, value)| (name, if SECRET.contains(&name) { ".." } else { value })),
            )
            .finish()
    }
}

fn pair(text: &str) -> Result<(String, String), QueryError> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    match (decoded(name), decoded(value)) {
        (Some(name), Some(value)) => Ok((name, value)),
        _ => Err(QueryError::NotUtf8 {
            name: percent_decode(name.as_bytes())
                .decode_utf8_lossy()
                .into_owned(),
        }),
    }
}

fn decoded(text: &str) -> Option<String> {
    if !text.contains(['+', '%']) {
        return Some(text.to_owned());
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode(spaced.as_bytes()).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// The representation of a resource: the parameter `alt`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alt {
    /// The resource as JSON.
    #[default]
    Json,
    /// The media itself.
    Media,
}

/// The parameters that shape a reply. The parameters of the request that starts a session apply to
/// the session's final reply, so they are stored with the session (docs/protocol.md, 4.26).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StandardParameters {
    /// Representation of the reply.
    pub alt: Alt,
    /// Field mask of a partial response; `None` for the whole resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<String>,
    /// Whether JSON is indented. Default: true.
    pub pretty_print: bool,
}

impl Default for StandardParameters {
    fn default() -> Self {
        Self {
            alt: Alt::Json,
            fields: None,
            pretty_print: true,
        }
    }
}

/// An unknown value of `alt`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid value \"{value}\" for parameter alt.")]
pub struct InvalidAlt {
    /// The value received.
    pub value: String,
}

impl StandardParameters {
    /// Reads the standard parameters from a query string.
    pub fn from_parameters(parameters: &Parameters) -> Result<Self, InvalidAlt> {
        Ok(Self {
            alt: alt(parameters.first("alt"))?,
            fields: parameters
                .first("fields")
                .filter(|mask| !mask.is_empty())
                .map(str::to_owned),
            pretty_print: !matches!(parameters.first("prettyPrint"), Some("false" | "0")),
        })
    }
}

fn alt(value: Option<&str>) -> Result<Alt, InvalidAlt> {
    match value {
        None | Some("" | "json") => Ok(Alt::Json),
        Some("media") => Ok(Alt::Media),
        Some(other) => Err(InvalidAlt {
            value: other.to_owned(),
        }),
    }
}
