//! Where settings are read from besides flags: the configuration file (TOML) and the environment
//! variables that begin with `WINDLASS_`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::key::{KEYS, Key, PREFIX};
use super::value::RawValue;
use super::{Error, TomlError, line_of};

/// One setting in the file.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: &'static Key,
    pub(super) raw: RawValue,
    pub(super) line: usize,
}

/// Reads a configuration file. An unknown key is an error.
pub(super) fn read_file(path: &Path) -> Result<Vec<Entry>, Error> {
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

/// The variable with the path of the configuration file.
pub(super) const CONFIG_VARIABLE: &str = "WINDLASS_CONFIG";

/// The variable with the source of the client's bearer token, as `--token`.
pub(crate) const TOKEN_VARIABLE: &str = "WINDLASS_TOKEN";

/// The variable with the directory of the client's journal, as `--journal`.
pub(crate) const JOURNAL_VARIABLE: &str = "WINDLASS_JOURNAL";

/// Names the moment at which the server dies.
#[cfg(feature = "failpoints")]
pub(crate) const FAILPOINT_VARIABLE: &str = "WINDLASS_FAILPOINT";

/// The variables that are not settings of the server.
const OTHERS: &[&str] = &[
    CONFIG_VARIABLE,
    TOKEN_VARIABLE,
    JOURNAL_VARIABLE,
    #[cfg(feature = "failpoints")]
    FAILPOINT_VARIABLE,
];

/// Returns a variable of the client. An empty value counts as not set.
pub(crate) fn client_variable(name: &'static str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The variables whose names begin with `WINDLASS_`, without the empty ones: those count as not set.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
}

/// A variable that sounds like a setting and is none.
///
/// It is no error because a container's surroundings may well set it: Kubernetes makes variables
/// such as `WINDLASS_SERVICE_HOST` for a service that is called windlass.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ignored {
    /// Its name.
    pub(crate) variable: String,
    /// The variable that may have been meant.
    pub(crate) nearest: Option<String>,
}

impl Environment {
    /// Takes the variables that are meant for Windlass out of all.
    pub(crate) fn new(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Error> {
        let ours = variables.into_iter().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            (name.starts_with(PREFIX) && !value.is_empty()).then_some((name, value))
        });
        let texts = ours.map(|(name, value)| match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(Error::NotUnicode { variable: name }),
        });
        Ok(Self {
            variables: texts.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the path of the configuration file.
    pub(super) fn config(&self) -> Option<&Path> {
        self.variables.get(CONFIG_VARIABLE).map(Path::new)
    }

    /// The settings among the variables, with their names and values.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&'static Key, &str, &str)> {
        self.variables.iter().filter_map(|(name, value)| {
            Some((Key::of_variable(name)?, name.as_str(), value.as_str()))
        })
    }

    /// The other variables.
    pub(crate) fn ignored(&self) -> impl Iterator<Item = Ignored> {
        let names = self.variables.keys();
        let others = names
            .filter(|name| !OTHERS.contains(&name.as_str()) && Key::of_variable(name).is_none());
        others.map(|name| {
            let key = name.trim_start_matches(PREFIX).to_lowercase();
            Ignored {
                variable: name.clone(),
                nearest: Key::nearest(&key).map(Key::variable),
            }
        })
    }
}
