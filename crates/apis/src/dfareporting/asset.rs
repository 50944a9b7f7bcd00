//! Content types of assets, which their bytes decide, and the identifiers that clients send.

use std::fmt;

use memchr::memmem;
use serde_json::{Map, Value, json};
use windlass_rest::handler::Rejection;

use crate::inspect::Format;

/// Number of bytes that are inspected.
pub(super) const HEAD: u64 = 4096;

/// Signatures, the most specific first.
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
    // The first page of the stream tells its type.
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

/// Beginnings of tags that identify HTML in the head of a file.
const HTML_WORDS: [&[u8]; 7] = [
    b"<!doctype html",
    b"<html",
    b"<head",
    b"<body",
    b"<script",
    b"<style",
    b"<div",
];

/// Suffixes of file names, with the types that such a file may have.
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

/// Longest name, in characters.
const MAX_NAME_LEN: usize = 255;

/// Content type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// An image of a format with a readable size.
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
    /// A container of sound alone or of video, by the media type of its video.
    Container(&'static str),
    /// A font, by media type.
    Font(&'static str),
    Unknown,
}

/// An offset, the bytes at that offset, and the content type that they identify.
type Signature = (usize, &'static [u8], Content);

impl Content {
    /// Returns the content type that begins like this. [`HEAD`] bytes are enough.
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

    /// Returns a frame of MPEG audio or of AAC after eleven or twelve set bits.
    fn of_frame(second: u8) -> Self {
        match (second & 0xf6, second & 0xe6) {
            (0xf0, _) => Self::Audio("audio/aac"),
            (_, 0xe2) => Self::Audio("audio/mpeg"),
            _ => Self::Unknown,
        }
    }

    /// Returns the same, knowing the suffix of the file's name: the bytes of some MP4 files do not
    /// tell whether there is more than sound in them.
    pub(super) fn in_file_named(self, suffix: &str) -> Self {
        match self {
            Self::Video("video/mp4") if suffix == "m4a" => Self::Audio("audio/mp4"),
            other => other,
        }
    }

    /// Returns the content types that a file of this suffix may have.
    pub(super) fn named(suffix: &str) -> impl Iterator<Item = Self> {
        let named = SUFFIXES.iter().filter(move |(known, _)| *known == suffix);
        named.map(|(_, content)| *content)
    }

    /// Returns whether a file of this suffix may be this.
    pub(super) fn is_named(self, suffix: &str) -> bool {
        Self::named(suffix).any(|content| content == self)
    }

    /// Returns its media type.
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

/// The identifier of an asset that a client sends (`CreativeAssetId`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AssetIdentifier {
    pub(super) name: AssetName,
    pub(super) asset_type: AssetType,
}

/// A name of ASCII letters, digits, spaces and `.-_=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AssetName(String);

/// Purpose of an asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AssetType {
    Image,
    Flash,
    Video,
    Html,
    HtmlImage,
    Audio,
}

impl AssetIdentifier {
    /// Reads the identifier from the metadata of a call, and checks that the suffix of the name
    /// fits the type.
    pub(super) fn of(metadata: &Map<String, Value>) -> Result<Self, Rejection> {
        let given = metadata.get("assetIdentifier").ok_or_else(|| missing(""))?;
        let field = |name: &str| match given.get(name) {
            None | Some(Value::Null) => Err(missing(name)),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(invalid(name, "must be of type string")),
        };
        let asset_type = AssetType::parse(field("type")?)?;
        let name = AssetName::parse(field("name")?)?;
        match name.suffix() {
            Some(suffix) if !asset_type.takes_suffix(&suffix) => Err(invalid(
                "name",
                format!("a file named .{suffix} is not for the type {asset_type}"),
            )),
            _ => Ok(Self { name, asset_type }),
        }
    }

    /// Checks that the identifier fits the content.
    pub(super) fn check(&self, content: Content) -> Result<(), Rejection> {
        let suffix = self.name.suffix();
        let content = content.in_file_named(suffix.as_deref().unwrap_or_default());
        let problem = if !self.asset_type.takes(content) {
            format!(
                "it is {content}, declared as an asset of the type {}",
                self.asset_type
            )
        } else if let Some(suffix) = suffix.filter(|it| !content.is_named(it)) {
            format!("it is {content}, in a file named .{suffix}")
        } else {
            return Ok(());
        };
        Err(Rejection::InvalidMedia { problem })
    }

    pub(super) fn show(&self) -> Value {
        json!({"name": self.name.as_str(), "type": self.asset_type.as_str()})
    }
}

impl AssetName {
    fn parse(text: &str) -> Result<Self, Rejection> {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || " .-_=".contains(letter);
        let problem = if text.chars().all(|letter| " .".contains(letter)) {
            "must have a letter or a digit"
        } else if text.chars().count() > MAX_NAME_LEN {
            "must not have more than 255 characters"
        } else if !text.chars().all(allowed) {
            "can only contain the characters A-Z a-z 0-9 . - _ = and spaces"
        } else {
            return Ok(Self(text.to_owned()));
        };
        Err(invalid("name", problem))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a numbered variant of the name: `logo_2.png` for `logo.png`.
    pub(super) fn copy(&self, number: u64) -> Self {
        let (stem, suffix) = self.split();
        let suffix = suffix.map(|suffix| format!(".{suffix}"));
        let end = format!("_{number}{}", suffix.unwrap_or_default());
        let room = MAX_NAME_LEN.saturating_sub(end.len()).min(stem.len());
        Self(format!("{}{end}", &stem[..room]))
    }

    /// Returns the suffix in lower case, if any.
    fn suffix(&self) -> Option<String> {
        self.split().1.map(str::to_ascii_lowercase)
    }

    /// Splits the name at the last dot. Versions and dates have dots too: a suffix is short
    /// and has a letter.
    fn split(&self) -> (&str, Option<&str>) {
        let is_suffix = |(_, suffix): &(&str, &str)| {
            let bytes = suffix.as_bytes();
            (2..=5).contains(&bytes.len())
                && bytes.iter().all(u8::is_ascii_alphanumeric)
                && bytes.iter().any(u8::is_ascii_alphabetic)
        };
        match self.0.rsplit_once('.').filter(is_suffix) {
            Some((stem, suffix)) => (stem, Some(suffix)),
            None => (&self.0, None),
        }
    }
}

impl AssetType {
    const ALL: [Self; 6] = [
        Self::Image,
        Self::Flash,
        Self::Video,
        Self::Html,
        Self::HtmlImage,
        Self::Audio,
    ];

    fn parse(text: &str) -> Result<Self, Rejection> {
        let found = Self::ALL.into_iter().find(|it| it.as_str() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            invalid("type", format!("must be one of {names}"))
        })
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Image => "IMAGE",
            Self::Flash => "FLASH",
            Self::Video => "VIDEO",
            Self::Html => "HTML",
            Self::HtmlImage => "HTML_IMAGE",
            Self::Audio => "AUDIO",
        }
    }

    fn takes(self, content: Content) -> bool {
        match self {
            Self::Image | Self::HtmlImage => matches!(content, Content::Image(_)),
            Self::Flash => content == Content::Flash,
            Self::Video => matches!(content, Content::Video(_) | Content::Container(_)),
            Self::Html => matches!(content, Content::Html | Content::Zip),
            Self::Audio => matches!(content, Content::Audio(_) | Content::Container(_)),
        }
    }

    fn takes_suffix(self, suffix: &str) -> bool {
        Content::named(suffix).any(|content| self.takes(content))
    }
}

