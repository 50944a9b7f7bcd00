//! Google's error object, which every reply about an error has as its body unless the protocol says
//! otherwise.

use serde_json::Value;

use crate::raw::Reply;

/// The fields of an error that a client library reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorObject {
    /// `errors[0].reason`.
    pub reason: String,
    /// The header or parameter that is wrong, if the error names one.
    pub location: Option<String>,
    /// The text for people.
    pub message: String,
}

impl ErrorObject {
    /// Reads the error of a reply with this status. Fails when any part of the shape is missing or
    /// contradicts another.
    #[track_caller]
    pub fn of(reply: &Reply, status: u16) -> Self {
        assert_eq!(
            reply.status,
            status,
            "{}",
            String::from_utf8_lossy(&reply.body)
        );
        assert_eq!(
            reply.header("content-type"),
            Some("application/json; charset=UTF-8")
        );
        let body = reply.json();
        let error = &body["error"];
        let [detail] = error["errors"]
            .as_array()
            .expect("an array of errors")
            .as_slice()
        else {
            panic!("not one error: {body}");
        };
        assert_eq!(error["code"], status, "{body}");
        assert!(is_canonical_status(&error["status"]), "{body}");
        assert_eq!(error["message"], detail["message"], "{body}");
        assert_eq!(detail["domain"], "global", "{body}");
        assert_eq!(
            detail.get("location").is_some(),
            detail.get("locationType").is_some(),
            "{body}"
        );
        Self {
            reason: text(&detail["reason"]),
            location: detail.get("location").map(text),
            message: text(&error["message"]),
        }
    }
}

/// E.g. `INVALID_ARGUMENT`.
fn is_canonical_status(status: &Value) -> bool {
    let is_part = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    status
        .as_str()
        .is_some_and(|status| !status.is_empty() && status.bytes().all(is_part))
}

#[track_caller]
fn text(value: &Value) -> String {
    let text = value.as_str().filter(|text| !text.is_empty());
    text.unwrap_or_else(|| panic!("not a text: {value}"))
        .to_owned()
}

/// Checks that a reply is an error with this status, reason and location.
#[track_caller]
pub fn assert_error(reply: &Reply, status: u16, reason: &str, location: Option<&str>) {
    let error = ErrorObject::of(reply, status);
    assert_eq!(
        (error.reason.as_str(), error.location.as_deref()),
        (reason, location),
        "{error:?}"
    );
}
