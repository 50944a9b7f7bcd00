//! Google's media upload protocol, spoken to the Farm API.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use serde_json::Value;

use super::{Dialect, Listing};
use crate::farm;
use crate::media::Media;
use crate::oracle::Answer;
use crate::raw::{RawPeer, Reply, Request};
use crate::session::{content_range, target_of};

/// Simple, multipart and resumable uploads of animals.
#[derive(Debug, Clone, Copy)]
pub struct Google(());

impl Google {
    /// For the Farm API.
    pub const fn farm() -> Self {
        Self(())
    }
}

impl Dialect for Google {
    fn name(&self) -> &'static str {
        "Google"
    }

    fn start(&self, name: &str, _: Media) -> Request {
        farm::start(&farm::named(name))
    }

    fn append(&self, target: &str, media: Media, range: Range<u64>) -> Request {
        Request::new("PUT", target)
            .header("Content-Range", content_range(media, &range))
            .body(media.bytes(range))
    }

    fn query(&self, target: &str) -> Request {
        Request::new("PUT", target)
            .header("Content-Range", "bytes */*")
            .body("")
    }

    fn cancel(&self, target: &str) -> Option<Request> {
        Some(Request::new("DELETE", target).body(""))
    }

    fn single_request(&self, name: &str, media: Media, multipart: bool) -> Option<Request> {
        Some(if multipart {
            farm::multipart(name, media)
        } else {
            farm::simple(media)
        })
    }

    fn answer(&self, reply: &Reply, media: Media) -> Answer {
        match reply.status {
            308 => Answer::Committed(reply.range()),
            // A body that differs from the upload is caught when it is downloaded.
            200 | 201 if reply.body.is_empty() => match target_of(reply) {
                Some(target) => Answer::Started(target),
                None => Answer::strange(reply),
            },
            200 | 201 if reply.field("size").as_str() == Some(&media.len().to_string()) => {
                Answer::Finished(reply.body.clone())
            }
            404 | 410 => Answer::Unknown,
            499 => Answer::Cancelled,
            408 | 429 | 500..=599 => Answer::NotNow(reply.status),
            _ => Answer::strange(reply),
        }
    }

    fn resource(&self, _: Option<&str>, finished: &[u8]) -> Option<String> {
        let body: Value = serde_json::from_slice(finished).ok()?;
        Some(body["id"].as_str()?.to_owned())
    }

    fn download(&self, resource: &str) -> Option<Request> {
        Some(farm::download(resource))
    }

    fn listing(&self, address: SocketAddr) -> io::Result<Option<Listing>> {
        let mut listing = Listing::new();
        let mut page = String::new();
        loop {
            let mut peer = RawPeer::try_connect(address)?;
            peer.try_send(farm::list(&page).to_bytes())?;
            let list = peer.try_reply()?;
            if list.status != 200 {
                return Err(io::Error::other(format!("a list answers {}", list.status)));
            }
            for animal in list.field("items").as_array().into_iter().flatten() {
                let [name, id] = ["name", "id"].map(|key| animal[key].as_str().unwrap_or_default());
                listing
                    .entry(name.to_owned())
                    .or_default()
                    .push(id.to_owned());
            }
            match list.field("nextPageToken") {
                Value::String(next) => page = next,
                _ => return Ok(Some(listing)),
            }
        }
    }
}
