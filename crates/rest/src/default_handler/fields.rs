//! The fields of a resource. The client sets some of them, and this module says how updates,
//! patches and `updateMask` change these. The server fills in other fields, which it recognizes by
//! their usual names in APIs.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value};
use windlass_discovery::{Api, Digest, Method, Schema};
use windlass_store::{Resource, Timestamp};

use super::operation::{CallContext, is_query_parameter, path_of_key};
use super::schema_validation::{Purpose, SchemaValidation, resolve};
use crate::handler::{Call, Rejection};
use crate::pattern_checks::PatternChecks;

/// Checks the client's fields against the request schema, patterns included.
///
/// # Errors
/// [`Rejection::InvalidField`]; [`Rejection::Full`] if too many other calls match texts.
pub(super) async fn check_client_fields(call: &Call<'_>) -> Result<(), Rejection> {
    let checks = PatternChecks::default();
    validated(call, Some(&checks))?;
    checks.finish(call.lookup).await
}

/// Returns the client's fields that the request schema admits, without fields that the server fills
/// in. [`check_client_fields`] has already matched the fields with their patterns.
///
/// If the metadata wraps the resource in a field, such as `ragFile`, the fields inside it are
/// returned.
pub(super) fn client_fields(call: &Call<'_>) -> Result<Map<String, Value>, Rejection> {
    validated(call, None)
}

fn validated(
    call: &Call<'_>,
    patterns: Option<&PatternChecks>,
) -> Result<Map<String, Value>, Rejection> {
    let name = call.method.request.as_ref();
    let name = name.or(call.method.response.as_ref());
    let Some(schema) = name.and_then(|name| call.api.schema(name)) else {
        return Ok(Map::new());
    };
    let settings = call.api.settings();
    let validation = SchemaValidation {
        document: call.api.document(),
        patterns,
        purpose: Purpose::Input,
        enforced: settings.strict,
        closed: settings
            .collection_of(call.method)
            .is_some_and(|it| it.closed),
    };
    let mut own = validation.fields(schema, call.metadata)?;
    if let Some(inside) = resource_inside(call, schema, &mut own) {
        own.extend(inside);
    }
    own.retain(|name, _| !is_server_field(name));
    Ok(own)
}

/// Unwraps the resource from the fields of a request.
fn resource_inside(
    call: &Call<'_>,
    schema: &Schema,
    own: &mut Map<String, Value>,
) -> Option<Map<String, Value>> {
    let context = CallContext::of(call);
    if !context.wraps(schema) {
        return None;
    }
    let names = |name: &String| {
        let resolve = schema
            .property(name)
            .and_then(|it| resolve(call.api.document(), it));
        context.names_one_resource(name) && resolve.is_some_and(|it| !it.properties.is_empty())
    };
    let name = own.keys().find(|name| names(name))?.clone();
    match own.shift_remove(&name)? {
        Value::Object(inside) => Some(inside),
        _ => None,
    }
}

pub(super) fn fields_of(resource: &Resource) -> Map<String, Value> {
    serde_json::from_slice(&resource.body).unwrap_or_default()
}

pub(super) fn fields_to_bytes(fields: &Map<String, Value>) -> Bytes {
    serde_json::to_vec(fields)
        .expect("JSON can be written")
        .into()
}

/// As [`fields_to_bytes`], for a resource that is changed.
///
/// # Errors
/// [`Rejection::InvalidArgument`] if the fields are more than one JSON document may consist of,
/// unless they become fewer: a resource would otherwise grow with each patch.
pub(super) fn changed_bytes(
    call: &Call<'_>,
    old: &Resource,
    fields: &Map<String, Value>,
) -> Result<Bytes, Rejection> {
    let too_many = |what, count: usize, limit: usize| Rejection::InvalidArgument {
        problem: format!("the resource would have {count} {what}; at most {limit} are allowed"),
    };
    let body = fields_to_bytes(fields);
    let limit = call.limits.length;
    // A resource from the time of a larger `limits.metadata` can still be changed.
    if body.len() > limit.max(old.body.len()) {
        return Err(too_many("bytes of fields", body.len(), limit));
    }
    let (values, limit) = (values_in(fields), call.limits.values);
    if values > limit && values > values_in(&fields_of(old)) {
        return Err(too_many("values", values, limit));
    }
    Ok(body)
}

