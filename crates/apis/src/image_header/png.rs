//! PNG, as of the W3C recommendation (third edition), sections 5 and 11.

use std::io::{Read, Seek, SeekFrom};

use crc_fast::CrcAlgorithm::Crc32IsoHdlc;

use super::{Format, ImageHeaderError};

pub(super) const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// More chunks than this are not walked over. Encoders write a few, or one for every 8 KiB.
const MOST_CHUNKS: usize = 65_536;

/// Checks the header with its checksum, and that data and an end follow.
pub(super) fn size(media: &mut (impl Read + Seek)) -> Result<(u32, u32), ImageHeaderError> {
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
    for _ in 0..MOST_CHUNKS {
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
