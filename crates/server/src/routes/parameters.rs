//! Checks of a call's parameters against the description of its method.

use http::Method as HttpMethod;
use windlass_discovery::{Api, Location, Method, Numbers, Parameter, PathParameters};
use windlass_proto::parameters::Parameters;
use windlass_rest::handler::{Refusal, RefusalKind, Rejection};
use windlass_rest::pattern_checks::ShortTexts;

/// Parameters of the protocol, which every method has whether its API describes them or not.
const PROTOCOL: [&str; 4] = ["uploadType", "upload_id", "upload_protocol", "userIp"];

/// Refuses a call with a query parameter that neither the method nor the API has, if the API is
/// strict. A misspelt filter must not be ignored silently.
///
/// Names that begin with `$` or `X-` belong to intermediate systems. Google's libraries append
/// `$.xgafv` and `$httpMethod`, and signed links are in `X-Windlass-Link`.
pub(super) fn check_names(api: &Api, method: &Method, query: &Parameters) -> Result<(), Rejection> {
    if !api.settings().strict {
        return Ok(());
    }
    let is_known = |name: &str| {
        method.parameter(name).is_some()
            || api.document().parameters.contains_key(name)
            || PROTOCOL.contains(&name)
            || name.starts_with('$')
            || name.starts_with("X-")
    };
    match query.iter().find(|(name, _)| !is_known(name)) {
        None => Ok(()),
        Some((name, _)) => Err(Rejection::UnknownParameter {
            parameter: name.to_owned(),
            method: method.id.clone(),
            known: names(method),
        }),
    }
}

/// Refuses `$httpMethod` with a value other than the request's HTTP method. Google's libraries
/// repeat the HTTP method in this parameter. The head of the request decides what the request does.
pub(super) fn check_repeated_method(
    query: &Parameters,
    http_method: &HttpMethod,
) -> Result<(), Rejection> {
    const NAME: &str = "$httpMethod";
    let repeated = query.first(NAME).filter(|repeated| !repeated.is_empty());
    match repeated {
        Some(repeated) if !repeated.eq_ignore_ascii_case(http_method.as_str()) => {
            Err(Rejection::InvalidParameter {
                parameter: NAME.to_owned(),
                problem: format!(
                    "must be {http_method}, the HTTP method of the request; state another one in \
                     the header X-HTTP-Method-Override"
                ),
            })
        }
        _ => Ok(()),
    }
}

/// Lists the query parameters of a method.
fn names(method: &Method) -> String {
    let parameters = method.parameters.iter();
    let of_query = parameters.filter(|parameter| parameter.location == Location::Query);
    let names: Vec<_> = of_query.map(|parameter| &*parameter.name).collect();
    if names.is_empty() {
        "no parameters in its query".to_owned()
    } else {
        names.join(", ")
    }
}

/// Refuses a call with missing parameters, or with parameters that contradict the description.
/// [`check_names`] refuses unknown parameters.
///
/// If the description marks a parameter as repeated, all of its values are checked, otherwise the
/// first.
pub(super) fn check_parameters(
    method: &Method,
    path: &PathParameters,
    query: &Parameters,
) -> Result<(), Rejection> {
    let (mut parameters, texts) = (method.parameters.iter(), ShortTexts::default());
    parameters.try_for_each(|parameter| {
        let checked = match parameter.location {
            Location::Path => check_values(parameter, path.value(&parameter.name), &texts),
            Location::Query => {
                check_presence(parameter, query)?;
                check_values(parameter, values_of(parameter, query), &texts)
            }
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

/// Refuses a call without a parameter that the method requires, as Google's services do.
fn check_presence(parameter: &Parameter, query: &Parameters) -> Result<(), Rejection> {
    if !parameter.required || values_of(parameter, query).next().is_some() {
        return Ok(());
    }
    let name = &parameter.name;
    let message = format!("Required parameter: {name}");
    let refusal = Refusal::new(RefusalKind::Invalid, "required", message);
    Err(refusal.at_parameter(name.clone()).into())
}

fn check_values<'a>(
    parameter: &Parameter,
    values: impl IntoIterator<Item = &'a str>,
    texts: &ShortTexts,
) -> Result<(), String> {
    let mut values = values.into_iter();
    values.try_for_each(|value| check_value(parameter, value, texts))
}

fn check_value(parameter: &Parameter, value: &str, texts: &ShortTexts) -> Result<(), String> {
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
        Some(pattern) => texts
            .check(pattern, value)
            .map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

fn check_number(parameter: &Parameter, numbers: &Numbers, value: &str) -> Result<(), String> {
    let no_number = || {
        let format = parameter.format.as_ref();
        // A string of the format int64 is a number, and the error says so.
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
