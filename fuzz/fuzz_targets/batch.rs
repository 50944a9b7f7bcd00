//! No body of a batch makes the parser panic, and accepted bodies keep the bounds.
//!
//! The input is a `Content-Type` up to the first line feed, and the body.

#![no_main]

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use windlass_fuzz::first_line;
use windlass_proto::batch::{MAX_CALLS, MAX_FIELDS, boundary, calls};

fuzz_target!(|input: &[u8]| {
    let (content_type, body) = first_line(input);
    let Ok(content_type) = HeaderValue::from_bytes(content_type) else {
        return;
    };
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type)]);
    let Ok(boundary) = boundary(&headers) else {
        return;
    };
    let Ok(calls) = calls(Bytes::copy_from_slice(body), boundary, 16 * 1024) else {
        return;
    };
    assert!((1..=MAX_CALLS).contains(&calls.len()));
    for call in calls {
        assert!(call.headers.len() <= MAX_FIELDS);
        assert!(call.target.path().starts_with('/'));
        assert!(call.body.len() <= body.len());
    }
});
