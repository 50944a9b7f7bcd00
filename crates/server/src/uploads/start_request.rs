//! The start request: the data that the server keeps about the request that started an upload,
//! until the upload's resource is created.

use std::net::IpAddr;

use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Method as HttpMethod};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_digest::{ExpectedDigests, Wanted};
use windlass_discovery::{PathParameters, ResponseFields};
use windlass_engine::{Caller, UploadContext};
use windlass_proto::error::ProtocolError;
use windlass_proto::expected_digests;
use windlass_proto::metadata::{MetadataLimits, parse_metadata};
use windlass_proto::parameters::{Parameters, StandardParameters};
use windlass_proto::session::{SessionError, UploadKind};
use windlass_rest::cors::MAX_ORIGIN_LEN;
use windlass_rest::handler::Rejection;
use windlass_rest::host::Host;
use windlass_rest::link_terms::LinkTerms;
use windlass_rest::partial_response::FieldMask;
use windlass_rest::principal::{Principal, caller};
use windlass_rest::registry::{Registry, ServedMethod};
use windlass_store::SessionId;

use crate::audit::About;
use crate::error::{BodyError, Error};

/// Query parameters that are credentials. They are not stored.
const CREDENTIALS: [&str; 6] = [
    "X-Windlass-Link",
    "access_token",
    "key",
    "oauth_token",
    "upload_id",
    "upload_token",
];

/// Details that only the end of an upload needs are kept in memory during the upload up to this
/// length in bytes.
// A thousand sessions thus keep at most 4 MiB. More is read again from the ledger.
const SMALL_DETAILS: usize = 4 * 1024;

/// Bytes to escape in a query: all but the unreserved characters of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The data that the server keeps about the request that started an upload: the called API method,
/// the parameters, the metadata, and the type of the media.
///
/// A session's start request is stored as JSON in the session's row. The names of the fields are
/// therefore a format on disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StartRequest {
    /// Virtual host of the API, if it has one.
    // Versions without virtual hosts wrote rows without this field.
    #[serde(default)]
    host: Option<Host>,
    /// Name of the API.
    api: String,
    /// Version of the API.
    version: String,
    /// Id of the method, such as `farm.animals.insert`.
    method: String,
    /// Path of the request as it was sent, without the upload prefix (`/upload` or
    /// `/resumable/upload`).
    pub(crate) path: String,
    /// Query without credentials.
    query: String,
    /// HTTP method.
    // `verb` is the name in existing ledgers.
    #[serde(rename = "verb")]
    http_method: String,
    /// URL under which the client reached the server, without a slash at its end.
    pub(crate) base_url: String,
    /// The JSON metadata as text. Parsed, it would take many times the memory, for days if the
    /// upload takes days.
    metadata: String,
    /// Type of the media.
    content_type: String,
    /// Digests of the media that the client states.
    #[serde(rename = "expected")]
    expected_digests: ExpectedDigests,
    /// Conditional headers, such as `If-Match`, by name.
    conditions: StatedConditions,
    /// Name of the file, if the request states one.
    // Versions without it wrote rows without this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) file_name: Option<String>,
    /// The origin of the page that started the upload, or that it was started for.
    // Versions without it wrote rows without this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
    /// What the dialect of the session wants back when it reports on it, such as a header as it was
    /// sent.
    // Versions without it wrote rows without this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<String>,
    /// What the upload is to others.
    // Versions without it wrote rows without this field.
    #[serde(default, skip_serializing_if = "StoredKind::is_whole")]
    kind: StoredKind,
    /// The terms of the request's signed link, if it came with a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) link: Option<LinkTerms>,
    /// The principal that started the upload, if it is known. Not in the JSON: the session's row
    /// has it as its `owner`.
    #[serde(skip)]
    pub(crate) principal: Option<Principal>,
    /// The address of the client that sent the current request, if it is known.
    #[serde(skip)]
    pub(crate) client: Option<IpAddr>,
    /// Whether [`UploadContext::drop_details`] has dropped something.
    #[serde(skip)]
    are_details_dropped: bool,
}

