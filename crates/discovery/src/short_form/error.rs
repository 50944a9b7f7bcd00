//! What can be wrong with the short form beyond its syntax.

use thiserror::Error;

/// Why a text is not the short form.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShortFormError {
    /// The text is not TOML, has an unknown key, lacks one, or has a value that does not fit. The
    /// message shows the line.
    #[error("{0}")]
    Toml(#[from] Box<toml::de::Error>),
    /// There is nothing to call.
    #[error("there are neither `collections` nor `methods`")]
    NoMethods,
    /// A collection has media and no method that could take it.
    #[error(
        "line {line}: `collections.{collection}.media` needs one of the methods insert, update and patch"
    )]
    UnusedMedia {
        /// The collection.
        collection: String,
        /// The line of its `media`, counted from 1.
        line: usize,
    },
    /// A method has media, and an HTTP method that no media goes with.
    #[error(
        "line {line}: `methods.{method}.media` needs http = POST, PUT or PATCH, not {http_method}"
    )]
    MediaWithVerb {
        /// The method without the name of the API.
        method: String,
        /// Its HTTP method.
        http_method: String,
        /// The line of its `media`, counted from 1.
        line: usize,
    },
    /// Two collections would have schemas of the same name.
    #[error("`collections.{collection}` and `collections.{first}` both need the schema `{schema}`")]
    SharedSchema {
        /// The second collection.
        collection: String,
        /// The first collection.
        first: String,
        /// The name of the schema.
        schema: String,
    },
    /// A schema is described, and a collection makes one of the same name.
    #[error("line {line}: `schemas.{schema}` is made by `collections.{collection}` already")]
    SchemaOfCollection {
        /// The schema.
        schema: String,
        /// The collection.
        collection: String,
        /// The line of the schema, counted from 1.
        line: usize,
    },
    /// A method is described, and a collection has it.
    #[error("line {line}: `methods.{method}` is a method of `collections.{collection}` already")]
    MethodOfCollection {
        /// The method without the name of the API.
        method: String,
        /// The collection.
        collection: String,
        /// The line of the method, counted from 1.
        line: usize,
    },
    /// A field, a request or a response is of a schema that is not there.
    #[error("line {line}: `{key}`: there is no schema `{schema}`")]
    UnknownSchema {
        /// The key, e.g. `schemas.Message.payload` or `methods.users.messages.send.request`.
        key: String,
        /// The name of the schema.
        schema: String,
        /// The line, counted from 1.
        line: usize,
    },
}
