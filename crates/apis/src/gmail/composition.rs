//! Messages that are not quite what was uploaded.
//!
//! A sent message gets header fields that its author left out, and its recipients do not see who got a
//! blind copy. The media is shared by all of them; what differs is a new beginning, kept in the row.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use windlass_server::handler::{Rejection, StoreReader};
use windlass_store::Media;

/// The bytes of a message: a beginning, then the media from some point on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Composition {
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "to_base64",
        deserialize_with = "from_base64"
    )]
    head: Vec<u8>,
    /// How much of the media is left out at its beginning.
    #[serde(default)]
    skip: u64,
    /// The length of the media.
    #[serde(default)]
    media: u64,
}

impl Composition {
    /// The media as it is.
    pub(super) fn whole(media: u64) -> Self {
        Self {
            media,
            ..Self::default()
        }
    }

    /// A message without media.
    pub(super) fn text(head: Vec<u8>) -> Self {
        Self {
            head,
            ..Self::default()
        }
    }

    /// The media with `head` in place of its first `skip` bytes.
    pub(super) fn new(head: Vec<u8>, skip: usize, media: u64) -> Self {
        Self {
            head,
            skip: (skip as u64).min(media),
            media,
        }
    }

    /// Whether the message is the media, byte for byte.
    pub(super) fn is_whole(&self) -> bool {
        self.head.is_empty() && self.skip == 0
    }

    /// The length of the message in bytes.
    pub(super) fn length(&self) -> u64 {
        self.head.len() as u64 + self.media - self.skip
    }

    /// The whole message, given the whole media.
    pub(super) fn compose(&self, media: &[u8]) -> Vec<u8> {
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        let rest = media.get(skip..).unwrap_or_default();
        [&self.head, rest].concat()
    }

    /// A range of the message; what lies behind its end is left out.
    pub(super) async fn read(
        &self,
        lookup: StoreReader<'_>,
        media: Option<&Media>,
        range: Range<u64>,
    ) -> Result<Vec<u8>, Rejection> {
        let (head, rest) = self.split(range);
        let mut bytes = self.head[head].to_vec();
        if let Some(media) = media.filter(|_| !rest.is_empty()) {
            bytes.extend_from_slice(&lookup.media(media).read(rest).await?);
        }
        Ok(bytes)
    }

    /// A range of the message as a range of the head and one of the media.
    fn split(&self, range: Range<u64>) -> (Range<usize>, Range<u64>) {
        let end = range.end.min(self.length());
        let start = range.start.min(end);
        let head = self.head.len();
        let in_head = |at: u64| usize::try_from(at).map_or(head, |at| at.min(head));
        let in_media = |at: u64| at.saturating_sub(head as u64) + self.skip;
        (in_head(start)..in_head(end), in_media(start)..in_media(end))
    }
}

fn to_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn from_base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_message_are_those_of_its_bytes() {
        let media = b"bcc: x\nto: y\n\nbody";
        let composed = Composition::new(b"from: z\n".to_vec(), 7, media.len() as u64);
        let whole = composed.compose(media);
        assert_eq!(whole, b"from: z\nto: y\n\nbody");
        assert_eq!(composed.length(), whole.len() as u64);
        let length = whole.len();
        for start in 0..=length + 2 {
            for end in start..=length + 2 {
                let (head, rest) = composed.split(start as u64..end as u64);
                let rest = usize::try_from(rest.start).unwrap()..usize::try_from(rest.end).unwrap();
                let bytes = [&composed.head[head], &media[rest]].concat();
                let expected = &whole[start.min(length)..end.min(length)];
                assert_eq!(bytes, expected, "{start}..{end}");
            }
        }
    }

    #[test]
    fn a_composition_written_and_read_is_the_same() {
        let composed = Composition::new(vec![0, 255, 10], 3, 10);
        let text = serde_json::to_string(&composed).unwrap();
        assert_eq!(
            serde_json::from_str::<Composition>(&text).unwrap(),
            composed
        );
        assert!(Composition::whole(10).is_whole() && !composed.is_whole());
    }
}
