//! An API: its checked discovery document and its methods.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::document::{Document, MethodDescription};
use crate::error::{Error, Fault, Faults, FieldPath, LocatedFault};
use crate::method::{ApiHeader, Method};
use crate::parameter::Patterns;
use crate::schema::Schema;
use crate::settings::Settings;
use crate::short_form;

/// A checked API description.
///
/// It has a name, a version and at least one method. Ids of methods are unique, and no two methods
/// with the same HTTP method match the same paths.
#[derive(Clone, Debug)]
pub struct Api {
    document: Document,
    settings: Settings,
    methods: Vec<Arc<Method>>,
    name_prefixes: Vec<String>,
}

/// The variable with the name of a resource, e.g. `projects/p/things/t`.
const NAME: &str = "{+name}";

impl Api {
    /// Checks a discovery document, with [`Settings::of_document`].
    ///
    /// Returns the first fault. [`lint`](crate::lint::lint) reports all of them.
    pub fn from_document(document: Document) -> Result<Self, Error> {
        let (methods, faults) = compile(&document);
        if let Some(first) = faults.into_vec().into_iter().next() {
            return Err(first.into());
        }
        Ok(Self {
            document,
            settings: Settings::of_document(),
            name_prefixes: name_prefixes(&methods),
            methods,
        })
    }

    /// Reads a published discovery document.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        Self::from_document(Document::from_json(text)?)
    }

    /// Reads the [short form](short_form).
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        let (document, settings) = short_form::compile(text)?;
        Ok(Self::from_document(document)?.with_settings(settings))
    }

    /// Replaces the settings. Discovery documents have no field for them.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Changes the settings.
    #[must_use]
    pub fn map_settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Returns the name, e.g. `farm`.
    pub fn name(&self) -> &str {
        self.document.name.as_deref().unwrap_or_default()
    }

    /// Returns the version, e.g. `v1`.
    pub fn version(&self) -> &str {
        self.document.version.as_deref().unwrap_or_default()
    }

    /// The document that the API was made from. See [`Document::served_at`].
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Returns the settings, for which the document has no field.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the methods: first the methods outside of collections, then the methods of
    /// collections by name.
    pub fn methods(&self) -> &[Arc<Method>] {
        &self.methods
    }

    /// Returns the literal prefixes of resource names in paths, e.g. `v1/` of `v1/{+name}`, the
    /// longest first. Empty in an API that does not address resources by name.
    pub fn name_prefixes(&self) -> &[String] {
        &self.name_prefixes
    }

    /// Returns the method with this id, e.g. `farm.animals.insert`.
    pub fn method(&self, id: &str) -> Option<&Arc<Method>> {
        self.methods.iter().find(|method| method.id == id)
    }

    /// Returns the schema with this name.
    pub fn schema(&self, name: &str) -> Option<&Schema> {
        self.document.schema(name)
    }
}

fn name_prefixes(methods: &[Arc<Method>]) -> Vec<String> {
    let templates = methods.iter().map(|method| method.template.as_str());
    let before = templates.filter_map(|template| Some(template.split_once(NAME)?.0));
    let literal = before.filter(|before| !before.contains('{'));
    let mut prefixes: Vec<_> = literal.map(str::to_owned).collect();
    prefixes.sort_unstable_by_key(|prefix| std::cmp::Reverse(prefix.len()));
    prefixes.dedup();
    prefixes
}

/// Compiles the methods of a document, those outside of collections first, and returns them with
/// all faults. The methods are complete only if there are no faults.
pub(crate) fn compile(document: &Document) -> (Vec<Arc<Method>>, Faults) {
    let mut compiler = Compiler::default();
    let header = compiler.compile_head(document);
    let described = document.described_methods();
    if described.is_empty() {
        let field_path = FieldPath::root().field("resources");
        compiler.faults.push(field_path.fault(Fault::NoMethods));
    }
    for (field_path, method) in &described {
        compiler.compile_method(header, method, field_path);
    }
    check_references(document, &described, &mut compiler.faults);
    compiler.check_collisions();
    (compiler.methods, compiler.faults)
}

/// Compiles methods one by one and records the position of each.
#[derive(Default)]
struct Compiler {
    patterns: Patterns,
    methods: Vec<Arc<Method>>,
    /// The places of the methods, by the same indexes.
    field_paths: Vec<FieldPath>,
    by_id: HashMap<String, usize>,
    faults: Faults,
}

