//! The reply that ends an upload.

use std::fmt;

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

use crate::reply::JSON;

/// The reply that ends an upload, as it is stored and repeated.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FinalReply {
    pub(crate) status: StatusCode,
    pub(crate) content_type: HeaderValue,
    /// The body, already shaped as the client asked for.
    pub(crate) body: Bytes,
    /// Length of the media. The session has it, so it is not stored.
    pub(crate) length: u64,
    /// URL of the resource that the upload has become, for dialects that name it in a header.
    pub(crate) resource: Option<HeaderValue>,
}

/// Hides the body, which may be a secret, such as an upload token.
impl fmt::Debug for FinalReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FinalReply")
            .field("status", &self.status)
            .field("content_type", &self.content_type)
            .finish_non_exhaustive()
    }
}

/// Set in a stored status if the body is not JSON. Its media type then follows.
const HAS_CONTENT_TYPE: u16 = 0x8000;

/// Set in a stored status if the reply names its resource. The URL then follows.
const HAS_RESOURCE: u16 = 0x4000;

impl FinalReply {
    /// Two bytes of status, then the body. If the body is not JSON, its type is between them, and
    /// if the reply names its resource, the URL: each after two bytes with its length.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let content_type = Some(&self.content_type).filter(|it| **it != JSON);
        let mut flags = 0;
        for (value, flag) in [
            (content_type, HAS_CONTENT_TYPE),
            (self.resource.as_ref(), HAS_RESOURCE),
        ] {
            flags |= value.map_or(0, |_| flag);
        }
        let mut bytes = (self.status.as_u16() | flags).to_be_bytes().to_vec();
        for value in [content_type, self.resource.as_ref()].into_iter().flatten() {
            // No client takes a header of 64 KiB.
            let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
            bytes.extend_from_slice(&len.to_be_bytes());
            bytes.extend_from_slice(&value.as_bytes()[..usize::from(len)]);
        }
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Reads the stored form of the reply to an upload of this length.
    pub(crate) fn from_bytes(bytes: &[u8], length: u64) -> Option<Self> {
        let (status, mut rest) = bytes.split_first_chunk::<2>()?;
        let status = u16::from_be_bytes(*status);
        let mut value = |flag: u16| {
            if status & flag == 0 {
                return Some(None);
            }
            let (len, after) = rest.split_first_chunk::<2>()?;
            let (value, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
            rest = after;
            HeaderValue::from_bytes(value).ok().map(Some)
        };
        let content_type = value(HAS_CONTENT_TYPE)?.unwrap_or(JSON);
        let resource = value(HAS_RESOURCE)?;
        Some(Self {
            status: StatusCode::from_u16(status & !(HAS_CONTENT_TYPE | HAS_RESOURCE)).ok()?,
            content_type,
            body: Bytes::copy_from_slice(rest),
            length,
            resource,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(content_type: HeaderValue) -> FinalReply {
        FinalReply {
            status: StatusCode::CREATED,
            content_type,
            body: Bytes::from_static(b"{}"),
            length: 7,
            resource: None,
        }
    }

    #[test]
    fn json_reply_is_stored_as_its_status_and_its_body() {
        let json = reply(JSON);
        assert_eq!(json.to_bytes(), b"\x00\xc9{}");
        assert_eq!(FinalReply::from_bytes(b"\x00\xc9{}", 7), Some(json));
    }

    #[test]
    fn reply_of_another_type_is_stored_with_it() {
        let long = format!("text/plain; {}", "x".repeat(300));
        for content_type in ["text/plain", "", &long] {
            let typed = reply(HeaderValue::from_str(content_type).unwrap());
            assert_eq!(FinalReply::from_bytes(&typed.to_bytes(), 7), Some(typed));
        }
    }

    #[test]
    fn reply_that_names_its_resource_is_stored_with_it() {
        for content_type in [JSON, HeaderValue::from_static("text/plain")] {
            let named = FinalReply {
                resource: Some(HeaderValue::from_static("http://localhost/files/1")),
                ..reply(content_type)
            };
            assert_eq!(FinalReply::from_bytes(&named.to_bytes(), 7), Some(named));
        }
    }

    #[test]
    fn damaged_reply_is_none() {
        for bytes in [
            &b""[..],
            b"\x00",
            b"\x80\xc9",
            b"\x80\xc9\x00\x05text",
            b"\x40\xc9\x00\x05text",
            b"\xc0\xc9\x00\x04text\x00",
            b"\x00\x01{}",
        ] {
            assert_eq!(FinalReply::from_bytes(bytes, 7), None, "{bytes:?}");
        }
    }
}
