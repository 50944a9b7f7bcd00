//! The methods of an API, checked and in the form a server works with.

use http::Method as HttpMethod;
use serde_json::Value;

use crate::byte_size::ByteSize;
use crate::document::{
    MediaUploadDescription, MethodDescription, ParameterDescription, UploadProtocol,
};
use crate::error::{Error, Fault, Place};
use crate::media_range::{self, MediaRange, MediaTypeError};
use crate::schema::Schema;
use crate::template::{Template, without_leading_slash};

/// A method of an API, e.g. `farm.animals.insert`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Method {
    /// The name of the API, e.g. `farm`.
    pub api_name: String,
    /// The version of the API, e.g. `v1`.
    pub api_version: String,
    /// The unique name within the API, e.g. `farm.animals.insert`.
    pub id: String,
    /// The HTTP method.
    pub http_method: HttpMethod,
    /// The whole path, service path included, e.g. `farm/v1/animals/{animalId}`.
    pub template: Template,
    /// How media is uploaded; `None` for a method without media.
    pub upload: Option<MediaUpload>,
    /// Whether `alt=media` gives the media.
    pub supports_media_download: bool,
    /// The name of the schema of the metadata.
    pub request: Option<String>,
    /// The name of the schema of the reply.
    pub response: Option<String>,
    /// The parameters by name, those of the whole API not among them.
    pub parameters: Vec<Parameter>,
    /// The required parameters in the order that clients should give them.
    pub parameter_order: Vec<String>,
    /// The OAuth scopes of which a caller needs one.
    pub scopes: Vec<String>,
}

/// How a method takes media.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MediaUpload {
    /// The accepted media ranges; empty accepts everything.
    pub accept: Vec<MediaRange>,
    /// The largest media; `None` if the description sets no limit.
    pub max_size: Option<ByteSize>,
    /// The document's path for `uploadType=media` and `multipart`.
    pub simple_path: Option<Template>,
    /// Whether the document allows `uploadType=multipart`.
    pub simple_multipart: bool,
    /// The document's path for `uploadType=resumable`; published documents leave it out for more
    /// than half of the methods.
    pub resumable_path: Option<Template>,
}

/// A parameter in the path or in the query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Where it is given.
    pub location: Location,
    /// Whether it must be given.
    pub required: bool,
    /// Whether it may be given more than once.
    pub repeated: bool,
    /// `string`, `integer`, `number` or `boolean`; `string` where the document is silent.
    pub json_type: String,
    /// What a string or a number holds, e.g. `int64`.
    pub format: Option<String>,
    /// The allowed values; empty where there is no such list.
    pub allowed_values: Vec<String>,
    /// A regular expression for the value.
    pub pattern: Option<String>,
    /// The value where none is given.
    pub default: Option<String>,
}

/// Where a parameter is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// In the path.
    Path,
    /// In the query.
    Query,
}

/// What the methods of one API have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) service_path: &'a str,
}

impl Method {
    /// The last word of the id: `insert`, `list`, `delete`, ... or a verb of the API's own.
    pub fn verb(&self) -> &str {
        self.id.rsplit('.').next().unwrap_or_default()
    }

    /// The words between the API and the verb, e.g. `animals` or `users.messages`; empty for a
    /// method outside of any collection.
    pub fn collection(&self) -> &str {
        let without_verb = self.id.rsplit_once('.').map_or("", |(before, _)| before);
        without_verb
            .split_once('.')
            .map_or("", |(_, collection)| collection)
    }

    /// The parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters
            .iter()
            .find(|parameter| parameter.name == name)
    }

    pub(crate) fn compile(
        owner: Owner<'_>,
        described: &MethodDescription,
        place: &Place,
    ) -> Result<Self, Error> {
        let parameters = compile_parameters(described, &place.field("parameters"))?;
        check_parameter_order(described, &place.field("parameterOrder"))?;
        let path_place = place.field("path");
        let path = path_place.required(described.path.as_deref())?;
        let path = join(owner.service_path, path);
        let upload = described.media_upload.as_ref();
        let upload = upload
            .map(|upload| MediaUpload::compile(upload, &parameters, &place.field("mediaUpload")))
            .transpose()?;
        Ok(Self {
            api_name: owner.name.to_owned(),
            api_version: owner.version.to_owned(),
            id: place
                .field("id")
                .required(described.id.as_deref())?
                .to_owned(),
            http_method: compile_http_method(described, &place.field("httpMethod"))?,
            template: compile_template(&path, &parameters, &path_place)?,
            upload,
            supports_media_download: described.supports_media_download,
            request: reference(described.request.as_ref()),
            response: reference(described.response.as_ref()),
            parameters,
            parameter_order: described.parameter_order.clone(),
            scopes: described.scopes.clone(),
        })
    }
}

