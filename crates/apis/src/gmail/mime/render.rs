//! Structures as the JSON of the Gmail API.

use std::collections::HashMap;
use std::iter::Peekable;
use std::slice::Iter;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::{Map, Value, json};

use super::structure::{Content, Header, Part, Structure};

/// The bytes of [`Part::range`] by [`Part::id`], as they lie in the message.
pub type Bodies = HashMap<String, Vec<u8>>;

impl Structure {
    /// The payload of a message with `format=full`: the tree of its parts.
    ///
    /// `bodies` holds those of [`inline_parts`](Self::inline_parts); a part whose body is not there is
    /// shown without its data. `attachment_id` names the parts that are fetched.
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

    /// The payload of a message with `format=metadata`: the media type and the header fields with these
    /// names, in any case, or all of them if there are no names.
    pub fn headers_only(&self, names: &[impl AsRef<str>]) -> Value {
        let is_asked_for = |header: &&Header| {
            let mut names = names.iter().map(AsRef::as_ref);
            names.len() == 0 || names.any(|name| header.name.eq_ignore_ascii_case(name))
        };
        let headers: Vec<_> = self.headers().iter().filter(is_asked_for).collect();
        let mime_type = self.parts().first().map(Part::mime_type);
        json!({ "mimeType": mime_type, "headers": headers })
    }

    /// The bodies of the inline parts, taken from the whole message that this is the structure of.
    pub fn bodies(&self, raw: &[u8]) -> Bodies {
        let body = |part: &Part| (part.id().to_owned(), part.body_in(raw).to_vec());
        self.inline_parts().map(body).collect()
    }
}

impl Part {
    /// The body as it lies in the whole message; nothing if the message is another one and too short.
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
    /// Takes what follows the part and lies deeper as its children. As deep as the parts are nested, which is bounded.
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
