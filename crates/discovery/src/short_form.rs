//! The short form: an API in a few lines of TOML, compiled to a discovery document.
//!
#![doc = concat!("```toml\n", include_str!("short_form/example.toml"), "```")]
//!
//! The types of fields are `string`, `integer`, `number`, `boolean`, `object` and `any`, and arrays
//! of them, written `string[]`. Beside the declared fields, every resource has the fields that the
//! server fills in: `kind`, `id`, `selfLink`, `etag`, `createdTime`, `updatedTime`; and with media
//! `mimeType`, `size`, `crc32c`, and `md5Hash` and `sha256Hash` where they were computed. These names
//! cannot be declared.
//!
//! Unknown keys are errors. Errors show the line and the key.

mod compile;
mod field;

use std::collections::BTreeMap;

use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

use crate::byte_size::ByteSize;
use crate::document::Document;
use crate::media_range::MediaRange;
use crate::settings::{CreatedStatus, Digest, Settings};

use field::{Field, FieldName, Identifier};

/// Why a text is not the short form.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShortFormError {
    /// The text is not TOML, has an unknown key, lacks one, or has a value that does not fit. The
    /// message shows the line.
    #[error("{0}")]
    Toml(#[from] Box<toml::de::Error>),
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
}

/// Reads the short form and compiles it.
///
/// What it says and a discovery document cannot say is in the [`Settings`].
pub fn compile(text: &str) -> Result<(Document, Settings), ShortFormError> {
    let short: ShortForm = toml::from_str(text).map_err(Box::new)?;
    short.check_media(text)?;
    short.check_schemas()?;
    Ok((short.document(), short.settings()))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShortForm {
    name: String,
    version: String,
    title: Option<String>,
    description: Option<String>,
    documentation: Option<String>,
    service_path: Option<String>,
    #[serde(default)]
    created_status: CreatedStatus,
    collections: BTreeMap<Identifier, CollectionForm>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CollectionForm {
    resource: Option<Identifier>,
    description: Option<String>,
    #[serde(default)]
    schema: BTreeMap<FieldName, Field>,
    #[serde(default = "Verb::all")]
    methods: Vec<Verb>,
    media: Option<Spanned<MediaForm>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MediaForm {
    #[serde(default)]
    accept: Vec<MediaRange>,
    max_size: Option<ByteSize>,
    #[serde(default)]
    digests: Vec<Digest>,
    #[serde(default = "yes")]
    multipart: bool,
}

/// The methods that a collection can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verb {
    Insert,
    Update,
    Patch,
    Get,
    List,
    Delete,
}

impl ShortForm {
    fn check_media(&self, text: &str) -> Result<(), ShortFormError> {
        self.collections
            .iter()
            .try_for_each(|(name, collection)| match &collection.media {
                Some(media) if !collection.methods.iter().any(|verb| verb.takes_metadata()) => {
                    let line = 1 + text[..media.span().start].matches('\n').count();
                    Err(ShortFormError::UnusedMedia {
                        collection: name.to_string(),
                        line,
                    })
                }
                _ => Ok(()),
            })
    }

    fn check_schemas(&self) -> Result<(), ShortFormError> {
        let mut firsts = BTreeMap::new();
        for (name, collection) in &self.collections {
            for schema in [
                collection.schema_name(name),
                collection.list_schema_name(name),
            ] {
                if let Some(first) = firsts.insert(schema.clone(), name) {
                    let (collection, first) = (name.to_string(), first.to_string());
                    return Err(ShortFormError::SharedSchema {
                        collection,
                        first,
                        schema,
                    });
                }
            }
        }
        Ok(())
    }

    fn settings(&self) -> Settings {
        let with_media = self.collections.iter().filter_map(|(name, collection)| {
            Some((name.to_string(), collection.media()?.digests.clone()))
        });
        Settings {
            created_status: self.created_status,
            digests: with_media.collect(),
        }
    }
}

impl CollectionForm {
    /// What one of the collection is called: `animal` in `animals`.
    fn resource(&self, name: &Identifier) -> Identifier {
        self.resource.clone().unwrap_or_else(|| name.singular())
    }

    /// What the schema of one of the collection is called: `Animal`.
    fn schema_name(&self, name: &Identifier) -> String {
        self.resource(name).capitalised()
    }

    /// What the schema of a page of the collection is called: `AnimalList`.
    fn list_schema_name(&self, name: &Identifier) -> String {
        format!("{}List", self.schema_name(name))
    }

    fn media(&self) -> Option<&MediaForm> {
        self.media.as_ref().map(Spanned::get_ref)
    }
}

impl Verb {
    fn all() -> Vec<Self> {
        vec![
            Self::Insert,
            Self::Update,
            Self::Patch,
            Self::Get,
            Self::List,
            Self::Delete,
        ]
    }

    /// Whether the request carries a resource, and may carry its media.
    fn takes_metadata(self) -> bool {
        match self {
            Self::Insert | Self::Update | Self::Patch => true,
            Self::Get | Self::List | Self::Delete => false,
        }
    }
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests;
