//! Messages of many shapes and their structures.

mod hostile;
mod malformed;
mod properties;
mod shapes;
mod shown;

use super::{Content, Structure, parse};

/// Returns the tree of a message: a line for each part with its id, type, content, size and file
/// name.
fn tree(message: &Structure) -> Vec<String> {
    let line = |part: &super::Part| {
        let content = match part.content() {
            Content::Multipart => "parts",
            Content::Inline => "inline",
            Content::Large => "large",
            Content::Attachment => "file",
        };
        let id = if part.id().is_empty() { "-" } else { part.id() };
        let (kind, size, name) = (part.mime_type(), part.size(), part.file_name());
        format!("{id} {kind} {content} {size} {name}")
            .trim_end()
            .to_owned()
    };
    message.parts().iter().map(line).collect()
}

fn check_tree(raw: impl AsRef<[u8]>, expected: &[&str]) -> Structure {
    let raw = raw.as_ref();
    let message = parse(raw).unwrap();
    assert_eq!(tree(&message), expected, "{}", raw.escape_ascii());
    message
}

/// Returns the data of a part as a client gets it.
fn data(message: &Structure, raw: &[u8], id: &str) -> Vec<u8> {
    let part = message.part(id).unwrap();
    part.data(part.body_in(raw))
}

fn check_data(raw: impl AsRef<[u8]>, id: &str, expected: impl AsRef<[u8]>) {
    let raw = raw.as_ref();
    let message = parse(raw).unwrap();
    let found = data(&message, raw, id);
    assert_eq!(
        found.escape_ascii().to_string(),
        expected.as_ref().escape_ascii().to_string(),
    );
    assert_eq!(message.part(id).unwrap().size(), found.len() as u64);
}
