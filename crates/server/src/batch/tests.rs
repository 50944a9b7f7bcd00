use http::Method;

use super::*;

fn call(target: &str, headers: &[(&str, &str)]) -> Call {
    Call {
        content_id: None,
        http_method: Method::PATCH,
        target: target.parse().unwrap(),
        headers: map(headers),
        body: Bytes::from_static(b"{}"),
    }
}

fn map(fields: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, value.parse().unwrap());
    }
    headers
}

#[test]
fn headers_of_the_batch_hold_for_each_call_unless_it_has_its_own() {
    let batch = map(&[
        ("host", "farm.test"),
        ("authorization", "Bearer batch"),
        ("if-match", "\"batch\""),
        ("x-farm", "1"),
        ("x-farm", "2"),
        ("content-type", "multipart/mixed; boundary=b"),
        ("content-length", "500"),
        ("content-encoding", "gzip"),
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("expect", "100-continue"),
        ("x-http-method-override", "GET"),
    ]);
    let plain = headers_of(&batch, &call("/a", &[]), |_| false);
    let expected = map(&[
        ("host", "farm.test"),
        ("authorization", "Bearer batch"),
        ("if-match", "\"batch\""),
        ("x-farm", "1"),
        ("x-farm", "2"),
        ("content-length", "2"),
    ]);
    assert_eq!(plain, expected);
    let own = [
        ("authorization", "Bearer call"),
        ("if-match", "\"call\""),
        ("x-goog-if-generation-match", "7"),
        ("content-type", "application/json"),
        ("x-http-method-override", "PATCH"),
    ];
    let headers = headers_of(&batch, &call("/a", &own), |_| false);
    for (name, value) in own {
        assert_eq!(headers.get_all(name).iter().collect::<Vec<_>>(), [value]);
    }
}

#[test]
fn header_that_a_proxy_may_set_is_not_taken_from_a_call() {
    let own = [
        ("host", "elsewhere.test"),
        ("forwarded", "host=elsewhere.test"),
        ("x-forwarded-host", "elsewhere.test"),
        ("x-goog-authenticated-user-email", "root"),
        ("transfer-encoding", "chunked"),
        ("content-length", "7"),
    ];
    let batch = map(&[("host", "farm.test")]);
    let expected = map(&[("host", "farm.test"), ("content-length", "2")]);
    // Not even where an API refuses all headers of a kind.
    for is_refused in [
        |_: &HeaderName| false,
        |name: &HeaderName| {
            ["x-goog-", "x-forwarded-"]
                .iter()
                .any(|it| name.as_str().starts_with(it))
        },
    ] {
        assert_eq!(headers_of(&batch, &call("/a", &own), is_refused), expected);
    }
}

#[test]
fn header_that_an_api_refuses_is_taken_from_a_call() {
    let own = [("x-goog-encryption-key", "k"), ("x-farm", "1")];
    let is_refused = |name: &HeaderName| name == "x-goog-encryption-key";
    let headers = headers_of(&map(&[]), &call("/a", &own), is_refused);
    let expected = map(&[("x-goog-encryption-key", "k"), ("content-length", "2")]);
    assert_eq!(headers, expected);
}

#[test]
fn target_is_at_the_origin_of_the_batch_without_the_mount() {
    for (base_url, batch, target, expected) in [
        ("http://h", "/batch", "/a?b=c", "/a?b=c"),
        ("http://h", "/batch", "http://h/a?b", "/a?b"),
        ("http://h", "https://h/batch", "/a", "https://h/a"),
        ("http://h/m", "/batch", "/m/a?b", "/a?b"),
        ("http://h/m", "/batch", "https://h/m/a", "/a"),
        // Some clients know one path only.
        ("http://h/m", "/batch", "/a", "/a"),
        ("http://h/m", "/batch", "/mice", "/mice"),
        ("http://h/m", "/batch", "/m?a", "/m?a"),
    ] {
        let (mut head, ()) = Request::new(()).into_parts();
        head.uri = batch.parse().unwrap();
        let base_url = base_url.parse().unwrap();
        let uri = target_of(&head, &base_url, &target.parse().unwrap()).unwrap();
        assert_eq!(uri, expected, "{base_url} {batch} {target}");
    }
}
