//! Parsing of request heads that all dialects share.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Method};
use windlass_digest::{ExpectedDigests, ExpectedDigestsError};

use super::RequestHead;
use crate::command::{BodyLength, ContentCoding, Framing, MultipartHead, SimpleHead};
use crate::digest_fields;
use crate::error::ProtocolError;
use crate::expected_digests;
use crate::related::{Boundary, RelatedError};

/// The input of all commands.
pub(super) struct Head<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) framing: Framing,
    coding: ContentCoding,
}

impl<'a> Head<'a> {
    pub(super) fn of(request: &RequestHead<'a>) -> Result<Self, ProtocolError> {
        Ok(Self {
            headers: request.headers,
            framing: request.framing,
            coding: ContentCoding::from_headers(request.headers)?,
        })
    }

    /// An upload of media of a type, which is the body.
    pub(super) fn simple(&self, content_type: Option<String>) -> Result<SimpleHead, ProtocolError> {
        Ok(SimpleHead {
            content_type,
            length: self.required_length()?,
            expected: self.whole_digests()?,
        })
    }

    pub(super) fn multipart(&self) -> Result<MultipartHead, ProtocolError> {
        let content_type = self
            .headers
            .get(CONTENT_TYPE)
            .ok_or(RelatedError::NotRelated)?;
        Ok(MultipartHead {
            boundary: Boundary::from_content_type(content_type.as_bytes())?,
            length: self.required_length()?,
            expected: self.media_digests()?,
        })
    }

    /// Digests that the head states for the whole media.
    pub(super) fn media_digests(&self) -> Result<ExpectedDigests, ExpectedDigestsError> {
        let of_representation = digest_fields::from_repr_digest(self.headers, self.coding)?;
        expected_digests::from_goog_hash(self.headers)?.merge(of_representation)
    }

    /// Digests that the head states for the whole media, which is the body.
    pub(super) fn whole_digests(&self) -> Result<ExpectedDigests, ExpectedDigestsError> {
        let of_media = self.media_digests()?;
        match self.coding {
            ContentCoding::Identity => {
                of_media.merge(expected_digests::from_content_md5(self.headers)?)
            }
            // Content-MD5 covers the coded bytes (RFC 1864), which are not stored.
            ContentCoding::Gzip => Ok(of_media),
        }
    }

    /// Length of the body; `None` without a framing, which only HTTP/1 has.
    pub(super) fn length(&self) -> Option<BodyLength> {
        match (self.framing, self.coding) {
            (Framing::Absent, _) => None,
            (Framing::Length(0), _) => Some(BodyLength::Exact(0)),
            (Framing::Length(length), ContentCoding::Identity) => Some(BodyLength::Exact(length)),
            (Framing::Length(_) | Framing::Streamed, _) => Some(BodyLength::Unknown),
        }
    }

    pub(super) fn required_length(&self) -> Result<BodyLength, ProtocolError> {
        self.length().ok_or(ProtocolError::LengthRequired)
    }

    /// Reads a number. An empty value counts as absent.
    pub(super) fn number(
        &self,
        header: &HeaderName,
        name: &'static str,
    ) -> Result<Option<u64>, ProtocolError> {
        match self.text(header, name)? {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map(Some).map_err(|_| invalid(name))
            }
            Some(_) => Err(invalid(name)),
            None => Ok(None),
        }
    }

    pub(super) fn media_type(
        &self,
        header: &HeaderName,
        name: &'static str,
    ) -> Result<Option<String>, ProtocolError> {
        match self.text(header, name)? {
            Some(text) if is_media_type(text) => Ok(Some(text.to_owned())),
            Some(_) => Err(invalid(name)),
            None => Ok(None),
        }
    }

    /// Returns a header's value. An empty value counts as absent.
    pub(super) fn text(
        &self,
        header: &HeaderName,
        name: &'static str,
    ) -> Result<Option<&'a str>, ProtocolError> {
        let Some(value) = self.headers.get(header) else {
            return Ok(None);
        };
        let text = value.to_str().map_err(|_| invalid(name))?.trim_ascii();
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}

/// HTTP methods of requests that upload without a session, or start one.
pub(super) const UPLOAD_METHODS: &[Method] = &[Method::POST, Method::PUT, Method::PATCH];

/// Refuses an HTTP method that is not one of these.
pub(super) fn allow(method: &Method, allowed: &'static [Method]) -> Result<(), ProtocolError> {
    if allowed.contains(method) {
        Ok(())
    } else {
        Err(ProtocolError::MethodNotAllowed { allowed })
    }
}

pub(super) fn invalid(name: &'static str) -> ProtocolError {
    ProtocolError::InvalidHeader { name }
}

/// Returns whether a text begins with `type/subtype` (RFC 9110, 8.3.1). Parameters are not checked.
pub(super) fn is_media_type(text: &str) -> bool {
    let essence = text
        .split_once(';')
        .map_or(text, |(essence, _)| essence)
        .trim_ascii_end();
    essence
        .split_once('/')
        .is_some_and(|(main, sub)| is_token(main) && is_token(sub))
}

/// Returns whether a text is `1*tchar` (RFC 9110, 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
