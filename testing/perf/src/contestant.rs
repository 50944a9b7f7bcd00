//! Who takes part: the table of contestants.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::load::{Shape, Targets};
use crate::server::{Launch, free_port};

/// The table of contestants.
const TABLE: &str = include_str!("../contestants.toml");

/// A server, how it is started, and how uploads are spelled for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contestant {
    /// Its name in tables.
    pub(crate) name: String,
    /// The relation of its figures to ours.
    pub(crate) role: Role,
    /// Whether its acknowledged uploads survive a power cut.
    pub(crate) durable: bool,
    command: Vec<String>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// Text of a file that the command can name.
    #[serde(default)]
    config: String,
    /// The additional options for scenarios under TLS.
    #[serde(default)]
    tls: TlsOptions,
    /// The directories that must exist in its data.
    #[serde(default)]
    directories: Vec<String>,
    /// A file in its data that grows until it is written over from its beginning.
    log: Option<PathBuf>,
    /// Scenarios that its dialect supports but the server does not.
    #[serde(default)]
    without: Vec<String>,
    #[serde(rename = "dialect")]
    dialect_name: String,
    #[serde(skip)]
    dialect: Dialect,
}

/// The options that make a server speak TLS.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TlsOptions {
    /// Further words of the command.
    command: Vec<String>,
    /// The text that replaces `{tls}` in the configuration.
    config: String,
}

/// How uploads are spelled.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dialect {
    targets: Targets,
    shapes: BTreeMap<String, Shape>,
}

/// The relation of a contestant's figures to ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// They are ours.
    Ours,
    /// They are of another build of ours.
    Baseline,
    /// The reference line for our figures.
    Reference,
    /// Another line.
    Floor,
    /// A server that others wrote.
    Peer,
}

/// Where binaries are.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The server under measurement.
    pub(crate) windlass: PathBuf,
    /// Another build of it, to be measured in the same rounds.
    pub(crate) baseline: Option<PathBuf>,
    /// This program.
    pub(crate) bench: PathBuf,
    /// Servers of others.
    pub(crate) installed: PathBuf,
}

impl Contestant {
    /// The shape of its uploads in this scenario, or `None` if it takes no part.
    pub(crate) fn shape(&self, scenario: &str) -> Option<Shape> {
        if self.without.iter().any(|without| without == scenario) {
            return None;
        }
        self.dialect.shapes.get(scenario).copied()
    }

    /// How its small uploads are spelled, whichever scenarios it takes part in; none when it has
    /// none.
    pub(crate) fn small_shape(&self) -> Option<Shape> {
        let shapes = &self.dialect.shapes;
        shapes.get("S3").or_else(|| shapes.get("S4")).copied()
    }

    /// How long its log is in this directory; none when it has no log.
    pub(crate) fn log_len(&self, data: &Path) -> Option<u64> {
        let log = data.join(self.log.as_ref()?);
        // A log that does not exist yet has no length.
        Some(log.metadata().map_or(0, |metadata| metadata.len()))
    }

    /// Whether it needs another build of ours.
    pub(crate) fn is_baseline(&self) -> bool {
        self.role == Role::Baseline
    }

    /// Its URLs.
    pub(crate) fn targets(&self) -> &Targets {
        &self.dialect.targets
    }

    /// The first of its files that testing/perf/install should have installed but has not.
    pub(crate) fn missing(&self, places: &Places) -> Option<PathBuf> {
        let words = self.command.iter();
        let files = words.filter_map(|word| word.strip_prefix("{installed}/"));
        let mut files = files.map(|file| places.installed.join(file));
        files.find(|file| !file.exists())
    }

    /// How it is started on `data`, which is made ready; with a certificate and its key under TLS.
    ///
    /// # Errors
    /// When nothing can be written there, or no port is free.
    pub(crate) fn launch(
        &self,
        places: &Places,
        data: &Path,
        tls: Option<&[PathBuf; 2]>,
    ) -> anyhow::Result<Launch> {
        let needs_port = self.command.iter().chain([&self.config]);
        let needs_port = needs_port.into_iter().any(|word| word.contains("{port}"));
        let address = needs_port.then(free_port).transpose()?;
        let config = data.join("config");
        let fill = |word: &String| {
            let port = address.map_or(0, |address| address.port());
            let baseline = places.baseline.as_deref().unwrap_or(Path::new(""));
            let [certificate, key] = tls.map_or([Path::new(""); 2], |[certificate, key]| {
                [certificate, key].map(PathBuf::as_path)
            });
            word.replace("{tls}", tls.map_or("", |_| &self.tls.config))
                .replace("{certificate}", &certificate.to_string_lossy())
                .replace("{key}", &key.to_string_lossy())
                .replace("{windlass}", &places.windlass.to_string_lossy())
                .replace("{baseline}", &baseline.to_string_lossy())
                .replace("{bench}", &places.bench.to_string_lossy())
                .replace("{installed}", &places.installed.to_string_lossy())
                .replace("{config}", &config.to_string_lossy())
                .replace("{data}", &data.to_string_lossy())
                .replace("{port}", &port.to_string())
        };
        for directory in &self.directories {
            std::fs::create_dir_all(data.join(directory))?;
        }
        if !self.config.is_empty() {
            std::fs::write(&config, fill(&self.config))?;
        }
        let tls_words = tls.map_or(&[][..], |_| &self.tls.command);
        let mut words = self.command.iter().chain(tls_words).map(fill);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).envs(&self.environment);
        Ok(Launch { command, address })
    }
}

