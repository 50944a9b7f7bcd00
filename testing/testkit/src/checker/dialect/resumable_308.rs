//! Resumable uploads by `Content-Range` and `308`, as node-uploadx has them. The dialect is akin to
//! Google's.
//!
//! The differences: a session starts with 201 and a URI that may leave its scheme to the request's.
//! A deletion is answered by 204. No committed bytes are written as `Range: bytes=0--1`.

use std::ops::Range;

use serde_json::json;

use super::Dialect;
use crate::media::Media;
use crate::oracle::Answer;
use crate::raw::{Reply, Request};

#[cfg(test)]
mod tests;

/// Uploads by `POST` and `PUT`; cancelled by `DELETE`; media comes back by a `GET` of the upload's
/// own URL.
#[derive(Debug, Clone)]
pub struct Resumable308 {
    path: String,
}

impl Resumable308 {
    /// For a server that makes uploads at this path.
    pub fn at(path: impl Into<String>) -> Self {
        Self { path: path.into() }
    }
}

impl Dialect for Resumable308 {
    fn name(&self) -> &'static str {
        "308"
    }

    fn start(&self, name: &str, media: Media) -> Request {
        Request::new("POST", &self.path)
            .header("X-Upload-Content-Length", media.len())
            .header("X-Upload-Content-Type", "application/octet-stream")
            .header("Content-Type", "application/json")
            .body(json!({ "name": name }).to_string())
    }

    fn append(&self, target: &str, media: Media, range: Range<u64>) -> Request {
        // If every byte has arrived but the upload is not complete, the last byte is sent again to
        // complete it.
        let first = range.start.min(range.end - 1);
        let content_range = format!("bytes {first}-{}/{}", range.end - 1, media.len());
        Request::new("PUT", target)
            .header("Content-Range", content_range)
            .body(media.bytes(first..range.end))
    }

    fn query(&self, target: &str) -> Request {
        Request::new("PUT", target)
            .header("Content-Range", "bytes */*")
            .body("")
    }

    fn cancel(&self, target: &str) -> Option<Request> {
        Some(Request::new("DELETE", target).body(""))
    }

    fn answer(&self, reply: &Reply, _: Media) -> Answer {
        match reply.status {
            308 => committed(reply).map_or_else(|| Answer::strange(reply), Answer::Committed),
            200 | 201 => target(reply).map_or(Answer::Finished(Vec::new()), Answer::Started),
            204 => Answer::Cancelled,
            404 | 410 => Answer::Unknown,
            408 | 409 | 429 | 500..=599 => Answer::NotNow(reply.status),
            _ => Answer::strange(reply),
        }
    }
}

/// Path and query of the upload that a reply names.
fn target(reply: &Reply) -> Option<String> {
    let (_, rest) = reply.header("location")?.split_once("//")?;
    Some(rest[rest.find('/')?..].to_owned())
}

/// How many bytes a `308` says are there.
fn committed(reply: &Reply) -> Option<u64> {
    let Some(range) = reply.header("range") else {
        return Some(0);
    };
    let last: i64 = range.strip_prefix("bytes=0-")?.parse().ok()?;
    u64::try_from(last + 1).ok()
}
