//! Features of browsers, and the words in a text that need them.

use std::collections::BTreeSet;

use memchr::{memchr, memmem};

/// A feature, by its name in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Feature(&'static str);

/// How much of a field's tag is read, in bytes.
const LONGEST_TAG: usize = 1024;

/// Words in lower case, and what they need.
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

impl Feature {
    pub(super) const LOCAL_STORAGE: Self = Self("LOCAL_STORAGE");
    pub(super) const POST_MESSAGE: Self = Self("POST_MESSAGE");
    pub(super) const SESSION_STORAGE: Self = Self("SESSION_STORAGE");

    /// Its name in the API.
    pub(in super::super) fn name(self) -> &'static str {
        self.0
    }
}

/// Adds what a text needs. `lower` is the text in lower case.
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
    for (start, _) in lower.match_indices("<input") {
        let tag = &lower.as_bytes()[start..];
        let tag = &tag[..tag.len().min(LONGEST_TAG)];
        let tag = &tag[..memchr(b'>', tag).unwrap_or(tag.len())];
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

fn named(table: &[(&str, Feature)], name: &str) -> Option<Feature> {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map(|(_, feature)| *feature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_told_by_their_words() {
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
    fn every_word_is_in_lower_case() {
        for (feature, words) in WORDS {
            for word in words {
                assert_eq!(*word, word.to_ascii_lowercase(), "{feature:?}");
            }
        }
    }
}