/// The form of an [`UploadKind`] in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredKind {
    #[default]
    Whole,
    Partial,
    Concatenated,
}

impl StoredKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

/// Conditional headers with their values.
pub(crate) type StatedConditions = Vec<(String, String)>;

/// Prefix of headers in which some APIs state their own conditions.
const CONDITION_PREFIX: &str = "x-goog-if-";

/// Number of characters of a file's name that are kept.
const MAX_FILE_NAME_LEN: usize = 255;

/// The type of media about which nothing is known.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Maximum length in bytes of a media type.
const MAX_TYPE_LEN: usize = 1024;

/// The head of a request for an upload, before its body is read.
pub(crate) struct UploadHead<'a> {
    pub(crate) method: ServedMethod<'a>,
    pub(crate) http_method: &'a HttpMethod,
    pub(crate) path: &'a str,
    pub(crate) query: &'a Parameters,
    pub(crate) base_url: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) principal: Option<&'a Principal>,
    /// The address of the client, if it is known.
    pub(crate) client: Option<IpAddr>,
}

impl UploadHead<'_> {
    /// Combines the head with the metadata, the type of the media and the digests in the headers.
    /// Without a type, the type in the metadata is used.
    ///
    /// # Errors
    /// If the method does not accept the type, a parameter that shapes the final reply is invalid,
    /// or the metadata states digests that are malformed or differ from the digests in the headers.
    pub(crate) fn with_body(
        &self,
        metadata: &Map<String, Value>,
        content_type: Option<String>,
        expected_digests: ExpectedDigests,
    ) -> Result<StartRequest, Error> {
        let content_type = content_type
            .or_else(|| types_in_metadata(metadata).next().map(str::to_owned))
            .unwrap_or_else(|| UNKNOWN_TYPE.to_owned());
        // Some APIs use the media type that the metadata states.
        for stated in types_in_metadata(metadata).chain([&*content_type]) {
            check_form(stated)?;
            self.check_link_type(stated)?;
        }
        self.check_type(&content_type)?;
        check_reply_parameters(self.method, self.query)?;
        let in_metadata = expected_digests::from_metadata(metadata)?;
        Ok(StartRequest {
            metadata: serde_json::to_string(metadata).expect("JSON can be written"),
            content_type,
            expected_digests: expected_digests.merge(in_metadata)?,
            ..self.without_body()
        })
    }

    /// Returns the start request of a partial upload. It has no metadata and no type, so the method
    /// does not judge it: it judges the upload that is concatenated from it.
    pub(crate) fn of_partial(&self) -> StartRequest {
        StartRequest {
            kind: StoredKind::Partial,
            ..self.without_body()
        }
    }

    /// Returns the start request without metadata, of an unknown type, and without digests.
    fn without_body(&self) -> StartRequest {
        let ServedMethod {
            served: served_api,
            method,
        } = self.method;
        StartRequest {
            host: served_api.host.clone(),
            api: method.api_name.clone(),
            version: method.api_version.clone(),
            method: method.id.clone(),
            path: self.path.to_owned(),
            query: without_credentials(self.query),
            http_method: self.http_method.to_string(),
            base_url: self.base_url.to_owned(),
            metadata: "{}".to_owned(),
            content_type: UNKNOWN_TYPE.to_owned(),
            expected_digests: ExpectedDigests::default(),
            conditions: conditions(self.headers),
            file_name: file_name(self.headers),
            origin: None,
            kept: None,
            kind: StoredKind::Whole,
            link: self.link().cloned(),
            principal: self.principal.cloned(),
            client: self.client,
            are_details_dropped: false,
        }
    }

    fn link(&self) -> Option<&LinkTerms> {
        self.principal.and_then(Principal::link)
    }

    fn check_link_type(&self, content_type: &str) -> Result<(), Error> {
        match self.link() {
            Some(link) if !link.accepts(content_type) => Err(Error::LinkMediaType {
                content_type: content_type.to_owned(),
                accepted: link
                    .media_type()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            }),
            _ => Ok(()),
        }
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

/// Returns the name of the file that the headers state, percent-encoded or not, as clients write
/// it. Bytes that are not UTF-8 become replacement characters.
fn file_name(headers: &HeaderMap) -> Option<String> {
    let stated = headers.get("x-goog-upload-file-name")?;
    usable_name(&percent_decode(stated.as_bytes()).decode_utf8_lossy())
}

/// Returns the name of a file without spaces around it, of a limited length, and with replacement
/// characters in place of control characters.
pub(crate) fn usable_name(name: &str) -> Option<String> {
    let name = name.trim().chars().take(MAX_FILE_NAME_LEN);
    let name: String = name
        .map(|char| {
            if char.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                char
            }
        })
        .collect();
    Some(name).filter(|name| !name.is_empty())
}

