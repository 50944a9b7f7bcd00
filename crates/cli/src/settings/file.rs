//! The configuration file: TOML, read into the settings that it names.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Error;
use super::key::{KEYS, Key};
use super::toml_error::{TomlError, line_of};
use super::value::RawValue;

/// What the file says about one setting.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: &'static Key,
    pub(super) raw: RawValue,
    pub(super) line: usize,
}

/// Reads a configuration file. A key that is no setting is an error.
pub(super) fn read(path: &Path) -> Result<Vec<Entry>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let table =
        DeTable::parse(&text).map_err(|error| Error::Toml(TomlError::new(path, &text, &error)))?;
    let mut reader = Reader {
        path,
        text: &text,
        entries: Vec::new(),
    };
    reader.read_table(table.get_ref(), "")?;
    Ok(reader.entries)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    entries: Vec<Entry>,
}

impl Reader<'_> {
    fn read_table(&mut self, table: &DeTable<'_>, prefix: &str) -> Result<(), Error> {
        table.iter().try_for_each(|(name, value)| {
            let line = line_of(self.text, name.span().start);
            self.read_value(&format!("{prefix}{}", name.get_ref()), value, line)
        })
    }

    fn read_value(
        &mut self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        line: usize,
    ) -> Result<(), Error> {
        match (Key::named(name), value.get_ref()) {
            (Some(key), value) => {
                let raw = raw_value(value).ok_or_else(|| Error::Kind {
                    key: key.name,
                    path: self.path.to_owned(),
                    line,
                })?;
                self.entries.push(Entry { key, raw, line });
                Ok(())
            }
            (None, DeValue::Table(table)) if is_table(name) => {
                self.read_table(table, &format!("{name}."))
            }
            (None, _) => Err(match Key::excluded_table(name) {
                Some(table) => Error::Excluded {
                    table,
                    path: self.path.to_owned(),
                    line,
                },
                None => Error::UnknownKey {
                    name: name.to_owned(),
                    path: self.path.to_owned(),
                    line,
                    nearest: Key::nearest(name).map(|key| key.name),
                },
            }),
        }
    }
}

fn is_table(name: &str) -> bool {
    KEYS.iter().any(|key| key.table() == Some(name))
}

/// Values of all kinds are text to a setting, which knows what to make of it. `None` for tables,
/// dates and lists of anything but text.
fn raw_value(value: &DeValue<'_>) -> Option<RawValue> {
    match value {
        DeValue::String(text) => Some(RawValue::Text(text.to_string())),
        DeValue::Integer(number) => Some(RawValue::Text(number.to_string())),
        DeValue::Float(number) => Some(RawValue::Text(number.to_string())),
        DeValue::Boolean(switch) => Some(RawValue::Text(switch.to_string())),
        DeValue::Array(values) => {
            let texts = values
                .iter()
                .map(|value| value.get_ref().as_str().map(str::to_owned));
            texts.collect::<Option<_>>().map(RawValue::List)
        }
        DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}
