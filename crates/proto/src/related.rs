//! Bodies of type multipart/related: metadata, then media (docs/protocol.md, 2.6; RFC 2387, RFC
//! 2046).
//!
//! The [`Splitter`] is pushed pieces of a body as they come and hands out pieces of media as they
//! are found. It never holds more than the metadata, the headers of one body part and what may turn
//! out to be a delimiter.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes};

use delimiter::{Delimiters, Token};

mod delimiter;
#[cfg(test)]
mod tests;

pub use delimiter::Boundary;

/// How much of what is not media is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelatedLimits {
    /// Bytes of the metadata, and of the checksums behind the media. 1 MiB by default.
    pub metadata: usize,
    /// Bytes of the headers of one body part. 16 KiB by default.
    pub part_headers: usize,
    /// Bytes before the first delimiter. 64 KiB by default.
    pub preamble: usize,
}

impl Default for RelatedLimits {
    fn default() -> Self {
        Self {
            metadata: 1024 * 1024,
            part_headers: 16 * 1024,
            preamble: 64 * 1024,
        }
    }
}

/// What a body part behind the media means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThirdPart {
    /// It is an error.
    Refused,
    /// It is JSON with the media's checksums, as Google's Rust client for Cloud Storage sends it.
    Checksums,
}

/// Something found in the body, in this order: metadata, start of the media, media, end of the
/// media.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// The whole metadata.
    Metadata(Vec<u8>),
    /// The media begins.
    MediaStart {
        /// Its type, if the body part says one.
        content_type: Option<String>,
    },
    /// The next bytes of the media, never none. A slice of what was pushed wherever possible.
    Media(Bytes),
    /// The media is complete.
    MediaEnd,
}

/// Why a body is not metadata and media.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelatedError {
    /// The `Content-Type` is another one.
    #[error("A multipart upload must have a Content-Type header of multipart/related.")]
    NotRelated,
    /// The `Content-Type` has no usable boundary.
    #[error("The Content-Type header has no valid boundary parameter.")]
    NoBoundary,
    /// Too much before the first delimiter.
    #[error("The multipart body has more than {limit} bytes before its first boundary.")]
    PreambleTooLarge {
        /// The most bytes there may be.
        limit: usize,
    },
    /// Too many headers in a body part.
    #[error("A part of the multipart body has more than {limit} bytes of headers.")]
    PartHeadersTooLarge {
        /// The most bytes there may be.
        limit: usize,
    },
    /// A line in the headers of a body part is no header.
    #[error("A part of the multipart body has a malformed header.")]
    PartHeader,
    /// Metadata or checksums are too large.
    #[error("The metadata part of the multipart body is larger than {limit} bytes.")]
    MetadataTooLarge {
        /// The most bytes there may be.
        limit: usize,
    },
    /// A `Content-Transfer-Encoding` that is not understood.
    #[error("A part of the multipart body has an unsupported Content-Transfer-Encoding.")]
    TransferEncoding,
    /// A body part says that it is base64 and is not.
    #[error("A part of the multipart body is not valid base64.")]
    Base64,
    /// The body ends after fewer than two parts.
    #[error("The multipart body must have two parts, metadata and media; it has {found}.")]
    TooFewParts {
        /// Number of parts.
        found: u8,
    },
    /// There is something behind the media.
    #[error("The multipart body must have two parts, metadata and media; it has more.")]
    TooManyParts,
    /// The body ends in the middle.
    #[error("The multipart body ends without its final boundary.")]
    NoFinalBoundary,
}

/// Splits a body into metadata and media as it comes.
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
    /// An error was found between two parts.
    Lost,
}

/// What a body part is for. They come in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Metadata,
    Media,
    Checksums,
}

/// A body part whose headers are read.
#[derive(Debug)]
struct BodyPart {
    role: Role,
    decoder: Decoder,
    /// What there is of metadata or checksums. Media passes through.
    gathered: Vec<u8>,
}

impl Splitter {
    /// Begins with an empty body.
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

    /// Takes the next bytes of the body and adds to `pieces` what is found in them.
    ///
    /// # Errors
    ///
    /// After an error the body is lost; what was found before it stands in `pieces`.
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

    /// Ends the body. Returns the checksums, if there were some.
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
            State::Body(part) => part.take(content, self.limits.metadata, pieces),
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

    /// Ends what is being read, and says what it was if it was a part. The caller sets the next
    /// state.
    fn end_part(&mut self, pieces: &mut Vec<Piece>) -> Result<Option<Role>, RelatedError> {
        let part = match std::mem::replace(&mut self.state, State::Lost) {
            // Headers without the empty line behind them: the part has no content.
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
        limit: usize,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), RelatedError> {
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

    /// Hands out what was gathered: metadata as a piece, checksums to the caller.
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

/// The headers of a body part as they come, from the line end of the delimiter to the empty line.
#[derive(Debug, Default)]
struct HeaderBlock(Vec<u8>);

/// What the headers say.
#[derive(Debug)]
struct PartHeaders {
    content_type: Option<String>,
    decoder: Decoder,
}

impl HeaderBlock {
    /// Takes lines off the front of `content`; true when the empty line was reached.
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

    /// Reads the headers.
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

/// Names and values. A line that begins with white space continues the one before.
fn fields(text: &str) -> Result<Vec<(&str, String)>, RelatedError> {
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

/// Undoes a transfer encoding as the content comes.
#[derive(Debug)]
enum Decoder {
    /// The content is what it is.
    Identity,
    /// Base64 with line ends and spaces anywhere.
    Base64(Base64),
}

/// What is left between two pieces of base64.
#[derive(Debug, Default)]
struct Base64 {
    /// Symbols that do not make a group of four yet.
    symbols: Vec<u8>,
    padded: bool,
}

impl Decoder {
    /// The decoder for the value of a header, or for no header.
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
