//! Encoded bodies: content codings and transfer codings.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

/// `data` as one gzip member.
pub fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data).expect("memory takes all bytes");
    encoder.finish().expect("memory takes all bytes")
}

/// `pieces` in chunked transfer coding, a chunk each, with the terminal chunk. Empty pieces are
/// left out: they would end the body.
pub fn chunked<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut coded = Vec::new();
    for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
        coded.extend_from_slice(&chunk(piece));
    }
    coded.extend_from_slice(b"0\r\n\r\n");
    coded
}

/// One chunk of chunked transfer coding.
pub fn chunk(data: &[u8]) -> Vec<u8> {
    let mut coded = format!("{:x}\r\n", data.len()).into_bytes();
    coded.extend_from_slice(data);
    coded.extend_from_slice(b"\r\n");
    coded
}
