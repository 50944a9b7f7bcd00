//! The short form: an API in a few lines of TOML, compiled to a discovery document.
//!
#![doc = concat!("```toml\n", include_str!("short_form/example.toml"), "```")]
//!
//! A **collection** has the six methods that everybody knows, or some of them. The types of fields are
//! `string`, `integer`, `number`, `boolean`, `object` and `any`, and the name of a schema, which begins
//! with a capital; `string[]` is an array of them, `string{}` a map to them. Beside the declared fields,
//! every resource of a collection has the fields that the server fills in: `kind`, `id`, `selfLink`,
//! `etag`, `createdTime`, `updatedTime`; and with media `mimeType`, `size`, `crc32c`, and `md5Hash` and
//! `sha256Hash` where they were computed. These names cannot be declared in a collection.
//!
//! **Schemas and methods** describe everything else, and stand beside collections or alone:
//!
#![doc = concat!("```toml\n", include_str!("short_form/methods.toml"), "```")]
//!
//! Unknown keys are errors. Errors show the line and the key.

mod check;
mod collection;
mod compile;
mod error;
mod field;
mod media;
mod method;
mod name;
mod parameter;
mod type_or_table;

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::document::Document;
use crate::settings::{CreatedStatus, Settings};

pub use error::ShortFormError;

use collection::CollectionForm;
use field::Field;
use method::MethodForm;
use name::{FieldName, Identifier, MethodName, SchemaName};

/// Reads the short form and compiles it.
///
/// What it says and a discovery document cannot say is in the [`Settings`].
pub fn compile(text: &str) -> Result<(Document, Settings), ShortFormError> {
    let short: ShortForm = toml::from_str(text).map_err(Box::new)?;
    short.check(text)?;
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
    /// Of every method that names none of its own.
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    created_status: CreatedStatus,
    #[serde(default)]
    checksum_part: bool,
    #[serde(default)]
    collections: BTreeMap<Identifier, CollectionForm>,
    #[serde(default)]
    schemas: BTreeMap<Spanned<SchemaName>, Fields<FieldName>>,
    #[serde(default)]
    methods: BTreeMap<Spanned<MethodName>, MethodForm>,
}

/// The fields of a schema. Names of a collection's fields are narrower.
type Fields<N> = BTreeMap<N, Spanned<Field>>;

impl ShortForm {
    fn settings(&self) -> Settings {
        let of_collections = self.collections.iter().filter_map(|(name, collection)| {
            Some((name.to_string(), collection.media()?.digests.clone()))
        });
        let of_methods = self.methods.iter().filter_map(|(name, method)| {
            let digests = method.media()?.digests.clone();
            Some((self.method_id(name.get_ref()), digests))
        });
        Settings {
            created_status: self.created_status,
            checksum_part: self.checksum_part,
            digests: of_collections.chain(of_methods).collect(),
        }
    }

    /// `gmail.users.messages.send`
    fn method_id(&self, name: &MethodName) -> String {
        format!("{}.{name}", self.name)
    }
}

#[cfg(test)]
mod tests;