impl StartRequest {
    /// Reads the form written by [`StartRequest::to_bytes`]; `None` if the bytes cannot be parsed.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Returns the form that is stored with a session.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and JSON can be written as JSON")
    }

    /// Adds what a dialect has found in the head: the name of the file, and what it wants back.
    pub(crate) fn with_statements(
        mut self,
        file_name: Option<String>,
        kept: Option<String>,
    ) -> Self {
        self.file_name = file_name.or(self.file_name);
        self.kept = kept;
        self
    }

    /// Makes the upload one that is concatenated from partial uploads.
    #[must_use]
    pub(crate) fn concatenated(self) -> Self {
        Self {
            kind: StoredKind::Concatenated,
            ..self
        }
    }

    /// Returns the virtual host of the API, if it has one.
    pub(super) fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// Returns the name of the API.
    pub(super) fn api_name(&self) -> &str {
        &self.api
    }

    /// Returns the id of the method, whether or not the server still serves it.
    pub(crate) fn method_id(&self) -> &str {
        &self.method
    }

    /// Returns the audit log's description of the call. `session` is the session that the call
    /// belongs to.
    pub(crate) fn audited(&self, session: Option<SessionId>) -> About<'_> {
        About {
            method: Some(&self.method),
            path: Some(&self.path),
            resource: None,
            session,
        }
    }

    /// Returns the method with its API.
    ///
    /// # Errors
    /// [`Error::NoSuchPath`] if the server does not serve it any more.
    pub(crate) fn method<'a>(&self, registry: &'a Registry) -> Result<ServedMethod<'a>, Error> {
        registry
            .method(self.host.as_ref(), &self.api, &self.version, &self.method)
            .ok_or_else(|| Error::NoSuchPath {
                path: self.path.clone(),
            })
    }

    /// Returns the variables of the path.
    pub(crate) fn path_parameters(&self, method: ServedMethod<'_>) -> PathParameters {
        method
            .method
            .template
            .match_path(&self.path)
            .unwrap_or_default()
    }

    /// Returns the parameters of the query, without credentials. Must not be called if
    /// [`UploadContext::are_details_dropped`].
    pub(crate) fn parameters(&self) -> Parameters {
        Parameters::parse(Some(&self.query)).unwrap_or_default()
    }

    /// Parses the metadata. Must not be called if [`UploadContext::are_details_dropped`].
    pub(crate) fn metadata(&self) -> Result<Map<String, Value>, Error> {
        let limits = MetadataLimits::ACCEPTED_BEFORE;
        Ok(parse_metadata(self.metadata.as_bytes(), limits)?)
    }

    /// Returns the HTTP method and the conditional headers. The conditions are checked when the
    /// upload starts and again when it finishes. Must not be called if
    /// [`UploadContext::are_details_dropped`].
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

    /// Refuses conditions on a request to the session that are not among the start request's
    /// conditions. Only the start request's conditions are checked at the end.
    pub(crate) fn check_conditions(&self, stated: &StatedConditions) -> Result<(), Rejection> {
        let mut others = stated.iter().filter(|it| !self.conditions.contains(it));
        match others.next() {
            None => Ok(()),
            Some((name, _)) => Err(Rejection::InvalidHeader {
                header: name.clone(),
                problem:
                    "is not a condition of the request that started the upload; state it there"
                        .to_owned(),
            }),
        }
    }

    /// Adds the origin in the headers, so that the session is open to pages of this origin.
    #[must_use]
    pub(crate) fn for_origin(self, headers: &HeaderMap) -> Self {
        let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
        let origin = origin.filter(|origin| origin.len() <= MAX_ORIGIN_LEN);
        Self {
            origin: origin.map(str::to_owned),
            ..self
        }
    }

    /// Refuses metadata longer than `limit` bytes. Media that was embedded in the metadata does not
    /// count, because the caller has already removed it.
    pub(crate) fn check_metadata(&self, limit: usize) -> Result<(), Error> {
        if self.metadata.len() > limit {
            return Err(BodyError::TooLong { limit }.into());
        }
        Ok(())
    }

    /// Length in bytes of the parts that can be dropped.
    fn details(&self) -> usize {
        let conditions = self.conditions.iter();
        let conditions = conditions.map(|(name, value)| name.len() + value.len());
        let kept = self.kept.as_ref().map_or(0, String::len);
        self.metadata.len() + self.query.len() + kept + conditions.sum::<usize>()
    }

    /// Returns the maximum size in bytes that the signed link allows; `None` without such a limit.
    pub(crate) fn link_max_size(&self) -> Option<u64> {
        self.link.as_ref().and_then(LinkTerms::max_size)
    }

    /// Replaces an error about the size of the media by [`Error::LinkMediaSize`] if it was the
    /// signed link that has set the limit.
    pub(crate) fn name_link_limit(&self, error: impl Into<Error>) -> Error {
        match error.into() {
            Error::Protocol(ProtocolError::Session(SessionError::TooLarge { limit }))
                if self.link_max_size() == Some(limit) =>
            {
                Error::LinkMediaSize { limit }
            }
            error => error,
        }
    }

    /// Whether it was a POST, which creates a resource.
    pub(crate) fn creates(&self) -> bool {
        self.http_method == HttpMethod::POST.as_str()
    }

    /// Returns the digests to compute in addition to CRC32C: the digests that the method's
    /// resources show, and the digests that the client has stated.
    pub(crate) fn wanted_digests(&self, method: ServedMethod<'_>) -> Wanted {
        let expected = self.expected_digests.wanted();
        method.wanted_digests().union(expected)
    }
}

