//! Untrusted ZIP archives: files are unpacked one by one, up to a limit of the caller.
//!
//! No value of an archive is trusted. No memory is reserved by a length in a header, every length
//! is bounded before use, and every entry is unpacked once, with its size and checksum verified.
//! Only the subset that tools for HTML5 assets write is accepted: no encryption, no multi-part
//! archives, no ZIP64, no links, no names that leave the archive. The format is PKWARE's APPNOTE
//! 6.3.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, copy, sink};

use flate2::CrcReader;
use flate2::bufread::DeflateDecoder;
use thiserror::Error;

/// Maximum number of files and folders in an archive.
pub(super) const MAX_ENTRIES: u16 = 1000;

/// Longest central directory, in bytes.
const MAX_DIRECTORY_LEN: u32 = 1024 * 1024;

/// Maximum number of bytes that an archive may unpack to.
const MAX_UNPACKED: u64 = 128 * 1024 * 1024;

/// A file that unpacks to more than this many times its packed size, and is not small, is a bomb.
const MAX_RATIO: u64 = 200;

/// Unpacked size in bytes up to which the ratio is not checked: a small file may well be one
/// repeated letter.
const SMALL: u64 = 1024 * 1024;

/// The record at the very end, without its comment.
const END: usize = 22;

/// A header in the list, without name, extra field and comment.
const HEADER: usize = 46;

/// Longest name, in bytes.
const MAX_NAME_LEN: usize = 255;

/// Why an archive is refused.
#[derive(Debug, Error)]
pub(super) enum ArchiveError {
    /// There is no end record, or it does not lead to a list of entries.
    #[error("the ZIP archive has no list of its files")]
    NoDirectory,
    /// It is multi-part or ZIP64.
    #[error("the ZIP archive is in parts or in the ZIP64 format; an asset is in one plain archive")]
    NotPlain,
    /// More entries than [`MAX_ENTRIES`].
    #[error("the ZIP archive has {entries} files; at most {MAX_ENTRIES} are taken")]
    TooManyEntries {
        /// Their number.
        entries: u16,
    },
    /// A longer list than [`MAX_DIRECTORY_LEN`].
    #[error("the names in the ZIP archive are too long")]
    DirectoryTooLong,
    /// A name that is invalid or leaves the archive.
    #[error("the ZIP archive has a file with an unsafe name: {name:?}")]
    UnsafeName {
        /// The name.
        name: String,
    },
    /// An entry that is damaged or not supported.
    #[error("the file {name:?} in the ZIP archive {problem}")]
    Unacceptable {
        /// Its name.
        name: String,
        /// Why.
        problem: &'static str,
    },
    /// More bytes than [`MAX_UNPACKED`].
    #[error("the ZIP archive unpacks to more than {MAX_UNPACKED} bytes")]
    TooLarge,
    /// An entry beyond [`MAX_RATIO`].
    #[error("the file {name:?} in the ZIP archive unpacks to {MAX_RATIO} times its size or more")]
    Bomb {
        /// Its name.
        name: String,
    },
    /// The bytes could not be read.
    #[error("the ZIP archive is damaged: {0}")]
    Io(#[from] io::Error),
}

/// An open archive.
#[derive(Debug)]
pub(super) struct Archive<R> {
    reader: R,
    entries: Vec<Entry>,
}

impl<R: Read + Seek> Archive<R> {
    /// Reads the list of entries and refuses archives that must not be unpacked.
    pub(super) fn open(mut reader: R) -> Result<Self, ArchiveError> {
        let entries = read_directory(&mut reader)?;
        let length = reader.seek(SeekFrom::End(0))?;
        check_sizes(&entries, length)?;
        Ok(Self { reader, entries })
    }

