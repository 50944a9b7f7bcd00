//! The order in which a nearly full server refuses requests. The first to be refused are requests
//! that cost the client little to repeat: starts, then queries, then chunks of an upload, then the
//! final bytes of an upload. The last slots are kept for clients that have few requests while other
//! clients have many. A request's head is not verified yet, so a client with many requests could
//! claim the highest class for each of them.

use http::header::CONTENT_RANGE;
use http::request::Parts;
use http::{HeaderValue, Method};
use windlass_engine::Importance;
use windlass_proto::command::effective_method;
use windlass_proto::content_range::ContentRange;
use windlass_proto::header::X_GOOG_UPLOAD_COMMAND;
use windlass_proto::parameters::Parameters;
use windlass_proto::upload_command::UploadCommand;

/// Classifies a request by its head alone, because the class is needed before anything else is
/// read or looked up.
pub(crate) fn of(head: &Parts) -> Importance {
    if let Some(command) = head.headers.get(X_GOOG_UPLOAD_COMMAND) {
        return of_command(command);
    }
    let method = effective_method(&head.method, &head.headers);
    let method = method.unwrap_or_else(|_| head.method.clone());
    if method == Method::DELETE {
        return Importance::Finish;
    }
    let has_session =
        Parameters::parse(head.uri.query()).is_ok_and(|query| query.upload_id().is_some());
    match (has_session, method) {
        (true, _) => of_range(head),
        (false, Method::GET | Method::HEAD | Method::OPTIONS) => Importance::Query,
        (false, _) => Importance::Start,
    }
}

/// Classifies a command of the `X-Goog-Upload-*` dialect.
fn of_command(command: &HeaderValue) -> Importance {
    let command = command.to_str().ok();
    match command.map(UploadCommand::parse) {
        Some(Ok(
            UploadCommand::UploadAndFinalize | UploadCommand::Finalize | UploadCommand::Cancel,
        )) => Importance::Finish,
        Some(Ok(UploadCommand::Upload)) => Importance::Append,
        Some(Ok(UploadCommand::Query)) => Importance::Query,
        Some(Ok(UploadCommand::Start) | Err(_)) | None => Importance::Start,
    }
}

/// Classifies a request to a session. A request without `Content-Range` carries the rest of the
/// upload.
fn of_range(head: &Parts) -> Importance {
    let Some(range) = head.headers.get(CONTENT_RANGE) else {
        return Importance::Finish;
    };
    match ContentRange::parse(range.as_bytes()) {
        Ok(ContentRange::Query { .. }) => Importance::Query,
        Ok(ContentRange::ToEnd { .. }) => Importance::Finish,
        Ok(ContentRange::Bounded { last, total, .. }) if last.checked_add(1) == total => {
            Importance::Finish
        }
        Ok(ContentRange::Bounded { .. }) | Err(_) => Importance::Append,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const SESSION: &str = "/upload/farm/v1/animals?uploadType=resumable&upload_id=x";

    #[track_caller]
    fn check(method: &str, target: &str, headers: &[(&str, &str)], expected: Importance) {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(of(&head), expected, "{method} {target} {headers:?}");
    }

    #[test]
    fn requests_are_classed_by_what_is_lost() {
        use Importance::{Append, Finish, Query, Start};
        let range = |value| [("content-range", value)];
        check("PUT", SESSION, &[], Finish);
        check("PUT", SESSION, &range("bytes */*"), Query);
        check("PUT", SESSION, &range("bytes */100"), Query);
        check("PUT", SESSION, &range("bytes 0-49/100"), Append);
        check("PUT", SESSION, &range("bytes 0-49/*"), Append);
        check("PUT", SESSION, &range("bytes 50-99/100"), Finish);
        check("PUT", SESSION, &range("bytes 50-*/100"), Finish);
        check("PUT", SESSION, &range("nonsense"), Append);
        check("DELETE", SESSION, &[], Finish);
        check(
            "POST",
            SESSION,
            &[("x-http-method-override", "DELETE")],
            Finish,
        );
        check(
            "POST",
            "/upload/farm/v1/animals?uploadType=resumable",
            &[],
            Start,
        );
        check(
            "POST",
            "/upload/farm/v1/animals?uploadType=media",
            &[],
            Start,
        );
        check("POST", "/farm/v1/animals", &[], Start);
        check("GET", "/farm/v1/animals", &[], Query);
        check("DELETE", "/farm/v1/animals/1", &[], Finish);
        for (command, expected) in [
            ("start", Start),
            ("query", Query),
            ("upload", Append),
            ("upload, finalize", Finish),
            ("finalize", Finish),
            ("cancel", Finish),
        ] {
            check(
                "POST",
                SESSION,
                &[("x-goog-upload-command", command)],
                expected,
            );
        }
    }
}
