//! From uploaded media to a parsed message that can be filed.
//!
//! The bytes of a message may differ from the uploaded media: a sent message gets the header fields
//! that its author left out, and its recipients do not see `Bcc`. All variants share the media. A
//! variant is a [`Composition`]: a new beginning, kept in the row, and the offset from which the
//! media follows.

use std::ops::Range;

use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use windlass_rest::handler::{Embedded, Rejection, StoreReader, Uploaded};
use windlass_store::Media;

use super::invalid;
use super::mime::{self, DefaultHeaders, Malformed, Structure, Summary};

/// Media type of a message that was embedded in JSON.
const MESSAGE: &str = "message/rfc822";

/// A parsed message, ready to be filed.
#[derive(Debug, Clone)]
pub(super) struct ParsedMessage {
    pub(super) structure: Structure,
    pub(super) summary: Summary,
    pub(super) composition: Composition,
    /// The uploaded media; `None` if the composition holds the whole message.
    pub(super) media: Option<Media>,
}

/// A message to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The copy of the sender.
    pub(super) own: ParsedMessage,
    /// The copy for all recipients, without `Bcc`; `None` if it equals the sender's copy.
    pub(super) others: Option<ParsedMessage>,
}

impl Outgoing {
    pub(super) fn for_others(&self) -> &ParsedMessage {
        self.others.as_ref().unwrap_or(&self.own)
    }
}

impl ParsedMessage {
    /// Parses the media unchanged.
    pub(super) async fn open(uploaded: Uploaded) -> Result<Self, Rejection> {
        let raw = uploaded.source.read(0..u64::MAX).await?;
        let media = uploaded.media;
        off_the_runtime(move || {
            let composition = Composition::whole(media.length);
            Self::read(&raw, composition, Some(media))
        })
        .await
    }

    /// Parses a message that this server has generated.
    pub(super) fn written(text: Vec<u8>) -> Result<Self, Malformed> {
        let structure = mime::parse(&text)?;
        Ok(Self {
            summary: structure.summary(&text),
            structure,
            composition: Composition::text(text),
            media: None,
        })
    }

    fn read(raw: &[u8], composition: Composition, media: Option<Media>) -> Result<Self, Malformed> {
        let composed = (!composition.is_whole()).then(|| composition.compose(raw));
        let raw = composed.as_deref().unwrap_or(raw);
        let structure = mime::parse(raw)?;
        Ok(Self {
            summary: structure.summary(raw),
            structure,
            composition,
            media,
        })
    }
}

impl Outgoing {
    /// Parses the media with the header fields that it lacks, and the copy for recipients without
    /// `Bcc`.
    pub(super) async fn open(
        uploaded: Uploaded,
        defaults: DefaultHeaders,
    ) -> Result<Self, Rejection> {
        // Adding header fields copies the message. No memory of replies is taken for it: slow
        // readers hold that, and other calls wait for this one.
        let raw = uploaded.source.read_for_copies(0..u64::MAX, 1).await?;
        let media = uploaded.media;
        off_the_runtime(move || Self::read(&raw, &media, &defaults)).await
    }

    fn read(raw: &[u8], media: &Media, defaults: &DefaultHeaders) -> Result<Self, Malformed> {
        // Checked before header fields are added, which would make a message of anything.
        mime::parse(raw)?;
        let missing = mime::missing_headers(raw, defaults);
        let header = header(raw);
        let shown = mime::without_bcc(header);
        let others = (shown.len() < header.len()).then(|| {
            let head = [&missing[..], &shown].concat();
            Composition::new(head, header.len(), media.length)
        });
        let own = Composition::new(missing, 0, media.length);
        let read = |composition| ParsedMessage::read(raw, composition, Some(media.clone()));
        Ok(Self {
            own: read(own)?,
            others: others.map(read).transpose()?,
        })
    }
}

/// Runs `read` on a blocking thread: parsing a large message would delay other tasks of the
/// runtime.
async fn off_the_runtime<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, Malformed> + Send + 'static,
) -> Result<T, Rejection> {
    match tokio::task::spawn_blocking(read).await {
        Ok(parsed) => parsed.map_err(|malformed| invalid(malformed.to_string())),
        Err(stopped) => match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Rejection::Busy),
        },
    }
}

/// Returns the message up to its first empty line, or all of it.
fn header(raw: &[u8]) -> &[u8] {
    let ends = memchr::memchr_iter(b'\n', raw);
    let mut starts = ends.map(|end| end + 1);
    let is_empty = |start: &usize| matches!(raw[*start..], [b'\n', ..] | [b'\r', b'\n', ..]);
    &raw[..starts.find(is_empty).unwrap_or(raw.len())]
}

