//! Bodies of type multipart/related: metadata, then media (docs/protocol.md, 2.6; RFC 2387, RFC
//! 2046).
//!
//! The caller pushes pieces of a body into a [`Splitter`] as they arrive and gets back pieces of
//! media. The splitter never buffers more than the metadata, the headers of one body part and a
//! possible delimiter.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes};

mod delimiter;
#[cfg(test)]
mod tests;

pub use delimiter::Boundary;
pub(crate) use delimiter::{Delimiters, Token};

/// Size limits of everything but the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelatedLimits {
    /// Bytes of the metadata. Default: 1 MiB.
    pub metadata: usize,
    /// Bytes of the checksums after the media. Default: 4 KiB.
    pub checksums: usize,
    /// Bytes of the headers of one body part. Default: 16 KiB.
    pub part_headers: usize,
    /// Bytes before the first delimiter. Default: 64 KiB.
    pub preamble: usize,
}

impl RelatedLimits {
    /// Sets [`metadata`](Self::metadata).
    #[must_use]
    pub fn with_metadata(self, metadata: usize) -> Self {
        Self { metadata, ..self }
    }

    /// Sets [`part_headers`](Self::part_headers).
    #[must_use]
    pub fn with_part_headers(self, part_headers: usize) -> Self {
        Self {
            part_headers,
            ..self
        }
    }

    /// Sets [`preamble`](Self::preamble).
    #[must_use]
    pub fn with_preamble(self, preamble: usize) -> Self {
        Self { preamble, ..self }
    }
}

impl Default for RelatedLimits {
    fn default() -> Self {
        Self {
            metadata: 1024 * 1024,
            checksums: 4 * 1024,
            part_headers: 16 * 1024,
            preamble: 64 * 1024,
        }
    }
}

/// How a body part after the media is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThirdPart {
    /// A third part is an error.
    Refused,
    /// A third part is JSON with the media's checksums, as Google's Rust client for Cloud Storage
    /// sends it.
    Checksums,
}

/// A piece of the body. Pieces come in this order: metadata, start of the media, media, end of the
/// media.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// The whole metadata.
    Metadata(Vec<u8>),
    /// The media begins.
    MediaStart {
        /// Type of the media, if the body part states one.
        content_type: Option<String>,
    },
    /// The next bytes of the media, at least one. A slice of the pushed bytes wherever possible.
    Media(Bytes),
    /// The media is complete.
    MediaEnd,
}

/// Why a body is not a valid multipart upload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelatedError {
    /// The `Content-Type` is neither multipart/related nor multipart/form-data.
    #[error("A multipart upload must have a Content-Type header of multipart/related.")]
    NotRelated,
    /// The `Content-Type` has no usable boundary.
    #[error("The Content-Type header has no valid boundary parameter.")]
    NoBoundary,
    /// The preamble before the first delimiter is too long.
    #[error("The multipart body has more than {limit} bytes before its first boundary.")]
    PreambleTooLarge {
        /// Maximum number of bytes.
        limit: usize,
    },
    /// The headers of a body part are too long.
    #[error("A part of the multipart body has more than {limit} bytes of headers.")]
    PartHeadersTooLarge {
        /// Maximum number of bytes.
        limit: usize,
    },
    /// A header line of a body part is malformed.
    #[error("A part of the multipart body has a malformed header.")]
    PartHeader,
    /// Metadata or checksums are too large.
    #[error("A part of the multipart body with JSON is larger than {limit} bytes.")]
    MetadataTooLarge {
        /// Maximum number of bytes.
        limit: usize,
    },
    /// The `Content-Transfer-Encoding` is not supported.
    #[error("A part of the multipart body has an unsupported Content-Transfer-Encoding.")]
    TransferEncoding,
    /// A body part is declared as base64 but is not valid base64.
    #[error("A part of the multipart body is not valid base64.")]
    Base64,
    /// The body has fewer than two parts.
    #[error("The multipart body must have two parts, metadata and media; it has {found}.")]
    TooFewParts {
        /// Number of parts.
        found: u8,
    },
    /// A part follows the media.
    #[error("The multipart body must have two parts, metadata and media; it has more.")]
    TooManyParts,
    /// The body ends without its final delimiter.
    #[error("The multipart body ends without its final boundary.")]
    NoFinalBoundary,
}

/// Splits a body into metadata and media incrementally.
///
/// ```
/// use bytes::Bytes;
/// use windlass_proto::related::{Boundary, Piece, RelatedLimits, Splitter, ThirdPart};
///
/// let boundary = Boundary::from_content_type(b"multipart/related; boundary=b").unwrap();
/// let mut splitter = Splitter::new(boundary, RelatedLimits::default(), ThirdPart::Refused);
/// let mut pieces = Vec::new();
/// let body = "--b\r\n\r\n{}\r\n--b\r\nContent-Type: image/png\r\n\r\nmedia\r\n--b--";
/// splitter.push(Bytes::from(body), &mut pieces).unwrap();
/// splitter.finish().unwrap();
/// assert_eq!(pieces[2], Piece::Media(Bytes::from("media")));
/// ```
#[derive(Debug)]
pub struct Splitter {
    delimiters: Delimiters,
    limits: RelatedLimits,
    third_part: ThirdPart,
    state: State,
    checksums: Option<Vec<u8>>,
}

