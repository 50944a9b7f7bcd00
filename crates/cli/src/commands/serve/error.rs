//! Errors of `windlass serve`, with a hint and an exit code each.

use std::io;
use std::net::SocketAddr;

use thiserror::Error as ThisError;
use windlass_store_local::OpenError;

use super::CertificateError;
use crate::commands::store;
use crate::exit::Code;
use crate::settings::{self, ApiError};

/// An error that keeps the server from starting, or ends it.
#[derive(Debug, ThisError)]
pub(crate) enum Error {
    #[error(transparent)]
    Settings(#[from] settings::Error),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[cfg(feature = "gmail")]
    #[error("the password for gmail.relay cannot be read from {}", path.display())]
    Password {
        path: std::path::PathBuf,
        source: io::Error,
    },
    #[cfg(feature = "failpoints")]
    #[error(transparent)]
    Failpoint(#[from] windlass_store_local::failpoint::UnknownFailpoint),
    #[error("cannot start threads")]
    Runtime(#[source] io::Error),
    #[error("cannot catch signals")]
    Signals(#[source] io::Error),
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error("storage failed; the server has stopped because it can no longer guarantee durability")]
    StorageFailed,
}

impl Error {
    /// Returns the exit code of the process.
    pub(crate) fn exit_code(&self) -> Code {
        match self {
            Self::Settings(_) | Self::Api(_) | Self::Certificate(_) => Code::Usage,
            #[cfg(feature = "gmail")]
            Self::Password { .. } => Code::Usage,
            Self::Runtime(_) | Self::Signals(_) | Self::Listen { .. } | Self::Store(_) => {
                Code::CannotBegin
            }
            #[cfg(feature = "failpoints")]
            Self::Failpoint(_) => Code::Usage,
            Self::StorageFailed => Code::Failure,
        }
    }

    /// Returns a hint for the user.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Settings(error) => error.hint(),
            Self::Api(error) => error.hint().map(str::to_owned),
            Self::Certificate(error) => error.hint().map(str::to_owned),
            Self::Listen { source, .. } => listen_hint(source).map(str::to_owned),
            Self::Store(error) => store_hint(error).map(str::to_owned),
            Self::StorageFailed => Some(
                "the log above says what failed; repair the disk, then start the server again: \
                 acknowledged data is kept"
                    .to_owned(),
            ),
            #[cfg(feature = "failpoints")]
            Self::Failpoint(_) => Some("`windlass failpoints` names them".to_owned()),
            #[cfg(feature = "gmail")]
            Self::Password { .. } => None,
            Self::Runtime(_) | Self::Signals(_) => None,
        }
    }
}

fn listen_hint(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            Some("choose another port with --listen; port 0 finds a free one")
        }
        io::ErrorKind::AddrNotAvailable => Some("--listen takes an address of this machine"),
        io::ErrorKind::PermissionDenied => Some("ports below 1024 need privileges"),
        _ => None,
    }
}

fn store_hint(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::InUse { .. } => {
            Some("stop the other server, or choose another directory with --data")
        }
        OpenError::IncompleteBackup { .. } => {
            Some("run `windlass backup` into it again, or use another backup")
        }
        OpenError::UnsafeFilesystem { .. } => Some(
            "choose a directory on a local disk with --data, or accept the loss with \
             --allow-unsafe-filesystem",
        ),
        OpenError::Ledger { .. } => Some(
            "choose another directory with --data, or start the version of Windlass that last \
             used this one",
        ),
        OpenError::Vault { .. } => Some(
            "is its disk mounted? Nothing was changed; docs/durability.md says how a vault that was put \
             together anew is marked",
        ),
        OpenError::NoLedger { .. } => Some(
            "bring the ledger back, or move the vault away: without its ledger all media in it would \
             be deleted",
        ),
        OpenError::NoSpace { .. } => store::open_hint(error),
        OpenError::Io { .. } => None,
    }
}
