//! Requirements and broken rules of HTML assets.
//!
//! Files are searched as text, without a browser: the effects of scripts are not found. At most
//! [`MAX_TEXT`] bytes of each file are read, and [`MAX_TEXT_IN_ALL`] of all.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{Read, Seek};

use super::archive::{Archive, ArchiveError};
use super::asset::Content;

mod markup;

use markup::{ClickTag, Feature, Reference, Use, resolve};

/// Maximum number of bytes that are read of a file.
pub(super) const MAX_TEXT: u64 = 1024 * 1024;

/// Maximum number of bytes that are read of all files.
const MAX_TEXT_IN_ALL: usize = 16 * 1024 * 1024;

/// Maximum number of references that are looked up among the files of a bundle. Those beyond count
/// as found.
const MAX_REFERENCES: usize = 50_000;

/// Maximum number of click tags that are reported.
const MAX_CLICK_TAGS: usize = 16;

/// Findings in an HTML asset.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Required browser features.
    pub(super) features: BTreeSet<Feature>,
    /// Broken rules.
    pub(super) rules: BTreeSet<Rule>,
    /// The click tags of the primary file; none for a rich media asset.
    pub(super) click_tags: Vec<ClickTag>,
    /// Whether it uses the Enabler of Studio.
    pub(super) rich_media: bool,
    /// Width and height in pixels, as the primary file states them.
    pub(super) size: Option<(u32, u32)>,
}

/// Kind of a file in a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum File {
    Page,
    Style,
    Script,
    /// Text that may name other files.
    Data,
    /// An image, a font, sound or a video.
    Media,
    /// A type that an asset must not contain.
    Foreign,
}

impl Findings {
    /// Returns the findings in a page without other files.
    pub(super) fn of_page(page: &[u8]) -> Self {
        let mut reading = Reading::new(&["index.html"], 0);
        reading.read(0, page);
        reading.end()
    }

    /// Returns the findings in a page with its files.
    pub(super) fn of_bundle<R: Read + Seek>(
        archive: &mut Archive<R>,
    ) -> Result<Self, ArchiveError> {
        let entries = archive.entries().to_vec();
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let Some(primary) = primary(&names) else {
            return Ok(Self {
                rules: BTreeSet::from([Rule::PrimaryHtmlMissing]),
                ..Self::default()
            });
        };
        let mut reading = Reading::new(&names, primary);
        for (index, entry) in entries.iter().enumerate() {
            let bytes = archive.unpack(index, MAX_TEXT)?;
            if Content::of(&bytes) == Content::Zip {
                return Err(ArchiveError::Unacceptable {
                    name: entry.name.clone(),
                    problem: "is a ZIP archive itself",
                });
            }
            reading.read(index, &bytes);
        }
        Ok(reading.end())
    }
}

/// Returns the HTML file that is not in a folder, or in the fewest; `index.html` before others.
fn primary(names: &[&str]) -> Option<usize> {
    let pages = names.iter().enumerate();
    let pages = pages.filter(|(_, name)| File::named(name) == File::Page);
    let order = |name: &str| {
        let folders = name.matches('/').count();
        let is_index = name.rsplit('/').next() == Some("index.html");
        (folders, !is_index, name.to_owned())
    };
    pages.min_by_key(|(_, name)| order(name)).map(|(at, _)| at)
}

impl File {
    fn named(name: &str) -> Self {
        let suffix = name.rsplit_once('.').map_or("", |(_, suffix)| suffix);
        match suffix.to_ascii_lowercase().as_str() {
            "html" | "htm" => Self::Page,
            "css" => Self::Style,
            "js" => Self::Script,
            "json" | "xml" | "svg" => Self::Data,
            "jpg" | "jpeg" | "gif" | "png" | "webp" | "eot" | "otf" | "ttf" | "woff" | "woff2"
            | "mp4" | "webm" | "mp3" | "ogg" => Self::Media,
            _ => Self::Foreign,
        }
    }
}

/// State of reading a bundle.
struct Reading<'a> {
    names: &'a [&'a str],
    all: HashSet<&'a str>,
    /// By the last part of the name, in lower case: the files that have it.
    by_last_part: HashMap<String, Vec<usize>>,
    mentioned: Vec<bool>,
    primary: usize,
    /// Number of bytes that may still be read.
    room: usize,
    /// Number of references to files of the bundle that may still be followed.
    references: usize,
    /// Whether there is text that was not read.
    partial: bool,
    findings: Findings,
}

