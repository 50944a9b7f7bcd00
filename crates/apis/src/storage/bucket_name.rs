//! Names of buckets.

use std::net::Ipv4Addr;

use windlass_server::handler::Rejection;

/// The name of a bucket: as the service has it, so that scripts which work here work there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BucketName(String);

impl BucketName {
    /// Reads the name of a bucket to be made.
    pub(super) fn parse(text: &str) -> Result<Self, Rejection> {
        match fault(text) {
            None => Ok(Self(text.to_owned())),
            Some(problem) => Err(Rejection::invalid_field("name", problem)),
        }
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

fn fault(text: &str) -> Option<&'static str> {
    let longest = if text.contains('.') { 222 } else { 63 };
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    let at_an_end = |byte: &u8| byte.is_ascii_alphanumeric();
    let ends = [text.as_bytes().first(), text.as_bytes().last()];
    if !(3..=longest).contains(&text.len()) {
        Some("the name of a bucket has 3 to 63 characters, with dots up to 222")
    } else if !text.bytes().all(allowed) {
        Some("the name of a bucket is made of lower-case letters, digits, -, _ and .")
    } else if !ends.into_iter().flatten().all(at_an_end) {
        Some("the name of a bucket begins and ends with a letter or a digit")
    } else if text
        .split('.')
        .any(|part| part.is_empty() || part.len() > 63)
    {
        Some("between dots, the name of a bucket has 1 to 63 characters")
    } else if text.parse::<Ipv4Addr>().is_ok() {
        Some("the name of a bucket does not look like an IP address")
    } else if text.starts_with("goog") || text.contains("google") {
        Some("the name of a bucket does not begin with goog or contain google")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_the_rules_of_the_service() {
        let longest = "a".repeat(63);
        let dotted = [longest.as_str(), &longest, &longest].join(".");
        for name in [
            "barn",
            "a-1",
            "a_b",
            "1ab",
            "www.farm.test",
            &longest,
            &dotted,
        ] {
            assert!(BucketName::parse(name).is_ok(), "{name}");
        }
        let too_long = "a".repeat(64);
        let part_too_long = format!("a.{too_long}");
        for name in [
            "",
            "ab",
            "Barn",
            "bärn",
            "a b",
            "a/b",
            "-ab",
            "ab-",
            "ab.",
            "a..b",
            "192.168.0.1",
            "googly",
            "my-google-bucket",
            &too_long,
            &part_too_long,
        ] {
            assert!(BucketName::parse(name).is_err(), "{name}");
        }
    }
}
