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

impl FinalReply {
    /// Two bytes of status, then the body. If the body is not JSON, its type is between them, after
    /// two bytes with the type's length.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let status = self.status.as_u16();
        let mut bytes = if self.content_type == JSON {
            status.to_be_bytes().to_vec()
        } else {
            let content_type = self.content_type.as_bytes();
            // No client takes a header of 64 KiB.
            let len = u16::try_from(content_type.len()).unwrap_or(u16::MAX);
            let mut bytes = (status | HAS_CONTENT_TYPE).to_be_bytes().to_vec();
            bytes.extend_from_slice(&len.to_be_bytes());
            bytes.extend_from_slice(&content_type[..usize::from(len)]);
            bytes
        };
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Reads the stored form.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (status, rest) = bytes.split_first_chunk::<2>()?;
        let status = u16::from_be_bytes(*status);
        let (content_type, body) = if status & HAS_CONTENT_TYPE == 0 {
            (JSON, rest)
        } else {
            let (len, rest) = rest.split_first_chunk::<2>()?;
            let len = usize::from(u16::from_be_bytes(*len));
            let (content_type, body) = rest.split_at_checked(len)?;
            (HeaderValue::from_bytes(content_type).ok()?, body)
        };
        Some(Self {
            status: StatusCode::from_u16(status & !HAS_CONTENT_TYPE).ok()?,
            content_type,
            body: Bytes::copy_from_slice(body),
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
        }
    }

    #[test]
    fn json_reply_is_stored_as_its_status_and_its_body() {
        let json = reply(JSON);
        assert_eq!(json.to_bytes(), b"\x00\xc9{}");
        assert_eq!(FinalReply::from_bytes(b"\x00\xc9{}"), Some(json));
    }

    #[test]
    fn reply_of_another_type_is_stored_with_it() {
        let long = format!("text/plain; {}", "x".repeat(300));
        for content_type in ["text/plain", "", &long] {
            let typed = reply(HeaderValue::from_str(content_type).unwrap());
            assert_eq!(FinalReply::from_bytes(&typed.to_bytes()), Some(typed));
        }
    }

    #[test]
    fn damaged_reply_is_none() {
        for bytes in [
            &b""[..],
            b"\x00",
            b"\x80\xc9",
            b"\x80\xc9\x00\x05text",
            b"\x00\x01{}",
        ] {
            assert_eq!(FinalReply::from_bytes(bytes), None, "{bytes:?}");
        }
    }
}
