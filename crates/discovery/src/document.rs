//! The discovery document as Google publishes it.
//!
//! The model has fields for the properties that a server uses. All other properties are kept in
//! `extra`, so reading and writing a document loses nothing. (Empty lists, empty objects and false
//! flags are omitted, which means the same.) Reading checks only the JSON types. The content is
//! checked when the document becomes an [`Api`](crate::Api).
//!
//! The fields are documented at <https://developers.google.com/discovery/v1/reference/apis>.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use serde_json::{Map, Value};

use crate::error::{Error, FieldPath};
use crate::schema::{Schema, is_false};
use crate::template::without_leading_slash;

/// A discovery document (`discovery#restDescription`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Document {
    /// `discovery#restDescription`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The version of this format: `v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discovery_version: Option<String>,
    /// `name:version`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name of the API, e.g. `drive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version of the API, e.g. `v3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The day of the document, e.g. `20261106`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The name of the API for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Prose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A page about the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documentation_link: Option<String>,
    /// `rest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Where the server is, ending in a slash. The upload paths are relative to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_url: Option<String>,
    /// The root URL and the service path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The path of the base URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_path: Option<String>,
    /// The prefix of the paths of all methods, e.g. `drive/v3/`; may be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_path: Option<String>,
    /// Where batches of requests go, relative to the root URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_path: Option<String>,
    /// The root URL for clients with a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtls_root_url: Option<String>,
    /// The parameters that every method has.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, ParameterDescription>,
    /// The OAuth scopes, as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Value>,
    /// The schemas by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub schemas: BTreeMap<String, Schema>,
    /// The collections by name.
    #[serde(rename = "resources", skip_serializing_if = "BTreeMap::is_empty")]
    pub collections: BTreeMap<String, Collection>,
    /// The methods outside of any collection, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub methods: BTreeMap<String, MethodDescription>,
    /// Further fields of the document.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A group of methods, which the format calls a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Collection {
    /// The methods by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub methods: BTreeMap<String, MethodDescription>,
    /// The collections inside this one, by name.
    #[serde(rename = "resources", skip_serializing_if = "BTreeMap::is_empty")]
    pub collections: BTreeMap<String, Collection>,
    /// Further fields of the document.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A method as described; [`Method`](crate::Method) is its checked form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MethodDescription {
    /// The unique name, e.g. `drive.files.create`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The URI template, relative to the service path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The template with a variable for each segment, for people to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flat_path: Option<String>,
    /// `GET`, `POST`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_method: Option<String>,
    /// Prose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The parameters in path and query, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, ParameterDescription>,
    /// The required parameters in the order that clients should give them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameter_order: Vec<String>,
    /// The schema of the metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Schema>,
    /// The schema of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Schema>,
    /// The OAuth scopes of which a caller needs one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Whether `alt=media` gives the media.
    #[serde(skip_serializing_if = "is_false")]
    pub supports_media_download: bool,
    /// Whether downloads have separate paths, under `/download`.
    #[serde(skip_serializing_if = "is_false")]
    pub use_media_download_service: bool,
    /// Whether there is a [`media_upload`](Self::media_upload).
    #[serde(skip_serializing_if = "is_false")]
    pub supports_media_upload: bool,
    /// How media is uploaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_upload: Option<MediaUploadDescription>,
    /// Further fields of the document.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A parameter in the path or in the query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParameterDescription {
    /// `path` or `query`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// `string`, `integer`, `number` or `boolean`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub json_type: Option<String>,
    /// The format of a string or a number, e.g. `int64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Prose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it must be given.
    #[serde(skip_serializing_if = "is_false")]
    pub required: bool,
    /// Whether it may be given more than once.
    #[serde(skip_serializing_if = "is_false")]
    pub repeated: bool,
    /// The allowed values; empty where there is no such list.
    #[serde(rename = "enum", skip_serializing_if = "Vec::is_empty")]
    pub allowed_values: Vec<String>,
    /// A regular expression for the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The value where none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The smallest number as written, nearly always as a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Value>,
    /// The largest number as written, nearly always as a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<Value>,
    /// Further fields of the document.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// How a method takes media.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MediaUploadDescription {
    /// The accepted media ranges; empty accepts everything.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<String>,
    /// The largest media as written: `"5GB"`, `"15728640"` or `15728640`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<Value>,
    /// The upload paths.
    pub protocols: UploadProtocols,
    /// Further fields of the document.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Where a method takes media, by protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UploadProtocols {
    /// `uploadType=media` and `uploadType=multipart`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simple: Option<UploadProtocol>,
    /// `uploadType=resumable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumable: Option<UploadProtocol>,
    /// Further fields of the document.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// One protocol of a method.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UploadProtocol {
    /// Whether metadata may come along with the media.
    pub multipart: bool,
    /// The URI template, from the root, e.g. `/upload/drive/v3/files`.
    pub path: String,
    /// Further fields of the document.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Whether a text is meant as a discovery document, and not as the [short form](crate::short_form):
