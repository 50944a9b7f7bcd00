//! The parameters of a method, checked.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use serde_json::Value;

use crate::document::ParameterDescription;
use crate::error::{Fault, Faults, FieldPath, LocatedFault};
use crate::pattern::Pattern;

/// A parameter in the path or in the query.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Where it is given.
    pub location: Location,
    /// Whether it must be given.
    pub required: bool,
    /// Whether it may be given more than once.
    pub repeated: bool,
    /// `string`, `integer`, `number` or `boolean`; `string` where the document is silent.
    pub json_type: String,
    /// The format of a string or a number, e.g. `int64`.
    pub format: Option<String>,
    /// The numbers that values may be; `None` where they are no numbers.
    pub numbers: Option<Numbers>,
    /// The allowed values; empty where there is no such list.
    pub allowed_values: Vec<String>,
    /// A regular expression for the value.
    pub pattern: Option<Pattern>,
    /// The value where none is given.
    pub default: Option<String>,
}

/// Where a parameter is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// In the path.
    Path,
    /// In the query.
    Query,
}

/// The numbers that a value may have, by its type, format and bounds.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Whole numbers: the type `integer`, and strings of the formats `int64` and `uint64`.
    Whole(RangeInclusive<i128>),
    /// All numbers: the type `number`.
    Real(RangeInclusive<f64>),
}

impl Numbers {
    /// Whether there is no such number: the bounds are the wrong way round.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Whole(range) => range.is_empty(),
            Self::Real(range) => range.is_empty(),
        }
    }
}

/// The patterns of an API. The same few occur hundreds of times.
#[derive(Debug, Default)]
pub(crate) struct Patterns(HashMap<String, Pattern>);

impl Patterns {
    fn compile(&mut self, text: &str) -> Pattern {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let pattern = Pattern::new(text);
        self.0.insert(text.to_owned(), pattern.clone());
        pattern
    }
}

impl Parameter {
    pub(crate) fn compile(
        name: &str,
        described: &ParameterDescription,
        field_path: &FieldPath,
        patterns: &mut Patterns,
        faults: &mut Faults,
    ) -> Option<Self> {
        let location = faults.keep(compile_location(described, &field_path.field("location")));
        let numbers = faults.keep(compile_numbers(described, field_path));
        let pattern = described.pattern.as_deref();
        Some(Self {
            name: name.to_owned(),
            location: location?,
            required: described.required,
            repeated: described.repeated,
            json_type: json_type(described).to_owned(),
            format: described.format.clone(),
            numbers: numbers?,
            allowed_values: described.allowed_values.clone(),
            pattern: pattern.map(|text| patterns.compile(text)),
            default: described.default.clone(),
        })
    }
}

fn json_type(described: &ParameterDescription) -> &str {
    described.json_type.as_deref().unwrap_or("string")
}

fn compile_location(
    described: &ParameterDescription,
    field_path: &FieldPath,
) -> Result<Location, LocatedFault> {
    match field_path.required(described.location.as_deref())? {
        "path" => Ok(Location::Path),
        "query" => Ok(Location::Query),
        other => Err(field_path.fault(Fault::Location {
            location: other.to_owned(),
        })),
    }
}

fn compile_numbers(
    described: &ParameterDescription,
    field_path: &FieldPath,
) -> Result<Option<Numbers>, LocatedFault> {
    let of_the_type = match (json_type(described), described.format.as_deref()) {
        ("integer", Some("int32")) => Numbers::Whole(i32::MIN.into()..=i32::MAX.into()),
        ("integer", Some("uint32")) => Numbers::Whole(0..=u32::MAX.into()),
        ("integer" | "string", Some("uint64")) => Numbers::Whole(0..=u64::MAX.into()),
        ("integer", _) | ("string", Some("int64")) => {
            Numbers::Whole(i64::MIN.into()..=i64::MAX.into())
        }
        ("number", _) => Numbers::Real(f64::NEG_INFINITY..=f64::INFINITY),
        _ => return Ok(None),
    };
    let bounds = Bounds {
        described,
        field_path,
    };
    let narrowed = match of_the_type {
        Numbers::Whole(all) => {
            let (least, greatest) = bounds.read::<i128>()?;
            let start = least.map_or(*all.start(), |least| least.max(*all.start()));
            let end = greatest.map_or(*all.end(), |greatest| greatest.min(*all.end()));
            Numbers::Whole(start..=end)
        }
        Numbers::Real(all) => {
            let (least, greatest) = bounds.read::<f64>()?;
            Numbers::Real(least.unwrap_or(*all.start())..=greatest.unwrap_or(*all.end()))
        }
    };
    Ok(Some(narrowed))
}

