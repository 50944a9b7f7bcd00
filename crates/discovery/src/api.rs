//! An API: its discovery document, checked, and its methods.

mod compiler;
mod references;

use std::sync::Arc;

use crate::document::Document;
use crate::error::Error;
use crate::method::Method;
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
    name_prefixes: Vec<String>,
}

/// The variable that holds the name of a resource, as `projects/p/things/t`.
const NAME: &str = "{+name}";

impl Api {
    /// Checks a discovery document, with the default [`Settings`].
    ///
    /// Of several faults the first is told; [`lint`](crate::lint::lint) tells all.
    pub fn from_document(document: Document) -> Result<Self, Error> {
        let (methods, faults) = compiler::compile(&document);
        if let Some(first) = faults.into_vec().into_iter().next() {
            return Err(first.into());
        }
        Ok(Self {
            document,
            settings: Settings::default(),
            name_prefixes: name_prefixes(&methods),
            methods,
        })
    }

    /// Reads a discovery document as published.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        Self::from_document(Document::from_json(text)?)
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

    /// What comes before the names of resources in paths, e.g. `v1/` of `v1/{+name}`; the longest first.
    /// Empty in an API that does not call its resources by name.
    pub fn name_prefixes(&self) -> &[String] {
        &self.name_prefixes
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

fn name_prefixes(methods: &[Arc<Method>]) -> Vec<String> {
    let templates = methods.iter().map(|method| method.template.as_str());
    let before = templates.filter_map(|template| Some(template.split_once(NAME)?.0));
    let literal = before.filter(|before| !before.contains('{'));
    let mut prefixes: Vec<_> = literal.map(str::to_owned).collect();
    prefixes.sort_unstable_by_key(|prefix| std::cmp::Reverse(prefix.len()));
    prefixes.dedup();
    prefixes
}

pub(crate) use compiler::compile;
pub(crate) use references::unknown_references;

#[cfg(test)]
mod tests;
