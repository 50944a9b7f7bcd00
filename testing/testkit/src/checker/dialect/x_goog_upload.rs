//! The dialect `X-Goog-Upload` of Google's upload protocol, spoken to the Farm API.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use super::{Dialect, Google, Listing};
use crate::farm;
use crate::media::Media;
use crate::oracle::Answer;
use crate::raw::{Reply, Request};
use crate::session::target_in;

/// Resumable uploads of animals, with the state of the upload in headers.
#[derive(Debug, Clone, Copy)]
pub struct XGoogUpload(());

impl XGoogUpload {
    /// For the Farm API.
    pub const fn farm() -> Self {
        Self(())
    }
}

impl Dialect for XGoogUpload {
    fn name(&self) -> &'static str {
        "X-Goog-Upload"
    }

    fn start(&self, name: &str, media: Media) -> Request {
        command(farm::UPLOADS, "start")
            .header("X-Goog-Upload-Protocol", "resumable")
            .header("X-Goog-Upload-Header-Content-Type", "image/png")
            .header("X-Goog-Upload-Header-Content-Length", media.len())
            .body(farm::named(name))
    }

    fn append(&self, target: &str, media: Media, range: Range<u64>) -> Request {
        let is_last = range.end == media.len();
        let verb = if is_last {
            "upload, finalize"
        } else {
            "upload"
        };
        command(target, verb)
            .header("X-Goog-Upload-Offset", range.start)
            .body(media.bytes(range))
    }

    fn query(&self, target: &str) -> Request {
        command(target, "query").body("")
    }

    fn cancel(&self, target: &str) -> Option<Request> {
        Some(command(target, "cancel").body(""))
    }

    fn answer(&self, reply: &Reply, media: Media) -> Answer {
        let status = reply.header("x-goog-upload-status");
        match (reply.status, status) {
            (200, Some("active")) => match (target_in(reply, "x-goog-upload-url"), received(reply))
            {
                (Some(target), _) => Answer::Started(target),
                (None, Some(received)) => Answer::Committed(received),
                (None, None) => Answer::strange(reply),
            },
            // A body that differs from the upload is caught when it is downloaded.
            (200, Some("final"))
                if !reply.body.is_empty()
                    && reply.field("size").as_str() == Some(&media.len().to_string()) =>
            {
                Answer::Finished(reply.body.clone())
            }
            (200 | 400, Some("cancelled")) => Answer::Cancelled,
            (404 | 410, Some("final")) => Answer::Unknown,
            (408 | 429 | 500..=599, None) => Answer::NotNow(reply.status),
            _ => Answer::strange(reply),
        }
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

fn command(target: &str, command: &str) -> Request {
    Request::new("POST", target).header("X-Goog-Upload-Command", command)
}

fn received(reply: &Reply) -> Option<u64> {
    reply.header("x-goog-upload-size-received")?.parse().ok()
}
