//! Both dialects that the Farm API's server speaks, each for half of the uploads.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use super::{Dialect, Google, Listing, XGoogUpload};
use crate::media::Media;
use crate::oracle::Answer;
use crate::raw::{Reply, Request};

/// Google's dialect for some names of uploads, and `X-Goog-Upload` for the rest.
#[derive(Debug, Clone, Copy, Default)]
pub struct FarmDialects;

const GOOGLE: Google = Google::farm();
const X_GOOG: XGoogUpload = XGoogUpload::farm();

/// The prefix of targets of sessions in the dialect `X-Goog-Upload`.
const MARK: &str = "x-goog-upload:";

impl Dialect for FarmDialects {
    fn name(&self) -> &'static str {
        "Google and X-Goog-Upload"
    }

    fn start(&self, name: &str, media: Media) -> Request {
        let sum = name.bytes().fold(0_u8, u8::wrapping_add);
        if sum.is_multiple_of(2) {
            GOOGLE.start(name, media)
        } else {
            X_GOOG.start(name, media)
        }
    }

    fn append(&self, target: &str, media: Media, range: Range<u64>) -> Request {
        let (dialect, target) = of(target);
        dialect.append(target, media, range)
    }

    fn query(&self, target: &str) -> Request {
        let (dialect, target) = of(target);
        dialect.query(target)
    }

    fn cancel(&self, target: &str) -> Option<Request> {
        let (dialect, target) = of(target);
        dialect.cancel(target)
    }

    fn single_request(&self, name: &str, media: Media, multipart: bool) -> Option<Request> {
        GOOGLE.single_request(name, media, multipart)
    }

    fn answer(&self, reply: &Reply, media: Media) -> Answer {
        if reply.header("x-goog-upload-status").is_none() {
            return GOOGLE.answer(reply, media);
        }
        match X_GOOG.answer(reply, media) {
            Answer::Started(target) => Answer::Started(format!("{MARK}{target}")),
            answer => answer,
        }
    }

    fn resource(&self, target: Option<&str>, finished: &[u8]) -> Option<String> {
        GOOGLE.resource(target, finished)
    }

    fn download(&self, resource: &str) -> Option<Request> {
        GOOGLE.download(resource)
    }

    fn listing(&self, address: SocketAddr) -> io::Result<Option<Listing>> {
        GOOGLE.listing(address)
    }
}

/// The dialect of a session, and its target on the wire.
fn of(target: &str) -> (&'static dyn Dialect, &str) {
    match target.strip_prefix(MARK) {
        Some(target) => (&X_GOOG, target),
        None => (&GOOGLE, target),
    }
}