impl MediaUpload {
    /// Whether the method takes media of this `Content-Type`.
    pub fn accepts(&self, content_type: &str) -> bool {
        media_range::accepts(&self.accept, content_type)
    }

    fn compile(
        described: &MediaUploadDescription,
        parameters: &[Parameter],
        place: &Place,
    ) -> Result<Self, Error> {
        let max_size_place = place.field("maxSize");
        let max_size = described.max_size.as_ref().map(compile_size).transpose();
        let protocols_place = place.field("protocols");
        let template_of = |protocol: Option<&UploadProtocol>, name| {
            let path_place = protocols_place.field(name).field("path");
            protocol
                .map(|it| compile_template(&it.path, parameters, &path_place))
                .transpose()
        };
        let protocols = &described.protocols;
        Ok(Self {
            accept: compile_accept(&described.accept, &place.field("accept"))?,
            max_size: max_size.map_err(|fault| max_size_place.fault(fault))?,
            simple_path: template_of(protocols.simple.as_ref(), "simple")?,
            simple_multipart: protocols
                .simple
                .as_ref()
                .is_some_and(|simple| simple.multipart),
            resumable_path: template_of(protocols.resumable.as_ref(), "resumable")?,
        })
    }
}

impl Parameter {
    fn compile(name: &str, described: &ParameterDescription, place: &Place) -> Result<Self, Error> {
        let location_place = place.field("location");
        let location = match location_place.required(described.location.as_deref())? {
            "path" => Location::Path,
            "query" => Location::Query,
            other => {
                let location = other.to_owned();
                return Err(location_place.fault(Fault::Location { location }));
            }
        };
        Ok(Self {
            name: name.to_owned(),
            location,
            required: described.required,
            repeated: described.repeated,
            json_type: described
                .json_type
                .clone()
                .unwrap_or_else(|| "string".to_owned()),
            format: described.format.clone(),
            allowed_values: described.allowed_values.clone(),
            pattern: described.pattern.clone(),
            default: described.default.clone(),
        })
    }
}

fn compile_parameters(
    described: &MethodDescription,
    place: &Place,
) -> Result<Vec<Parameter>, Error> {
    let parameters = described.parameters.iter();
    parameters
        .map(|(name, it)| Parameter::compile(name, it, &place.field(name)))
        .collect()
}

fn check_parameter_order(described: &MethodDescription, place: &Place) -> Result<(), Error> {
    let order = &described.parameter_order;
    match order
        .iter()
        .position(|name| !described.parameters.contains_key(name))
    {
        Some(at) => Err(place.element(at).fault(Fault::UnknownParameter {
            name: order[at].clone(),
        })),
        None => Ok(()),
    }
}

fn compile_http_method(described: &MethodDescription, place: &Place) -> Result<HttpMethod, Error> {
    let written = place.required(described.http_method.as_deref())?;
    let fault = |_| {
        place.fault(Fault::HttpMethod {
            http_method: written.to_owned(),
        })
    };
    HttpMethod::from_bytes(written.as_bytes()).map_err(fault)
}

fn compile_template(
    path: &str,
    parameters: &[Parameter],
    place: &Place,
) -> Result<Template, Error> {
    let in_path = |name: &str| {
        let mut parameters = parameters.iter();
        parameters.find(|it| it.name == name && it.location == Location::Path)
    };
    let pattern_of = |name: &str| in_path(name)?.pattern.as_deref();
    let template =
        Template::parse_with_patterns(path, pattern_of).map_err(|error| place.fault(error))?;
    if let Some(name) = template.variables().find(|name| in_path(name).is_none()) {
        return Err(place.fault(Fault::UndescribedVariable {
            name: name.to_owned(),
        }));
    }
    Ok(template)
}

fn compile_accept(accept: &[String], place: &Place) -> Result<Vec<MediaRange>, Error> {
    let range_at = |(at, range): (usize, &String)| {
        range
            .parse()
            .map_err(|error: MediaTypeError| place.element(at).fault(error))
    };
    accept.iter().enumerate().map(range_at).collect()
}

fn compile_size(written: &Value) -> Result<ByteSize, Fault> {
    match written {
        Value::String(text) => Ok(text.parse()?),
        other => other
            .as_u64()
            .map(ByteSize::from_bytes)
            .ok_or(Fault::NotASize),
    }
}

fn reference(schema: Option<&Schema>) -> Option<String> {
    schema.and_then(|schema| schema.reference.clone())
}

/// A service path nearly always ends in a slash of its own.
fn join(service_path: &str, path: &str) -> String {
    let service_path = without_leading_slash(service_path);
    let path = without_leading_slash(path);
    let slash = if service_path.is_empty() || service_path.ends_with('/') {
        ""
    } else {
        "/"
    };
    format!("{service_path}{slash}{path}")
}
