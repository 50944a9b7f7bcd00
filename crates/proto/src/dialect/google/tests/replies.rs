use super::*;

#[track_caller]
fn check(reply: &ReplyHead, expected: &[(&str, &str)]) {
    let mut expected = expected.to_vec();
    expected.extend([
        ("content-length", "0"),
        ("content-type", "text/plain; charset=utf-8"),
    ]);
    let mut found: Vec<_> = reply
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn committed_bytes_are_reported_with_308() {
    let reply = resume_incomplete(262_144, false);
    assert_eq!(
        (reply.status.as_u16(), reply.reason_phrase),
        (308, Some("Resume Incomplete"))
    );
    check(&reply, &[("range", "bytes=0-262143")]);
}

#[test]
fn zero_committed_bytes_are_reported_without_range() {
    check(&resume_incomplete(0, false), &[]);
    check(
        &resume_incomplete(0, true),
        &[("x-http-status-code-override", "308")],
    );
}

#[test]
fn client_without_308_gets_200_with_an_override() {
    let reply = resume_incomplete(1, true);
    assert_eq!((reply.status.as_u16(), reply.reason_phrase), (200, None));
    check(
        &reply,
        &[
            ("range", "bytes=0-0"),
            ("x-http-status-code-override", "308"),
        ],
    );
}

#[test]
fn start_is_answered_with_200_and_location() {
    let location = "http://localhost/upload/farm/v1/animals?uploadType=resumable&upload_id=u";
    let reply = started(
        HeaderValue::from_static(location),
        HeaderValue::from_static("u"),
    );
    assert_eq!((reply.status.as_u16(), reply.reason_phrase), (200, None));
    check(
        &reply,
        &[
            (
                "cache-control",
                "no-cache, no-store, max-age=0, must-revalidate",
            ),
            ("expires", "Mon, 01 Jan 1990 00:00:00 GMT"),
            ("location", location),
            ("pragma", "no-cache"),
            ("x-guploader-uploadid", "u"),
        ],
    );
}
