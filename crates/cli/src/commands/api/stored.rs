//! Checks the resources of a data directory against a description, for `windlass api check --data`.

use std::collections::BTreeMap;
use std::path::Path;

use windlass_discovery::Api;
use windlass_discovery::lint::Severity;
use windlass_server::{Fit, StoredResources};
use windlass_store_local::for_each_resource;

use super::Error;
use super::finding::Finding;
use crate::output;

/// A rule, as a collection has it, and how bad it is to break it.
type Rule = (Severity, String, String);

/// The resources that break one rule.
struct Group {
    count: u64,
    /// The id of the first.
    example: String,
}

/// Compares the resources of a data directory with the description. Returns an error for each rule
/// that some of them break, and a warning for each collection that the description does not have
/// any more.
pub(super) fn findings(api: &Api, data: &Path) -> Result<Vec<Finding>, Error> {
    let stored = StoredResources::new(api);
    let mut fitting = BTreeMap::<String, u64>::new();
    let mut unfit = BTreeMap::<Rule, Group>::new();
    let mut visit = |collection: &str, id: &str, body: &[u8]| {
        let group = match stored.fit(collection, body) {
            Fit::Fits { collection } => {
                *fitting.entry(collection).or_default() += 1;
                return;
            }
            Fit::NoCollection { collection } => {
                let problem = "the description has no such collection, so nobody can reach them";
                (Severity::Warning, collection, problem.to_owned())
            }
            Fit::Misfit {
                collection,
                field,
                problem,
            } => (Severity::Error, collection, format!("`{field}` {problem}")),
            _ => return,
        };
        let example = id.to_owned();
        let group = unfit.entry(group).or_insert(Group { count: 0, example });
        group.count += 1;
    };
    for_each_resource(data, &mut visit).map_err(|source| Error::Data {
        path: data.to_owned(),
        source: Box::new(source),
    })?;
    for (collection, count) in &fitting {
        output::note(format!("{collection}: {} fit", resources(*count)));
    }
    let findings = unfit.into_iter().rev();
    Ok(findings.map(finding).collect())
}

fn finding(((severity, collection, rule), group): (Rule, Group)) -> Finding {
    let Group { count, example } = group;
    let help = match severity {
        Severity::Error => "they can be read and deleted; a write must correct the field",
        Severity::Warning => "they are visible again once a collection has this path",
    };
    Finding {
        severity,
        path: Some(collection),
        message: format!("{}: {rule}; the first is {example}", resources(count)),
        help: Some(help.to_owned()),
        span: None,
    }
}

fn resources(count: u64) -> String {
    match count {
        1 => "1 resource".to_owned(),
        _ => format!("{count} resources"),
    }
}
