//! The fields of a resource that the server fills in, by the names that APIs give them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use windlass_discovery::{Api, Digest, Method, Schema};
use windlass_store::{Resource, Timestamp};

use super::operation::CallContext;
use super::schema_validation::resolve;

/// The fields that only the server fills in. Values that a client gives are dropped.
const SERVER_FIELDS: [&str; 24] = [
    "contentType",
    "crc32c",
    "createTime",
    "createdTime",
    "etag",
    "fileSize",
    "filesize",
    "id",
    "kind",
    "md5Checksum",
    "md5Hash",
    "mimeType",
    "mime_type",
    "selfLink",
    "sha256Checksum",
    "sha256Hash",
    "size",
    "sizeBytes",
    "size_bytes",
    "timeCreated",
    "uid",
    "updateTime",
    "updated",
    "updatedTime",
];

/// Whether only the server fills in the field of this name.
pub(super) fn is_server_field(name: &str) -> bool {
    SERVER_FIELDS.binary_search(&name).is_ok()
}

/// A value that the server has for a resource.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ServerField {
    Text(String),
    Number(u64),
    Time(Timestamp),
}

/// Returns the server's value for the field of this name; `None` if it has none.
pub(super) fn server_field(
    context: &CallContext<'_>,
    resource: &Resource,
    name: &str,
) -> Option<ServerField> {
    let media = resource.media.as_ref();
    let text = match name {
        "id" | "uid" => resource.id.clone(),
        "mediaId" => media.map(|_| resource.id.clone())?,
        "etag" => etag(resource.version),
        "selfLink" => self_link(context, resource),
        "createdTime" | "createTime" | "timeCreated" | "createdDate" | "creationTime"
        | "created_at" | "uploadTime" => return Some(ServerField::Time(resource.created)),
        "updatedTime" | "updateTime" | "updated" | "modifiedTime" | "modifiedDate"
        | "updated_at" => return Some(ServerField::Time(resource.updated)),
        "mimeType" | "contentType" | "mime_type" => media?.content_type.clone(),
        "size" | "sizeBytes" | "size_bytes" | "fileSize" | "filesize" => {
            return Some(ServerField::Number(media?.length));
        }
        _ if is_digest(name) => digest(resource, name)?,
        _ => return named(context, resource, name),
    };
    Some(ServerField::Text(text))
}

/// Whether a field of this name is a digest of the media.
pub(super) fn is_digest(name: &str) -> bool {
    matches!(
        name,
        "crc32c" | "md5Hash" | "md5Checksum" | "sha256Hash" | "sha256Checksum" | "sha256"
    )
}

/// Google's APIs write a `Hash` in base64, all others in hexadecimal digits.
fn digest(resource: &Resource, name: &str) -> Option<String> {
    let digests = &resource.media.as_ref()?.digests;
    match name {
        "crc32c" => Some(digests.crc32c.to_string()),
        "md5Hash" => Some(digests.md5?.to_string()),
        "md5Checksum" => Some(to_hex(&digests.md5?.to_string())),
        "sha256Hash" => Some(digests.sha256?.to_string()),
        _ => Some(to_hex(&digests.sha256?.to_string())),
    }
}

fn to_hex(base64: &str) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    let bytes = STANDARD.decode(base64).unwrap_or_default();
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(digit).collect()
}

/// Returns the value of a field that the API names itself: a variable of the path, the id, the
/// resource's name.
fn named(context: &CallContext<'_>, resource: &Resource, name: &str) -> Option<ServerField> {
    let resource_name = || context.resource_name(&resource.collection, &resource.id);
    let text = match name {
        _ if context.names_its_id(&resource.collection, name) => Some(resource.id.clone()),
        "name" => resource_name(),
        "resourceName" => variable(context, name).or_else(resource_name),
        _ => variable(context, name),
    };
    text.map(ServerField::Text)
}

fn variable(context: &CallContext<'_>, name: &str) -> Option<String> {
    context.call.path.value(name).map(str::to_owned)
}

fn self_link(context: &CallContext<'_>, resource: &Resource) -> String {
    let collection = crate::default_handler::operation::path_of_key(&resource.collection);
    format!("{}/{collection}/{}", context.call.base_url, resource.id)
}

impl ServerField {
    /// Returns the value in the form that the property requires; `None` if it does not fit.
    pub(super) fn under(&self, property: &Schema) -> Option<Value> {
        let format = property.format.as_deref().unwrap_or_default();
        let json_type = property.json_type.as_deref()?;
        if !property.allowed_values.is_empty() {
            return None;
        }
        match (json_type, format) {
            ("string", "int64" | "uint64") => self.number().map(|number| number.to_string().into()),
            ("string", "" | "date-time" | "google-datetime" | "byte") => self.text(format),
            ("integer", "int32") => Some(i32::try_from(self.number()?).ok()?.into()),
            ("integer", "uint32") => Some(u32::try_from(self.number()?).ok()?.into()),
            ("integer" | "number", _) => Some(self.number()?.into()),
            _ => None,
        }
    }

