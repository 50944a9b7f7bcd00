//! A client of each dialect of the server: its requests, and its reading of the replies.

use std::ops::Range;

use http::StatusCode;
use windlass_testkit::farm::UPLOADS;

use crate::world::{Body, Peer, Reply, World};

/// The dialect of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Google,
    XGoogUpload,
    Tus,
    Ietf,
}

/// A request of a client.
#[derive(Debug, Clone)]
pub(crate) struct ClientRequest {
    method: &'static str,
    uri: String,
    headers: Vec<(&'static str, String)>,
    body: Body,
}

impl ClientRequest {
    fn new(method: &'static str, uri: &str) -> Self {
        let (uri, headers) = (uri.to_owned(), Vec::new());
        let body = Body::Whole(Vec::new());
        Self {
            method,
            uri,
            headers,
            body,
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }

    fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) async fn to<P: Peer>(self, peer: &P) -> Reply {
        let headers = self.headers.iter();
        let headers: Vec<_> = headers.map(|(name, value)| (*name, &**value)).collect();
        peer.try_send(self.method, &self.uri, &headers, self.body)
            .await
    }
}

/// The outcome of a request, as a client of one dialect reads it in the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The session has this number of bytes.
    Committed(u64),
    /// The upload is finished.
    Finished,
    Cancelled,
    Refused,
}

impl Protocol {
    pub(crate) const ALL: [Self; 4] = [Self::Google, Self::XGoogUpload, Self::Tus, Self::Ietf];

