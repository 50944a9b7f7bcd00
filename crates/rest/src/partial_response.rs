//! Partial responses: the `fields` parameter, in which a client names the fields of the reply that
//! it wants.
//! it wants.
//!
//! ```text
//! mask      = [ selectors ]                     ; an empty mask selects everything
//! selectors = selector *( "," selector )
//! selector  = name [ "/" selector / "(" selectors ")" ]
//! name      = "*" / 1*( any character but "*" "," "/" "(" ")" and white space )
//! ```
//!
//! So `kind,items(id,author/name)` turns
//! `{"kind":"farm#list","etag":"x","items":[{"id":1,"size":2,"author":{"name":"Ada","age":7}}]}`
//! into `{"kind":"farm#list","items":[{"id":1,"author":{"name":"Ada"}}]}`.
//!
//! White space may stand around a name, as Google's own examples have it (`id, items(name)`).
//!
//! A selector of a field that the response schema of the method does not have is refused
//! ([`FieldMask::check`]), as Google does, before media is taken and before anything is changed. So
//! a misspelt name does not come back as an empty reply. Where the description has no schema, or
//! says that an object has fields of any name, every selector is accepted. A field of the schema
//! that a resource does not have selects nothing.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use windlass_discovery::ResponseFields;

/// Maximum length of a mask in bytes.
const MAX_LEN: usize = 8 * 1024;

/// Maximum number of names in a mask. It bounds the cost of applying a mask.
const MAX_NAMES: usize = 512;

/// Maximum depth of a mask. The text in a table of a Google Docs document is on level 10.
const MAX_LEVELS: usize = 16;

/// The name that stands for every field of its level.
const WILDCARD: &str = "*";

/// The fields that a client wants to see of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldMask {
    root: Selection,
}

impl FieldMask {
    /// Reads the value of a `fields` parameter, percent-decoded.
    pub fn parse(mask: &str) -> Result<Self, FieldMaskError> {
        if mask.len() > MAX_LEN {
            return Err(FieldMaskError::TooLong { len: mask.len() });
        }
        let mut root = Selection::default();
        if mask.trim().is_empty() {
            root.whole = true;
        } else {
            Parser::new(mask).mask(&mut root)?;
        }
        Ok(Self { root })
    }

    /// Refuses a mask with a name that the reply cannot have.
    ///
    /// # Errors
    /// The first such name.
    pub fn check(&self, reply: &ResponseFields<'_>) -> Result<(), NoSuchField> {
        self.root.check(reply)
    }

    /// Whether the mask selects anything of `resource`, an object.
    pub fn selects_of(&self, resource: &Map<String, Value>) -> bool {
        let is_selected = |(name, value): (&String, &Value)| {
            let mut below = self.root.below(name).peekable();
            let has_fields = below.peek().is_some() && (value.is_object() || value.is_array());
            has_fields || below.any(|selection| selection.whole)
        };
        self.root.whole || resource.iter().any(is_selected)
    }

    /// Returns the selected part of `resource`, in the order of the resource. Returns `{}` if
    /// nothing is selected.
    ///
    /// Arrays are looked through: a selector applies to each of their elements. An object on the
    /// way to a selected field stays, even when it lacks that field. A string, number, boolean or
    /// null on the way has no fields and is left out.
    #[must_use]
    pub fn apply(&self, mut resource: Value) -> Value {
        if retain(&[&self.root], &mut resource) {
            resource
        } else {
            Value::Object(Map::new())
        }
    }
}

/// Reduces `value` to the union of `selections`. Returns false if nothing of it is selected.
fn retain(selections: &[&Selection], value: &mut Value) -> bool {
    if selections.iter().any(|selection| selection.whole) {
        return true;
    }
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let below: Vec<_> = selections.iter().flat_map(|s| s.below(name)).collect();
                !below.is_empty() && retain(&below, value)
            });
            true
        }
        Value::Array(elements) => {
            elements.retain_mut(|element| retain(selections, element));
            true
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The selected part of one value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Selection {
    /// All of the value. `fields` then has no effect.
    whole: bool,
    /// The selected parts of the fields, by name. The wildcard is a name like any other name.
    fields: BTreeMap<String, Selection>,
}

impl Selection {
    /// Refuses a name that the values of `fields` do not have, at every level of the mask.
    fn check(&self, fields: &ResponseFields<'_>) -> Result<(), NoSuchField> {
        if fields.is_open() {
            return Ok(());
        }
        self.fields.iter().try_for_each(|(name, selection)| {
            let below = if name == WILDCARD {
                fields.any()
            } else {
                fields.named(name)
            };
            match below {
                Some(below) => selection.check(&below),
                None => Err(NoSuchField { name: name.clone() }),
            }
        })
    }

    /// Returns the selections that apply to the field `name`: the selection of this name and the
    /// wildcard's.
    ///
    /// No selection is returned twice, not even for a field named `*`. In a resource with nested
    /// fields named `*`, the number of selections would otherwise double with every level.
    fn below(&self, name: &str) -> impl Iterator<Item = &Self> + use<'_> {
        let own = self.fields.get(name).filter(|_| name != WILDCARD);
        own.into_iter().chain(self.fields.get(WILDCARD))
    }
}

