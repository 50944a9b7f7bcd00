//! The IETF's draft of resumable uploads, spoken to the Farm API.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use super::{Dialect, Google, Listing, is_digested};
use crate::farm;
use crate::media::Media;
use crate::oracle::Answer;
use crate::raw::{Reply, Request};
use crate::session::target_of;

#[cfg(test)]
mod tests;

/// Uploads of animals by `POST`, `PATCH`, `HEAD` and `DELETE`. Interim replies count as
/// acknowledgements, as the draft demands.
#[derive(Debug, Clone, Copy)]
pub struct Ietf(());

impl Ietf {
    /// For the Farm API.
    pub const fn farm() -> Self {
        Self(())
    }
}

/// The draft that the requests announce. Without an announcement there are no interim replies.
const VERSION: u64 = 10;

impl Dialect for Ietf {
    fn name(&self) -> &'static str {
        "IETF draft"
    }

    fn start(&self, name: &str, media: Media) -> Request {
        creation(name, "?0")
            .header("Upload-Length", media.len())
            .body("")
    }

    fn append(&self, target: &str, media: Media, range: Range<u64>) -> Request {
        let is_last = range.end == media.len();
        let append = request("PATCH", target)
            .header("Content-Type", "application/partial-upload")
            .header("Upload-Offset", range.start)
            .header("Upload-Complete", if is_last { "?1" } else { "?0" });
        let append = if is_digested(media) {
            let digest = media.sha256_of(range.clone());
            append.header("Content-Digest", format!("sha-256=:{digest}:"))
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

    fn single_request(&self, name: &str, media: Media, _: bool) -> Option<Request> {
        Some(creation(name, "?1").body(media.whole()))
    }

    fn answer(&self, reply: &Reply, media: Media) -> Answer {
        let offset = reply.header("upload-offset");
        let offset = offset.and_then(|offset| offset.parse::<u64>().ok());
        let flag = reply.header("upload-complete");
        match (reply.status, flag, offset) {
            (104, _, Some(offset)) | (204, Some("?0"), Some(offset)) => Answer::Committed(offset),
            (104, _, None) | (201, Some("?0"), _) => {
                target_of(reply).map_or_else(|| Answer::strange(reply), Answer::Started)
            }
            // A query does not repeat the body.
            (204, Some("?1"), Some(offset)) if offset == media.len() => {
                Answer::Finished(Vec::new())
            }
            // A body that differs from the upload is caught when it is downloaded.
            (200 | 201, Some("?1"), _)
                if !reply.body.is_empty()
                    && reply.field("size").as_str() == Some(&media.len().to_string()) =>
            {
                Answer::Finished(reply.body.clone())
            }
            (204, None, None) => Answer::Cancelled,
            (404 | 410, ..) => Answer::Unknown,
            (408 | 409 | 429 | 500..=599, ..) => Answer::NotNow(reply.status),
            _ => Answer::strange(reply),
        }
    }

    fn may_overlap(&self, _: &str) -> bool {
        false
    }

    fn resource(&self, target: Option<&str>, finished: &[u8]) -> Option<String> {
        Google::farm().resource(target, finished)
    }

    fn download(&self, resource: &str) -> Option<Request> {
        Google::farm().download(resource)
    }

    fn listing(&self, address: SocketAddr) -> io::Result<Option<Listing>> {
        Google::farm().listing(address)
    }
}

/// The head of a creation. A file has the name of its upload.
fn creation(name: &str, complete: &str) -> Request {
    request("POST", farm::UPLOADS)
        .header("Content-Type", "image/png")
        .header(
            "Content-Disposition",
            format!("inline; filename=\"{name}\""),
        )
        .header("Upload-Complete", complete)
}

fn request(verb: &str, target: &str) -> Request {
    Request::new(verb, target).header("Upload-Draft-Interop-Version", VERSION)
}