impl<'a> Reading<'a> {
    fn new(names: &'a [&'a str], primary: usize) -> Self {
        let mut by_last_part: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, name) in names.iter().enumerate() {
            let last = name.rsplit('/').next().unwrap_or_default();
            by_last_part
                .entry(last.to_lowercase())
                .or_default()
                .push(at);
        }
        let mut mentioned = vec![false; names.len()];
        mentioned[primary] = true;
        Self {
            names,
            all: names.iter().copied().collect(),
            by_last_part,
            mentioned,
            primary,
            room: MAX_TEXT_IN_ALL,
            references: MAX_REFERENCES,
            partial: false,
            findings: Findings::default(),
        }
    }

    fn read(&mut self, at: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            self.warn(Rule::FileDetailEmpty);
        }
        match File::named(self.names[at]) {
            File::Foreign => self.warn(Rule::FileTypeInvalid),
            File::Media => self.read_media(at, bytes),
            file @ (File::Page | File::Style | File::Script | File::Data) => {
                let text = &bytes[..bytes.len().min(self.room)];
                self.room -= text.len();
                self.partial |= text.len() < bytes.len() || bytes.len() as u64 == MAX_TEXT;
                self.read_text(at, file, &String::from_utf8_lossy(text));
            }
        }
    }

    /// An image must have the type of its file name.
    fn read_media(&mut self, at: usize, bytes: &[u8]) {
        let (_, suffix) = self.names[at].rsplit_once('.').unwrap_or_default();
        let suffix = suffix.to_ascii_lowercase();
        let is_picture = |content| matches!(content, Content::Image(_));
        let expected = Content::named(&suffix).any(is_picture);
        if expected && !is_picture(Content::of(bytes)) {
            self.warn(Rule::AssetInvalid);
        }
    }

    fn read_text(&mut self, at: usize, file: File, text: &str) {
        let lower = text.to_ascii_lowercase();
        markup::find(&lower, file == File::Page, &mut self.findings.features);
        self.read_references(at, file, text, &lower);
        self.mention_files(text);
        self.read_click_tags(at, text, &lower);
        if lower.contains("mraid.js") {
            self.warn(Rule::MraidReferenced);
        }
        if lower.contains("admob") {
            self.warn(Rule::AdmobReferenced);
        }
        self.findings.rich_media |= lower.contains("enabler.js");
        if at == self.primary {
            self.findings.size = markup::stated_size(&lower);
        }
    }

    fn read_references(&mut self, at: usize, file: File, text: &str, lower: &str) {
        markup::visit(text, lower, |reference| match reference {
            Reference {
                used: Use::Click,
                target,
            } if markup::is_absolute(target) => self.warn(Rule::ClickTagHardCoded),
            Reference { used, target } if markup::is_absolute(target) => {
                self.read_absolute(used, target);
            }
            // Paths in scripts are relative to pages that are not known here.
            Reference { target, .. } if file != File::Script => self.read_local(at, target),
            Reference { .. } => {}
        });
        if lower.contains("window.open('http") || lower.contains("window.open(\"http") {
            self.warn(Rule::ClickTagHardCoded);
        }
    }

    fn read_absolute(&mut self, used: Use, target: &str) {
        if used == Use::Load && markup::is_insecure(target) {
            self.warn(Rule::NotSslCompliant);
        }
        if used == Use::Load && !markup::is_own_host(target) {
            self.warn(Rule::ExternalFileReferenced);
        }
    }

    fn read_local(&mut self, at: usize, target: &str) {
        if self.references == 0 {
            return;
        }
        self.references -= 1;
        let Some(path) = resolve(self.names[at], target) else {
            return;
        };
        if !self.all.contains(path.as_str()) {
            self.warn(Rule::LinkedFileNotFound);
        }
    }

    /// Marks every file that is named anywhere in a text as used.
    fn mention_files(&mut self, text: &str) {
        for word in markup::words(text) {
            // Once is enough, however many files have the name and however many words name them.
            for at in self.by_last_part.remove(&word).into_iter().flatten() {
                self.mentioned[at] = true;
            }
        }
    }

    fn read_click_tags(&mut self, at: usize, text: &str, lower: &str) {
        for (tag, top_level) in markup::find_click_tags(text, lower) {
            if at != self.primary || !top_level {
                self.warn(Rule::ClickTagNonTopLevel);
            } else if self.findings.click_tags.len() < MAX_CLICK_TAGS {
                self.findings.click_tags.push(tag);
            }
        }
    }

    fn end(mut self) -> Findings {
        if !self.partial && self.mentioned.contains(&false) {
            self.warn(Rule::OrphanedAsset);
        }
        // The frame that shows an asset sends messages to it.
        self.findings.features.insert(Feature::POST_MESSAGE);
        let unsupported = [Feature::LOCAL_STORAGE, Feature::SESSION_STORAGE];
        if unsupported
            .iter()
            .any(|it| self.findings.features.contains(it))
        {
            self.warn(Rule::Html5FeatureUnsupported);
        }
        self.judge_click_tags();
        self.findings
    }

    fn judge_click_tags(&mut self) {
        let tags = std::mem::take(&mut self.findings.click_tags);
        if self.findings.rich_media {
            if !tags.is_empty() {
                self.warn(Rule::ClickTagInRichMedia);
            }
            return;
        }
        let elsewhere = self.findings.rules.contains(&Rule::ClickTagNonTopLevel);
        match tags.len() {
            0 if !elsewhere => self.warn(Rule::ClickTagMissing),
            0 | 1 => {}
            _ => self.warn(Rule::ClickTagMoreThanOne),
        }
        if tags.iter().any(|tag| tag.url.is_none()) {
            self.warn(Rule::ClickTagInvalid);
        }
        self.findings.click_tags = tags;
    }

    fn warn(&mut self, rule: Rule) {
        self.findings.rules.insert(rule);
    }
}

