//! A store of one's own: a vault that keeps each media in a plain file of a directory.
//!
//! `cargo run --bin store -- 127.0.0.1:8080 data`, then in another terminal:
//!
//! ```sh
//! curl -H 'Content-Type: image/jpeg' --data-binary @photo.jpg 'http://127.0.0.1:8080/upload/farm/v1/animals?uploadType=media'
//! ls data/files
//! ```
//!
//! A server needs a `Ledger` and a `Vault`, and each can be replaced without the other. This program
//! takes the ledger of `windlass-store-local`, which also keeps media of up to 64 KiB, and puts all
//! other media into a [`DirectoryVault`].
//!
//! The vault keeps the promises that the conformance suite checks; the tests at the end run it. It
//! also syncs files and names as the contract demands. The vault of `windlass-store-local` does more:
//!
//! * It was tested with power cuts and failing disks, and refuses file systems that lose synced bytes.
//! * It locks its directory. This one must be the only process that writes to it.
//! * It stays fast with many files. Here [`Vault::list`] returns all of them at once, and each file
//!   operation occupies a thread of the runtime.

#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock, Weak};
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::task::block_in_place;
use windlass_digest::Crc32cHasher;
use windlass_server::{Ended, Listener, Registry, Server, Stores};
use windlass_store::{
    ExpectedSize, Extent, ListPosition, Listed, Listing, MediaId, MediaReader, MediaWriter,
    READ_LEN, Space, StoredMedia, StoredName, SyncTarget, Timestamp, Vault, VaultError,
};
use windlass_store_local::LocalStore;

/// The number of the newest writer of a media. A running write holds a read lock.
type Newest = RwLock<u64>;

struct DirectoryVault {
    directory: PathBuf,
    /// For each media that has a writer.
    newest: Mutex<HashMap<MediaId, Weak<Newest>>>,
}

impl DirectoryVault {
    fn open(directory: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&directory)?;
        let newest = Mutex::default();
        Ok(Self { directory, newest })
    }

    fn path(&self, id: MediaId) -> PathBuf {
        self.directory.join(id.to_string())
    }

    fn newest(&self, id: MediaId) -> Arc<Newest> {
        let mut all = self.newest.lock().expect("nobody panics while holding it");
        all.retain(|_, newest| newest.strong_count() > 0);
        let newest = all.get(&id).and_then(Weak::upgrade).unwrap_or_default();
        all.insert(id, Arc::downgrade(&newest));
        newest
    }

    fn listing(&self) -> io::Result<Listing> {
        let mut stored = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let id = entry.file_name().to_str().and_then(MediaId::parse);
            // Without metadata it was deleted meanwhile.
            let (Some(id), Ok(metadata)) = (id, entry.metadata()) else {
                continue;
            };
            let age = metadata.modified()?.duration_since(UNIX_EPOCH);
            let modified = Timestamp::from_millis(0).saturating_add(age.unwrap_or_default());
            let name = StoredName::of(id);
            stored.push(Listed { name, modified });
        }
        Ok(Listing { stored, next: None })
    }
}

/// The error of a call that has changed nothing.
fn refused(id: MediaId) -> impl Fn(io::Error) -> VaultError {
    move |error| match error.kind() {
        ErrorKind::NotFound => VaultError::Missing(id),
        ErrorKind::AlreadyExists => damaged(id, "its name is taken"),
        ErrorKind::UnexpectedEof => damaged(id, "it is shorter than the range to be read"),
        ErrorKind::StorageFull => VaultError::NoSpace { written: 0 },
        _ => VaultError::Unavailable {
            id: Some(id),
            cause: Arc::new(error),
        },
    }
}

/// The error of a change. If the disk is not just full, it is unknown what has changed.
fn failed(written: u64) -> impl Fn(io::Error) -> VaultError {
    move |error| match error.kind() {
        ErrorKind::StorageFull => VaultError::NoSpace { written },
        _ => VaultError::Fault(Arc::new(error)),
    }
}

fn damaged(id: MediaId, reason: &'static str) -> VaultError {
    VaultError::Damaged { id, reason }
}

#[async_trait]
impl Vault for DirectoryVault {
    async fn create(
        &self,
        id: MediaId,
        _: ExpectedSize,
    ) -> Result<Box<dyn MediaWriter>, VaultError> {
        block_in_place(|| {
            let file = File::create_new(self.path(id)).map_err(refused(id))?;
            // After a power cut the file is found only if its name is durable, too.
            let directory = File::open(&self.directory).map_err(refused(id))?;
            directory.sync_all().map_err(failed(0))?;
            Ok(FileWriter::boxed(id, file, self.newest(id), 0))
        })
    }

    async fn resume(&self, stored: &StoredMedia) -> Result<Box<dyn MediaWriter>, VaultError> {
        let (id, committed) = (stored.id, stored.length);
        block_in_place(|| {
            let newest = self.newest(id);
            // Waits for running writes. Later writes of the earlier writers find the new number.
            let mut locked = newest.write().expect("nobody panics while holding it");
            *locked += 1;
            let number = *locked;
            let file = File::options().read(true).write(true).open(self.path(id));
            let file = file.map_err(|error| match error.kind() {
                ErrorKind::NotFound => damaged(id, "it is gone"),
                _ => refused(id)(error),
            })?;
            if file.metadata().map_err(refused(id))?.len() < committed {
                return Err(damaged(id, "it is shorter than its committed offset"));
            }
            file.set_len(committed).map_err(failed(0))?;
            if let Some(Extent { start, crc32c }) = stored.verify {
                let (mut rest, mut hasher) = (start..committed, Crc32cHasher::default());
                while !rest.is_empty() {
                    hasher.update(&read(&file, &mut rest, READ_LEN).map_err(refused(id))?);
                }
                if hasher.value() != crc32c {
                    return Err(damaged(id, "its last extent differs from its checksum"));
                }
            }
            drop(locked);
            Ok(FileWriter::boxed(id, file, newest, number))
        })
    }