/// Takes the message from the JSON of a method; see
/// `windlass_rest::handler::ApiHandler::embedded`.
pub(super) fn embedded(fields: &mut Map<String, Value>) -> Result<Option<Embedded>, Rejection> {
    let raw = match fields.shift_remove("raw") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(raw)) => raw,
        Some(_) => return Err(invalid("raw must be a string")),
    };
    let decoded = URL_SAFE_LENIENT
        .decode(&raw)
        .or_else(|_| STANDARD_LENIENT.decode(&raw));
    let bytes = decoded.map_err(|_| invalid("raw must be a message in base64url"))?;
    Ok(Some(Embedded {
        bytes: Bytes::from(bytes),
        content_type: MESSAGE.to_owned(),
    }))
}

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

/// Base64url with or without padding, as clients send either.
const URL_SAFE_LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Standard base64, which some clients send and Gmail accepts.
const STANDARD_LENIENT: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);

/// The bytes of a message: `head`, then the media from offset `skip`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Composition {
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "to_base64",
        deserialize_with = "from_base64"
    )]
    head: Vec<u8>,
    /// Number of bytes that are omitted at the beginning of the media.
    #[serde(default)]
    skip: u64,
    /// The length of the media.
    #[serde(default)]
    media: u64,
}

impl Composition {
    /// Returns the composition of the unchanged media of this length.
    pub(super) fn whole(media: u64) -> Self {
        Self {
            media,
            ..Self::default()
        }
    }

    /// Returns the composition of a message without media.
    pub(super) fn text(head: Vec<u8>) -> Self {
        Self {
            head,
            ..Self::default()
        }
    }

    /// Returns the composition of `head` and the media without its first `skip` bytes. `media` is
    /// the media's length.
    pub(super) fn new(head: Vec<u8>, skip: usize, media: u64) -> Self {
        Self {
            head,
            skip: (skip as u64).min(media),
            media,
        }
    }

    /// Returns whether the message is the media, byte for byte.
    pub(super) fn is_whole(&self) -> bool {
        self.head.is_empty() && self.skip == 0
    }

    /// Returns the length of the message in bytes.
    pub(super) fn length(&self) -> u64 {
        self.head.len() as u64 + self.media - self.skip
    }

    /// Returns the whole message, given the whole media.
    pub(super) fn compose(&self, media: &[u8]) -> Vec<u8> {
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        let rest = media.get(skip..).unwrap_or_default();
        [&self.head, rest].concat()
    }

    /// Reads a range of the message, cut at its end.
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

    /// Splits a range of the message into one of the head and one of the media.
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
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    use serde_json::json;

    use super::*;
    fn taken(raw: &Value) -> Result<Option<Embedded>, Rejection> {
        let Value::Object(mut fields) = json!({"threadId": "1", "raw": raw}) else {
            unreachable!("it is written as one")
        };
        let taken = embedded(&mut fields);
        assert_eq!(Value::from(fields), json!({"threadId": "1"}));
        taken
    }

    #[test]
    fn raw_is_base64_of_either_alphabet_with_or_without_padding() {
        let bytes = b"\xfb\xef\xbe?";
        let all = [
            URL_SAFE.encode(bytes),
            URL_SAFE.encode(bytes).trim_end_matches('=').to_owned(),
            STANDARD.encode(bytes),
        ];
        for text in all {
            let embedded = taken(&text.clone().into()).unwrap().unwrap();
            assert_eq!(&embedded.bytes[..], bytes, "{text}");
            assert_eq!(embedded.content_type, "message/rfc822");
        }
        assert!(taken(&Value::Null).unwrap().is_none());
        for wrong in [json!("not base64!"), json!(1), json!(["x"])] {
            assert!(matches!(
                taken(&wrong),
                Err(Rejection::InvalidArgument { .. })
            ));
        }
    }

    #[test]
    fn header_ends_at_the_first_empty_line() {
        for (raw, expected) in [
            ("a: b\r\nc: d\r\n\r\nbody\r\n\r\n", "a: b\r\nc: d\r\n"),
            ("a: b\n\nbody", "a: b\n"),
            ("a: b\r\n", "a: b\r\n"),
            ("", ""),
        ] {
            assert_eq!(header(raw.as_bytes()), expected.as_bytes(), "{raw:?}");
        }
    }

    #[test]
    fn range_of_composition_equals_range_of_its_bytes() {
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
    fn composition_round_trips_through_json() {
        let composed = Composition::new(vec![0, 255, 10], 3, 10);
        let text = serde_json::to_string(&composed).unwrap();
        assert_eq!(
            serde_json::from_str::<Composition>(&text).unwrap(),
            composed
        );
        assert!(Composition::whole(10).is_whole() && !composed.is_whole());
    }
}
