//! The findings of `windlass api check` and how they are printed.

use std::fmt;
use std::ops::Range;

use serde_json::{Value, json};
use windlass_discovery::Error as DescriptionError;
use windlass_discovery::lint::{self, Severity};
use windlass_discovery::short_form::{Mistake, Position, place_of};

use super::Error;
use crate::output::{escaped, with_causes};

/// A finding, as printed.
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// The key, or the path in the document; `None` if the text could not be parsed.
    pub(super) path: Option<String>,
    pub(super) message: String,
    pub(super) help: Option<String>,
    /// The bytes of the text that it is about, where they are known.
    pub(super) span: Option<Range<usize>>,
}

impl Finding {
    pub(super) fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    pub(super) fn of_document(finding: lint::Finding, short_form: Option<&str>) -> Self {
        let span = short_form.and_then(|text| place_of(text, &finding.path));
        Self {
            severity: finding.severity(),
            message: finding.problem.to_string(),
            // The path is of the discovery document, so a finding with a position in the short form
            // has none.
            path: span.is_none().then_some(finding.path),
            help: None,
            span,
        }
    }

    /// The key and the message, without the place.
    pub(super) fn title(&self) -> String {
        match &self.path {
            Some(path) => format!("{}: {}", escaped(path), escaped(&self.message)),
            None => escaped(&self.message).into_owned(),
        }
    }

    /// Returns the finding as JSON, with its place in the text.
    pub(super) fn to_json(&self, short_form: Option<&str>) -> Value {
        let mut json = json!({"severity": self.severity.to_string()});
        if let Some(path) = &self.path {
            json["path"] = json!(path);
        }
        json["message"] = json!(self.message);
        if let Some(help) = &self.help {
            json["help"] = json!(help);
        }
        if let (Some(span), Some(text)) = (&self.span, short_form) {
            let position = Position::of(text, span.start);
            json["line"] = json!(position.line);
            json["column"] = json!(position.column);
        }
        json
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, self.title())?;
        match &self.help {
            Some(help) => write!(f, "\nhelp: {}", escaped(help)),
            None => Ok(()),
        }
    }
}

impl From<&Mistake> for Finding {
    fn from(mistake: &Mistake) -> Self {
        // A mistake about something missing in the whole text has no position.
        let is_somewhere = mistake.span != (0..0) || mistake.key.is_some();
        Self {
            severity: Severity::Error,
            path: mistake.key.clone(),
            message: mistake.problem.clone(),
            help: mistake.help.clone(),
            span: is_somewhere.then(|| mistake.span.clone()),
        }
    }
}

impl From<Error> for Finding {
    fn from(error: Error) -> Self {
        let (path, message) = match error {
            Error::Unusable {
                source: DescriptionError::Shape { path, error },
                ..
            } => (Some(path), error.to_string()),
            other => (None, with_causes(&other)),
        };
        Self {
            severity: Severity::Error,
            path,
            message,
            help: None,
            span: None,
        }
    }
}