    async fn read(
        &self,
        media: &StoredName,
        rest: Range<u64>,
    ) -> Result<Box<dyn MediaReader>, VaultError> {
        let id = media.media;
        block_in_place(|| {
            let file = File::open(self.path(id)).map_err(refused(id))?;
            let length = file.metadata().map_err(refused(id))?.len();
            if length < rest.end {
                return Err(refused(id)(ErrorKind::UnexpectedEof.into()));
            }
            Ok(Box::new(FileReader { id, file, rest }) as Box<dyn MediaReader>)
        })
    }

    async fn delete(&self, stored: &StoredName) -> Result<(), VaultError> {
        let id = stored.media;
        match block_in_place(|| fs::remove_file(self.path(id))) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(refused(id)(error)),
            _ => Ok(()),
        }
    }

    async fn list(&self, _: Option<ListPosition>, _: usize) -> Result<Listing, VaultError> {
        let unavailable = |cause| VaultError::Unavailable { id: None, cause };
        block_in_place(|| self.listing()).map_err(|error| unavailable(Arc::new(error)))
    }

    async fn space(&self) -> Result<Option<Space>, VaultError> {
        let stat = rustix::fs::statvfs(&self.directory).map_err(|it| failed(0)(it.into()))?;
        Ok(Some(Space {
            available: stat.f_bavail.saturating_mul(stat.f_frsize),
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
            disk: self.directory.metadata().map_err(failed(0))?.dev(),
        }))
    }
}

#[derive(Debug)]
struct FileWriter {
    id: MediaId,
    file: File,
    newest: Arc<Newest>,
    number: u64,
}

impl FileWriter {
    fn boxed(id: MediaId, file: File, newest: Arc<Newest>, number: u64) -> Box<dyn MediaWriter> {
        Box::new(Self {
            id,
            file,
            newest,
            number,
        })
    }
}

#[async_trait]
impl MediaWriter for FileWriter {
    async fn append(&self, at: u64, data: Vec<Bytes>) -> Result<(), VaultError> {
        block_in_place(|| {
            let newest = self.newest.read().expect("nobody panics while holding it");
            if *newest != self.number {
                return Err(VaultError::superseded(self.id));
            }
            let mut written = 0;
            for piece in data {
                let done = self.file.write_all_at(&piece, at + written);
                done.map_err(failed(written))?;
                written += piece.len() as u64;
            }
            Ok(())
        })
    }

    async fn sync(&self, _: SyncTarget) -> Result<(), VaultError> {
        block_in_place(|| self.file.sync_data()).map_err(failed(0))
    }
}

#[derive(Debug)]
struct FileReader {
    id: MediaId,
    file: File,
    rest: Range<u64>,
}

#[async_trait]
impl MediaReader for FileReader {
    async fn next(&mut self, max_len: usize) -> Result<Bytes, VaultError> {
        let bytes = block_in_place(|| read(&self.file, &mut self.rest, max_len));
        bytes.map_err(refused(self.id))
    }
}

/// Takes bytes from the beginning of a range of a file, at most `max_len`.
fn read(file: &File, rest: &mut Range<u64>, max_len: usize) -> io::Result<Bytes> {
    let length = usize::try_from(rest.end - rest.start)
        .unwrap_or(max_len)
        .min(max_len);
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, rest.start)?;
    rest.start += length as u64;
    Ok(bytes.into())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(address), Some(data)) = (args.next(), args.next()) else {
        return Err("usage: store ADDRESS DATA_DIRECTORY".into());
    };
    let data = Path::new(&data);
    let local = LocalStore::open(data, windlass_store_local::Options::default())?;
    let stores = Stores {
        ledger: Arc::new(local.ledger),
        vault: Arc::new(DirectoryVault::open(data.join("files"))?),
    };
    let farm = windlass_apis::by_name("farm", &windlass_apis::Options::default());
    let server = Server::builder(Registry::new(farm.unwrap_or_default())?, stores).build()?;
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    match server.run(Listener::plain(listener), interrupted).await {
        Ended::Drained => Ok(()),
        Ended::StorageFailed => Err("the storage failed".into()),
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::conformance;

    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().expect("there is a directory for temporary files")
    }

    // The vault blocks in place, which needs a runtime of several threads.
    #[tokio::test(flavor = "multi_thread")]
    async fn vault_keeps_the_contract() {
        let directory = directory();
        let vault = DirectoryVault::open(directory.path().into());
        conformance::vault(&vault.expect("it is writable")).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn vault_keeps_what_it_synced_over_a_restart() {
        let directory = directory();
        let open = async || {
            let vault = DirectoryVault::open(directory.path().into());
            Arc::new(vault.expect("it is writable")) as Arc<dyn Vault>
        };
        conformance::vault_restart(open).await;
    }
}
