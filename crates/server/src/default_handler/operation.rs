//! Where a call's path leads: to a collection or to a resource, and what is to happen there.
//!
//! Everything is told by the method's description: its HTTP method, its id and its path. A path that
//! ends in a variable names a resource, one that ends in a word a collection. A custom verb, as in
//! `reports:analyzeUpload`, `messages/send` or `{fileId}/content`, is no part of the place.

use http::Method as HttpMethod;
use serde_json::Value;
use windlass_discovery::{Api, Method};

use super::naming::is_plural_of;
use crate::handler::{Call, Rejection};

/// The name of a resource in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResourceKey {
    /// The API's name, then the path of the collection.
    pub(super) collection: String,
    pub(super) id: String,
}

/// What a call is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Make a resource in this collection.
    Insert(String),
    /// Put media to the resource of this name, which is made if there is none.
    Attach(ResourceKey),
    Update(ResourceKey),
    Patch(ResourceKey),
    /// Show the first of these that there is.
    Get(Vec<ResourceKey>),
    List(String),
    Delete(ResourceKey),
}

impl Operation {
    /// What the description of the call's method says.
    ///
    /// # Errors
    /// [`Rejection::NotImplemented`] where it does not say; [`Rejection::MissingField`] where the id
    /// has to be in the metadata and is not.
    pub(super) fn of(call: &Call<'_>) -> Result<Self, Rejection> {
        let path = MethodPath::of(call);
        let method = call.method;
        let find_existing = match method.http_method {
            HttpMethod::POST => path.post(call),
            HttpMethod::PUT if path.is_plain(call) => Some(Self::Update(path.resource(call)?)),
            HttpMethod::PATCH if path.is_plain(call) => Some(Self::Patch(path.resource(call)?)),
            HttpMethod::GET => path.get(call)?,
            HttpMethod::DELETE if path.verb.is_none_or(|verb| verb == "delete") => {
                Some(Self::Delete(path.resource(call)?))
            }
            _ => None,
        };
        find_existing.ok_or_else(|| not_implemented(call))
    }
}

pub(super) fn not_implemented(call: &Call<'_>) -> Rejection {
    Rejection::NotImplemented {
        method: call.method.id.clone(),
    }
}

/// The path of a call without its custom verb.
struct MethodPath<'a> {
    /// The part of the template.
    template: &'a str,
    /// The path, without a leading slash.
    path: String,
    verb: Option<&'a str>,
}

impl<'a> MethodPath<'a> {
    fn of(call: &Call<'a>) -> Self {
        let template = call.method.template.as_str();
        let path = call.method.template.expand(call.path);
        let path = path.expect("the path was matched by the template");
        let path = path.trim_start_matches('/');
        let Some((template, verb)) = custom_verb(call.method, template) else {
            let path = path.to_owned();
            return Self {
                template,
                path,
                verb: None,
            };
        };
        // The verb is a literal, and so as long in the path, with what parts it from the rest.
        let path = path[..path.len() - verb.len() - 1].to_owned();
        Self {
            template,
            path,
            verb: Some(verb),
        }
    }

    fn post(&self, call: &Call<'_>) -> Option<Operation> {
        let method = call.method;
        let listed = self.is_listed(call.api);
        if method.upload.is_none() {
            let makes = matches!(method.verb(), "insert" | "create") || listed;
            let collection = !self.ends_in_variable();
            return (self.verb.is_none() && makes && collection)
                .then(|| Operation::Insert(self.key(call)));
        }
        if !self.ends_in_variable() || listed {
            return Some(Operation::Insert(self.key(call)));
        }
        // Media for a parent, without a word for what becomes of it but the method's id.
        if self.template.ends_with("{+parent}") {
            let word = last_word(method.collection());
            return Some(Operation::Insert(format!("{}/{word}", self.key(call))));
        }
        Some(Operation::Attach(split(&self.key(call))))
    }

    fn get(&self, call: &Call<'_>) -> Result<Option<Operation>, Rejection> {
        let method = call.method;
        if method.verb() == "list" {
            return Ok(self.verb.is_none().then(|| Operation::List(self.key(call))));
        }
        if method.supports_media_download && self.verb.is_none_or(is_download_verb) {
            return Ok(Some(Operation::Get(self.downloads(call))));
        }
        if self.verb.is_some() {
            return Ok(None);
        }
        Ok(Some(Operation::Get(vec![self.resource(call)?])))
    }

    /// Where the media of a download may be. Beside the path itself that is, for a path such as
    /// `v1/media/{+resourceName}` or `download/{+resourceName}`, the collection of the uploads, and what
    /// the variable names.
    fn downloads(&self, call: &Call<'_>) -> Vec<ResourceKey> {
        let mut candidates = vec![split(&self.key(call))];
        let collection = last_word(call.method.collection());
        let before = self.template.rsplit_once("/{+").map(|(before, _)| before);
        let Some(word) = before.map(last_segment) else {
            return candidates;
        };
        if word != "download" && word != collection {
            return candidates;
        }
        let depth = before.unwrap_or_default().split('/').count();
        let segments: Vec<&str> = self.path.split('/').collect();
        let (prefix, name) = segments.split_at(depth);
        let prefix = &prefix[..depth - 1];
        for between in [&[collection][..], &[]] {
            let path = [prefix, between, name].concat().join("/");
            candidates.push(split(&key(call.api, &path)));
        }
        candidates
    }

