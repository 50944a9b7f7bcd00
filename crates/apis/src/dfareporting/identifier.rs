//! What an asset is called and what it is said to be.

use serde_json::{Map, Value, json};
use windlass_server::handler::Rejection;

use super::content::Content;

/// The longest name, in characters.
const LONGEST_NAME: usize = 255;

/// What a client says of an asset (`CreativeAssetId`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AssetIdentifier {
    pub(super) name: AssetName,
    pub(super) asset_type: AssetType,
}

/// A name of ASCII letters, digits, spaces and `.-_=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AssetName(String);

/// What an asset is for.
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
    /// Takes it out of the metadata of a call, and checks that the name's suffix goes with the type.
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

    /// Holds what the client says against what the bytes are.
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
        } else if text.chars().count() > LONGEST_NAME {
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

    /// The name for another asset of this name: `logo_2.png` beside `logo.png`.
    pub(super) fn copy(&self, number: u64) -> Self {
        let (stem, suffix) = self.split();
        let suffix = suffix.map(|suffix| format!(".{suffix}"));
        let end = format!("_{number}{}", suffix.unwrap_or_default());
        let room = LONGEST_NAME.saturating_sub(end.len()).min(stem.len());
        Self(format!("{}{end}", &stem[..room]))
    }

    /// In lower case; `None` where there is none.
    fn suffix(&self) -> Option<String> {
        self.split().1.map(str::to_ascii_lowercase)
    }

    /// What is before and behind the last dot. Versions and dates have dots too: a suffix is short and
    /// has a letter.
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

fn path(name: &str) -> String {
    match name {
        "" => "assetIdentifier".to_owned(),
        name => format!("assetIdentifier.{name}"),
    }
}

fn missing(name: &str) -> Rejection {
    Rejection::MissingField { field: path(name) }
}

fn invalid(name: &str, problem: impl Into<String>) -> Rejection {
    Rejection::invalid_field(path(name), problem)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_bytes_have_to_be_what_name_and_type_say() {
        use crate::image_header::Format::{Jpeg, Png};
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
