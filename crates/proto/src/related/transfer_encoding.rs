//! `Content-Transfer-Encoding` of a body part (RFC 2045, 6).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::RelatedError;

/// Undoes a transfer encoding as the content comes.
#[derive(Debug)]
pub(super) enum Decoder {
    /// The content is what it is.
    Identity,
    /// Base64 with line ends and spaces anywhere.
    Base64(Base64),
}

/// What is left between two pieces of base64.
#[derive(Debug, Default)]
pub(super) struct Base64 {
    /// Symbols that do not make a group of four yet.
    symbols: Vec<u8>,
    padded: bool,
}

impl Decoder {
    /// The decoder for the value of a header, or for no header.
    pub(super) fn of(encoding: Option<&str>) -> Result<Self, RelatedError> {
        match encoding.map(str::to_ascii_lowercase).as_deref() {
            None | Some("binary" | "8bit" | "7bit") => Ok(Self::Identity),
            Some("base64") => Ok(Self::Base64(Base64::default())),
            Some(_) => Err(RelatedError::TransferEncoding),
        }
    }

    pub(super) fn decode(&mut self, content: Bytes) -> Result<Bytes, RelatedError> {
        match self {
            Self::Identity => Ok(content),
            Self::Base64(base64) => base64.decode(&content).map(Bytes::from),
        }
    }

    /// Ends the content.
    pub(super) fn finish(&self) -> Result<(), RelatedError> {
        match self {
            Self::Base64(base64) if !base64.symbols.is_empty() => Err(RelatedError::Base64),
            Self::Identity | Self::Base64(_) => Ok(()),
        }
    }
}

impl Base64 {
    fn decode(&mut self, content: &[u8]) -> Result<Vec<u8>, RelatedError> {
        self.symbols
            .extend(content.iter().filter(|byte| !byte.is_ascii_whitespace()));
        if self.padded && !self.symbols.is_empty() {
            return Err(RelatedError::Base64);
        }
        let groups = self.symbols.len() / 4 * 4;
        let bytes = STANDARD
            .decode(&self.symbols[..groups])
            .map_err(|_| RelatedError::Base64)?;
        self.padded = self.padded || self.symbols[..groups].ends_with(b"=");
        self.symbols.drain(..groups);
        // Nothing may follow the padding.
        if self.padded && !self.symbols.is_empty() {
            Err(RelatedError::Base64)
        } else {
            Ok(bytes)
        }
    }
}