impl UploadContext for StartRequest {
    fn caller(&self) -> Option<Caller> {
        caller(self.principal.as_ref(), self.client)
    }

    fn owner(&self) -> Option<&str> {
        self.principal.as_ref().map(Principal::id)
    }

    fn content_type(&self) -> &str {
        &self.content_type
    }

    fn kind(&self) -> UploadKind {
        match self.kind {
            StoredKind::Whole => UploadKind::Whole,
            StoredKind::Partial => UploadKind::Partial,
            StoredKind::Concatenated => UploadKind::Concatenated,
        }
    }

    fn expected_digests(&self) -> ExpectedDigests {
        self.expected_digests
    }

    fn memory(&self) -> usize {
        let origin = self.origin.as_ref().map_or(0, String::len);
        let origin = origin + self.file_name.as_ref().map_or(0, String::len);
        let texts = [&self.path, &self.base_url, &self.content_type];
        self.details() + origin + texts.map(String::len).iter().sum::<usize>()
    }

    /// Drops the metadata, the query, the conditions and what the dialect keeps, if they are longer
    /// than [`SMALL_DETAILS`].
    fn drop_details(&mut self) {
        if self.details() > SMALL_DETAILS {
            self.metadata = String::new();
            self.query = String::new();
            self.conditions = Vec::new();
            self.kept = None;
            self.are_details_dropped = true;
        }
    }

    fn are_details_dropped(&self) -> bool {
        self.are_details_dropped
    }
}

