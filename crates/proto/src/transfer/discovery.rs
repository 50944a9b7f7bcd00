//! Which protocol a server speaks at a URL.
//!
//! The URL says it for Google's protocol, by a segment `upload` of its path or a parameter of the
//! upload type. For any other URL the server is asked by OPTIONS. A server of tus replies with its
//! versions, a server of the IETF draft with its limits or its media type for PATCH. A server that
//! speaks both is spoken to in tus, which is not a draft. Any other reply stands for Google's
//! protocol.

use http::HeaderMap;

use super::exchange::{Reply, ReplyClass};
use super::form::Protocol;
use crate::header::{ACCEPT_PATCH, TUS_RESUMABLE, TUS_VERSION, UPLOAD_LIMIT};
use crate::parameters::Parameters;

impl Protocol {
    /// Returns the protocol that a URL stands for, by its path and query; `None` if the server is
    /// to be asked.
    ///
    /// ```
    /// use windlass_proto::transfer::Protocol;
    ///
    /// assert_eq!(Protocol::of_url("/upload/farm/v1/animals", None), Some(Protocol::Google));
    /// assert_eq!(Protocol::of_url("/files", None), None);
    /// ```
    pub fn of_url(path: &str, query: Option<&str>) -> Option<Self> {
        let has_type = |parameters: &Parameters| {
            ["uploadType", "upload_protocol"]
                .iter()
                .any(|name| parameters.first(name).is_some())
        };
        let is_googles = path.split('/').any(|segment| segment == "upload")
            || Parameters::parse(query).is_ok_and(|parameters| has_type(&parameters));
        is_googles.then_some(Self::Google)
    }
}

/// Reads the reply to OPTIONS.
///
/// # Errors
/// The class of a reply that says nothing of the protocol, because the server is overloaded or
/// wants another token.
pub(super) fn read(reply: &Reply<'_>) -> Result<Protocol, ReplyClass> {
    let headers = reply.headers;
    if speaks_tus(headers) {
        return Ok(Protocol::Tus);
    }
    if speaks_the_draft(headers) {
        return Ok(Protocol::Ietf);
    }
    match reply.status.as_u16() {
        401 => Err(ReplyClass::Unauthorized),
        // A server that does not know OPTIONS may say 501.
        408 | 429 | 500 | 502..=504 => Err(ReplyClass::Transient),
        _ => Ok(Protocol::Google),
    }
}

/// Returns whether a list of versions has ours.
fn speaks_tus(headers: &HeaderMap) -> bool {
    let versions = headers
        .get_all(TUS_VERSION)
        .iter()
        .chain(headers.get_all(TUS_RESUMABLE));
    versions
        .filter_map(|versions| versions.to_str().ok())
        .flat_map(|versions| versions.split(','))
        .any(|version| version.trim() == "1.0.0")
}

fn speaks_the_draft(headers: &HeaderMap) -> bool {
    let types = headers
        .get_all(ACCEPT_PATCH)
        .iter()
        .filter_map(|types| types.to_str().ok())
        .flat_map(|types| types.split(','));
    headers.contains_key(UPLOAD_LIMIT)
        || types
            .map(str::trim)
            .any(|it| it.eq_ignore_ascii_case("application/partial-upload"))
}
