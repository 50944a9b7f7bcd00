//! From a document to methods, and everything on the way that makes it unusable.

use std::collections::HashMap;
use std::sync::Arc;

use crate::document::{Document, MethodDescription};
use crate::error::{Fault, Faults, FieldPath, LocatedFault};
use crate::method::{ApiHeader, Method};
use crate::parameter::Patterns;

use super::references::check_references;

/// The methods of a document, those outside of collections first, else by name; and what is wrong
/// with it. Only without faults the methods are all there.
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

/// Compiles the methods of a document one by one and remembers where each came from.
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

/// Names become segments of paths and words of ids.
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
