//! Names of objects.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use windlass_server::handler::Rejection;

/// Everything but the unreserved characters (RFC 3986, section 2.3): a slash in a name travels as
/// `%2F`.
const ALL_BUT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The most bytes of a name.
const LONGEST: usize = 1024;

/// The name of an object: 1 to 1024 bytes of UTF-8 without line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObjectName(String);

impl ObjectName {
    /// Reads the name that `parameter` gives.
    pub(super) fn parse(parameter: &str, text: &str) -> Result<Self, Rejection> {
        match fault(text) {
            None => Ok(Self(text.to_owned())),
            Some(problem) => Err(Rejection::InvalidParameter {
                parameter: parameter.to_owned(),
                problem: problem.to_owned(),
            }),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name as one segment of a path.
pub(super) fn in_path(name: &str) -> impl fmt::Display {
    utf8_percent_encode(name, ALL_BUT_UNRESERVED)
}

fn fault(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("an object needs a name")
    } else if text.len() > LONGEST {
        Some("the name of an object has at most 1024 bytes")
    } else if text.contains(['\r', '\n']) {
        Some("the name of an object has no line ends")
    } else if matches!(text, "." | "..") {
        Some("an object cannot be called . or ..")
    } else if text.starts_with(".well-known/acme-challenge/") {
        Some("the name of an object does not begin with .well-known/acme-challenge/")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_1_to_1024_bytes_without_line_ends() {
        let longest = "é".repeat(512);
        for name in ["a", "a/b//c", "/", "ünï ☃?#%", "...", longest.as_str()] {
            assert_eq!(ObjectName::parse("name", name).unwrap().as_str(), name);
        }
        let too_long = format!("{longest}a");
        for name in [
            "",
            ".",
            "..",
            "a\nb",
            "a\rb",
            ".well-known/acme-challenge/x",
            too_long.as_str(),
        ] {
            assert!(ObjectName::parse("name", name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn in_a_path_a_name_is_one_segment() {
        assert_eq!(in_path("a/b c?%").to_string(), "a%2Fb%20c%3F%25");
    }
}
