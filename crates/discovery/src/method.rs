//! The methods of an API in their checked form.

use http::Method as HttpMethod;
use serde_json::Value;

use crate::byte_size::ByteSize;
use crate::document::{MediaUploadDescription, MethodDescription, UploadProtocol};
use crate::error::{Fault, Faults, FieldPath, LocatedFault};
use crate::media_range::{self, MediaRange, MediaTypeError};
use crate::parameter::{Location, Parameter, Patterns};
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
    /// Whether `alt=media` returns the media.
    pub supports_media_download: bool,
    /// Whether the document directs downloads to the path below `/download`.
    pub use_media_download_service: bool,
    /// The name of the schema of the metadata.
    pub request: Option<String>,
    /// The name of the schema of the reply.
    pub response: Option<String>,
    /// The method's parameters by name, without the parameters of the whole API.
    pub parameters: Vec<Parameter>,
    /// The required parameters in the order that clients should give them.
    pub parameter_order: Vec<String>,
    /// The OAuth scopes of which a caller needs one.
    pub scopes: Vec<String>,
}

/// The media that a method accepts.
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

/// The properties that all methods of an API share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApiHeader<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) service_path: &'a str,
}

impl Method {
    /// Returns the last part of the id: `insert`, `list`, `delete`, ..., or a custom verb.
    pub fn verb(&self) -> &str {
        self.id.rsplit('.').next().unwrap_or_default()
    }

    /// Returns the part of the id between API and verb, e.g. `animals` or `users.messages`; empty
    /// outside of collections.
    pub fn collection(&self) -> &str {
        let without_verb = self.id.rsplit_once('.').map_or("", |(before, _)| before);
        without_verb
            .split_once('.')
            .map_or("", |(_, collection)| collection)
    }

    /// Returns the parameter with this name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters
            .iter()
            .find(|parameter| parameter.name == name)
    }

    pub(crate) fn compile(
        header: ApiHeader<'_>,
        described: &MethodDescription,
        field_path: &FieldPath,
        patterns: &mut Patterns,
        faults: &mut Faults,
    ) -> Option<Self> {
        let parameters = compile_parameters(described, field_path, patterns, faults);
        check_parameter_order(described, &field_path.field("parameterOrder"), faults);
        let template = compile_path(header, described, &parameters, &field_path.field("path"));
        let template = faults.keep(template);
        let upload_path = field_path.field("mediaUpload");
        let upload = described.media_upload.as_ref();
        let upload = upload.map(|it| MediaUpload::compile(it, &parameters, &upload_path, faults));
        let id = faults.keep(field_path.field("id").required(described.id.as_deref()));
        let http_method = compile_http_method(described, &field_path.field("httpMethod"));
        let http_method = faults.keep(http_method);
        Some(Self {
            api_name: header.name.to_owned(),
            api_version: header.version.to_owned(),
            id: id?.to_owned(),
            http_method: http_method?,
            template: template?,
            upload,
            supports_media_download: described.supports_media_download,
            use_media_download_service: described.use_media_download_service,
            request: reference(described.request.as_ref()),
            response: reference(described.response.as_ref()),
            parameters,
            parameter_order: described.parameter_order.clone(),
            scopes: described.scopes.clone(),
        })
    }
}

impl MediaUpload {
    /// Whether the method accepts media of this `Content-Type`.
    pub fn accepts(&self, content_type: &str) -> bool {
        media_range::accepts(&self.accept, content_type)
    }

    fn compile(
        described: &MediaUploadDescription,
        parameters: &[Parameter],
        field_path: &FieldPath,
        faults: &mut Faults,
    ) -> Self {
        let max_size_path = field_path.field("maxSize");
        let max_size = described.max_size.as_ref();
        let max_size = max_size.and_then(|written| {
            faults.keep(compile_size(written).map_err(|fault| max_size_path.fault(fault)))
        });
        let protocols_path = field_path.field("protocols");
        let mut template_of = |protocol: &Option<UploadProtocol>, name| {
            let template_path = protocols_path.field(name).field("path");
            let path = &protocol.as_ref()?.path;
            faults.keep(compile_template(path, parameters, &template_path))
        };
        let protocols = &described.protocols;
        let simple_path = template_of(&protocols.simple, "simple");
        let resumable_path = template_of(&protocols.resumable, "resumable");
        let simple_multipart = protocols.simple.as_ref().is_some_and(|it| it.multipart);
        Self {
            accept: compile_accept(&described.accept, &field_path.field("accept"), faults),
            max_size,
            simple_path,
            simple_multipart,
            resumable_path,
        }
    }
}

fn compile_parameters(
    described: &MethodDescription,
    field_path: &FieldPath,
    patterns: &mut Patterns,
    faults: &mut Faults,
) -> Vec<Parameter> {
    let field_path = field_path.field("parameters");
    let mut compile = |(name, it): (&String, _)| {
        Parameter::compile(name, it, &field_path.field(name), patterns, faults)
    };
    described
        .parameters
        .iter()
        .filter_map(&mut compile)
        .collect()
}

fn check_parameter_order(
    described: &MethodDescription,
    field_path: &FieldPath,
    faults: &mut Faults,
) {
    for (at, name) in described.parameter_order.iter().enumerate() {
        if !described.parameters.contains_key(name) {
            let name = name.clone();
            faults.push(
                field_path
                    .element(at)
                    .fault(Fault::UnknownParameter { name }),
            );
        }
    }
}

fn compile_path(
    header: ApiHeader<'_>,
    described: &MethodDescription,
    parameters: &[Parameter],
    field_path: &FieldPath,
) -> Result<Template, LocatedFault> {
    let path = field_path.required(described.path.as_deref())?;
    compile_template(&join(header.service_path, path), parameters, field_path)
}

fn compile_http_method(
    described: &MethodDescription,
    field_path: &FieldPath,
) -> Result<HttpMethod, LocatedFault> {
    let written = field_path.required(described.http_method.as_deref())?;
    let fault = |_| {
        field_path.fault(Fault::HttpMethod {
            http_method: written.to_owned(),
        })
    };
    HttpMethod::from_bytes(written.as_bytes()).map_err(fault)
}

fn compile_template(
    path: &str,
    parameters: &[Parameter],
    field_path: &FieldPath,
) -> Result<Template, LocatedFault> {
    let in_path = |name: &str| {
        let mut parameters = parameters.iter();
        parameters.find(|it| it.name == name && it.location == Location::Path)
    };
    let pattern_of = |name: &str| Some(in_path(name)?.pattern.as_ref()?.as_str());
    let template =
        Template::parse_with_patterns(path, pattern_of).map_err(|error| field_path.fault(error))?;
    if let Some(name) = template.variables().find(|name| in_path(name).is_none()) {
        return Err(field_path.fault(Fault::UndescribedVariable {
            name: name.to_owned(),
        }));
    }
    Ok(template)
}

fn compile_accept(
    accept: &[String],
    field_path: &FieldPath,
    faults: &mut Faults,
) -> Vec<MediaRange> {
    let range_at = |(at, range): (usize, &String)| {
        let range = range.parse();
        faults.keep(range.map_err(|error: MediaTypeError| field_path.element(at).fault(error)))
    };
    accept.iter().enumerate().filter_map(range_at).collect()
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

/// Joins service path and path with one slash.
pub(crate) fn join(service_path: &str, path: &str) -> String {
    let service_path = without_leading_slash(service_path);
    let path = without_leading_slash(path);
    let slash = if service_path.is_empty() || service_path.ends_with('/') {
        ""
    } else {
        "/"
    };
    format!("{service_path}{slash}{path}")
}
