//! `/BUCKET/OBJECT`: the path at which the XML API has an object, and the headers that it has there
//! alone.
//!
//! Sources: the reference of the XML API, "HTTP headers and query string parameters"
//! (`x-goog-meta-KEY`, `response-content-disposition`, `response-content-type`).

use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use windlass_discovery::Api;
use windlass_rest::handler::{Call, Rejection};

use super::bucket::fault_of_form;
use super::object::{MAX_HEADER_LEN, Object};
use crate::record::Fields;

/// Maximum number of entries of own metadata that are shown as headers. Python's library refuses a
/// reply with more than 100 headers, and a reply's head must stay short.
const MAX_METADATA_HEADERS: usize = 64;

/// Parameters that take the place of a header of the reply.
const OVERRIDES: [(&str, HeaderName); 2] = [
    ("response-content-disposition", CONTENT_DISPOSITION),
    ("response-content-type", CONTENT_TYPE),
];

/// Returns the path of `objects.get` for `/BUCKET/OBJECT`.
pub(super) fn alias(api: &Api, path: &str) -> Option<String> {
    let (bucket, object) = path.strip_prefix('/')?.split_once('/')?;
    if fault_of_form(bucket).is_some() || object.is_empty() || path.contains('{') {
        return None;
    }
    let get = api.method("storage.objects.get")?;
    let object = object.replace('/', "%2F");
    let path = get.template.as_str().replace("{bucket}", bucket);
    Some(format!("/download/{}", path.replace("{object}", &object)))
}

/// Returns the headers of a download at `/BUCKET/OBJECT`.
///
/// # Errors
/// [`Rejection::InvalidParameter`] for an unknown parameter `response-...`, or a value that is not
/// a valid header value.
pub(super) fn media_headers(call: &Call<'_>, object: &Object) -> Result<HeaderMap, Rejection> {
    let mut headers = object.media_headers();
    add_metadata(&mut headers, object.fields());
    for (name, value) in call.query.iter() {
        if name.starts_with("response-") {
            let (header, value) =
                overridden(name, value).map_err(|problem| Rejection::InvalidParameter {
                    parameter: name.to_owned(),
                    problem: problem.to_owned(),
                })?;
            // The service does so for requests with credentials alone.
            call.check_public(false)?;
            headers.insert(header, value);
        }
    }
    Ok(headers)
}

/// Adds own metadata. Keys that are no names of headers are left out: only the JSON has them.
fn add_metadata(headers: &mut HeaderMap, fields: &Fields) {
    let metadata = fields.get("metadata").and_then(Value::as_object);
    let shown = metadata.into_iter().flatten().filter_map(|(key, value)| {
        let name = HeaderName::try_from(format!("x-goog-meta-{key}")).ok()?;
        let value = HeaderValue::from_str(value.as_str()?).ok()?;
        Some((name, value))
    });
    for (name, value) in shown.take(MAX_METADATA_HEADERS) {
        headers.append(name, value);
    }
}

/// Returns the header that a parameter asks for.
fn overridden(parameter: &str, value: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let mut known = OVERRIDES.into_iter();
    let (_, header) = known.find(|(name, _)| *name == parameter).ok_or(
        "is not supported by this server, which has response-content-disposition and \
         response-content-type",
    )?;
    if value.len() > MAX_HEADER_LEN {
        return Err("has at most 1024 bytes");
    }
    let value = HeaderValue::from_str(value).ok();
    let value = value.filter(|value| !value.is_empty());
    let value = value.ok_or("must be the value of a header")?;
    Ok((header, value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata_headers(metadata: Value) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let fields = Fields::from_iter([("metadata".to_owned(), metadata)]);
        add_metadata(&mut headers, &fields);
        headers
    }

    #[test]
    fn only_metadata_that_fits_a_header_is_shown_as_one() {
        let headers = metadata_headers(json!({
            "Mixed-Case": "x y", "empty": "", "ü": "1", "a b": "1", "line": "1\n2", "long": "ü",
        }));
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "x-goog-meta-empty",
                "x-goog-meta-long",
                "x-goog-meta-mixed-case"
            ]
        );
        assert_eq!(headers["x-goog-meta-mixed-case"], "x y");
        assert_eq!(headers["x-goog-meta-long"].as_bytes(), "ü".as_bytes());
    }

    #[test]
    fn metadata_takes_a_bounded_number_of_headers() {
        let metadata = (0..500).map(|n| (format!("k{n}"), json!("v")));
        let headers = metadata_headers(Value::Object(metadata.collect()));
        assert_eq!(headers.len(), MAX_METADATA_HEADERS);
    }

    #[test]
    fn only_headers_of_the_service_are_overridden() {
        let (header, value) = overridden("response-content-type", "text/plain").unwrap();
        assert_eq!(
            (header, value),
            (CONTENT_TYPE, "text/plain".parse().unwrap())
        );
        let long = "x".repeat(MAX_HEADER_LEN + 1);
        for (parameter, value) in [
            ("response-cache-control", "no-store"),
            ("response-content-type", ""),
            ("response-content-type", "a\nb"),
            ("response-content-disposition", &long),
        ] {
            assert!(overridden(parameter, value).is_err(), "{parameter}={value}");
        }
    }
}
