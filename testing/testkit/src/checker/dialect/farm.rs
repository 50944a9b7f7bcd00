//! All dialects of the Farm API's server, each for a quarter of the uploads.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use super::{Dialect, Google, Ietf, Listing, Tus, XGoogUpload};
use crate::media::Media;
use crate::oracle::Answer;
use crate::raw::{Reply, Request};

#[cfg(test)]
mod tests;

/// Google's dialect, `X-Goog-Upload`, tus and the IETF's draft. The name of an upload determines
/// its dialect.
#[derive(Debug, Clone, Copy, Default)]
pub struct FarmDialects;

const GOOGLE: Google = Google::farm();
const X_GOOG: XGoogUpload = XGoogUpload::farm();
static TUS: Tus = Tus::farm();
const IETF: Ietf = Ietf::farm();

/// The prefixes of targets of sessions in another dialect than Google's.
const X_GOOG_MARK: &str = "x-goog-upload:";
const TUS_MARK: &str = "tus:";
const IETF_MARK: &str = "ietf:";

impl Dialect for FarmDialects {
    fn name(&self) -> &'static str {
        "Google, X-Goog-Upload, tus and the IETF draft"
    }

    fn start(&self, name: &str, media: Media) -> Request {
        of_name(name).start(name, media)
    }

    fn append(&self, target: &str, media: Media, range: Range<u64>) -> Request {
        let (dialect, target) = of_target(target);
        dialect.append(target, media, range)
    }

    fn query(&self, target: &str) -> Request {
        let (dialect, target) = of_target(target);
        dialect.query(target)
    }

    fn cancel(&self, target: &str) -> Option<Request> {
        let (dialect, target) = of_target(target);
        dialect.cancel(target)
    }

    /// Media alone is always sent in Google's dialect: a query in the other ones tells that an
    /// upload is finished, but not which resource it has become.
    fn single_request(&self, name: &str, media: Media, multipart: bool) -> Option<Request> {
        let own = of_name(name);
        let own = multipart.then(|| own.single_request(name, media, multipart));
        own.flatten()
            .or_else(|| GOOGLE.single_request(name, media, multipart))
    }

    fn answer(&self, reply: &Reply, media: Media) -> Answer {
        let (dialect, mark) = of_reply(reply);
        match dialect.answer(reply, media) {
            Answer::Started(target) => Answer::Started(format!("{mark}{target}")),
            answer => answer,
        }
    }

    fn may_overlap(&self, target: &str) -> bool {
        let (dialect, target) = of_target(target);
        dialect.may_overlap(target)
    }

    /// A final reply without a body names no resource. The listing has it by its name.
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

/// The dialect of an upload with this name.
fn of_name(name: &str) -> &'static dyn Dialect {
    let sum = name.bytes().fold(0_u8, u8::wrapping_add);
    match sum % 4 {
        0 => &GOOGLE,
        1 => &X_GOOG,
        2 => &TUS,
        _ => &IETF,
    }
}

/// The dialect of a session, and its target on the wire.
fn of_target(target: &str) -> (&'static dyn Dialect, &str) {
    if let Some(target) = target.strip_prefix(X_GOOG_MARK) {
        (&X_GOOG, target)
    } else if let Some(target) = target.strip_prefix(TUS_MARK) {
        (&TUS, target)
    } else if let Some(target) = target.strip_prefix(IETF_MARK) {
        (&IETF, target)
    } else {
        (&GOOGLE, target)
    }
}

/// The dialect of a reply, and the mark of its sessions. A refusal may show no dialect: Google's
/// reading is right for it, too.
fn of_reply(reply: &Reply) -> (&'static dyn Dialect, &'static str) {
    let has = |name| reply.header(name).is_some();
    if has("x-goog-upload-status") {
        (&X_GOOG, X_GOOG_MARK)
    } else if has("tus-resumable") {
        (&TUS, TUS_MARK)
    } else if has("upload-draft-interop-version") {
        (&IETF, IETF_MARK)
    } else {
        (&GOOGLE, "")
    }
}
