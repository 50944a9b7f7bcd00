//! The methods on their own paths, and downloads of media on paths below `/download`.

use serde_json::{Value, json};

use super::operations::{Operation, binary, json_response, with_errors};
use super::paths::Place;
use super::{Converter, Entry, add_sentence, parameters};

impl Converter<'_> {
    /// Adds the methods on their own paths.
    pub(super) fn add_plain(&mut self, entries: &[Entry<'_>]) {
        for entry in entries {
            let place = self.paths.place(&entry.method.template);
            let id = self.operation_ids.unique(&entry.method.id);
            let operation = self.plain(*entry, &place, &id);
            self.add(&place, &entry.method.http_method, operation);
        }
    }

    /// Adds the downloads of all methods that have another reply as well.
    pub(super) fn add_downloads(&mut self, entries: &[Entry<'_>]) {
        for entry in entries {
            let method = entry.method;
            if !method.supports_media_download || is_media_only(*entry) {
                continue;
            }
            let place = self.paths.place(&method.template.below("download"));
            let id = self.unique_id(*entry, "media");
            let description = format!("The media of `{}`, as that with `alt=media`.", method.id);
            let mut operation = self.operation(*entry, &id, &description);
            let mut parameters = self.parameters(*entry, &place);
            parameters.push(range_header());
            operation.insert("parameters".into(), parameters.into());
            operation.insert("responses".into(), download_responses());
            self.add(&place, &method.http_method, operation);
        }
    }

    fn plain(&self, entry: Entry<'_>, place: &Place, id: &str) -> Operation {
        let mut description = entry.described.description.clone().unwrap_or_default();
        let is_media_only = is_media_only(entry);
        if entry.method.supports_media_download && !is_media_only {
            let id = &entry.method.id;
            let sentence = format!("Its media is the reply of `{id}.media`.");
            add_sentence(&mut description, &sentence);
        }
        let mut parameters = self.parameters(entry, place);
        if is_media_only {
            parameters.push(range_header());
        } else {
            parameters.extend(parameters::standard_references(self.api.document(), entry));
        }
        let mut operation = self.operation(entry, id, &description);
        operation.insert("parameters".into(), parameters.into());
        self.add_metadata(&mut operation, entry);
        let responses = if is_media_only {
            download_responses()
        } else {
            responses("200", self.reply(entry))
        };
        operation.insert("responses".into(), responses);
        operation
    }
}

/// Returns the responses of a call: with JSON at this status, or with nothing.
fn responses(status: &str, schema: Option<Value>) -> Value {
    match schema {
        Some(schema) => with_errors(status, &json_response(&schema)),
        None => with_errors("204", &json!({"description": "Done."})),
    }
}

/// Whether a method has no reply but media.
fn is_media_only(entry: Entry<'_>) -> bool {
    entry.method.supports_media_download && entry.method.response.is_none()
}

/// Returns the header that requests a part of the media.
fn range_header() -> Value {
    json!({
        "name": "Range",
        "in": "header",
        "description": "`bytes=FIRST-LAST`: a part of the media.",
        "schema": {"type": "string"},
    })
}

/// Returns the responses with media.
fn download_responses() -> Value {
    let content = json!({"*/*": {"schema": binary()}});
    json!({
        "200": {"description": "The media, with its own type.", "content": content},
        "206": {
            "description": "The part that was asked for.",
            "headers": {"Content-Range": {"schema": {"type": "string"}}},
            "content": content,
        },
        "416": {
            "description": "The media has no such part.",
            "headers": {"Content-Range": {"description": "`bytes */SIZE`.", "schema": {"type": "string"}}},
        },
        "default": {"$ref": "#/components/responses/Error"},
    })
}
