//! How much is lost when a request is refused. Where the server is nearly full, those go first that lose least:
//! a start, then a question, then more bytes of an upload, and the end of one last of all.

use http::header::CONTENT_RANGE;
use http::request::Parts;
use http::{HeaderName, Method};
use windlass_proto::command::effective_method;
use windlass_proto::parameters::Parameters;

/// The command of the dialect of `X-Goog-Upload-*`.
const COMMAND: HeaderName = HeaderName::from_static("x-goog-upload-command");

/// How much is lost when a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Importance {
    /// Nothing is there yet: the start of an upload, an upload in one request, another call that writes.
    Start,
    /// A question: the state of an upload, a call that reads.
    Query,
    /// More bytes of an upload.
    Append,
    /// The last bytes of an upload, or what makes room: a cancel, a deletion. And whether the server works.
    Finish,
}

impl Importance {
    /// Classes a request by its head alone: it is needed before anything else is read or looked up.
    pub(crate) fn of(head: &Parts) -> Self {
        if let Some(command) = head.headers.get(&COMMAND) {
            return of_command(command.as_bytes());
        }
        let method = effective_method(&head.method, &head.headers);
        let method = method.unwrap_or_else(|_| head.method.clone());
        if method == Method::DELETE {
            return Self::Finish;
        }
        let has_session =
            Parameters::parse(head.uri.query()).is_ok_and(|query| query.upload_id().is_some());
        match (has_session, method) {
            (true, _) => of_range(head),
            (false, Method::GET | Method::HEAD | Method::OPTIONS) => Self::Query,
            (false, _) => Self::Start,
        }
    }

    /// Returns how many sixteenths of a pool are left to what is more important.
    pub(crate) fn leaves(self) -> u32 {
        match self {
            Self::Start => 3,
            Self::Query => 2,
            Self::Append => 1,
            Self::Finish => 0,
        }
    }
}

fn of_command(command: &[u8]) -> Importance {
    let command = command.to_ascii_lowercase();
    let has = |word: &[u8]| command.windows(word.len()).any(|part| part == word);
    if has(b"finalize") || has(b"cancel") {
        Importance::Finish
    } else if has(b"upload") {
        Importance::Append
    } else if has(b"query") {
        Importance::Query
    } else {
        Importance::Start
    }
}

/// Classes a request to a session. Without `Content-Range` it brings all that is left.
fn of_range(head: &Parts) -> Importance {
    let Some(range) = head.headers.get(CONTENT_RANGE) else {
        return Importance::Finish;
    };
    let range = range.to_str().unwrap_or_default().trim();
    let range = range.strip_prefix("bytes").unwrap_or(range).trim_start();
    match range.split_once('/') {
        Some(("*", _)) => Importance::Query,
        Some((bytes, total)) => {
            let last = bytes.rsplit('-').next();
            let last: Option<u64> = last.and_then(|last| last.trim().parse().ok());
            let total: Option<u64> = total.trim().parse().ok();
            let is_last = last.and_then(|last| last.checked_add(1)) == total && total.is_some();
            if is_last || last.is_none() {
                Importance::Finish
            } else {
                Importance::Append
            }
        }
        None => Importance::Append,
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
        assert_eq!(
            Importance::of(&head),
            expected,
            "{method} {target} {headers:?}"
        );
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

    #[test]
    fn more_important_requests_leave_less() {
        let all = [
            Importance::Start,
            Importance::Query,
            Importance::Append,
            Importance::Finish,
        ];
        assert!(all.is_sorted());
        assert!(all.is_sorted_by_key(|it| std::cmp::Reverse(it.leaves())));
    }
}
