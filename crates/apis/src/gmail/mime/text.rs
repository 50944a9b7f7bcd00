//! What a message says, in a line and in words.

use mail_parser::decoders::html::html_to_text;

const SNIPPET_CHARS: usize = 200;
/// A snippet may lose this many characters so that it does not end within a word.
const LONGEST_CUT_WORD: usize = 40;
/// Tags that may stand within a word; all others separate words.
const WITHIN_WORDS: [&str; 20] = [
    "a", "abbr", "b", "big", "cite", "code", "em", "font", "i", "ins", "mark", "s", "small",
    "span", "strike", "strong", "sub", "sup", "u", "wbr",
];

/// The words of a text in lower case: what is between everything that is neither letter nor digit. Texts
/// and queries that are split by it can be compared.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// The text of an HTML document: no tags, no comments, no styles, no scripts, entities resolved.
pub(super) fn of_html(html: &str) -> String {
    let mut spaced = String::with_capacity(html.len());
    let mut pieces = html.split('<');
    spaced.extend(pieces.next());
    for piece in pieces {
        spaced.push_str(if separates_words(piece) { " <" } else { "<" });
        spaced.push_str(piece);
    }
    html_to_text(&spaced)
}

fn separates_words(tag: &str) -> bool {
    let name = tag.strip_prefix('/').unwrap_or(tag).as_bytes();
    let len = name
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric())
        .count();
    let is_named = |within: &&str| name[..len].eq_ignore_ascii_case(within.as_bytes());
    !WITHIN_WORDS.iter().any(is_named)
}

/// The beginning of a text on one line, with the characters that mean something in HTML as entities, as
/// Gmail gives it.
pub(super) fn snippet(text: &str) -> String {
    let mut line = String::new();
    let mut chars = 0;
    for word in text.split_whitespace() {
        if chars > SNIPPET_CHARS {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
            chars += 1;
        }
        let word = word.chars().take(SNIPPET_CHARS + 1);
        line.extend(word.inspect(|_| chars += 1));
    }
    escaped(cut(&line))
}

fn cut(line: &str) -> &str {
    let Some((end, _)) = line.char_indices().nth(SNIPPET_CHARS) else {
        return line;
    };
    let (kept, lost) = line.split_at(end);
    let ends_with_word = lost.starts_with(' ');
    match kept.rsplit_once(' ') {
        Some((words, cut)) if !ends_with_word && cut.chars().count() < LONGEST_CUT_WORD => words,
        _ => kept,
    }
}

fn escaped(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len());
    for char in line.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_letters_and_digits_in_lower_case() {
        let found: Vec<_> = words("Re: Été-2024, ПРИВЕТ_x 你好!").collect();
        assert_eq!(found, ["re", "été", "2024", "привет", "x", "你好"]);
    }

    #[test]
    fn html_is_read_as_it_looks() {
        let cases = [
            ("<p>a &amp; b</p><p>c</p>", "a & b c"),
            ("<div>one</div><div>two</div>", "one two"),
            ("<td>1</td><td>2</td>", "1 2"),
            ("w<b>o</b>rd<br>next", "word next"),
            (
                "<style>p{}</style><script>x<y</script>seen<!-- not --> too",
                "seen too",
            ),
            ("<head><title>no</title></head><body>yes", "yes"),
            ("&lt;b&gt; &#39;x&#x27;", "<b> 'x'"),
            ("", ""),
            ("<", ""),
        ];
        for (html, expected) in cases {
            let text = of_html(html);
            let folded: Vec<_> = text.split_whitespace().collect();
            assert_eq!(folded.join(" "), expected, "{html}");
        }
    }

    #[test]
    fn a_snippet_is_one_line_with_entities() {
        assert_eq!(
            snippet(" a\r\n\tb  <c> & \"d\" 'e'"),
            "a b &lt;c&gt; &amp; &quot;d&quot; &#39;e&#39;"
        );
        assert_eq!(snippet(" \r\n "), "");
    }

    #[test]
    fn a_snippet_ends_with_a_word_unless_the_word_is_too_long() {
        let cut = |text: &str| snippet(text).chars().count();
        assert_eq!(cut(&"word ".repeat(100)), 199);
        assert_eq!(cut(&format!("x{}", "word ".repeat(100))), 200);
        assert_eq!(cut(&format!("{} tail", "x".repeat(200))), 200);
        assert_eq!(cut(&format!("{}x tail", "x".repeat(200))), 200);
        assert_eq!(cut(&format!("short {}", "é".repeat(1000))), 200);
        assert_eq!(cut(&format!("{} {}", "x".repeat(180), "y".repeat(30))), 180);
    }
}