    fn number(&self) -> Option<u64> {
        let number = match self {
            Self::Text(text) => text.parse().ok()?,
            Self::Number(number) => *number,
            Self::Time(time) => time.as_millis(),
        };
        i64::try_from(number).is_ok().then_some(number)
    }

    fn text(&self, format: &str) -> Option<Value> {
        let is_time = matches!(self, Self::Time(_));
        let wants_time = matches!(format, "date-time" | "google-datetime");
        if wants_time && !is_time {
            return None;
        }
        let text = match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Time(time) => rfc3339(*time),
        };
        Some(text.into())
    }
}

/// The entity tag of a version of a resource, quotes included.
pub(super) fn etag(version: u64) -> String {
    format!("\"v{version}\"")
}

pub(super) fn rfc3339(time: Timestamp) -> String {
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
    format!("{time:.3}")
}

/// Maximum depth at which a response schema is searched for digests: in a wrapped resource, in an
/// object of it.
const MAX_DEPTH: usize = 2;

/// Returns the API with settings that enable each digest that its upload methods return in
/// hexadecimal digits. (`md5Hash` and `sha256Hash` are shown when the settings or the client ask
/// for them.)
pub(crate) fn with_digests(api: Api) -> Api {
    let mut settings = api.settings().clone();
    for method in api.methods().iter().filter(|it| it.upload.is_some()) {
        let shown = shown_by(&api, method);
        if shown.is_empty() {
            continue;
        }
        let mut digests = settings.digests_of(method).to_vec();
        digests.extend(shown);
        digests.sort_unstable();
        digests.dedup();
        settings.digests.insert(method.id.clone(), digests);
    }
    api.with_settings(settings)
}

fn shown_by(api: &Api, method: &Method) -> Vec<Digest> {
    let schema = method.response.as_deref().and_then(|name| api.schema(name));
    let mut shown = Vec::new();
    if let Some(schema) = schema {
        collect(api, schema, MAX_DEPTH, &mut shown);
    }
    shown
}

fn collect(api: &Api, schema: &Schema, depth: usize, shown: &mut Vec<Digest>) {
    for (name, property) in &schema.properties {
        shown.extend(digest_of_field(name));
        let inner = resolve(api.document(), property).filter(|_| depth > 0);
        if let Some(inner) = inner {
            collect(api, inner, depth - 1, shown);
        }
    }
}

fn digest_of_field(name: &str) -> Option<Digest> {
    match name {
        "md5Checksum" => Some(Digest::Md5),
        "sha256Checksum" | "sha256" => Some(Digest::Sha256),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_servers_fields_can_be_searched() {
        assert!(SERVER_FIELDS.is_sorted());
    }

    #[test]
    fn a_fact_is_written_as_its_property_wants_it() {
        let property = |json_type: &str, format: &str| {
            let mut schema = Schema::of_type(json_type);
            schema.format = (!format.is_empty()).then(|| format.to_owned());
            schema
        };
        let size = ServerField::Number(5_000_000_000);
        let time = ServerField::Time(Timestamp::from_millis(1_000));
        let text = ServerField::Text("0a1b".to_owned());
        let table = [
            (&size, property("string", "int64"), json!("5000000000")),
            (&size, property("string", ""), json!("5000000000")),
            (&size, property("integer", ""), json!(5_000_000_000_u64)),
            (&size, property("integer", "int32"), Value::Null),
            (&size, property("integer", "uint32"), Value::Null),
            (&size, property("boolean", ""), Value::Null),
            (
                &time,
                property("string", "date-time"),
                json!("1970-01-01T00:00:01.000Z"),
            ),
            (&time, property("string", "int64"), json!("1000")),
            (&text, property("string", ""), json!("0a1b")),
            (&text, property("string", "uint64"), Value::Null),
            (&text, property("string", "date-time"), Value::Null),
            (&text, property("object", ""), Value::Null),
        ];
        for (server_field, property, expected) in table {
            let written = server_field.under(&property).unwrap_or_default();
            assert_eq!(written, expected, "{server_field:?} {property:?}");
        }
    }

    #[test]
    fn a_hash_in_base64_is_also_known_in_hexadecimal_digits() {
        assert_eq!(
            to_hex("1B2M2Y8AsgTpgAmY7PhCfg=="),
            "d41d8cd98f00b204e9800998ecf8427e"
        );
    }
}
