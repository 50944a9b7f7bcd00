//! The dialects that a server speaks.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, Method, Uri};
use windlass_discovery::{Found, MethodTable, Target};
use windlass_engine::Importance;
use windlass_proto::command::effective_method;
use windlass_proto::dialect::{
    Dialect, Google, Ietf, Intent, Offer, RequestTarget, SessionPath, Tus, XGoogUpload,
};
use windlass_proto::parameters::Parameters;
use windlass_rest::registry::plain_path;

/// The dialects of a server, in the order in which they may claim a request.
#[derive(Debug)]
pub(crate) struct Dialects {
    /// Dialects that claim some of the requests.
    others: Vec<Arc<dyn Dialect>>,
    /// Google's dialect, which handles all other requests.
    google: Arc<dyn Dialect>,
}

impl Dialects {
    /// The server's own dialects, and `added` dialects, which are asked first.
    pub(crate) fn new(added: Vec<Arc<dyn Dialect>>) -> Self {
        let mut others = added;
        others.push(Arc::new(XGoogUpload));
        others.push(Arc::new(Ietf::default()));
        others.push(Arc::new(Tus::default()));
        Self {
            others,
            google: Arc::new(Google),
        }
    }

    /// A name that several dialects have.
    pub(crate) fn ambiguous_name(&self) -> Option<&'static str> {
        let mut names: Vec<_> = self.all().map(Dialect::name).collect();
        names.sort_unstable();
        names
            .windows(2)
            .find(|pair| pair[0] == pair[1])
            .map(|pair| pair[0])
    }

    fn all(&self) -> impl Iterator<Item = &dyn Dialect> {
        self.others
            .iter()
            .chain([&self.google])
            .map(|dialect| &**dialect)
    }

    /// The dialect of requests that no other dialect claims, and of requests that are not uploads.
    pub(crate) fn default(&self) -> Arc<dyn Dialect> {
        Arc::clone(&self.google)
    }

    /// The dialect with this name, if the server speaks it.
    pub(crate) fn named(&self, name: &str) -> Option<&dyn Dialect> {
        self.all().find(|dialect| dialect.name() == name)
    }

    /// Returns the URI of a session that is named in the path, with its `upload_id` in the query.
    /// `None` for any other URI, also for one with a second `upload_id` in its query.
    pub(crate) fn session_in_query(&self, uri: &Uri) -> Option<Uri> {
        let path = uri.path();
        let mut found = self.all().filter_map(|dialect| {
            let session = SessionPath::parse(path, dialect.session_segment()?)?;
            Some((session, dialect.session_parameters()))
        });
        let (session, parameters) = found.next()?;
        let SessionPath {
            upload_id, plain, ..
        } = session;
        let mut in_query = format!("/upload{plain}?{parameters}&upload_id={upload_id}");
        if let Some(query) = uri.query() {
            if Parameters::parse(Some(query)).ok()?.upload_id().is_some() {
                return None;
            }
            in_query.push('&');
            in_query.push_str(query);
        }
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(in_query.parse().ok()?);
        Uri::from_parts(parts).ok()
    }

    /// The dialect that claims a request, as it answers this request. `None` means Google's dialect,
    /// or no upload. The methods of the requested host are in `table`.
    pub(crate) fn claiming(
        &self,
        head: &Parts,
        http_method: &Method,
        table: &MethodTable,
    ) -> Option<Arc<dyn Dialect>> {
        let parameters = Parameters::parse(head.uri.query()).unwrap_or_default();
        let mut target = target_of(head, http_method, &parameters);
        target.is_media_path = !target.is_upload_path
            && target.may_carry_media()
            && takes_media(table, http_method, head.uri.path());
        self.claiming_target(&target)
    }

    /// As [`claiming`](Self::claiming), by the effective HTTP method of the head.
    pub(crate) fn claiming_head(
        &self,
        head: &Parts,
        table: &MethodTable,
    ) -> Option<Arc<dyn Dialect>> {
        let method = effective_method(&head.method, &head.headers);
        self.claiming(head, method.as_ref().unwrap_or(&head.method), table)
    }

    /// Whether a dialect would claim a request with these headers, sent to an upload path.
    pub(crate) fn claim_headers(&self, headers: &HeaderMap) -> bool {
        let target = RequestTarget {
            http_method: &Method::POST,
            is_upload_path: true,
            is_media_path: false,
            parameters: &Parameters::default(),
            headers,
        };
        self.claiming_target(&target).is_some()
    }

    fn claiming_target(&self, target: &RequestTarget<'_>) -> Option<Arc<dyn Dialect>> {
        let claiming = self.others.iter().find(|dialect| dialect.claims(target))?;
        let of_request = claiming.of_request(target);
        Some(of_request.unwrap_or_else(|| Arc::clone(claiming)))
    }

    /// What all dialects say about uploads to a path; empty if none says anything.
    pub(crate) fn describe(&self, offer: &Offer) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for dialect in self.all() {
            dialect.describe(offer, &mut headers);
        }
        headers
    }

    /// Returns the importance of a request, which its dialect reads from the head alone: it is
    /// needed before the server reads or looks up anything else. A creation at the plain path of a
    /// method is as important as a call there.
    pub(crate) fn importance_of(&self, head: &Parts) -> Importance {
        let method = effective_method(&head.method, &head.headers);
        let method = method.as_ref().unwrap_or(&head.method);
        let parameters = Parameters::parse(head.uri.query()).unwrap_or_default();
        let target = target_of(head, method, &parameters);
        let claiming = self.claiming_target(&target);
        let dialect = claiming.as_ref().unwrap_or(&self.google);
        importance(dialect.intent(&target))
    }
}

