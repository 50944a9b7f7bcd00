//! Searches the text of a page, a style or a script for browser features that it needs, click tags
//! that it declares, and references to other files and hosts.

use std::collections::BTreeSet;

use memchr::{memchr, memmem};
use percent_encoding::percent_decode_str;

/// Maximum number of bytes that are read of the tag of an input field.
const MAX_TAG_LEN: usize = 1024;

/// Words in lower case, and the feature that each requires.
const WORDS: [(Feature, &[&str]); 42] = [
    (Feature("CSS_FONT_FACE"), &["@font-face"]),
    (Feature("CSS_BACKGROUND_SIZE"), &["background-size"]),
    (Feature("CSS_BORDER_IMAGE"), &["border-image"]),
    (Feature("CSS_BORDER_RADIUS"), &["border-radius"]),
    (Feature("CSS_BOX_SHADOW"), &["box-shadow"]),
    (
        Feature("CSS_FLEX_BOX"),
        &[
            "display:flex",
            "display: flex",
            "inline-flex",
            "flex-direction",
        ],
    ),
    (Feature("CSS_HSLA"), &["hsla("]),
    (
        Feature("CSS_OPACITY"),
        &["opacity:", "opacity :", "opacity ="],
    ),
    (Feature("CSS_RGBA"), &["rgba("]),
    (Feature("CSS_TEXT_SHADOW"), &["text-shadow"]),
    (
        Feature("CSS_ANIMATIONS"),
        &["keyframes ", "animation:", "animation-name"],
    ),
    (Feature("CSS_COLUMNS"), &["column-count", "column-width"]),
    (Feature("CSS_GENERATED_CONTENT"), &[":before", ":after"]),
    (
        Feature("CSS_GRADIENTS"),
        &["linear-gradient(", "radial-gradient("],
    ),
    (Feature("CSS_REFLECTIONS"), &["box-reflect"]),
    (Feature("CSS_TRANSFORMS"), &["transform:", "transform :"]),
    (
        Feature("CSS_TRANSFORMS3D"),
        &[
            "translate3d(",
            "rotate3d(",
            "scale3d(",
            "preserve-3d",
            "perspective(",
        ],
    ),
    (
        Feature("CSS_TRANSITIONS"),
        &["transition:", "transition-property"],
    ),
    (Feature("APPLICATION_CACHE"), &["applicationcache"]),
    (Feature("CANVAS"), &["<canvas", "getcontext("]),
    (Feature("CANVAS_TEXT"), &["filltext(", "stroketext("]),
    (
        Feature("DRAG_AND_DROP"),
        &["draggable=", "ondragstart", "\"dragstart\"", "'dragstart'"],
    ),
    (Feature("HASH_CHANGE"), &["hashchange"]),
    (
        Feature("HISTORY"),
        &["history.pushstate", "history.replacestate"],
    ),
    (Feature("AUDIO"), &["<audio", "new audio("]),
    (Feature("VIDEO"), &["<video"]),
    (Feature("INDEXED_DB"), &["indexeddb"]),
    (Feature("LOCAL_STORAGE"), &["localstorage"]),
    (Feature("POST_MESSAGE"), &["postmessage("]),
    (Feature("SESSION_STORAGE"), &["sessionstorage"]),
    (Feature("WEB_SOCKETS"), &["new websocket("]),
    (Feature("WEB_SQL_DATABASE"), &["opendatabase("]),
    (Feature("WEB_WORKERS"), &["new worker("]),
    (Feature("GEO_LOCATION"), &["navigator.geolocation"]),
    (Feature("INLINE_SVG"), &["<svg"]),
    (
        Feature("SMIL"),
        &["<animatetransform", "<animatemotion", "<animate "],
    ),
    (Feature("SVG_HREF"), &["xlink:href"]),
    (Feature("SVG_CLIP_PATHS"), &["<clippath"]),
    (Feature("TOUCH"), &["touchstart", "touchmove", "touchend"]),
    (
        Feature("WEBGL"),
        &[
            "getcontext(\"webgl",
            "getcontext('webgl",
            "experimental-webgl",
        ],
    ),
    (
        Feature("SVG_FILTERS"),
        &["<fegaussianblur", "<fecolormatrix", "<feoffset", "<feblend"],
    ),
    (Feature("SVG_FE_IMAGE"), &["<feimage"]),
];

