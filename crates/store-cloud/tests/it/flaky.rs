//! An object store that refuses writes on demand, and counts them.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartId, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// A store in memory whose next writes fail.
#[derive(Debug, Default)]
pub(crate) struct Flaky {
    store: InMemory,
    refusals: AtomicUsize,
    puts: AtomicUsize,
    parts: AtomicUsize,
}

impl Flaky {
    /// Refuses the next writes of objects and parts.
    pub(crate) fn refuse(&self, count: usize) {
        self.refusals.store(count, Relaxed);
    }

    /// Returns the number of objects and of parts that were written.
    pub(crate) fn written(&self) -> (usize, usize) {
        (self.puts.load(Relaxed), self.parts.load(Relaxed))
    }

    fn write(&self, counter: &AtomicUsize) -> Result<()> {
        let refused = self
            .refusals
            .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if refused.is_ok() {
            return Err(Error::Generic {
                store: "flaky",
                source: "slow down".into(),
            });
        }
        counter.fetch_add(1, Relaxed);
        Ok(())
    }
}

impl fmt::Display for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("flaky")
    }
}

#[async_trait]
impl ObjectStore for Flaky {
    async fn put_opts(&self, to: &Path, bytes: PutPayload, with: PutOptions) -> Result<PutResult> {
        self.write(&self.puts)?;
        self.store.put_opts(to, bytes, with).await
    }

    async fn put_multipart_opts(
        &self,
        to: &Path,
        with: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(to, with).await
    }

    async fn get_opts(&self, from: &Path, with: GetOptions) -> Result<GetResult> {
        self.store.get_opts(from, with).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, with: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, with).await
    }
}

#[async_trait]
impl MultipartStore for Flaky {
    async fn create_multipart(&self, to: &Path) -> Result<MultipartId> {
        self.store.create_multipart(to).await
    }

    async fn put_part(
        &self,
        to: &Path,
        upload: &MultipartId,
        part: usize,
        bytes: PutPayload,
    ) -> Result<PartId> {
        self.write(&self.parts)?;
        self.store.put_part(to, upload, part, bytes).await
    }

    async fn complete_multipart(
        &self,
        to: &Path,
        upload: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        self.store.complete_multipart(to, upload, parts).await
    }

    async fn abort_multipart(&self, to: &Path, upload: &MultipartId) -> Result<()> {
        self.store.abort_multipart(to, upload).await
    }
}
