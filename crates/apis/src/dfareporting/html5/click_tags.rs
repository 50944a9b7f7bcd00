//! Click tags: variables whose values are the URLs that a click leads to.

/// The longest name and the longest URL that are told of, in bytes.
const LONGEST_NAME: usize = 64;
const LONGEST_URL: usize = 1024;

/// A variable such as `clickTag`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct ClickTag {
    pub(in super::super) name: String,
    /// Its value; `None` when that is no URL.
    pub(in super::super) url: Option<String>,
}

/// The click tags that a text sets, and whether it does so outside of all braces. `lower` is the
/// text in lower case.
pub(super) fn find<'a>(
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

/// The click tag that is given a value here: `name = "..."`, as a variable or in `window`.
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
    (name.len() <= LONGEST_NAME).then(|| ClickTag {
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
    value.len() <= LONGEST_URL && plain && rest.is_some_and(begins_well)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, Option<String>, bool)> {
        let lower = text.to_ascii_lowercase();
        let tags = find(text, &lower);
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
    fn what_only_looks_like_a_click_tag_is_none() {
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
}
