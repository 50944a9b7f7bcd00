//! JPEG, as of ITU-T T.81, annex B: segments up to the first scan.

use std::io::{Read, Seek, SeekFrom};

use super::{Format, ImageHeaderError};

/// More segments than this are not walked over. A camera writes a dozen; a colour profile may take
/// 255.
const MOST_SEGMENTS: usize = 4096;

/// Fill bytes that may stand before a marker.
const MOST_FILL: usize = 4096;

/// Finds the frame header, wherever it is, and checks that a scan follows.
pub(super) fn size(media: &mut (impl Read + Seek)) -> Result<(u32, u32), ImageHeaderError> {
    Format::Jpeg.read(media, &mut [0; 2])?;
    let mut size = None;
    for _ in 0..MOST_SEGMENTS {
        match (marker(media)?, size) {
            // A scan; what the size is has been said before.
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

/// SOF0 to SOF15, in whose midst three others lie.
fn is_frame(marker: u8) -> bool {
    matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc)
}

fn marker(media: &mut impl Read) -> Result<u8, ImageHeaderError> {
    let mut byte = [0];
    Format::Jpeg.read(media, &mut byte)?;
    if byte != [0xff] {
        return Err(Format::Jpeg.damaged("a marker is missing"));
    }
    for _ in 0..MOST_FILL {
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

/// Goes to the end of a segment of this length, of which something is read already.
fn skip_rest(media: &mut impl Seek, length: u16, already: u16) -> Result<(), ImageHeaderError> {
    let rest = length.checked_sub(already);
    let rest = rest.ok_or_else(|| Format::Jpeg.damaged("a segment is too short"))?;
    let skipped = media.seek(SeekFrom::Current(rest.into()));
    skipped.map(drop).map_err(ImageHeaderError::Io)
}