impl std::fmt::Display for AssetType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

fn path_of(name: &str) -> String {
    match name {
        "" => "assetIdentifier".to_owned(),
        name => format!("assetIdentifier.{name}"),
    }
}

fn missing(name: &str) -> Rejection {
    Rejection::MissingField {
        field: path_of(name),
    }
}

fn invalid(name: &str, problem: impl Into<String>) -> Rejection {
    Rejection::invalid_field(path_of(name), problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn content_type_is_detected_by_signature() {
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

    fn of(identifier: &Value) -> Result<AssetIdentifier, Rejection> {
        let metadata = json!({"assetIdentifier": identifier});
        AssetIdentifier::of(metadata.as_object().unwrap())
    }

    #[test]
    fn name_and_type_are_required_and_checked() {
        let long = format!("{}.png", "n".repeat(252));
        let table = [
            (
                json!({"type": "HTML"}),
                "field assetIdentifier.name is required",
            ),
            (
                json!({"name": "a.zip"}),
                "field assetIdentifier.type is required",
            ),
            (json!({"name": null, "type": "HTML"}), "is required"),
            (json!("a.zip"), "is required"),
            (json!({"name": 7, "type": "HTML"}), "type string"),
            (
                json!({"name": "a.zip", "type": "html"}),
                "must be one of IMAGE, FLASH, VIDEO, HTML,",
            ),
            (json!({"name": "", "type": "HTML"}), "a letter or a digit"),
            (json!({"name": "..", "type": "HTML"}), "a letter or a digit"),
            (
                json!({"name": "a/b.zip", "type": "HTML"}),
                "can only contain",
            ),
            (
                json!({"name": "\u{e4}.zip", "type": "HTML"}),
                "can only contain",
            ),
            (
                json!({"name": "a\n.zip", "type": "HTML"}),
                "can only contain",
            ),
            (json!({"name": long, "type": "HTML_IMAGE"}), "255"),
            (
                json!({"name": "a.png", "type": "HTML"}),
                "a file named .png is not for the type HTML",
            ),
            (
                json!({"name": "a.html", "type": "HTML_IMAGE"}),
                "not for the type HTML_IMAGE",
            ),
            (
                json!({"name": "a.mp3", "type": "VIDEO"}),
                "not for the type VIDEO",
            ),
            (
                json!({"name": "a.exe", "type": "VIDEO"}),
                "not for the type VIDEO",
            ),
        ];
        for (identifier, expected) in table {
            let error = of(&identifier).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}, not {expected}");
        }
        for accepted in [
            "a.zip",
            "A B-c_d=1.HTML",
            "no suffix",
            "a.adz",
            "..a.htm",
            "ad v1.2",
            "ad 2026.11.21",
        ] {
            of(&json!({"name": accepted, "type": "HTML"})).unwrap();
        }
    }

    #[test]
    fn content_that_contradicts_name_or_type_is_refused() {
        use crate::inspect::Format::{Jpeg, Png};
        let table = [
            ("a.png", "HTML_IMAGE", Content::Image(Png), None),
            ("a.png", "IMAGE", Content::Image(Png), None),
            ("a", "HTML_IMAGE", Content::Image(Jpeg), None),
            (
                "a.png",
                "HTML_IMAGE",
                Content::Image(Jpeg),
                Some("it is a JPEG image, in a file named .png"),
            ),
            (
                "a.png",
                "HTML_IMAGE",
                Content::Zip,
                Some("it is a ZIP archive, declared as an asset of the type HTML_IMAGE"),
            ),
            ("a.zip", "HTML", Content::Zip, None),
            ("a.html", "HTML", Content::Html, None),
            (
                "a.html",
                "HTML",
                Content::Zip,
                Some("in a file named .html"),
            ),
            (
                "a.html",
                "HTML",
                Content::Unknown,
                Some("nothing that is known"),
            ),
            ("a.swf", "FLASH", Content::Flash, None),
            ("a.mp4", "VIDEO", Content::Video("video/mp4"), None),
            ("a.mov", "VIDEO", Content::Video("video/quicktime"), None),
            ("a.m4a", "AUDIO", Content::Video("video/mp4"), None),
            ("a.mp3", "AUDIO", Content::Audio("audio/mpeg"), None),
            ("a", "AUDIO", Content::Container("video/webm"), None),
            (
                "a",
                "AUDIO",
                Content::Video("video/mp4"),
                Some("it is a video (video/mp4), declared as an asset of the type AUDIO"),
            ),
            (
                "a.mp4",
                "VIDEO",
                Content::Audio("audio/mpeg"),
                Some("declared as an asset of the type VIDEO"),
            ),
            (
                "a.mp4",
                "VIDEO",
                Content::Video("video/x-flv"),
                Some("in a file named .mp4"),
            ),
        ];
        for (name, asset_type, content, expected) in table {
            let identifier = of(&json!({"name": name, "type": asset_type})).unwrap();
            let checked = identifier.check(content).map_err(|error| error.to_string());
            match expected {
                None => checked.unwrap(),
                Some(expected) => {
                    let error = checked.unwrap_err();
                    assert!(error.contains(expected), "{error}, not {expected}");
                }
            }
        }
    }

    #[test]
    fn copies_keep_their_suffix_and_their_length() {
        let name = |text: &str| AssetName::parse(text).unwrap();
        assert_eq!(name("logo.png").copy(2).as_str(), "logo_2.png");
        assert_eq!(name("logo").copy(13).as_str(), "logo_13");
        let long = name(&format!("{}.png", "n".repeat(251))).copy(1000);
        assert_eq!(long.as_str().len(), 255);
        assert!(long.as_str().ends_with("n_1000.png"));
        let odd = name(&format!("a.{}", "n".repeat(253))).copy(1);
        AssetName::parse(odd.as_str()).unwrap();
    }
}
