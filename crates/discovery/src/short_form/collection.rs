//! A collection: its methods and its schemas.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;
use toml::Spanned;

use crate::document::{MethodDescription, ParameterDescription};
use crate::schema::Schema;
use crate::settings::{CollectionSettings, Digest, OnParentDelete};

use super::Fields;
use super::fields::{Identifier, OwnFieldName};
use super::method::MediaForm;
use super::service::{Notified, ServiceUrl};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CollectionForm {
    pub(super) resource: Option<Spanned<Identifier>>,
    description: Option<String>,
    #[serde(default)]
    pub(super) schema: Fields<OwnFieldName>,
    #[serde(default = "StandardMethod::all")]
    methods: Vec<StandardMethod>,
    pub(super) parent: Option<Spanned<Identifier>>,
    pub(super) on_parent_delete: Option<Spanned<OnParentDelete>>,
    #[serde(default)]
    unknown_fields: UnknownFields,
    #[serde(default)]
    pub(super) filter_by: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) order_by: Vec<Spanned<String>>,
    pub(super) media: Option<Spanned<MediaForm>>,
    pub(super) on: Option<Spanned<Notified>>,
}

/// How fields that no schema names are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum UnknownFields {
    /// They are kept as the client sends them; inside of declared schemas they are dropped.
    #[default]
    Keep,
    /// They are refused, at any depth.
    Refuse,
}

/// The methods that a collection can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StandardMethod {
    Insert,
    Update,
    Patch,
    Get,
    List,
    Delete,
}

impl CollectionForm {
    /// The name of one resource of the collection: `animal` in `animals`.
    pub(super) fn resource(&self, name: &Identifier) -> Identifier {
        let given = self.resource.as_ref().map(Spanned::get_ref);
        given.cloned().unwrap_or_else(|| name.singular())
    }

    /// The schemas that the collection makes.
    pub(super) fn schema_names(&self, name: &Identifier) -> [String; 2] {
        [self.schema_name(name), self.list_schema_name(name)]
    }

    /// The settings of the collection that a discovery document cannot express.
    pub(super) fn settings(&self) -> CollectionSettings {
        let fate = || self.on_parent_delete.as_ref().map(Spanned::get_ref);
        let references = self.schema.iter();
        let references = references.filter_map(|(name, field)| {
            let collection = field.get_ref().references()?;
            Some((name.to_string(), collection.to_string()))
        });
        CollectionSettings {
            closed: self.is_closed(),
            on_parent_delete: self
                .parent
                .as_ref()
                .map(|_| fate().copied().unwrap_or_default()),
            references: references.collect(),
            on_finished: self.on_finished().map(|url| url.as_str().to_owned()),
            filters: self.filters(),
            orders: self.orders(),
        }
    }

    /// Its methods with its full name before them: `animals.insert`, `animals.photos.insert`.
    pub(super) fn method_names(&self, name: &str) -> Vec<String> {
        let methods = self.methods.iter();
        methods
            .map(|method| format!("{name}.{}", method.name()))
            .collect()
    }

    /// Whether it has the method `list`.
    pub(super) fn has_list(&self) -> bool {
        self.methods.contains(&StandardMethod::List)
    }

    /// Whether fields that no schema names are refused.
    pub(super) fn is_closed(&self) -> bool {
        self.unknown_fields == UnknownFields::Refuse
    }

    /// The service that is notified of finished uploads.
    fn on_finished(&self) -> Option<&ServiceUrl> {
        self.on.as_ref()?.get_ref().finished.as_ref()
    }

    pub(super) fn media(&self) -> Option<&MediaForm> {
        self.media.as_ref().map(Spanned::get_ref)
    }

    /// Whether none of the methods takes media.
    pub(super) fn takes_no_media(&self) -> bool {
        let mut methods = self.methods.iter();
        !methods.any(|method| method.takes_metadata())
    }

    /// The variable of paths that names one of its resources: `animalId`.
    fn id_name(&self, name: &Identifier) -> String {
        format!("{}Id", self.resource(name))
    }

    /// The name of a resource's schema: `Animal`.
    fn schema_name(&self, name: &Identifier) -> String {
        self.resource(name).capitalised()
    }

    /// The name of the schema of a page: `AnimalList`.
    fn list_schema_name(&self, name: &Identifier) -> String {
        format!("{}List", self.schema_name(name))
    }
}

/// A collection, with the parts of its names.
pub(super) struct CollectionCompiler<'a> {
    pub(super) api_name: &'a str,
    pub(super) service_path: &'a str,
    pub(super) scopes: &'a [String],
    /// The collections around it, the outermost first, and itself.
    pub(super) lineage: Vec<(&'a Identifier, &'a CollectionForm)>,
    /// `animals`
    pub(super) name: &'a Identifier,
    /// `animal`
    pub(super) resource: Identifier,
    pub(super) form: &'a CollectionForm,
}

