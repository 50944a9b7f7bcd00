//! What is wrong with a description, and what is odd about it.

use std::fmt;

use serde_json::{Value, json};
use windlass_discovery::Error as DescriptionError;
use windlass_discovery::lint::{self, Severity};

use super::Error;
use super::description::Description;
use crate::display::escaped;
use crate::output::with_causes;

/// A finding as it is printed.
pub(super) struct Finding {
    severity: Severity,
    /// Where in the document; unknown where there is no document yet.
    path: Option<String>,
    message: String,
}

/// All findings. Of a text that is no document there is one: why it is none.
pub(super) fn of(description: &Description) -> Vec<Finding> {
    match description.document() {
        Ok(document) => lint::lint(&document)
            .into_iter()
            .map(Finding::from)
            .collect(),
        Err(error) => vec![Finding::from(error)],
    }
}

/// How many of each there are.
pub(super) fn summary(findings: &[Finding]) -> String {
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    let warnings = findings.len() - errors;
    let count = |count: usize, what: &str| match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    format!("{}, {}", count(errors, "error"), count(warnings, "warning"))
}

impl Finding {
    pub(super) fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The finding for programs.
    pub(super) fn to_json(&self) -> Value {
        let mut json = json!({"severity": self.severity.to_string()});
        if let Some(path) = &self.path {
            json["path"] = json!(path);
        }
        json["message"] = json!(self.message);
        json
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.severity)?;
        if let Some(path) = &self.path {
            write!(f, "{}: ", escaped(path))?;
        }
        f.write_str(&escaped(&self.message))
    }
}

impl From<lint::Finding> for Finding {
    fn from(finding: lint::Finding) -> Self {
        Self {
            severity: finding.severity(),
            path: Some(finding.path),
            message: finding.problem.to_string(),
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
        }
    }
}
