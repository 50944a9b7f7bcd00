//! `windlass discovery`.

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use thiserror::Error as ThisError;
use windlass_apis::Options;
use windlass_discovery::lint::{self, Severity};
use windlass_discovery::short_form::{self, ShortFormError};
use windlass_discovery::{Api, Document, Error as DescriptionError, MediaUpload, Method};
use windlass_server::unanswered_methods;

use super::journal::aligned;
use crate::args::DiscoveryArgs;
use crate::exit::Code;
use crate::output::{self, escaped, size, with_causes};
use crate::settings::{ApiSource, TomlError, UnknownApi};

/// Shows, prints or checks a description.
pub(super) fn run(args: &DiscoveryArgs) -> Result<Code, Error> {
    let description = Description::read(&args.description)?;
    if args.check {
        return Ok(check(&description, args.json));
    }
    let api = description.api()?;
    if args.json {
        let served = api.document().served_at(args.root_url.as_str());
        let served = serde_json::to_string_pretty(&served);
        output::json(served.expect("a document came from JSON or from strings"));
    } else {
        output::data(page(&api));
    }
    Ok(Code::Success)
}

fn check(description: &Description, json: bool) -> Code {
    let findings = findings_of(description);
    for finding in &findings {
        if json {
            output::json(finding.to_json());
        } else {
            output::data(finding);
        }
    }
    output::note(summary(&findings));
    if findings.iter().any(Finding::is_error) {
        Code::Failure
    } else {
        Code::Success
    }
}

fn read_stdin() -> std::io::Result<String> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

/// An error that keeps a description from being shown.
#[derive(Debug, ThisError)]
pub(crate) enum Error {
    #[error(transparent)]
    Unknown(#[from] UnknownApi),
    #[error("{} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Toml(TomlError),
    #[error("{}", path.display())]
    Unusable {
        path: PathBuf,
        source: DescriptionError,
    },
}

impl Error {
    /// Returns the exit code of the process.
    pub(crate) fn exit_code(&self) -> Code {
        match self {
            Self::Unknown(_) => Code::Usage,
            Self::Unreadable { .. } => Code::CannotBegin,
            Self::Toml(_) | Self::Unusable { .. } => Code::Failure,
        }
    }

    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Unusable {
                source: DescriptionError::Document { .. },
                ..
            } => Some("`windlass discovery --check` tells all that is wrong with it".to_owned()),
            Self::Unknown(unknown) => unknown.hint(),
            Self::Unreadable { .. } => Some("the file must exist and be readable".to_owned()),
            Self::Toml(_) | Self::Unusable { .. } => None,
        }
    }
}

/// The name of standard input in messages.
const STDIN: &str = "standard input";

enum Description {
    /// A built-in API, in its newest version.
    BuiltIn(Box<Api>),
    /// A text, with the name of its source.
    Text {
        path: PathBuf,
        form: Form,
        text: String,
    },
}

#[derive(Debug, Clone, Copy)]
enum Form {
    ShortForm,
    Document,
}

impl Description {
    fn read(name: &str) -> Result<Self, Error> {
        if name == "-" {
            let path = PathBuf::from(STDIN);
            return match read_stdin() {
                Ok(text) => Ok(Self::Text {
                    path,
                    form: Form::of(&text),
                    text,
                }),
                Err(source) => Err(Error::Unreadable { path, source }),
            };
        }
        match ApiSource::parse(name, Path::new(""))? {
            ApiSource::BuiltIn(name) => {
                let served = windlass_apis::by_name(name, &Options::default());
                let newest = served.and_then(|mut served| served.pop());
                Ok(Self::BuiltIn(Box::new(newest.expect("a listed name").api)))
            }
            ApiSource::ShortForm(path) => Self::read_file(path, Form::ShortForm),
            ApiSource::Document(path) => Self::read_file(path, Form::Document),
        }
    }

    fn read_file(path: PathBuf, form: Form) -> Result<Self, Error> {
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Self::Text { path, form, text }),
            Err(source) => Err(Error::Unreadable { path, source }),
        }
    }

    /// The API.
    fn api(&self) -> Result<Api, Error> {
        match self {
            Self::BuiltIn(api) => Ok(Api::clone(api)),
            Self::Text { path, .. } => {
                Api::from_document(self.document()?).map_err(|source| Error::Unusable {
                    path: path.clone(),
                    source,
                })
            }
        }
    }

    /// Returns the discovery document. Only its JSON types are checked.
    fn document(&self) -> Result<Document, Error> {
        let (path, form, text) = match self {
            Self::BuiltIn(api) => return Ok(api.document().clone()),
            Self::Text { path, form, text } => (path, form, text),
        };
        let document = match form {
            Form::Document => Document::from_json(text),
            Form::ShortForm => match short_form::compile(text) {
                Ok((document, _)) => Ok(document),
                Err(ShortFormError::Toml(error)) => {
                    return Err(Error::Toml(TomlError::new(path, text, &error)));
                }
                Err(error) => Err(DescriptionError::ShortForm(error)),
            },
        };
        document.map_err(|source| Error::Unusable {
            path: path.clone(),
            source,
        })
    }
}

impl Form {
    /// A JSON object begins with a brace, and no TOML does.
    fn of(text: &str) -> Self {
        if text.trim_start().starts_with('{') {
            Self::Document
        } else {
            Self::ShortForm
        }
    }
}

