//! Where in a text of the short form a part of its document comes from.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// Returns the bytes of the text from which a part of the compiled document comes, by its path
/// there, such as `resources.photos.methods.like.path`: the key of the method, the collection, or
/// the field. `None` if the text does not say it anywhere, or is not TOML.
pub fn place_of(text: &str, path: &str) -> Option<Range<usize>> {
    let table = DeTable::parse(text).ok()?;
    let table = table.get_ref();
    let steps: Vec<_> = path.split('.').collect();
    match steps[..] {
        ["schemas", schema, ..] => {
            let field = steps.get(3).copied();
            let described = field.and_then(|field| span(table, &["schemas", schema, field]));
            described.or_else(|| span(table, &["schemas", schema]))
        }
        ["methods" | "resources", ..] => place_of_method(table, &steps),
        [field] => span(table, &[field]),
        _ => None,
    }
}

/// Returns the position of a method in the form, or of its collection if the form does not describe
/// the method.
fn place_of_method(table: &DeTable<'_>, steps: &[&str]) -> Option<Range<usize>> {
    let mut collections: Vec<&str> = Vec::new();
    let mut steps = steps.iter();
    while let Some(step) = steps.next() {
        match *step {
            "resources" => collections.push(steps.next()?),
            "methods" => {
                let verb = steps.next().copied().into_iter();
                let name: Vec<_> = collections.iter().copied().chain(verb).collect();
                let method = span(table, &["methods", &name.join(".")]);
                let collection = collections.last();
                return method.or_else(|| span(table, &["collections", collection?]));
            }
            _ => break,
        }
    }
    span(table, &["collections", collections.last()?])
}

/// The bytes of the last one of these keys inside each other.
fn span(table: &DeTable<'_>, keys: &[&str]) -> Option<Range<usize>> {
    let (first, rest) = keys.split_first()?;
    let (key, value) = table.get_key_value(*first)?;
    match (rest, value.get_ref()) {
        ([], _) => Some(key.span()),
        (rest, DeValue::Table(inner)) => span(inner, rest),
        _ => None,
    }
}
