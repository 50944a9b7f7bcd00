//! References of a text to other files and hosts.

use memchr::memmem;
use percent_encoding::percent_decode_str;

/// Longest target that is read, in bytes.
const LONGEST: usize = 2048;

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
    let end = text[1..].bytes().take(LONGEST);
    let end = end.into_iter().position(|byte| byte == quote as u8)?;
    Some(text[1..=end].trim())
}

fn in_parentheses(text: &str) -> Option<&str> {
    let text = text.trim_start();
    if let Some(target) = quoted(text) {
        return Some(target);
    }
    let end = text.bytes().take(LONGEST).position(|byte| byte == b')')?;
    Some(text[..end].trim())
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
        .filter(|piece| piece.len() <= LONGEST && piece.contains('.'))
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
