//! The fields of a file: the fields that clients set, and the JSON of replies.

use serde_json::{Value, json};
use windlass_rest::handler::{Call, Rejection};
use windlass_store::{Media, Resource};

use super::refusals;
use crate::record::{Fields, OCTET_STREAM, fields_of, normal_time, text};

/// Media type of folders.
pub(super) const FOLDER: &str = "application/vnd.google-apps.folder";

/// Prefix of the types without media: documents of Google's editors, folders and shortcuts.
const WITHOUT_MEDIA: &str = "application/vnd.google-apps.";

/// Maximum length of an id that a client chooses. The service's own ids have 33 characters.
const MAX_ID_LEN: usize = 100;

/// Maximum number of bytes that the fields of a file may have together, as JSON.
const MAX_FIELDS: usize = 32 * 1024;

/// Maximum number of bytes of the name and the value of a property, as in the service.
const MAX_PROPERTY_LEN: usize = 124;

/// Fields that are shown by default.
const DEFAULT_FIELDS: [&str; 4] = ["kind", "id", "name", "mimeType"];

/// Fields with entries that are changed individually.
const BY_NAME: [&str; 2] = ["properties", "appProperties"];

/// Fields that clients may set.
const OWN_FIELDS: [(&str, FieldType); 20] = [
    ("name", FieldType::Text),
    ("mimeType", FieldType::Text),
    ("description", FieldType::Text),
    ("parents", FieldType::Parents),
    ("createdTime", FieldType::Time),
    ("modifiedTime", FieldType::Time),
    ("viewedByMeTime", FieldType::Time),
    ("starred", FieldType::Flag),
    ("trashed", FieldType::Flag),
    ("properties", FieldType::Properties),
    ("appProperties", FieldType::Properties),
    ("originalFilename", FieldType::Text),
    ("folderColorRgb", FieldType::Text),
    ("copyRequiresWriterPermission", FieldType::Flag),
    ("writersCanShare", FieldType::Flag),
    ("inheritedPermissionsDisabled", FieldType::Flag),
    ("shortcutDetails", FieldType::Object),
    ("linkShareMetadata", FieldType::Object),
    ("downloadRestrictions", FieldType::Object),
    ("contentRestrictions", FieldType::Array),
];

/// Type of the value of a field.
#[derive(Clone, Copy)]
enum FieldType {
    Text,
    Flag,
    /// A timestamp, stored in UTC.
    Time,
    /// The id of one folder, in an array.
    Parents,
    /// Strings by name.
    Properties,
    Object,
    Array,
}

/// Returns the checked fields of the client that it may set. Nulls are kept, as they clear fields.
pub(super) fn own_fields(metadata: &Fields) -> Result<Fields, Rejection> {
    let mut own = Fields::new();
    for (name, shape) in OWN_FIELDS {
        if let Some(value) = metadata.get(name) {
            own.insert(name.to_owned(), shape.read(name, value)?);
        }
    }
    check_restrictions(&own)?;
    check_length(&own)?;
    Ok(own)
}

/// Refuses a restriction of the content: nothing here would keep a file from being changed.
fn check_restrictions(own: &Fields) -> Result<(), Rejection> {
    let restrictions = own.get("contentRestrictions").and_then(Value::as_array);
    let asks = |restriction: &Value| {
        let is_set = |name| {
            let value = restriction.get(name).unwrap_or(&Value::Null);
            !matches!(value, Value::Null | Value::Bool(false))
        };
        ["readOnly", "ownerRestricted"].into_iter().any(is_set)
    };
    if restrictions.into_iter().flatten().any(asks) {
        let problem =
            "contentRestrictions is not supported: the file could be changed all the same";
        let refusal = refusals::not_implemented(problem);
        return Err(refusal.at_field("contentRestrictions").into());
    }
    Ok(())
}

/// Returns the fields after a change: named fields are set, nulls clear, and properties are merged
/// one by one.
pub(super) fn patched(mut fields: Fields, changes: Fields) -> Result<Fields, Rejection> {
    for (name, value) in changes {
        match value {
            Value::Null => drop(fields.shift_remove(&name)),
            Value::Object(changes) if BY_NAME.contains(&name.as_str()) => {
                let mut properties = match fields.shift_remove(&name) {
                    Some(Value::Object(old)) => old,
                    _ => Fields::new(),
                };
                properties.extend(changes);
                properties.retain(|_, value| !value.is_null());
                fields.insert(name, properties.into());
            }
            value => drop(fields.insert(name, value)),
        }
    }
    check_length(&fields)?;
    Ok(fields)
}

