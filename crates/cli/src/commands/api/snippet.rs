//! A finding with the lines of the text that it is about.

use std::ops::Range;
use std::path::Path;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use windlass_discovery::lint::Severity;

use super::finding::Finding;
use crate::output::escaped;

/// Returns the finding, with its lines underlined.
pub(super) fn of(
    finding: &Finding,
    path: &Path,
    text: &str,
    span: Range<usize>,
    colours: bool,
) -> String {
    let level = match finding.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let path = path.display().to_string();
    let snippet = Snippet::source(text)
        .path(escaped(&path))
        .annotation(AnnotationKind::Primary.span(span));
    let title = finding.title();
    let help = finding.help.as_deref().map(escaped);
    let mut group = level.primary_title(title).element(snippet);
    if let Some(help) = help {
        group = group.element(Level::HELP.message(help));
    }
    let renderer = if colours {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    renderer.render(&[group])
}