/// A finding, as printed.
struct Finding {
    severity: Severity,
    /// The position in the document; `None` if the text could not be parsed.
    path: Option<String>,
    message: String,
}

/// Returns all findings. A text that is not a document has a single one, the reason.
fn findings_of(description: &Description) -> Vec<Finding> {
    match description.document() {
        Ok(document) => {
            let of_document = lint::lint(&document).into_iter().map(Finding::from);
            of_document.chain(unanswered(description)).collect()
        }
        Err(error) => vec![Finding::from(error)],
    }
}

/// Warns of methods of the short form that nothing implements.
fn unanswered(description: &Description) -> Vec<Finding> {
    let Description::Text {
        form: Form::ShortForm,
        text,
        ..
    } = description
    else {
        return Vec::new();
    };
    let Ok(api) = Api::from_toml(text) else {
        return Vec::new();
    };
    unanswered_methods(&api)
        .map(|method| Finding {
            severity: Severity::Warning,
            path: Some(format!("methods.{}", method.id)),
            message: "it will be answered 501: nothing implements it without a `backend`"
                .to_owned(),
        })
        .collect()
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

impl Finding {
    fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Returns the finding as JSON.
    fn to_json(&self) -> Value {
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

/// Maximum width of a line, unless a single word is longer.
const COLUMNS: usize = 100;

const INDENT: &str = "    ";

/// Length of the longest id that fits in its column.
const LONGEST_ID: usize = 52;

/// The headings of the columns. The path and the accepted media of a method are below its id.
const HEADS: [&str; 4] = ["METHOD", "HTTP", "LARGEST", "UPLOAD TYPES"];

/// The title, a table, and totals.
fn page(api: &Api) -> String {
    let uploads: Vec<_> = api
        .methods()
        .iter()
        .filter_map(|method| Some((method, method.upload.as_ref()?)))
        .collect();
    let title = api.document().title.as_deref().unwrap_or_default();
    let title = format!("{title} ({}:{})", api.name(), api.version());
    let mut blocks = vec![escaped(title.trim_start()).into_owned()];
    if !uploads.is_empty() {
        blocks.push(table(&uploads));
    }
    blocks.push(totals(api, &uploads));
    blocks.join("\n\n")
}

fn table(uploads: &[(&Arc<Method>, &MediaUpload)]) -> String {
    let rows = uploads.iter().map(|(method, upload)| row(method, upload));
    let rows: Vec<_> = std::iter::once(HEADS.map(str::to_owned))
        .chain(rows)
        .collect();
    let cells = aligned(&rows);
    let mut cells = cells.lines().map(str::to_owned);
    let mut lines: Vec<_> = cells.next().into_iter().collect();
    for (cells, (method, upload)) in cells.zip(uploads) {
        if stands_alone(&method.id) {
            lines.push(escaped(&method.id).into_owned());
        }
        lines.push(cells);
        lines.push(format!("{INDENT}{}", escaped(&path(method, upload))));
        lines.extend(accepted(upload));
    }
    lines.join("\n")
}

fn row(method: &Method, upload: &MediaUpload) -> [String; 4] {
    let id = if stands_alone(&method.id) {
        ""
    } else {
        &method.id
    };
    let largest = upload.max_size;
    [
        escaped(id).into_owned(),
        method.http_method.to_string(),
        largest.map_or_else(|| "no limit".to_owned(), |largest| size(largest.bytes())),
        upload_types(upload),
    ]
}

/// Whether an id is too long for a line with further columns.
fn stands_alone(id: &str) -> bool {
    id.chars().count() > LONGEST_ID
}

/// Returns the path of simple uploads, where the server accepts all upload types.
fn path(method: &Method, upload: &MediaUpload) -> String {
    match &upload.simple_path {
        Some(path) => format!("/{}", path.as_str()),
        None => format!("/upload/{}", method.template.as_str()),
    }
}

fn upload_types(upload: &MediaUpload) -> String {
    let resumable = match upload.resumable_path {
        Some(_) => "resumable",
        None => "resumable*",
    };
    let multipart = upload.simple_multipart.then_some("multipart");
    let types = ["media"].into_iter().chain(multipart).chain([resumable]);
    types.collect::<Vec<_>>().join(", ")
}

/// Returns the accepted media ranges, wrapped to lines.
fn accepted(upload: &MediaUpload) -> Vec<String> {
    let ranges: Vec<_> = upload.accept.iter().map(ToString::to_string).collect();
    let all = ["*/*".to_owned()];
    let ranges = if ranges.is_empty() { &all[..] } else { &ranges };
    let mut lines: Vec<String> = Vec::new();
    for (at, range) in ranges.iter().enumerate() {
        let comma = if at + 1 < ranges.len() { "," } else { "" };
        match lines.last_mut() {
            Some(line) if line.len() + range.len() + 2 <= COLUMNS => {
                line.extend([" ", range, comma]);
            }
            _ => lines.push(format!("{INDENT}{range}{comma}")),
        }
    }
    lines
}

fn totals(api: &Api, uploads: &[(&Arc<Method>, &MediaUpload)]) -> String {
    let undeclared = uploads
        .iter()
        .filter(|(_, it)| it.resumable_path.is_none())
        .count();
    let mut totals = format!(
        "{} of {} methods take media; for {} the description has a resumable path",
        uploads.len(),
        api.methods().len(),
        uploads.len() - undeclared,
    );
    if undeclared > 0 {
        totals.push_str("\n* resumable uploads are served all the same, at the path that is shown");
    }
    totals
}