#[cfg(test)]
impl StartRequest {
    /// Returns the start request of an upload to the Farm API.
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
            expected_digests: ExpectedDigests::default(),
            conditions: Vec::new(),
            file_name: None,
            origin: None,
            kept: None,
            kind: StoredKind::Whole,
            link: None,
            principal: None,
            client: None,
            are_details_dropped: false,
        }
    }
}

/// Returns the conditional headers with their values, by name. Bytes that are not UTF-8 are
/// replaced, as the evaluation of conditions does as well. That is harmless, because no tag of this
/// server has such bytes. A value is never left out, because the upload would then be
/// unconditional.
pub(crate) fn conditions(headers: &HeaderMap) -> StatedConditions {
    let names = [
        IF_MATCH,
        IF_NONE_MATCH,
        IF_MODIFIED_SINCE,
        IF_UNMODIFIED_SINCE,
    ];
    let own = headers.keys();
    let own = own.filter(|name| name.as_str().starts_with(CONDITION_PREFIX));
    let values = names.iter().chain(own).flat_map(|name| {
        let values = headers.get_all(name).into_iter();
        values.map(|value| {
            let value = String::from_utf8_lossy(value.as_bytes());
            (name.to_string(), value.into_owned())
        })
    });
    values.collect()
}

/// Refuses invalid values of the parameters that shape the final reply, before the media is
/// uploaded.
fn check_reply_parameters(method: ServedMethod<'_>, query: &Parameters) -> Result<(), Error> {
    let standard = StandardParameters::from_parameters(query)?;
    if let Some(fields) = &standard.fields {
        let reply = ResponseFields::of(&method.served.api, method.method);
        FieldMask::parse(fields)?.check(&reply)?;
    }
    Ok(())
}

/// Refuses a media type that is too long. The type is kept with the media and is part of each
/// reply, so a long type would take memory and disk space out of proportion.
fn check_form(content_type: &str) -> Result<(), Error> {
    if content_type.len() > MAX_TYPE_LEN || content_type.contains(char::is_control) {
        return Err(Error::MalformedMediaType {
            limit: MAX_TYPE_LEN,
        });
    }
    Ok(())
}

/// Returns the media types in the metadata. Drive calls the field `mimeType` and ignores
/// `contentType`. Cloud Storage does the opposite.
fn types_in_metadata(metadata: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let fields = ["mimeType", "contentType"].into_iter();
    let stated = fields.filter_map(|name| metadata.get(name)?.as_str());
    stated.filter(|text| !text.is_empty())
}

/// Escapes all but the unreserved characters of a URL.
pub(super) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Writes the query without its credentials.
fn without_credentials(query: &Parameters) -> String {
    let escape = escaped;
    let pairs = query.iter().filter(|(name, _)| !CREDENTIALS.contains(name));
    let pairs: Vec<_> = pairs
        .map(|(name, value)| format!("{}={}", escape(name), escape(value)))
        .collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_details_are_dropped_until_the_end() {
        let long = || "a".repeat(SMALL_DETAILS + 1);
        let short = StartRequest::example();
        let dropped = |changed: StartRequest| {
            let mut dropped = changed.clone();
            dropped.drop_details();
            assert_eq!(dropped.path, changed.path);
            assert!(dropped.memory() < changed.memory() || !dropped.are_details_dropped());
            dropped.are_details_dropped()
        };
        assert!(!dropped(short.clone()));
        assert!(dropped(StartRequest {
            metadata: long(),
            ..short.clone()
        }));
        assert!(dropped(StartRequest {
            query: long(),
            ..short.clone()
        }));
        assert!(dropped(StartRequest {
            conditions: vec![("if-match".to_owned(), long())],
            ..short
        }));
    }

    #[test]
    fn query_is_kept_without_credentials_and_not_much_longer() {
        let query = Parameters::parse(Some("a=x-y_z&key=secret&b=%26%2B%C3%A9")).unwrap();
        assert_eq!(without_credentials(&query), "a=x-y_z&b=%26%2B%C3%A9");
    }
}