fn target_of<'a>(
    head: &'a Parts,
    http_method: &'a Method,
    parameters: &'a Parameters,
) -> RequestTarget<'a> {
    RequestTarget {
        http_method,
        is_upload_path: plain_path(head.uri.path()).is_some(),
        is_media_path: false,
        parameters,
        headers: &head.headers,
    }
}

/// Whether a method with media has this plain path.
fn takes_media(table: &MethodTable, http_method: &Method, path: &str) -> bool {
    match table.find(http_method, path) {
        Found::Method { method, target, .. } => target == Target::Plain && method.upload.is_some(),
        Found::WrongHttpMethod { .. } | Found::Nothing => false,
    }
}

fn importance(intent: Intent) -> Importance {
    match intent {
        Intent::Start => Importance::Start,
        Intent::Query => Importance::Query,
        Intent::Append => Importance::Append,
        Intent::Finish => Importance::Finish,
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, Request};

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
            Dialects::new(Vec::new()).importance_of(&head),
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

    #[test]
    fn session_in_the_path_is_moved_into_the_query() {
        let dialects = Dialects::new(Vec::new());
        let moved = |uri: &str| {
            let uri = dialects.session_in_query(&uri.parse().unwrap());
            uri.map(|uri| uri.to_string())
        };
        let query = "uploadType=tus&upload_id=a-Z_9";
        let path = "/upload/-tus/a-Z_9/farm/v1/animals";
        assert_eq!(
            moved(path),
            Some(format!("/upload/farm/v1/animals?{query}"))
        );
        assert_eq!(
            moved(&format!("http://localhost:80{path}?key=k")),
            Some(format!(
                "http://localhost:80/upload/farm/v1/animals?{query}&key=k"
            ))
        );
        for other in [
            "/upload/farm/v1/animals",
            "/upload/-tus/a-Z_9",
            "/upload/-tus/a-Z_9/farm?upload_id=b",
            "/upload/-tus/a-Z_9/farm?upload_id=a-Z_9",
            "*",
        ] {
            assert_eq!(moved(other), None, "{other}");
        }
    }

    #[test]
    fn http_method_tells_the_importance_in_other_dialects() {
        let check = |http_method: &[u8], has_session, expected| {
            let http_method = Method::from_bytes(http_method).unwrap();
            let intent = Intent::of_method(&http_method, has_session);
            assert_eq!(importance(intent), expected, "{http_method} {has_session}");
        };
        // The requests of tus: creation, chunk, question, termination.
        check(b"POST", false, Importance::Start);
        check(b"PATCH", true, Importance::Append);
        check(b"HEAD", true, Importance::Query);
        check(b"DELETE", true, Importance::Finish);
    }
}