/// A rule for assets. A broken one is reported as a warning; the asset is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    /// A click tag is set inside a function, or not in the primary file.
    ClickTagNonTopLevel,
    /// There is no click tag.
    ClickTagMissing,
    /// There are two or more.
    ClickTagMoreThanOne,
    /// A click tag's value is no URL.
    ClickTagInvalid,
    /// No other file names this one.
    OrphanedAsset,
    /// A bundle has no HTML file.
    PrimaryHtmlMissing,
    /// Something is loaded from an external host.
    ExternalFileReferenced,
    /// It uses MRAID.
    MraidReferenced,
    /// It uses `AdMob`.
    AdmobReferenced,
    /// A file of a type that assets do not have.
    FileTypeInvalid,
    /// A file is named that is not in the bundle.
    LinkedFileNotFound,
    /// Something is loaded without TLS.
    NotSslCompliant,
    /// A file is empty.
    FileDetailEmpty,
    /// The bytes of a file do not match its name.
    AssetInvalid,
    /// It stores data in the browser.
    Html5FeatureUnsupported,
    /// A link leads to a fixed URL past the click tag.
    ClickTagHardCoded,
    /// A click tag in an asset for the Enabler, which has exits instead.
    ClickTagInRichMedia,
}

impl Rule {
    /// Returns the name in the API.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ClickTagNonTopLevel => "CLICK_TAG_NON_TOP_LEVEL",
            Self::ClickTagMissing => "CLICK_TAG_MISSING",
            Self::ClickTagMoreThanOne => "CLICK_TAG_MORE_THAN_ONE",
            Self::ClickTagInvalid => "CLICK_TAG_INVALID",
            Self::OrphanedAsset => "ORPHANED_ASSET",
            Self::PrimaryHtmlMissing => "PRIMARY_HTML_MISSING",
            Self::ExternalFileReferenced => "EXTERNAL_FILE_REFERENCED",
            Self::MraidReferenced => "MRAID_REFERENCED",
            Self::AdmobReferenced => "ADMOB_REFERENCED",
            Self::FileTypeInvalid => "FILE_TYPE_INVALID",
            Self::LinkedFileNotFound => "LINKED_FILE_NOT_FOUND",
            Self::NotSslCompliant => "NOT_SSL_COMPLIANT",
            Self::FileDetailEmpty => "FILE_DETAIL_EMPTY",
            Self::AssetInvalid => "ASSET_INVALID",
            Self::Html5FeatureUnsupported => "HTML5_FEATURE_UNSUPPORTED",
            Self::ClickTagHardCoded => "CLICK_TAG_HARD_CODED",
            Self::ClickTagInRichMedia => "CLICK_TAG_IN_RICH_MEDIA",
        }
    }
}

#[cfg(test)]
mod tests;
