//! Validation of JSON against the schemas of a description.
//!
//! The result has only fields that the schema names, with numbers in the form that it requires.
//! Unknown fields are dropped, so a client of another version of the description is accepted,
//! unless the collection refuses them. An error names the path of the field.

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use serde_json::{Map, Number, Value};
use windlass_discovery::{Document, Schema};

use crate::handler::Rejection;
use crate::pattern_checks::PatternChecks;

/// Maximum length of a chain of schema references.
const MAX_REFERENCES: usize = 8;

/// The purpose of a validation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// JSON from a client: fields that only the server sets are dropped, and null is kept, since it
    /// has a meaning in a patch.
    Input,
    /// JSON from a service of the operator: as from a client, and with fields that only the server
    /// sets.
    Service,
    /// JSON for a reply: nested objects state their `kind`.
    Output,
}

/// Validates JSON against the schemas of a document.
#[derive(Clone, Copy)]
pub(super) struct SchemaValidation<'a> {
    pub(super) document: &'a Document,
    /// Matches texts with patterns. `None` if they need not be matched: the texts of a reply were
    /// matched when the client sent them.
    pub(super) patterns: Option<&'a PatternChecks>,
    pub(super) purpose: Purpose,
    /// Whether bounds of values are checked.
    pub(super) enforced: bool,
    /// Whether fields that the schema does not name are errors; otherwise they are dropped.
    pub(super) closed: bool,
}

/// The path of a value in the JSON.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'a str),
    Element(&'a Path<'a>, usize),
}

impl SchemaValidation<'_> {
    /// Returns the fields that the schema admits.
    ///
    /// # Errors
    /// [`Rejection::InvalidField`] for a value with another type than in the schema, or a value
    /// that the schema does not allow.
    pub(super) fn fields(
        &self,
        schema: &Schema,
        fields: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Rejection> {
        self.message(schema, fields, Path::Root)
    }

    /// Returns a value as the schema, which may be nested, admits it.
    pub(super) fn value(&self, schema: &Schema, value: &Value) -> Result<Value, Rejection> {
        self.admit(schema, value, Path::Root)
    }

    fn admit(&self, schema: &Schema, value: &Value, path: Path<'_>) -> Result<Value, Rejection> {
        let Some(resolve) = resolve(self.document, schema) else {
            return Ok(value.clone());
        };
        let admitted = self.admit_type(schema, resolve, value, path)?;
        self.check_bounds(resolve, &admitted, path)?;
        Ok(admitted)
    }

    fn check_bounds(
        &self,
        resolve: &Schema,
        value: &Value,
        path: Path<'_>,
    ) -> Result<(), Rejection> {
        match resolve.broken_bound(value).filter(|_| self.enforced) {
            Some(problem) => Err(invalid(path, problem)),
            None => Ok(()),
        }
    }

    /// Returns the value in the form of `resolve`, to which `schema` may refer.
    fn admit_type(
        &self,
        schema: &Schema,
        resolve: &Schema,
        value: &Value,
        path: Path<'_>,
    ) -> Result<Value, Rejection> {
        match (resolve.json_type.as_deref(), value) {
            (_, Value::Null) if self.purpose != Purpose::Output => Ok(Value::Null),
            (Some("object"), Value::Object(fields)) => {
                let message = schema.reference.is_some() || !resolve.properties.is_empty();
                let any = !message && resolve.additional_properties.is_none();
                if any {
                    return Ok(value.clone());
                }
                Ok(Value::Object(self.message(resolve, fields, path)?))
            }
            (Some("array"), Value::Array(elements)) => self.array(resolve, elements, path),
            (Some("string"), Value::String(_) | Value::Number(_)) => {
                let text: Value = string(resolve, value, path)?.into();
                // Before the pattern: it takes long for a long text.
                self.check_bounds(resolve, &text, path)?;
                self.check_pattern(resolve, text.as_str().unwrap_or_default(), path)?;
                Ok(text)
            }
            (Some("integer"), _) => integer(resolve, value, path),
            (Some("number"), _) => number(value, path),
            (Some("boolean"), Value::Bool(_)) | (None | Some("any"), _) => Ok(value.clone()),
            (Some(expected), _) => Err(invalid(path, format!("must be of type {expected}"))),
        }
    }

    fn message(
        &self,
        schema: &Schema,
        fields: &Map<String, Value>,
        path: Path<'_>,
    ) -> Result<Map<String, Value>, Rejection> {
        let others = schema.additional_properties.as_deref();
        let mut admitted = Map::new();
        for (name, value) in fields {
            let property = schema.property(name);
            let own = property.is_some_and(|it| it.read_only) && self.purpose == Purpose::Input;
            let path = Path::Field(&path, name);
            let Some(property) = property.or(others).filter(|_| !own) else {
                if self.closed && !own {
                    return Err(invalid(path, "is not a field of this resource".to_owned()));
                }
                continue;
            };
            let value = self.admit(property, value, path)?;
            admitted.insert(name.clone(), value);
        }
        if let Some(kind) = schema.kind().filter(|_| self.purpose == Purpose::Output) {
            admitted.entry("kind").or_insert_with(|| kind.into());
        }
        Ok(admitted)
    }

    fn check_pattern(&self, schema: &Schema, text: &str, path: Path<'_>) -> Result<(), Rejection> {
        match (self.patterns, schema.compiled_pattern()) {
            (Some(checks), Some(pattern)) => checks
                .check(pattern, text, path)
                .map_err(|error| invalid(path, error.to_string())),
            _ => Ok(()),
        }
    }

    fn array(
        &self,
        schema: &Schema,
        elements: &[Value],
        path: Path<'_>,
    ) -> Result<Value, Rejection> {
        let Some(items) = schema.items.as_deref() else {
            return Ok(elements.into());
        };
        let element = |(at, value): (usize, &Value)| {
            let path = Path::Element(&path, at);
            // As in the JSON of protocol buffers, which has no null in arrays.
            if value.is_null() {
                return Err(invalid(path, "must not be null".to_owned()));
            }
            self.admit(items, value, path)
        };
        elements.iter().enumerate().map(element).collect()
    }
}

