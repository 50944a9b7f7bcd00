//! What is remembered of a request that started an upload, until its resource is made.

use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, HeaderName, HeaderValue, Method as HttpMethod};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_discovery::PathParameters;
use windlass_proto::digest::{ExpectedDigests, Wanted};
use windlass_proto::metadata::parse_metadata;
use windlass_proto::parameters::{Parameters, StandardParameters};

use crate::error::{BodyError, Error};
use crate::origin::Host;
use crate::partial_response::FieldMask;
use crate::registry::{Registry, ServedMethod};

/// Parameters that give access to something. They are not remembered.
const CREDENTIALS: [&str; 5] = [
    "access_token",
    "key",
    "oauth_token",
    "upload_id",
    "upload_token",
];

/// Metadata up to this length is kept in memory while the media is on its way.
const SMALL_METADATA: usize = 4 * 1024;

/// A request for an upload: which method, with which parameters, for which media.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct UploadRequest {
    /// That of the API, if it has one.
    #[serde(default)]
    host: Option<Host>,
    api: String,
    version: String,
    method: String,
    /// The plain path: raw, without the `/upload` in front.
    pub(crate) path: String,
    query: String,
    // The name in ledgers that are there already.
    #[serde(rename = "verb")]
    http_method: String,
    /// Where clients reach the server.
    pub(crate) base_url: String,
    /// The JSON that came with it, as text: parsed it takes many times the memory, and an upload may
    /// take days.
    metadata: String,
    /// The media's type.
    pub(crate) content_type: String,
    /// What the client said the digests are.
    pub(crate) expected: ExpectedDigests,
    /// `If-Match` and its kin, by name.
    conditions: Vec<(String, String)>,
}

/// The head of a request for an upload, before its body is read.
pub(crate) struct UploadHead<'a> {
    pub(crate) method: ServedMethod<'a>,
    pub(crate) http_method: &'a HttpMethod,
    pub(crate) path: &'a str,
    pub(crate) query: &'a Parameters,
    pub(crate) base_url: &'a str,
    pub(crate) headers: &'a HeaderMap,
}

