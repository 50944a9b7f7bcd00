//! Which store a command is about.

use std::path::PathBuf;

use crate::settings::RawValue;

/// The data directory, found as `windlass serve` finds it.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct StoreArgs {
    /// The data directory [default: ./windlass-data]
    ///
    /// Where `windlass serve` keeps sessions, resources and media; also `WINDLASS_DATA`, and `data` in the
    /// configuration file.
    #[arg(long, value_name = "DIRECTORY")]
    data: Option<String>,

    /// The server's configuration file; also `WINDLASS_CONFIG`
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl StoreArgs {
    /// What the flags say about the settings, by the names of the flags.
    pub(crate) fn raw_values(&self) -> Vec<(&'static str, RawValue)> {
        let data = self.data.clone();
        data.map(|data| ("data", RawValue::Text(data)))
            .into_iter()
            .collect()
    }
}
