//! Finding the store that a command is about.

use std::path::PathBuf;

use windlass_store_local::OpenError;

use crate::args::StoreArgs;
use crate::settings::{self, Environment, Sources};

/// The data directory that a server with the same flags, environment and file would use.
pub(super) fn directory(args: &StoreArgs) -> Result<PathBuf, settings::Error> {
    let sources = Sources {
        config: args.config.clone(),
        flags: args.raw_values(),
        environment: Environment::new(std::env::vars_os())?,
    };
    Ok(sources.merge()?.settings.data)
}

/// What can be done about a store that cannot be opened.
pub(super) fn hint(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::InUse { .. } => Some("stop the server, or wait for the backup, that uses it"),
        OpenError::IncompleteBackup { .. } => {
            Some("run `windlass backup` into it again, or use another backup")
        }
        OpenError::Ledger { .. } => Some(
            "is it the data directory of a server? A newer version of Windlass may have made it; a \
             damaged ledger comes back from a backup",
        ),
        OpenError::Vault { .. } => Some("is the disk of the vault mounted? Nothing was changed"),
        OpenError::NoSpace { .. } => Some(
            "free some of the disk, or make it larger; 16 MB are enough to start. Nothing is lost. Then delete \
             resources or cancel uploads to make room for others",
        ),
        OpenError::UnsafeFilesystem { .. } | OpenError::NoLedger { .. } | OpenError::Io { .. } => {
            None
        }
    }
}
