//! All errors and warnings of a discovery document.
//!
//! ```
//! use windlass_discovery::{Document, lint};
//!
//! let document = Document::from_json(r#"{
//!     "name": "farm", "version": "v1",
//!     "methods": {"ping": {"id": "farm.ping", "path": "ping"}},
//!     "schemas": {"Barn": {"properties": {"door": {"$ref": "Door"}}}}
//! }"#)?;
//! let findings: Vec<_> = lint::lint(&document).iter().map(ToString::to_string).collect();
//! assert_eq!(findings, [
//!     "error: methods.ping.httpMethod: the field is missing",
//!     "warning: schemas.Barn.properties.door.$ref: there is no schema `Door`; no method leads here",
//! ]);
//! # Ok::<(), windlass_discovery::Error>(())
//! ```

use std::fmt;

use thiserror::Error;

use crate::api::{all_properties, compile, unknown_references};
use crate::document::{Document, MediaUploadDescription, MethodDescription, ParameterDescription};
use crate::error::{Fault, FieldPath, LocatedFault};
use crate::method::join;
use crate::parameter::{Numbers, Parameter};
use crate::pattern::NotAPattern;

/// An error or a warning about a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where, e.g. `resources.animals.methods.insert.mediaUpload.accept[1]`.
    pub path: String,
    /// The error or warning.
    pub problem: Problem,
}

/// A suspicious place in a document that can be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// A warning: the document can be used, but probably does not mean what it says.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A suspicious construct: the document can be used, but probably does not mean what its author
    /// intended.
    #[error(transparent)]
    LintWarning(#[from] LintWarning),
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The document can be used.
    Warning,
    /// The document cannot be used.
    Error,
}

/// A warning about one position of a document that can be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LintWarning {
    /// A method accepts media but does not state how it is uploaded.
    #[error("there is no `mediaUpload`, so no media is taken")]
    FlagWithoutUpload,
    /// A method takes media and does not say so in the field that client generators read.
    #[error("`supportsMediaUpload` is not set, so many clients offer no upload")]
    UploadWithoutFlag,
    /// A method takes media at no path.
    #[error("neither `simple` nor `resumable` is there, so no client knows where media goes")]
    NoProtocol,
    /// Many clients ignore this path and derive the upload path from the method's path.
    #[error("the path is not `{expected}`, where many clients upload to")]
    UploadPath {
        /// The path that those clients use.
        expected: String,
    },
    /// The size of the media is not limited.
    #[error("there is no `maxSize`, so media of any size is taken")]
    Unlimited,
    /// An upload has no reply that the document describes.
    #[error("there is no `response`, so clients learn nothing of what they uploaded")]
    NoResponse,
    /// A schema that no method uses refers to a schema that does not exist.
    #[error("there is no schema `{name}`; no method leads here")]
    UnknownSchema {
        /// The name.
        name: String,
    },
    /// A parameter is in the path, which has no such variable.
    #[error("the path has no variable `{name}`")]
    UnusedParameter {
        /// The parameter.
        name: String,
    },
    /// A parameter of the path may be left out, which no path can.
    #[error("a parameter in the path is always required")]
    OptionalVariable,
    /// A pattern is not checked.
    #[error("{0}; every value fits")]
    Pattern(NotAPattern),
    /// A text may be too long for its pattern.
    #[error(
        "no `max_length` (`maxLength`) bounds the work of the pattern, so text of more than \
         {longest} bytes is refused"
    )]
    LongText {
        /// The maximum length in bytes of a matched text.
        longest: u64,
    },
    /// No value is allowed.
    #[error("no number is between `minimum` and `maximum`")]
    NoNumbers,
    /// The default is not one of the allowed values.
    #[error("`{default}` is none of the allowed values")]
    Default {
        /// The default.
        default: String,
    },
}

impl Finding {
    /// Returns the severity.
    pub fn severity(&self) -> Severity {
        match self.problem {
            Problem::Fault(_) => Severity::Error,
            Problem::LintWarning(_) => Severity::Warning,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, problem } = self;
        write!(f, "{}: {path}: {problem}", self.severity())
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

impl From<LocatedFault> for Finding {
    fn from(LocatedFault { path, fault }: LocatedFault) -> Self {
        let problem = fault.into();
        Self { path, problem }
    }
}

/// Checks the whole document. Returns the errors first, then the warnings in the order of methods
/// and schemas.
pub fn lint(document: &Document) -> Vec<Finding> {
    let (methods, faults) = compile(document);
    let mut found: Vec<Finding> = faults.into_vec().into_iter().map(Finding::from).collect();
    let mut linter = Linter {
        service_path: document.service_path.as_deref().unwrap_or_default(),
        found: Vec::new(),
    };
    for (field_path, described) in document.described_methods() {
        linter.lint_method(described, &field_path);
        let compiled = methods
            .iter()
            .find(|it| described.id.as_ref() == Some(&it.id));
        for parameter in compiled.iter().flat_map(|method| &method.parameters) {
            linter.lint_compiled(
                parameter,
                &field_path.field("parameters").field(&parameter.name),
            );
        }
    }
    linter.lint_references(document, &found);
    linter.lint_patterns(document);
    found.append(&mut linter.found);
    found
}

struct Linter<'a> {
    service_path: &'a str,
    found: Vec<Finding>,
}

impl Linter<'_> {
    fn push(&mut self, field_path: &FieldPath, warning: LintWarning) {
        self.found.push(Finding {
            path: field_path.clone().into_path(),
            problem: warning.into(),
        });
    }

