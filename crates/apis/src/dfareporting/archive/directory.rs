//! The list of entries at the end of an archive.

use std::io::{Read, Seek, SeekFrom};

use super::{ArchiveError, LONGEST_DIRECTORY, MOST_ENTRIES};

/// The record at the very end, without its comment.
const END: usize = 22;

/// A header in the list, without name, extra field and comment.
const HEADER: usize = 46;

/// The longest name, in bytes.
const LONGEST_NAME: usize = 255;

/// A file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Entry {
    /// Its name, with slashes.
    pub(in super::super) name: String,
    /// Its length in bytes, as the list has it.
    pub(in super::super) unpacked: u64,
    pub(super) packed: u64,
    pub(super) packing: Packing,
    pub(super) crc32: u32,
    pub(super) header_at: u64,
}

/// How an entry is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Stored,
    Deflated,
}

/// The entries that are files. Folders are left out.
pub(super) fn read(reader: &mut (impl Read + Seek)) -> Result<Vec<Entry>, ArchiveError> {
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
    if entries > MOST_ENTRIES {
        return Err(ArchiveError::TooManyEntries { entries });
    }
    if length > LONGEST_DIRECTORY {
        return Err(ArchiveError::DirectoryTooLong);
    }
    let mut list = Vec::new();
    reader.seek(SeekFrom::Start(start.into()))?;
    reader.take(length.into()).read_to_end(&mut list)?;
    parse(&list, entries)
}

/// The record whose comment ends where the archive ends.
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
    let packing = match number16(header, 10) {
        0 => Ok(Packing::Stored),
        8 => Ok(Packing::Deflated),
        _ => Err("is packed in a way that is not taken"),
    };
    let checked = if flags & 1 != 0 {
        Err("is encrypted")
    } else if mode & 0o170_000 == 0o120_000 {
        Err("is a link")
    } else {
        packing
    };
    match checked {
        Err(problem) => Err(ArchiveError::Unacceptable { name, problem }),
        Ok(packing) => Ok(Entry {
            packing,
            crc32: number32(header, 16),
            packed: number32(header, 20).into(),
            unpacked: number32(header, 24).into(),
            header_at: number32(header, 42).into(),
            name,
        }),
    }
}

/// A name that stays inside of the archive wherever it is unpacked.
fn safe_name(bytes: &[u8]) -> Result<String, ArchiveError> {
    let name = String::from_utf8_lossy(bytes).into_owned();
    let odd = |letter: char| letter.is_control() || matches!(letter, '\\' | ':');
    let leads_away = |part: &str| matches!(part, ".." | ".");
    let unsafe_name = name.is_empty()
        || name.starts_with('/')
        || name.contains(odd)
        || name.split('/').any(leads_away);
    if !unsafe_name && bytes.len() <= LONGEST_NAME {
        return Ok(name);
    }
    let name = name.chars().take(LONGEST_NAME).collect();
    Err(ArchiveError::UnsafeName { name })
}

fn number16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn number32(bytes: &[u8], at: usize) -> u32 {
    u32::from(number16(bytes, at)) | u32::from(number16(bytes, at + 2)) << 16
}
