//! The short form: an API in a few lines of TOML, compiled to a discovery document.
//!
#![doc = concat!("```toml\n", include_str!("short_form/example.toml"), "```")]
//!
//! A **collection** has the six standard methods (insert, update, patch, get, list, delete) or some of them. The types of fields are
//! `string`, `integer`, `number`, `boolean`, `object` and `any`, and the name of a schema, which begins
//! with a capital letter; `string[]` is an array, `string{}` a map. In addition to the declared fields,
//! every resource of a collection has the fields that the server fills in: `kind`, `id`, `selfLink`,
//! `etag`, `createdTime`, `updatedTime`; and with media `mimeType`, `size`, `crc32c`, and `md5Hash` and
//! `sha256Hash` where they were computed. These names cannot be declared in a collection.
//!
//! **Schemas and methods** describe everything else, with or without collections:
//!
#![doc = concat!("```toml\n", include_str!("short_form/methods.toml"), "```")]
//!
//! Unknown keys are errors. Errors show the line and the key.

mod bounds;
mod collection;
mod fields;
mod listing;
mod method;
mod relations;
mod service;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Display;

use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use crate::document::{Collection, Document, MethodDescription, ParameterDescription};
use crate::schema::Schema;
use crate::settings::{Access, CreatedStatus, Settings};
use crate::template::without_leading_slash;

pub use crate::error::ShortFormError;

use collection::CollectionCompiler;
use fields::{Field, FieldName, MethodName, SchemaName};
use method::{MediaForm, MethodForm};
use relations::{Collections, full_name, lineage};

/// Reads the short form and compiles it.
///
/// The [`Settings`] hold the values for which a discovery document has no field.
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
    access: Access,
    #[serde(default)]
    checksum_part: bool,
    #[serde(default)]
    collections: Collections,
    #[serde(default)]
    schemas: BTreeMap<Spanned<SchemaName>, Fields<FieldName>>,
    #[serde(default)]
    methods: BTreeMap<Spanned<MethodName>, MethodForm>,
}

/// The fields of a schema. Names of a collection's fields are narrower.
type Fields<N> = BTreeMap<N, Spanned<Field>>;

impl ShortForm {
    fn settings(&self) -> Settings {
        let media = || self.media();
        let limited = media().filter(|(_, media)| !media.size_limits().is_empty());
        let backends = self.methods.iter().filter_map(|(name, method)| {
            let url = method.backend.as_ref()?.get_ref();
            Some((self.method_id(name.get_ref()), url.as_str().to_owned()))
        });
        Settings {
            created_status: self.created_status,
            access: self.access,
            checksum_part: self.checksum_part,
            strict: true,
            backends: backends.collect(),
            collections: self
                .collections
                .iter()
                .map(|(name, it)| (full_name(&self.collections, name), it.settings()))
                .collect(),
            size_limits: limited
                .map(|(key, media)| (key, media.size_limits().to_vec()))
                .collect(),
            digests: media()
                .map(|(key, media)| (key, media.digests.clone()))
                .collect(),
        }
    }

    /// The media of collections, by their names, and of methods, by their ids.
    fn media(&self) -> impl Iterator<Item = (String, &MediaForm)> {
        let of_collections = self.collections.iter();
        let of_collections = of_collections
            .filter_map(|(name, it)| Some((full_name(&self.collections, name), it.media()?)));
        let of_methods = self.methods.iter();
        let of_methods =
            of_methods.filter_map(|(name, it)| Some((self.method_id(name.get_ref()), it.media()?)));
        of_collections.chain(of_methods)
    }

    /// `gmail.users.messages.send`
    fn method_id(&self, name: &MethodName) -> String {
        format!("{}.{name}", self.name)
    }
}

/// The parameters of every method of every API of Google's, without those that mean nothing here.
const STANDARD_PARAMETERS: &str = include_str!("short_form/standard_parameters.json");

impl ShortForm {
    fn document(&self) -> Document {
        let service_path = self.service_path();
        let title = self.title.clone();
        let mut document = Document {
            kind: Some("discovery#restDescription".to_owned()),
            discovery_version: Some("v1".to_owned()),
            id: Some(format!("{}:{}", self.name, self.version)),
            name: Some(self.name.clone()),
            version: Some(self.version.clone()),
            title: Some(title.unwrap_or_else(|| format!("{} API", self.name))),
            description: self.description.clone(),
            documentation_link: self.documentation.clone(),
            protocol: Some("rest".to_owned()),
            base_path: Some(format!("/{service_path}")),
            batch_path: Some(format!("batch/{}/{}", self.name, self.version)),
            parameters: standard_parameters(),
            auth: self.auth(),
            schemas: self.declared_schemas(),
            ..Document::default()
        };
        self.add_collections(&mut document, &service_path);
        self.add_methods(&mut document, &service_path);
        document.service_path = Some(service_path);
        document
    }

    /// With a slash at its end and none at its beginning.
    fn service_path(&self) -> String {
        let given = self.service_path.clone();
        let path = given.unwrap_or_else(|| format!("{}/{}", self.name, self.version));
        match without_leading_slash(&path).trim_end_matches('/') {
            "" => String::new(),
            path => format!("{path}/"),
        }
    }

