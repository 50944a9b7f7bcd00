//! What one key says of another, which is checked before anything is compiled: here lines are known.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;

use toml::Spanned;

use super::name::SchemaName;
use super::{Fields, ShortForm, ShortFormError};

impl ShortForm {
    pub(super) fn check(&self, text: &str) -> Result<(), ShortFormError> {
        if self.collections.is_empty() && self.methods.is_empty() {
            return Err(ShortFormError::NoMethods);
        }
        self.check_media(text)?;
        self.check_schemas_of_collections()?;
        self.check_names_beside_collections(text)?;
        self.check_references(text)
    }

    fn check_media(&self, text: &str) -> Result<(), ShortFormError> {
        for (name, collection) in &self.collections {
            if let Some(media) = collection.unused_media() {
                return Err(ShortFormError::UnusedMedia {
                    collection: name.to_string(),
                    line: line_of(media, text),
                });
            }
        }
        for (name, method) in &self.methods {
            if let (Some(media), Some(http_method)) =
                (&method.media, method.http_method_without_media())
            {
                return Err(ShortFormError::MediaWithVerb {
                    method: name.get_ref().to_string(),
                    http_method: http_method.to_string(),
                    line: line_of(media, text),
                });
            }
        }
        Ok(())
    }

    fn check_schemas_of_collections(&self) -> Result<(), ShortFormError> {
        let mut firsts = BTreeMap::new();
        for (name, collection) in &self.collections {
            for schema in collection.schema_names(name) {
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

    fn check_names_beside_collections(&self, text: &str) -> Result<(), ShortFormError> {
        for (name, collection) in &self.collections {
            let own_schemas = collection.schema_names(name);
            let is_own = |schema: &&Spanned<SchemaName>| {
                own_schemas
                    .iter()
                    .any(|own| own == schema.get_ref().as_str())
            };
            if let Some(schema) = self.schemas.keys().find(is_own) {
                return Err(ShortFormError::SchemaOfCollection {
                    schema: schema.get_ref().to_string(),
                    collection: name.to_string(),
                    line: line_of(schema, text),
                });
            }
            let own_methods = collection.method_names(name);
            let mut methods = self.methods.keys();
            if let Some(method) = methods.find(|it| own_methods.contains(&it.get_ref().to_string()))
            {
                return Err(ShortFormError::MethodOfCollection {
                    method: method.get_ref().to_string(),
                    collection: name.to_string(),
                    line: line_of(method, text),
                });
            }
        }
        Ok(())
    }

    fn check_references(&self, text: &str) -> Result<(), ShortFormError> {
        let of_collections = self.collections.iter();
        let of_collections = of_collections.flat_map(|(name, it)| it.schema_names(name));
        let described = self.schemas.keys().map(|name| name.get_ref().to_string());
        let references = References {
            known: of_collections.chain(described).collect(),
            text,
        };
        for (name, collection) in &self.collections {
            references.check_fields(&format!("collections.{name}.schema"), &collection.schema)?;
        }
        for (name, fields) in &self.schemas {
            references.check_fields(&format!("schemas.{}", name.get_ref()), fields)?;
        }
        for (name, method) in &self.methods {
            for (key, schema) in [("request", &method.request), ("response", &method.response)] {
                if let Some(schema) = schema {
                    let key = format!("methods.{}.{key}", name.get_ref());
                    references.check(schema.get_ref(), key, schema)?;
                }
            }
        }
        Ok(())
    }
}

/// The schemas that there are, for those that are named.
struct References<'a> {
    known: HashSet<String>,
    text: &'a str,
}

impl References<'_> {
    fn check_fields<N: Display>(
        &self,
        key: &str,
        fields: &Fields<N>,
    ) -> Result<(), ShortFormError> {
        fields.iter().try_for_each(|(name, field)| {
            let Some(schema) = field.get_ref().reference() else {
                return Ok(());
            };
            self.check(schema, format!("{key}.{name}"), field)
        })
    }

    fn check<T>(
        &self,
        schema: &SchemaName,
        key: String,
        at: &Spanned<T>,
    ) -> Result<(), ShortFormError> {
        if self.known.contains(schema.as_str()) {
            return Ok(());
        }
        Err(ShortFormError::UnknownSchema {
            key,
            schema: schema.to_string(),
            line: line_of(at, self.text),
        })
    }
}

fn line_of<T>(spanned: &Spanned<T>, text: &str) -> usize {
    1 + text[..spanned.span().start].matches('\n').count()
}