/// Number of values in an object, including nested values.
fn values_in(fields: &Map<String, Value>) -> usize {
    fn values(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(values).sum(),
            Value::Object(fields) => values_in(fields),
            _ => 0,
        }
    }
    fields.values().map(values).sum()
}

/// Returns the fields after an update, which replaces all of them. Null removes a field.
pub(super) fn updated(_: Map<String, Value>, new: Map<String, Value>) -> Map<String, Value> {
    patched(Map::new(), new)
}

/// Returns the fields after a patch (RFC 7396). A patch sets the fields that it names, and removes
/// fields that it sets to null.
pub fn patched(mut old: Map<String, Value>, new: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in new {
        match value {
            Value::Null => {
                // `remove` would move the last field to this place, and replies keep the client's
                // order.
                old.shift_remove(&name);
            }
            Value::Object(changes) => {
                let inside = match old.get_mut(&name).map(Value::take) {
                    Some(Value::Object(inside)) => inside,
                    _ => Map::new(),
                };
                old.insert(name, patched(inside, changes).into());
            }
            value => {
                old.insert(name, value);
            }
        }
    }
    old
}

const PARAMETER: &str = "updateMask";

/// Maximum number of paths in a mask. Each copies its value.
const MAX_PATHS: usize = 200;

/// The fields that an update changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UpdateMask {
    /// `*`
    All,
    /// Paths, each of one name or more.
    Paths(Vec<Vec<String>>),
}

impl UpdateMask {
    /// Returns the mask of the call; `None` if the method has no mask or the client gives none.
    ///
    /// # Errors
    /// [`Rejection::InvalidParameter`] for a field that the request schema does not have.
    pub(super) fn of(call: &Call<'_>) -> Result<Option<Self>, Rejection> {
        if !is_query_parameter(call.method, PARAMETER) {
            return Ok(None);
        }
        let text = call.query.first(PARAMETER).unwrap_or_default().trim();
        match text {
            "" => return Ok(None),
            "*" => return Ok(Some(Self::All)),
            _ => {}
        }
        let schema = call.method.request.as_deref();
        let schema = schema.and_then(|name| call.api.schema(name));
        // A set, because each path copies its value: a path named twice would copy it twice.
        let paths: BTreeSet<_> = text.split(',').map(str::trim).collect();
        if paths.len() > MAX_PATHS {
            return Err(Rejection::InvalidParameter {
                parameter: PARAMETER.to_owned(),
                problem: format!("it names more than {MAX_PATHS} fields"),
            });
        }
        let paths = paths.into_iter().map(|path| parse(call, schema, path));
        Ok(Some(Self::Paths(paths.collect::<Result<_, _>>()?)))
    }

    /// Returns the old fields with the fields of the mask replaced by the new fields. A field of
    /// the mask that is missing in the new fields is removed.
    pub(super) fn apply(
        &self,
        mut old: Map<String, Value>,
        new: Map<String, Value>,
    ) -> Map<String, Value> {
        let new = updated(Map::new(), new);
        match self {
            Self::All => new,
            Self::Paths(paths) => {
                for path in paths {
                    copy_path(&mut old, &new, path);
                }
                old
            }
        }
    }
}

fn parse(call: &Call<'_>, schema: Option<&Schema>, path: &str) -> Result<Vec<String>, Rejection> {
    let mut names = Vec::new();
    let mut within = schema;
    for written in path.split('.') {
        let name = camel_case(written);
        // A schema without fields admits every object, so every name is possible below it.
        let fields = within.filter(|schema| !schema.properties.is_empty());
        within = match fields {
            None => None,
            Some(schema) => match schema.property(written).or(schema.property(&name)) {
                None => return Err(unknown(path)),
                Some(property) => resolve(call.api.document(), property),
            },
        };
        let as_written = fields.is_none_or(|schema| schema.property(written).is_some());
        names.push(if as_written { written.to_owned() } else { name });
    }
    Ok(names)
}

fn unknown(path: &str) -> Rejection {
    Rejection::InvalidParameter {
        parameter: PARAMETER.to_owned(),
        problem: format!("{path} is not a field"),
    }
}

/// Field names in a mask may be in snake case, as in protocol buffers.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let mut chars = word.chars();
        name.extend(chars.next().map(|char| char.to_ascii_uppercase()));
        name.push_str(chars.as_str());
        name
    })
}