    fn lint_method(&mut self, method: &MethodDescription, field_path: &FieldPath) {
        match (&method.media_upload, method.supports_media_upload) {
            (None, true) => {
                self.push(
                    &field_path.field("supportsMediaUpload"),
                    LintWarning::FlagWithoutUpload,
                );
            }
            (Some(_), false) => self.push(
                &field_path.field("mediaUpload"),
                LintWarning::UploadWithoutFlag,
            ),
            (Some(_), true) | (None, false) => {}
        }
        if let Some(upload) = &method.media_upload {
            self.lint_upload(method, upload, &field_path.field("mediaUpload"));
            if method.response.is_none() {
                self.push(field_path, LintWarning::NoResponse);
            }
        }
        for (name, parameter) in &method.parameters {
            let field_path = field_path.field("parameters").field(name);
            self.lint_parameter(method, name, parameter, &field_path);
        }
    }

    fn lint_upload(
        &mut self,
        method: &MethodDescription,
        upload: &MediaUploadDescription,
        field_path: &FieldPath,
    ) {
        let protocols = &upload.protocols;
        let path_of = |name| field_path.field("protocols").field(name).field("path");
        let simple = format!(
            "/upload/{}",
            join(
                self.service_path,
                method.path.as_deref().unwrap_or_default()
            )
        );
        let resumable = format!("/resumable{simple}");
        for (name, protocol, expected) in [
            ("simple", &protocols.simple, simple),
            ("resumable", &protocols.resumable, resumable),
        ] {
            if protocol.as_ref().is_some_and(|it| it.path != expected) {
                self.push(&path_of(name), LintWarning::UploadPath { expected });
            }
        }
        if protocols.simple.is_none() && protocols.resumable.is_none() {
            self.push(&field_path.field("protocols"), LintWarning::NoProtocol);
        }
        if upload.max_size.is_none() {
            self.push(field_path, LintWarning::Unlimited);
        }
    }

    fn lint_parameter(
        &mut self,
        method: &MethodDescription,
        name: &str,
        parameter: &ParameterDescription,
        field_path: &FieldPath,
    ) {
        if parameter.location.as_deref() == Some("path") {
            let variables = [format!("{{{name}}}"), format!("{{+{name}}}")];
            let path = method.path.as_deref().unwrap_or_default();
            if !variables.iter().any(|variable| path.contains(variable)) {
                let name = name.to_owned();
                self.push(field_path, LintWarning::UnusedParameter { name });
            } else if !parameter.required {
                self.push(field_path, LintWarning::OptionalVariable);
            }
        }
        let allowed = &parameter.allowed_values;
        let default = parameter.default.as_ref();
        if let Some(default) = default.filter(|it| !allowed.is_empty() && !allowed.contains(it)) {
            let default = default.clone();
            self.push(
                &field_path.field("default"),
                LintWarning::Default { default },
            );
        }
    }

    fn lint_compiled(&mut self, parameter: &Parameter, field_path: &FieldPath) {
        if let Some(problem) = parameter.pattern.as_ref().and_then(|it| it.problem()) {
            self.push(
                &field_path.field("pattern"),
                LintWarning::Pattern(problem.clone()),
            );
        }
        if parameter.numbers.as_ref().is_some_and(Numbers::is_empty) {
            self.push(field_path, LintWarning::NoNumbers);
        }
    }

    fn lint_references(&mut self, document: &Document, errors: &[Finding]) {
        for (field_path, name) in unknown_references(document) {
            let path = field_path.clone().into_path();
            if !errors.iter().any(|error| error.path == path) {
                let name = name.to_owned();
                self.push(&field_path, LintWarning::UnknownSchema { name });
            }
        }
    }

    /// Parameters are not looked at: the limit on request heads bounds them. Nor are elements of
    /// arrays and maps, for which the short form has no `max_length`.
    fn lint_patterns(&mut self, document: &Document) {
        for (field_path, property) in all_properties(document) {
            if let Some(longest) = property.unmatched_from() {
                self.push(
                    &field_path.field("pattern"),
                    LintWarning::LongText { longest },
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