    /// All scopes of all methods, as clients look for them.
    fn auth(&self) -> Option<Value> {
        let of_methods = self.methods.values();
        let of_methods = of_methods.flat_map(|method| method.scopes_or(&self.scopes));
        let scopes: BTreeSet<_> = self.scopes.iter().chain(of_methods).collect();
        let described = |scope: &String| (scope.clone(), json!({"description": scope}));
        let scopes: serde_json::Map<_, _> = scopes.into_iter().map(described).collect();
        (!scopes.is_empty()).then(|| json!({"oauth2": {"scopes": scopes}}))
    }

    fn declared_schemas(&self) -> BTreeMap<String, Schema> {
        let schemas = self.schemas.iter().map(|(name, fields)| {
            let name = name.get_ref().to_string();
            let properties = fields.iter();
            let properties = properties
                .map(|(name, field)| (name.to_string(), field.get_ref().schema(&self.name)));
            let schema = Schema {
                id: Some(name.clone()),
                properties: properties.collect(),
                ..Schema::of_type("object")
            };
            (name, schema)
        });
        schemas.collect()
    }

    fn add_collections(&self, document: &mut Document, service_path: &str) {
        for (name, form) in &self.collections {
            let compiler = CollectionCompiler {
                api_name: &self.name,
                service_path,
                scopes: &self.scopes,
                resource: form.resource(name),
                lineage: lineage(&self.collections, name),
                name,
                form,
            };
            document.schemas.extend(compiler.schemas());
            let full_name = compiler.full_name();
            let at = collection_at(&mut document.collections, full_name.split('.'));
            at.methods = compiler.methods();
        }
    }

    fn add_methods(&self, document: &mut Document, service_path: &str) {
        for (name, form) in &self.methods {
            let name = name.get_ref();
            let method = form.method(self.method_id(name), service_path, &self.scopes);
            insert(document, name, method);
        }
    }
}

/// Inserts a method at the position that its name states, and creates the collections on the way.
fn insert(document: &mut Document, name: &MethodName, method: MethodDescription) {
    let (mut collections, verb) = name.split();
    let verb = verb.to_owned();
    let methods = match collections.next() {
        None => &mut document.methods,
        Some(outermost) => {
            let names = std::iter::once(outermost).chain(collections);
            &mut collection_at(&mut document.collections, names).methods
        }
    };
    methods.insert(verb, method);
}

/// Returns the collection of this name, which begins with the outermost one. Creates it and those around
/// it.
fn collection_at<'a, 'n>(
    collections: &'a mut BTreeMap<String, Collection>,
    mut names: impl Iterator<Item = &'n str>,
) -> &'a mut Collection {
    let outermost = names.next().unwrap_or_default();
    let outermost = collections.entry(outermost.to_owned()).or_default();
    names.fold(outermost, |outer, name| {
        outer.collections.entry(name.to_owned()).or_default()
    })
}

fn standard_parameters() -> BTreeMap<String, ParameterDescription> {
    serde_json::from_str(STANDARD_PARAMETERS)
        .expect("a test reads the file, which is part of the binary")
}

impl ShortForm {
    fn check(&self, text: &str) -> Result<(), ShortFormError> {
        if self.collections.is_empty() && self.methods.is_empty() {
            return Err(ShortFormError::NoMethods);
        }
        self.check_media(text)?;
        self.check_relations(text)?;
        self.check_lists(text)?;
        self.check_schemas_of_collections()?;
        self.check_names_beside_collections(text)?;
        self.check_references(text)
    }

    fn check_media(&self, text: &str) -> Result<(), ShortFormError> {
        let of_collections = self.collections.iter();
        let of_collections = of_collections
            .filter_map(|(name, it)| Some((format!("collections.{name}"), it.media.as_ref()?)));
        let of_methods = self.methods.iter();
        let of_methods = of_methods.filter_map(|(name, it)| {
            Some((format!("methods.{}", name.get_ref()), it.media.as_ref()?))
        });
        for (key, media) in of_collections.chain(of_methods) {
            if let Some(problem) = media.get_ref().problem() {
                return Err(ShortFormError::Field {
                    key: format!("{key}.media"),
                    problem: problem.to_owned(),
                    line: line_of(media, text),
                });
            }
        }
        for (name, method) in &self.methods {
            let problem = match (&method.backend, &method.media) {
                (None, _) => None,
                (_, Some(_)) => {
                    Some("a method with media has no backend; see `on` of a collection")
                }
                _ if method.is_download() => Some("a method that gives media has no backend"),
                _ => None,
            };
            if let (Some(backend), Some(problem)) = (&method.backend, problem) {
                return Err(ShortFormError::Field {
                    key: format!("methods.{}.backend", name.get_ref()),
                    problem: problem.to_owned(),
                    line: line_of(backend, text),
                });
            }
        }
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
            let own_methods = collection.method_names(&full_name(&self.collections, name));
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

/// Checks that the schemas that fields refer to exist, and that bounds suit their fields.
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
            if let Some(problem) = field.get_ref().problem() {
                return Err(ShortFormError::Field {
                    key: format!("{key}.{name}"),
                    problem,
                    line: line_of(field, self.text),
                });
            }
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

#[cfg(test)]
mod tests;
