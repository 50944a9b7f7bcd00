//! The parameters of a call against the description of its method.

use windlass_discovery::{Location, Method, Numbers, Parameter, PathParameters};
use windlass_proto::parameters::Parameters;

use crate::handler::Rejection;

/// Refuses a call whose parameters are missing or contradict the description. Unknown parameters
/// are ignored, since clients append their own.
///
/// If the description marks a parameter as repeated, all of its values count, else the first one.
pub(super) fn check_parameters(
    method: &Method,
    path: &PathParameters,
    query: &Parameters,
) -> Result<(), Rejection> {
    let mut parameters = method.parameters.iter();
    parameters.try_for_each(|parameter| {
        let checked = match parameter.location {
            Location::Path => check_values(parameter, path.value(&parameter.name)),
            Location::Query => check_values(parameter, values_of(parameter, query)),
        };
        checked.map_err(|problem| Rejection::InvalidParameter {
            parameter: parameter.name.clone(),
            problem,
        })
    })
}

fn values_of<'a>(parameter: &'a Parameter, query: &'a Parameters) -> impl Iterator<Item = &'a str> {
    let values = query.iter().filter(|(name, _)| *name == parameter.name);
    let most = if parameter.repeated { usize::MAX } else { 1 };
    values.map(|(_, value)| value).take(most)
}

fn check_values<'a>(
    parameter: &Parameter,
    values: impl IntoIterator<Item = &'a str>,
) -> Result<(), String> {
    let mut values = values.into_iter().peekable();
    if parameter.required && values.peek().is_none() {
        return Err("is required".to_owned());
    }
    values.try_for_each(|value| check_value(parameter, value))
}

fn check_value(parameter: &Parameter, value: &str) -> Result<(), String> {
    let allowed = &parameter.allowed_values;
    if !allowed.is_empty() && !allowed.iter().any(|allowed| allowed == value) {
        return Err(format!("must be one of {}", allowed.join(", ")));
    }
    match &parameter.numbers {
        Some(numbers) => check_number(parameter, numbers, value)?,
        None if parameter.json_type == "boolean" => check_boolean(value)?,
        None => {}
    }
    match &parameter.pattern {
        Some(pattern) if !pattern.fits(value) => {
            Err(format!("must match the pattern {}", pattern.as_str()))
        }
        _ => Ok(()),
    }
}

fn check_number(parameter: &Parameter, numbers: &Numbers, value: &str) -> Result<(), String> {
    let no_number = || {
        let format = parameter.format.as_ref();
        // A string of the format int64 is a number; the error says so.
        let of_strings = format.filter(|_| parameter.json_type == "string");
        let expected = of_strings.unwrap_or(&parameter.json_type);
        format!("must be of type {expected}")
    };
    let (allowed, least, greatest) = match numbers {
        Numbers::Whole(range) => {
            let number: i128 = value.parse().map_err(|_| no_number())?;
            (
                range.contains(&number),
                range.start().to_string(),
                range.end().to_string(),
            )
        }
        Numbers::Real(range) => {
            let number: f64 = value.parse().map_err(|_| no_number())?;
            (
                range.contains(&number),
                range.start().to_string(),
                range.end().to_string(),
            )
        }
    };
    if allowed {
        Ok(())
    } else {
        Err(format!("must be from {least} to {greatest}"))
    }
}

/// An empty value is a flag without a value, as in `?prettyPrint`. Case does not matter: Python's
/// library writes `True`.
fn check_boolean(value: &str) -> Result<(), String> {
    if matches!(
        value.to_ascii_lowercase().as_str(),
        "true" | "false" | "1" | "0" | ""
    ) {
        Ok(())
    } else {
        Err("must be of type boolean".to_owned())
    }
}

#[cfg(test)]
mod tests;
