//! The effect of each parameter and each header of an API. The table `inputs.toml` next to each
//! description lists them; `inputs/common.toml` has the inputs of all APIs.
//!
//! An input is *implemented*, *harmless* or *refused*. Nothing is accepted and ignored: a filter
//! without an effect would list resources that it excludes, and a key without an effect would
//! promise an encryption that does not happen. The server refuses the inputs that the tables name as
//! refused ([`ServedApi::refusing`]). The tests of this module fail for an input in no table.
//!
//! ```toml
//! [[implemented]]
//! parameters = ["prefix"]
//! methods = ["objects.list"]
//! test = "apis: storage::listing::a_list_shows_what_was_asked_for"
//!
//! [[harmless]]
//! headers = ["x-goog-api-client"]
//! reason = "Counts the versions of client libraries."
//!
//! [[refused]]
//! parameters = ["softDeleted"]
//! methods = ["objects.list"]
//! allowed = ["false"]
//! status = 501
//! reason = "is not supported: no deleted object is kept"
//! ```

use std::sync::Arc;

use serde::Deserialize;
use windlass_discovery::Method;
use windlass_rest::{Input, RefusedAs, RefusedInput, ServedApi};

/// The inputs of all APIs.
const COMMON: &str = include_str!("inputs/common.toml");

/// The part of a table that the server enforces. Tests read the rest.
#[derive(Debug, Deserialize)]
struct Refusals {
    #[serde(default)]
    refused: Vec<Refusal>,
}

/// Inputs that are refused, for one reason.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    #[serde(default)]
    parameters: Vec<String>,
    #[serde(default)]
    headers: Vec<String>,
    /// Ids without the name of the API. An empty list stands for all methods.
    #[serde(default)]
    methods: Vec<String>,
    /// Values that are accepted, because they ask for the server's usual behaviour.
    #[serde(default)]
    allowed: Vec<String>,
    /// Whether an empty value is refused too.
    #[serde(default)]
    also_empty: bool,
    /// 501 if the service carries the input out, otherwise 400.
    status: u16,
    /// The predicate of the message. The input is its subject.
    reason: String,
}

/// Returns the API, which refuses the inputs of two tables: the table of all APIs and its own table.
///
/// A parameter that a method declares has the meaning of its description there, even if the table
/// of all APIs refuses a parameter of this name.
pub(crate) fn refusing(served: ServedApi, table: Option<&str>) -> ServedApi {
    let (name, methods) = (served.api.name(), served.api.methods());
    let inputs = |table| {
        let refusals = read(table).refused.into_iter();
        refusals.flat_map(|refusal| refusal.into_inputs(name))
    };
    let of_all = inputs(COMMON).map(|row| except_where_declared(row, methods));
    let own = table.into_iter().flat_map(inputs);
    let refused: Vec<_> = of_all.chain(own).collect();
    served.refusing(refused)
}

/// Restricts a row for all methods to the methods that do not declare the parameter.
fn except_where_declared(row: RefusedInput, methods: &[Arc<Method>]) -> RefusedInput {
    let Input::Parameter(name) = &row.input else {
        return row;
    };
    let declares = |method: &&Arc<Method>| method.parameter(name).is_some();
    if !methods.iter().any(|method| declares(&method)) {
        return row;
    }
    let others = methods.iter().filter(|method| !declares(method));
    RefusedInput {
        methods: Some(others.map(|method| method.id.clone()).collect()),
        ..row
    }
}

fn read(table: &str) -> Refusals {
    toml::from_str(table).expect("a test reads the table, which is part of the binary")
}

impl Refusal {
    fn into_inputs(self, api: &str) -> Vec<RefusedInput> {
        let ids = self.methods.iter().map(|method| format!("{api}.{method}"));
        let ids: Vec<_> = ids.collect();
        let parameters = self.parameters.into_iter().map(Input::Parameter);
        let headers = self.headers.into_iter().map(Input::Header);
        let row = |input| RefusedInput {
            input,
            methods: (!ids.is_empty()).then(|| ids.clone()),
            allowed: self.allowed.clone(),
            also_empty: self.also_empty,
            refused_as: refused_as(self.status),
            reason: self.reason.clone(),
        };
        parameters.chain(headers).map(row).collect()
    }
}

fn refused_as(status: u16) -> RefusedAs {
    match status {
        501 => RefusedAs::NotImplemented,
        _ => RefusedAs::Invalid,
    }
}

#[cfg(test)]
mod tests;