/// Returns the type of a file: the type that the client states, or otherwise the type of its media.
pub(super) fn media_type(fields: &Fields, media: Option<&Media>) -> Result<String, Rejection> {
    let stated = text(fields, "mimeType").filter(|stated| !stated.is_empty());
    let given = stated.or(media.map(|media| media.content_type.as_str()));
    let media_type = given.unwrap_or(OCTET_STREAM);
    if media.is_some() {
        check_convertible(media_type)?;
    }
    Ok(media_type.to_owned())
}

/// Refuses types to which media would have to be converted.
pub(super) fn check_convertible(media_type: &str) -> Result<(), Rejection> {
    if media_type.starts_with(WITHOUT_MEDIA) {
        let problem = format!("a file of type {media_type} has no media, and none is converted");
        return Err(Rejection::invalid_field("mimeType", problem));
    }
    Ok(())
}

/// Returns the type that new media gives to a file if the client states none.
pub(super) fn media_type_of(media: &Media) -> Option<&str> {
    Some(media.content_type.as_str()).filter(|known| *known != OCTET_STREAM)
}

/// Returns the id that the client has chosen, if any.
pub(super) fn chosen_id(metadata: &Fields) -> Result<Option<&str>, Rejection> {
    let Some(value) = metadata.get("id").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let id_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let id = value.as_str().filter(|id| {
        (1..=MAX_ID_LEN).contains(&id.len()) && id.bytes().all(id_byte) && *id != ROOT
    });
    let problem = || {
        format!(
            "must have 1 to {MAX_ID_LEN} letters, digits, - and _, as files.generateIds gives them"
        )
    };
    id.map(Some)
        .ok_or_else(|| Rejection::invalid_field("id", problem()))
}

/// Returns the `nth` unique id of a call.
pub(super) fn fresh_id(call: &Call<'_>, nth: u64) -> String {
    let fresh = u128::from_str_radix(call.fresh_id, 16).unwrap_or_default();
    format!("1{:032x}", fresh.wrapping_add(u128::from(nth)))
}

/// Returns whether these are the fields of a folder.
pub(super) fn is_folder(fields: &Fields) -> bool {
    text(fields, "mimeType") == Some(FOLDER)
}

/// Returns whether files of this type never have media: folders, shortcuts and documents of
/// Google's editors.
pub(super) fn is_without_media(fields: &Fields) -> bool {
    text(fields, "mimeType").is_some_and(|it| it.starts_with(WITHOUT_MEDIA))
}

/// Returns the folder that a file is in.
pub(super) fn parent(fields: &Fields) -> &str {
    let parents = fields.get("parents").and_then(Value::as_array);
    let first = parents.and_then(|parents| parents.first()?.as_str());
    first.unwrap_or(ROOT)
}

