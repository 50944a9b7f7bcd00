//! The bytes of one request, as a front receives them.

use std::future::Future;

use bytes::Bytes;

use crate::error::Error;

/// The bytes of one request, in their order.
pub trait MediaStream: Send + 'static {
    /// Returns the next bytes, at least one; `None` at the end.
    ///
    /// # Errors
    /// If the stream breaks, or its sender is silent for too long: the engine sets no limit on the
    /// wait. It is not read any more then.
    ///
    /// # Cancel safety
    /// Must be cancel safe: a dropped call loses no byte.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send;

    /// Whether the stream is known to have ended. It may be false at the end: some streams show
    /// their end only to the next read.
    fn is_at_end(&self) -> bool {
        false
    }

    /// Whether the bytes are verified only at the end of the stream, as those of a gzip stream
    /// are. No byte is then committed before the end.
    fn is_verified_at_end(&self) -> bool {
        false
    }

    /// Is told how many bytes of the media are committed, while the request goes on. A front may
    /// tell its client. Must not wait.
    fn committed(&mut self, offset: u64) {
        let _ = offset;
    }

    /// Reads the rest if it is known to be short, so that the connection can be used again.
    fn finish_if_short(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Whether the stream has no bytes. Reads it up to its first byte or its end.
    ///
    /// # Errors
    /// As [`MediaStream::next`].
    fn is_empty(&mut self) -> impl Future<Output = Result<bool, Error>> + Send {
        async { Ok(self.next().await?.is_none()) }
    }

    /// Reads and discards the rest. Returns its length in bytes.
    ///
    /// # Errors
    /// As [`MediaStream::next`].
    fn discard(&mut self) -> impl Future<Output = Result<u64, Error>> + Send {
        async {
            let mut length = 0;
            while let Some(data) = self.next().await? {
                length += data.len() as u64;
            }
            Ok(length)
        }
    }
}