impl UploadHead<'_> {
    /// Puts the head together with what came in the body: metadata, and the type of the media.
    ///
    /// # Errors
    /// When the method does not take this type, or the metadata states malformed digests.
    pub(crate) fn with_body(
        &self,
        metadata: &Map<String, Value>,
        content_type: Option<String>,
        expected: ExpectedDigests,
    ) -> Result<UploadRequest, Error> {
        let content_type = content_type
            .or_else(|| type_in_metadata(metadata))
            .unwrap_or_else(|| "application/octet-stream".to_owned());
        self.check_type(&content_type)?;
        check_reply_parameters(self.query)?;
        let expected = expected.merge(ExpectedDigests::from_metadata(metadata)?)?;
        let method = self.method.method;
        Ok(UploadRequest {
            host: self.method.served.host.clone(),
            api: method.api_name.clone(),
            version: method.api_version.clone(),
            method: method.id.clone(),
            path: self.path.to_owned(),
            query: without_secrets(self.query),
            http_method: self.http_method.to_string(),
            base_url: self.base_url.to_owned(),
            metadata: serde_json::to_string(metadata).expect("JSON can be written"),
            content_type,
            expected,
            conditions: conditions(self.headers),
        })
    }

    fn check_type(&self, content_type: &str) -> Result<(), Error> {
        match &self.method.method.upload {
            Some(upload) if !upload.accepts(content_type) => Err(Error::MediaType {
                content_type: content_type.to_owned(),
                accepted: upload
                    .accept
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
            _ => Ok(()),
        }
    }
}

impl UploadRequest {
    /// Reads what [`UploadRequest::to_bytes`] wrote. `None` when it is something else.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// The form in which it is stored with a session.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and JSON can be written as JSON")
    }

    /// The method, if the server still serves it.
    pub(crate) fn method<'a>(&self, registry: &'a Registry) -> Result<ServedMethod<'a>, Error> {
        registry
            .method(self.host.as_ref(), &self.api, &self.version, &self.method)
            .ok_or_else(|| Error::NoSuchPath {
                path: self.path.clone(),
            })
    }

    /// The variables of the path.
    pub(crate) fn path_parameters(&self, method: ServedMethod<'_>) -> PathParameters {
        method
            .method
            .template
            .match_path(&self.path)
            .unwrap_or_default()
    }

    /// The parameters of the query, without the secret ones. They were UTF-8 when the query was written.
    pub(crate) fn parameters(&self) -> Parameters {
        Parameters::parse(Some(&self.query)).unwrap_or_default()
    }

    /// The JSON that came with it.
    pub(crate) fn metadata(&self) -> Result<Map<String, Value>, Error> {
        Ok(parse_metadata(self.metadata.as_bytes())?)
    }

    /// What the request was conditional on. The conditions hold at the end as at the start.
    pub(crate) fn conditions(&self) -> (HttpMethod, HeaderMap) {
        let headers = self.conditions.iter();
        let headers = headers.filter_map(|(name, value)| {
            Some((
                name.parse::<HeaderName>().ok()?,
                value.parse::<HeaderValue>().ok()?,
            ))
        });
        let http_method = self.http_method.parse().unwrap_or(HttpMethod::POST);
        (http_method, headers.collect())
    }

    /// Refuses metadata that is longer than `limit`, after media has been taken out of it.
    pub(crate) fn check_metadata(&self, limit: usize) -> Result<(), Error> {
        if self.metadata.len() > limit {
            return Err(BodyError::TooLong { limit }.into());
        }
        Ok(())
    }

    /// Lets go of metadata that is not small, for as long as the media is on its way.
    pub(crate) fn drop_metadata(&mut self) {
        if self.metadata.len() > SMALL_METADATA {
            self.metadata = String::new();
        }
    }

    /// About how many bytes it takes in memory.
    pub(crate) fn memory(&self) -> usize {
        let conditions = self.conditions.iter();
        let conditions: usize = conditions
            .map(|(name, value)| name.len() + value.len())
            .sum();
        let texts = [
            &self.path,
            &self.query,
            &self.base_url,
            &self.metadata,
            &self.content_type,
        ];
        conditions + texts.map(String::len).iter().sum::<usize>()
    }

    /// Whether [`UploadRequest::drop_metadata`] has let go of the metadata. Written JSON is never empty.
    pub(crate) fn is_metadata_dropped(&self) -> bool {
        self.metadata.is_empty()
    }

    /// Whether the request was a POST, so that a resource is created by it.
    pub(crate) fn creates(&self) -> bool {
        self.http_method == HttpMethod::POST.as_str()
    }

    /// The digests to be computed while the media streams.
    pub(crate) fn wanted(&self, method: ServedMethod<'_>) -> Wanted {
        method.wanted_digests().or(self.expected.wanted())
    }
}

#[cfg(test)]
impl UploadRequest {
    /// One that uploads an animal.
    pub(crate) fn example() -> Self {
        Self {
            host: None,
            api: "farm".to_owned(),
            version: "v1".to_owned(),
            method: "farm.animals.insert".to_owned(),
            path: "/farm/v1/animals".to_owned(),
            query: String::new(),
            http_method: HttpMethod::POST.to_string(),
            base_url: "http://127.0.0.1".to_owned(),
            metadata: "{}".to_owned(),
            content_type: "image/jpeg".to_owned(),
            expected: ExpectedDigests::default(),
            conditions: Vec::new(),
        }
    }
}

fn conditions(headers: &HeaderMap) -> Vec<(String, String)> {
    let names = [
        IF_MATCH,
        IF_NONE_MATCH,
        IF_MODIFIED_SINCE,
        IF_UNMODIFIED_SINCE,
    ];
    let values = names.iter().flat_map(|name| {
        let values = headers.get_all(name).into_iter();
        values.filter_map(|value| Some((name.to_string(), value.to_str().ok()?.to_owned())))
    });
    values.collect()
}

/// The final reply will be shaped by these parameters; better refuse them before the media comes.
fn check_reply_parameters(query: &Parameters) -> Result<(), Error> {
    let standard = StandardParameters::from_parameters(query)?;
    standard
        .fields
        .as_deref()
        .map(FieldMask::parse)
        .transpose()?;
    Ok(())
}

/// The fields that clients and APIs use for the media's type.
fn type_in_metadata(metadata: &Map<String, Value>) -> Option<String> {
    let field = |name| {
        metadata
            .get(name)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    field("mimeType")
        .or_else(|| field("contentType"))
        .map(str::to_owned)
}

fn without_secrets(query: &Parameters) -> String {
    let escape = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs = query.iter().filter(|(name, _)| !CREDENTIALS.contains(name));
    let pairs: Vec<_> = pairs
        .map(|(name, value)| format!("{}={}", escape(name), escape(value)))
        .collect();
    pairs.join("&")
}
