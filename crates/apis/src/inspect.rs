//! Inspection of uploaded media: reads on blocking threads, and the headers of images.
//!
//! Only the header of an image is read: its format and its size in pixels. Image data is not
//! decoded.

use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

use crc_fast::CrcAlgorithm::Crc32IsoHdlc;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use windlass_rest::handler::{BlockingMedia, MediaSource, Rejection};

/// Permits for concurrent inspections, which bound their total memory.
static INSPECTIONS: Semaphore = Semaphore::const_new(8);

/// How long an inspection waits for a permit.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of pixels that an image may have.
pub(crate) const MAX_PIXELS: u64 = 100_000_000;

pub(super) const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// Maximum number of chunks that are skipped. Encoders write a few, or one for every 8 KiB.
const MAX_CHUNKS: usize = 65_536;

/// Maximum number of segments that are skipped. A camera writes a dozen; a colour profile may take
/// 255.
const MAX_SEGMENTS: usize = 4096;

/// Fill bytes that may stand before a marker.
const MAX_FILL: usize = 4096;

/// Runs `inspect` over the media on a blocking thread.
///
/// # Errors
/// [`Rejection::Busy`] if no permit was free within [`TIMEOUT`]; the errors of `inspect`.
pub(crate) async fn inspect<T: Send + 'static>(
    source: &MediaSource,
    inspect: impl FnOnce(BlockingMedia) -> Result<T, Rejection> + Send + 'static,
) -> Result<T, Rejection> {
    let permit = timeout(TIMEOUT, INSPECTIONS.acquire()).await;
    let permit = permit.map_err(|_| Rejection::Busy)?;
    let media = source.blocking();
    // The closure owns the permit: the inspection of a cancelled request continues and must count.
    let inspected = spawn_blocking(move || {
        let _permit = permit;
        inspect(media)
    });
    inspected.await.map_err(|_| Rejection::Busy)?
}

/// Maps a failed read to a rejection: the error of the store, or invalid media.
pub(crate) fn refusal(error: io::Error) -> Rejection {
    match error.downcast::<Rejection>() {
        Ok(rejection) => rejection,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => invalid("it is cut off"),
        Err(error) => invalid(error.to_string()),
    }
}

/// Refuses media.
pub(crate) fn invalid(problem: impl Into<String>) -> Rejection {
    Rejection::InvalidMedia {
        problem: problem.into(),
    }
}

/// The header of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageHeader {
    /// Its format.
    pub(crate) format: Format,
    /// Its width in pixels.
    pub(crate) width: u32,
    /// Its height in pixels.
    pub(crate) height: u32,
}

/// A format of images that can be read here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Png,
    Jpeg,
    Gif,
}

/// Why an image cannot be read.
#[derive(Debug, Error)]
pub(crate) enum ImageHeaderError {
    /// Unknown format.
    #[error("it is not a PNG, JPEG or GIF image")]
    Unknown,
    /// The bytes end before the length that the header promises.
    #[error("the {0} image is cut off")]
    Truncated(Format),
    /// A rule of the format is broken.
    #[error("the {format} image is damaged: {problem}")]
    Damaged {
        /// The format.
        format: Format,
        /// The rule.
        problem: &'static str,
    },
    /// More pixels than [`MAX_PIXELS`].
    #[error("the image has {width} x {height} pixels; at most {MAX_PIXELS} are taken")]
    TooManyPixels {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// The bytes could not be read.
    #[error(transparent)]
    Io(io::Error),
}

impl ImageHeader {
    /// Reads the header of an image from the beginning of the reader.
    pub(crate) fn read(media: &mut (impl Read + Seek)) -> Result<Self, ImageHeaderError> {
        media.rewind().map_err(ImageHeaderError::Io)?;
        let mut head = Vec::new();
        let read = media.by_ref().take(8).read_to_end(&mut head);
        read.map_err(ImageHeaderError::Io)?;
        let format = Format::of(&head).ok_or(ImageHeaderError::Unknown)?;
        media.rewind().map_err(ImageHeaderError::Io)?;
        let (width, height) = match format {
            Format::Png => png_size(media),
            Format::Jpeg => jpeg_size(media),
            Format::Gif => gif_size(media),
        }?;
        let image_header = Self {
            format,
            width,
            height,
        };
        image_header.check_pixels()
    }

    fn check_pixels(self) -> Result<Self, ImageHeaderError> {
        let Self {
            format,
            width,
            height,
        } = self;
        if width == 0 || height == 0 {
            return Err(format.damaged("it has no pixels"));
        }
        if u64::from(width) * u64::from(height) > MAX_PIXELS {
            return Err(ImageHeaderError::TooManyPixels { width, height });
        }
        Ok(self)
    }
}

impl Format {
    /// Returns the format that these first bytes (8 or more) belong to.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        if head.starts_with(&SIGNATURE) {
            Some(Self::Png)
        } else if head.starts_with(&[0xff, 0xd8, 0xff]) {
            Some(Self::Jpeg)
        } else if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") {
            Some(Self::Gif)
        } else {
            None
        }
    }

    /// Returns its media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
        }
    }

    fn damaged(self, problem: &'static str) -> ImageHeaderError {
        ImageHeaderError::Damaged {
            format: self,
            problem,
        }
    }

    /// Fills `buf`. The end of the bytes means that the image is cut off.
    fn read(self, media: &mut impl Read, buf: &mut [u8]) -> Result<(), ImageHeaderError> {
        media.read_exact(buf).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ImageHeaderError::Truncated(self),
            _ => ImageHeaderError::Io(error),
        })
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::Gif => "GIF",
        })
    }
}