/// A reader of masks by recursive descent, at most `MAX_LEVELS` deep.
struct Parser<'a> {
    text: &'a str,
    /// The byte that is read next.
    at: usize,
    /// How many names have been read.
    names: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            names: 0,
        }
    }

    fn mask(&mut self, root: &mut Selection) -> Result<(), FieldMaskError> {
        self.selectors(1, root)?;
        match self.peek() {
            None => Ok(()),
            Some(found) => Err(FieldMaskError::Unexpected { at: self.at, found }),
        }
    }

    fn selectors(&mut self, level: usize, into: &mut Selection) -> Result<(), FieldMaskError> {
        self.selector(level, into)?;
        while self.eat(',') {
            self.selector(level, into)?;
        }
        Ok(())
    }

    fn selector(&mut self, level: usize, into: &mut Selection) -> Result<(), FieldMaskError> {
        let name = self.name(level)?;
        let field = into.fields.entry(name.to_owned()).or_default();
        if self.eat('/') {
            self.selector(level + 1, field)
        } else if self.eat('(') {
            let opened = self.at - 1;
            self.selectors(level + 1, field)?;
            self.close(opened)
        } else {
            field.whole = true;
            Ok(())
        }
    }

    fn name(&mut self, level: usize) -> Result<&'a str, FieldMaskError> {
        let rest = self.rest();
        let len = if rest.starts_with(WILDCARD) {
            WILDCARD.len()
        } else {
            rest.find(ends_name).unwrap_or(rest.len())
        };
        let at = self.at;
        if len == 0 {
            return Err(FieldMaskError::NameExpected { at });
        }
        if level > MAX_LEVELS {
            return Err(FieldMaskError::TooDeep { at });
        }
        self.names += 1;
        if self.names > MAX_NAMES {
            return Err(FieldMaskError::TooManyNames { at });
        }
        self.at += len;
        Ok(&rest[..len])
    }

    fn close(&mut self, opened: usize) -> Result<(), FieldMaskError> {
        if self.eat(')') {
            return Ok(());
        }
        Err(match self.peek() {
            None => FieldMaskError::Unclosed { at: opened },
            Some(found) => FieldMaskError::Unexpected { at: self.at, found },
        })
    }

    /// Consumes `wanted` if it is the next character.
    fn eat(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        if is_next {
            self.at += wanted.len_utf8();
        }
        is_next
    }

    fn peek(&mut self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Returns the unread text, from the next character that is not white space.
    fn rest(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }
}

fn ends_name(c: char) -> bool {
    matches!(c, '*' | ',' | '/' | '(' | ')') || c.is_whitespace()
}

/// A field mask names a field that the reply does not have at this position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid field selection {name}")]
pub struct NoSuchField {
    /// The name.
    name: String,
}

/// Why a field mask cannot be read. `at` is the byte of the mask, from 0, where reading it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FieldMaskError {
    /// The mask is too long.
    #[error("a field mask has at most {MAX_LEN} bytes, this one has {len}")]
    TooLong {
        /// How many bytes it has.
        len: usize,
    },
    /// The mask has too many names.
    #[error("a field mask has at most {MAX_NAMES} names, one more is at byte {at}")]
    TooManyNames {
        /// Where the first name too many is.
        at: usize,
    },
    /// A selector is too deep.
    #[error("a field mask has at most {MAX_LEVELS} levels, one more is at byte {at}")]
    TooDeep {
        /// Where the name on the first level too many is.
        at: usize,
    },
    /// A name is missing, as after the comma of `id,`.
    #[error("the field mask lacks a field name at byte {at}")]
    NameExpected {
        /// Where the name should be.
        at: usize,
    },
    /// A selector is followed by a character that cannot follow it, as in `items(id)name` or `na*`.
    #[error("the field mask has an unexpected {found:?} at byte {at}")]
    Unexpected {
        /// Where the character is.
        at: usize,
        /// The character.
        found: char,
    },
    /// A parenthesis is never closed.
    #[error("the field mask does not close the parenthesis at byte {at}")]
    Unclosed {
        /// Where it is opened.
        at: usize,
    },
}
