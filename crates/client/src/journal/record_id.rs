//! Short names of unfinished uploads.

use std::fmt;
use std::str::FromStr;

use super::JournalError;

/// What an unfinished upload is called in its journal: eight characters, `a` to `z` and `2` to `7`.
///
/// It is no secret: it opens nothing without the journal.
///
/// ```
/// use windlass_client::UploadRef;
///
/// let id: UploadRef = "mzxw6ytb".parse().unwrap();
/// assert_eq!(id.to_string(), "mzxw6ytb");
/// assert!("../etc/x".parse::<UploadRef>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId([Digit; 8]);

/// One of 32: five bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Digit(u8);

/// A text that names no upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an upload is named by eight characters of a to z and 2 to 7")]
pub struct InvalidRecordId;

/// RFC 4648, section 6, in lower case.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

impl RecordId {
    pub(super) fn random() -> Result<Self, JournalError> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(JournalError::Random)?;
        Ok(Self(bytes.map(|byte| Digit(byte % 32))))
    }
}

impl FromStr for RecordId {
    type Err = InvalidRecordId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text: [u8; 8] = text.as_bytes().try_into().map_err(|_| InvalidRecordId)?;
        let mut digits = [Digit(0); 8];
        for (digit, character) in digits.iter_mut().zip(text) {
            *digit = Digit::parse(character).ok_or(InvalidRecordId)?;
        }
        Ok(Self(digits))
    }
}

impl Digit {
    fn parse(character: u8) -> Option<Self> {
        let value = DIGITS.iter().position(|digit| *digit == character)?;
        u8::try_from(value).ok().map(Self)
    }

    fn character(self) -> char {
        char::from(DIGITS[usize::from(self.0)])
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self.0.iter().map(|digit| digit.character()).collect();
        f.pad(&text)
    }
}

impl fmt::Debug for Digit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.character(), f)
    }
}
