//! An API: its discovery document, checked, and its methods.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::document::{Collection, Document, MethodDescription};
use crate::error::{Error, Fault, Place};
use crate::method::{Method, Owner};
use crate::schema::Schema;
use crate::settings::Settings;
use crate::short_form;

/// A checked API description.
///
/// It has a name, a version and at least one method; every method has an id of its own, and no two
/// with the same HTTP method match the same paths.
#[derive(Clone, Debug)]
pub struct Api {
    document: Document,
    settings: Settings,
    methods: Vec<Arc<Method>>,
}

impl Api {
    /// Checks a discovery document, with the default [`Settings`].
    pub fn from_document(document: Document) -> Result<Self, Error> {
        check_head(&document)?;
        let mut compiler = Compiler::new(&document)?;
        compiler.compile_methods(&document.methods, &Place::root())?;
        compiler.compile_collections(&document.collections, &Place::root())?;
        let methods = compiler.finish()?;
        Ok(Self {
            document,
            settings: Settings::default(),
            methods,
        })
    }

    /// Reads a discovery document as published.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        Self::from_document(serde_json::from_str(text).map_err(Error::Json)?)
    }

    /// Reads the [short form](short_form).
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        let (document, settings) = short_form::compile(text)?;
        Ok(Self::from_document(document)?.with_settings(settings))
    }

    /// The API with other settings, for a discovery document that wants them.
    #[must_use]
    pub fn with_settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The name, e.g. `farm`.
    pub fn name(&self) -> &str {
        self.document.name.as_deref().unwrap_or_default()
    }

    /// The version, e.g. `v1`.
    pub fn version(&self) -> &str {
        self.document.version.as_deref().unwrap_or_default()
    }

    /// The document that the API was made from. See [`Document::served_at`].
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// What the document has no field for.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The methods, those outside of collections first, else by name.
    pub fn methods(&self) -> &[Arc<Method>] {
        &self.methods
    }

    /// The method of this id, e.g. `farm.animals.insert`.
    pub fn method(&self, id: &str) -> Option<&Arc<Method>> {
        self.methods.iter().find(|method| method.id == id)
    }

    /// The schema of this name.
    pub fn schema(&self, name: &str) -> Option<&Schema> {
        self.document.schema(name)
    }
}

/// Compiles the methods of a document one by one and remembers where each came from.
struct Compiler<'a> {
    document: &'a Document,
    owner: Owner<'a>,
    methods: Vec<Arc<Method>>,
    /// The places of the methods, by the same indexes.
    places: Vec<Place>,
    by_id: HashMap<String, usize>,
}

impl<'a> Compiler<'a> {
    fn new(document: &'a Document) -> Result<Self, Error> {
        let owner = Owner {
            name: name_field(document.name.as_deref(), "name")?,
            version: name_field(document.version.as_deref(), "version")?,
            service_path: document.service_path.as_deref().unwrap_or_default(),
        };
        Ok(Self {
            document,
            owner,
            methods: Vec::new(),
            places: Vec::new(),
            by_id: HashMap::new(),
        })
    }

    fn compile_collections(
        &mut self,
        collections: &BTreeMap<String, Collection>,
        place: &Place,
    ) -> Result<(), Error> {
        let place = place.field("resources");
        collections.iter().try_for_each(|(name, collection)| {
            let place = place.field(name);
            self.compile_methods(&collection.methods, &place)?;
            self.compile_collections(&collection.collections, &place)
        })
    }

    fn compile_methods(
        &mut self,
        methods: &BTreeMap<String, MethodDescription>,
        place: &Place,
    ) -> Result<(), Error> {
        let place = place.field("methods");
        methods.iter().try_for_each(|(name, described)| {
            let place = place.field(name);
            self.check_references(described, &place)?;
            let method = Method::compile(self.owner, described, &place)?;
            self.push(method, place)
        })
    }

    fn check_references(&self, described: &MethodDescription, place: &Place) -> Result<(), Error> {
        for (field, schema) in [
            ("request", &described.request),
            ("response", &described.response),
        ] {
            let name = schema.as_ref().and_then(|schema| schema.reference.clone());
            let unknown = name.filter(|name| self.document.schema(name).is_none());
            if let Some(name) = unknown {
                let place = place.field(field).field("$ref");
                return Err(place.fault(Fault::UnknownSchema { name }));
            }
        }
        Ok(())
    }

    fn push(&mut self, method: Method, place: Place) -> Result<(), Error> {
        let first = self.by_id.insert(method.id.clone(), self.methods.len());
        if let Some(first) = first {
            let first = self.places[first].clone().into_path();
            return Err(place.field("id").fault(Fault::DuplicateId { first }));
        }
        self.methods.push(Arc::new(method));
        self.places.push(place);
        Ok(())
    }

    fn finish(self) -> Result<Vec<Arc<Method>>, Error> {
        if self.methods.is_empty() {
            return Err(Place::root().field("resources").fault(Fault::NoMethods));
        }
        self.check_collisions()?;
        Ok(self.methods)
    }

    fn check_collisions(&self) -> Result<(), Error> {
        let mut firsts = HashMap::new();
        for (method, place) in self.methods.iter().zip(&self.places) {
            let paths = (&method.http_method, method.template.paths());
            if let Some(first) = firsts.insert(paths, place) {
                let first = first.clone().into_path();
                return Err(place.field("path").fault(Fault::CollidingPath { first }));
            }
        }
        Ok(())
    }
}

fn check_head(document: &Document) -> Result<(), Error> {
    match document.protocol.as_deref() {
        None | Some("rest") => Ok(()),
        Some(protocol) => {
            let fault = Fault::NotRest {
                protocol: protocol.to_owned(),
            };
            Err(Place::root().field("protocol").fault(fault))
        }
    }
}

/// Names become segments of paths and words of ids.
fn name_field<'a>(name: Option<&'a str>, field: &str) -> Result<&'a str, Error> {
    let place = Place::root().field(field);
    let name = place.required(name)?;
    let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins_well = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if begins_well && name.bytes().all(name_byte) {
        Ok(name)
    } else {
        Err(place.fault(Fault::NotAName {
            name: name.to_owned(),
        }))
    }
}

#[cfg(test)]
mod tests;
