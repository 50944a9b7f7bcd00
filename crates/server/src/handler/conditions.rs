//! What a request is conditional on.

use crate::precondition::{ETag, Validators, Verdict, evaluate};

use super::Rejection;

/// What a request is conditional on.
#[derive(Clone, Copy, Default)]
pub struct Conditions<'a>(Option<(&'a http::Method, &'a http::HeaderMap)>);

impl<'a> Conditions<'a> {
    /// The conditions in the head of a request.
    pub(crate) fn of(http_method: &'a http::Method, headers: &'a http::HeaderMap) -> Self {
        Self(Some((http_method, headers)))
    }

    /// Holds them against the resource whose entity tag this is, quotes included.
    pub(super) fn check(&self, etag: &str) -> Result<(), Rejection> {
        let Some((http_method, headers)) = self.0 else {
            return Ok(());
        };
        let validators = ETag::parse(etag).map(|etag| Validators {
            etag,
            modified: None,
        });
        match evaluate(headers, http_method, validators.as_ref()) {
            Verdict::Proceed => Ok(()),
            Verdict::NotModified => Err(Rejection::NotModified),
            Verdict::Failed => Err(Rejection::ConditionNotMet),
        }
    }
}

impl std::fmt::Debug for Conditions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Conditions")
    }
}
