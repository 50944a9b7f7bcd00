//! `windlass api`: begins, checks and shows descriptions of APIs.

mod check;
mod finding;
mod new;
mod show;
mod snippet;
mod stored;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use thiserror::Error as ThisError;
use windlass_apis::Options;
use windlass_discovery::document::is_document;
use windlass_discovery::short_form;
use windlass_discovery::{Api, Document, Error as DescriptionError};
use windlass_store_local::verify::VerifyError;

use crate::args::ApiCommand;
use crate::exit::Code;
use crate::settings::{ApiSource, MistakesOf, UnknownApi};

/// Runs one of the commands.
pub(super) fn run(command: &ApiCommand) -> Result<Code, Error> {
    match command {
        ApiCommand::New(args) => new::run(args),
        ApiCommand::Check(args) => check::run(args),
        ApiCommand::Show(args) => show::run(args),
    }
}

fn read_stdin() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

/// An error that ends one of the commands.
#[derive(Debug, ThisError)]
pub(crate) enum Error {
    #[error(transparent)]
    Unknown(#[from] UnknownApi),
    #[error("{} cannot be read", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Mistakes(MistakesOf),
    #[error("{}", path.display())]
    Unusable {
        path: PathBuf,
        source: DescriptionError,
    },
    #[error("the resources in {} cannot be read", path.display())]
    Data {
        path: PathBuf,
        source: Box<VerifyError>,
    },
    #[error("--data is for descriptions in the short form")]
    DataOfDocument,
    #[error(
        "`{name}` is not a valid API name: start with a lower-case letter, then letters and digits"
    )]
    NotAName { name: String },
    #[error("{} is there already", path.display())]
    Exists { path: PathBuf },
    #[error("{} cannot be written", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

impl Error {
    fn of(path: &Path, source: DescriptionError) -> Self {
        let path = path.to_owned();
        match source {
            DescriptionError::ShortForm(mistakes) => {
                Self::Mistakes(MistakesOf::new(&path, mistakes))
            }
            source => Self::Unusable { path, source },
        }
    }

    /// Returns the exit code of the process.
    pub(crate) fn exit_code(&self) -> Code {
        match self {
            Self::Unknown(_) | Self::NotAName { .. } | Self::DataOfDocument => Code::Usage,
            Self::Unreadable { .. }
            | Self::Data { .. }
            | Self::Exists { .. }
            | Self::Unwritable { .. } => Code::CannotBegin,
            Self::Mistakes(_) | Self::Unusable { .. } => Code::Failure,
        }
    }

    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Unusable {
                source: DescriptionError::Document { .. },
                ..
            }
            | Self::Mistakes(_) => "`windlass api check` tells all that is wrong with it",
            Self::Unknown(unknown) => return unknown.hint(),
            Self::Unreadable { .. } => "the file must exist and be readable",
            Self::NotAName { .. } => "names are such as album or photoAlbum",
            Self::Exists { .. } => "choose another name, or another file with --output",
            Self::Unwritable { .. } => "its directory must exist and be writable",
            Self::Data { .. } => "--data is the directory of `windlass serve --data`",
            Self::DataOfDocument => {
                "name the file *.toml; the server checks resources only against descriptions in the short form"
            }
            Self::Unusable { .. } => return None,
        };
        Some(hint.to_owned())
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

    /// The text, if it is in the short form.
    fn short_form(&self) -> Option<&str> {
        match self {
            Self::Text {
                form: Form::ShortForm,
                text,
                ..
            } => Some(text),
            _ => None,
        }
    }

    /// The API.
    fn api(&self) -> Result<Api, Error> {
        let (path, form, text) = match self {
            Self::BuiltIn(api) => return Ok(Api::clone(api)),
            Self::Text { path, form, text } => (path, form, text),
        };
        let api = match form {
            Form::Document => Api::from_json(text),
            Form::ShortForm => Api::from_toml(text),
        };
        api.map_err(|source| Error::of(path, source))
    }

    /// Returns the discovery document. Only its JSON types are checked.
    fn document(&self) -> Result<Document, Error> {
        let (path, form, text) = match self {
            Self::BuiltIn(api) => return Ok(api.document().clone()),
            Self::Text { path, form, text } => (path, form, text),
        };
        let document = match form {
            Form::Document => Document::from_json(text),
            Form::ShortForm => short_form::compile(text)
                .map(|(document, _)| document)
                .map_err(DescriptionError::from),
        };
        document.map_err(|source| Error::of(path, source))
    }
}

impl Form {
    fn of(text: &str) -> Self {
        if is_document(text) {
            Self::Document
        } else {
            Self::ShortForm
        }
    }
}