/// The bounds as a document writes them: `"500"`, or 500.
struct Bounds<'a> {
    described: &'a ParameterDescription,
    field_path: &'a FieldPath,
}

impl Bounds<'_> {
    fn read<T: std::str::FromStr>(&self) -> Result<(Option<T>, Option<T>), LocatedFault> {
        let bound = |written: &Option<Value>, name| {
            let written = written.as_ref();
            let field_path = self.field_path.field(name);
            written.map(|it| read_bound(it, &field_path)).transpose()
        };
        Ok((
            bound(&self.described.minimum, "minimum")?,
            bound(&self.described.maximum, "maximum")?,
        ))
    }
}

fn read_bound<T: std::str::FromStr>(
    written: &Value,
    field_path: &FieldPath,
) -> Result<T, LocatedFault> {
    let text = match written {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.parse()
        .map_err(|_| field_path.fault(Fault::NotABound { written: text }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn numbers(described: Value) -> Result<Option<Numbers>, LocatedFault> {
        let described = serde_json::from_value(described).unwrap();
        compile_numbers(&described, &FieldPath::root().field("size"))
    }

    #[test]
    fn numbers_are_those_of_the_type_between_the_bounds() {
        let whole = |range| Some(Numbers::Whole(range));
        for (described, expected) in [
            (json!({"type": "string"}), None),
            (json!({"minimum": "no number"}), None),
            (json!({"type": "boolean"}), None),
            (
                json!({"type": "integer"}),
                whole(i64::MIN.into()..=i64::MAX.into()),
            ),
            (
                json!({"type": "integer", "format": "int32"}),
                whole(-2_147_483_648..=2_147_483_647),
            ),
            (
                json!({"type": "integer", "format": "uint32", "minimum": "1", "maximum": 500}),
                whole(1..=500),
            ),
            (
                json!({"type": "integer", "format": "uint32", "minimum": "-1"}),
                whole(0..=4_294_967_295),
            ),
            (
                json!({"type": "string", "format": "uint64", "maximum": "18446744073709551615"}),
                whole(0..=18_446_744_073_709_551_615),
            ),
            (
                json!({"type": "string", "format": "int64"}),
                whole(i64::MIN.into()..=i64::MAX.into()),
            ),
            (
                json!({"type": "number", "format": "double", "minimum": -0.5, "maximum": "1"}),
                Some(Numbers::Real(-0.5..=1.0)),
            ),
        ] {
            assert_eq!(numbers(described.clone()), Ok(expected), "{described}");
        }
    }

    #[test]
    fn bound_that_is_not_a_number_of_the_type_is_a_fault_at_its_path() {
        for (json_type, bound, written) in [
            ("integer", json!("few"), "few"),
            ("integer", json!(1.5), "1.5"),
            ("integer", json!(true), "true"),
            ("number", json!([1]), "[1]"),
        ] {
            let located = numbers(json!({"type": json_type, "maximum": bound})).unwrap_err();
            assert_eq!(located.path, "size.maximum");
            let written = written.to_owned();
            assert_eq!(located.fault, Fault::NotABound { written });
        }
    }

    #[test]
    fn bounds_can_leave_no_number() {
        let described = json!({"type": "integer", "minimum": "2", "maximum": "1"});
        assert!(numbers(described).unwrap().unwrap().is_empty());
        assert!(
            !numbers(json!({"type": "number"}))
                .unwrap()
                .unwrap()
                .is_empty()
        );
    }
}