/// a JSON object begins with a brace, and no TOML does.
pub fn is_document(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

impl Document {
    /// Reads a document. Only the JSON types of its fields are checked.
    ///
    /// # Errors
    ///
    /// [`Error::Json`] or [`Error::Shape`].
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let mut json = serde_json::Deserializer::from_str(text);
        let document = serde_path_to_error::deserialize(&mut json).map_err(|traced| {
            let path = traced.path().to_string();
            let error = traced.into_inner();
            match error.classify() {
                Category::Data if path != "." => Error::Shape { path, error },
                _ => Error::Json(error),
            }
        })?;
        json.end().map_err(Error::Json)?;
        Ok(document)
    }

    /// The document as a server at this root URL gives it to clients.
    ///
    /// The root URL may end with or without a slash. Fields that would lead a client to another
    /// host are removed: `mtlsRootUrl`, and the regional `endpoints`.
    #[must_use]
    pub fn served_at(&self, root_url: &str) -> Self {
        let root_url = format!("{}/", root_url.trim_end_matches('/'));
        let service_path = without_leading_slash(self.service_path.as_deref().unwrap_or_default());
        let mut served = self.clone();
        served.base_url = Some(format!("{root_url}{service_path}"));
        served.root_url = Some(root_url);
        served.mtls_root_url = None;
        served.extra.shift_remove("endpoints");
        served
    }

    /// The schema of this name.
    pub fn schema(&self, name: &str) -> Option<&Schema> {
        self.schemas.get(name)
    }

    /// Returns every method with its position: first those outside of collections, then by name.
    pub(crate) fn described_methods(&self) -> Vec<(FieldPath, &MethodDescription)> {
        let mut found = Vec::new();
        find_methods(
            &self.methods,
            &self.collections,
            &FieldPath::root(),
            &mut found,
        );
        found
    }

    /// Resolves a reference: returns the schema that it names. A schema without a reference is
    /// returned unchanged.
    ///
    /// `None` if the document has no schema of that name.
    pub fn resolve<'a>(&'a self, schema: &'a Schema) -> Option<&'a Schema> {
        match &schema.reference {
            Some(name) => self.schema(name),
            None => Some(schema),
        }
    }
}

fn find_methods<'a>(
    methods: &'a BTreeMap<String, MethodDescription>,
    collections: &'a BTreeMap<String, Collection>,
    field_path: &FieldPath,
    found: &mut Vec<(FieldPath, &'a MethodDescription)>,
) {
    let methods_path = field_path.field("methods");
    found.extend(
        methods
            .iter()
            .map(|(name, method)| (methods_path.field(name), method)),
    );
    let collections_path = field_path.field("resources");
    for (name, collection) in collections {
        let field_path = collections_path.field(name);
        find_methods(
            &collection.methods,
            &collection.collections,
            &field_path,
            found,
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written() -> Value {
        json!({
            "kind": "discovery#restDescription",
            "name": "drive",
            "version": "v3",
            "revision": "20261106",
            "icons": {"x16": "http://icons.example/16"},
            "rootUrl": "https://www.googleapis.com/",
            "mtlsRootUrl": "https://www.mtls.googleapis.com/",
            "endpoints": [{"endpointUrl": "https://drive.rep.example/", "location": "eu"}],
            "baseUrl": "https://www.googleapis.com/drive/v3/",
            "basePath": "/drive/v3/",
            "servicePath": "drive/v3/",
            "parameters": {"alt": {"type": "string", "enum": ["json"], "enumDescriptions": ["JSON"]}},
            "auth": {"oauth2": {"scopes": {"https://scope.example": {"description": "All"}}}},
            "schemas": {"File": {"id": "File", "type": "object"}},
            "resources": {"files": {"deprecated": true, "methods": {"create": {
                "id": "drive.files.create",
                "path": "files",
                "httpMethod": "POST",
                "request": {"$ref": "File", "parameterName": "resource"},
                "supportsMediaUpload": true,
                "supportsSubscription": true,
                "mediaUpload": {
                    "accept": ["*/*"],
                    "maxSize": 5_497_558_138_880_u64,
                    "protocols": {"simple": {"multipart": false, "path": "/upload/drive/v3/files", "x": 1}}
                }
            }}}}
        })
    }

    fn document() -> Document {
        serde_json::from_value(written()).unwrap()
    }

    #[test]
    fn a_document_read_and_written_loses_nothing() {
        assert_eq!(serde_json::to_value(document()).unwrap(), written());
    }

    #[test]
    fn a_served_document_leads_to_its_server_and_nowhere_else() {
        for root_url in ["http://127.0.0.1:8080", "http://127.0.0.1:8080/"] {
            let served = document().served_at(root_url);
            assert_eq!(served.root_url.as_deref(), Some("http://127.0.0.1:8080/"));
            assert_eq!(
                served.base_url.as_deref(),
                Some("http://127.0.0.1:8080/drive/v3/")
            );
            let text = serde_json::to_string(&served).unwrap();
            for gone in ["mtls", "googleapis.com/", "endpoints"] {
                assert!(!text.contains(gone), "{gone} is still there");
            }
        }
    }

    #[test]
    fn a_reference_resolves_to_the_named_schema() {
        let document = document();
        let file = document.schema("File");
        assert!(file.is_some());
        assert_eq!(document.resolve(&Schema::reference_to("File")), file);
        assert_eq!(document.resolve(&Schema::reference_to("Folder")), None);
        let inline = Schema::of_type("object");
        assert_eq!(document.resolve(&inline), Some(&inline));
    }
}
