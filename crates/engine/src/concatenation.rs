//! Media that is concatenated from the media of resources.

use windlass_digest::Crc32c;
use windlass_store::{Expected, Media, MediaRef};

/// Media to be concatenated from existing media.
///
/// The vault copies the media, so its bytes do not pass through the server's memory. The sources
/// may change during the copy, so the server asks the handler for the sources again afterwards. A
/// concatenation counts as an upload and continues after its client has gone. Media of a single
/// source is not copied: the call continues with the source's own media.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concatenation {
    /// The media, in order; at least one.
    pub sources: Vec<Media>,
    /// The resources that have the media, as they were read. They are compared when the changes of
    /// the call are applied, in addition to the resources in
    /// [`Completed::expect`](crate::Completed::expect).
    pub expect: Vec<Expected>,
}

impl Concatenation {
    /// Returns the length of the media in bytes.
    pub fn length(&self) -> u64 {
        let lengths = self.sources.iter().map(|source| source.length);
        lengths.fold(0, u64::saturating_add)
    }

    /// Returns the locations of the sources' media.
    pub(crate) fn media(&self) -> Vec<MediaRef> {
        self.sources.iter().map(|source| source.at).collect()
    }

    /// Returns the CRC32C of the media, combined from the checksums of its sources.
    pub fn crc32c(&self) -> Crc32c {
        let sources = self.sources.iter();
        sources.fold(Crc32c::default(), |before, source| {
            before.combine(source.digests.crc32c, source.length)
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use windlass_digest::{Crc32cHasher, Digests};
    use windlass_store::{MediaId, MediaLocation, MediaRef};

    use super::*;

    fn media(bytes: &[u8]) -> Media {
        let mut hasher = Crc32cHasher::default();
        hasher.update(bytes);
        Media {
            handle: Bytes::new(),
            at: MediaRef {
                id: MediaId::from_bytes([7; 16]),
                location: MediaLocation::Vault,
            },
            length: bytes.len() as u64,
            content_type: "text/plain".to_owned(),
            digests: Digests {
                crc32c: hasher.value(),
                md5: None,
                sha256: None,
            },
        }
    }

    #[test]
    fn length_and_checksum_are_those_of_all_bytes() {
        let table: [&[&[u8]]; 4] = [
            &[b"windlass"],
            &[b"wind", b"lass"],
            &[b"", b"w", b"", b"indlas", b"s", b""],
            &[b"w", b"i", b"n", b"d", b"l", b"a", b"s", b"s"],
        ];
        for pieces in table {
            let concatenation = Concatenation {
                sources: pieces.iter().map(|piece| media(piece)).collect(),
                expect: Vec::new(),
            };
            let whole = media(b"windlass");
            assert_eq!(concatenation.length(), whole.length, "{pieces:?}");
            assert_eq!(concatenation.crc32c(), whole.digests.crc32c, "{pieces:?}");
        }
    }
}
