//! The summary of a message, by which a mailbox sorts and searches.

use mail_parser::HeaderValue;
use mail_parser::decoders::html::html_to_text;
use mail_parser::parsers::MessageStream;
use serde::{Deserialize, Serialize};

use super::headers::Field;
use super::structure::{Content, Part, Structure};
use super::{MAX_ADDRESSES, Malformed, headers};

/// Maximum number of bytes of [`Summary::text`].
const MAX_TEXT: usize = 64 * 1024;

/// Maximum number of bytes of bodies that are searched for text. HTML has little text in many
/// bytes.
const MAX_TEXT_SOURCE: usize = 1024 * 1024;

const ADDRESS_FIELDS: [&str; 4] = ["from", "to", "cc", "bcc"];

const SNIPPET_CHARS: usize = 200;

/// A snippet may lose this many characters so that it does not end within a word.
const MAX_CUT_WORD_LEN: usize = 40;

/// Tags that may stand within a word; all others separate words.
const WITHIN_WORDS: [&str; 20] = [
    "a", "abbr", "b", "big", "cite", "code", "em", "font", "i", "ins", "mark", "s", "small",
    "span", "strike", "strong", "sub", "sup", "u", "wbr",
];

/// The searchable properties of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Authors.
    pub from: Vec<Address>,
    /// Recipients.
    pub to: Vec<Address>,
    /// Recipients of copies.
    pub cc: Vec<Address>,
    /// Recipients of blind copies.
    pub bcc: Vec<Address>,
    /// The subject as text.
    pub subject: String,
    /// The time in the header `Date`, in milliseconds since the epoch; `None` if the header is
    /// missing or invalid.
    pub date: Option<i64>,
    /// Without angle brackets.
    pub message_id: Option<String>,
    /// The messages that this one answers, without angle brackets.
    pub in_reply_to: Vec<String>,
    /// The thread before this message, oldest first, without angle brackets.
    pub references: Vec<String>,
    /// The mailing list, without angle brackets.
    pub list_id: Option<String>,
    /// The names of the files attached, those within attached messages too.
    pub filenames: Vec<String>,
    /// Whether anything is attached, with a name or without.
    pub has_attachment: bool,
    /// The [`words`](super::words) of the parts that are text, with a blank between; at most 64
    /// KiB.
    pub text: String,
    /// The beginning of the text, as Gmail shows it next to the subject.
    pub snippet: String,
}

/// A mailbox with the name of its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The name as text; often nothing.
    pub name: String,
    /// E.g. `someone@example.com`, as written.
    pub address: String,
}

impl Structure {
    /// Returns the summary of the message that this is the structure of.
    pub fn summary(&self, raw: &[u8]) -> Summary {
        let fields = headers::of_message(raw);
        let header = Header { raw, fields };
        let [from, to, cc, bcc] = ADDRESS_FIELDS.map(|name| header.addresses(name));
        let names = self.parts().iter().map(Part::file_name);
        let (text, snippet) = self.text(raw);
        Summary {
            from,
            to,
            cc,
            bcc,
            subject: self.header("subject").unwrap_or_default().to_owned(),
            date: header.date(),
            message_id: header.ids("message-id").into_iter().next(),
            in_reply_to: header.ids("in-reply-to"),
            references: header.ids("references"),
            list_id: header.list_id(),
            filenames: names
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            has_attachment: self
                .parts()
                .iter()
                .any(|part| part.content() == Content::Attachment),
            text,
            snippet,
        }
    }

    /// Returns the words of all texts, and the snippet of the first text that has one.
    fn text(&self, raw: &[u8]) -> (String, String) {
        let (mut all, mut snippet) = (String::new(), String::new());
        let mut source_left = MAX_TEXT_SOURCE;
        for part in self.parts() {
            let body = part.body_in(raw);
            let body = &body[..body.len().min(source_left)];
            let Some(text) = readable(part, body) else {
                continue;
            };
            source_left -= body.len();
            if snippet.is_empty() {
                snippet = snippet_of(&text);
            }
            if !append_words(&mut all, &text) {
                break;
            }
        }
        (all, snippet)
    }
}

/// Returns the text that a reader would see of the body of a part.
fn readable(part: &Part, body: &[u8]) -> Option<String> {
    if !matches!(part.content(), Content::Inline | Content::Large) {
        return None;
    }
    match part.mime_type() {
        "text/plain" => Some(part.text(body)),
        "text/html" => Some(of_html(&part.text(body))),
        _ => None,
    }
}

