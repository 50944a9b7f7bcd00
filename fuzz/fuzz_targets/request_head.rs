//! No request head makes the protocol panic, in any dialect. A session that takes a body never
//! takes a byte beyond the size of the media or before its committed bytes. A client reads the
//! offset that the server has written into its reply.
//!
//! The input is a head as HTTP/1 has it: a request line without its version, then a header a line.

#![no_main]

use http::header::RANGE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use libfuzzer_sys::fuzz_target;
use windlass_fuzz::media;
use windlass_proto::body_digests::BodyDigests;
use windlass_proto::command::{
    BodyLength, Command, Framing, SessionHead, SessionRequest, effective_method,
};
use windlass_proto::content_range::CommittedRange;
use windlass_proto::dialect::{
    Dialect, Google, Ietf, Outcome, RequestHead, RequestTarget, SessionStatus, Tus, XGoogUpload,
};
use windlass_proto::error::ProtocolError;
use windlass_proto::parameters::Parameters;
use windlass_proto::session::{BodyFilter, Rules, Snapshot, State, Step, step};

/// Number of bytes that the session has.
const OFFSET: u64 = 262_144;

/// Size of the media, where it is known.
const TOTAL: u64 = 1_000_000;

/// Length of the packets of a body.
const PACKET: usize = 100_000;

fuzz_target!(|input: &[u8]| {
    let mut lines = input.split(|byte| *byte == b'\n');
    let request_line = lines.next().unwrap_or_default();
    let headers: HeaderMap = lines.filter_map(header).collect();
    let _ = judge(request_line, &headers);
});

/// `None` where the server's HTTP library would have refused the request already.
fn judge(request_line: &[u8], headers: &HeaderMap) -> Option<()> {
    let mut words = request_line.splitn(2, |byte| *byte == b' ');
    let method = Method::from_bytes(words.next()?).ok()?;
    let uri: http::Uri = str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let parameters = Parameters::parse(uri.query()).ok()?;
    let method = effective_method(&method, headers).ok()?;
    let target = RequestTarget {
        http_method: &method,
        is_upload_path: true,
        is_media_path: false,
        parameters: &parameters,
        headers,
    };
    let ietf = Ietf::default().of_request(&target)?;
    let tus = Tus::default().of_request(&target)?;
    // Each reads every head, including heads that it would not claim.
    let dialects: [&dyn Dialect; 4] = [&Google, &XGoogUpload, &*ietf, &*tus];
    for dialect in dialects {
        let _ = (dialect.claims(&target), dialect.intent(&target));
        if let Ok(digests) = BodyDigests::of(headers, dialect.digest_fields()) {
            // As if the head were the trailer section, too.
            let _ = digests.into_check().end(headers);
        }
    }
    for (version, end_of_stream) in [(Version::HTTP_11, false), (Version::HTTP_2, true)] {
        let Ok(framing) = Framing::of(version, headers, end_of_stream) else {
            continue;
        };
        let head = RequestHead {
            http_method: &method,
            parameters: &parameters,
            headers,
            framing,
        };
        for dialect in dialects {
            match dialect.command(&head) {
                Ok(Command::Session(head)) => session(dialect, &head),
                Ok(Command::Start(head)) => assert!(head.declared_total() != Some(0)),
                Ok(_) => {}
                Err(error) => assert!(dialect.protocol_error(&error).status.as_u16() >= 300),
            }
        }
    }
    Some(())
}

fn session(dialect: &dyn Dialect, head: &SessionHead) {
    let rules = dialect.rules(Rules::default());
    for total in [None, Some(TOTAL)] {
        let session = Snapshot {
            state: State::Active,
            offset: OFFSET,
            total,
        };
        match step(&session, &rules, &head.request) {
            Ok(Step::Append(filter)) => append(filter, &head.request),
            Ok(Step::Finish { total: end }) => {
                assert_eq!(end, OFFSET);
                assert!(total.is_none_or(|total| total == end));
            }
            Ok(Step::Report) => {}
            Ok(other) => panic!("{other:?} of an active session"),
            Err(error) => {
                let reply = dialect.protocol_error(&ProtocolError::Session(error));
                assert!(reply.status.as_u16() >= 300);
            }
        }
    }
    let reply = dialect.reply(Outcome::Committed {
        status: SessionStatus::with_offset(OFFSET),
        upload_id: &head.upload_id,
        no_308: head.no_308,
    });
    assert_eq!(offset_in(&reply.headers), Some(OFFSET));
}

fn append(mut filter: BodyFilter, request: &SessionRequest) {
    assert!(filter.position() <= OFFSET, "there is no gap");
    let (first, total, hint) = (filter.position(), filter.total(), filter.remaining_hint());
    let end = match request.body {
        BodyLength::Exact(length) => first.saturating_add(length),
        BodyLength::Unknown => media::LEN,
    };
    let mut stored = OFFSET;
    for start in (first..end.min(media::LEN)).step_by(PACKET) {
        let packet = media::slice(start, end.min(start + PACKET as u64));
        let Ok(kept) = filter.accept(packet) else {
            return;
        };
        assert!(media::is_at(&kept, stored));
        stored += kept.len() as u64;
        assert!(total.is_none_or(|total| stored <= total));
        assert!(hint.is_none_or(|hint| stored <= OFFSET + hint));
    }
}

/// The offset in a reply, in the form of any dialect.
fn offset_in(headers: &HeaderMap) -> Option<u64> {
    let range = headers.get(RANGE);
    if let Some(range) = range.and_then(|range| CommittedRange::parse(range.as_bytes())) {
        return Some(range.committed());
    }
    let names = ["x-goog-upload-size-received", "upload-offset"];
    let received = names.iter().find_map(|name| headers.get(*name))?;
    received.to_str().ok()?.parse().ok()
}

fn header(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = HeaderName::from_bytes(&line[..colon]).ok()?;
    let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
    Some((name, value))
}
