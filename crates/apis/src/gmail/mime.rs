//! Mail messages as the trees that the Gmail API shows.
//!
//! [`parse`] turns a message into a [`Structure`]: its parts, their headers, and the range and
//! encoding of each body. Bodies are not part of it, so that it is small enough to be stored in the
//! row of the message. They are read by range later, and [`Structure::payload`] combines both. A
//! mailbox sorts and searches messages by their [`Summary`].
//!
//! No function here does I/O. On a hostile message none panics or uses unbounded memory.
//!
//! Addresses, dates, message ids, charsets and HTML are parsed by the crate `mail-parser`. The tree
//! of parts is not: that crate decodes every body, accepts delimiters within lines, searches for a
//! missing delimiter once for each part that names one, and drops nested messages recursively. Here
//! a message is read once, line by line, and all numbers and sizes are bounded.
//!
//! # Conventions
//!
//! - Part ids are those of Gmail: empty for the root, then `0`, `1`, `0.0`.
//! - An attached `message/rfc822` is an attachment (its bytes can be fetched) and has one child,
//!   the root of the attached message with its own headers. If it is base64 encoded it has no
//!   child: there are no ranges to point at.
//! - Header values are unfolded as RFC 5322 says (line breaks are removed, blanks kept), and
//!   encoded words are decoded. Names are as written.
//! - Inline text is UTF-8 whatever its charset was, and its size is that of the UTF-8. Gmail does
//!   so while it leaves the charset in the header as it was: clients that decode by that header
//!   once more report garbled text, e.g. for ISO-2022-JP. What is fetched as an attachment keeps
//!   its bytes.
//!
//! ```
//! use windlass_apis::gmail::mime;
//!
//! let raw = b"From: a@example.com\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\n\r\nHello\r\n";
//! let message = mime::parse(raw)?;
//! assert_eq!(message.header("subject"), Some("café"));
//! assert_eq!(message.summary(raw).snippet, "Hello");
//! # Ok::<(), mime::Malformed>(())
//! ```

mod encoding;
mod headers;
mod scan;
mod structure;
mod summary;

pub use encoding::{TransferEncoding, decode};
pub use headers::{DefaultHeaders, missing_headers, without_bcc};
pub use structure::{Bodies, Content, Header, Part, Structure};
pub use summary::{Address, Summary, words};

/// The parts of a message, at most; messages attached to it count with all of theirs.
pub const MAX_PARTS: usize = 1000;

/// How deep parts may be nested. An attached message takes two levels. In JSON a level takes two,
/// and readers commonly stop at 128.
pub const MAX_DEPTH: usize = 50;

/// The bytes of all headers of all parts, at most.
pub const MAX_HEADER_BYTES: usize = 512 * 1024;

/// The header fields of all parts, at most.
pub const MAX_FIELDS: usize = 5000;

/// The addresses in the header fields of the message that name people, at most.
pub const MAX_ADDRESSES: usize = 10_000;

/// The bytes of one body that is shown inline, at most. A larger one has to be fetched as an
/// attachment.
pub const MAX_INLINE_BYTES: u64 = 1024 * 1024;

/// The bytes of all bodies that are shown inline, at most. Parts further on have to be fetched.
pub const MAX_INLINE_TOTAL: u64 = 8 * 1024 * 1024;

/// Why bytes are not a message, or not one that is taken.
///
/// A message that is merely odd is no error: a boundary that never ends or never comes, bad base64,
/// an unknown charset, bare line feeds and a missing `MIME-Version` are read as mail readers read
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The message is empty.
    #[error("the message is empty")]
    Empty,
    /// The message does not begin with a header field.
    #[error("the message has no header")]
    NoHeader,
    /// There are more than [`MAX_PARTS`] parts.
    #[error("the message has more than {MAX_PARTS} parts")]
    TooManyParts,
    /// Parts are nested deeper than [`MAX_DEPTH`].
    #[error("the parts of the message are nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// Headers take more than [`MAX_HEADER_BYTES`].
    #[error("the headers of the message take more than {MAX_HEADER_BYTES} bytes")]
    HeadersTooLarge,
    /// There are more than [`MAX_FIELDS`] header fields.
    #[error("the message has more than {MAX_FIELDS} header fields")]
    TooManyFields,
    /// There are more than [`MAX_ADDRESSES`] addresses in the message's header.
    #[error("the header of the message names more than {MAX_ADDRESSES} addresses")]
    TooManyAddresses,
}

/// Reads the structure of a message. The time it takes is linear in its length; at most one decoded
/// body is in memory at a time.
pub fn parse(raw: &[u8]) -> Result<Structure, Malformed> {
    if raw.is_empty() {
        return Err(Malformed::Empty);
    }
    let entities = scan::scan(raw)?;
    let root = &entities[0].fields;
    if root.is_empty() {
        return Err(Malformed::NoHeader);
    }
    summary::check_addresses(raw, root)?;
    Ok(Structure::new(raw, &entities))
}

#[cfg(test)]
mod tests;
