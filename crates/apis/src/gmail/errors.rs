//! Errors that all floors of the module return.

use windlass_server::handler::Rejection;

pub(super) fn not_found(what: &str, id: &str) -> Rejection {
    Rejection::NotFound {
        what: what.to_owned(),
        // It is the client's own text and may be long.
        id: id.chars().take(200).collect(),
    }
}

pub(super) fn no_media() -> Rejection {
    invalid(
        "the call has no message: upload it to the /upload path, or send it as raw in base64url",
    )
}

/// That something in the call is wrong.
pub(super) fn invalid(problem: impl Into<String>) -> Rejection {
    Rejection::InvalidArgument {
        problem: problem.into(),
    }
}

/// That a parameter is wrong.
pub(super) fn invalid_parameter(name: &str, problem: &str) -> Rejection {
    Rejection::InvalidParameter {
        parameter: name.to_owned(),
        problem: problem.to_owned(),
    }
}
