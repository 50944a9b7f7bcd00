//! tus 1.0, with the extensions creation and termination.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Dialect;
use crate::media::Media;
use crate::oracle::Answer;
use crate::raw::{Reply, Request};
use crate::session::target_of;

#[cfg(test)]
mod tests;

/// Uploads by `POST`, `PATCH` and `HEAD`; termination by `DELETE`; media comes back by a `GET` of
/// the upload's own URL.
#[derive(Debug, Clone)]
pub struct Tus {
    path: String,
}

impl Tus {
    /// For a server that makes uploads at this path.
    pub fn at(path: impl Into<String>) -> Self {
        Self { path: path.into() }
    }
}

impl Dialect for Tus {
    fn name(&self) -> &'static str {
        "tus 1.0"
    }

    fn start(&self, name: &str, media: Media) -> Request {
        // Servers require the type, although the protocol does not.
        let metadata = [("filename", name), ("filetype", "application/octet-stream")];
        let metadata = metadata.map(|(key, value)| format!("{key} {}", STANDARD.encode(value)));
        request("POST", &self.path)
            .header("Upload-Length", media.len())
            .header("Upload-Metadata", metadata.join(","))
            .body("")
    }

    fn append(&self, target: &str, media: Media, range: Range<u64>) -> Request {
        request("PATCH", target)
            .header("Upload-Offset", range.start)
            .header("Content-Type", "application/offset+octet-stream")
            .body(media.bytes(range))
    }

    fn query(&self, target: &str) -> Request {
        request("HEAD", target)
    }

    fn cancel(&self, target: &str) -> Option<Request> {
        Some(request("DELETE", target).body(""))
    }

    fn answer(&self, reply: &Reply, media: Media) -> Answer {
        match (reply.status, offset(reply)) {
            (201, _) => target_of(reply).map_or_else(|| Answer::strange(reply), Answer::Started),
            (200 | 204, Some(offset)) if offset == media.len() => Answer::Finished(Vec::new()),
            (200 | 204, Some(offset)) => Answer::Committed(offset),
            (204, None) => Answer::Cancelled,
            (404 | 410, _) => Answer::Unknown,
            // Another request holds the upload, or the client's offset is wrong: the client has to
            // ask.
            (409 | 423 | 408 | 429 | 500..=599, _) => Answer::NotNow(reply.status),
            _ => Answer::strange(reply),
        }
    }
}

fn request(verb: &str, target: &str) -> Request {
    Request::new(verb, target).header("Tus-Resumable", "1.0.0")
}

fn offset(reply: &Reply) -> Option<u64> {
    reply.header("upload-offset")?.parse().ok()
}
