//! The elements of `Accept` and `Accept-Encoding`, and their weights.

use http::{HeaderMap, HeaderName};

/// Returns the elements of a list in a header (RFC 9110, section 5.6.1).
pub(crate) fn elements<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(str::trim_ascii)
}

/// Returns the name in an element, and its weight (RFC 9110, section 12.4.2). Without a weight it
/// is 1. A weight that cannot be parsed becomes 0 (not acceptable).
pub(crate) fn weighted(element: &str) -> (&str, f32) {
    let (named, parameters) = element.split_once(';').unwrap_or((element, ""));
    let mut parameters = parameters.split(';').filter_map(|it| it.split_once('='));
    let weight = parameters.find(|(name, _)| name.trim_ascii().eq_ignore_ascii_case("q"));
    let weight = weight.map_or(Ok(1.0), |(_, value)| value.trim_ascii().parse());
    (named.trim_ascii_end(), weight.unwrap_or_default())
}
