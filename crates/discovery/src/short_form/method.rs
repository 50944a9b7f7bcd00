//! A method that no collection has by itself.

use std::collections::BTreeMap;
use std::fmt;

use http::Method as HttpMethod;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use thiserror::Error;
use toml::Spanned;

use super::fields::{FieldName, ParameterForm, SchemaName};
use super::service::ServiceUrl;
use crate::byte_size::ByteSize;
use crate::document::{
    MediaUploadDescription, MethodDescription, ParameterDescription, UploadProtocol,
    UploadProtocols,
};
use crate::media_range::MediaRange;
use crate::schema::Schema;
use crate::settings::Digest;
use crate::template::{Template, TemplateError};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MethodForm {
    http: HttpVerb,
    path: PathForm,
    description: Option<String>,
    pub(super) request: Option<Spanned<SchemaName>>,
    pub(super) response: Option<Spanned<SchemaName>>,
    #[serde(default)]
    download: bool,
    #[serde(default)]
    download_service: bool,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    parameters: BTreeMap<FieldName, ParameterForm>,
    pub(super) media: Option<Spanned<MediaForm>>,
    /// The service that answers the calls.
    pub(super) backend: Option<Spanned<ServiceUrl>>,
}

/// The HTTP methods that the server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum HttpVerb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

/// A URI template, without a slash at its beginning.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct PathForm(Template);

#[derive(Debug, Error)]
#[error("`{path}` is not a path: {source}")]
struct NotAPath {
    path: String,
    source: TemplateError,
}

impl MethodForm {
    /// Whether `alt=media` gives media.
    pub(super) fn is_download(&self) -> bool {
        self.download || self.download_service
    }

    /// The description of the method with this id.
    pub(super) fn method(
        &self,
        id: String,
        service_path: &str,
        scopes: &[String],
    ) -> MethodDescription {
        let path = self.path.0.as_str();
        let media = self.media();
        let reference = |name: &Option<Spanned<SchemaName>>| {
            let name = name.as_ref()?.get_ref();
            Some(Schema::reference_to(name.as_str()))
        };
        MethodDescription {
            id: Some(id),
            http_method: Some(self.http.http_method().to_string()),
            description: self.description.clone(),
            parameters: self.parameters(),
            parameter_order: self.parameter_order(),
            request: reference(&self.request),
            response: reference(&self.response),
            scopes: self.scopes_or(scopes).to_vec(),
            supports_media_download: self.is_download(),
            use_media_download_service: self.download_service,
            supports_media_upload: media.is_some(),
            media_upload: media.map(|media| media.description(service_path, path)),
            flat_path: (!path.contains("{+")).then(|| path.to_owned()),
            path: Some(path.to_owned()),
            ..MethodDescription::default()
        }
    }

    pub(super) fn media(&self) -> Option<&MediaForm> {
        self.media.as_ref().map(Spanned::get_ref)
    }

    /// The HTTP method, if no media goes with it.
    pub(super) fn http_method_without_media(&self) -> Option<HttpMethod> {
        match self.http {
            HttpVerb::Post | HttpVerb::Put | HttpVerb::Patch => None,
            HttpVerb::Get | HttpVerb::Delete => Some(self.http.http_method()),
        }
    }

    /// Returns the method's scopes, or `scopes` (the API's) if the method has none.
    pub(super) fn scopes_or<'a>(&'a self, scopes: &'a [String]) -> &'a [String] {
        if self.scopes.is_empty() {
            scopes
        } else {
            &self.scopes
        }
    }

    fn is_in_path(&self, name: &str) -> bool {
        self.path.0.variables().any(|variable| variable == name)
    }

    /// Returns the declared parameters and the undeclared variables of the path.
    fn parameters(&self) -> BTreeMap<String, ParameterDescription> {
        let variables = self.path.0.variables();
        let unsaid =
            variables.map(|name| (name.to_owned(), ParameterForm::string().description(true)));
        let declared = self.parameters.iter().map(|(name, form)| {
            let name = name.to_string();
            let description = form.description(self.is_in_path(&name));
            (name, description)
        });
        unsaid.chain(declared).collect()
    }

