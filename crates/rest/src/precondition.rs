//! Conditional requests: entity tags, dates, and their evaluation (RFC 9110, sections 8.8 and 13).
//!
//! | header | lets the request proceed when | compares | otherwise |
//! |---|---|---|---|
//! | `If-Match` | a tag is the current one | strongly | 412 |
//! | `If-Unmodified-Since` | not modified since | whole seconds | 412 |
//! | `If-None-Match` | no tag is the current one | weakly | 304 to GET and HEAD, 412 to the rest |
//! | `If-Modified-Since` | modified since; of GET and HEAD alone | whole seconds | 304 |
//! | `If-Range` | | strongly | the whole media instead of a range |
//!
//! A header with tags replaces the header with a date that would decide the same question.
//!
//! The module evaluates the conditions. The caller decides whether to do so: a request that would
//! fail without conditions fails in the same way with them (section 13.2.1).

#[cfg(test)]
mod tests;

use std::fmt;
use std::iter;
use std::time::{Duration, SystemTime};

use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// The facts that distinguish one version of a resource or a media from another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validators {
    /// Its entity tag.
    pub etag: ETag,
    /// When it was last modified, if that is known.
    pub modified: Option<SystemTime>,
}

impl Validators {
    /// The time of modification in whole seconds, as in `Last-Modified`.
    fn last_modified(&self) -> Option<SystemTime> {
        let since_epoch = self.modified?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(since_epoch.as_secs()))
    }
}

/// The outcome of a request's preconditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Carry out the request.
    Proceed,
    /// Reply 304: the reader's copy is current.
    NotModified,
    /// Refuse: 412.
    Failed,
}

/// Evaluates the preconditions of a request in the order of section 13.2.2. `current` is `None` if
/// the target does not exist yet.
pub fn evaluate(headers: &HeaderMap, method: &Method, current: Option<&Validators>) -> Verdict {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let unchanged = if_match(headers, current).or_else(|| if_unmodified_since(headers, current));
    if unchanged == Some(false) {
        return Verdict::Failed;
    }
    let changed = if_none_match(headers, current)
        .or_else(|| reads.then(|| if_modified_since(headers, current)).flatten());
    match changed {
        Some(false) if reads => Verdict::NotModified,
        Some(false) => Verdict::Failed,
        Some(true) | None => Verdict::Proceed,
    }
}

/// Whether the `Range` of a request applies: the request has no `If-Range`, or an `If-Range` with
/// the current tag.
///
/// A date never makes the range apply. The date would have to be a strong validator (section
/// 13.1.5), which it is only if the media did not change twice within its second. Sending the whole
/// media is right in any case. A client that has received a tag must not send a date anyway.
pub fn range_applies(headers: &HeaderMap, current: &Validators) -> bool {
    headers.get(IF_RANGE).is_none_or(|value| {
        ETag::parse(&value_text(value)).is_some_and(|tag| tag.equals_strongly(&current.etag))
    })
}

// Each condition is true, false, or `None` when it is absent or must be ignored.

fn if_match(headers: &HeaderMap, current: Option<&Validators>) -> Option<bool> {
    names_current(headers, &IF_MATCH, current, ETag::equals_strongly)
}

fn if_none_match(headers: &HeaderMap, current: Option<&Validators>) -> Option<bool> {
    names_current(headers, &IF_NONE_MATCH, current, ETag::equals_weakly).map(|named| !named)
}

fn if_unmodified_since(headers: &HeaderMap, current: Option<&Validators>) -> Option<bool> {
    let date = date(headers, &IF_UNMODIFIED_SINCE)?;
    Some(current?.last_modified()? <= date)
}

fn if_modified_since(headers: &HeaderMap, current: Option<&Validators>) -> Option<bool> {
    let date = date(headers, &IF_MODIFIED_SINCE)?;
    Some(current?.last_modified()? > date)
}

/// Whether the list of tags in the header `name` contains the current tag. `*` matches any existing
/// target.
fn names_current(
    headers: &HeaderMap,
    name: &HeaderName,
    current: Option<&Validators>,
    equal: fn(&ETag, &ETag) -> bool,
) -> Option<bool> {
    let lists = |value: &HeaderValue, current: &Validators| {
        let list = value_text(value);
        list == "*" || tags(&list).any(|tag| equal(&tag, &current.etag))
    };
    headers.contains_key(name).then(|| {
        let mut values = headers.get_all(name).iter();
        current.is_some_and(|current| values.any(|value| lists(value, current)))
    })
}

/// Returns the date in the header `name`. A malformed or repeated header is ignored.
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(only), None) => httpdate::parse_http_date(only.to_str().ok()?).ok(),
        _ => None,
    }
}

/// Returns the tags of a list, up to the first element that is not a tag.
fn tags(list: &str) -> impl Iterator<Item = ETag> {
    let mut rest = list;
    iter::from_fn(move || {
        let (tag, after) = ETag::take(rest.trim_start_matches([' ', '\t', ',']))?;
        rest = after;
        Some(tag)
    })
}

/// Returns a header value as text. Invalid UTF-8 is replaced, because no tag of this server
/// contains it.
fn value_text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes())
        .trim_matches([' ', '\t'])
        .to_owned()
}

/// An entity tag: `"opaque"`, or `W/"opaque"` if it is weak.
///
/// `==` compares the text and the weakness. Conditions compare with
/// [`equals_strongly`](Self::equals_strongly) or [`equals_weakly`](Self::equals_weakly).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ETag {
    weak: bool,
    opaque: String,
}

impl ETag {
    /// Returns a strong tag: equal strong tags promise equal bytes. `None` if `opaque` contains
    /// white space, a control character or a quotation mark.
    pub fn strong(opaque: impl Into<String>) -> Option<Self> {
        let opaque = opaque.into();
        opaque.chars().all(is_etag_char).then_some(Self {
            weak: false,
            opaque,
        })
    }

    /// Parses one tag as in a header, with its quotation marks.
    pub fn parse(text: &str) -> Option<Self> {
        let (tag, rest) = Self::take(text)?;
        rest.is_empty().then_some(tag)
    }

    /// Parses the tag at the beginning of `text`, and returns the rest of the text as well.
    fn take(text: &str) -> Option<(Self, &str)> {
        let (weak, quoted) = match text.strip_prefix("W/") {
            Some(quoted) => (true, quoted),
            None => (false, text),
        };
        let (opaque, rest) = quoted.strip_prefix('"')?.split_once('"')?;
        let tag = Self::strong(opaque)?;
        Some((Self { weak, ..tag }, rest))
    }

    /// Returns the weak tag with the same text, for other bytes of the same content.
    #[must_use]
    pub fn to_weak(&self) -> Self {
        Self {
            weak: true,
            opaque: self.opaque.clone(),
        }
    }

    /// Returns whether both are strong and equal (section 8.8.3.2), so that they promise the same
    /// bytes.
    pub fn equals_strongly(&self, other: &Self) -> bool {
        !self.weak && self == other
    }

    /// Whether both tags have the same text, strong or weak (weak comparison).
    pub fn equals_weakly(&self, other: &Self) -> bool {
        self.opaque == other.opaque
    }
}

/// `etagc` of section 8.8.3, read as UTF-8.
fn is_etag_char(c: char) -> bool {
    matches!(c, '!' | '#'..='~' | '\u{80}'..)
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.weak { "W/" } else { "" };
        write!(f, "{prefix}\"{}\"", self.opaque)
    }
}

impl From<&ETag> for HeaderValue {
    fn from(tag: &ETag) -> Self {
        Self::try_from(tag.to_string()).expect("a tag has no control characters")
    }
}
