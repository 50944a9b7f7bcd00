//! Values of flags that need a parser.

use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;
use url::Url;
use windlass_client::{InvalidSessionUri, SessionUri};
use windlass_discovery::ByteSize;
use windlass_discovery::byte_size::ByteSizeError;

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) NonZeroU64);

/// The target of a command: an upload in the journal, or a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// An id, or its beginning.
    Id(String),
    /// A session URI.
    Session(SessionUri),
}

/// Error for a text that is not a rate.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum NotARate {
    #[error("{0}; a rate is written 256K or 10MB/s")]
    Size(ByteSizeError),
    #[error("a rate must be more than 0 bytes per second")]
    Zero,
}

/// Error for a text that is not a URL of a web server.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum NotAUrl {
    #[error("not a URL; a URL begins with http:// or https://")]
    Syntax,
    #[error("the scheme `{scheme}` is not supported; a URL begins with http:// or https://")]
    Scheme { scheme: String },
}

impl FromStr for Rate {
    type Err = NotARate;

    fn from_str(text: &str) -> Result<Self, NotARate> {
        let size = text.trim().trim_end_matches("/s");
        let bytes = parse_size(size).map_err(NotARate::Size)?;
        NonZeroU64::new(bytes).map(Self).ok_or(NotARate::Zero)
    }
}

impl FromStr for Target {
    type Err = InvalidSessionUri;

    fn from_str(text: &str) -> Result<Self, InvalidSessionUri> {
        if text.contains(':') {
            text.parse().map(Self::Session)
        } else {
            Ok(Self::Id(text.to_owned()))
        }
    }
}

/// Parses a size; `K` means `KB`.
fn parse_size(text: &str) -> Result<u64, ByteSizeError> {
    let is_short = text.ends_with(|last: char| "KMGTkmgt".contains(last));
    let text = if is_short {
        format!("{text}B")
    } else {
        text.to_owned()
    };
    text.parse().map(ByteSize::bytes)
}

/// Parses the URL of a web server.
pub(super) fn parse_url(text: &str) -> Result<Url, NotAUrl> {
    let url = Url::parse(text).map_err(|_| NotAUrl::Syntax)?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        scheme => Err(NotAUrl::Scheme {
            scheme: scheme.to_owned(),
        }),
    }
}

/// Parses a duration such as `90s` or `5m`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, humantime::DurationError> {
    humantime::parse_duration(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_sizes_with_or_without_a_second() {
        let cases = [
            ("1", 1),
            ("256K", 256 << 10),
            ("256k/s", 256 << 10),
            ("10MB/s", 10 << 20),
            ("10 MiB/s", 10 << 20),
            (" 1G ", 1 << 30),
            ("2TB", 2 << 40),
        ];
        for (text, bytes) in cases {
            assert_eq!(
                text.parse::<Rate>().map(|rate| rate.0.get()),
                Ok(bytes),
                "{text}"
            );
        }
        for text in [
            "",
            "fast",
            "0",
            "0MB/s",
            "5 cows",
            "-1",
            "1.5M",
            "99999999999T",
        ] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_url_is_one_of_a_web_server() {
        assert!(parse_url("http://127.0.0.1:8080/upload/farm/v1/animals").is_ok());
        assert_eq!(parse_url("cow.jpg"), Err(NotAUrl::Syntax));
        let scheme = "ftp".to_owned();
        assert_eq!(parse_url("ftp://x/y"), Err(NotAUrl::Scheme { scheme }));
        assert!(parse_url("localhost:8080/upload").is_err());
    }

    #[test]
    fn status_argument_with_colon_is_a_session_uri() {
        assert_eq!("mzxw".parse(), Ok(Target::Id("mzxw".to_owned())));
        let session = "https://up.example.com/u?upload_id=x".parse::<Target>();
        assert!(matches!(session, Ok(Target::Session(_))));
        assert!("ftp://x".parse::<Target>().is_err());
    }
}
