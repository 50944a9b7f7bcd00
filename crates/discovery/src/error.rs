//! The errors of the crate: in discovery documents and in the short form.

use thiserror::Error;

use crate::byte_size::ByteSizeError;
use crate::media_range::MediaTypeError;
use crate::mistake::ShortFormError;
use crate::template::TemplateError;

/// An error in a description that prevents it from becoming an [`Api`](crate::Api).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The document is inconsistent.
    #[error("not a discovery document: {0}")]
    Json(serde_json::Error),
    /// A value is not of the JSON type that it has in every discovery document.
    #[error("{path}: {error}")]
    Shape {
        /// Where, e.g. `resources.animals.methods.insert.scopes[1]`.
        path: String,
        /// The parse error. Its message has the line and the column.
        error: serde_json::Error,
    },
    /// The text is not the short form.
    #[error(transparent)]
    ShortForm(#[from] ShortFormError),
    /// The document says something that cannot be.
    #[error("{path}: {fault}")]
    Document {
        /// Where, e.g. `resources.animals.methods.insert.mediaUpload.maxSize`.
        path: String,
        /// The fault.
        fault: Fault,
    },
}

/// A fault at one place of a discovery document.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// An entry of an accept list is not a media range.
    #[error("the field is missing")]
    Missing,
    /// The document describes something else than a REST API.
    #[error("the protocol is `{protocol}`, not `rest`")]
    NotRest {
        /// The protocol.
        protocol: String,
    },
    /// A name or version would not fit into a path or an id.
    #[error(
        "`{name}` is not a name of letters, digits, `.`, `_` and `-` that begins with a letter or digit"
    )]
    NotAName {
        /// The name as written.
        name: String,
    },
    /// The API has no methods.
    #[error("there are no methods")]
    NoMethods,
    /// An HTTP method is not a token.
    #[error("`{http_method}` is not an HTTP method")]
    HttpMethod {
        /// The HTTP method as written.
        http_method: String,
    },
    /// A path is not a URI template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The path has a variable that is no parameter.
    #[error("the variable `{name}` of the path is not described as a parameter in the path")]
    UndescribedVariable {
        /// The variable.
        name: String,
    },
    /// A parameter is neither in the path nor in the query.
    #[error("`{location}` is neither `path` nor `query`")]
    Location {
        /// The location as written.
        location: String,
    },
    /// A name in the parameter order is no parameter.
    #[error("there is no parameter `{name}`")]
    UnknownParameter {
        /// The name.
        name: String,
    },
    /// A reference names no schema of the document.
    #[error("there is no schema `{name}`")]
    UnknownSchema {
        /// The name.
        name: String,
    },
    /// An entry of an accept list is no media range.
    #[error(transparent)]
    MediaRange(#[from] MediaTypeError),
    /// A `minimum` or `maximum` is not a number of the type of the parameter.
    #[error("`{written}` is not a number that a value of this type can have")]
    NotABound {
        /// The bound as written.
        written: String,
    },
    /// A size is neither text nor a whole number of bytes.
    #[error("a size is text such as \"5GB\" or a whole number of bytes")]
    NotASize,
    /// A size cannot be read.
    #[error(transparent)]
    ByteSize(#[from] ByteSizeError),
    /// Two methods have the same id.
    #[error("the method at {first} has the same id")]
    DuplicateId {
        /// Where the first of the two is.
        first: String,
    },
    /// Two methods with the same HTTP method match the same paths.
    #[error("the method at {first} matches the same paths")]
    CollidingPath {
        /// Where the first of the two is.
        first: String,
    },
}

/// A fault with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocatedFault {
    pub(crate) path: String,
    pub(crate) fault: Fault,
}

impl From<LocatedFault> for Error {
    fn from(LocatedFault { path, fault }: LocatedFault) -> Self {
        Self::Document { path, fault }
    }
}

/// The faults of a document in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<LocatedFault>);

impl Faults {
    pub(crate) fn push(&mut self, located: LocatedFault) {
        self.0.push(located);
    }

    /// Returns the value, or records the fault.
    pub(crate) fn keep<T>(&mut self, made: Result<T, LocatedFault>) -> Option<T> {
        made.map_err(|located| self.push(located)).ok()
    }

    pub(crate) fn into_vec(self) -> Vec<LocatedFault> {
        self.0
    }
}

/// The path of a field in a document, built while the document is checked.
#[derive(Clone, Debug)]
pub(crate) struct FieldPath(String);

impl FieldPath {
    pub(crate) fn root() -> Self {
        Self(String::new())
    }

    /// Returns the path of a field of the object at this path.
    pub(crate) fn field(&self, name: &str) -> Self {
        match self.0.as_str() {
            "" => Self(name.to_owned()),
            outer => Self(format!("{outer}.{name}")),
        }
    }

    /// Returns the path of an element of the list at this path.
    pub(crate) fn element(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    pub(crate) fn fault(&self, fault: impl Into<Fault>) -> LocatedFault {
        LocatedFault {
            path: self.0.clone(),
            fault: fault.into(),
        }
    }

    /// Returns the value of the required field at this path.
    pub(crate) fn required<'a>(&self, value: Option<&'a str>) -> Result<&'a str, LocatedFault> {
        value.ok_or_else(|| self.fault(Fault::Missing))
    }

    pub(crate) fn into_path(self) -> String {
        self.0
    }
}