/// Types of input fields.
const INPUT_TYPES: [(&str, Feature); 13] = [
    ("search", Feature("INPUT_TYPE_SEARCH")),
    ("tel", Feature("INPUT_TYPE_TEL")),
    ("url", Feature("INPUT_TYPE_URL")),
    ("email", Feature("INPUT_TYPE_EMAIL")),
    ("datetime", Feature("INPUT_TYPE_DATETIME")),
    ("date", Feature("INPUT_TYPE_DATE")),
    ("month", Feature("INPUT_TYPE_MONTH")),
    ("week", Feature("INPUT_TYPE_WEEK")),
    ("time", Feature("INPUT_TYPE_TIME")),
    ("datetime-local", Feature("INPUT_TYPE_DATETIME_LOCAL")),
    ("number", Feature("INPUT_TYPE_NUMBER")),
    ("range", Feature("INPUT_TYPE_RANGE")),
    ("color", Feature("INPUT_TYPE_COLOR")),
];

/// Attributes of input fields.
const INPUT_ATTRIBUTES: [(&str, Feature); 10] = [
    ("autocomplete", Feature("INPUT_ATTR_AUTOCOMPLETE")),
    ("autofocus", Feature("INPUT_ATTR_AUTOFOCUS")),
    ("list", Feature("INPUT_ATTR_LIST")),
    ("placeholder", Feature("INPUT_ATTR_PLACEHOLDER")),
    ("max", Feature("INPUT_ATTR_MAX")),
    ("min", Feature("INPUT_ATTR_MIN")),
    ("multiple", Feature("INPUT_ATTR_MULTIPLE")),
    ("pattern", Feature("INPUT_ATTR_PATTERN")),
    ("required", Feature("INPUT_ATTR_REQUIRED")),
    ("step", Feature("INPUT_ATTR_STEP")),
];

/// Longest name and the longest URL that are reported, in bytes.
const MAX_NAME_LEN: usize = 64;

const MAX_URL_LEN: usize = 1024;

/// A feature, by its name in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::dfareporting) struct Feature(&'static str);

impl Feature {
    pub(super) const LOCAL_STORAGE: Self = Self("LOCAL_STORAGE");
    pub(super) const POST_MESSAGE: Self = Self("POST_MESSAGE");
    pub(super) const SESSION_STORAGE: Self = Self("SESSION_STORAGE");

    /// Returns the name in the API.
    pub(in crate::dfareporting) fn name(self) -> &'static str {
        self.0
    }
}

/// Adds the features that a text requires. `lower` is the text in lower case.
pub(super) fn find(lower: &str, is_page: bool, features: &mut BTreeSet<Feature>) {
    for (feature, words) in WORDS {
        let has = |word: &&str| memmem::find(lower.as_bytes(), word.as_bytes()).is_some();
        if words.iter().any(has) {
            features.insert(feature);
        }
    }
    if is_page {
        find_in_fields(lower, features);
    }
}

fn find_in_fields(lower: &str, features: &mut BTreeSet<Feature>) {
    for tag in fields(lower.as_bytes()) {
        for attribute in String::from_utf8_lossy(tag)
            .split_ascii_whitespace()
            .skip(1)
        {
            let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            let value = value.trim_matches(['"', '\'', '/']);
            let known = match name.trim_end_matches('/') {
                "type" => named(&INPUT_TYPES, value),
                name => named(&INPUT_ATTRIBUTES, name),
            };
            features.extend(known);
        }
    }
}

