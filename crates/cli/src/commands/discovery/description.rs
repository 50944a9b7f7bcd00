//! A description as it was found: in the binary, in a file, on standard input.

use std::path::{Path, PathBuf};

use windlass_apis::Options;
use windlass_discovery::short_form::{self, ShortFormError};
use windlass_discovery::{Api, Document, Error as DescriptionError};

use super::{Error, read_stdin};
use crate::settings::{ApiSource, TomlError};

/// What standard input is called in messages.
const STDIN: &str = "standard input";

pub(super) enum Description {
    /// An API that comes with Windlass, in its newest version.
    BuiltIn(Box<Api>),
    /// A text, with the name of where it comes from.
    Text {
        path: PathBuf,
        form: Form,
        text: String,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    ShortForm,
    Document,
}

impl Description {
    pub(super) fn read(name: &str) -> Result<Self, Error> {
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
    pub(super) fn api(&self) -> Result<Api, Error> {
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

    /// The discovery document, of which only the JSON types are checked.
    pub(super) fn document(&self) -> Result<Document, Error> {
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
