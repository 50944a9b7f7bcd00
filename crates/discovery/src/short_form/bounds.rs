//! The bounds of a declared field, checked against its type.

use serde_json::{Map, Value};

use crate::pattern::Pattern;

/// The container of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Array,
    Map,
}

/// The bounds of a field and their subject.
pub(super) struct Bounds<'a> {
    /// The JSON type of a value, of an element in an array or a map; `None` for a schema.
    pub(super) json_type: Option<&'a str>,
    /// The format of such a value.
    pub(super) format: Option<&'a str>,
    /// Whether the field is a map or an array; an array of maps is an array.
    pub(super) container: Option<Container>,
    pub(super) min: Option<&'a str>,
    pub(super) max: Option<&'a str>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) pattern: Option<&'a str>,
}

impl Bounds<'_> {
    /// The mistake in the bounds, if there is one.
    pub(super) fn problem(&self) -> Option<String> {
        self.number_problem()
            .or_else(|| self.length_problem())
            .or_else(|| self.pattern_problem())
    }

    fn number_problem(&self) -> Option<String> {
        if self.min.is_none() && self.max.is_none() {
            return None;
        }
        let in_text = matches!(self.format, Some("int64" | "uint64"));
        let is_number = match self.json_type {
            Some("integer" | "number") => true,
            Some("string") => in_text,
            _ => false,
        };
        if !is_number {
            return Some("`min` and `max` are for numbers".to_owned());
        }
        let mut parsed = Vec::new();
        for text in [self.min, self.max].into_iter().flatten() {
            match text.parse::<f64>() {
                Ok(number) if number.is_finite() => parsed.push(number),
                _ => return Some(format!("the bound `{text}` is not a number")),
            }
        }
        match parsed[..] {
            [min, max] if min > max => Some("`min` is greater than `max`".to_owned()),
            _ => None,
        }
    }

    fn length_problem(&self) -> Option<String> {
        if self.min_length.is_none() && self.max_length.is_none() {
            return None;
        }
        let has_length = self.is_array() || self.is_string();
        if !has_length {
            return Some("`min_length` and `max_length` are for strings and arrays".to_owned());
        }
        let (min, max) = (self.min_length?, self.max_length?);
        (min > max).then(|| "`min_length` is greater than `max_length`".to_owned())
    }

    fn pattern_problem(&self) -> Option<String> {
        let pattern = self.pattern?;
        if self.json_type != Some("string") {
            return Some("`pattern` is for strings".to_owned());
        }
        Pattern::new(pattern).problem().map(ToString::to_string)
    }

    fn is_array(&self) -> bool {
        self.container == Some(Container::Array)
    }

    fn is_string(&self) -> bool {
        self.container.is_none() && self.json_type == Some("string")
    }

    /// The fields of the schema of a value: numbers are written as text, as documents do.
    pub(super) fn of_value(&self) -> Map<String, Value> {
        let bounds = [("minimum", self.min), ("maximum", self.max)];
        let bounds = bounds.into_iter();
        bounds
            .filter_map(|(name, bound)| Some((name.to_owned(), bound?.into())))
            .collect()
    }

    /// The fields of the schema of the whole field.
    pub(super) fn of_length(&self) -> Map<String, Value> {
        let names = if self.is_array() {
            ["minItems", "maxItems"]
        } else {
            ["minLength", "maxLength"]
        };
        let bounds = names.into_iter().zip([self.min_length, self.max_length]);
        bounds
            .filter_map(|(name, bound)| Some((name.to_owned(), bound?.into())))
            .collect()
    }
}