#[derive(Debug)]
enum State {
    Preamble {
        len: usize,
    },
    Headers(Role, HeaderBlock),
    Body(BodyPart),
    Epilogue,
    /// An error occurred between two parts.
    Lost,
}

/// Role of a body part. Parts come in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Metadata,
    Media,
    Checksums,
}

/// A body part with parsed headers.
#[derive(Debug)]
struct BodyPart {
    role: Role,
    decoder: Decoder,
    /// Metadata or checksums so far. Media passes through unbuffered.
    gathered: Vec<u8>,
}

impl Splitter {
    /// Starts with an empty body.
    pub fn new(boundary: Boundary, limits: RelatedLimits, third_part: ThirdPart) -> Self {
        let delimiters = Delimiters::new(boundary);
        Self {
            delimiters,
            limits,
            third_part,
            state: State::Preamble { len: 0 },
            checksums: None,
        }
    }

    /// Adds the next bytes of the body and appends the pieces found in them to `pieces`.
    ///
    /// # Errors
    ///
    /// After an error the body cannot be continued. The pieces found before the error are in
    /// `pieces`.
    pub fn push(&mut self, mut data: Bytes, pieces: &mut Vec<Piece>) -> Result<(), RelatedError> {
        while !matches!(self.state, State::Epilogue | State::Lost) {
            match self.delimiters.next(&mut data) {
                Some(Token::Content(content)) => self.content(content, pieces)?,
                Some(Token::Delimiter) => self.delimiter(pieces)?,
                Some(Token::FinalDelimiter) => self.final_delimiter(pieces)?,
                None => break,
            }
        }
        Ok(())
    }

    /// Ends the body. Returns the checksums, if the body had some.
    pub fn finish(self) -> Result<Option<Vec<u8>>, RelatedError> {
        match self.state {
            State::Epilogue => Ok(self.checksums),
            _ => Err(RelatedError::NoFinalBoundary),
        }
    }

    fn content(&mut self, mut content: Bytes, pieces: &mut Vec<Piece>) -> Result<(), RelatedError> {
        match &mut self.state {
            State::Preamble { len } => {
                *len += content.len();
                let limit = self.limits.preamble;
                return if *len > limit {
                    Err(RelatedError::PreambleTooLarge { limit })
                } else {
                    Ok(())
                };
            }
            State::Headers(role, block) => {
                if block.push(&mut content, self.limits.part_headers)? {
                    let part = BodyPart::begin(*role, block.parse()?, pieces);
                    self.state = State::Body(part);
                }
            }
            State::Body(_) | State::Epilogue | State::Lost => {}
        }
        match &mut self.state {
            State::Body(part) => part.take(content, self.limits, pieces),
            _ => Ok(()),
        }
    }

    fn delimiter(&mut self, pieces: &mut Vec<Piece>) -> Result<(), RelatedError> {
        let role = match self.end_part(pieces)? {
            None => Role::Metadata,
            Some(Role::Metadata) => Role::Media,
            Some(Role::Media) if self.third_part == ThirdPart::Checksums => Role::Checksums,
            Some(Role::Media | Role::Checksums) => return Err(RelatedError::TooManyParts),
        };
        self.state = State::Headers(role, HeaderBlock::default());
        Ok(())
    }

    fn final_delimiter(&mut self, pieces: &mut Vec<Piece>) -> Result<(), RelatedError> {
        match self.end_part(pieces)? {
            None => Err(RelatedError::TooFewParts { found: 0 }),
            Some(Role::Metadata) => Err(RelatedError::TooFewParts { found: 1 }),
            Some(Role::Media | Role::Checksums) => {
                self.state = State::Epilogue;
                Ok(())
            }
        }
    }

    /// Ends the current part and returns its role; `None` if no part was open. The caller sets the
    /// next state.
    fn end_part(&mut self, pieces: &mut Vec<Piece>) -> Result<Option<Role>, RelatedError> {
        let part = match std::mem::replace(&mut self.state, State::Lost) {
            // The empty line after the headers is missing: the part has no content.
            State::Headers(role, block) => BodyPart::begin(role, block.parse()?, pieces),
            State::Body(part) => part,
            State::Preamble { .. } | State::Epilogue | State::Lost => return Ok(None),
        };
        let role = part.role;
        self.checksums = part.end(pieces)?;
        Ok(Some(role))
    }
}