    /// Returns the files, in the order of the list.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Unpacks an entry to its end and returns its first `keep` bytes.
    pub(super) fn unpack(&mut self, index: usize, keep: u64) -> Result<Vec<u8>, ArchiveError> {
        let entry = &self.entries[index];
        entry.go_to_data(&mut self.reader)?;
        let packed = BufReader::new(self.reader.by_ref().take(entry.packed));
        match entry.compression {
            Compression::Stored => entry.drain(packed, keep),
            Compression::Deflated => entry.drain(BufReader::new(DeflateDecoder::new(packed)), keep),
        }
    }
}

impl Entry {
    fn drain(&self, unpacked: impl BufRead, keep: u64) -> Result<Vec<u8>, ArchiveError> {
        let mut bytes = Vec::new();
        // Reading one byte more than stated detects a longer entry.
        let mut checked = CrcReader::new(unpacked.take(self.unpacked + 1));
        checked.by_ref().take(keep).read_to_end(&mut bytes)?;
        let length = bytes.len() as u64 + copy(&mut checked, &mut sink())?;
        if length != self.unpacked {
            return Err(self.unacceptable("is not as long as it is said to be"));
        }
        if checked.crc().sum() != self.crc32 {
            return Err(self.unacceptable("has a wrong checksum"));
        }
        Ok(bytes)
    }

    /// Seeks to the data of the entry, after its local header. The length of the local header can
    /// differ from the central one.
    fn go_to_data(&self, reader: &mut (impl Read + Seek)) -> Result<(), ArchiveError> {
        let mut header = [0; 30];
        reader.seek(SeekFrom::Start(self.header_at))?;
        reader.read_exact(&mut header)?;
        if header[..4] != *b"PK\x03\x04" {
            return Err(self.unacceptable("is not where it is said to be"));
        }
        let length = |at: usize| i64::from(u16::from_le_bytes([header[at], header[at + 1]]));
        reader.seek(SeekFrom::Current(length(26) + length(28)))?;
        Ok(())
    }

    fn unacceptable(&self, problem: &'static str) -> ArchiveError {
        ArchiveError::Unacceptable {
            name: self.name.clone(),
            problem,
        }
    }
}

fn check_sizes(entries: &[Entry], length: u64) -> Result<(), ArchiveError> {
    // Overlapping entries could expand to many times the archive.
    if entries.iter().map(|entry| entry.packed).sum::<u64>() > length {
        return Err(ArchiveError::TooLarge);
    }
    // The sum of at most MAX_ENTRIES numbers of 32 bits cannot overflow.
    if entries.iter().map(|entry| entry.unpacked).sum::<u64>() > MAX_UNPACKED {
        return Err(ArchiveError::TooLarge);
    }
    let is_bomb = |entry: &&Entry| {
        entry.unpacked > SMALL && entry.unpacked / MAX_RATIO >= entry.packed.max(1)
    };
    match entries.iter().find(is_bomb) {
        None => Ok(()),
        Some(bomb) => Err(ArchiveError::Bomb {
            name: bomb.name.clone(),
        }),
    }
}

/// A file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its name, with slashes.
    pub(super) name: String,
    /// Its unpacked length in bytes, as the directory states it.
    pub(super) unpacked: u64,
    pub(super) packed: u64,
    pub(super) compression: Compression,
    pub(super) crc32: u32,
    pub(super) header_at: u64,
}

/// Compression method of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Stored,
    Deflated,
}

/// Returns the entries that are files. Folders are left out.
fn read_directory(reader: &mut (impl Read + Seek)) -> Result<Vec<Entry>, ArchiveError> {
    let end = end_record(reader)?;
    let entries = number16(&end, 10);
    let length = number32(&end, 12);
    let start = number32(&end, 16);
    if entries == u16::MAX || length == u32::MAX || start == u32::MAX {
        return Err(ArchiveError::NotPlain);
    }
    if (number16(&end, 4), number16(&end, 6), number16(&end, 8)) != (0, 0, entries) {
        return Err(ArchiveError::NotPlain);
    }
    if entries > MAX_ENTRIES {
        return Err(ArchiveError::TooManyEntries { entries });
    }
    if length > MAX_DIRECTORY_LEN {
        return Err(ArchiveError::DirectoryTooLong);
    }
    let mut list = Vec::new();
    reader.seek(SeekFrom::Start(start.into()))?;
    reader.take(length.into()).read_to_end(&mut list)?;
    parse(&list, entries)
}

