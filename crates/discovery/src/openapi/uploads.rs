//! Uploads, on their own paths (docs/protocol.md, 2.1).

use http::Method as HttpMethod;
use serde_json::{Map, Value, json};

use super::operations::{Operation, binary, json_response, with_errors};
use super::paths::Place;
use super::{Converter, Entry, SCHEME, add_sentence, parameters};
use crate::media_range::MediaRange;
use crate::method::MediaUpload;

/// The methods that begin sessions on one path.
struct Starts<'a> {
    place: Place,
    entries: Vec<Entry<'a>>,
}

impl Converter<'_> {
    /// Adds the uploads of all methods.
    pub(super) fn add_uploads(&mut self, entries: &[Entry<'_>]) {
        let mut all_starts: Vec<Starts<'_>> = Vec::new();
        for entry in entries {
            let Some(upload) = &entry.method.upload else {
                continue;
            };
            let template = &entry.method.template;
            let place = self.paths.place(&template.below("upload"));
            let id = self.unique_id(*entry, "upload");
            let operation = self.one_request(*entry, upload, &place, &id);
            self.add(&place, &entry.method.http_method, operation);
            let place = self.paths.place(&template.below("resumable/upload"));
            let mut known = all_starts.iter_mut();
            match known.find(|starts| starts.place.path == place.path) {
                Some(starts) => starts.entries.push(*entry),
                None => all_starts.push(Starts {
                    place,
                    entries: vec![*entry],
                }),
            }
        }
        for starts in &all_starts {
            self.add_sessions(starts);
        }
    }

    /// The upload types of one request, `media` and `multipart`.
    fn one_request(
        &self,
        entry: Entry<'_>,
        upload: &MediaUpload,
        place: &Place,
        id: &str,
    ) -> Operation {
        let mut description = format!("`{}` with media, in one request.", entry.method.id);
        let mut types = vec!["media"];
        if upload.simple_multipart {
            types.push("multipart");
            add_sentence(
                &mut description,
                "The body is the media (`uploadType=media`), or metadata and media (`uploadType=multipart`).",
            );
        }
        let mut parameters = self.parameters(entry, place);
        parameters.push(upload_type(&types));
        parameters.extend(parameters::standard_references(self.api.document(), entry));
        let mut operation = self.operation(entry, id, &description);
        operation.insert("parameters".into(), parameters.into());
        let content = self.upload_content(entry, upload);
        operation.insert(
            "requestBody".into(),
            json!({"required": true, "content": content}),
        );
        operation.insert("responses".into(), with_errors("200", &self.done(entry)));
        operation
    }

    fn upload_content(&self, entry: Entry<'_>, upload: &MediaUpload) -> Map<String, Value> {
        let ranges = accepted(upload);
        let mut content = Map::new();
        for range in &ranges {
            let media = self.media_of_range(entry, range);
            content.insert(range.to_string(), json!({"schema": media}));
        }
        if upload.simple_multipart {
            let metadata = self.schemas.request(entry);
            let types: Vec<_> = ranges.iter().map(ToString::to_string).collect();
            let form = multipart_form(metadata, &types.join(", "));
            content.insert("multipart/form-data".into(), form);
            content.insert("multipart/related".into(), multipart_related());
        }
        content
    }

    /// Returns the schema of media, with the largest size for these types. OpenAPI lets `maxLength`
    /// count the octets of binary data.
    fn media_of_range(&self, entry: Entry<'_>, range: &MediaRange) -> Value {
        let largest = self
            .api
            .settings()
            .max_size(entry.method, &range.to_string());
        match largest {
            Some(largest) => json!({
                "type": "string",
                "format": "binary",
                "description": format!("At most {largest}."),
                "maxLength": largest.bytes(),
            }),
            None => binary(),
        }
    }

    /// Adds the operations that start sessions on a path, and the operations on a session.
    fn add_sessions(&mut self, starts: &Starts<'_>) {
        let taken = |it: &&HttpMethod| {
            starts
                .entries
                .iter()
                .any(|of| of.method.http_method == **it)
        };
        // PUT and POST mean the same on a session.
        let append = [HttpMethod::PUT, HttpMethod::POST];
        let append = append.iter().find(|it| !taken(it));
        let first = starts.entries[0];
        let append = append.map(|it| (it, self.unique_id(first, "resumable.append")));
        for entry in &starts.entries {
            let id = self.unique_id(*entry, "resumable");
            let append_id = append.as_ref().map(|(_, id)| id.as_str());
            let operation = self.start(*entry, &starts.place, &id, append_id);
            self.add(&starts.place, &entry.method.http_method, operation);
        }
        if let Some((http_method, id)) = append {
            let operation = self.append(starts, &id);
            self.add(&starts.place, http_method, operation);
        }
        let id = self.unique_id(first, "resumable.cancel");
        let operation = self.cancel(starts, &id);
        self.add(&starts.place, &HttpMethod::DELETE, operation);
    }

    fn start(
        &self,
        entry: Entry<'_>,
        place: &Place,
        id: &str,
        append_id: Option<&str>,
    ) -> Operation {
        let mut description = format!(
            "Begins a resumable upload for `{}`. The body is the metadata, or nothing. The media goes to \
             the URI in `Location`, with PUT.",
            entry.method.id
        );
        if append_id.is_none() {
            add_sentence(
                &mut description,
                "OpenAPI leaves no operation for that here: this path begins uploads with PUT and with POST.",
            );
        }
        let mut parameters = self.parameters(entry, place);
        parameters.push(upload_type(&["resumable"]));
        parameters.extend(media_headers());
        parameters.extend(parameters::standard_references(self.api.document(), entry));
        let mut operation = self.operation(entry, id, &description);
        operation.insert("parameters".into(), parameters.into());
        self.add_metadata(&mut operation, entry);
        let started = started(place, append_id);
        operation.insert("responses".into(), with_errors("200", &started));
        operation
    }

    fn append(&self, starts: &Starts<'_>, id: &str) -> Operation {
        let description = "Sends bytes of a resumable upload, or asks how many have arrived. Send all of \
            the media without `Content-Range`, or chunks whose sizes are multiples of 262144 bytes \
            (`bytes 0-262143/1000000`), or nothing (`bytes */*`) to ask. Only bytes that `Range` of the \
            reply names have arrived.";
        let mut operation = self.session_operation(starts, id, description);
        if let Some(parameters) = operation
            .get_mut("parameters")
            .and_then(Value::as_array_mut)
        {
            parameters.push(json!({
                "name": "Content-Range",
                "in": "header",
                "description": "`bytes FIRST-LAST/TOTAL`, with `*` for a total that is not known yet; \
                    `bytes */TOTAL` without bytes.",
                "schema": {"type": "string"},
            }));
        }
        // The type of the media is known from the start; here any will do.
        let content = json!({"application/octet-stream": {"schema": binary()}});
        operation.insert("requestBody".into(), json!({"content": content}));
        operation.insert("responses".into(), self.append_responses(starts));
        operation
    }

    fn append_responses(&self, starts: &Starts<'_>) -> Value {
        let has_post = |entry: &Entry<'_>| entry.method.http_method == HttpMethod::POST;
        let created = self.api.settings().created_status.status_code();
        let status = if starts.entries.iter().any(has_post) {
            created.as_str()
        } else {
            "200"
        };
        json!({
            status: self.finished(starts),
            "308": {
                "description": "Resume Incomplete: more bytes are wanted.",
                "headers": {"Range": {
                    "description": "`bytes=0-LAST`, the bytes that have arrived; absent if there are none.",
                    "schema": {"type": "string"},
                }},
            },
            "default": {
                "description": "The request was refused, or failed. Errors about `Content-Range` are text. \
                    404 and 410: the session is gone, begin another one. 5xx: ask, and go on.",
                "content": {
                    "application/json": {"schema": self.schemas.error()},
                    "text/plain": {"schema": {"type": "string"}},
                },
            },
        })
    }

    /// Returns the response at the end of a session, whichever method has begun it.
    fn finished(&self, starts: &Starts<'_>) -> Value {
        let mut schemas: Vec<Value> = Vec::new();
        for schema in starts.entries.iter().filter_map(|it| self.reply(*it)) {
            if !schemas.contains(&schema) {
                schemas.push(schema);
            }
        }
        match &schemas[..] {
            [] => self.done(starts.entries[0]),
            [schema] => json_response(schema),
            several => json_response(&json!({"anyOf": several})),
        }
    }

    fn cancel(&self, starts: &Starts<'_>, id: &str) -> Operation {
        let description = "Ends a resumable upload. What has arrived is deleted.";
        let mut operation = self.session_operation(starts, id, description);
        let cancelled = json!({"description": "Client Closed Request: the upload is cancelled."});
        operation.insert("responses".into(), with_errors("499", &cancelled));
        operation
    }

    /// An operation on a session. It needs only the session's URI.
    fn session_operation(&self, starts: &Starts<'_>, id: &str, description: &str) -> Operation {
        let entry = starts.entries[0];
        let mut operation = self.operation(entry, id, description);
        if self.has_scopes {
            // A server may demand the credentials of the start nevertheless.
            operation.insert("security".into(), json!([{}, {SCHEME: []}]));
        }
        let in_path = parameters::in_path(entry, &starts.place, &self.schemas);
        let mut parameters: Vec<_> = in_path.collect();
        parameters.push(json!({
            "name": "upload_id",
            "in": "query",
            "description": "The session: `X-GUploader-UploadID` of the reply to its start. It is a credential.",
            "required": true,
            "schema": {"type": "string"},
        }));
        operation.insert("parameters".into(), parameters.into());
        operation
    }

    /// Returns the response of an upload. Without a schema it may have content that is not
    /// described.
    fn done(&self, entry: Entry<'_>) -> Value {
        let schema = self.reply(entry);
        schema.map_or_else(|| json!({"description": "Done."}), |it| json_response(&it))
    }
}