impl BodyPart {
    fn begin(role: Role, headers: PartHeaders, pieces: &mut Vec<Piece>) -> Self {
        if role == Role::Media {
            pieces.push(Piece::MediaStart {
                content_type: headers.content_type,
            });
        }
        Self {
            role,
            decoder: headers.decoder,
            gathered: Vec::new(),
        }
    }

    fn take(
        &mut self,
        content: Bytes,
        limits: RelatedLimits,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), RelatedError> {
        let limit = match self.role {
            Role::Checksums => limits.checksums,
            Role::Metadata | Role::Media => limits.metadata,
        };
        let content = self.decoder.decode(content)?;
        match self.role {
            Role::Media if content.is_empty() => {}
            Role::Media => pieces.push(Piece::Media(content)),
            Role::Metadata | Role::Checksums if content.len() > limit - self.gathered.len() => {
                return Err(RelatedError::MetadataTooLarge { limit });
            }
            Role::Metadata | Role::Checksums => self.gathered.extend_from_slice(&content),
        }
        Ok(())
    }

    /// Returns the buffered content: metadata as a piece, checksums as the result.
    fn end(self, pieces: &mut Vec<Piece>) -> Result<Option<Vec<u8>>, RelatedError> {
        self.decoder.finish()?;
        match self.role {
            Role::Metadata => pieces.push(Piece::Metadata(self.gathered)),
            Role::Media => pieces.push(Piece::MediaEnd),
            Role::Checksums => return Ok(Some(self.gathered)),
        }
        Ok(None)
    }
}

/// The headers of a body part so far, from the line end of the delimiter to the empty line.
#[derive(Debug, Default)]
struct HeaderBlock(Vec<u8>);

/// The parsed headers.
#[derive(Debug)]
struct PartHeaders {
    content_type: Option<String>,
    decoder: Decoder,
}

impl HeaderBlock {
    /// Takes lines from the front of `content`. Returns true when the empty line was reached.
    fn push(&mut self, content: &mut Bytes, limit: usize) -> Result<bool, RelatedError> {
        while !content.is_empty() {
            let line = memchr::memchr(b'\n', content).map_or(content.len(), |at| at + 1);
            if line > limit.saturating_sub(self.0.len()) {
                return Err(RelatedError::PartHeadersTooLarge { limit });
            }
            self.0.extend_from_slice(&content[..line]);
            content.advance(line);
            if self.0.ends_with(b"\n\n") || self.0.ends_with(b"\n\r\n") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Parses the headers.
    fn parse(&self) -> Result<PartHeaders, RelatedError> {
        let text = String::from_utf8_lossy(&self.0);
        let fields = fields(&text)?;
        let value = |name: &str| {
            let field = fields
                .iter()
                .find(|(field, _)| field.eq_ignore_ascii_case(name));
            field
                .map(|(_, value)| value.trim_ascii())
                .filter(|value| !value.is_empty())
        };
        Ok(PartHeaders {
            content_type: value("content-type").map(str::to_owned),
            decoder: Decoder::of(value("content-transfer-encoding"))?,
        })
    }
}

/// Splits headers into names and values. A line that begins with white space continues the previous
/// one.
pub(crate) fn fields(text: &str) -> Result<Vec<(&str, String)>, RelatedError> {
    let mut fields: Vec<(&str, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match (line.split_once(':'), fields.last_mut()) {
            (_, Some((_, value))) if line.starts_with([' ', '\t']) => value.push_str(line),
            (Some((name, value)), _) => fields.push((name.trim_ascii(), value.to_owned())),
            (None, _) => return Err(RelatedError::PartHeader),
        }
    }
    Ok(fields)
}

/// Decodes a `Content-Transfer-Encoding` (RFC 2045, 6) incrementally.
#[derive(Debug)]
enum Decoder {
    /// No encoding.
    Identity,
    /// Base64 with line ends and spaces anywhere.
    Base64(Base64),
}

/// State between two pieces of base64.
#[derive(Debug, Default)]
struct Base64 {
    /// Symbols that do not form a group of four yet.
    symbols: Vec<u8>,
    padded: bool,
}

impl Decoder {
    /// Returns the decoder for a header's value; `None` stands for a missing header.
    fn of(encoding: Option<&str>) -> Result<Self, RelatedError> {
        match encoding.map(str::to_ascii_lowercase).as_deref() {
            None | Some("binary" | "8bit" | "7bit") => Ok(Self::Identity),
            Some("base64") => Ok(Self::Base64(Base64::default())),
            Some(_) => Err(RelatedError::TransferEncoding),
        }
    }

    fn decode(&mut self, content: Bytes) -> Result<Bytes, RelatedError> {
        match self {
            Self::Identity => Ok(content),
            Self::Base64(base64) => base64.decode(&content).map(Bytes::from),
        }
    }

    /// Ends the content.
    fn finish(&self) -> Result<(), RelatedError> {
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
