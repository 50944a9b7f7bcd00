//! Code shared by several fuzz targets.

pub mod api;
pub mod media;

/// Returns the first line of an input, and the rest.
pub fn first_line(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (line, rest) = input.split_at(end.unwrap_or(input.len()));
    (line, rest.strip_prefix(b"\n").unwrap_or(rest))
}

/// As [`first_line`], of a text.
pub fn first_text_line(input: &str) -> (&str, &str) {
    input.split_once('\n').unwrap_or((input, ""))
}