/// Resolves a reference to the schema of that name.
pub(super) fn resolve<'a>(document: &'a Document, schema: &'a Schema) -> Option<&'a Schema> {
    let mut resolve = schema;
    for _ in 0..MAX_REFERENCES {
        match &resolve.reference {
            None => return Some(resolve),
            Some(_) => resolve = document.resolve(resolve)?,
        }
    }
    None
}

fn string(schema: &Schema, value: &Value, path: Path<'_>) -> Result<String, Rejection> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let allowed = &schema.allowed_values;
    if !allowed.is_empty() && !allowed.contains(&text) {
        return Err(invalid(
            path,
            format!("must be one of {}", allowed.join(", ")),
        ));
    }
    match schema.format.as_deref() {
        Some(format) if !has_format(&text, format) => {
            Err(invalid(path, format!("must have the format {format}")))
        }
        _ => Ok(text),
    }
}

fn has_format(text: &str, format: &str) -> bool {
    match format {
        "int64" => text.parse::<i64>().is_ok(),
        "uint64" => text.parse::<u64>().is_ok(),
        "date-time" | "google-datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "byte" => is_base64(text),
        _ => true,
    }
}

/// Clients use both alphabets, with and without padding.
fn is_base64(text: &str) -> bool {
    let lenient = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    [&alphabet::STANDARD, &alphabet::URL_SAFE]
        .into_iter()
        .any(|alphabet| GeneralPurpose::new(alphabet, lenient).decode(text).is_ok())
}

/// Numbers may be strings: Google's APIs write 64-bit numbers so.
fn integer(schema: &Schema, value: &Value, path: Path<'_>) -> Result<Value, Rejection> {
    let wrong_type = || invalid(path, "must be of type integer".to_owned());
    let integer = match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => whole(number),
        _ => None,
    };
    let integer: i128 = integer.ok_or_else(wrong_type)?;
    let fits = match schema.format.as_deref() {
        Some("int32") => i32::try_from(integer).is_ok(),
        Some("uint32") => u32::try_from(integer).is_ok(),
        _ => true,
    };
    let number = Number::from_i128(integer).filter(|_| fits);
    let format = schema.format.as_deref().unwrap_or("int64");
    let number = number.ok_or_else(|| invalid(path, format!("must have the format {format}")))?;
    Ok(number.into())
}

/// `4.0` is an integer, too.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the fraction is zero, and what is too large saturates far outside of every format"
)]
fn whole(number: &Number) -> Option<i128> {
    let float = || number.as_f64().filter(|it| it.fract() == 0.0);
    number.as_i128().or_else(|| float().map(|it| it as i128))
}

fn number(value: &Value, path: Path<'_>) -> Result<Value, Rejection> {
    let parsed = match value {
        Value::Number(_) => return Ok(value.clone()),
        Value::String(text) => text.parse::<f64>().ok(),
        _ => None,
    };
    let parsed = parsed.and_then(Number::from_f64);
    let parsed = parsed.ok_or_else(|| invalid(path, "must be of type number".to_owned()))?;
    Ok(parsed.into())
}

pub(super) fn invalid(path: Path<'_>, problem: String) -> Rejection {
    Rejection::invalid_field(path.to_string(), problem)
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Path::Root, name) => f.write_str(name),
            Self::Field(path, name) => write!(f, "{path}.{name}"),
            Self::Element(path, at) => write!(f, "{path}[{at}]"),
        }
    }
}
