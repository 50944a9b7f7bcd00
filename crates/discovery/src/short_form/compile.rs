//! From the short form to a discovery document.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::document::{
    Collection, Document, MediaUploadDescription, MethodDescription, ParameterDescription,
    UploadProtocol, UploadProtocols,
};
use crate::schema::Schema;
use crate::settings::Digest;
use crate::template::without_leading_slash;

use super::field::Identifier;
use super::{CollectionForm, MediaForm, ShortForm, Verb};

/// The parameters of every method of every API of Google's, without those that mean nothing here.
const STANDARD_PARAMETERS: &str = include_str!("standard_parameters.json");

impl ShortForm {
    pub(super) fn document(&self) -> Document {
        let service_path = self.service_path();
        let collections: Vec<_> = self
            .collections
            .iter()
            .map(|(name, form)| CollectionCompiler {
                api_name: &self.name,
                service_path: &service_path,
                resource: form.resource(name),
                name,
                form,
            })
            .collect();
        Document {
            kind: Some("discovery#restDescription".to_owned()),
            discovery_version: Some("v1".to_owned()),
            id: Some(format!("{}:{}", self.name, self.version)),
            name: Some(self.name.clone()),
            version: Some(self.version.clone()),
            title: Some(
                self.title
                    .clone()
                    .unwrap_or_else(|| format!("{} API", self.name)),
            ),
            description: self.description.clone(),
            documentation_link: self.documentation.clone(),
            protocol: Some("rest".to_owned()),
            base_path: Some(format!("/{service_path}")),
            batch_path: Some("batch".to_owned()),
            parameters: standard_parameters(),
            schemas: collections
                .iter()
                .flat_map(CollectionCompiler::schemas)
                .collect(),
            collections: collections
                .iter()
                .map(CollectionCompiler::collection)
                .collect(),
            service_path: Some(service_path),
            ..Document::default()
        }
    }

    /// With a slash at its end and none at its beginning.
    fn service_path(&self) -> String {
        let given = self.service_path.clone();
        let path = given.unwrap_or_else(|| format!("{}/{}", self.name, self.version));
        match without_leading_slash(&path).trim_end_matches('/') {
            "" => String::new(),
            path => format!("{path}/"),
        }
    }
}

/// One collection with what its names are made of.
struct CollectionCompiler<'a> {
    api_name: &'a str,
    service_path: &'a str,
    /// `animals`
    name: &'a Identifier,
    /// `animal`
    resource: Identifier,
    form: &'a CollectionForm,
}

impl CollectionCompiler<'_> {
    fn collection(&self) -> (String, Collection) {
        let methods = self
            .form
            .methods
            .iter()
            .map(|verb| (verb.name().to_owned(), self.method(*verb)));
        (
            self.name.to_string(),
            Collection {
                methods: methods.collect(),
                ..Collection::default()
            },
        )
    }

    fn schemas(&self) -> Vec<(String, Schema)> {
        let mut schemas = vec![self.resource_schema()];
        if self.form.methods.contains(&Verb::List) {
            schemas.push(self.list_schema());
        }
        schemas
            .into_iter()
            .map(|schema| (schema.id.clone().unwrap_or_default(), schema))
            .collect()
    }

    fn resource_schema(&self) -> Schema {
        let declared = self
            .form
            .schema
            .iter()
            .map(|(name, field)| (name.to_string(), field.schema()));
        let mut properties: BTreeMap<_, _> = declared.collect();
        properties.extend(standard_properties(&self.kind(&self.resource.to_string())));
        if self.form.media().is_some() {
            properties.extend(media_properties());
        }
        Schema {
            id: Some(self.schema_name()),
            description: self.form.description.clone(),
            properties,
            ..Schema::of_type("object")
        }
    }

    fn list_schema(&self) -> Schema {
        let properties = [
            (
                "kind",
                kind_property(&self.kind(&format!("{}List", self.resource))),
            ),
            (
                "items",
                Schema::array_of(Schema::reference_to(self.schema_name())),
            ),
            (
                "nextPageToken",
                described("The token of the next page; absent on the last page."),
            ),
        ];
        Schema {
            id: Some(self.list_schema_name()),
            description: Some(format!("A page of {}.", self.name)),
            properties: named(properties),
            ..Schema::of_type("object")
        }
    }

    fn method(&self, verb: Verb) -> MethodDescription {
        let path = self.path(verb);
        let upload = self.form.media().filter(|_| verb.takes_metadata());
        MethodDescription {
            id: Some(format!("{}.{}.{}", self.api_name, self.name, verb.name())),
            http_method: Some(verb.http_method().to_owned()),
            description: Some(self.describe(verb)),
            parameters: self.parameters(verb),
            parameter_order: if verb.names_a_resource() {
                vec![self.id_name()]
            } else {
                Vec::new()
            },
            request: verb
                .takes_metadata()
                .then(|| Schema::reference_to(self.schema_name())),
            response: self.response(verb).map(Schema::reference_to),
            supports_media_download: verb == Verb::Get && self.form.media.is_some(),
            supports_media_upload: upload.is_some(),
            media_upload: upload.map(|media| self.media_upload(media, &path)),
            flat_path: Some(path.clone()),
            path: Some(path),
            ..MethodDescription::default()
        }
    }

    fn path(&self, verb: Verb) -> String {
        if verb.names_a_resource() {
            format!("{}/{{{}}}", self.name, self.id_name())
        } else {
            self.name.to_string()
        }
    }

    fn parameters(&self, verb: Verb) -> BTreeMap<String, ParameterDescription> {
        match verb {
            Verb::List => list_parameters(),
            Verb::Insert => BTreeMap::new(),
            Verb::Update | Verb::Patch | Verb::Get | Verb::Delete => {
                let description = format!("The id of the {}.", self.resource);
                let parameter = ParameterDescription {
                    required: true,
                    ..parameter("path", "string", &description)
                };
                BTreeMap::from([(self.id_name(), parameter)])
            }
        }
    }

    fn response(&self, verb: Verb) -> Option<String> {
        match verb {
            Verb::Insert | Verb::Update | Verb::Patch | Verb::Get => Some(self.schema_name()),
            Verb::List => Some(self.list_schema_name()),
            Verb::Delete => None,
        }
    }

    fn media_upload(&self, media: &MediaForm, path: &str) -> MediaUploadDescription {
        let protocol = |prefix: &str| UploadProtocol {
            multipart: media.multipart,
            path: format!("{prefix}/{}{path}", self.service_path),
            extra: Map::new(),
        };
        MediaUploadDescription {
            accept: media.accept.iter().map(ToString::to_string).collect(),
            // Plain digits, which every client reads.
            max_size: media
                .max_size
                .map(|size| Value::String(size.bytes().to_string())),
            protocols: UploadProtocols {
                simple: Some(protocol("/upload")),
                resumable: Some(protocol("/resumable/upload")),
                extra: Map::new(),
            },
            extra: Map::new(),
        }
    }

    fn describe(&self, verb: Verb) -> String {
        let resource = &self.resource;
        match verb {
            Verb::Insert => format!("Creates a new {resource}."),
            Verb::Update => format!("Replaces a given {resource}."),
            Verb::Patch => format!("Changes some fields of a given {resource}."),
            Verb::Get => format!("Gets a given {resource}, or its media with alt=media."),
            Verb::List => format!("Lists the {}, page by page.", self.name),
            Verb::Delete => format!("Deletes a given {resource}."),
        }
    }

    /// `farm#animal`
    fn kind(&self, of: &str) -> String {
        format!("{}#{of}", self.api_name)
    }

    /// `animalId`
    fn id_name(&self) -> String {
        format!("{}Id", self.resource)
    }

    fn schema_name(&self) -> String {
        self.form.schema_name(self.name)
    }

    fn list_schema_name(&self) -> String {
        self.form.list_schema_name(self.name)
    }
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Get => "get",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }

    fn http_method(self) -> &'static str {
        match self {
            Self::Insert => "POST",
            Self::Update => "PUT",
            Self::Patch => "PATCH",
            Self::Get | Self::List => "GET",
            Self::Delete => "DELETE",
        }
    }

    /// Whether the path ends in the id of a resource.
    fn names_a_resource(self) -> bool {
        match self {
            Self::Update | Self::Patch | Self::Get | Self::Delete => true,
            Self::Insert | Self::List => false,
        }
    }
}

