//! Parameters in the body of a POST that stands for another HTTP method (docs/protocol.md, 2.2).
//!
//! If the URL of a GET is longer than 2,048 characters, Google's libraries send a POST with
//! `X-HTTP-Method-Override: GET` and with the query as a form in the body. This module appends the
//! form to the query before anything reads the query. A parameter therefore has the same effect in
//! both places. This includes parameters that decide about access: `key`, `access_token`,
//! `upload_id` and signed links.
//!
//! A form is used only with the override. A page of another origin can send a form without a
//! preflight, but it cannot send that header without one.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, Uri};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use windlass_proto::command::{ContentCoding, effective_method};

use crate::body::RequestBody;
use crate::error::{BodyError, Error};

/// The media type of a form. Its pairs have the syntax of a query.
const FORM: &str = "application/x-www-form-urlencoded";

/// Bytes that are valid in a form and not in a target. Escapes in the form are kept.
const NOT_IN_TARGETS: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>');

/// The longest target of a request, in bytes. The HTTP library refuses longer targets.
const MAX_TARGET: usize = 65_534;

/// Methods with requests that have no body.
const WITHOUT_BODY: [Method; 3] = [Method::GET, Method::HEAD, Method::DELETE];

/// Appends the form in the body of a POST to its query, if the POST stands for a method without a
/// body. The limit on the form is `limit` bytes, as for a head.
///
/// # Errors
/// [`Error::NotAForm`] if the body is not a form, because it would have no effect.
/// [`BodyError::TooLong`] if the form is too long for a head.
pub(crate) async fn append_to_query(
    head: &mut Parts,
    body: &mut RequestBody,
    limit: usize,
) -> Result<(), Error> {
    let Some(http_method) = overridden(head) else {
        return Ok(());
    };
    ContentCoding::from_headers(&head.headers)?;
    if !is_form(&head.headers) {
        return if body.is_empty().await? {
            Ok(())
        } else {
            Err(Error::NotAForm { http_method })
        };
    }
    let mut form = Vec::new();
    while body.append(&mut form, limit.min(MAX_TARGET)).await? {
        body.set_held_bytes(form.capacity() as u64)?;
    }
    if form.is_empty() {
        return Ok(());
    }
    let before = head.uri.path_and_query().map_or(0, |it| it.as_str().len());
    head.uri = with_form(&head.uri, &form).ok_or(BodyError::TooLong { limit })?;
    let after = head.uri.path_and_query().map_or(0, |it| it.as_str().len());
    body.enlarge_head((after - before) as u64)?;
    // The body has been read, so nothing may depend on its headers any more.
    for name in [
        CONTENT_ENCODING,
        CONTENT_LENGTH,
        CONTENT_TYPE,
        TRANSFER_ENCODING,
    ] {
        head.headers.remove(name);
    }
    Ok(())
}

/// Returns the method that a POST stands for, if requests of this method have no body.
fn overridden(head: &Parts) -> Option<Method> {
    let called = effective_method(&head.method, &head.headers).ok()?;
    (head.method == Method::POST && WITHOUT_BODY.contains(&called)).then_some(called)
}

/// Whether the body is a form in UTF-8, which includes ASCII.
fn is_form(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(stated), None) = (types.next(), types.next()) else {
        return false;
    };
    let Ok(stated) = stated.to_str() else {
        return false;
    };
    let mut parts = stated.split(';').map(str::trim);
    let is_form = parts.next().is_some_and(|it| it.eq_ignore_ascii_case(FORM));
    is_form && parts.all(is_readable)
}

/// Whether the form is readable with a parameter of the media type, that is, the parameter states
/// no other charset.
fn is_readable(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else {
        return true;
    };
    let value = value.trim().trim_matches('"');
    let known = ["utf-8", "utf8", "us-ascii"];
    !name.trim().eq_ignore_ascii_case("charset")
        || known.iter().any(|it| value.eq_ignore_ascii_case(it))
}