/// Returns all contestants with a name that contains one of these words, or the whole table without
/// words. The reference is always included.
///
/// # Errors
/// The table is not well-formed, or a word fits no contestant.
pub(crate) fn all(words: &[String]) -> anyhow::Result<Vec<Contestant>> {
    let mut all = table()?;
    let fits = |contestant: &Contestant, word: &String| contestant.name.contains(word.as_str());
    for word in words {
        let is_known = all.iter().any(|one| fits(one, word));
        ensure!(is_known, "no contestant is called {word}");
    }
    if !words.is_empty() {
        let is_wanted = |one: &Contestant| words.iter().any(|word| fits(one, word));
        all.retain(|one| one.role == Role::Reference || is_wanted(one));
    }
    Ok(all)
}

fn table() -> anyhow::Result<Vec<Contestant>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        dialect: BTreeMap<String, Dialect>,
        contestant: Vec<Contestant>,
    }
    let table: Table = toml::from_str(TABLE).context("contestants.toml")?;
    let speak = |contestant: Contestant| {
        let name = &contestant.dialect_name;
        let dialect = table.dialect.get(name);
        let dialect = dialect.with_context(|| format!("there is no dialect {name}"))?;
        Ok(Contestant {
            dialect: dialect.clone(),
            ..contestant
        })
    };
    table.contestant.into_iter().map(speak).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::scenario;

    /// Places where nothing is.
    fn places() -> Places {
        Places {
            windlass: "/w".into(),
            baseline: None,
            bench: "/b".into(),
            installed: "/nowhere".into(),
        }
    }

    #[test]
    fn the_table_is_well_formed_and_names_scenarios_that_there_are() {
        let scenarios = scenario::all(false);
        for contestant in all(&[]).unwrap() {
            let names = contestant.dialect.shapes.keys().chain(&contestant.without);
            for name in names {
                let is_known = scenarios.iter().any(|scenario| scenario.name == name);
                assert!(is_known, "{name}");
            }
        }
    }

    #[test]
    fn the_reference_always_takes_part() {
        let names: Vec<_> = all(&["TCP floor, durable".to_owned()])
            .unwrap()
            .into_iter()
            .map(|contestant| contestant.name)
            .collect();
        assert_eq!(names, ["HTTP floor, durable", "TCP floor, durable"]);
        assert!(all(&["nobody".to_owned()]).is_err());
    }

    #[test]
    fn what_is_not_installed_is_named_and_what_needs_no_installation_is_not() {
        let places = places();
        for contestant in all(&[]).unwrap() {
            let is_missing = contestant.missing(&places).is_some();
            assert_eq!(
                is_missing,
                contestant.role == Role::Peer,
                "{}",
                contestant.name
            );
        }
    }

    #[test]
    fn a_configuration_is_written_with_the_port_of_the_launch() {
        let data = tempfile::tempdir().unwrap();
        let places = places();
        let nginx = all(&["nginx".to_owned()]).unwrap().pop().unwrap();
        let launch = nginx.launch(&places, data.path(), None).unwrap();
        let config = std::fs::read_to_string(data.path().join("config")).unwrap();
        assert!(config.contains(&format!("listen {};", launch.address.unwrap())));
        assert!(data.path().join("files").is_dir());
        let tls = ["/cert", "/key"].map(PathBuf::from);
        nginx.launch(&places, data.path(), Some(&tls)).unwrap();
        let config = std::fs::read_to_string(data.path().join("config")).unwrap();
        assert!(config.contains("ssl http2;") && config.contains("ssl_certificate_key /key;"));
    }

    #[test]
    fn command_has_the_flags_of_the_certificate_only_under_tls() {
        let data = tempfile::tempdir().unwrap();
        let places = places();
        let ours = all(&["windlass".to_owned()]).unwrap().remove(0);
        let words = |tls| {
            let command = ours.launch(&places, data.path(), tls).unwrap().command;
            format!("{command:?}")
        };
        let tls = ["/cert", "/key"].map(PathBuf::from);
        assert!(words(Some(&tls)).contains(r#""--tls-cert" "/cert" "--tls-key" "/key""#));
        assert!(!words(None).contains("tls"));
    }
}
