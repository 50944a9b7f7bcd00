//! Uploads of one request: simple, multipart, and embedded in JSON. Their start request is their only
//! request.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use windlass_digest::ExpectedDigests;
use windlass_engine::{
    Error as EngineError, MediaLength, MediaStream, UploadContext as _, WholeMedia,
};
use windlass_proto::command::{BodyLength, MultipartHead, SimpleHead};
use windlass_proto::expected_digests;
use windlass_proto::metadata::{MetadataLimits, parse_metadata};
use windlass_proto::related::{
    Piece as BodyPiece, RelatedError, RelatedLimits, Splitter, ThirdPart,
};
use windlass_rest::handler::Embedded;
use windlass_rest::registry::ServedMethod;

use super::final_reply::FinalReply;
use super::start_request::{StartRequest, UploadHead};
use crate::body::RequestBody;
use crate::error::Error;
use crate::state::ServerState;

/// Carries out a simple upload. Its body is the media.
pub(crate) async fn simple(
    server: &Arc<ServerState>,
    head: &UploadHead<'_>,
    simple: SimpleHead,
    mut body: RequestBody,
) -> Result<FinalReply, Error> {
    let start_request = head.with_body(&Map::new(), simple.content_type, simple.expected)?;
    body.set_held_bytes(start_request.memory() as u64)?;
    let length = match simple.length {
        BodyLength::Exact(length) => MediaLength::Exact(length),
        BodyLength::Unknown => MediaLength::Unknown { at_most: 0 },
    };
    Ok(server.engine.upload(start_request, length, body).await?)
}

/// Carries out a multipart upload. Its body holds metadata and media.
pub(crate) async fn multipart(
    server: &Arc<ServerState>,
    head: &UploadHead<'_>,
    multipart: MultipartHead,
    mut body: RequestBody,
) -> Result<FinalReply, Error> {
    // Checked here too, because the engine checks it only after the metadata has been read.
    server.engine.admit_upload()?;
    let json_limits = server.settings.limits.json();
    let limits = RelatedLimits::default()
        .with_metadata(server.settings.limits.metadata)
        .with_part_headers(server.settings.limits.part_headers);
    let mut splitter = Splitter::new(multipart.boundary, limits, third_part(head.method));
    let mut prelude = MultipartPrelude::default();
    let mut received = 0;
    while !prelude.media_begun {
        let next = server.engine.next_or_drained(&mut body);
        let data = next.await?.ok_or(RelatedError::NoFinalBoundary)?;
        // Counted as they arrive: they stay in memory until the media begins, and a client may
        // pause before that.
        received += data.len() as u64;
        body.set_held_bytes(received)?;
        prelude.read(&mut splitter, data)?;
    }
    // While the metadata is parsed, its text and the parsed values are in memory. Afterwards only
    // the start request is.
    body.set_held_json(&prelude.metadata)?;
    let start_request = prelude.start_request(head, json_limits, multipart.expected)?;
    drop(std::mem::take(&mut prelude.metadata));
    body.set_held_bytes(start_request.memory() as u64)?;
    // The rest of the body is media, except for a few bytes of delimiters.
    let rest = body.declared_len().map(|all| all.saturating_sub(received));
    let at_most = rest.map_or(0, |rest| prelude.media_len() + rest);
    prelude.media.reverse();
    let media = MultipartMedia {
        pieces: prelude.media,
        splitter: Some(splitter),
        body,
        json_limits,
    };
    let length = MediaLength::Unknown { at_most };
    Ok(server.engine.upload(start_request, length, media).await?)
}

/// Carries out an upload of media that was a base64 field of a JSON body.
pub(crate) async fn embedded(
    server: &Arc<ServerState>,
    head: &UploadHead<'_>,
    metadata: &Map<String, Value>,
    embedded: Embedded,
) -> Result<FinalReply, Error> {
    let Embedded {
        bytes,
        content_type,
    } = embedded;
    let start_request = head.with_body(metadata, Some(content_type), ExpectedDigests::default())?;
    start_request.check_metadata(server.settings.limits.metadata)?;
    let length = MediaLength::Exact(bytes.len() as u64);
    let media = HeldMedia(Some(bytes));
    Ok(server.engine.upload(start_request, length, media).await?)
}