/// Returns the target with the form behind its query; `None` if it is too long.
fn with_form(uri: &Uri, form: &[u8]) -> Option<Uri> {
    let form = percent_encode(form, NOT_IN_TARGETS);
    let query = uri.query().filter(|query| !query.is_empty());
    let target = match query {
        Some(query) => format!("{}?{query}&{form}", uri.path()),
        None => format!("{}?{form}", uri.path()),
    };
    if target.len() > MAX_TARGET {
        return None;
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;
    use http_body_util::Full;

    use super::*;
    use crate::capacity::Capacity;
    use crate::config::Limits;
    use windlass_engine::LimitedResource;

    /// Reads the form of a request. Returns the request's head and the result.
    async fn read(
        request: http::request::Builder,
        form: &[u8],
        limit: usize,
    ) -> (Parts, Result<(), Error>) {
        let body = Full::new(Bytes::copy_from_slice(form));
        let (mut head, body) = request.body(body).expect("it is valid").into_parts();
        let limits = Limits::default();
        let mut body = RequestBody::new(body, head.version, &head.headers, &limits);
        let result = append_to_query(&mut head, &mut body, limit).await;
        (head, result)
    }

    fn post(target: &str, standing_for: &str, content_type: &str) -> http::request::Builder {
        Request::post(target)
            .header("x-http-method-override", standing_for)
            .header("content-type", content_type)
    }

    #[tokio::test]
    async fn form_is_appended_to_the_query() {
        for (target, form, expected) in [
            ("/files", "q=a", "/files?q=a"),
            ("/files?", "q=a", "/files?q=a"),
            ("/files?alt=json", "q=a&q=b", "/files?alt=json&q=a&q=b"),
            (
                "http://a.localhost/files",
                "q=a",
                "http://a.localhost/files?q=a",
            ),
            ("/files", "q=a+b%20c", "/files?q=a+b%20c"),
            (
                "/files",
                "q=\"a#b\" <\u{e9}>\r\n",
                "/files?q=%22a%23b%22%20%3C%C3%A9%3E%0D%0A",
            ),
            ("/files?alt=json", "", "/files?alt=json"),
        ] {
            for standing_for in ["GET", "get", "HEAD", "DELETE"] {
                let request = post(target, standing_for, FORM).header("content-length", "1");
                let (head, result) = read(request, form.as_bytes(), 1000).await;
                result.expect("it is a form");
                assert_eq!(head.uri, expected, "{standing_for}");
                assert!(form.is_empty() || !head.headers.contains_key(CONTENT_LENGTH));
            }
        }
    }

    #[tokio::test]
    async fn type_states_a_form_in_utf_8() {
        for (content_type, is_read) in [
            ("application/x-www-form-urlencoded; charset=UTF-8", true),
            ("Application/X-WWW-Form-Urlencoded;charset=\"utf-8\"", true),
            ("application/x-www-form-urlencoded; boundary=b", true),
            (
                "application/x-www-form-urlencoded; charset=iso-8859-1",
                false,
            ),
            ("application/json", false),
            ("text/plain", false),
            ("", false),
        ] {
            let request = post("/files", "GET", content_type);
            let (head, result) = read(request, b"q=a", 1000).await;
            assert_eq!(head.uri.query(), is_read.then_some("q=a"), "{content_type}");
            let is_refused = matches!(result, Err(Error::NotAForm { .. }));
            assert_eq!(is_refused, !is_read, "{content_type}");
            let request = post("/files", "GET", content_type);
            read(request, b"", 1000).await.1.expect("it has no body");
        }
    }

    #[tokio::test]
    async fn body_of_other_requests_is_left_alone() {
        let plain = Request::get("/files").header("content-type", FORM);
        let get = plain.header("x-http-method-override", "GET");
        let form = Request::post("/files").header("content-type", FORM);
        for request in [
            get,
            form,
            post("/files", "PATCH", FORM),
            post("/files", "", FORM),
        ] {
            let (head, result) = read(request, b"q=a", 1000).await;
            result.expect("it is not read");
            assert_eq!(head.uri, "/files");
        }
    }

    #[tokio::test]
    async fn form_counts_to_the_memory_of_heads() {
        let capacity = Capacity::new(&Limits::default());
        let in_use = || {
            let usage = capacity.usage().into_iter();
            let of_heads = usage.filter(|it| it.resource == LimitedResource::Metadata);
            of_heads.map(|it| it.used).sum::<u64>()
        };
        let form = vec![b'a'; 10_000];
        let request = post("/files", "GET", FORM).body(Full::new(Bytes::from(form)));
        let (mut head, body) = request.expect("it is valid").into_parts();
        let limits = Limits::default();
        let mut body = RequestBody::new(body, head.version, &head.headers, &limits);
        body.count(capacity.metadata.permit(), 1_000).unwrap();
        let before = in_use();
        append_to_query(&mut head, &mut body, 20_000).await.unwrap();
        assert!(in_use() >= before + 9_000, "{} and {before}", in_use());
        body.forget_head();
        assert_eq!(in_use(), 0);
    }

    #[tokio::test]
    async fn form_is_no_longer_than_a_head() {
        let request = || post("/files", "GET", FORM);
        let (head, result) = read(request(), b"q=12345678", 10).await;
        result.expect("it is as long as it may be");
        assert_eq!(head.uri.query(), Some("q=12345678"));
        let (_, result) = read(request(), b"q=123456789", 10).await;
        assert!(matches!(
            result,
            Err(Error::Body(BodyError::TooLong { limit: 10 }))
        ));
        // Each byte takes three in a target.
        let escaped = vec![b' '; 30_000];
        let (_, result) = read(request(), &escaped, 40_000).await;
        assert!(matches!(
            result,
            Err(Error::Body(BodyError::TooLong { .. }))
        ));
    }
}
