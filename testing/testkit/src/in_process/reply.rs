//! A reply, read as far as it came.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

/// A reply, read as far as it came.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Whether the body has arrived completely.
    pub is_whole: bool,
}

impl Reply {
    /// A header that must be there.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        let value = value.unwrap_or_else(|| panic!("no {name} in {self:?}"));
        value.to_str().expect("tests read plain text")
    }

    /// Path and query of the URI in `Location`, which must begin with this origin.
    #[track_caller]
    pub fn location(&self, origin: &str) -> &str {
        self.link("location", origin)
    }

    /// Path and query of the URI in a header, which must begin with this origin.
    #[track_caller]
    pub fn link(&self, header: &str, origin: &str) -> &str {
        let link = self.header(header).strip_prefix(origin);
        link.unwrap_or_else(|| panic!("not at {origin}: {self:?}"))
    }

    /// The committed offset that a 308 reports.
    #[track_caller]
    pub fn committed(&self) -> u64 {
        assert_eq!(self.status.as_u16(), 308, "{self:?}");
        if !self.headers.contains_key("range") {
            return 0;
        }
        let last = self.header("range").strip_prefix("bytes=0-");
        let last = last.expect("as the protocol has it");
        last.parse::<u64>().expect("a number") + 1
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// The resource of a reply that must not be an error; null when it has no body.
    #[track_caller]
    pub fn resource(&self) -> Value {
        assert!(self.status.is_success(), "{self:?}");
        if self.body.is_empty() {
            return Value::Null;
        }
        self.json()
    }

    /// A field of the resource that is a string.
    #[track_caller]
    pub fn field(&self, name: &str) -> String {
        let resource = self.resource();
        let field = resource[name].as_str();
        let field = field.unwrap_or_else(|| panic!("no {name} in {resource}"));
        field.to_owned()
    }

    /// The reply must refuse with this status and reason; its message is returned.
    #[track_caller]
    pub fn refusal(&self, status: u16, reason: &str) -> String {
        let refused = self.refused();
        assert_eq!(refused, (status, reason.to_owned()), "{self:?}");
        self.json()["error"]["message"]
            .as_str()
            .expect("a message")
            .to_owned()
    }

    /// The status and the reason of a reply that must refuse.
    #[track_caller]
    pub fn refused(&self) -> (u16, String) {
        assert!(!self.status.is_success(), "{self:?}");
        let reason = &self.json()["error"]["errors"][0]["reason"];
        let reason = reason.as_str().unwrap_or_default();
        (self.status.as_u16(), reason.to_owned())
    }
}