/// Returns the end record: the record with a comment that ends at the end of the archive.
fn end_record(reader: &mut (impl Read + Seek)) -> Result<[u8; END], ArchiveError> {
    let length = reader.seek(SeekFrom::End(0))?;
    let from = length.saturating_sub(END as u64 + u64::from(u16::MAX));
    let mut tail = Vec::new();
    reader.seek(SeekFrom::Start(from))?;
    reader.read_to_end(&mut tail)?;
    let mut records = tail.windows(END).enumerate().rev();
    let found = records.find(|(at, record)| {
        let comment = usize::from(number16(record, 20));
        record.starts_with(b"PK\x05\x06") && at + END + comment == tail.len()
    });
    let record = found.and_then(|(_, record)| record.try_into().ok());
    record.ok_or(ArchiveError::NoDirectory)
}

fn parse(mut list: &[u8], entries: u16) -> Result<Vec<Entry>, ArchiveError> {
    let mut files = Vec::new();
    for _ in 0..entries {
        let (header, rest) = list
            .split_at_checked(HEADER)
            .ok_or(ArchiveError::NoDirectory)?;
        if !header.starts_with(b"PK\x01\x02") {
            return Err(ArchiveError::NoDirectory);
        }
        let length = |at: usize| usize::from(number16(header, at));
        let name = rest.get(..length(28)).ok_or(ArchiveError::NoDirectory)?;
        let next = length(28) + length(30) + length(32);
        list = rest.get(next..).ok_or(ArchiveError::NoDirectory)?;
        let name = safe_name(name)?;
        if !name.ends_with('/') {
            files.push(entry(header, name)?);
        }
    }
    Ok(files)
}

fn entry(header: &[u8], name: String) -> Result<Entry, ArchiveError> {
    let flags = number16(header, 8);
    let mode = number32(header, 38) >> 16;
    let compression = match number16(header, 10) {
        0 => Ok(Compression::Stored),
        8 => Ok(Compression::Deflated),
        _ => Err("is packed in a way that is not taken"),
    };
    let checked = if flags & 1 != 0 {
        Err("is encrypted")
    } else if mode & 0o170_000 == 0o120_000 {
        Err("is a link")
    } else {
        compression
    };
    match checked {
        Err(problem) => Err(ArchiveError::Unacceptable { name, problem }),
        Ok(compression) => Ok(Entry {
            compression,
            crc32: number32(header, 16),
            packed: number32(header, 20).into(),
            unpacked: number32(header, 24).into(),
            header_at: number32(header, 42).into(),
            name,
        }),
    }
}

/// Returns a name that stays inside the directory in which it is unpacked.
fn safe_name(bytes: &[u8]) -> Result<String, ArchiveError> {
    let name = String::from_utf8_lossy(bytes).into_owned();
    let odd = |letter: char| letter.is_control() || matches!(letter, '\\' | ':');
    let leads_away = |part: &str| matches!(part, ".." | ".");
    let unsafe_name = name.is_empty()
        || name.starts_with('/')
        || name.contains(odd)
        || name.split('/').any(leads_away);
    if !unsafe_name && bytes.len() <= MAX_NAME_LEN {
        return Ok(name);
    }
    let name = name.chars().take(MAX_NAME_LEN).collect();
    Err(ArchiveError::UnsafeName { name })
}

fn number16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn number32(bytes: &[u8], at: usize) -> u32 {
    u32::from(number16(bytes, at)) | u32::from(number16(bytes, at + 2)) << 16
}

#[cfg(test)]
mod tests;
