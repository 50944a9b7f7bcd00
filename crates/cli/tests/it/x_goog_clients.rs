//! The requests of libraries that speak `X-Goog-Upload`, in each library's form, through every
//! event of an upload (docs/protocol.md, 2.12).
//!
//! Libraries that can be installed run unmodified in `conformance/`. The remaining libraries are
//! here: Google's older library for Ruby, and its generated libraries for Java, PHP and Ruby.

use windlass_testkit::farm;
use windlass_testkit::media::Media;
use windlass_testkit::raw::{RawPeer, Reply, Request, exchange};
use windlass_testkit::session::{CHUNK_GRANULARITY, target_in};

use crate::server::farm;

const CHUNK: u64 = CHUNK_GRANULARITY;

/// How a library ends an upload.
#[derive(Debug, Clone, Copy)]
enum End {
    /// With its last chunk.
    LastChunk,
    /// With a separate request after all chunks.
    Finalize { with_offset: bool },
}

/// The reaction of a library to a chunk without a reply.
#[derive(Debug, Clone, Copy)]
enum Recovery {
    /// It sends the chunk again, without asking.
    Resend,
    /// It asks how many bytes have arrived, and continues there.
    Query,
    /// Like `Query`, but it continues from the multiple of the granularity below.
    QueryAndRoundDown,
}

/// The features of a library's requests that differ between libraries.
#[derive(Debug, Clone, Copy)]
struct Library {
    name: &'static str,
    /// Whether the start tells the size of the media, and by which header.
    size_header: Option<&'static str>,
    type_header: &'static str,
    /// Whether requests to the session repeat the protocol.
    repeats_protocol: bool,
    /// The type of the bodies of chunks, which means nothing.
    chunk_type: Option<&'static str>,
    chunk: u64,
    end: End,
    recovery: Recovery,
}

const HEADER_LENGTH: Option<&str> = Some("X-Goog-Upload-Header-Content-Length");
const HEADER_TYPE: &str = "X-Goog-Upload-Header-Content-Type";

const LIBRARIES: [Library; 7] = [
    Library {
        name: "google-api-client for Ruby",
        size_header: HEADER_LENGTH,
        type_header: HEADER_TYPE,
        repeats_protocol: false,
        chunk_type: None,
        chunk: u64::MAX,
        end: End::LastChunk,
        recovery: Recovery::Query,
    },
    Library {
        name: "gapic-common for Ruby",
        size_header: None,
        type_header: HEADER_TYPE,
        repeats_protocol: false,
        chunk_type: None,
        chunk: CHUNK,
        end: End::Finalize { with_offset: false },
        recovery: Recovery::Query,
    },
    Library {
        name: "gax for Java",
        size_header: HEADER_LENGTH,
        type_header: HEADER_TYPE,
        repeats_protocol: false,
        chunk_type: Some("application/octet-stream"),
        chunk: CHUNK,
        end: End::Finalize { with_offset: false },
        recovery: Recovery::Resend,
    },
    Library {
        name: "gax for PHP",
        size_header: HEADER_LENGTH,
        type_header: HEADER_TYPE,
        repeats_protocol: false,
        chunk_type: None,
        chunk: CHUNK,
        end: End::Finalize { with_offset: true },
        recovery: Recovery::Query,
    },
    Library {
        name: "GTMSessionFetcher",
        size_header: Some("X-Goog-Upload-Content-Length"),
        type_header: "X-Goog-Upload-Content-Type",
        repeats_protocol: true,
        chunk_type: None,
        chunk: CHUNK,
        end: End::LastChunk,
        recovery: Recovery::QueryAndRoundDown,
    },
    Library {
        name: "firebase for JavaScript",
        size_header: HEADER_LENGTH,
        type_header: HEADER_TYPE,
        repeats_protocol: false,
        chunk_type: None,
        chunk: CHUNK,
        end: End::LastChunk,
        recovery: Recovery::Query,
    },
    Library {
        name: "google-genai",
        size_header: HEADER_LENGTH,
        type_header: HEADER_TYPE,
        repeats_protocol: true,
        chunk_type: Some("application/json"),
        chunk: 2 * CHUNK,
        end: End::LastChunk,
        recovery: Recovery::Resend,
    },
];

/// An upload of a library.
struct Upload {
    library: Library,
    media: Media,
    target: String,
}

impl Upload {
    #[track_caller]
    fn start(library: Library, media: Media) -> Self {
        let mut start = Request::new("POST", farm::UPLOADS)
            .header("X-Goog-Upload-Protocol", "resumable")
            .header("X-Goog-Upload-Command", "start")
            .header(library.type_header, "image/png")
            .header("Content-Type", "application/json");
        if let Some(header) = library.size_header {
            start = start.header(header, media.len());
        }
        let reply = exchange(farm(), &start.body(farm::named(library.name))).expect(200);
        assert_eq!(reply.header("x-goog-upload-status"), Some("active"));
        let target = target_in(&reply, "x-goog-upload-url");
        Self {
            library,
            media,
            target: target.expect("it is an absolute URI"),
        }
    }

    fn request(&self, command: &str) -> Request {
        let mut request =
            Request::new("POST", &self.target).header("X-Goog-Upload-Command", command);
        if self.library.repeats_protocol {
            request = request.header("X-Goog-Upload-Protocol", "resumable");
        }
        match self.library.chunk_type {
            Some(content_type) => request.header("Content-Type", content_type),
            None => request,
        }
    }

