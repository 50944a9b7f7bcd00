//! The request that is forwarded to a backend, and the parsing of its reply.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::default_handler::Target;
use crate::handler::{Call, Rejection};

/// Maximum length of a backend's message to the caller, in characters.
const MAX_MESSAGE: usize = 500;

/// The statuses by which a backend refuses a call. Any other status is a failure of the exchange.
/// 405 or 415, for example, concern the request that the server has made.
const REFUSALS: [StatusCode; 13] = [
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::PAYMENT_REQUIRED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::CONFLICT,
    StatusCode::GONE,
    StatusCode::PRECONDITION_FAILED,
    StatusCode::PAYLOAD_TOO_LARGE,
    StatusCode::UNPROCESSABLE_ENTITY,
    StatusCode::LOCKED,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS,
];

/// Returns the JSON that a backend receives for a call.
pub(super) fn forwarded(call: &Call<'_>, target: Option<&Target>) -> Value {
    let path: Map<_, _> = call
        .path
        .iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    json!({
        "method": call.method.id,
        "path": path,
        "query": query(call),
        "body": call.metadata,
        "resource": target.map(|target| target.shown(call)),
        "principal": call.principal.map(ToString::to_string),
    })
}

/// Returns the declared query parameters. A repeated parameter becomes an array of texts, and any
/// other parameter a text.
fn query(call: &Call<'_>) -> Map<String, Value> {
    let mut query: Map<String, Value> = Map::new();
    for (name, value) in call.query.iter() {
        let Some(parameter) = call.method.parameter(name) else {
            continue;
        };
        if parameter.repeated {
            let values = query.entry(name).or_insert_with(|| json!([]));
            if let Value::Array(values) = values {
                values.push(value.into());
            }
        } else {
            query.entry(name).or_insert_with(|| value.into());
        }
    }
    query
}

/// A backend's reply.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reply {
    /// Fields of the resource that change, as in a PATCH.
    #[serde(default)]
    pub(super) fields: Map<String, Value>,
    /// The reply to the caller. Default: the resource.
    pub(super) reply: Option<Map<String, Value>>,
}

impl Reply {
    /// Reads a reply. Its memory is counted as part of the reply to `call`.
    ///
    /// # Errors
    /// [`Rejection::Backend`] if the backend refuses the call, [`Rejection::BackendFailed`] if the
    /// reply is unusable, [`Rejection::Full`] if other replies use up the memory.
    pub(super) fn read(call: &Call<'_>, reply: &Response<Bytes>) -> Result<Self, Rejection> {
        let (status, body) = (reply.status(), reply.body());
        if REFUSALS.contains(&status) {
            return Err(Rejection::Backend {
                status: passed_on(status),
                message: message(body),
            });
        }
        if !status.is_success() {
            return Err(failed(call, format!("it answered {}", status.as_u16())));
        }
        call.reply_memory.hold_row(body)?;
        Self::parse(body).map_err(|problem| failed(call, problem))
    }

    fn parse(body: &[u8]) -> Result<Self, String> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        // The text of the error itself would show values.
        serde_json::from_slice(body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            format!(
                "its reply is not a JSON object of `fields` and `reply`: line {line}, column {column}"
            )
        })
    }
}

/// Returns the error of a call after its backend has failed.
pub(super) fn failed(call: &Call<'_>, problem: impl Into<String>) -> Rejection {
    Rejection::BackendFailed {
        method: call.method.id.clone(),
        problem: problem.into(),
    }
}

/// Returns the status that the caller receives. 401 becomes 403, because 401 would refer to the
/// caller's credentials for this server.
fn passed_on(status: StatusCode) -> StatusCode {
    match status {
        StatusCode::UNAUTHORIZED => StatusCode::FORBIDDEN,
        status => status,
    }
}

/// Returns the message in a refusal by a backend: `{"error": {"message": "..."}}`, `{"error":
/// "..."}` or `{"message": "..."}`.
fn message(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let texts = [
        body.pointer("/error/message"),
        body.get("error"),
        body.get("message"),
    ];
    let text = texts.into_iter().flatten().find_map(Value::as_str);
    let text = text.unwrap_or("the service behind this method refuses the call");
    let printable = text.chars().filter(|char| !char.is_control());
    printable.take(MAX_MESSAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_services_are_cut_and_have_no_control_characters() {
        for (body, expected) in [
            (r#"{"error": {"message": "no"}}"#, "no"),
            (r#"{"error": "no"}"#, "no"),
            (r#"{"message": "no\u001b[31m"}"#, "no[31m"),
            ("<html>", "the service behind this method refuses the call"),
        ] {
            assert_eq!(message(body.as_bytes()), expected, "{body}");
        }
        let long = format!(r#"{{"error": "{}"}}"#, "x".repeat(2 * MAX_MESSAGE));
        assert_eq!(message(long.as_bytes()).len(), MAX_MESSAGE);
    }

    #[test]
    fn replies_are_empty_or_an_object_and_errors_show_nothing_of_them() {
        for body in ["", " \n", "{}", r#"{"fields": {"a": null}, "reply": {}}"#] {
            Reply::parse(body.as_bytes()).unwrap();
        }
        for body in [
            "secret",
            r#"{"fields": "secret"}"#,
            r#"{"secret": 1}"#,
            r#"{"reply": ["secret"]}"#,
        ] {
            let problem = Reply::parse(body.as_bytes()).unwrap_err();
            assert!(!problem.contains("secret"), "{problem}");
        }
    }
}
