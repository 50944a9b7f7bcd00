//! Where in a text a value is: the keys that lead to it.

/// A key, or the number of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Element(usize),
}

/// The path as text: `collections.photos.methods[1]`, `methods."photos.like"`.
pub(super) fn written(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) => {
                let dot = if text.is_empty() { "" } else { "." };
                let quote = if key.contains('.') { "\"" } else { "" };
                text.extend([dot, quote, key, quote]);
            }
            Step::Element(at) => text.extend(["[", &at.to_string(), "]"]),
        }
    }
    text
}

/// The last key of a path.
pub(super) fn name_of(path: &[Step]) -> String {
    let keys = path.iter().rev();
    let mut keys = keys.filter_map(|step| match step {
        Step::Key(key) => Some(key.clone()),
        Step::Element(_) => None,
    });
    keys.next().unwrap_or_default()
}
