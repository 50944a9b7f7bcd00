//! What can be written as a type alone, or as a table with the key `type` and more.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads the table `T`, or a text that is its `type`.
pub(super) fn type_or_table<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_any(TypeOrTable(PhantomData))
}

/// Reads a default, which documents write as a string whatever its type.
pub(super) fn scalar<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    deserializer.deserialize_any(Scalar).map(Some)
}

struct TypeOrTable<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TypeOrTable<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a type such as \"string\", or a table with the key `type`")
    }

    fn visit_str<E: Error>(self, written: &str) -> Result<T, E> {
        let table = std::iter::once(("type", written));
        T::deserialize(MapDeserializer::new(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(table))
    }
}

struct Scalar;

impl Visitor<'_> for Scalar {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a number or a boolean")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<String, E> {
        Ok(flag.to_string())
    }
}
