//! Methods of a service that this server lacks, at their paths. A call of such a method is answered
//! 501, so that nobody looks for a wrong path.

use windlass_discovery::Template;

/// Methods by the HTTP method and the path of each. `{+rest}` stands for any number of segments.
pub(crate) struct NotServed(&'static [Entry]);

/// HTTP methods, separated by blanks (`*` for all), path, and id.
type Entry = (&'static str, &'static str, &'static str);

impl NotServed {
    pub(crate) const fn new(entries: &'static [Entry]) -> Self {
        Self(entries)
    }

    /// Returns the id of the method at a path.
    pub(crate) fn find(&self, http_method: &http::Method, path: &str) -> Option<String> {
        let is_at = |(verbs, template, _): &&Entry| {
            let mut verbs = verbs.split(' ');
            let has_verb = verbs.any(|verb| verb == "*" || verb == http_method.as_str());
            let template = Template::parse(template).expect("it is written as a template");
            has_verb && template.match_path(path).is_some()
        };
        let found = self.0.iter().find(is_at);
        found.map(|(_, _, id)| (*id).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn method_is_found_by_verb_and_path() {
        let methods = NotServed::new(&[
            ("GET PUT", "x/{id}/iam", "x.iam"),
            ("*", "x/{id}/folders/{+rest}", "x.folders"),
        ]);
        for (verb, path, expected) in [
            (Method::GET, "/x/1/iam", Some("x.iam")),
            (Method::PUT, "/x/1/iam", Some("x.iam")),
            (Method::DELETE, "/x/1/iam", None),
            (Method::GET, "/x/1/2/iam", None),
            (Method::PATCH, "/x/1/folders/a/b", Some("x.folders")),
            (Method::GET, "/x/1/folders", None),
        ] {
            assert_eq!(
                methods.find(&verb, path).as_deref(),
                expected,
                "{verb} {path}"
            );
        }
    }
}
