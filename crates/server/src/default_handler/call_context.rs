//! What a description says around a call, and which every resource shown needs.

use windlass_discovery::{Method, Parameter, Schema};

use super::naming::{begins_with_one_of, is_plural_of, is_same_or_ends_in};
use super::operation::{last_word, path_of_key};
use super::schema_validation::resolve;
use crate::handler::Call;

/// A call and what its API says around it.
pub(super) struct CallContext<'a> {
    pub(super) call: &'a Call<'a>,
    /// The words for what the call is about, e.g. `ragFiles`.
    words: Vec<&'a str>,
}

impl<'a> CallContext<'a> {
    pub(super) fn of(call: &'a Call<'_>) -> CallContext<'a> {
        let template = call.method.template.as_str();
        let template = template.split(':').next().unwrap_or_default();
        let literal = template.rsplit('/').find(|segment| !segment.contains('{'));
        let words = [Some(last_word(call.method.collection())), literal];
        CallContext {
            call,
            words: words
                .into_iter()
                .flatten()
                .filter(|word| !word.is_empty())
                .collect(),
        }
    }

    /// The name of the resource with this key, in an API that calls its resources by name.
    pub(super) fn resource_name(&self, collection: &str, id: &str) -> Option<String> {
        let prefixes = self.call.api.name_prefixes();
        if prefixes.is_empty() {
            return None;
        }
        let path = format!("{}/{id}", path_of_key(collection));
        let name = prefixes.iter().find_map(|prefix| path.strip_prefix(prefix));
        name.map(str::to_owned)
    }

    /// Whether a schema is not that of the resource, but has the resource in a field.
    pub(super) fn wraps(&self, schema: &Schema) -> bool {
        let own = ["id", "name", "kind", "etag", "selfLink"];
        self.call.method.request != self.call.method.response
            && own.iter().all(|name| schema.property(name).is_none())
    }

    /// Whether this is the name of a field that holds the resource, or refers to it.
    pub(super) fn names_one_resource(&self, name: &str) -> bool {
        self.words.iter().any(|word| begins_with_one_of(word, name))
    }

    /// Whether this is the name of a field that holds resources.
    pub(super) fn names_the_collection(&self, name: &str) -> bool {
        name == "items" || self.words.iter().any(|word| is_same_or_ends_in(word, name))
    }

    /// Whether this is the name of a field that holds the resource's id.
    pub(super) fn names_its_id(&self, collection: &str, name: &str) -> bool {
        let Some(stem) = name.strip_suffix("Id").or(name.strip_suffix("_id")) else {
            return false;
        };
        let word = collection.rsplit('/').next().unwrap_or_default();
        let mut words = self.words.iter().copied().chain([word]);
        words.any(|word| is_plural_of(word, stem))
    }

    /// An id that nobody else has: as it comes, as a number where the schema or the path of the
    /// resource wants one, or short where that is what its pattern wants. All sort by time.
    pub(super) fn fresh_id(&self, collection: &str) -> String {
        let fresh = self.call.fresh_id;
        let response = self.call.method.response.as_deref();
        let schema = response.and_then(|name| self.call.api.schema(name));
        let parameter = self.id_parameter();
        let number = schema.is_some_and(|schema| self.wants_numeric_id(collection, schema))
            || parameter.is_some_and(|parameter| parameter.numbers.is_some());
        let Ok(id) = u128::from_str_radix(fresh, 16) else {
            return fresh.to_owned();
        };
        if number {
            return numeric_id(id).to_string();
        }
        let pattern = parameter.and_then(|parameter| parameter.pattern.as_ref());
        let short = pattern.is_some_and(|it| !it.fits(fresh) && it.fits(&short_id(id)));
        if short {
            short_id(id)
        } else {
            fresh.to_owned()
        }
    }

    /// The last variable in the path of the resources that this call makes.
    fn id_parameter(&self) -> Option<&'a Parameter> {
        let collection = self.call.method.template.as_str();
        let collection = collection.split(':').next()?;
        let variable = |method: &'a Method| {
            let rest = method.template.as_str().strip_prefix(collection)?;
            let variable = rest.strip_prefix("/{")?.strip_suffix('}')?;
            method.parameter(variable.trim_start_matches('+'))
        };
        let mut methods = self.call.api.methods().iter();
        methods.find_map(|method| variable(method))
    }

    fn wants_numeric_id(&self, collection: &str, schema: &'a Schema) -> bool {
        let is_number = |(name, property): (&String, &Schema)| {
            let format = property.format.as_deref();
            matches!(format, Some("int64" | "uint64"))
                && (matches!(name.as_str(), "id" | "mediaId")
                    || self.names_its_id(collection, name))
        };
        let inside = || {
            let wrapped = schema.properties.iter().filter(|(name, _)| {
                self.names_one_resource(name) || self.names_the_collection(name)
            });
            wrapped.filter_map(|(_, property)| self.element(property))
        };
        schema.properties.iter().any(is_number)
            || self.wraps(schema) && inside().any(|inner| inner.properties.iter().any(is_number))
    }

    /// The schema of a property, or of its elements if it is an array.
    pub(super) fn element(&self, property: &'a Schema) -> Option<&'a Schema> {
        let document = self.call.api.document();
        resolve(document, property.items.as_deref().unwrap_or(property))
    }
}

/// A number of 63 bits: the id's time in milliseconds, then some of its random bits.
fn numeric_id(id: u128) -> u128 {
    let time = (id >> 80) & 0x7ff_ffff_ffff;
    let random = (id >> 60) & 0xf_ffff;
    time << 20 | random
}

/// The 128 bits in 22 characters of the URL-safe alphabet of base64, which here is in the order of its
/// bytes.
fn short_id(id: u128) -> String {
    const DIGITS: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
    let digit = |at: u32| DIGITS[(id >> (6 * at)) as usize & 63];
    (0..22).rev().map(|at| char::from(digit(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLY: u128 = 0x0196_f0c0_0000_ffff_ffff_ffff_ffff_ffff;
    const LATE: u128 = 0x0196_f0c0_0001_0000_0000_0000_0000_0000;

    #[test]
    fn a_number_for_an_id_fits_63_bits_and_sorts_by_time() {
        assert!(numeric_id(EARLY).to_string() < numeric_id(LATE).to_string());
        assert!(i64::try_from(numeric_id(u128::MAX)).is_ok());
    }

    #[test]
    fn a_short_id_has_22_characters_and_sorts_by_time() {
        assert!(short_id(EARLY) < short_id(LATE));
        assert_eq!(short_id(EARLY).len(), 22);
        assert_ne!(short_id(EARLY), short_id(EARLY - 1));
    }
}