/// Returns the tags of input fields, without their ends. No two overlap, so that they are no longer
/// than the text.
fn fields(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let tag = &text[memmem::find(text, b"<input")?..];
        let longest = &tag[..tag.len().min(MAX_TAG_LEN)];
        let length = memchr(b'>', longest).unwrap_or(longest.len());
        text = &tag[length..];
        Some(&tag[..length])
    })
}

fn named(table: &[(&str, Feature)], name: &str) -> Option<Feature> {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map(|(_, feature)| *feature)
}

/// A variable such as `clickTag`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::dfareporting) struct ClickTag {
    pub(in crate::dfareporting) name: String,
    /// Its value; `None` when that is no URL.
    pub(in crate::dfareporting) url: Option<String>,
}

/// Returns the click tags that a text sets, and whether it does so outside of all braces. `lower`
/// is the text in lower case.
pub(super) fn find_click_tags<'a>(
    text: &'a str,
    lower: &'a str,
) -> impl Iterator<Item = (ClickTag, bool)> + 'a {
    let mut depth = Depth::default();
    lower.match_indices("clicktag").filter_map(move |(at, _)| {
        depth.go_to(lower, at);
        let tag = set_at(text, at)?;
        Some((tag, depth.braces == 0))
    })
}

/// How many braces are open, counted from the last beginning of a script.
#[derive(Default)]
struct Depth {
    at: usize,
    braces: u32,
}

impl Depth {
    fn go_to(&mut self, lower: &str, at: usize) {
        let mut between = &lower.as_bytes()[self.at..at];
        if let Some(script) = memchr::memmem::rfind(between, b"<script") {
            between = &between[script..];
            self.braces = 0;
        }
        for byte in between {
            match byte {
                b'{' => self.braces += 1,
                b'}' => self.braces = self.braces.saturating_sub(1),
                _ => {}
            }
        }
        self.at = at;
    }
}

/// Returns the click tag that is given a value here: `name = "..."`, as a variable or in `window`.
fn set_at(text: &str, at: usize) -> Option<ClickTag> {
    let before = text[..at].trim_end_matches("window.");
    let inside_a_name = |letter: char| letter.is_ascii_alphanumeric() || "_$.".contains(letter);
    if before.ends_with(inside_a_name) {
        return None;
    }
    let rest = &text[at..];
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
    let (name, rest) = rest.split_at(end);
    let value = rest.trim_start().strip_prefix('=')?.trim_start();
    let quote = value
        .chars()
        .next()
        .filter(|quote| "\"'`".contains(*quote))?;
    let value = value[1..].split([quote, '\n']).next()?;
    (name.len() <= MAX_NAME_LEN).then(|| ClickTag {
        name: name.to_owned(),
        url: is_url(value).then(|| value.to_owned()),
    })
}

fn is_url(value: &str) -> bool {
    let rest = value
        .strip_prefix("https://")
        .or_else(|| value.strip_prefix("http://"));
    let begins_well = |rest: &str| rest.starts_with(|first: char| first.is_alphanumeric());
    let plain = !value.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    value.len() <= MAX_URL_LEN && plain && rest.is_some_and(begins_well)
}

/// Longest target that is read, in bytes.
const MAX_LEN: usize = 2048;

/// Maximum distance from the beginning of a tag to an attribute, in bytes.
const TAG_WITHIN: usize = 1024;

/// Hosts of the service itself.
const OWN_HOSTS: [&str; 5] = [
    "2mdn.net",
    "doubleclick.net",
    "google.com",
    "googleapis.com",
    "gstatic.com",
];

/// A target that a text names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reference<'a> {
    pub(super) used: Use,
    pub(super) target: &'a str,
}

/// Use of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// It is loaded.
    Load,
    /// A click opens it.
    Click,
}