/// Checks the header with its checksum, and that data and an end follow.
pub(super) fn png_size(media: &mut (impl Read + Seek)) -> Result<(u32, u32), ImageHeaderError> {
    // The signature, and a first chunk of 13 bytes with length, name and checksum.
    let mut head = [0; 8 + 4 + 4 + 13 + 4];
    Format::Png.read(media, &mut head)?;
    let size = header(&head[8..])?;
    walk(media)?;
    Ok(size)
}

fn header(chunk: &[u8]) -> Result<(u32, u32), ImageHeaderError> {
    if chunk[..8] != *b"\0\0\0\x0dIHDR" {
        return Err(Format::Png.damaged("its first chunk is not a header"));
    }
    let (checked, crc) = chunk[4..].split_at(17);
    if crc_fast::checksum(Crc32IsoHdlc, checked) != u64::from(number(crc)) {
        return Err(Format::Png.damaged("the checksum of its header is wrong"));
    }
    let (width, height) = (number(&chunk[8..12]), number(&chunk[12..16]));
    let [depth, colour, compression, filter, interlace] = [16, 17, 18, 19, 20].map(|at| chunk[at]);
    if !depth_fits(depth, colour) || compression != 0 || filter != 0 || interlace > 1 {
        return Err(Format::Png.damaged("its header names a coding that does not exist"));
    }
    Ok((width, height))
}

/// Table 11.1 of the recommendation.
fn depth_fits(depth: u8, colour: u8) -> bool {
    match colour {
        0 => matches!(depth, 1 | 2 | 4 | 8 | 16),
        3 => matches!(depth, 1 | 2 | 4 | 8),
        2 | 4 | 6 => matches!(depth, 8 | 16),
        _ => false,
    }
}

/// From chunk to chunk to the end. An image that was cut off has none.
fn walk(media: &mut (impl Read + Seek)) -> Result<(), ImageHeaderError> {
    let mut has_data = false;
    for _ in 0..MAX_CHUNKS {
        let mut head = [0; 8];
        Format::Png.read(media, &mut head)?;
        match &head[4..] {
            b"IEND" if has_data => return Ok(()),
            b"IEND" => return Err(Format::Png.damaged("it has no data")),
            b"IDAT" => has_data = true,
            _ => {}
        }
        let rest = i64::from(number(&head[..4])) + 4;
        let skipped = media.seek(SeekFrom::Current(rest));
        skipped.map_err(ImageHeaderError::Io)?;
    }
    Err(Format::Png.damaged("it has too many chunks"))
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// Finds the frame header, wherever it is, and checks that a scan follows.
pub(super) fn jpeg_size(media: &mut (impl Read + Seek)) -> Result<(u32, u32), ImageHeaderError> {
    Format::Jpeg.read(media, &mut [0; 2])?;
    let mut size = None;
    for _ in 0..MAX_SEGMENTS {
        match (marker(media)?, size) {
            // A scan begins. The frame header before it has stated the size.
            (0xda, Some(size)) => return Ok(size),
            (0xda | 0xd9, _) => return Err(Format::Jpeg.damaged("it has no frame header")),
            (marker, None) if is_frame(marker) => size = Some(frame(media)?),
            (marker, Some(_)) if is_frame(marker) => {
                return Err(Format::Jpeg.damaged("it has two frame headers"));
            }
            // Markers without a segment.
            (0x01 | 0xd0..=0xd7, _) => {}
            (0x00 | 0xd8, _) => return Err(Format::Jpeg.damaged("a marker is out of place")),
            _ => skip(media)?,
        }
    }
    Err(Format::Jpeg.damaged("it has too many segments"))
}

/// The markers SOF0 to SOF15. Three of the values between them are other markers.
fn is_frame(marker: u8) -> bool {
    matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc)
}

fn marker(media: &mut impl Read) -> Result<u8, ImageHeaderError> {
    let mut byte = [0];
    Format::Jpeg.read(media, &mut byte)?;
    if byte != [0xff] {
        return Err(Format::Jpeg.damaged("a marker is missing"));
    }
    for _ in 0..MAX_FILL {
        Format::Jpeg.read(media, &mut byte)?;
        if byte != [0xff] {
            return Ok(byte[0]);
        }
    }
    Err(Format::Jpeg.damaged("it has too many fill bytes"))
}

fn frame(media: &mut (impl Read + Seek)) -> Result<(u32, u32), ImageHeaderError> {
    // Length, precision, height, width.
    let mut head = [0; 7];
    Format::Jpeg.read(media, &mut head)?;
    let number = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    skip_rest(media, number(0), 7)?;
    Ok((u32::from(number(5)), u32::from(number(3))))
}

fn skip(media: &mut (impl Read + Seek)) -> Result<(), ImageHeaderError> {
    let mut length = [0; 2];
    Format::Jpeg.read(media, &mut length)?;
    skip_rest(media, u16::from_be_bytes(length), 2)
}

/// Seeks to the end of a segment of this length, of which some bytes are already read.
fn skip_rest(media: &mut impl Seek, length: u16, already: u16) -> Result<(), ImageHeaderError> {
    let rest = length.checked_sub(already);
    let rest = rest.ok_or_else(|| Format::Jpeg.damaged("a segment is too short"))?;
    let skipped = media.seek(SeekFrom::Current(rest.into()));
    skipped.map(drop).map_err(ImageHeaderError::Io)
}

/// Returns the size of the screen that all images of the animation are drawn on.
pub(super) fn gif_size(media: &mut impl Read) -> Result<(u32, u32), ImageHeaderError> {
    // Signature, width, height, flags, background, aspect, and the first byte of the next block.
    let mut head = [0; 14];
    Format::Gif.read(media, &mut head)?;
    let number = |at: usize| u32::from(u16::from_le_bytes([head[at], head[at + 1]]));
    Ok((number(6), number(8)))
}

#[cfg(test)]
mod tests;
