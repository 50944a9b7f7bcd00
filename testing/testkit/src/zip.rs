//! ZIP archives, with true or false headers.

use std::io::Write as _;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// One file on its way into an archive, with the values of its headers, true or not.
#[derive(Debug, Clone)]
pub struct Packed {
    /// Its name.
    pub name: Vec<u8>,
    /// Its packed bytes.
    pub data: Vec<u8>,
    /// Bit 0 means that it is encrypted.
    pub flags: u16,
    /// 0 is stored, 8 is deflated.
    pub method: u16,
    /// The checksum of the unpacked bytes.
    pub crc32: u32,
    /// The length of the unpacked bytes.
    pub unpacked: u32,
    /// The mode of the file on Unix.
    pub mode: u32,
}

impl Packed {
    /// A deflated file that says the truth.
    pub fn new(name: &str, text: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).expect("memory takes it");
        let mut crc = Crc::new();
        crc.update(text);
        Self {
            name: name.as_bytes().to_vec(),
            data: encoder.finish().expect("memory takes it"),
            flags: 0,
            method: 8,
            crc32: crc.sum(),
            unpacked: u32::try_from(text.len()).expect("it is short"),
            mode: 0o100_644,
        }
    }

    fn sizes(&self) -> [u8; 12] {
        let packed = u32::try_from(self.data.len()).expect("it is short");
        let sizes = [self.crc32, packed, self.unpacked].map(u32::to_le_bytes);
        sizes.concat().try_into().expect("three times four bytes")
    }

    fn start(&self) -> Vec<u8> {
        let words = [20, self.flags, self.method, 0, 0].map(u16::to_le_bytes);
        let name = u16::try_from(self.name.len()).expect("it is short");
        let lengths = [name, 0].map(u16::to_le_bytes).concat();
        [words.concat().as_slice(), &self.sizes(), &lengths].concat()
    }
}

/// An archive of these files.
pub fn zip(files: &[Packed]) -> Vec<u8> {
    let (mut archive, mut list) = (Vec::new(), Vec::new());
    for file in files {
        let at = u32::try_from(archive.len())
            .expect("it is short")
            .to_le_bytes();
        archive.extend(
            [
                b"PK\x03\x04",
                file.start().as_slice(),
                &file.name,
                &file.data,
            ]
            .concat(),
        );
        let mode = (file.mode << 16).to_le_bytes();
        list.extend([b"PK\x01\x02\x14\x03", file.start().as_slice(), &[0; 6]].concat());
        list.extend([mode.as_slice(), &at, &file.name].concat());
    }
    let entries = u16::try_from(files.len()).expect("it is short");
    let end = end(entries, list.len(), archive.len());
    [archive, list, end].concat()
}

/// The record that ends an archive: how many entries, how long their list is, and where it begins.
pub fn end(entries: u16, length: usize, start: usize) -> Vec<u8> {
    let counts = [0, 0, entries, entries].map(u16::to_le_bytes).concat();
    let places = [length, start].map(|it| u32::try_from(it).expect("it is short").to_le_bytes());
    [b"PK\x05\x06", counts.as_slice(), &places.concat(), &[0, 0]].concat()
}
