//! URI templates as discovery documents write them, matched against paths and expanded to paths.
//!
//! | in a template | stands for |
//! |---|---|
//! | `animals` | itself |
//! | `{animalId}` | one segment, not empty; a slash in the value travels as `%2F` |
//! | `{+parent}` | one or more segments; a slash in the value travels as `/` |
//! | `{+parent}:upload` | the same, and the path ends in `:upload` |
//!
//! Most of Google's documents say `v1/{+name}` for dozens of methods, and only the `pattern` of the
//! parameter tells them apart: `^projects/[^/]+/locations/[^/]+$`. Such a pattern gives the
//! variable a shape (`projects/*/locations/*`): a word matches itself, `.*` any number of segments,
//! and anything else one segment. No other part of a pattern is used; there are no regular
//! expressions here.
//!
//! Matching works on the path as it came over the wire. Nothing is normalised: a trailing slash, a
//! doubled slash and a `..` are segments like any other, and values are decoded after the split.

use std::ops::Range;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use thiserror::Error;

/// Everything but the unreserved characters (RFC 3986, section 2.3).
const ALL_BUT_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Reserved characters are kept, except the characters that would end the path or may not occur in
/// a path.
const ALL_BUT_PATH: &AsciiSet = &ALL_BUT_UNRESERVED
    .remove(b'/')
    .remove(b':')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=');

/// A parsed URI template.
///
/// ```
/// use windlass_discovery::Template;
///
/// let template = Template::parse("farm/v1/animals/{animalId}")?;
/// let parameters = template.match_path("/farm/v1/animals/bella%2F2").expect("it matches");
/// assert_eq!(parameters.value("animalId"), Some("bella/2"));
/// assert_eq!(template.expand(&parameters)?, "/farm/v1/animals/bella%2F2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    elements: Vec<Element>,
    variables: Vec<Variable>,
    /// The custom verb after a variable at the end, without its colon.
    verb: Option<String>,
}

/// The paths that a template matches, independent of the names of its variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Paths<'a> {
    elements: &'a [Element],
    verb: Option<&'a str>,
}

/// A part of a path, for forms of description that know no variables of several segments.
#[cfg(feature = "openapi")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathPart<'a> {
    /// This segment.
    Literal {
        /// As it is written.
        text: &'a str,
        /// Whether it is a part of a variable's value.
        is_in_variable: bool,
    },
    /// The value of a variable, or one segment of it.
    Value {
        /// The name of the variable.
        variable: &'a str,
        /// Whether the variable has no other part.
        is_whole: bool,
        /// Whether it may be more than one segment.
        is_many: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    name: String,
    /// The elements that this variable spans.
    elements: Range<usize>,
    /// `{+name}`: slashes and other reserved characters are not encoded.
    reserved: bool,
}

/// The values of a template's variables, decoded, in the order of the template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathParameters(Vec<(String, String)>);

/// The order of templates that match the same path: the smaller one is chosen.
///
/// A template with a custom verb is narrower than a template without a verb. Then, from left to
/// right, a literal is narrower than a segment, and a segment is narrower than any number of
/// segments. A template that continues is narrower than a template that ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity {
    without_verb: bool,
    ranks: Vec<u8>,
}

/// Why a text is not a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A segment is neither a literal nor one variable, with a custom verb at the very end at most.
    #[error("the segment `{segment}` is neither a literal nor one {{variable}}")]
    Segment {
        /// The segment as written.
        segment: String,
    },
    /// A variable has a name that is empty or not made of letters, digits, `_`, `.`, `-` and `$`.
    #[error("`{name}` is not the name of a variable")]
    VariableName {
        /// The name as written.
        name: String,
    },
    /// A variable occurs twice.
    #[error("the variable `{name}` occurs twice")]
    RepeatedVariable {
        /// Its name.
        name: String,
    },
}

/// A template cannot be expanded without a value for each of its variables.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no value for the variable `{name}`")]
pub struct MissingValue {
    /// The variable.
    pub name: String,
}

