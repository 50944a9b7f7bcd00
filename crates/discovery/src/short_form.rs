//! The short form: an API in a few lines of TOML, compiled to a discovery document.
//!
#![doc = concat!("```toml\n", include_str!("short_form/example.toml"), "```")]
//!
//! A **collection** has the six standard methods (insert, update, patch, get, list, delete) or some
//! of them. The types of fields are `string`, `integer`, `number`, `boolean`, `object` and `any`,
//! and the name of a schema, which begins with a capital letter; `string[]` is an array, `string{}`
//! a map. In addition to the declared fields, every resource of a collection has the fields that
//! the server fills in: `kind`, `id`, `selfLink`, `etag`, `createdTime`, `updatedTime`; and with
//! media `mimeType`, `size`, `crc32c`, and `md5Hash` and `sha256Hash` where they were computed.
//! These names cannot be declared in a collection.
//!
//! **Schemas and methods** describe everything else, with or without collections:
//!
#![doc = concat!("```toml\n", include_str!("short_form/methods.toml"), "```")]
//!
//! Unknown keys are errors. All [mistakes](Mistake) of a text are reported together, each with its
//! line, column and key.

mod bounds;
mod checks;
mod collection;
mod fields;
mod help;
mod key_path;
mod listing;
mod method;
mod place;
mod reading;
mod relations;
mod service;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use crate::document::{Collection, Document, MethodDescription, ParameterDescription};
use crate::schema::Schema;
use crate::settings::{Access, CreatedStatus, Settings};
use crate::template::without_leading_slash;

pub use crate::mistake::{Mistake, Position, ShortFormError};
pub use place::place_of;
pub use service::{NotAServiceUrl, ServiceUrl};

use collection::CollectionCompiler;
use fields::{Field, FieldName, MethodName, SchemaName};
use method::{MediaForm, MethodForm};
use reading::Reading;
use relations::{Collections, full_name, lineage};

/// Reads the short form and compiles it.
///
/// The [`Settings`] hold the values for which a discovery document has no field. The error lists
/// all mistakes of the text. It excludes the mistakes that only the whole document shows, such as
/// two methods with the same path: [`Api::from_document`](crate::Api::from_document) finds them.
pub fn compile(text: &str) -> Result<(Document, Settings), ShortFormError> {
    let Reading {
        form,
        mut mistakes,
        left_out,
    } = reading::read(text);
    if let Some(form) = &form {
        let mut of_form = form.mistakes(text);
        let follows = |it: &Mistake| {
            let of_nothing = it.key.is_none() && !left_out.is_empty();
            of_nothing || left_out.iter().any(|(path, name)| it.mentions(path, name))
        };
        of_form.retain(|mistake| !follows(mistake));
        mistakes.append(of_form);
    }
    let form = mistakes.or(form)?;
    Ok((form.document(), form.settings()))
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
    /// The scopes of every method that names no scopes itself.
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
            ledger_path: None,
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

/// The parameters that every method of every Google API has, without the parameters that have no
/// effect here.
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

/// Returns the collection of this name, which begins with the outermost one. Creates it and those
/// around it.
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

#[cfg(test)]
mod tests;