fn copy_path(old: &mut Map<String, Value>, new: &Map<String, Value>, path: &[String]) {
    let Some((name, rest)) = path.split_first() else {
        return;
    };
    let from = new.get(name);
    if rest.is_empty() {
        match from {
            Some(value) => old.insert(name.clone(), value.clone()),
            None => old.shift_remove(name),
        };
        return;
    }
    let nothing = Map::new();
    let from = from.and_then(Value::as_object).unwrap_or(&nothing);
    if !old.get(name).is_some_and(Value::is_object) {
        if from.is_empty() {
            return;
        }
        old.insert(name.clone(), Map::new().into());
    }
    if let Some(Value::Object(inside)) = old.get_mut(name) {
        copy_path(inside, from, rest);
    }
}

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
    // Looked up for each field of each request, so the list is sorted.
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
    let collection = path_of_key(context.call.api, &resource.collection);
    format!("{}/{collection}/{}", context.call.base_url, resource.id)
}

impl ServerField {
    /// Returns the value in the form that the property requires; `None` if it does not fit.
    pub(super) fn under(&self, property: &Schema) -> Option<Value> {
        let format = property.format.as_deref().unwrap_or_default();
        let json_type = property.json_type.as_deref()?;
        // The values of an enum are the API's words. The server has none of them.
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

pub(crate) fn rfc3339(time: Timestamp) -> String {
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

    /// The rows are all rows of RFC 7396, appendix A, with a target and a patch that are both
    /// objects.
    #[test]
    fn a_patch_merges_as_rfc_7396_says() {
        let table = [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (
                json!({"a":"b","b":"c"}),
                json!({"a":null}),
                json!({"b":"c"}),
            ),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (
                json!({"a":{"b":"c"}}),
                json!({"a":{"b":"d","c":null}}),
                json!({"a":{"b":"d"}}),
            ),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (
                json!({}),
                json!({"a":{"bb":{"ccc":null}}}),
                json!({"a":{"bb":{}}}),
            ),
            (
                json!({"a":"b"}),
                json!({"a":{"b":null,"c":1}}),
                json!({"a":{"c":1}}),
            ),
        ];
        for (target, patch, expected) in table {
            let patched = patched(fields(&target), fields(&patch));
            assert_eq!(Value::Object(patched), expected, "{target} and {patch}");
        }
    }

    fn fields(value: &Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    fn paths(text: &str) -> UpdateMask {
        let path = |path: &str| path.split('.').map(str::to_owned).collect();
        UpdateMask::Paths(text.split(',').map(path).collect())
    }

    #[test]
    fn a_mask_takes_over_what_it_names_and_nothing_else() {
        let table = [
            (
                paths("a"),
                json!({"a": 1, "b": 1}),
                json!({"a": 2, "b": 2}),
                json!({"a": 2, "b": 1}),
            ),
            (
                paths("a"),
                json!({"a": 1, "b": 1}),
                json!({"b": 2}),
                json!({"b": 1}),
            ),
            (
                paths("a"),
                json!({"a": {"x": 1}}),
                json!({"a": {"y": 2}}),
                json!({"a": {"y": 2}}),
            ),
            (
                paths("a.y"),
                json!({"a": {"x": 1}}),
                json!({"a": {"y": 2, "z": 2}}),
                json!({"a": {"x": 1, "y": 2}}),
            ),
            (
                paths("a.x"),
                json!({"a": {"x": 1, "y": 1}}),
                json!({}),
                json!({"a": {"y": 1}}),
            ),
            (
                paths("a.x,b"),
                json!({}),
                json!({"a": {"x": 2}, "b": 2}),
                json!({"a": {"x": 2}, "b": 2}),
            ),
            (paths("a.x"), json!({}), json!({}), json!({})),
            (
                UpdateMask::All,
                json!({"a": 1}),
                json!({"b": 2, "c": null}),
                json!({"b": 2}),
            ),
        ];
        for (mask, old, new, expected) in table {
            let fields = |value: &Value| value.as_object().expect("an object").clone();
            let applied = mask.apply(fields(&old), fields(&new));
            assert_eq!(Value::Object(applied), expected, "{mask:?} {old} {new}");
        }
    }

    #[test]
    fn names_in_snake_case_become_those_of_json() {
        assert_eq!(camel_case("display_name"), "displayName");
        assert_eq!(camel_case("displayName"), "displayName");
    }

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
