//! The structure of a message, which is stored besides its bytes, and its JSON in the Gmail API.

use std::collections::HashMap;
use std::iter::Peekable;
use std::ops::Range;
use std::slice::Iter;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::encoding::{TransferEncoding, decode};
use super::headers::Params;
use super::{Entity, MAX_INLINE_BYTES, MAX_INLINE_TOTAL, encoding, headers};

/// A message without its bodies: the tree of its parts, and where their bodies are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Structure {
    size: u64,
    /// The parts in the order in which they begin: the order of a walk through the tree. The first
    /// part is the root.
    parts: Vec<Part>,
}

/// A part of a message; the root is one too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    id: String,
    mime_type: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    file_name: String,
    headers: Vec<Header>,
    range: Range<u64>,
    #[serde(default)]
    encoding: TransferEncoding,
    /// The charset of text in a known charset other than UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    charset: Option<String>,
    content: Content,
    size: u64,
}

/// A header field: the name as written, the value unfolded and decoded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The name, e.g. `Subject`.
    pub name: String,
    /// The value as text for people.
    pub value: String,
}

/// How a client reads the body of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// It has only parts and no body.
    Multipart,
    /// It is shown with the message.
    Inline,
    /// It would be shown with the message but is too large, so it is fetched like an attachment.
    Large,
    /// It is fetched: it has a file name, says that it is an attachment, or is an attached message.
    Attachment,
}

impl Structure {
    pub(super) fn new(raw: &[u8], entities: &[Entity]) -> Self {
        let mut inline_left = MAX_INLINE_TOTAL;
        let part = |entity| Part::new(raw, entity, &mut inline_left);
        Self {
            size: raw.len() as u64,
            parts: entities.iter().map(part).collect(),
        }
    }

    /// Returns the bytes of the whole message: Gmail's `sizeEstimate`.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// All parts, each before its children. The first is the root.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the part with this id. The root's is empty.
    pub fn part(&self, id: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.id == id)
    }

    /// Returns the parts with bodies that are shown with the message, for
    /// [`payload`](Self::payload).
    pub fn inline_parts(&self) -> impl Iterator<Item = &Part> {
        let parts = self.parts.iter();
        parts.filter(|part| part.content == Content::Inline)
    }

    /// Returns the header of the message.
    pub fn headers(&self) -> &[Header] {
        self.parts.first().map_or(&[], |root| &root.headers)
    }

    /// Returns the value of the first header field of this name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let is_named = |header: &&Header| header.name.eq_ignore_ascii_case(name);
        Some(&self.headers().iter().find(is_named)?.value)
    }
}

impl Part {
    fn new(raw: &[u8], entity: &Entity, inline_left: &mut u64) -> Self {
        let mime_type = entity.mime_type().to_owned();
        let (file_name, is_attached) = attachment(raw, entity);
        let is_text = mime_type.starts_with("text/");
        let charset = entity.content_type.param("charset").filter(|_| is_text);
        let mut part = Self {
            id: entity.id.clone(),
            mime_type,
            charset: charset.filter(|charset| encoding::is_foreign_charset(charset)),
            headers: headers(raw, entity),
            range: entity.body.start as u64..entity.body.end as u64,
            encoding: entity.encoding,
            content: Content::Inline,
            size: 0,
            file_name,
        };
        if entity.mime_type().starts_with("multipart/") {
            // Transfer encodings are not for multiparts (RFC 2045, 6.4).
            part.encoding = TransferEncoding::Identity;
        }
        if entity.children > 0 && !entity.is_message() {
            part.content = Content::Multipart;
        } else {
            part.measure(&raw[entity.body.clone()], is_attached, inline_left);
        }
        part
    }

    fn measure(&mut self, body: &[u8], is_attached: bool, inline_left: &mut u64) {
        let decoded = self.decoded(body);
        self.size = decoded.len() as u64;
        if is_attached {
            self.content = Content::Attachment;
            return;
        }
        if self.size <= MAX_INLINE_BYTES {
            self.size = self.converted(decoded).len() as u64;
        }
        if self.size > MAX_INLINE_BYTES.min(*inline_left) {
            self.content = Content::Large;
            self.size = self.decoded(body).len() as u64;
        } else {
            *inline_left -= self.size;
        }
    }

    /// Returns the id within the message: empty for the root, `0.1` for example for an inner part.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the media type without parameters, in lower case. An invalid type is `text/plain`.
    pub fn mime_type(&self) -> &str {
        &self.mime_type
    }

    /// Returns the name of the file that is attached, or nothing.
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// Returns the header fields of the part.
    pub fn headers(&self) -> &[Header] {
        &self.headers
    }

    /// Returns the range of the encoded body in the message.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns the transfer encoding of the body.
    pub fn encoding(&self) -> TransferEncoding {
        self.encoding
    }

    /// How a client reads the body.
    pub fn content(&self) -> Content {
        self.content
    }

    /// Returns the bytes of the body as [`data`](Self::data) gives it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns whether the body has to be fetched by an attachment id.
    pub fn is_fetched(&self) -> bool {
        matches!(self.content, Content::Large | Content::Attachment)
    }