/// Visits the targets of `src` and `href` attributes and of `url()`. `lower` is the text in lower
/// case.
pub(super) fn visit<'a>(text: &'a str, lower: &str, mut visitor: impl FnMut(Reference<'a>)) {
    for word in ["src", "href"] {
        for at in memmem::find_iter(lower.as_bytes(), word) {
            let Some(target) = value(text, at, word.len()) else {
                continue;
            };
            let used = match word {
                "href" if is_in_a_link(lower, at) => Use::Click,
                _ => Use::Load,
            };
            visitor(Reference { used, target });
        }
    }
    for at in memmem::find_iter(lower.as_bytes(), "url(") {
        if let Some(target) = in_parentheses(&text[at + 4..]) {
            let used = Use::Load;
            visitor(Reference { used, target });
        }
    }
}

/// Returns the quoted value of the attribute that begins here.
fn value(text: &str, at: usize, length: usize) -> Option<&str> {
    let before = text[..at].chars().next_back().unwrap_or(' ');
    if !before.is_whitespace() && !"\"'.:".contains(before) {
        return None;
    }
    let rest = text[at + length..].trim_start().strip_prefix('=')?;
    quoted(rest.trim_start())
}

fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|quote| "\"'".contains(*quote))?;
    let end = find_soon(&text[1..], quote as u8)?;
    Some(text[1..=end].trim())
}

fn in_parentheses(text: &str) -> Option<&str> {
    let text = text.trim_start();
    if let Some(target) = quoted(text) {
        return Some(target);
    }
    let end = find_soon(text, b')')?;
    Some(text[..end].trim())
}

/// Returns the offset of a byte within the longest target. A text may have a million beginnings
/// without an end.
fn find_soon(text: &str, byte: u8) -> Option<usize> {
    let text = text.as_bytes();
    memchr::memchr(byte, &text[..text.len().min(MAX_LEN)])
}

/// Returns whether the tag around an attribute is `<a>` or `<area>`.
fn is_in_a_link(lower: &str, at: usize) -> bool {
    let around = &lower.as_bytes()[at.saturating_sub(TAG_WITHIN)..at];
    let tag = memchr::memrchr(b'<', around).map_or(&[][..], |start| &around[start + 1..]);
    let name = tag.split(u8::is_ascii_whitespace).next();
    matches!(name, Some(b"a" | b"area"))
}

/// Returns whether a target is on a host that it names.
pub(super) fn is_absolute(target: &str) -> bool {
    host(target).is_some()
}

pub(super) fn is_insecure(target: &str) -> bool {
    target
        .get(..5)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"))
}

