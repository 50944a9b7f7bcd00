//! What a mailbox sorts and searches messages by.

use mail_parser::HeaderValue;
use mail_parser::parsers::MessageStream;
use serde::{Deserialize, Serialize};

use super::fields::{self, Field};
use super::structure::{Content, Part, Structure};
use super::{MAX_ADDRESSES, Malformed, text};

/// The bytes of [`Summary::text`], at most.
const MAX_TEXT: usize = 64 * 1024;
/// How much of all bodies is looked at for text. HTML says little in many bytes.
const MAX_TEXT_SOURCE: usize = 1024 * 1024;
const ADDRESS_FIELDS: [&str; 4] = ["from", "to", "cc", "bcc"];

/// What a message is found by.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Who wrote it.
    pub from: Vec<Address>,
    /// Whom it is for.
    pub to: Vec<Address>,
    /// Who gets a copy.
    pub cc: Vec<Address>,
    /// Who gets a copy that the others do not see.
    pub bcc: Vec<Address>,
    /// The subject as text.
    pub subject: String,
    /// Milliseconds since the epoch, as the header `Date` says; `None` without one that makes sense.
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
    /// The [`words`](super::words) of the parts that are text, with a blank between; at most 64 KiB.
    pub text: String,
    /// The beginning of the text, as Gmail shows it beside the subject.
    pub snippet: String,
}

/// A mailbox, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The name as text; often nothing.
    pub name: String,
    /// E.g. `someone@example.com`, as written.
    pub address: String,
}

impl Structure {
    /// The summary of the message that this is the structure of.
    pub fn summary(&self, raw: &[u8]) -> Summary {
        let fields = fields::of_message(raw);
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

    /// The words of all texts, and the snippet of the first that says something.
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
                snippet = text::snippet(&text);
            }
            if !append_words(&mut all, &text) {
                break;
            }
        }
        (all, snippet)
    }
}

/// The text that a reader would see of the body of a part.
fn readable(part: &Part, body: &[u8]) -> Option<String> {
    if !matches!(part.content(), Content::Inline | Content::Large) {
        return None;
    }
    match part.mime_type() {
        "text/plain" => Some(part.text(body)),
        "text/html" => Some(text::of_html(&part.text(body))),
        _ => None,
    }
}

/// Whether all words had room.
fn append_words(all: &mut String, text: &str) -> bool {
    for word in text::words(text) {
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

/// Counts commas, which is quick and never too few.
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
