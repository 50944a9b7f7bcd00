//! Media of which each byte is known by its offset, without copies.

use std::sync::LazyLock;

use bytes::Bytes;

/// Length of the media in bytes.
pub const LEN: u64 = 1 << 20;

static MEDIA: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(vec![0; 1 << 20]));

/// The bytes in `start..end`, as far as there are some.
pub fn slice(start: u64, end: u64) -> Bytes {
    let index = |offset: u64| usize::try_from(offset.min(LEN)).expect("it is a megabyte at most");
    MEDIA.slice(index(start)..index(end.max(start)))
}

/// Whether these bytes of the media are those from `offset` on: the same memory, not equal bytes.
pub fn is_at(bytes: &Bytes, offset: u64) -> bool {
    bytes.is_empty() || bytes.as_ptr() == slice(offset, LEN).as_ptr()
}