fn standard_parameters() -> BTreeMap<String, ParameterDescription> {
    serde_json::from_str(STANDARD_PARAMETERS)
        .expect("a test reads the file, which is part of the binary")
}

fn list_parameters() -> BTreeMap<String, ParameterDescription> {
    let token = parameter("query", "string", "The nextPageToken of the page before.");
    let mut limit = parameter("query", "integer", "The most items on a page.");
    limit.format = Some("uint32".to_owned());
    limit.minimum = Some(json!("1"));
    BTreeMap::from([
        ("pageToken".to_owned(), token),
        ("maxResults".to_owned(), limit),
    ])
}

fn parameter(location: &str, json_type: &str, description: &str) -> ParameterDescription {
    ParameterDescription {
        location: Some(location.to_owned()),
        json_type: Some(json_type.to_owned()),
        description: Some(description.to_owned()),
        ..ParameterDescription::default()
    }
}

fn standard_properties(kind: &str) -> BTreeMap<String, Schema> {
    named([
        ("kind", kind_property(kind)),
        (
            "id",
            read_only(described("The id, which the server chooses.")),
        ),
        (
            "selfLink",
            read_only(described("The URL of this resource.")),
        ),
        (
            "etag",
            read_only(described("Changes whenever the resource does.")),
        ),
        (
            "createdTime",
            read_only(formatted("date-time", "When the resource was created.")),
        ),
        (
            "updatedTime",
            read_only(formatted("date-time", "When the resource last changed.")),
        ),
    ])
}

/// The digests beyond CRC32C are described even where the API does not ask for them: a client that
/// sends one to be checked gets it back.
fn media_properties() -> BTreeMap<String, Schema> {
    let digest = |name: &str| {
        read_only(described(&format!(
            "The {name} of the media, in base64, where it was computed."
        )))
    };
    named([
        ("mimeType", described("The media type of the media.")),
        (
            "size",
            read_only(formatted("uint64", "The length of the media in bytes.")),
        ),
        (
            "crc32c",
            read_only(described("The CRC32C of the media, big-endian, in base64.")),
        ),
        (Digest::Md5.property(), digest("MD5")),
        (Digest::Sha256.property(), digest("SHA-256")),
    ])
}

fn kind_property(kind: &str) -> Schema {
    Schema {
        default: Some(json!(kind)),
        ..described(&format!("Always {kind}."))
    }
}

fn described(description: &str) -> Schema {
    Schema {
        description: Some(description.to_owned()),
        ..Schema::of_type("string")
    }
}

fn formatted(format: &str, description: &str) -> Schema {
    Schema {
        format: Some(format.to_owned()),
        ..described(description)
    }
}

fn read_only(schema: Schema) -> Schema {
    Schema {
        read_only: true,
        ..schema
    }
}

fn named<const N: usize>(properties: [(&str, Schema); N]) -> BTreeMap<String, Schema> {
    properties
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect()
}
