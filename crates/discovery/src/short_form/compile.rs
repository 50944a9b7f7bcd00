//! From the short form to a discovery document.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::document::{Collection, Document, MethodDescription, ParameterDescription};
use crate::schema::Schema;
use crate::template::without_leading_slash;

use super::ShortForm;
use super::collection::CollectionCompiler;
use super::name::MethodName;

/// The parameters of every method of every API of Google's, without those that mean nothing here.
const STANDARD_PARAMETERS: &str = include_str!("standard_parameters.json");

impl ShortForm {
    pub(super) fn document(&self) -> Document {
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
            batch_path: Some("batch".to_owned()),
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
                name,
                form,
            };
            document.schemas.extend(compiler.schemas());
            document
                .collections
                .insert(name.to_string(), compiler.collection());
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

/// Puts a method where its name says, into collections that are made on the way.
fn insert(document: &mut Document, name: &MethodName, method: MethodDescription) {
    let (mut collections, verb) = name.split();
    let verb = verb.to_owned();
    let Some(outermost) = collections.next() else {
        document.methods.insert(verb, method);
        return;
    };
    let outermost = document
        .collections
        .entry(outermost.to_owned())
        .or_default();
    let innermost = collections.fold(outermost, |outer: &mut Collection, name| {
        outer.collections.entry(name.to_owned()).or_default()
    });
    innermost.methods.insert(verb, method);
}

fn standard_parameters() -> BTreeMap<String, ParameterDescription> {
    serde_json::from_str(STANDARD_PARAMETERS)
        .expect("a test reads the file, which is part of the binary")
}
