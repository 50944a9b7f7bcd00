//! Reads a range of sealed media by one request.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::{GetOptions, GetRange, ObjectStore};
use windlass_store::{MediaReader, StoredName, VaultError};

use super::objects::{self, Objects};

/// The reader of a range.
pub(super) struct Reader {
    objects: Arc<Objects>,
    name: StoredName,
    /// The bytes that were not returned.
    rest: Range<u64>,
    /// Bytes that have arrived. They are the first ones of the rest.
    arrived: Bytes,
    answer: Option<BoxStream<'static, object_store::Result<Bytes>>>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("name", &self.name)
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}

impl Reader {
    pub(super) async fn open(
        objects: Arc<Objects>,
        name: StoredName,
        range: Range<u64>,
    ) -> Result<Self, VaultError> {
        let mut reader = Self {
            objects,
            name,
            rest: range,
            arrived: Bytes::new(),
            answer: None,
        };
        if reader.rest.is_empty() {
            if reader.objects.size(&reader.name).await? < reader.rest.end {
                return Err(reader.too_short());
            }
        } else {
            reader.request().await?;
        }
        Ok(reader)
    }

    /// Asks for the bytes behind those that have arrived.
    async fn request(&mut self) -> Result<(), VaultError> {
        let range = self.rest.start + self.arrived.len() as u64..self.rest.end;
        let end = range.end;
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            ..GetOptions::default()
        };
        let path = self.objects.path(self.name.media, &self.name.handle);
        match self.objects.store.get_opts(&path, options).await {
            Ok(answer) if answer.meta.size < end => Err(self.too_short()),
            Ok(answer) => {
                self.answer = Some(answer.into_stream());
                Ok(())
            }
            Err(error) => Err(self.objects.explain(&self.name, end, error).await),
        }
    }

    fn too_short(&self) -> VaultError {
        objects::damaged(self.name.media, "it is shorter than the range to be read")
    }

    /// Waits for bytes. If the answer breaks off, the rest is asked for once more.
    async fn receive(&mut self) -> Result<(), VaultError> {
        let mut is_repeated = false;
        loop {
            if self.answer.is_none() {
                self.request().await?;
            }
            let answer = self.answer.as_mut().expect("it was requested");
            match answer.next().await {
                Some(Ok(bytes)) if bytes.is_empty() => {}
                Some(Ok(bytes)) => {
                    self.arrived = bytes;
                    return Ok(());
                }
                Some(Err(error)) if is_repeated => {
                    return Err(objects::unavailable(self.name.media, error));
                }
                None if is_repeated => return Err(self.too_short()),
                Some(Err(_)) | None => {
                    self.answer = None;
                    is_repeated = true;
                }
            }
        }
    }
}

#[async_trait]
impl MediaReader for Reader {
    async fn next(&mut self, max_len: usize) -> Result<Bytes, VaultError> {
        if self.rest.is_empty() {
            return Ok(Bytes::new());
        }
        if self.arrived.is_empty() {
            self.receive().await?;
        }
        let len = self.arrived.len().min(max_len);
        let bytes = self.arrived.split_to(len);
        self.rest.start += len as u64;
        Ok(bytes)
    }
}