/// Returns a field that is true or false; false where it is absent.
pub(super) fn flag(fields: &Fields, name: &str) -> bool {
    fields.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns the file with the type by which its media is served.
pub(super) fn as_download(mut file: Resource) -> Resource {
    let fields = fields_of(&file);
    if let Some((media, stated)) = file.media.as_mut().zip(text(&fields, "mimeType")) {
        stated.clone_into(&mut media.content_type);
    }
    file
}

/// Returns the JSON of the only user.
pub(super) fn owner() -> Value {
    json!({"kind": "drive#user", "displayName": "Owner", "me": true, "permissionId": "owner"})
}

/// Returns the JSON of a file. `trashed`: the file or a folder above it is in the trash.
pub(super) fn show(call: &Call<'_>, file: &Resource, trashed: bool) -> Fields {
    let own = fields_of(file);
    let mut shown = Fields::new();
    shown.insert("kind".into(), "drive#file".into());
    shown.insert("id".into(), file.id.as_str().into());
    let explicitly = flag(&own, "trashed");
    shown.extend(own);
    let asked = call.query.first("fields");
    if asked.is_none_or(str::is_empty) {
        shown.retain(|name, _| DEFAULT_FIELDS.contains(&name.as_str()));
        return shown;
    }
    shown.insert("trashed".into(), trashed.into());
    shown.insert("explicitlyTrashed".into(), explicitly.into());
    shown.entry("starred").or_insert(Value::Bool(false));
    shown.insert("version".into(), file.version.to_string().into());
    shown.insert("spaces".into(), json!(["drive"]));
    shown.insert("owners".into(), json!([owner()]));
    shown.insert("ownedByMe".into(), true.into());
    shown.insert("shared".into(), false.into());
    let length = file.media.as_ref().map_or(0, |media| media.length);
    shown.insert("quotaBytesUsed".into(), length.to_string().into());
    if let Some(media) = &file.media {
        show_media(call, file, media, &mut shown);
    }
    shown
}

fn show_media(call: &Call<'_>, file: &Resource, media: &Media, shown: &mut Fields) {
    let name = text(shown, "name").unwrap_or_default().to_owned();
    let mut show = |field: &str, value: String| {
        shown.insert(field.to_owned(), value.into());
    };
    show("size", media.length.to_string());
    show("headRevisionId", media.at.id.to_string());
    show("webContentLink", download_url(call, &file.id));
    if let Some(md5) = media.digests.md5 {
        show("md5Checksum", md5.to_hex());
    }
    if let Some(sha256) = media.digests.sha256 {
        show("sha256Checksum", sha256.to_hex());
    }
    if let Some((_, extension)) = name.split_once('.') {
        show("fullFileExtension", extension.to_owned());
        let last = extension.rsplit('.').next().unwrap_or(extension);
        show("fileExtension", last.to_owned());
    }
    let original = shown.entry("originalFilename");
    original.or_insert(name.into());
}

/// Returns the URL of the media.
fn download_url(call: &Call<'_>, id: &str) -> String {
    let service = call.api.document().service_path.as_deref();
    let service = service.unwrap_or("drive/v3/").trim_matches('/');
    format!("{}/{service}/files/{id}?alt=media", call.base_url)
}

impl FieldType {
    fn read(self, field: &str, value: &Value) -> Result<Value, Rejection> {
        let fits = match self {
            _ if value.is_null() => true,
            Self::Text | Self::Time => value.is_string(),
            Self::Flag => value.is_boolean(),
            Self::Parents => value.as_array().is_some_and(|it| are_texts(it)),
            Self::Properties => value.as_object().is_some_and(is_properties),
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
        };
        match (self, value) {
            _ if !fits => Err(Rejection::invalid_field(field, self.expected())),
            (Self::Parents, Value::Array(parents)) if parents.len() > 1 => {
                Err(refusals::second_parent())
            }
            (Self::Time, Value::String(text)) => normal_time(text)
                .map(Value::String)
                .ok_or_else(|| Rejection::invalid_field(field, self.expected())),
            _ => Ok(value.clone()),
        }
    }

    fn expected(self) -> String {
        match self {
            Self::Text => "must be a string".to_owned(),
            Self::Flag => "must be true or false".to_owned(),
            Self::Time => "must be a time such as 2026-11-21T10:00:00Z".to_owned(),
            Self::Parents => "must be an array with the id of one folder".to_owned(),
            Self::Properties => {
                format!("must be strings by name, {MAX_PROPERTY_LEN} bytes each with its name")
            }
            Self::Object => "must be an object".to_owned(),
            Self::Array => "must be an array".to_owned(),
        }
    }
}

fn are_texts(parents: &[Value]) -> bool {
    parents.iter().all(Value::is_string)
}

fn is_properties(properties: &Fields) -> bool {
    properties.iter().all(|(name, value)| match value {
        Value::Null => true,
        Value::String(value) => name.len() + value.len() <= MAX_PROPERTY_LEN,
        _ => false,
    })
}

/// Checks the size of the fields: lists read many files at a time.
fn check_length(fields: &Fields) -> Result<(), Rejection> {
    let lengths = fields.iter().map(|(name, value)| {
        let length = value.to_string().len() + name.len();
        (length, name)
    });
    let total: usize = lengths.clone().map(|(length, _)| length).sum();
    match lengths.max() {
        Some((_, longest)) if total > MAX_FIELDS => {
            let problem = format!("the fields of a file take at most {MAX_FIELDS} bytes together");
            Err(Rejection::invalid_field(longest, problem))
        }
        _ => Ok(()),
    }
}

/// Id of the root folder. It has no row and cannot be changed.
pub(super) const ROOT: &str = "root";
