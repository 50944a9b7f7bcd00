//! Tokens and API keys that are known by their hashes.
//!
//! The configuration has SHA-256 hashes, so that reading it does not let anybody in. A fast hash
//! suffices: the secrets are random and long, not chosen by people.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use async_trait::async_trait;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use windlass_server::{AccessError, Principal};

use crate::scheme::TokenScheme;

/// The SHA-256 hash of a secret, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct SecretHash([u8; 32]);

/// A text that is not a hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a hash has 64 hexadecimal digits, as `printf %s SECRET | sha256sum` prints them; \
     write the hash, not the secret"
)]
pub struct UnreadableHash;

impl SecretHash {
    /// Returns the hash of a secret.
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret).into())
    }
}

impl FromStr for SecretHash {
    type Err = UnreadableHash;

    fn from_str(text: &str) -> Result<Self, UnreadableHash> {
        let bytes = hexadecimal(text).ok_or(UnreadableHash)?;
        bytes.try_into().map(Self).map_err(|_| UnreadableHash)
    }
}

/// Reads hexadecimal digits; `None` if there are others.
pub(crate) fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let is_hexadecimal = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hexadecimal || !text.len().is_multiple_of(2) {
        return None;
    }
    let digits = text.as_bytes().chunks(2);
    let bytes = digits.map(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
    bytes.collect()
}

impl TryFrom<String> for SecretHash {
    type Error = UnreadableHash;

    fn try_from(text: String) -> Result<Self, UnreadableHash> {
        text.parse()
    }
}

/// Hides the hash: short secrets could be found from it.
impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash")
    }
}

/// The principals of tokens, or of API keys, by their hashes.
///
/// As a [`TokenScheme`] it leaves unknown tokens to the next scheme.
#[derive(Debug, Clone, Default)]
pub struct SecretTable {
    /// The secrets by the first bytes of their hash. The duration of a search depends on the hash
    /// of the sent secret, which reveals nothing about the secrets in the table.
    entries: HashMap<u64, Vec<(SecretHash, Principal)>>,
}

impl SecretTable {
    /// Adds a secret. A second principal of the same secret is ignored.
    pub fn insert(&mut self, hash: SecretHash, principal: Principal) {
        self.entries
            .entry(beginning(&hash))
            .or_default()
            .push((hash, principal));
    }

    /// Whether the table has no secrets.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the principal of a secret. Hashes are compared in constant time.
    pub fn find(&self, secret: &str) -> Option<&Principal> {
        let hash = SecretHash::of(secret);
        let candidates = self.entries.get(&beginning(&hash))?;
        candidates
            .iter()
            .find(|(known, _)| known.0.ct_eq(&hash.0).into())
            .map(|(_, principal)| principal)
    }
}

fn beginning(hash: &SecretHash) -> u64 {
    let (beginning, _) = hash.0.split_first_chunk().expect("it has 32 bytes");
    u64::from_le_bytes(*beginning)
}

#[async_trait]
impl TokenScheme for SecretTable {
    async fn principal(
        &self,
        token: &str,
        _: Option<IpAddr>,
    ) -> Result<Option<Principal>, AccessError> {
        Ok(self.find(token).cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_found_by_its_hash_alone() {
        let mut table = SecretTable::default();
        assert!(table.is_empty());
        table.insert(SecretHash::of("s3cret"), Principal::new("alice"));
        table.insert(SecretHash::of("other"), Principal::new("bob"));
        assert_eq!(table.find("s3cret").map(Principal::id), Some("alice"));
        assert_eq!(table.find("other").map(Principal::id), Some("bob"));
        for wrong in ["", "S3cret", "s3cret "] {
            assert_eq!(table.find(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn hash_has_64_hexadecimal_digits() {
        // Of `abc`: FIPS 180-2, appendix B.1.
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(text.parse(), Ok(SecretHash::of("abc")));
        assert_eq!(text.to_uppercase().parse(), Ok(SecretHash::of("abc")));
        let signed = format!("+{}", &text[1..]);
        for wrong in ["", "abc", &text[1..], &format!("{text}0"), &signed] {
            assert_eq!(wrong.parse::<SecretHash>(), Err(UnreadableHash), "{wrong}");
        }
    }

    #[test]
    fn debug_form_shows_no_hash() {
        let mut table = SecretTable::default();
        table.insert(SecretHash::of("abc"), Principal::new("alice"));
        let hash = SecretHash::of("abc").0[0].to_string();
        assert!(!format!("{:?}", SecretHash::of("abc")).contains(&hash));
    }
}