impl Compiler {
    fn compile_head<'a>(&mut self, document: &'a Document) -> ApiHeader<'a> {
        self.faults.keep(check_protocol(document));
        let mut name_field = |name: &'a Option<String>, field| {
            let name = self.faults.keep(name_field(name.as_deref(), field));
            name.unwrap_or_default()
        };
        ApiHeader {
            name: name_field(&document.name, "name"),
            version: name_field(&document.version, "version"),
            service_path: document.service_path.as_deref().unwrap_or_default(),
        }
    }

    fn compile_method(
        &mut self,
        header: ApiHeader<'_>,
        described: &MethodDescription,
        field_path: &FieldPath,
    ) {
        let (patterns, faults) = (&mut self.patterns, &mut self.faults);
        let Some(method) = Method::compile(header, described, field_path, patterns, faults) else {
            return;
        };
        let first = self.by_id.insert(method.id.clone(), self.methods.len());
        if let Some(first) = first {
            let first = self.field_paths[first].clone().into_path();
            let located = field_path.field("id").fault(Fault::DuplicateId { first });
            self.faults.push(located);
        }
        self.methods.push(Arc::new(method));
        self.field_paths.push(field_path.clone());
    }

    fn check_collisions(&mut self) {
        let mut firsts = HashMap::new();
        for (method, field_path) in self.methods.iter().zip(&self.field_paths) {
            let paths = (&method.http_method, method.template.paths());
            if let Some(first) = firsts.insert(paths, field_path) {
                let first = first.clone().into_path();
                let located = field_path
                    .field("path")
                    .fault(Fault::CollidingPath { first });
                self.faults.push(located);
            }
        }
    }
}

fn check_protocol(document: &Document) -> Result<(), LocatedFault> {
    match document.protocol.as_deref() {
        None | Some("rest") => Ok(()),
        Some(protocol) => {
            let fault = Fault::NotRest {
                protocol: protocol.to_owned(),
            };
            Err(FieldPath::root().field("protocol").fault(fault))
        }
    }
}

/// Checks a name that becomes a path segment and a part of ids.
fn name_field<'a>(name: Option<&'a str>, field: &str) -> Result<&'a str, LocatedFault> {
    let field_path = FieldPath::root().field(field);
    let name = field_path.required(name)?;
    let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if begins_well && name.bytes().all(name_byte) {
        Ok(name)
    } else {
        Err(field_path.fault(Fault::NotAName {
            name: name.to_owned(),
        }))
    }
}

/// Checks the schemas of requests and responses, recursively. Schemas that no method uses are
/// checked by [`unknown_references`] only.
fn check_references(
    document: &Document,
    described: &[(FieldPath, &MethodDescription)],
    faults: &mut Faults,
) {
    let mut found = Vec::new();
    for (field_path, method) in described {
        for (field, schema) in [("request", &method.request), ("response", &method.response)] {
            if let Some(schema) = schema {
                collect(schema, &field_path.field(field), &mut found);
            }
        }
    }
    let (mut seen, mut next) = (HashSet::new(), 0);
    while let Some((field_path, name)) = found.get(next).cloned() {
        next += 1;
        match document.schema(name) {
            Some(schema) if seen.insert(name) => collect(schema, &path_of(name), &mut found),
            Some(_) => {}
            None => faults.push(field_path.fault(unknown(name))),
        }
    }
}

/// Returns all references in the schemas of the document to unknown schemas.
pub(crate) fn unknown_references(document: &Document) -> Vec<(FieldPath, &str)> {
    let mut found = Vec::new();
    for (name, schema) in &document.schemas {
        collect(schema, &path_of(name), &mut found);
    }
    found.retain(|(_, name)| document.schema(name).is_none());
    found
}

/// Returns all properties of the document's schemas, including nested properties.
pub(crate) fn all_properties(document: &Document) -> Vec<(FieldPath, &Schema)> {
    let mut found = Vec::new();
    for (name, schema) in &document.schemas {
        visit(schema, &path_of(name), &mut |schema, field_path| {
            let properties = field_path.field("properties");
            let properties = schema
                .properties
                .iter()
                .map(|(name, property)| (properties.field(name), property));
            found.extend(properties);
        });
    }
    found
}

/// Collects the references in a schema without following them.
fn collect<'a>(schema: &'a Schema, field_path: &FieldPath, found: &mut Vec<(FieldPath, &'a str)>) {
    visit(schema, field_path, &mut |schema, field_path| {
        if let Some(name) = &schema.reference {
            found.push((field_path.field("$ref"), name));
        }
    });
}

/// Passes a schema and those inside of it, each with its path. References are not followed.
fn visit<'a>(
    schema: &'a Schema,
    field_path: &FieldPath,
    each: &mut impl FnMut(&'a Schema, &FieldPath),
) {
    each(schema, field_path);
    let properties = field_path.field("properties");
    for (name, property) in &schema.properties {
        visit(property, &properties.field(name), each);
    }
    for (field, inner) in [
        ("items", &schema.items),
        ("additionalProperties", &schema.additional_properties),
    ] {
        if let Some(inner) = inner {
            visit(inner, &field_path.field(field), each);
        }
    }
}

fn path_of(schema: &str) -> FieldPath {
    FieldPath::root().field("schemas").field(schema)
}

fn unknown(name: &str) -> Fault {
    Fault::UnknownSchema {
        name: name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