    /// The resource that the path names, or, where the path is that of the whole collection, the
    /// parameter `id` or the field `id` of the metadata.
    fn resource(&self, call: &Call<'_>) -> Result<ResourceKey, Rejection> {
        if !self.is_listed(call.api) {
            let standard = matches!(call.method.verb(), "get" | "update" | "patch" | "delete");
            if standard || self.ends_in_variable() {
                return Ok(split(&self.key(call)));
            }
            return Err(not_implemented(call));
        }
        let id = if is_query_parameter(call.method, "id") {
            call.query.first("id")
        } else if call.method.request.is_some() {
            call.metadata.get("id").and_then(Value::as_str)
        } else {
            return Err(not_implemented(call));
        };
        let id = id.filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| Rejection::MissingField {
            field: "id".to_owned(),
        })?;
        Ok(ResourceKey {
            collection: self.key(call),
            id: id.to_owned(),
        })
    }

    /// Whether nothing but the HTTP method says what is to be done.
    fn is_plain(&self, call: &Call<'_>) -> bool {
        self.verb.is_none() || call.method.upload.is_some()
    }

    fn ends_in_variable(&self) -> bool {
        self.template.ends_with('}')
    }

    /// Whether the API lists what is at this path, which therefore is a collection.
    fn is_listed(&self, api: &Api) -> bool {
        api.methods().iter().any(|method| {
            method.verb() == "list"
                && method.http_method == HttpMethod::GET
                && method.template.as_str() == self.template
        })
    }

    fn key(&self, call: &Call<'_>) -> String {
        key(call.api, &self.path)
    }
}

/// The name of a path in the ledger. APIs on different hosts may have equal paths.
pub(super) fn key(api: &Api, path: &str) -> String {
    format!("{}/{path}", api.name())
}

/// What comes after the API's name in a key: the path.
pub(super) fn path_of_key(key: &str) -> &str {
    key.split_once('/').map_or("", |(_, path)| path)
}

pub(super) fn split(key: &str) -> ResourceKey {
    let (collection, id) = key.rsplit_once('/').unwrap_or(("", key));
    ResourceKey {
        collection: collection.to_owned(),
        id: id.to_owned(),
    }
}

/// The last of the words of a collection's name, e.g. `messages` of `users.messages`.
pub(super) fn last_word(collection: &str) -> &str {
    collection.rsplit('.').next().unwrap_or_default()
}

fn last_segment(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

pub(super) fn is_query_parameter(method: &Method, name: &str) -> bool {
    method.parameter(name).is_some() && !method.template.variables().any(|it| it == name)
}

/// The id that the client has chosen for a resource of this collection, in a parameter such as
/// `animalId`, or in the metadata where that is not the resource itself.
pub(super) fn chosen_id<'a>(
    call: &Call<'a>,
    collection: &str,
) -> Result<Option<&'a str>, Rejection> {
    let method = call.method;
    let names_the_id = |name: &str| {
        let stem = name.strip_suffix("Id").or(name.strip_suffix("_id"));
        stem.is_some_and(|stem| is_plural_of(last_segment(collection), stem))
    };
    let in_query = method.parameters.iter().find_map(|parameter| {
        let name = parameter.name.as_str();
        let names = names_the_id(name) && is_query_parameter(method, name);
        names.then(|| Some((name, call.query.first(name)?)))?
    });
    let beside = (method.request != method.response).then_some(call.metadata);
    let in_metadata = beside.into_iter().flatten().find_map(|(name, value)| {
        let names = names_the_id(name);
        names.then(|| Some((name.as_str(), value.as_str()?)))?
    });
    match in_query.or(in_metadata) {
        None | Some((_, "")) => Ok(None),
        Some((_, id)) if is_segment(id) => Ok(Some(id)),
        Some((name, _)) => Err(Rejection::InvalidParameter {
            parameter: name.to_owned(),
            problem: "must be 1 to 255 letters, digits, `-`, `.`, `_` or `~`".to_owned(),
        }),
    }
}

/// Whether a text stands in a path as it is.
fn is_segment(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    id.len() <= 255 && id.bytes().all(plain) && !matches!(id, "." | "..")
}

/// Splits a template into a place and a custom verb.
fn custom_verb<'a>(method: &Method, template: &'a str) -> Option<(&'a str, &'a str)> {
    let (before, last) = template.rsplit_once('/').unwrap_or(("", template));
    // Past the variable, whose name has no colon.
    if let Some((word, verb)) = last.rsplit_once(':') {
        let resource = &template[..before.len() + usize::from(!before.is_empty()) + word.len()];
        return Some((resource, verb));
    }
    (!before.is_empty() && is_verb(method, last, before)).then_some((before, last))
}

/// Whether the last segment of a path is a verb: that of the method's id, as in `messages/send` and in
/// `{resourceId}/uploadRotatingBarcodeValues`.
fn is_verb(method: &Method, segment: &str, before: &str) -> bool {
    let verb = method.verb();
    let begins = |verb: &str| {
        let rest = segment.strip_prefix(verb);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_uppercase))
    };
    let content = method.supports_media_download && segment == "content";
    (begins(verb) || content) && (before.ends_with('}') || segment == verb)
}

fn is_download_verb(verb: &str) -> bool {
    verb == "content" || verb == "media" || verb.starts_with("download")
}
