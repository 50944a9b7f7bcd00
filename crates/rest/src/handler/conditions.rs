//! The conditional headers of a request.

use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Method as HttpMethod};

use super::Rejection;
use crate::precondition::{ETag, Validators, Verdict, evaluate};

/// The conditional headers of a request.
#[derive(Clone, Copy, Default)]
pub struct Conditions<'a> {
    head: Option<(&'a HttpMethod, &'a HeaderMap)>,
    /// Whether the handler has checked `If-Match` and similar headers.
    are_asked: Option<&'a AtomicBool>,
    /// Whether `If-Match` and similar headers apply to media. The download then checks them.
    are_of_media: bool,
}

impl<'a> Conditions<'a> {
    /// Returns the conditions in the head of a request.
    pub fn of(http_method: &'a HttpMethod, headers: &'a HeaderMap) -> Self {
        Self {
            head: Some((http_method, headers)),
            are_asked: None,
            are_of_media: false,
        }
    }

    /// Returns the conditions of a download. `If-Match` and similar headers then apply to the
    /// media, and only API-specific conditions apply to the resource.
    #[must_use]
    pub fn of_media(self) -> Self {
        Self {
            are_of_media: true,
            ..self
        }
    }

    /// Returns these conditions. `are_asked` becomes true when they are checked.
    pub(super) fn noting_checks<'b>(self, are_asked: &'b AtomicBool) -> Conditions<'b>
    where
        'a: 'b,
    {
        Conditions {
            are_asked: Some(are_asked),
            ..self
        }
    }

    /// Checks the conditions against the entity tag of a resource, quotes included. `None` if the
    /// resource does not exist.
    pub(super) fn check(&self, etag: Option<&str>) -> Result<(), Rejection> {
        if let Some(are_asked) = self.are_asked {
            // Relaxed: the flag is read by the same task.
            are_asked.store(true, Ordering::Relaxed);
        }
        let Some((http_method, headers)) = self.head.filter(|_| !self.are_of_media) else {
            return Ok(());
        };
        let etag = etag.and_then(ETag::parse);
        let validators = etag.map(|etag| Validators {
            etag,
            modified: None,
        });
        match evaluate(headers, http_method, validators.as_ref()) {
            Verdict::Proceed => Ok(()),
            Verdict::NotModified => Err(Rejection::NotModified),
            Verdict::Failed => Err(Rejection::ConditionNotMet),
        }
    }

    /// Checks the conditions of a call whose handler has not checked them. The target has no entity
    /// tag but exists, so `*` matches it and no tag does.
    pub(super) fn check_unasked(&self) -> Result<(), Rejection> {
        let Some((http_method, headers)) = self.head.filter(|_| !self.are_of_media) else {
            return Ok(());
        };
        if self.are_asked.is_some_and(|it| it.load(Ordering::Relaxed)) {
            return Ok(());
        }
        let is_any = |value: &HeaderValue| value.as_bytes().trim_ascii() == b"*";
        let any_of = |name| headers.get_all(name).iter().any(is_any);
        // A POST creates a resource, which does not exist yet.
        let changes =
            [HttpMethod::PUT, HttpMethod::PATCH, HttpMethod::DELETE].contains(http_method);
        let is_other = headers.contains_key(IF_MATCH) && !any_of(IF_MATCH);
        if is_other || (changes && any_of(IF_NONE_MATCH)) {
            return Err(Rejection::ConditionNotMet);
        }
        Ok(())
    }

    /// Returns the value of a condition in a header of the API; see [`Call::condition_header`].
    ///
    /// [`Call::condition_header`]: super::Call::condition_header
    pub(super) fn own(&self, name: &str) -> Result<Option<&'a str>, Rejection> {
        let Some((_, headers)) = self.head else {
            return Ok(None);
        };
        let mut values = headers.get_all(name).into_iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        match (value.to_str(), values.next()) {
            (Ok(text), None) => Ok(Some(text.trim_ascii())),
            _ => Err(Rejection::InvalidHeader {
                header: name.to_owned(),
                problem: "must be there once".to_owned(),
            }),
        }
    }
}

impl std::fmt::Debug for Conditions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Conditions")
    }
}
