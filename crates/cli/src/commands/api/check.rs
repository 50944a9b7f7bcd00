//! `windlass api check`.

use windlass_discovery::lint::{self, Severity};
use windlass_discovery::short_form::place_of;
use windlass_server::unanswered_methods;

use super::finding::Finding;
use super::{Description, Error, snippet, stored};
use crate::args::ApiCheckArgs;
use crate::exit::Code;
use crate::output;

/// Prints all that is wrong with a description.
pub(super) fn run(args: &ApiCheckArgs) -> Result<Code, Error> {
    let description = Description::read(&args.description)?;
    let mut findings = findings_of(&description);
    if let Some(data) = &args.data
        && !findings.iter().any(Finding::is_error)
    {
        description.short_form().ok_or(Error::DataOfDocument)?;
        findings.extend(stored::findings(&description.api()?, data)?);
    }
    for finding in &findings {
        match (&description, &finding.span) {
            _ if args.json => output::json(finding.to_json(description.short_form())),
            (Description::Text { path, text, .. }, Some(span)) => {
                // An empty line keeps one snippet from the next.
                output::styled(|colours| {
                    snippet::of(finding, path, text, span.clone(), colours) + "\n"
                });
            }
            _ => output::data(finding),
        }
    }
    output::note(summary(&findings));
    if findings.iter().any(Finding::is_error) {
        Ok(Code::Failure)
    } else {
        Ok(Code::Success)
    }
}

/// Returns all findings. A text that is not JSON has a single finding: the error of the parser.
fn findings_of(description: &Description) -> Vec<Finding> {
    match description.document() {
        Ok(document) => {
            let of_document = lint::lint(&document).into_iter();
            let of_document =
                of_document.map(|finding| Finding::of_document(finding, description.short_form()));
            let mut findings: Vec<_> = of_document.collect();
            // A finding that all methods of a collection share is reported once.
            findings.dedup_by(|next, first| {
                first.span.is_some() && (&next.span, &next.message) == (&first.span, &first.message)
            });
            findings.extend(unanswered(description));
            findings
        }
        Err(Error::Mistakes(mistakes)) => {
            let mistakes = mistakes.error().mistakes().iter();
            mistakes.map(Finding::from).collect()
        }
        Err(error) => vec![Finding::from(error)],
    }
}

/// Warns of methods of the short form that nothing implements.
fn unanswered(description: &Description) -> Vec<Finding> {
    let Some(text) = description.short_form() else {
        return Vec::new();
    };
    let Ok(api) = description.api() else {
        return Vec::new();
    };
    let prefix = format!("{}.", api.name());
    unanswered_methods(&api)
        .map(|method| {
            let name = method.id.strip_prefix(&prefix).unwrap_or(&method.id);
            Finding {
                severity: Severity::Warning,
                path: None,
                message: format!("`{name}` is not implemented and returns 501"),
                help: Some(
                    "`backend = \"https://...\"` names a service that answers it".to_owned(),
                ),
                span: place_of(text, &path_of_method(name)),
            }
        })
        .collect()
}

/// The path of a method in the document: `resources.photos.methods.like`.
fn path_of_method(name: &str) -> String {
    let words: Vec<_> = name.split('.').collect();
    let (verb, collections) = words.split_last().expect("splitting gives one part");
    let collections = collections.iter().map(|name| format!("resources.{name}."));
    format!("{}methods.{verb}", collections.collect::<String>())
}

/// Returns the number of errors and of warnings.
fn summary(findings: &[Finding]) -> String {
    let errors = findings.iter().filter(|finding| finding.is_error()).count();
    let warnings = findings.len() - errors;
    let count = |count: usize, what: &str| match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    format!("{}, {}", count(errors, "error"), count(warnings, "warning"))
}
