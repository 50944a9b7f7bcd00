//! The variables of the environment that begin with `WINDLASS_`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::error::Error;
use super::key::{Key, PREFIX};

/// Names the configuration file.
pub(super) const CONFIG_VARIABLE: &str = "WINDLASS_CONFIG";

/// Says where the client's bearer tokens come from: `--token`.
pub(crate) const TOKEN_VARIABLE: &str = "WINDLASS_TOKEN";

/// Names the directory of the client's journal: `--journal`.
pub(crate) const JOURNAL_VARIABLE: &str = "WINDLASS_JOURNAL";

/// Names the moment at which the server dies.
#[cfg(feature = "failpoints")]
pub(crate) const FAILPOINT_VARIABLE: &str = "WINDLASS_FAILPOINT";

/// The variables that are no settings of the server.
const OTHERS: &[&str] = &[
    CONFIG_VARIABLE,
    TOKEN_VARIABLE,
    JOURNAL_VARIABLE,
    #[cfg(feature = "failpoints")]
    FAILPOINT_VARIABLE,
];

/// A variable of the client. An empty one counts as not set.
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

    /// The configuration file.
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
