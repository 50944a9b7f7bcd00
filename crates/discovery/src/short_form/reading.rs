//! Reads the text of the short form past its mistakes. An unreadable part is reported and left out,
//! so that all mistakes of a text are reported together.

use std::ops::{ControlFlow, Range};

use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer, Error as TomlError};

use super::ShortForm;
use super::help::{Quoted, help_for, nearest};
use super::key_path::{Step, name_of, written};
use crate::mistake::Mistakes;

/// Maximum number of mistakes that are reported. The text after them is not read.
const MAX_MISTAKES: usize = 100;

/// The readable part of a text.
pub(super) struct Reading<'a> {
    /// The form without the unreadable parts; `None` if nothing could be read.
    pub(super) form: Option<ShortForm>,
    pub(super) mistakes: Mistakes<'a>,
    /// The parts that were left out of the form, with their names.
    pub(super) left_out: Vec<(String, String)>,
}

/// Reads a text.
pub(super) fn read(text: &str) -> Reading<'_> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut mistakes = Mistakes::of(text);
    for error in &errors {
        let span = error.span().unwrap_or_default();
        // Further errors of a line mostly follow from its first error.
        if !mistakes.has_line_of(span.start) {
            mistakes.push_at(span, None, error.message().replace('\n', ", "), None);
        }
    }
    let is_toml = errors.is_empty();
    let mut reader = Reader {
        table,
        is_toml,
        mistakes,
        left_out: Vec::new(),
    };
    let form = (0..MAX_MISTAKES).find_map(|_| reader.step().break_value());
    Reading {
        // The names in an unparsable part are unknown, so references to them cannot be checked.
        form: form.flatten().filter(|_| is_toml),
        mistakes: reader.mistakes,
        left_out: reader
            .left_out
            .into_iter()
            .map(|path| (written(&path), name_of(&path)))
            .collect(),
    }
}

struct Reader<'a> {
    table: Spanned<DeTable<'a>>,
    is_toml: bool,
    mistakes: Mistakes<'a>,
    left_out: Vec<Vec<Step>>,
}

impl Reader<'_> {
    /// Reads the form, or leaves out the first thing that cannot be read. `Break(None)` gives up.
    fn step(&mut self) -> ControlFlow<Option<ShortForm>> {
        let deserializer = Deserializer::from(self.table.clone());
        let error = match ShortForm::deserialize(deserializer) {
            Ok(form) => return ControlFlow::Break(Some(form)),
            Err(error) => error,
        };
        let span = error.span().unwrap_or_default();
        let path = find(self.table.get_ref(), &span);
        match missing_field(&error) {
            Some(field) => self.leave_out_incomplete(path, field, span),
            None => self.leave_out(path, &error, span),
        }
    }

    fn leave_out(
        &mut self,
        path: Option<Vec<Step>>,
        error: &TomlError,
        span: Range<usize>,
    ) -> ControlFlow<Option<ShortForm>> {
        if self.is_toml || !self.mistakes.has_line_of(span.start) {
            let quoted = Quoted::of(error.message());
            let help = help_for(path.as_deref().unwrap_or_default(), &quoted);
            let key = path.as_deref().map(written);
            self.mistakes.push_at(span, key, quoted.problem(), help);
        }
        let Some(path) = path else {
            return ControlFlow::Break(None);
        };
        remove(self.table.get_mut(), &path);
        self.left_out.push(path);
        ControlFlow::Continue(())
    }

    /// Leaves out a table that lacks a field. The missing field is not reported if it is a
    /// consequence of an earlier mistake: the field itself, or a misspelling of its name, was left
    /// out before.
    fn leave_out_incomplete(
        &mut self,
        path: Option<Vec<Step>>,
        field: String,
        span: Range<usize>,
    ) -> ControlFlow<Option<ShortForm>> {
        let whole = path.clone().unwrap_or_default();
        let field_path: Vec<_> = whole
            .iter()
            .cloned()
            .chain([Step::Key(field.clone())])
            .collect();
        let is_consequence = self.left_out.iter().any(|path| match path.split_last() {
            Some((Step::Key(left_out), outer)) if outer == whole => {
                // The whole text has many keys. There, a key that was left out explains the missing
                // field only if it is a misspelling of it.
                !whole.is_empty() || nearest(&field, [left_out.as_str()].into_iter()).is_some()
            }
            _ => false,
        });
        if self.is_toml && !is_consequence {
            let key = path.as_deref().map(written);
            let problem = format!("the key `{field}` is missing");
            // A missing key of the whole text has no position to underline.
            let span = if path.is_some() { span } else { 0..0 };
            self.mistakes.push_at(span, key, problem, None);
        }
        match path {
            Some(path) => {
                remove(self.table.get_mut(), &path);
                self.left_out.push(path);
            }
            None if self.table.get_ref().contains_key(field.as_str()) => {
                return ControlFlow::Break(None);
            }
            None => {
                // No place of an error is there.
                let nowhere = usize::MAX..usize::MAX;
                let value = DeValue::String(field.clone().into());
                let value = Spanned::new(nowhere.clone(), value);
                let key = Spanned::new(nowhere, field.into());
                self.table.get_mut().insert(key, value);
                self.left_out.push(field_path);
            }
        }
        ControlFlow::Continue(())
    }
}

/// The name of the field in `missing field ...`, as serde words it.
fn missing_field(error: &TomlError) -> Option<String> {
    let rest = error.message().strip_prefix("missing field `")?;
    Some(rest.split('`').next().unwrap_or_default().to_owned())
}

/// Returns the path of the innermost entry with a key or value that contains these bytes.
fn find(table: &DeTable<'_>, span: &Range<usize>) -> Option<Vec<Step>> {
    table.iter().find_map(|(key, value)| {
        let path = if key.span() == *span {
            Some(Vec::new())
        } else {
            find_in(value, span)
        };
        Some(before(Step::Key(key.get_ref().to_string()), path?))
    })
}

fn find_in(value: &Spanned<DeValue<'_>>, span: &Range<usize>) -> Option<Vec<Step>> {
    let inner = match value.get_ref() {
        DeValue::Table(table) => find(table, span),
        DeValue::Array(array) => array
            .iter()
            .enumerate()
            .find_map(|(at, element)| Some(before(Step::Element(at), find_in(element, span)?))),
        _ => None,
    };
    let whole = value.span();
    inner.or_else(|| (whole.start <= span.start && span.end <= whole.end).then(Vec::new))
}

fn before(step: Step, mut path: Vec<Step>) -> Vec<Step> {
    path.insert(0, step);
    path
}

fn remove(table: &mut DeTable<'_>, path: &[Step]) {
    let Some((Step::Key(key), rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        table.remove(key.as_str());
    } else if let Some(value) = table.get_mut(key.as_str()) {
        remove_in(value.get_mut(), rest);
    }
}

fn remove_in(value: &mut DeValue<'_>, path: &[Step]) {
    match (value, path) {
        (DeValue::Table(table), path) => remove(table, path),
        (DeValue::Array(array), [Step::Element(at)]) => {
            let others = array.iter().enumerate().filter(|(place, _)| place != at);
            let mut kept = DeArray::new();
            for (_, element) in others {
                kept.push(element.clone());
            }
            *array = kept;
        }
        (DeValue::Array(array), [Step::Element(at), rest @ ..]) => {
            if let Some(element) = array.get_mut(*at) {
                remove_in(element.get_mut(), rest);
            }
        }
        _ => {}
    }
}