/// Returns whether the host that a target names is the service's.
pub(super) fn is_own_host(target: &str) -> bool {
    let host = host(target).unwrap_or_default().to_ascii_lowercase();
    OWN_HOSTS.iter().any(|own| {
        let rest = host.strip_suffix(own);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

fn host(target: &str) -> Option<&str> {
    let (scheme, rest) = target.split_once("//")?;
    let known = ["", "http:", "https:"];
    if !known.iter().any(|it| scheme.eq_ignore_ascii_case(it)) {
        return None;
    }
    rest.split(['/', '?', '#', ':']).next()
}

/// Returns the name in the bundle that a relative target means in the file `from`; `None` when it
/// means no file.
pub(super) fn resolve(from: &str, target: &str) -> Option<String> {
    let path = target.split(['?', '#']).next()?;
    let is_template = path.contains(['{', '$', '<', '%']) && !path.contains("%20");
    if path.is_empty() || is_template || path.contains([':', '+', '\\']) {
        return None;
    }
    let path = percent_decode_str(path).decode_utf8_lossy();
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let base = if path.starts_with('/') { "" } else { folder };
    let mut parts = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the words that may be the last part of a file's name, in lower case. Names with spaces
/// are found as a whole and as words.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let ends = |letter: char| "'\"`()/\\?#<>=,;&|\n\r\t".contains(letter);
    let spoken = move |piece: &str| {
        let piece = percent_decode_str(piece.trim()).decode_utf8_lossy();
        piece.to_lowercase()
    };
    text.split(ends)
        .filter(|piece| piece.len() <= MAX_LEN && piece.contains('.'))
        .flat_map(move |piece| {
            let whole = piece.contains(' ').then(|| spoken(piece));
            whole.into_iter().chain(piece.split(' ').map(spoken))
        })
}

/// Returns the size that `<meta name="ad.size" content="width=300,height=250">` states.
pub(super) fn stated_size(lower: &str) -> Option<(u32, u32)> {
    let at = lower.find("ad.size")?;
    let rest = &lower[at..];
    let tag = &rest[..rest.find('>')?];
    let number = |name: &str| {
        let (_, rest) = tag.split_once(name)?;
        let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next();
        digits?.parse().ok()
    };
    Some((number("width=")?, number("height=")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_detected_by_their_words() {
        let table = [
            (
                "div { border-radius: 3px; color: rgba(0,0,0,.5) }",
                vec!["CSS_BORDER_RADIUS", "CSS_RGBA"],
            ),
            ("<canvas id=c></canvas>", vec!["CANVAS"]),
            ("c.getContext('webgl')", vec!["CANVAS", "WEBGL"]),
            (
                "<svg><clipPath/></svg>",
                vec!["INLINE_SVG", "SVG_CLIP_PATHS"],
            ),
            ("localStorage.setItem('a', 1)", vec!["LOCAL_STORAGE"]),
            (
                "<input type=\"email\" required placeholder='you'/>",
                vec![
                    "INPUT_ATTR_PLACEHOLDER",
                    "INPUT_ATTR_REQUIRED",
                    "INPUT_TYPE_EMAIL",
                ],
            ),
            ("<input type=text><p required>", vec![]),
            ("<p>nothing", vec![]),
        ];
        for (text, expected) in table {
            let mut features = BTreeSet::new();
            find(&text.to_ascii_lowercase(), true, &mut features);
            let names: Vec<_> = features.iter().map(|it| it.name()).collect();
            assert_eq!(names, expected, "{text}");
        }
    }

    #[test]
    fn tags_of_fields_do_not_overlap() {
        let text = "<input a ".repeat(10_000);
        let length: usize = fields(text.as_bytes()).map(<[u8]>::len).sum();
        assert!(length <= text.len(), "{length}");
        let tags: Vec<_> = fields(b"x<input a>y<input b").collect();
        assert_eq!(tags, [&b"<input a"[..], b"<input b"]);
    }

    #[test]
    fn every_word_is_in_lower_case() {
        for (feature, words) in WORDS {
            for word in words {
                assert_eq!(*word, word.to_ascii_lowercase(), "{feature:?}");
            }
        }
    }

    fn found(text: &str) -> Vec<(String, Option<String>, bool)> {
        let lower = text.to_ascii_lowercase();
        let tags = find_click_tags(text, &lower);
        tags.map(|(tag, top)| (tag.name, tag.url, top)).collect()
    }

    #[test]
    fn click_tags_are_variables_with_a_url() {
        let url = Some("https://a.example/x?y=1");
        let table = [
            (
                "var clickTag = \"https://a.example/x?y=1\";",
                "clickTag",
                url,
                true,
            ),
            (
                "let clickTAG2='https://a.example/x?y=1'",
                "clickTAG2",
                url,
                true,
            ),
            (
                "window.clickTag=`https://a.example/x?y=1`",
                "clickTag",
                url,
                true,
            ),
            ("var clickTag = \"\";", "clickTag", None, true),
            ("var clickTag = \"not a url\";", "clickTag", None, true),
            ("var clickTag = \"https://\";", "clickTag", None, true),
            (
                "function f() { var clickTag = \"https://a.example/x?y=1\" }",
                "clickTag",
                url,
                false,
            ),
            (
                "<style>a{</style><script>var clickTag = \"https://a.example/x?y=1\"",
                "clickTag",
                url,
                true,
            ),
            (
                "if (a) { b } var clickTag = \"https://a.example/x?y=1\"",
                "clickTag",
                url,
                true,
            ),
        ];
        for (text, name, url, top_level) in table {
            let expected = (name.to_owned(), url.map(str::to_owned), top_level);
            assert_eq!(found(text), [expected], "{text}");
        }
    }

    #[test]
    fn similar_variables_are_not_click_tags() {
        for text in [
            "window.open(clickTag)",
            "if (clickTag == \"https://a.example\") {}",
            "myclickTag = \"https://a.example\"",
            "ad.clickTag = \"https://a.example\"",
            "var clickTag = other;",
            "clickTag",
            "clickTag =",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
        assert_eq!(found("var clickTag = \"a\", clickTag2 = \"b\"").len(), 2);
    }

    #[test]
    fn attributes_and_styles_name_their_targets() {
        let table = [
            ("<img src=\"a.png\">", vec![(Use::Load, "a.png")]),
            ("<img data-src=\"a.png\">", vec![]),
            ("img.src = 'a.png'", vec![(Use::Load, "a.png")]),
            ("img.src = base + 'a.png'", vec![]),
            (
                "<a class='x' href=\"https://b.example/\">",
                vec![(Use::Click, "https://b.example/")],
            ),
            ("<link href=\"s.css\">", vec![(Use::Load, "s.css")]),
            ("<image xlink:href='i.svg'/>", vec![(Use::Load, "i.svg")]),
            ("{background: url(a.png)}", vec![(Use::Load, "a.png")]),
            (
                "{background: URL( \"a b.png\" )}",
                vec![(Use::Load, "a b.png")],
            ),
            ("src=\"never ends", vec![]),
            ("url(never ends", vec![]),
        ];
        for (text, expected) in table {
            let mut found = Vec::new();
            visit(text, &text.to_ascii_lowercase(), |it| {
                found.push((it.used, it.target));
            });
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn targets_are_relative_to_their_file() {
        let table = [
            ("index.html", "a.png", Some("a.png")),
            ("css/s.css", "../img/a.png?v=1#x", Some("img/a.png")),
            ("css/s.css", "/img/a.png", Some("img/a.png")),
            ("css/s.css", "./a%20b.png", Some("css/a b.png")),
            ("index.html", "../../a.png", Some("a.png")),
            ("index.html", "#top", None),
            ("index.html", "data:image/png;base64,AA==", None),
            ("index.html", "javascript:void(0)", None),
            ("index.html", "${base}/a.png", None),
            ("index.html", "%%CLICK_URL%%", None),
        ];
        for (from, target, expected) in table {
            assert_eq!(resolve(from, target).as_deref(), expected, "{target}");
        }
    }

    #[test]
    fn hosts_are_the_services_own_or_others() {
        let table = [
            ("https://s0.2mdn.net/ads/studio/Enabler.js", true, true),
            ("//fonts.googleapis.com/css", true, true),
            ("https://evil2mdn.net/x", true, false),
            ("HTTP://cdn.example/x.js", true, false),
            ("img/a.png", false, false),
            ("a//b", false, false),
        ];
        for (target, absolute, own) in table {
            assert_eq!(is_absolute(target), absolute, "{target}");
            assert_eq!(is_own_host(target), own, "{target}");
        }
        assert!(is_insecure("HTTP://cdn.example/x.js"));
        assert!(!is_insecure("https://cdn.example/x.js"));
    }

    #[test]
    fn the_stated_size_is_read() {
        let size = |text| stated_size(text);
        let meta = "<meta name=\"ad.size\" content=\"width=300,height=250\">";
        assert_eq!(size(meta), Some((300, 250)));
        assert_eq!(size("<meta name=\"ad.size\" content=\"width=300\">"), None);
        assert_eq!(
            size("<meta name=\"viewport\" content=\"width=300,height=250\">"),
            None
        );
    }
}