/// Appends the words of a text. Returns whether all words had room.
fn append_words(all: &mut String, text: &str) -> bool {
    for word in words(text) {
        if all.len() + word.len() + 1 > MAX_TEXT {
            return false;
        }
        if !all.is_empty() {
            all.push(' ');
        }
        all.push_str(&word);
    }
    true
}

/// Checks the number of addresses by counting commas: fast, and never too low.
pub(super) fn check_addresses(raw: &[u8], fields: &[Field]) -> Result<(), Malformed> {
    let named = |field: &&Field| ADDRESS_FIELDS.iter().any(|name| field.is(raw, name));
    let addresses =
        |field: &Field| 1 + memchr::memchr_iter(b',', &raw[field.value.clone()]).count();
    let total: usize = fields.iter().filter(named).map(addresses).sum();
    if total > MAX_ADDRESSES {
        return Err(Malformed::TooManyAddresses);
    }
    Ok(())
}

/// The header of the message with its values as they stand, for the grammars that want them so.
struct Header<'a> {
    raw: &'a [u8],
    fields: Vec<Field>,
}

impl Header<'_> {
    /// Unfolded, with the line end that the grammars wait for.
    fn lines(&self, name: &str) -> impl Iterator<Item = String> {
        let named = self
            .fields
            .iter()
            .filter(move |field| field.is(self.raw, name));
        named.map(|field| field.unfolded(self.raw) + "\n")
    }

    fn addresses(&self, name: &str) -> Vec<Address> {
        let mut addresses = Vec::new();
        for line in self.lines(name) {
            if let HeaderValue::Address(found) = MessageStream::new(line.as_bytes()).parse_address()
            {
                addresses.extend(found.iter().filter_map(address));
            }
        }
        addresses
    }

    fn ids(&self, name: &str) -> Vec<String> {
        let mut ids = Vec::new();
        for line in self.lines(name) {
            let found = MessageStream::new(line.as_bytes()).parse_id();
            let found = found.into_text_list().unwrap_or_default();
            ids.extend(found.into_iter().map(String::from));
        }
        ids
    }

    fn date(&self) -> Option<i64> {
        let line = self.lines("date").next()?;
        let date = MessageStream::new(line.as_bytes()).parse_date();
        let date = date
            .into_datetime()
            .filter(mail_parser::DateTime::is_valid)?;
        Some(date.to_timestamp() * 1000)
    }

    fn list_id(&self) -> Option<String> {
        let line = self.lines("list-id").next()?;
        let id = line.rsplit_once('<').map_or(line.as_str(), |(_, id)| id);
        let id = id.split('>').next().unwrap_or_default().trim();
        (!id.is_empty()).then(|| id.to_owned())
    }
}

fn address(found: &mail_parser::Addr<'_>) -> Option<Address> {
    Some(Address {
        name: found.name().unwrap_or_default().to_owned(),
        address: found.address()?.to_owned(),
    })
}

/// Returns the words of a text in lower case: maximal runs of letters and digits. Texts
/// and queries that are split by it can be compared.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Returns the text of an HTML document: no tags, no comments, no styles, no scripts, entities
/// resolved.
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

/// Returns the beginning of a text on one line, with the characters that mean something in HTML as
/// entities, as Gmail gives it.
pub(super) fn snippet_of(text: &str) -> String {
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
        Some((words, cut)) if !ends_with_word && cut.chars().count() < MAX_CUT_WORD_LEN => words,
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
    fn html_text_is_the_visible_text() {
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
            snippet_of(" a\r\n\tb  <c> & \"d\" 'e'"),
            "a b &lt;c&gt; &amp; &quot;d&quot; &#39;e&#39;"
        );
        assert_eq!(snippet_of(" \r\n "), "");
    }

    #[test]
    fn a_snippet_ends_with_a_word_unless_the_word_is_too_long() {
        let cut = |text: &str| snippet_of(text).chars().count();
        assert_eq!(cut(&"word ".repeat(100)), 199);
        assert_eq!(cut(&format!("x{}", "word ".repeat(100))), 200);
        assert_eq!(cut(&format!("{} tail", "x".repeat(200))), 200);
        assert_eq!(cut(&format!("{}x tail", "x".repeat(200))), 200);
        assert_eq!(cut(&format!("short {}", "é".repeat(1000))), 200);
        assert_eq!(cut(&format!("{} {}", "x".repeat(180), "y".repeat(30))), 180);
    }
}
