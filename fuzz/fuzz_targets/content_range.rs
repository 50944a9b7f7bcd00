//! Parsed `Content-Range` and `Range` headers are consistent, and parse to the same value after
//! they are written.
//!
//! The input is the value of a header and, after a line feed, the length of a media.

#![no_main]

use http::HeaderValue;
use http::header::RANGE;
use libfuzzer_sys::fuzz_target;
use windlass_fuzz::first_line;
use windlass_proto::content_range::{CommittedRange, ContentRange, header_value};
use windlass_proto::dialect::{Dialect, Google, Outcome, SessionStatus};
use windlass_proto::parameters::UploadId;
use windlass_server::fuzzing::Requested;

fuzz_target!(|input: &[u8]| {
    let (value, length) = first_line(input);
    let length = str::from_utf8(length).ok();
    let length = length.and_then(|it| it.trim().parse().ok()).unwrap_or(1000);
    content_range(value);
    committed_range(value);
    reported_range(length);
    if let Ok(value) = HeaderValue::from_bytes(value) {
        requested_range(&value, length);
    }
});

/// Of a request to a session.
fn content_range(value: &[u8]) {
    let Ok(range) = ContentRange::parse(value) else {
        return;
    };
    match range {
        ContentRange::Bounded { first, last, total } => {
            assert!(first <= last && last < u64::MAX);
            assert!(total.is_none_or(|total| last < total));
        }
        ContentRange::ToEnd { first, total } => assert!(total.is_none_or(|total| first <= total)),
        ContentRange::Query { .. } => {}
    }
    let written = header_value(range);
    assert_eq!(ContentRange::parse(written.as_bytes()), Ok(range));
}

/// Of a 308, as a client reads it.
fn committed_range(value: &[u8]) {
    let Some(range) = CommittedRange::parse(value) else {
        return;
    };
    assert!(range.committed() > 0);
    assert_eq!(CommittedRange::of(range.committed()), Some(range));
    let written = HeaderValue::from(range);
    assert_eq!(CommittedRange::parse(written.as_bytes()), Some(range));
}

/// Of a 308, as the server writes it.
fn reported_range(offset: u64) {
    let upload_id = UploadId::from("a");
    let reply = Google.reply(Outcome::Committed {
        status: SessionStatus::with_offset(offset),
        upload_id: &upload_id,
        no_308: false,
    });
    let range = reply.headers.get(RANGE);
    let range = range.and_then(|range| CommittedRange::parse(range.as_bytes()));
    assert_eq!(range.map_or(0, CommittedRange::committed), offset);
}

/// Of a download.
fn requested_range(value: &HeaderValue, length: u64) {
    match Requested::parse(value, length) {
        Requested::Whole => {}
        Requested::Part(bytes, header) => {
            assert!(bytes.start < bytes.end && bytes.end <= length);
            let expected = ContentRange::Bounded {
                first: bytes.start,
                last: bytes.end - 1,
                total: Some(length),
            };
            assert_eq!(ContentRange::parse(header.as_bytes()), Ok(expected));
        }
        Requested::NotSatisfiable(header) => {
            let expected = ContentRange::Query {
                total: Some(length),
            };
            assert_eq!(ContentRange::parse(header.as_bytes()), Ok(expected));
        }
    }
}