impl Template {
    /// Parses a template in which a `{+name}` is any number of segments.
    ///
    /// One leading slash is of no account.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Self::parse_with_patterns(text, |_| None)
    }

    /// Parses a template in which a `{+name}` has the shape of its parameter's pattern.
    pub fn parse_with_patterns<'a>(
        text: &str,
        pattern_of: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Self, TemplateError> {
        let text = without_leading_slash(text);
        let (segments, verb) = split_verb(text);
        let mut template = Self {
            text: text.to_owned(),
            elements: Vec::new(),
            variables: Vec::new(),
            verb: verb.map(str::to_owned),
        };
        for segment in segments.split('/') {
            template.push_segment(segment, &pattern_of)?;
        }
        Ok(template)
    }

    /// The template as written, without a leading slash.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names of the variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|variable| variable.name.as_str())
    }

    /// The values of the variables, if this raw, still percent-encoded path fits the template.
    ///
    /// A value that does not decode to UTF-8 fits no template.
    pub fn match_path(&self, raw_path: &str) -> Option<PathParameters> {
        let mut path = without_leading_slash(raw_path);
        if let Some(verb) = &self.verb {
            path = path.strip_suffix(verb.as_str())?.strip_suffix(':')?;
        }
        let segments: Vec<&str> = path.split('/').collect();
        let starts = align(&self.elements, &segments)?;
        let value_of = |variable: &Variable| {
            let start = starts[variable.elements.start];
            let end = starts
                .get(variable.elements.end)
                .copied()
                .unwrap_or(segments.len());
            let raw_value = segments[start..end].join("/");
            let value = percent_decode_str(&raw_value)
                .decode_utf8()
                .ok()?
                .into_owned();
            (!value.is_empty()).then(|| (variable.name.clone(), value))
        };
        let values: Option<Vec<_>> = self.variables.iter().map(value_of).collect();
        values.map(PathParameters)
    }

    /// The path with these values, with a leading slash and percent-encoded.
    ///
    /// In a `{name}`, all but the unreserved characters are encoded. A `{+name}` keeps the reserved
    /// characters, except the four that are invalid in a path (`?`, `#`, `[`, `]`). A percent sign
    /// is always encoded, so that [`match_path`](Self::match_path) returns the original value. A
    /// value that does not have the shape of its variable, such as an empty value, expands to a
    /// path that does not match.
    pub fn expand(&self, values: &PathParameters) -> Result<String, MissingValue> {
        let mut path = String::new();
        let mut at = 0;
        while let Some(element) = self.elements.get(at) {
            path.push('/');
            if let Some(variable) = self
                .variables
                .iter()
                .find(|found| found.elements.start == at)
            {
                path.extend(variable.encode(values)?);
                at = variable.elements.end;
            } else {
                path.push_str(element.literal().unwrap_or_default());
                at += 1;
            }
        }
        if let Some(verb) = &self.verb {
            path.push(':');
            path.push_str(verb);
        }
        Ok(path)
    }

    /// The template with these literal segments before it: `upload` before `farm/v1/animals`.
    #[must_use]
    pub fn below(&self, literals: &str) -> Self {
        let mut elements: Vec<Element> = literals
            .split('/')
            .map(|it| Element::Literal(it.to_owned()))
            .collect();
        let added = elements.len();
        elements.extend_from_slice(&self.elements);
        let mut variables = self.variables.clone();
        for variable in &mut variables {
            variable.elements.start += added;
            variable.elements.end += added;
        }
        Self {
            text: format!("{literals}/{}", self.text),
            elements,
            variables,
            verb: self.verb.clone(),
        }
    }

    /// Returns the rank of this template. The most specific one has the smallest rank.
    pub fn specificity(&self) -> Specificity {
        Specificity {
            without_verb: self.verb.is_none(),
            ranks: self
                .elements
                .iter()
                .map(Element::rank)
                .chain([Element::END_RANK])
                .collect(),
        }
    }

    /// The paths that match, as a key: templates with equal keys match the same paths.
    pub(crate) fn paths(&self) -> Paths<'_> {
        Paths {
            elements: &self.elements,
            verb: self.verb.as_deref(),
        }
    }

    /// The elements as segments of a path show them: a literal at the end has the verb in it.
    pub(crate) fn elements(&self) -> Vec<Element> {
        let mut elements = self.elements.clone();
        if let (Some(Element::Literal(text)), Some(verb)) = (elements.last_mut(), &self.verb) {
            *text = format!("{text}:{verb}");
        }
        elements
    }

    /// The parts of the path in order, without the custom verb.
    #[cfg(feature = "openapi")]
    pub(crate) fn parts(&self) -> impl Iterator<Item = PathPart<'_>> {
        self.elements.iter().enumerate().map(|(at, element)| {
            let mut variables = self.variables.iter();
            let variable = variables.find(|variable| variable.elements.contains(&at));
            match (element, variable) {
                (Element::One | Element::Many, Some(variable)) => PathPart::Value {
                    variable: &variable.name,
                    is_whole: variable.elements.len() == 1,
                    is_many: *element == Element::Many,
                },
                _ => PathPart::Literal {
                    text: element.literal().unwrap_or_default(),
                    is_in_variable: variable.is_some(),
                },
            }
        })
    }

    /// The custom verb after a variable at the end, without its colon.
    #[cfg(feature = "openapi")]
    pub(crate) fn custom_verb(&self) -> Option<&str> {
        self.verb.as_deref()
    }

    fn push_segment<'a>(
        &mut self,
        segment: &str,
        pattern_of: &impl Fn(&str) -> Option<&'a str>,
    ) -> Result<(), TemplateError> {
        if !segment.contains(['{', '}']) {
            self.elements.push(Element::Literal(segment.to_owned()));
            return Ok(());
        }
        let inner = segment
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'));
        let inner = inner.filter(|inner| !inner.contains(['{', '}']));
        let inner = inner.ok_or_else(|| TemplateError::Segment {
            segment: segment.to_owned(),
        })?;
        match inner.strip_prefix('+') {
            Some(name) => {
                let shape = pattern_of(name).map_or_else(|| vec![Element::Many], shape_of_pattern);
                self.push_variable(name, true, shape)
            }
            None => self.push_variable(inner, false, vec![Element::One]),
        }
    }

    fn push_variable(
        &mut self,
        name: &str,
        reserved: bool,
        shape: Vec<Element>,
    ) -> Result<(), TemplateError> {
        if !is_variable_name(name) {
            return Err(TemplateError::VariableName {
                name: name.to_owned(),
            });
        }
        if self.variables().any(|known| known == name) {
            return Err(TemplateError::RepeatedVariable {
                name: name.to_owned(),
            });
        }
        let start = self.elements.len();
        self.elements.extend(shape);
        let elements = start..self.elements.len();
        self.variables.push(Variable {
            name: name.to_owned(),
            elements,
            reserved,
        });
        Ok(())
    }
}

