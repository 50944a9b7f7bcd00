//! Images with valid headers and almost no content, and parts for invalid images.

use crc_fast::CrcAlgorithm::Crc32IsoHdlc;

/// The first bytes of a PNG image.
pub const PNG_SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// A PNG image of this size.
pub fn png(width: u32, height: u32) -> Vec<u8> {
    png_with(&png_header(width, height, [8, 6, 0, 0, 0]))
}

/// A PNG image with these bytes in its header.
pub fn png_with(header: &[u8]) -> Vec<u8> {
    [
        PNG_SIGNATURE.to_vec(),
        png_chunk(b"IHDR", header),
        png_chunk(b"tEXt", &[b'x'; 300]),
        png_chunk(b"IDAT", &[0; 40]),
        png_chunk(b"IEND", &[]),
    ]
    .concat()
}

/// The header of a PNG image: its size, then depth, colour, compression, filter and interlace.
pub fn png_header(width: u32, height: u32, coding: [u8; 5]) -> Vec<u8> {
    let size = [width, height].map(u32::to_be_bytes).concat();
    [size.as_slice(), &coding].concat()
}

/// A chunk with its true checksum.
pub fn png_chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let checked = [name.as_slice(), data].concat();
    let crc = crc_fast::checksum(Crc32IsoHdlc, &checked);
    let crc = u32::try_from(crc).expect("it has 32 bits").to_be_bytes();
    let length = u32::try_from(data.len())
        .expect("it is short")
        .to_be_bytes();
    [&length, checked.as_slice(), &crc].concat()
}

/// A JPEG image of this size.
pub fn jpeg(width: u16, height: u16) -> Vec<u8> {
    jpeg_with(&[], &jpeg_frame(0xc0, width, height))
}

/// A JPEG image with these segments, then this frame header, then a scan.
pub fn jpeg_with(segments: &[Vec<u8>], frame: &[u8]) -> Vec<u8> {
    let scan = jpeg_segment(0xda, &[1, 1, 0, 0, 63, 0]);
    let head = [&[0xff, 0xd8], segments.concat().as_slice(), frame].concat();
    [head.as_slice(), &scan, b"data\xff\xd9"].concat()
}

/// A frame header, e.g. with the marker `0xc0` of a baseline image.
pub fn jpeg_frame(marker: u8, width: u16, height: u16) -> Vec<u8> {
    let size = [height, width].map(u16::to_be_bytes).concat();
    let frame = [&[8], size.as_slice(), &[1, 1, 0x11, 0]].concat();
    jpeg_segment(marker, &frame)
}

/// A segment with its true length.
pub fn jpeg_segment(marker: u8, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len() + 2)
        .expect("it is short")
        .to_be_bytes();
    [&[0xff, marker], length.as_slice(), data].concat()
}

/// A GIF image of this size.
pub fn gif(width: u16, height: u16) -> Vec<u8> {
    let size = [width, height].map(u16::to_le_bytes).concat();
    [b"GIF89a", size.as_slice(), &[0, 0, 0, 0x3b]].concat()
}
