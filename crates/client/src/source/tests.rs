use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, SystemTime};

use futures_util::TryStreamExt;

use super::*;

mod files;
mod identity;
mod kinds;
mod streams;

/// Returns bytes that differ from their neighbours, near and far.
fn some_media(len: usize) -> Vec<u8> {
    let byte = |index: usize| (index ^ (index >> 8) ^ (index >> 16)) % 251;
    (0..len)
        .map(|index| u8::try_from(byte(index)).unwrap())
        .collect()
}

impl Media {
    /// Reads all bytes of small media.
    async fn collect(&mut self) -> Result<Vec<u8>, SourceError> {
        let filled = self.fill(u64::MAX).await?;
        let read = read(self, 0..filled.end).await;
        read.map_err(|error| self.cannot_read(error))
    }
}

async fn read(media: &Media, range: Range<u64>) -> io::Result<Vec<u8>> {
    let pieces: Vec<Bytes> = media.read(range).try_collect().await?;
    Ok(pieces.concat())
}

/// Changes a file and restores its modification time.
fn with_time_kept(path: &Path, change: impl FnOnce()) {
    let before = path.metadata().unwrap().modified().unwrap();
    change();
    set_modified(path, before);
}

fn set_modified(path: &Path, time: SystemTime) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

fn touch(path: &Path) {
    let before = path.metadata().unwrap().modified().unwrap();
    set_modified(path, before + Duration::from_micros(1));
}
