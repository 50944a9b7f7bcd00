//! What can go wrong with media.

use std::io;
use std::path::PathBuf;

use super::Change;

/// Why media cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It does not open.
    #[error("cannot open {}", path.display())]
    Open {
        /// What was to be opened.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A directory has no bytes to upload.
    #[error("{} is a directory", path.display())]
    IsDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// Only a regular file can be recognised later.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// What it is the path of.
        path: PathBuf,
    },
    /// A path stopped being readable.
    #[error("cannot read {}", path.display())]
    Read {
        /// What was read.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// A reader failed.
    #[error("cannot read the media")]
    ReadStream {
        /// What it said.
        source: io::Error,
    },
    /// What was read cannot be kept, or not be read back.
    #[error("cannot keep the media in {}", directory.display())]
    Spill {
        /// Where it was to be kept.
        directory: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The media is no longer what the upload began with.
    #[error("{} has changed since the upload began: {change}", path.display())]
    Changed {
        /// The media.
        path: PathBuf,
        /// What is different.
        change: Change,
    },
    /// The media is shorter or longer than stated.
    #[error("the media was said to have {stated} bytes, but {}", actual_length(*stated, *found))]
    LengthDisagrees {
        /// What was stated.
        stated: u64,
        /// What it has; of a reader that goes on, one byte more than stated.
        found: u64,
    },
    /// Bytes are wanted again that are no longer kept.
    #[error(
        "the media is wanted again from byte {wanted}, but only what follows byte {kept_from} is kept"
    )]
    NoLongerBuffered {
        /// The first byte that is wanted.
        wanted: u64,
        /// The first byte that is there.
        kept_from: u64,
    },
}

fn actual_length(stated: u64, found: u64) -> String {
    if found < stated {
        format!("it ended after {found}")
    } else {
        "it goes on".to_owned()
    }
}
