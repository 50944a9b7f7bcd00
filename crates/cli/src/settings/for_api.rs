//! Values that a setting has for single APIs, written `NAME=VALUE`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use windlass_discovery::settings::{Access, CreatedStatus};

/// A value for the APIs of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForApi<V> {
    /// Name of the APIs.
    pub(super) name: String,
    /// The value.
    pub(super) value: V,
}

/// A kind of value that APIs can have.
pub(crate) trait ApiValue: Sized {
    /// The expected text after the name, for errors: the allowed values and an example.
    const EXPECTED: &'static str;

    /// Parses a value.
    fn parse(text: &str) -> Option<Self>;

    /// Writes a value. The text parses to the same value.
    fn write(&self) -> String;
}

impl ApiValue for CreatedStatus {
    const EXPECTED: &'static str = "a status of 200 or 201, such as gmail=200";

    fn parse(text: &str) -> Option<Self> {
        Self::try_from(text.parse::<u16>().ok()?).ok()
    }

    fn write(&self) -> String {
        self.status_code().as_u16().to_string()
    }
}

impl ApiValue for Access {
    const EXPECTED: &'static str = "owner or shared, such as drive=shared";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

/// A text that states no such value.
#[derive(Debug, Error)]
#[error("`{text}` is not the name of an API with {expected}")]
pub(crate) struct NotForApi {
    text: String,
    expected: &'static str,
}

impl<V> ForApi<V> {
    /// Returns the value for the APIs of this name. The last of several entries counts.
    pub(super) fn find<'a>(all: &'a [Self], name: &str) -> Option<&'a V> {
        let found = all.iter().rev().find(|one| one.name == name);
        found.map(|found| &found.value)
    }
}

impl<V: ApiValue> FromStr for ForApi<V> {
    type Err = NotForApi;

    fn from_str(text: &str) -> Result<Self, NotForApi> {
        let parts = text.split_once('=');
        let parts = parts.and_then(|(name, value)| Some((name.trim(), V::parse(value.trim())?)));
        match parts {
            Some((name, value)) if !name.is_empty() => Ok(Self {
                name: name.to_owned(),
                value,
            }),
            _ => Err(NotForApi {
                text: text.to_owned(),
                expected: V::EXPECTED,
            }),
        }
    }
}

impl<V: ApiValue> fmt::Display for ForApi<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value.write())
    }
}
