//! tus 1.0, with the extensions creation, creation-with-upload, termination and checksum.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Dialect, is_digested};
use crate::farm;
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
    path: Cow<'static, str>,
    /// Whether the server has the extension checksum.
    has_checksums: bool,
}

impl Tus {
    /// For a server that makes uploads at this path.
    pub fn at(path: impl Into<Cow<'static, str>>) -> Self {
        Self {
            path: path.into(),
            has_checksums: false,
        }
    }

    /// For the Farm API. It has the media at the URL of the animal.
    pub const fn farm() -> Self {
        Self {
            path: Cow::Borrowed(farm::UPLOADS),
            has_checksums: true,
        }
    }

    /// The head of a creation.
    fn creation(&self, name: &str, media: Media) -> Request {
        // Servers require the type, although the protocol does not.
        let metadata = [("filename", name), ("filetype", "application/octet-stream")];
        let metadata = metadata.map(|(key, value)| format!("{key} {}", STANDARD.encode(value)));
        request("POST", &self.path)
            .header("Upload-Length", media.len())
            .header("Upload-Metadata", metadata.join(","))
    }
}

impl Dialect for Tus {
    fn name(&self) -> &'static str {
        "tus 1.0"
    }

    fn start(&self, name: &str, media: Media) -> Request {
        self.creation(name, media).body("")
    }

    fn append(&self, target: &str, media: Media, range: Range<u64>) -> Request {
        let append = request("PATCH", target)
            .header("Upload-Offset", range.start)
            .header("Content-Type", "application/offset+octet-stream");
        let append = if self.has_checksums && is_digested(media) {
            let digest = media.sha256_of(range.clone());
            append.header("Upload-Checksum", format!("sha256 {digest}"))
        } else {
            append
        };
        append.body(media.bytes(range))
    }

    fn query(&self, target: &str) -> Request {
        request("HEAD", target)
    }

    fn cancel(&self, target: &str) -> Option<Request> {
        Some(request("DELETE", target).body(""))
    }

    /// Without a name, nothing would tell which file the upload has become.
    fn single_request(&self, name: &str, media: Media, multipart: bool) -> Option<Request> {
        let creation = multipart.then(|| self.creation(name, media));
        let creation = creation?.header("Content-Type", "application/offset+octet-stream");
        Some(creation.body(media.whole()))
    }

    fn may_overlap(&self, _: &str) -> bool {
        false
    }

    fn answer(&self, reply: &Reply, media: Media) -> Answer {
        match (reply.status, offset(reply)) {
            // The whole upload was in the creation.
            (201, Some(offset)) if offset == media.len() => Answer::Finished(Vec::new()),
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
