//! Errors that the methods and the storage of mailboxes share.

use windlass_server::handler::Rejection;

pub(super) fn not_found(what: &str, id: &str) -> Rejection {
    Rejection::NotFound {
        what: what.to_owned(),
        // The client chose the text, which may be long.
        id: id.chars().take(200).collect(),
    }
}

pub(super) fn no_media() -> Rejection {
    invalid(
        "the call has no message: upload it to the /upload path, or send it as raw in base64url",
    )
}

/// Refuses an argument of the call.
pub(super) fn invalid(problem: impl Into<String>) -> Rejection {
    Rejection::InvalidArgument {
        problem: problem.into(),
    }
}

/// Refuses a query parameter.
pub(super) fn invalid_parameter(name: &str, problem: &str) -> Rejection {
    Rejection::InvalidParameter {
        parameter: name.to_owned(),
        problem: problem.to_owned(),
    }
}