impl CollectionCompiler<'_> {
    pub(super) fn methods(&self) -> BTreeMap<String, MethodDescription> {
        let methods = self.form.methods.iter();
        methods
            .map(|method| (method.name().to_owned(), self.method(*method)))
            .collect()
    }

    pub(super) fn schemas(&self) -> Vec<(String, Schema)> {
        let mut schemas = vec![self.resource_schema()];
        if self.form.methods.contains(&StandardMethod::List) {
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
            .map(|(name, field)| (name.to_string(), field.get_ref().schema(self.api_name)));
        let mut properties: BTreeMap<_, _> = declared.collect();
        properties.extend(standard_properties(&self.kind(&self.resource.to_string())));
        if self.form.media().is_some() {
            properties.extend(media_properties());
        }
        Schema {
            id: Some(self.schema_name()),
            description: self.form.description.clone(),
            properties,
            additional_properties: (!self.form.is_closed())
                .then(|| Box::new(Schema::of_type("any"))),
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

    fn method(&self, method: StandardMethod) -> MethodDescription {
        let path = self.path(method);
        let upload = self.form.media().filter(|_| method.takes_metadata());
        MethodDescription {
            id: Some(format!(
                "{}.{}.{}",
                self.api_name,
                self.full_name(),
                method.name()
            )),
            http_method: Some(method.http_method().to_owned()),
            description: Some(self.describe(method)),
            parameters: self.parameters(method),
            parameter_order: self
                .named(method)
                .map(|(name, form)| form.id_name(name))
                .collect(),
            request: method
                .takes_metadata()
                .then(|| Schema::reference_to(self.schema_name())),
            response: self.response(method).map(Schema::reference_to),
            supports_media_download: method == StandardMethod::Get && self.form.media.is_some(),
            supports_media_upload: upload.is_some(),
            media_upload: upload.map(|media| media.description(self.service_path, &path)),
            scopes: self.scopes.to_vec(),
            flat_path: Some(path.clone()),
            path: Some(path),
            ..MethodDescription::default()
        }
    }

    fn path(&self, method: StandardMethod) -> String {
        let above = self.parents().iter();
        let above = above.map(|(name, form)| format!("{name}/{{{}}}/", form.id_name(name)));
        let above: String = above.collect();
        if method.names_a_resource() {
            format!("{above}{}/{{{}}}", self.name, self.form.id_name(self.name))
        } else {
            format!("{above}{}", self.name)
        }
    }

    /// The collections around it, the outermost first.
    fn parents(&self) -> &[(&Identifier, &CollectionForm)] {
        self.lineage
            .split_last()
            .map_or(&[], |(_, parents)| parents)
    }

    /// Returns the collections of the resources in a method's path, the outermost first.
    fn named(
        &self,
        method: StandardMethod,
    ) -> impl Iterator<Item = (&Identifier, &CollectionForm)> {
        let own = method.names_a_resource().then_some((self.name, self.form));
        self.parents().iter().copied().chain(own)
    }

    /// `animals.photos`
    pub(super) fn full_name(&self) -> String {
        let names: Vec<_> = self
            .lineage
            .iter()
            .map(|(name, _)| name.to_string())
            .collect();
        names.join(".")
    }

    fn parameters(&self, method: StandardMethod) -> BTreeMap<String, ParameterDescription> {
        let mut parameters = match method {
            StandardMethod::List => list_parameters()
                .into_iter()
                .chain(self.form.list_parameters())
                .collect(),
            _ => BTreeMap::new(),
        };
        parameters.extend(self.named(method).map(|(name, form)| {
            let description = format!("The id of the {}.", form.resource(name));
            let parameter = ParameterDescription {
                required: true,
                ..parameter("path", "string", &description)
            };
            (form.id_name(name), parameter)
        }));
        parameters
    }

    fn response(&self, method: StandardMethod) -> Option<String> {
        match method {
            StandardMethod::Insert
            | StandardMethod::Update
            | StandardMethod::Patch
            | StandardMethod::Get => Some(self.schema_name()),
            StandardMethod::List => Some(self.list_schema_name()),
            StandardMethod::Delete => None,
        }
    }

    fn describe(&self, method: StandardMethod) -> String {
        let resource = &self.resource;
        match method {
            StandardMethod::Insert => format!("Creates a new {resource}."),
            StandardMethod::Update => format!("Replaces a given {resource}."),
            StandardMethod::Patch => format!("Changes some fields of a given {resource}."),
            StandardMethod::Get => format!("Gets a given {resource}, or its media with alt=media."),
            StandardMethod::List => format!("Lists the {}, page by page.", self.name),
            StandardMethod::Delete => format!("Deletes a given {resource}."),
        }
    }

    /// `farm#animal`
    fn kind(&self, of: &str) -> String {
        format!("{}#{of}", self.api_name)
    }

    fn schema_name(&self) -> String {
        self.form.schema_name(self.name)
    }

    fn list_schema_name(&self) -> String {
        self.form.list_schema_name(self.name)
    }
}

impl StandardMethod {
    fn all() -> Vec<Self> {
        vec![
            Self::Insert,
            Self::Update,
            Self::Patch,
            Self::Get,
            Self::List,
            Self::Delete,
        ]
    }

    /// Whether the request carries a resource, and may carry its media.
    fn takes_metadata(self) -> bool {
        match self {
            Self::Insert | Self::Update | Self::Patch => true,
            Self::Get | Self::List | Self::Delete => false,
        }
    }

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