    /// The name that sessions remember.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Google => "google",
            Self::XGoogUpload => "x-goog-upload",
            Self::Tus => "tus",
            Self::Ietf => "ietf",
        }
    }

    /// Starts an upload of an animal.
    pub(crate) fn start(self, length: Option<u64>) -> ClientRequest {
        let with_length = |request: ClientRequest, name| match length {
            Some(length) => request.header(name, &length),
            None => request,
        };
        match self {
            Self::Google => {
                let target = format!("{UPLOADS}?uploadType=resumable");
                let start = ClientRequest::new("POST", &target);
                with_length(start, "x-upload-content-length")
                    .header("x-upload-content-type", &"image/png")
            }
            Self::XGoogUpload => {
                let start = command(UPLOADS, "start");
                let start = start.header("x-goog-upload-protocol", &"resumable");
                with_length(start, "x-goog-upload-header-content-length")
                    .header("x-goog-upload-header-content-type", &"image/png")
            }
            Self::Tus => {
                let start = tus("POST", UPLOADS);
                let start = start.header("upload-metadata", &"filetype aW1hZ2UvcG5n");
                match length {
                    Some(length) => start.header("upload-length", &length),
                    None => start.header("upload-defer-length", &1),
                }
            }
            Self::Ietf => {
                let start = ClientRequest::new("POST", UPLOADS);
                let start = start.header("upload-complete", &"?0");
                with_length(start, "upload-length").header("content-type", &"image/png")
            }
        }
    }

    /// Path and query of the session that a reply to a start names.
    #[track_caller]
    pub(crate) fn session(self, started: &Reply) -> String {
        let name = match self {
            Self::XGoogUpload => "x-goog-upload-url",
            Self::Google | Self::Tus | Self::Ietf => "location",
        };
        started.link(name, World::ORIGIN).to_owned()
    }

    /// The URI of a session, in the form of this dialect.
    pub(crate) fn readdressed(self, session: &str) -> String {
        let in_path = session.strip_prefix("/upload/-tus/");
        let (id, plain) = if let Some(in_path) = in_path {
            in_path.split_once('/').expect("a path behind the id")
        } else {
            let (path, query) = session.split_once('?').expect("a query");
            let (_, id) = query.split_once("upload_id=").expect("an id");
            (id, path.strip_prefix("/upload/").expect("an upload path"))
        };
        let upload_type = match self {
            Self::Tus => return format!("/upload/-tus/{id}/{plain}"),
            Self::Google | Self::XGoogUpload => "resumable",
            Self::Ietf => "ietf",
        };
        format!("/upload/{plain}?uploadType={upload_type}&upload_id={id}")
    }

    /// Brings these bytes of the media, or the first of them, and does not end the upload.
    pub(crate) fn append(
        self,
        session: &str,
        range: Range<u64>,
        body: impl Into<Body>,
    ) -> ClientRequest {
        let append = match self {
            Self::Google => {
                let range = format!("bytes {}-{}/*", range.start, range.end - 1);
                ClientRequest::new("PUT", session).header("content-range", &range)
            }
            Self::XGoogUpload => {
                command(session, "upload").header("x-goog-upload-offset", &range.start)
            }
            Self::Tus => part(tus("PATCH", session), range.start),
            Self::Ietf => ietf_part(session, range.start).header("upload-complete", &"?0"),
        };
        append.body(body)
    }

    /// Brings these bytes of the media, or the first of them, as its last.
    pub(crate) fn end(
        self,
        session: &str,
        range: Range<u64>,
        body: impl Into<Body>,
    ) -> ClientRequest {
        let end = match self {
            Self::Google => {
                let total = range.end;
                let range = if range.is_empty() {
                    format!("bytes */{total}")
                } else {
                    format!("bytes {}-{}/{total}", range.start, total - 1)
                };
                ClientRequest::new("PUT", session).header("content-range", &range)
            }
            Self::XGoogUpload => {
                command(session, "upload, finalize").header("x-goog-upload-offset", &range.start)
            }
            Self::Tus => {
                part(tus("PATCH", session), range.start).header("upload-length", &range.end)
            }
            Self::Ietf => ietf_part(session, range.start).header("upload-complete", &"?1"),
        };
        end.body(body)
    }

    /// Asks how many bytes are committed.
    pub(crate) fn query(self, session: &str) -> ClientRequest {
        match self {
            Self::Google => {
                ClientRequest::new("PUT", session).header("content-range", &"bytes */*")
            }
            Self::XGoogUpload => command(session, "query"),
            Self::Tus => tus("HEAD", session),
            Self::Ietf => ClientRequest::new("HEAD", session),
        }
    }

    /// Cancels the upload.
    pub(crate) fn cancel(self, session: &str) -> ClientRequest {
        match self {
            Self::Google | Self::Ietf => ClientRequest::new("DELETE", session),
            Self::XGoogUpload => command(session, "cancel"),
            Self::Tus => tus("DELETE", session),
        }
    }

    /// Reads a reply to any request but a start.
    pub(crate) fn read(self, reply: &Reply) -> Outcome {
        let header = |name| reply.headers.get(name).map(|it| it.to_str().expect("text"));
        let number = |name| header(name).map(|it| it.parse::<u64>().expect("a number"));
        let is_success = reply.status.is_success();
        match (self, number("upload-offset")) {
            // The reply to a cancel in Google's dialect, or in another one.
            _ if matches!(reply.status.as_u16(), 499) => Outcome::Cancelled,
            (Self::Google, _) => match reply.status.as_u16() {
                308 => Outcome::Committed(reply.committed()),
                200 | 201 => Outcome::Finished,
                204 => Outcome::Cancelled,
                _ => Outcome::Refused,
            },
            (Self::XGoogUpload, _) => match header("x-goog-upload-status") {
                Some("active") if is_success => {
                    let received = number("x-goog-upload-size-received");
                    Outcome::Committed(received.expect("the offset of an active session"))
                }
                Some("final") if is_success => Outcome::Finished,
                Some("cancelled") => Outcome::Cancelled,
                _ => Outcome::Refused,
            },
            (Self::Tus | Self::Ietf, _) if !is_success => Outcome::Refused,
            // A client of tus takes an upload of the stated length for finished. The reply to a part
            // states no length. It states an expiry, unless the upload is finished.
            (Self::Tus, Some(offset)) => {
                let is_part = reply.status == StatusCode::NO_CONTENT;
                let is_finished = is_part && header("upload-expires").is_none();
                if is_finished || number("upload-length") == Some(offset) {
                    Outcome::Finished
                } else {
                    Outcome::Committed(offset)
                }
            }
            (Self::Ietf, Some(_)) if header("upload-complete") == Some("?1") => Outcome::Finished,
            (Self::Ietf, Some(offset)) => Outcome::Committed(offset),
            (Self::Tus | Self::Ietf, None) => Outcome::Cancelled,
        }
    }
}

fn command(uri: &str, command: &str) -> ClientRequest {
    ClientRequest::new("POST", uri).header("x-goog-upload-command", &command)
}

fn tus(method: &'static str, uri: &str) -> ClientRequest {
    ClientRequest::new(method, uri).header("tus-resumable", &"1.0.0")
}

fn part(request: ClientRequest, offset: u64) -> ClientRequest {
    request
        .header("content-type", &"application/offset+octet-stream")
        .header("upload-offset", &offset)
}

fn ietf_part(session: &str, offset: u64) -> ClientRequest {
    ClientRequest::new("PATCH", session)
        .header("content-type", &"application/partial-upload")
        .header("upload-offset", &offset)
}
