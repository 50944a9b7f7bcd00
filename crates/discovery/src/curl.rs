//! Command lines for curl that upload a file, for people who look at an API for the first time.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::method::Method;
use crate::parameter::Location;
use crate::schema::Schema;

/// Files that people have, with their types.
const SAMPLES: [(&str, &str); 6] = [
    ("cow.jpg", "image/jpeg"),
    ("cow.png", "image/png"),
    ("cow.mp4", "video/mp4"),
    ("cow.mp3", "audio/mpeg"),
    ("cow.txt", "text/plain"),
    ("cow.eml", "message/rfc822"),
];

/// Returns the command line by which curl uploads a file to a method that takes media.
///
/// Values that only the user can know are placeholders in braces. Without required fields, the
/// upload sends the media alone. With required fields, the upload is multipart and has a value for
/// each field.
///
/// ```
/// use windlass_discovery::{Api, curl};
///
/// let album = Api::from_toml(r#"
///     name = "album"
///     version = "v1"
///     [collections.photos]
///     media = {}
/// "#)?;
/// let insert = album.method("album.photos.insert").expect("it is described");
/// assert_eq!(
///     curl::upload_command(&album, insert, "http://127.0.0.1:8080"),
///     "curl -X POST -T cow.jpg -H 'Content-Type: image/jpeg' \
///      'http://127.0.0.1:8080/upload/album/v1/photos?uploadType=media'"
/// );
/// # Ok::<(), windlass_discovery::Error>(())
/// ```
pub fn upload_command(api: &Api, method: &Method, base_url: &str) -> String {
    let metadata = required_metadata(api, method);
    let upload_type = if metadata.is_empty() {
        "media"
    } else {
        "multipart"
    };
    let path = method.template.as_str();
    let mut url = format!("{base_url}/upload/{path}?uploadType={upload_type}");
    for name in query(method) {
        let _ = write!(url, "&{name}={{{name}}}");
    }
    let (file, content_type) = sample(method);
    let body = if metadata.is_empty() {
        let content_type = quoted(&format!("Content-Type: {content_type}"));
        format!("-T {file} -H {content_type}")
    } else {
        // curl adds the boundary to the type.
        let metadata = format!("={};type=application/json", Value::Object(metadata));
        let media = format!("=@{file};type={content_type}");
        let (metadata, media) = (quoted(&metadata), quoted(&media));
        format!("-H 'Content-Type: multipart/related' -F {metadata} -F {media}")
    };
    format!("curl -X {} {body} {}", method.http_method, quoted(&url))
}

/// Returns the upload method that needs the fewest values from the user; `None` for an API without
/// uploads.
pub fn simplest_upload(api: &Api) -> Option<&Method> {
    let methods = api.methods().iter().map(|method| &**method);
    let uploads = methods.filter(|method| method.upload.is_some());
    uploads.min_by_key(|method| method.template.variables().count() + query(method).count())
}

/// The parameters that an upload needs in its query: the required ones, and a name, which otherwise
/// would be in the metadata.
fn query(method: &Method) -> impl Iterator<Item = &str> {
    let parameters = method.parameters.iter();
    let parameters = parameters.filter(|parameter| parameter.location == Location::Query);
    parameters
        .filter(|parameter| parameter.required || parameter.name == "name")
        .map(|parameter| parameter.name.as_str())
}

/// A name of a file that the method takes, and its media type.
fn sample(method: &Method) -> (&'static str, String) {
    let Some(upload) = &method.upload else {
        return ("FILE", "application/octet-stream".to_owned());
    };
    let known = SAMPLES
        .iter()
        .find(|(_, content_type)| upload.accepts(content_type));
    if let Some((file, content_type)) = known {
        return (file, (*content_type).to_owned());
    }
    let first = upload.accept.first().map(ToString::to_string);
    let any = || "application/octet-stream".to_owned();
    ("FILE", first.unwrap_or_else(any))
}

/// A value for each field that the method requires. Published documents require more fields than
/// the server enforces, so their requirements are ignored.
fn required_metadata(api: &Api, method: &Method) -> Map<String, Value> {
    let schema = method.request.as_deref().and_then(|name| api.schema(name));
    let fields = schema.iter().flat_map(|schema| &schema.properties);
    let required = fields.filter(|(_, field)| {
        api.settings().strict && !field.read_only && field.is_required_for(&method.id)
    });
    required
        .map(|(name, field)| (name.clone(), sample_value(name, field)))
        .collect()
}

/// Returns a guess of a value of the right type within the bounds, or a placeholder in braces.
fn sample_value(name: &str, field: &Schema) -> Value {
    if let Some(default) = field.default_value() {
        return default;
    }
    if let Some(first) = field.allowed_values.first() {
        return json!(first);
    }
    let guessed = match field.json_type.as_deref() {
        Some("integer" | "number") => least(field),
        Some("boolean") => json!(true),
        Some("object") => json!({}),
        Some("array") => json!([]),
        _ => json!(name),
    };
    let fits = match &guessed {
        Value::String(text) => {
            field.pattern.is_none() && field.format.is_none() && !text.is_empty()
        }
        _ => true,
    };
    if fits && field.reference.is_none() && field.broken_bound(&guessed).is_none() {
        guessed
    } else {
        json!(format!("{{{name}}}"))
    }
}

/// The least number that is allowed, or 1.
fn least(field: &Schema) -> Value {
    let minimum = field.extra.get("minimum").and_then(Value::as_str);
    let minimum = minimum.and_then(|text| serde_json::from_str(text).ok());
    minimum.filter(Value::is_number).unwrap_or(json!(1))
}

/// One word of a shell's command line.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(lines: &str) -> String {
        let api = format!("name = \"album\"\nversion = \"v1\"\n{lines}");
        let api = Api::from_toml(&api).expect("it is valid");
        let method = simplest_upload(&api).expect("it takes media");
        upload_command(&api, method, "http://h")
    }

    #[test]
    fn media_goes_alone_where_nothing_is_required() {
        let lines =
            "[collections.photos]\nschema = { title = \"string\" }\nmedia.accept = [\"video/*\"]";
        assert_eq!(
            command(lines),
            "curl -X POST -T cow.mp4 -H 'Content-Type: video/mp4' 'http://h/upload/album/v1/photos?uploadType=media'"
        );
    }

    #[test]
    fn required_fields_go_with_the_media() {
        let lines = r#"
            [collections.photos.schema]
            title = { type = "string", required = true }
            stars = { type = "integer", required = true, min = 2 }
            mood = { type = "string", required = true, enum = ["calm", "wild"] }
            tags = { type = "string[]", required = true }
            code = { type = "string", required = true, pattern = "[A-Z]{3}" }
            note = "string"
            seen = { type = "boolean", required_for = ["photos.insert"] }
            later = { type = "boolean", required_for = ["photos.update"] }
            [collections.photos.media]
            accept = ["application/x-cow"]
        "#;
        assert_eq!(
            command(lines),
            "curl -X POST -H 'Content-Type: multipart/related' \
             -F '={\"code\":\"{code}\",\"mood\":\"calm\",\"seen\":true,\"stars\":2,\"tags\":[],\"title\":\"title\"};type=application/json' \
             -F '=@FILE;type=application/x-cow' 'http://h/upload/album/v1/photos?uploadType=multipart'"
        );
    }

    #[test]
    fn a_quote_does_not_end_the_word() {
        assert_eq!(quoted("a'b c"), r"'a'\''b c'");
    }
}
