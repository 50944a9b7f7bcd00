//! The shape of a variable, read off the pattern of its parameter.
//!
//! Patterns are regular expressions, nearly always `^projects/[^/]+/locations/[^/]+$`. What counts
//! here is which words they want at which segments; whatever is not a word is a wildcard.

use super::element::Element;

/// The shape of the values that a pattern allows, segment by segment.
pub(super) fn shape_of_pattern(pattern: &str) -> Vec<Element> {
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
