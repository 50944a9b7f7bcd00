//! The parameters of a call, held against the method's description.

use windlass_discovery::method::{Location, Parameter};
use windlass_discovery::{Method, PathParameters};
use windlass_proto::parameters::Parameters;

use crate::kind::Rejection;

/// Refuses a call whose parameters are missing or are not what the description says. Parameters that
/// the description does not know are tolerated: clients append their own.
pub(crate) fn check(
    method: &Method,
    path: &PathParameters,
    query: &Parameters,
) -> Result<(), Rejection> {
    for parameter in &method.parameters {
        let value = match parameter.location {
            Location::Path => path.value(&parameter.name),
            Location::Query => query.first(&parameter.name),
        };
        match value {
            Some(value) => check_value(parameter, value)?,
            None if parameter.required => return Err(invalid(parameter, "is required".to_owned())),
            None => {}
        }
    }
    Ok(())
}

fn check_value(parameter: &Parameter, value: &str) -> Result<(), Rejection> {
    let allowed = &parameter.allowed_values;
    if !allowed.is_empty() && !allowed.iter().any(|allowed| allowed == value) {
        return Err(invalid(
            parameter,
            format!("must be one of {}", allowed.join(", ")),
        ));
    }
    let fits = match parameter.json_type.as_str() {
        "integer" => value.parse::<i128>().is_ok(),
        "number" => value.parse::<f64>().is_ok(),
        "boolean" => matches!(value, "true" | "false" | "1" | "0" | ""),
        _ => true,
    };
    if fits {
        Ok(())
    } else {
        Err(invalid(
            parameter,
            format!("must be of type {}", parameter.json_type),
        ))
    }
}

fn invalid(parameter: &Parameter, problem: String) -> Rejection {
    Rejection::InvalidParameter {
        parameter: parameter.name.clone(),
        problem,
    }
}
