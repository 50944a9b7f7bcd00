//! Floors: servers that take bytes from a socket, put them into files, and do nothing else.
//!
//! With `--sync` one `fdatasync` of the file comes before each reply that acknowledges media: one
//! for each whole file, one for each chunk. Directories are not synced, and the reply that only
//! opens a session promises nothing, so that a server which keeps the whole promise does more.
//! Without `--sync` nothing is synced. Media is gathered to 1 MiB before it is written through the
//! page cache: large writes cost least.

mod file_store;
mod http;
mod tcp;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::output;

use file_store::FileStore;

/// Number of bytes gathered before a write.
const BATCH: usize = 1 << 20;

/// Any free port of this machine alone.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Serve as a floor until killed: copy bytes from sockets into files, and nothing else.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Protocol of the floor.
    kind: Kind,
    /// Directory for the files.
    directory: PathBuf,
    /// Sync each file before it is acknowledged.
    #[arg(long)]
    sync: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// Eight bytes with the length, the media, and one byte as the answer.
    Tcp,
    /// PUT with and without Content-Range, POST for a session, GET; on the HTTP stack of the
    /// server.
    Http,
}

/// Serves until it is killed.
///
/// # Errors
/// When it cannot listen, or the directory cannot be made.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let file_store = FileStore::new(&arguments.directory, arguments.sync)?;
    match arguments.kind {
        Kind::Tcp => tcp::serve(&file_store),
        Kind::Http => http::serve(file_store),
    }
}

/// The line that a harness waits for.
fn listening(scheme: &str, address: SocketAddr) {
    output::result(format_args!("listening on {scheme}://{address}"));
}
