//! `part`: what of a resource a call writes and shows.

use windlass_server::handler::{Call, Rejection};

use crate::record::Fields;

use super::invalid_parameter;

/// The parts that a call names.
#[derive(Debug)]
pub(super) struct Parts<'a>(Vec<&'a str>);

impl<'a> Parts<'a> {
    /// Those of the query. Each has to be a field of the schema.
    pub(super) fn of(call: &Call<'a>, schema: &str) -> Result<Self, Rejection> {
        let parts: Vec<_> = listed(call, "part").collect();
        let schema = call.api.schema(schema);
        let is_known = |part: &&str| schema.is_none_or(|schema| schema.property(part).is_some());
        match parts.iter().find(|part| !is_known(part)) {
            Some(unknown) => {
                let problem = format!("{unknown} is not a part of it");
                Err(invalid_parameter("part", problem))
            }
            None => Ok(Self(parts)),
        }
    }

    /// Whether no part is named.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this part is named.
    pub(super) fn has(&self, part: &str) -> bool {
        self.0.contains(&part)
    }

    /// Leaves of a resource what is named. What identifies it is always shown.
    pub(super) fn of_resource(&self, mut resource: Fields) -> Fields {
        let always = ["kind", "etag", "id"];
        resource.retain(|name, _| always.contains(&name.as_str()) || self.has(name));
        resource
    }
}

/// The values of a parameter that may be given more than once, and with commas.
pub(super) fn listed<'a>(call: &Call<'a>, name: &'static str) -> impl Iterator<Item = &'a str> {
    let values = call.query.iter().filter(move |(key, _)| *key == name);
    let values = values.flat_map(|(_, value)| value.split(','));
    values.map(str::trim).filter(|value| !value.is_empty())
}
