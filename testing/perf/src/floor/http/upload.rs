//! Media on its way from a request into a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use bytes::{Buf as _, Bytes};
use http::HeaderValue;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::super::BATCH;
use super::super::file_store::FileStore;

/// Files up to this size are written by the thread that has read them, unless they are synced too.
const INLINE: usize = 64 << 10;

/// The part of a file that a request holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: u64,
    /// None when the request holds all of it.
    pub(super) total: Option<u64>,
}

impl Span {
    pub(super) const WHOLE: Self = Self {
        first: 0,
        total: None,
    };

    /// `bytes FIRST-LAST/TOTAL`.
    pub(super) fn parse(value: &HeaderValue) -> Option<Self> {
        let range = value.to_str().ok()?.strip_prefix("bytes ")?;
        let (range, total) = range.split_once('/')?;
        let (first, _) = range.split_once('-')?;
        Some(Self {
            first: first.parse().ok()?,
            total: Some(total.parse().ok()?),
        })
    }
}

/// Writes a body into the file of this name, from `first` on, and tells where it ends.
pub(super) async fn store(
    file_store: &FileStore,
    name: &str,
    first: u64,
    mut body: Incoming,
) -> io::Result<u64> {
    let mut writing = Writing {
        file_store: file_store.clone(),
        name: name.to_owned(),
        file: None,
        offset: first,
        batch: Vec::new(),
    };
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(io::Error::other)?;
        let Ok(mut data) = frame.into_data() else {
            continue;
        };
        while data.has_remaining() {
            writing.gather(&mut data);
            if writing.batch.len() == BATCH {
                writing = blocking(writing, Writing::write).await?;
            }
        }
    }
    let is_quick =
        !file_store.is_durable() && writing.file.is_none() && writing.batch.len() <= INLINE;
    let writing = if is_quick {
        writing.finish()?
    } else {
        blocking(writing, Writing::finish).await?
    };
    Ok(writing.offset)
}

async fn blocking(
    writing: Writing,
    work: fn(Writing) -> io::Result<Writing>,
) -> io::Result<Writing> {
    let done = tokio::task::spawn_blocking(move || work(writing)).await;
    done.map_err(io::Error::other)?
}

struct Writing {
    file_store: FileStore,
    name: String,
    file: Option<File>,
    offset: u64,
    /// One buffer for the whole upload: memory that was touched before is quick.
    batch: Vec<u8>,
}

impl Writing {
    /// Takes as many bytes as fit into the batch.
    fn gather(&mut self, data: &mut Bytes) {
        let taken = data.len().min(BATCH - self.batch.len());
        self.batch.extend_from_slice(&data[..taken]);
        data.advance(taken);
    }

    fn write(mut self) -> io::Result<Self> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.file_store.open_to_write(&self.name)?,
        };
        file.write_all_at(&self.batch, self.offset)?;
        self.offset += self.batch.len() as u64;
        self.batch.clear();
        self.file = Some(file);
        Ok(self)
    }

    fn finish(self) -> io::Result<Self> {
        let done = self.write()?;
        done.file
            .iter()
            .try_for_each(|file| done.file_store.finish(file))?;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_range_says_which_part_of_which_whole() {
        let parse = |text| Span::parse(&HeaderValue::from_static(text));
        let span = Span {
            first: 5,
            total: Some(10),
        };
        assert_eq!(parse("bytes 5-9/10"), Some(span));
        assert_eq!(parse("bytes */10"), None);
        assert_eq!(parse("bytes 5-9/*"), None);
    }
}
