//! From a document to methods, and everything on the way that makes it unusable.

use std::collections::HashMap;
use std::sync::Arc;

use crate::document::{Document, MethodDescription};
use crate::error::{Fault, Faults, Misfit, Place};
use crate::method::{Method, Owner};
use crate::parameter::Patterns;

use super::references::check_references;

/// The methods of a document, those outside of collections first, else by name; and what is wrong
/// with it. Only without faults the methods are all there.
pub(crate) fn compile(document: &Document) -> (Vec<Arc<Method>>, Faults) {
    let mut compiler = Compiler::default();
    let owner = compiler.compile_head(document);
    let described = document.described_methods();
    if described.is_empty() {
        let place = Place::root().field("resources");
        compiler.faults.push(place.fault(Fault::NoMethods));
    }
    for (place, method) in &described {
        compiler.compile_method(owner, method, place);
    }
    check_references(document, &described, &mut compiler.faults);
    compiler.check_collisions();
    (compiler.methods, compiler.faults)
}

/// Compiles the methods of a document one by one and remembers where each came from.
#[derive(Default)]
struct Compiler {
    patterns: Patterns,
    methods: Vec<Arc<Method>>,
    /// The places of the methods, by the same indexes.
    places: Vec<Place>,
    by_id: HashMap<String, usize>,
    faults: Faults,
}

impl Compiler {
    fn compile_head<'a>(&mut self, document: &'a Document) -> Owner<'a> {
        self.faults.keep(check_protocol(document));
        let mut name_field = |name: &'a Option<String>, field| {
            let name = self.faults.keep(name_field(name.as_deref(), field));
            name.unwrap_or_default()
        };
        Owner {
            name: name_field(&document.name, "name"),
            version: name_field(&document.version, "version"),
            service_path: document.service_path.as_deref().unwrap_or_default(),
        }
    }

    fn compile_method(&mut self, owner: Owner<'_>, described: &MethodDescription, place: &Place) {
        let (patterns, faults) = (&mut self.patterns, &mut self.faults);
        let Some(method) = Method::compile(owner, described, place, patterns, faults) else {
            return;
        };
        let first = self.by_id.insert(method.id.clone(), self.methods.len());
        if let Some(first) = first {
            let first = self.places[first].clone().into_path();
            let misfit = place.field("id").fault(Fault::DuplicateId { first });
            self.faults.push(misfit);
        }
        self.methods.push(Arc::new(method));
        self.places.push(place.clone());
    }

    fn check_collisions(&mut self) {
        let mut firsts = HashMap::new();
        for (method, place) in self.methods.iter().zip(&self.places) {
            let paths = (&method.http_method, method.template.paths());
            if let Some(first) = firsts.insert(paths, place) {
                let first = first.clone().into_path();
                let misfit = place.field("path").fault(Fault::CollidingPath { first });
                self.faults.push(misfit);
            }
        }
    }
}

fn check_protocol(document: &Document) -> Result<(), Misfit> {
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
fn name_field<'a>(name: Option<&'a str>, field: &str) -> Result<&'a str, Misfit> {
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