    /// Returns the order of parameters: the variables of the path, then required parameters of the
    /// query.
    fn parameter_order(&self) -> Vec<String> {
        let variables = self.path.0.variables().map(str::to_owned);
        let required = self
            .parameters
            .iter()
            .filter(|(_, form)| form.is_required());
        let required = required.map(|(name, _)| name.to_string());
        variables
            .chain(required.filter(|name| !self.is_in_path(name)))
            .collect()
    }
}

impl HttpVerb {
    fn http_method(self) -> HttpMethod {
        match self {
            Self::Get => HttpMethod::GET,
            Self::Post => HttpMethod::POST,
            Self::Put => HttpMethod::PUT,
            Self::Patch => HttpMethod::PATCH,
            Self::Delete => HttpMethod::DELETE,
        }
    }
}

impl TryFrom<String> for PathForm {
    type Error = NotAPath;

    fn try_from(path: String) -> Result<Self, NotAPath> {
        match Template::parse(&path) {
            Ok(template) => Ok(Self(template)),
            Err(source) => Err(NotAPath { path, source }),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MediaForm {
    #[serde(default)]
    accept: Accept,
    max_size: Option<ByteSize>,
    #[serde(default)]
    pub(super) digests: Vec<Digest>,
    #[serde(default = "yes")]
    multipart: bool,
    #[serde(default = "yes")]
    resumable: bool,
}

impl MediaForm {
    /// The description for a method with this path, below this service path.
    pub(super) fn description(&self, service_path: &str, path: &str) -> MediaUploadDescription {
        let protocol = |prefix: &str| UploadProtocol {
            multipart: self.multipart,
            path: format!("{prefix}/{service_path}{path}"),
            extra: Map::new(),
        };
        MediaUploadDescription {
            accept: self.accept.ranges().map(ToString::to_string).collect(),
            // Plain digits, which every client reads.
            max_size: self
                .largest()
                .map(|size| Value::String(size.bytes().to_string())),
            protocols: UploadProtocols {
                simple: Some(protocol("/upload")),
                resumable: self.resumable.then(|| protocol("/resumable/upload")),
                extra: Map::new(),
            },
            extra: Map::new(),
        }
    }
}

impl MediaForm {
    /// The largest media of any type; `None` if there is no limit.
    fn largest(&self) -> Option<ByteSize> {
        let limits = self.size_limits().iter().map(|(_, limit)| *limit);
        limits.max_by_key(|limit| limit.bytes()).or(self.max_size)
    }

    /// The limits by media range, if there is one for each.
    pub(super) fn size_limits(&self) -> &[(MediaRange, ByteSize)] {
        match &self.accept {
            Accept::Ranges(_) => &[],
            Accept::Limits(limits) => limits,
        }
    }

    /// The mistake in the limits, if there is one.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let both = self.max_size.is_some() && !self.size_limits().is_empty();
        both.then_some("`accept` has a size for each media range, so `max_size` has no meaning")
    }
}

/// The accepted media ranges: a list, or a table with the largest media of each.
#[derive(Debug)]
enum Accept {
    Ranges(Vec<MediaRange>),
    Limits(Vec<(MediaRange, ByteSize)>),
}

impl Accept {
    fn ranges(&self) -> Box<dyn Iterator<Item = &MediaRange> + '_> {
        match self {
            Self::Ranges(ranges) => Box::new(ranges.iter()),
            Self::Limits(limits) => Box::new(limits.iter().map(|(range, _)| range)),
        }
    }
}

impl Default for Accept {
    fn default() -> Self {
        Self::Ranges(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Accept {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AcceptVisitor)
    }
}

struct AcceptVisitor;

impl<'de> Visitor<'de> for AcceptVisitor {
    type Value = Accept;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a list of media ranges, or a table such as { \"image/*\" = \"20MB\", \"video/*\" = \"200MB\" }",
        )
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Accept, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Accept::Ranges)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Accept, A::Error> {
        let mut limits = Vec::new();
        while let Some(entry) = table.next_entry()? {
            limits.push(entry);
        }
        Ok(Accept::Limits(limits))
    }
}

fn yes() -> bool {
    true
}
