//! No request head makes the protocol panic, and a session that takes a body never takes a byte beyond
//! the length of the media.
//!
//! The input is a head as HTTP/1 has it: a request line without its version, then a header a line.

#![no_main]

use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use libfuzzer_sys::fuzz_target;
use windlass_proto::command::{Command, Framing, effective_method};
use windlass_proto::dialect::{Dialect, Google, RequestHead, XGoogUpload};
use windlass_proto::parameters::Parameters;
use windlass_proto::session::{Rules, Snapshot, State, step};

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
    let target: http::Uri = str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let parameters = Parameters::parse(target.query()).ok()?;
    let method = effective_method(&method, headers).ok()?;
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
        let dialects: [&dyn Dialect; 2] = [&Google, &XGoogUpload];
        for dialect in dialects {
            if let Ok(Command::Session(head)) = dialect.command(&head) {
                let session = Snapshot {
                    state: State::Active,
                    offset: 262_144,
                    total: Some(1_000_000),
                };
                let _ = step(&session, &Rules::default(), &head.request);
            }
        }
    }
    Some(())
}

fn header(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = HeaderName::from_bytes(&line[..colon]).ok()?;
    let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
    Some((name, value))
}