    /// The chunk at `offset`, without its body, and where it ends.
    fn chunk(&self, offset: u64) -> (Request, u64) {
        let end = offset
            .saturating_add(self.library.chunk)
            .min(self.media.len());
        let ends = matches!(self.library.end, End::LastChunk) && end == self.media.len();
        let command = if ends { "upload, finalize" } else { "upload" };
        let request = self.request(command);
        (request.header("X-Goog-Upload-Offset", offset), end)
    }

    #[track_caller]
    fn send_chunk(&self, offset: u64) -> (Reply, u64) {
        let (request, end) = self.chunk(offset);
        let body = self.media.bytes(offset..end);
        (exchange(farm(), &request.body(body)), end)
    }

    /// Returns the offset from which the library continues after a chunk at `offset` without a
    /// reply.
    #[track_caller]
    fn recover(&self, offset: u64) -> u64 {
        if let Recovery::Resend = self.library.recovery {
            return offset;
        }
        let reply = exchange(farm(), &self.request("query").body("")).expect(200);
        if reply.header("x-goog-upload-status") == Some("final") {
            return self.media.len();
        }
        let received = reply.header("x-goog-upload-size-received");
        let received: u64 = received.expect("a size").parse().expect("a number");
        match self.library.recovery {
            Recovery::QueryAndRoundDown => received / CHUNK * CHUNK,
            Recovery::Query | Recovery::Resend => received,
        }
    }

    /// Sends everything from `offset` on. Returns the final reply.
    #[track_caller]
    fn finish(&self, mut offset: u64) -> Reply {
        let mut last = None;
        while offset < self.media.len()
            || (last.is_none() && matches!(self.library.end, End::LastChunk))
        {
            let (reply, end) = self.send_chunk(offset);
            assert_eq!(reply.status, 200, "{reply:?}");
            offset = end;
            last = Some(reply);
        }
        let last = match self.library.end {
            End::LastChunk => last.expect("a chunk was sent"),
            End::Finalize { with_offset } => {
                let mut request = self.request("finalize");
                if with_offset {
                    request = request.header("X-Goog-Upload-Offset", offset);
                }
                exchange(farm(), &request.body(""))
            }
        };
        assert_eq!(
            last.header("x-goog-upload-status"),
            Some("final"),
            "{last:?}"
        );
        last
    }
}

/// Runs a case for every library.
fn for_every_library(media: Media, case: impl Fn(&Upload)) {
    for library in LIBRARIES {
        let upload = Upload::start(library, media);
        let shown = std::panic::AssertUnwindSafe(|| case(&upload));
        assert!(std::panic::catch_unwind(shown).is_ok(), "{}", library.name);
    }
}

const MEDIA: Media = Media::new(41, 4 * CHUNK + 11);

#[test]
fn small_empty_and_long_media_is_uploaded() {
    for length in [0, 1, 1000, CHUNK, 2 * CHUNK, 4 * CHUNK + 11] {
        let media = Media::new(40, length);
        for_every_library(media, |upload| {
            farm::assert_media(farm(), &upload.finish(0), media);
        });
    }
}

#[test]
fn upload_goes_on_after_a_chunk_that_breaks_off() {
    for_every_library(MEDIA, |upload| {
        let (head, end) = upload.chunk(0);
        let head = head.header("Content-Length", end);
        let mut peer = RawPeer::connect(farm());
        // The interim reply says that the session has this request: if it came to the session after
        // the next one, it would take over from that.
        peer.send(head.header("Expect", "100-continue").head_bytes());
        assert_eq!(peer.head().expect("an interim reply").status, 100);
        peer.send(MEDIA.bytes(0..end / 2));
        drop(peer);
        let reply = upload.finish(upload.recover(0));
        farm::assert_media(farm(), &reply, MEDIA);
    });
}

#[test]
fn upload_goes_on_after_a_lost_reply() {
    for_every_library(MEDIA, |upload| {
        upload.send_chunk(0);
        let reply = upload.finish(upload.recover(0));
        farm::assert_media(farm(), &reply, MEDIA);
    });
}

#[test]
fn final_reply_that_was_lost_is_repeated() {
    for_every_library(MEDIA, |upload| {
        let reply = upload.finish(0);
        // Whatever the library sends: the last chunk or the end again, or a query.
        for request in [
            upload.request("query").body(""),
            upload.request("finalize").body(""),
            upload.chunk(0).0.body(MEDIA.bytes(0..upload.chunk(0).1)),
        ] {
            let again = exchange(farm(), &request).expect(200);
            assert_eq!(again.header("x-goog-upload-status"), Some("final"));
            assert_eq!(again.body, reply.body);
        }
    });
}

#[test]
fn cancelled_upload_is_over() {
    for_every_library(MEDIA, |upload| {
        let (reply, _) = upload.send_chunk(0);
        if reply.header("x-goog-upload-status") == Some("final") {
            return;
        }
        let cancelled = exchange(farm(), &upload.request("cancel").body("")).expect(200);
        assert_eq!(cancelled.header("x-goog-upload-status"), Some("cancelled"));
        let (reply, _) = upload.send_chunk(CHUNK);
        assert_eq!(
            (reply.status, reply.header("x-goog-upload-status")),
            (400, Some("cancelled"))
        );
    });
}