    /// Returns the body that a client gets, given the bytes of [`range`](Self::range): without its
    /// transfer encoding, and in UTF-8 if it is inline text.
    pub fn data(&self, body: &[u8]) -> Vec<u8> {
        let decoded = self.decoded(body);
        match self.content {
            Content::Inline => self.converted(decoded),
            _ => decoded,
        }
    }

    /// Returns the text that the beginning of a body holds, whether it is inline or not.
    pub(super) fn text(&self, body: &[u8]) -> String {
        encoding::guess_text(&self.converted(self.decoded(body)))
    }

    /// Returns the number of parts that enclose this part.
    pub(super) fn depth(&self) -> usize {
        match self.id.as_str() {
            "" => 0,
            id => 1 + id.bytes().filter(|&byte| byte == b'.').count(),
        }
    }

    fn decoded(&self, body: &[u8]) -> Vec<u8> {
        decode(self.encoding, body)
    }

    fn converted(&self, bytes: Vec<u8>) -> Vec<u8> {
        let charset = self.charset.as_ref();
        match charset.and_then(|charset| encoding::decode_charset(charset, &bytes)) {
            Some(text) => text.into_bytes(),
            None => bytes,
        }
    }
}

/// Returns the file name of a part, and whether it is an attachment.
fn attachment(raw: &[u8], entity: &Entity) -> (String, bool) {
    let disposition = headers::value(raw, &entity.fields, "content-disposition");
    let disposition = Params::parse(&disposition.unwrap_or_default());
    let name = disposition.param("filename");
    let name = name.filter(|name| !name.is_empty());
    let name = name.or_else(|| entity.content_type.param("name"));
    let name: String = name
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    let is_attached = !name.is_empty() || disposition.value == "attachment" || entity.is_message();
    (name, is_attached)
}

fn headers(raw: &[u8], entity: &Entity) -> Vec<Header> {
    let header = |field: &headers::Field| Header {
        name: field.name(raw),
        value: field.text(raw),
    };
    entity.fields.iter().map(header).collect()
}

/// The bytes of [`Part::range`] by [`Part::id`], as encoded in the message.
pub type Bodies = HashMap<String, Vec<u8>>;

impl Structure {
    /// Returns the payload of a message with `format=full`: the tree of its parts.
    ///
    /// `bodies` holds the bodies of [`inline_parts`](Self::inline_parts). A part with a missing
    /// body is shown without its data. `attachment_id` names the parts that are fetched.
    pub fn payload(&self, bodies: &Bodies, attachment_id: impl Fn(&Part) -> String) -> Value {
        let render = Render {
            bodies,
            attachment_id,
        };
        let mut parts = self.parts().iter().peekable();
        parts
            .next()
            .map_or(Value::Null, |root| render.part(root, &mut parts))
    }

    /// Returns the payload of a message with `format=metadata`: the media type and the header
    /// fields with these names, in any case, or all of them if there are no names.
    pub fn headers_only(&self, names: &[impl AsRef<str>]) -> Value {
        let is_asked_for = |header: &&Header| {
            let mut names = names.iter().map(AsRef::as_ref);
            names.len() == 0 || names.any(|name| header.name.eq_ignore_ascii_case(name))
        };
        let headers: Vec<_> = self.headers().iter().filter(is_asked_for).collect();
        let mime_type = self.parts().first().map(Part::mime_type);
        json!({ "mimeType": mime_type, "headers": headers })
    }

    /// Returns the bodies of the inline parts, taken from the whole message that this is the
    /// structure of.
    pub fn bodies(&self, raw: &[u8]) -> Bodies {
        let body = |part: &Part| (part.id().to_owned(), part.body_in(raw).to_vec());
        self.inline_parts().map(body).collect()
    }
}

impl Part {
    /// Returns the encoded body in the whole message. Returns nothing if the message is too short,
    /// and thus a different message.
    pub(super) fn body_in<'a>(&self, raw: &'a [u8]) -> &'a [u8] {
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        let range = self.range();
        raw.get(at(range.start)..at(range.end)).unwrap_or_default()
    }
}

struct Render<'a, F> {
    bodies: &'a Bodies,
    attachment_id: F,
}

impl<F: Fn(&Part) -> String> Render<'_, F> {
    /// Renders the following deeper parts as children. Recursion is bounded by the nesting of
    /// parts, [`MAX_DEPTH`](super::MAX_DEPTH).
    fn part(&self, part: &Part, rest: &mut Peekable<Iter<'_, Part>>) -> Value {
        let mut children = Vec::new();
        while let Some(child) = rest.next_if(|next| next.depth() > part.depth()) {
            children.push(self.part(child, rest));
        }
        let mut rendered = json!({
            "partId": part.id(),
            "mimeType": part.mime_type(),
            "filename": part.file_name(),
            "headers": part.headers(),
            "body": self.body(part),
        });
        if !children.is_empty() {
            rendered["parts"] = children.into();
        }
        rendered
    }

    fn body(&self, part: &Part) -> Value {
        let mut body = Map::new();
        if part.is_fetched() {
            body.insert("attachmentId".to_owned(), (self.attachment_id)(part).into());
        }
        body.insert("size".to_owned(), part.size().into());
        let inline = (part.content() == Content::Inline).then(|| self.bodies.get(part.id()));
        if let Some(bytes) = inline.flatten() {
            let data = URL_SAFE.encode(part.data(bytes));
            body.insert("data".to_owned(), data.into());
        }
        body.into()
    }
}