impl Variable {
    fn encode<'a>(
        &self,
        values: &'a PathParameters,
    ) -> Result<impl Iterator<Item = &'a str> + use<'a>, MissingValue> {
        let value = values.value(&self.name).ok_or_else(|| MissingValue {
            name: self.name.clone(),
        })?;
        let encoded = if self.reserved {
            ALL_BUT_PATH
        } else {
            ALL_BUT_UNRESERVED
        };
        Ok(utf8_percent_encode(value, encoded))
    }
}

impl PathParameters {
    /// The value of this variable, decoded.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// Names and values in the order of the template.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for PathParameters {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(
            pairs
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

/// One leading slash, and no more: `//farm` is another path than `/farm`.
pub(crate) fn without_leading_slash(path: &str) -> &str {
    path.strip_prefix('/').unwrap_or(path)
}

/// `{+parent}:upload` is a variable and a verb. In `ragFiles:upload` the colon is part of the
/// literal.
fn split_verb(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once("}:") {
        Some((before, verb)) if !verb.contains(['/', '{', '}']) && !verb.is_empty() => {
            (&text[..=before.len()], Some(verb))
        }
        _ => (text, None),
    }
}

fn is_variable_name(name: &str) -> bool {
    let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-$".contains(&byte);
    !name.is_empty() && name.bytes().all(name_byte)
}

/// The part of a path that an element of a template matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Element {
    /// This segment.
    Literal(String),
    /// Any one segment, not empty.
    One,
    /// One or more segments.
    Many,
}

impl Element {
    /// The rank of the end of a template, below everything else: see [`rank`](Self::rank).
    const END_RANK: u8 = 3;

    fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::One | Self::Many => None,
        }
    }

    /// Whether this element may hold, or begin with, this segment.
    fn fits(&self, segment: &str) -> bool {
        match self {
            Self::Literal(text) => text == segment,
            Self::One => !segment.is_empty(),
            Self::Many => true,
        }
    }

    /// The narrower, the lower.
    fn rank(&self) -> u8 {
        match self {
            Self::Literal(_) => 0,
            Self::One => 1,
            Self::Many => 2,
        }
    }
}

/// Finds the segment at which each element begins.
///
/// An element of many segments takes as few as it can, and one more when the rest does not fit.
/// Only the latest such element needs to be tried again, so the work is at most segments times
/// elements.
fn align(elements: &[Element], segments: &[&str]) -> Option<Vec<usize>> {
    let mut starts = Vec::with_capacity(elements.len());
    let mut next = 0;
    let mut latest_many = None;
    loop {
        match (elements.get(starts.len()), segments.get(next)) {
            (None, None) => return Some(starts),
            (Some(element), Some(segment)) if element.fits(segment) => {
                starts.push(next);
                next += 1;
                if *element == Element::Many {
                    latest_many = Some((starts.len(), next));
                }
            }
            _ => {
                let (begun, end) = latest_many?;
                if end == segments.len() {
                    return None;
                }
                starts.truncate(begun);
                next = end + 1;
                latest_many = Some((begun, next));
            }
        }
    }
}

/// The shape of the values that a pattern allows, segment by segment.
fn shape_of_pattern(pattern: &str) -> Vec<Element> {
    let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
    let pattern = pattern.strip_suffix('$').unwrap_or(pattern);
    match split_pattern(pattern) {
        Some(pieces) => pieces.into_iter().map(element_of_pattern).collect(),
        None => vec![Element::Many],
    }
}

/// Splits at the slashes outside of brackets; `None` where alternatives or brackets leave no
/// segments to see.
fn split_pattern(pattern: &str) -> Option<Vec<&str>> {
    let (mut pieces, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, byte) in pattern.bytes().enumerate() {
        match byte {
            b'[' | b'(' => depth += 1,
            b']' | b')' => depth = depth.checked_sub(1)?,
            b'|' if depth == 0 => return None,
            b'/' if depth == 0 => {
                pieces.push(&pattern[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&pattern[start..]);
    (depth == 0).then_some(pieces)
}

fn element_of_pattern(piece: &str) -> Element {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    // `[^/]` is the one bracket in which a slash does not mean that there may be slashes.
    let slashes = piece.replace("[^/]", "").contains('/');
    if slashes || piece.contains(".*") || piece.contains(".+") {
        Element::Many
    } else if !piece.is_empty() && piece.bytes().all(word) {
        Element::Literal(piece.to_owned())
    } else {
        Element::One
    }
}

#[cfg(test)]
mod tests;