/// Media that is in memory.
struct HeldMedia(Option<Bytes>);

impl MediaStream for HeldMedia {
    async fn next(&mut self) -> Result<Option<Bytes>, EngineError> {
        Ok(self.0.take().filter(|bytes| !bytes.is_empty()))
    }

    fn is_at_end(&self) -> bool {
        self.0.is_none()
    }
}

impl WholeMedia for HeldMedia {}

/// The media of a multipart body.
struct MultipartMedia {
    /// The pieces that have been read, the last one first. The memory is used for each read.
    pieces: Vec<BodyPiece>,
    /// `None` at the end of the body.
    splitter: Option<Splitter>,
    body: RequestBody,
    /// Limits on checksums after the media.
    json_limits: MetadataLimits,
}

impl MediaStream for MultipartMedia {
    async fn next(&mut self) -> Result<Option<Bytes>, EngineError> {
        loop {
            while let Some(piece) = self.pieces.pop() {
                if let BodyPiece::Media(data) = piece {
                    return Ok(Some(data));
                }
            }
            let next = self.body.next().await?;
            let (Some(data), Some(splitter)) = (next, &mut self.splitter) else {
                return Ok(None);
            };
            splitter.push(data, &mut self.pieces).map_err(Error::from)?;
            self.pieces.reverse();
        }
    }

    fn is_at_end(&self) -> bool {
        self.body.is_at_end()
    }
}

impl WholeMedia for MultipartMedia {
    fn end(&mut self) -> Result<ExpectedDigests, EngineError> {
        Ok(self.checksums()?)
    }
}

impl MultipartMedia {
    /// Returns the checksums in the part after the media, if there is one.
    fn checksums(&mut self) -> Result<ExpectedDigests, Error> {
        let splitter = self.splitter.take();
        let checksums = match splitter {
            Some(splitter) => splitter.finish()?,
            None => None,
        };
        let Some(checksums) = checksums else {
            return Ok(ExpectedDigests::default());
        };
        let metadata = parse_metadata(&checksums, self.json_limits)?;
        Ok(expected_digests::from_metadata(&metadata)?)
    }
}

/// Returns how the API treats a third part, after the media part.
fn third_part(method: ServedMethod<'_>) -> ThirdPart {
    if method.served.api.settings().checksum_part {
        ThirdPart::Checksums
    } else {
        ThirdPart::Refused
    }
}

/// A multipart body up to the beginning of its media.
#[derive(Default)]
struct MultipartPrelude {
    /// The metadata as text.
    metadata: Vec<u8>,
    /// Whether the media has begun.
    media_begun: bool,
    /// Media type that the media part states.
    content_type: Option<String>,
    /// The first pieces of the media, which came in the same read as the end of the metadata.
    media: Vec<BodyPiece>,
}

impl MultipartPrelude {
    /// Reads the next bytes of the body.
    fn read(&mut self, splitter: &mut Splitter, data: Bytes) -> Result<(), Error> {
        let mut pieces = Vec::new();
        splitter.push(data, &mut pieces)?;
        for piece in pieces {
            match piece {
                BodyPiece::Metadata(metadata) => self.metadata = metadata,
                BodyPiece::MediaStart { content_type } => {
                    self.media_begun = true;
                    self.content_type = content_type;
                }
                piece => self.media.push(piece),
            }
        }
        Ok(())
    }

    /// Number of bytes of the media that have been read.
    fn media_len(&self) -> u64 {
        let len = |piece: &BodyPiece| match piece {
            BodyPiece::Media(data) => data.len() as u64,
            _ => 0,
        };
        self.media.iter().map(len).sum()
    }

    fn start_request(
        &mut self,
        head: &UploadHead<'_>,
        limits: MetadataLimits,
        expected_digests: ExpectedDigests,
    ) -> Result<StartRequest, Error> {
        let metadata = parse_metadata(&self.metadata, limits)?;
        head.with_body(&metadata, self.content_type.take(), expected_digests)
    }
}
