//! What bytes are, told by how they begin.

use std::fmt;

use memchr::memmem;

use crate::image_header::Format;

/// How many bytes are looked at.
pub(super) const HEAD: u64 = 4096;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// An image whose size can be read.
    Image(Format),
    /// An image of another format.
    OtherImage(&'static str),
    Html,
    Zip,
    Flash,
    /// A video, by media type.
    Video(&'static str),
    /// Sound, by media type.
    Audio(&'static str),
    /// What holds sound alone or a video with it, by the media type that a video of it has.
    Container(&'static str),
    /// A font, by media type.
    Font(&'static str),
    Unknown,
}

/// Bytes at an offset, and what begins with them.
type Signature = (usize, &'static [u8], Content);

/// The more telling come first.
const SIGNATURES: [Signature; 34] = [
    (0, b"PK\x03\x04", Content::Zip),
    // An empty archive.
    (0, b"PK\x05\x06", Content::Zip),
    (8, b"WEBP", Content::OtherImage("image/webp")),
    (8, b"AVI ", Content::Video("video/x-msvideo")),
    (8, b"WAVE", Content::Audio("audio/wav")),
    (4, b"ftypM4A", Content::Audio("audio/mp4")),
    (4, b"ftypM4B", Content::Audio("audio/mp4")),
    (4, b"ftypqt  ", Content::Video("video/quicktime")),
    (4, b"ftyp3g", Content::Container("video/3gpp")),
    (4, b"ftypavif", Content::OtherImage("image/avif")),
    (4, b"ftyphei", Content::OtherImage("image/heic")),
    (4, b"ftyp", Content::Video("video/mp4")),
    (4, b"moov", Content::Video("video/quicktime")),
    (4, b"mdat", Content::Video("video/quicktime")),
    (0, b"\x1a\x45\xdf\xa3", Content::Container("video/webm")),
    // The first page says what the stream is.
    (29, b"theora", Content::Video("video/ogg")),
    (0, b"OggS", Content::Audio("audio/ogg")),
    (
        0,
        b"\x30\x26\xb2\x75\x8e\x66\xcf\x11",
        Content::Container("video/x-ms-wmv"),
    ),
    (0, b"FLV\x01", Content::Video("video/x-flv")),
    (0, b"\0\0\x01\xba", Content::Video("video/mpeg")),
    (0, b"\0\0\x01\xb3", Content::Video("video/mpeg")),
    (0, b"FWS", Content::Flash),
    (0, b"CWS", Content::Flash),
    (0, b"ZWS", Content::Flash),
    (0, b"ID3", Content::Audio("audio/mpeg")),
    (0, b"fLaC", Content::Audio("audio/flac")),
    (0, b"wOFF", Content::Font("font/woff")),
    (0, b"wOF2", Content::Font("font/woff2")),
    (0, b"OTTO", Content::Font("font/otf")),
    (0, b"true\0", Content::Font("font/ttf")),
    (0, b"\0\x01\0\0\0", Content::Font("font/ttf")),
    (0, b"II*\0", Content::OtherImage("image/tiff")),
    (0, b"MM\0*", Content::OtherImage("image/tiff")),
    (0, b"\0\0\x01\0", Content::OtherImage("image/x-icon")),
];

/// What begins an HTML document, or a piece of one, somewhere in its head.
const HTML_WORDS: [&[u8]; 7] = [
    b"<!doctype html",
    b"<html",
    b"<head",
    b"<body",
    b"<script",
    b"<style",
    b"<div",
];

/// The suffixes of files, with what such a file may be.
const SUFFIXES: [(&str, Content); 34] = [
    ("png", Content::Image(Format::Png)),
    ("jpg", Content::Image(Format::Jpeg)),
    ("jpeg", Content::Image(Format::Jpeg)),
    ("gif", Content::Image(Format::Gif)),
    ("html", Content::Html),
    ("htm", Content::Html),
    ("zip", Content::Zip),
    ("adz", Content::Zip),
    ("swf", Content::Flash),
    ("mp4", Content::Video("video/mp4")),
    ("m4v", Content::Video("video/mp4")),
    ("m4a", Content::Audio("audio/mp4")),
    ("mov", Content::Video("video/quicktime")),
    ("mov", Content::Video("video/mp4")),
    ("3gp", Content::Container("video/3gpp")),
    ("webm", Content::Container("video/webm")),
    ("mkv", Content::Container("video/webm")),
    ("ogv", Content::Video("video/ogg")),
    ("ogg", Content::Audio("audio/ogg")),
    ("ogg", Content::Video("video/ogg")),
    ("oga", Content::Audio("audio/ogg")),
    ("opus", Content::Audio("audio/ogg")),
    ("wmv", Content::Container("video/x-ms-wmv")),
    ("asf", Content::Container("video/x-ms-wmv")),
    ("wma", Content::Container("video/x-ms-wmv")),
    ("avi", Content::Video("video/x-msvideo")),
    ("flv", Content::Video("video/x-flv")),
    ("f4v", Content::Video("video/mp4")),
    ("mpg", Content::Video("video/mpeg")),
    ("mpeg", Content::Video("video/mpeg")),
    ("mp3", Content::Audio("audio/mpeg")),
    ("aac", Content::Audio("audio/aac")),
    ("wav", Content::Audio("audio/wav")),
    ("flac", Content::Audio("audio/flac")),
];

impl Content {
    /// What begins like this. [`HEAD`] bytes are enough.
    pub(super) fn of(head: &[u8]) -> Self {
        if let Some(format) = Format::of(head) {
            return Self::Image(format);
        }
        // Text may have any letters at any place, so it goes first.
        if is_html(head) {
            return Self::Html;
        }
        let begins = |(at, bytes, _): &&Signature| {
            let end = at + bytes.len();
            head.get(*at..end) == Some(*bytes)
        };
        if let Some((_, _, content)) = SIGNATURES.iter().find(begins) {
            return *content;
        }
        match head {
            [0xff, second, ..] => Self::of_frame(*second),
            _ => Self::Unknown,
        }
    }

    /// A frame of MPEG audio or of AAC after eleven or twelve set bits.
    fn of_frame(second: u8) -> Self {
        match (second & 0xf6, second & 0xe6) {
            (0xf0, _) => Self::Audio("audio/aac"),
            (_, 0xe2) => Self::Audio("audio/mpeg"),
            _ => Self::Unknown,
        }
    }

    /// The same, knowing the suffix of the file's name: the bytes of some MP4 files do not tell whether
    /// there is more than sound in them.
    pub(super) fn in_file_named(self, suffix: &str) -> Self {
        match self {
            Self::Video("video/mp4") if suffix == "m4a" => Self::Audio("audio/mp4"),
            other => other,
        }
    }

    /// What a file of this suffix may be.
    pub(super) fn named(suffix: &str) -> impl Iterator<Item = Self> {
        let named = SUFFIXES.iter().filter(move |(known, _)| *known == suffix);
        named.map(|(_, content)| *content)
    }

    /// Whether a file of this suffix may be this.
    pub(super) fn is_named(self, suffix: &str) -> bool {
        Self::named(suffix).any(|content| content == self)
    }

    /// Its media type.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Image(format) => format.media_type(),
            Self::Html => "text/html",
            Self::Zip => "application/zip",
            Self::Flash => "application/x-shockwave-flash",
            Self::OtherImage(media_type)
            | Self::Video(media_type)
            | Self::Audio(media_type)
            | Self::Container(media_type)
            | Self::Font(media_type) => media_type,
            Self::Unknown => "application/octet-stream",
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(format) => write!(f, "a {format} image"),
            Self::Html => f.write_str("an HTML document"),
            Self::Zip => f.write_str("a ZIP archive"),
            Self::Flash => f.write_str("a Flash movie"),
            Self::OtherImage(it) => write!(f, "an image ({it})"),
            Self::Video(it) | Self::Container(it) => write!(f, "a video ({it})"),
            Self::Audio(it) => write!(f, "sound ({it})"),
            Self::Font(it) => write!(f, "a font ({it})"),
            Self::Unknown => f.write_str("nothing that is known"),
        }
    }
}

fn is_html(head: &[u8]) -> bool {
    let head = head.to_ascii_lowercase();
    let text = !head.contains(&0);
    text && HTML_WORDS
        .iter()
        .any(|word| memmem::find(&head, word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_what_they_begin_like() {
        let table: [(&[u8], &str); 27] = [
            (b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", "a PNG image"),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", "a JPEG image"),
            (b"GIF89a\x01\0\x01\0", "a GIF image"),
            (b"RIFF\x10\0\0\0WEBPVP8 ", "an image (image/webp)"),
            (b"PK\x03\x04\x14\0", "a ZIP archive"),
            (b"PK\x05\x06\0\0", "a ZIP archive"),
            (b"<!DOCTYPE html><title>x</title>", "an HTML document"),
            (b"\xef\xbb\xbf\n<!-- ad --><HTML>", "an HTML document"),
            (
                b"<!-- sound in the format of theora -->\n<html>",
                "an HTML document",
            ),
            (b"just words", "nothing that is known"),
            (b"<html\0>", "nothing that is known"),
            (b"", "nothing that is known"),
            (b"CWS\x0a", "a Flash movie"),
            (b"\0\0\0\x18ftypmp42\0\0\0\0", "a video (video/mp4)"),
            (b"\0\0\0\x18ftypiso7\0\0\0\0", "a video (video/mp4)"),
            (b"\0\0\0\x14ftypqt  \0\0", "a video (video/quicktime)"),
            (b"\x1a\x45\xdf\xa3\x9f\x42", "a video (video/webm)"),
            (b"FLV\x01\x05", "a video (video/x-flv)"),
            (b"\0\0\0\x18ftypM4A \0\0", "sound (audio/mp4)"),
            (
                b"OggS\0\x02........................\x01vorbis",
                "sound (audio/ogg)",
            ),
            (
                b"OggS\0\x02......................\x80theora",
                "a video (video/ogg)",
            ),
            (b"ID3\x04\0\0", "sound (audio/mpeg)"),
            (b"\xff\xfb\x90\x44", "sound (audio/mpeg)"),
            (b"\xff\xf3\x90\x44", "sound (audio/mpeg)"),
            (b"\xff\xf1\x50\x80", "sound (audio/aac)"),
            (b"RIFF\x10\0\0\0WAVEfmt ", "sound (audio/wav)"),
            (b"wOF2\0\x01\0\0", "a font (font/woff2)"),
        ];
        for (head, expected) in table {
            assert_eq!(Content::of(head).to_string(), expected, "{head:?}");
        }
    }
}