/// A method that lists no types accepts all.
fn accepted(upload: &MediaUpload) -> Vec<MediaRange> {
    if upload.accept.is_empty() {
        vec![MediaRange::All]
    } else {
        upload.accept.clone()
    }
}

fn upload_type(types: &[&str]) -> Value {
    let schema = match types {
        [only] => json!({"type": "string", "const": only}),
        several => json!({"type": "string", "enum": several}),
    };
    json!({"name": "uploadType", "in": "query", "required": true, "schema": schema})
}

/// The headers of a start that describe the media.
fn media_headers() -> [Value; 2] {
    [
        json!({
            "name": "X-Upload-Content-Type",
            "in": "header",
            "description": "The type of the media.",
            "schema": {"type": "string"},
        }),
        json!({
            "name": "X-Upload-Content-Length",
            "in": "header",
            "description": "The size of the media in bytes, if it is known.",
            "schema": {"type": "integer", "format": "int64", "minimum": 0},
        }),
    ]
}

/// Generated clients can send form data. The order of its parts tells them apart.
fn multipart_form(metadata: Option<Value>, types: &str) -> Value {
    let metadata = metadata.unwrap_or_else(|| json!({"type": "object"}));
    json!({
        "schema": {
            "type": "object",
            "description": "The metadata comes first.",
            "properties": {"metadata": metadata, "media": binary()},
            "required": ["metadata", "media"],
            "additionalProperties": false,
        },
        "encoding": {
            "metadata": {"contentType": "application/json"},
            "media": {"contentType": types},
        },
    })
}

/// The parts have no names, and OpenAPI 3.1 describes only named parts. The whole body is therefore
/// described as one binary text.
fn multipart_related() -> Value {
    json!({"schema": {
        "type": "string",
        "format": "binary",
        "description": "RFC 2387 with two parts: first the metadata as JSON, then the media with its type.",
    }})
}

fn started(place: &Place, append_id: Option<&str>) -> Value {
    let mut started = json!({
        "description": "The upload has begun.",
        "headers": {
            "Location": {
                "description": "The URI of the session. It is a credential.",
                "schema": {"type": "string", "format": "uri"},
            },
            "X-GUploader-UploadID": {
                "description": "The `upload_id` of that URI.",
                "schema": {"type": "string"},
            },
        },
    });
    if let Some(append_id) = append_id {
        let mut parameters = Map::new();
        for variable in &place.variables {
            let value = format!("$request.path.{}", variable.name);
            parameters.insert(variable.name.clone(), value.into());
        }
        let upload_id = "$response.header.X-GUploader-UploadID";
        parameters.insert("upload_id".into(), upload_id.into());
        started["links"] = json!({
            "append": {"operationId": append_id, "parameters": parameters},
        });
    }
    started
}
