//! The operation of a call, and the collection or resource that its path names.
//!
//! The method's description decides, by its HTTP method, its id and its path. A path that ends in a
//! variable names a resource. A path that ends in a word names a collection. A custom verb, as in
//! `reports:analyzeUpload`, `messages/send` or `{fileId}/content`, is not part of the name.

use std::borrow::Cow;

use http::Method as HttpMethod;
use serde_json::Value;
use windlass_discovery::{Api, Method, Parameter, Schema};

use super::schema_validation::resolve;
use crate::handler::{Call, Rejection};

/// The name of a resource in the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResourceKey {
    /// The API's name, then the path of the collection.
    pub(super) collection: String,
    pub(super) id: String,
}

/// The operation of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Create a resource in this collection.
    Insert(String),
    /// Attach media to the resource of this name, and create it if it does not exist.
    Attach(ResourceKey),
    Update(ResourceKey),
    Patch(ResourceKey),
    /// Return the first of these resources that exists.
    Get(Vec<ResourceKey>),
    List(String),
    Delete(ResourceKey),
}

impl Operation {
    /// Returns the operation that the method's description states.
    ///
    /// # Errors [`Rejection::NotImplemented`] if the description does not state one;
    /// [`Rejection::MissingField`] if the metadata must name the id and does not.
    pub(super) fn of(call: &Call<'_>) -> Result<Self, Rejection> {
        let path = MethodPath::of(call);
        let method = call.method;
        let find_existing = match method.http_method {
            HttpMethod::POST => path.post(call),
            HttpMethod::PUT if path.is_plain(method) => Some(Self::Update(path.resource(call)?)),
            HttpMethod::PATCH if path.is_plain(method) => Some(Self::Patch(path.resource(call)?)),
            HttpMethod::GET => path.get(call)?,
            HttpMethod::DELETE if path.deletes() => Some(Self::Delete(path.resource(call)?)),
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
    /// The template without the verb.
    template: &'a str,
    /// The path, without a leading slash.
    path: String,
    verb: Option<&'a str>,
}

impl<'a> MethodPath<'a> {
    fn of(call: &Call<'a>) -> Self {
        let path = call.method.template.expand(call.path);
        let path = path.expect("the path was matched by the template");
        Self::new(call.method, path.trim_start_matches('/'))
    }

    /// The path of a method, which its template matches or which is the template itself.
    fn new(method: &'a Method, path: &str) -> Self {
        let template = method.template.as_str();
        let Some((template, verb)) = custom_verb(method, template) else {
            let path = path.to_owned();
            return Self {
                template,
                path,
                verb: None,
            };
        };
        // The verb is a literal, so verb and separator have the same length in the path as in the
        // template.
        let path = path[..path.len() - verb.len() - 1].to_owned();
        Self {
            template,
            path,
            verb: Some(verb),
        }
    }

    fn post(&self, call: &Call<'_>) -> Option<Operation> {
        let method = call.method;
        if method.upload.is_none() {
            let makes = self.makes(call.api, method);
            return makes.then(|| Operation::Insert(self.key(call)));
        }
        // A listed path is a collection although it ends in a variable: each upload makes a
        // resource.
        if !self.ends_in_variable() || self.is_listed(call.api) {
            return Some(Operation::Insert(self.key(call)));
        }
        // Media for a parent resource. Only the method's id says which kind of resource is created.
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
        if self.downloads_media(method) {
            return Ok(Some(Operation::Get(self.downloads(call))));
        }
        if self.verb.is_some() {
            return Ok(None);
        }
        Ok(Some(Operation::Get(vec![self.resource(call)?])))
    }

    /// Returns the resources that a download may refer to. The first is the path itself. For a path
    /// such as `v1/media/{+resourceName}` or `download/{+resourceName}`, further candidates are the
    /// resource in the collection of the uploads and the resource that the variable names.
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

    /// Returns the resource that the path names. If the path names a collection, the parameter `id`
    /// or the metadata's field `id` names the resource.
    fn resource(&self, call: &Call<'_>) -> Result<ResourceKey, Rejection> {
        if !self.names_a_resource(call.api, call.method) {
            return Err(not_implemented(call));
        }
        if !self.is_listed(call.api) {
            return Ok(split(&self.key(call)));
        }
        let id = if is_query_parameter(call.method, "id") {
            call.query.first("id")
        } else {
            call.metadata.get("id").and_then(Value::as_str)
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

    /// Whether [`MethodPath::resource`] finds a resource, unless its id is missing.
    fn names_a_resource(&self, api: &Api, method: &Method) -> bool {
        if self.is_listed(api) {
            is_query_parameter(method, "id") || method.request.is_some()
        } else {
            let standard = matches!(method.verb(), "get" | "update" | "patch" | "delete");
            standard || self.ends_in_variable()
        }
    }

    /// Whether a POST without media makes a resource.
    fn makes(&self, api: &Api, method: &Method) -> bool {
        let makes = matches!(method.verb(), "insert" | "create") || self.is_listed(api);
        self.verb.is_none() && makes && !self.ends_in_variable()
    }

    /// Whether only the HTTP method states the operation.
    fn is_plain(&self, method: &Method) -> bool {
        self.verb.is_none() || method.upload.is_some()
    }

    /// Whether a DELETE deletes.
    fn deletes(&self) -> bool {
        self.verb.is_none_or(|verb| verb == "delete")
    }

    /// Whether a GET may be for media.
    fn downloads_media(&self, method: &Method) -> bool {
        method.supports_media_download && self.verb.is_none_or(is_download_verb)
    }

    fn ends_in_variable(&self) -> bool {
        self.template.ends_with('}')
    }

    /// Whether the API has a list method at this path, so that the path is a collection.
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

/// Returns the methods of an API in the short form that the default handler does not implement, and
/// that have no backend either. Published documents have none: their services know more than they
/// say.
pub fn unanswered_methods(api: &Api) -> impl Iterator<Item = &Method> {
    let settings = api.settings();
    api.methods()
        .iter()
        .map(|method| &**method)
        .filter(|method| settings.strict && !settings.backends.contains_key(&method.id))
        .filter(|method| !is_implemented(api, method))
}

/// Whether [`Operation::of`] finds an operation for calls of the method.
fn is_implemented(api: &Api, method: &Method) -> bool {
    let path = MethodPath::new(method, method.template.as_str());
    match method.http_method {
        HttpMethod::POST => method.upload.is_some() || path.makes(api, method),
        HttpMethod::PUT | HttpMethod::PATCH => {
            path.is_plain(method) && path.names_a_resource(api, method)
        }
        HttpMethod::GET if method.verb() == "list" => path.verb.is_none(),
        HttpMethod::GET => {
            path.downloads_media(method)
                || path.verb.is_none() && path.names_a_resource(api, method)
        }
        HttpMethod::DELETE => path.deletes() && path.names_a_resource(api, method),
        _ => false,
    }
}

/// Returns the resource that the path of a method names, without its custom verb; `None` if it
/// names a collection.
pub(super) fn named_resource(call: &Call<'_>) -> Option<ResourceKey> {
    let path = MethodPath::of(call);
    path.ends_in_variable().then(|| split(&path.key(call)))
}

/// Returns the key of a path in the ledger. It begins with the API's name, since APIs on different
/// hosts may have equal paths.
pub(super) fn key(api: &Api, path: &str) -> String {
    let ledger_path = api.settings().ledger_path.as_ref();
    let kept = ledger_path.and_then(|it| it.to_kept(path));
    format!("{}/{}", api.name(), kept.as_deref().unwrap_or(path))
}

/// Returns the path of a key, at which the API serves it.
pub(super) fn path_of_key<'k>(api: &Api, key: &'k str) -> Cow<'k, str> {
    let path = key.split_once('/').map_or("", |(_, path)| path);
    let ledger_path = api.settings().ledger_path.as_ref();
    let served = ledger_path.and_then(|it| it.to_served(path));
    served.map_or(Cow::Borrowed(path), Cow::Owned)
}

pub(super) fn split(key: &str) -> ResourceKey {
    let (collection, id) = key.rsplit_once('/').unwrap_or(("", key));
    ResourceKey {
        collection: collection.to_owned(),
        id: id.to_owned(),
    }
}

/// Returns the last word of a collection's name, e.g. `messages` of `users.messages`.
pub(super) fn last_word(collection: &str) -> &str {
    collection.rsplit('.').next().unwrap_or_default()
}

fn last_segment(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

pub(super) fn is_query_parameter(method: &Method, name: &str) -> bool {
    method.parameter(name).is_some() && !method.template.variables().any(|it| it == name)
}

/// Returns the id that the client has chosen for a resource of this collection: in a parameter such
/// as `animalId`, or in the metadata if it wraps the resource.
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
    // Inside of the resource itself such a field refers to another resource.
    let not_the_resource = (method.request != method.response).then_some(call.metadata);
    let in_metadata = not_the_resource
        .into_iter()
        .flatten()
        .find_map(|(name, value)| {
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

/// Whether a text needs no escaping in a path.
fn is_segment(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    // Clients and proxies remove the segments `.` and `..` from a path (RFC 3986, 5.2.4).
    id.len() <= 255 && id.bytes().all(plain) && !matches!(id, "." | "..")
}

/// Splits a template into a path and a custom verb.
fn custom_verb<'a>(method: &Method, template: &'a str) -> Option<(&'a str, &'a str)> {
    let (before, last) = template.rsplit_once('/').unwrap_or(("", template));
    // The colon after the variable. A variable's name has no colon.
    if let Some((word, verb)) = last.rsplit_once(':') {
        let resource = &template[..before.len() + usize::from(!before.is_empty()) + word.len()];
        return Some((resource, verb));
    }
    (!before.is_empty() && is_verb(method, last, before)).then_some((before, last))
}

/// Whether the last segment of a path is a verb: the verb of the method's id, as in `messages/send`
/// and `{resourceId}/uploadRotatingBarcodeValues`.
fn is_verb(method: &Method, segment: &str, before: &str) -> bool {
    let verb = method.verb();
    let begins = |verb: &str| {
        let rest = segment.strip_prefix(verb);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_uppercase))
    };
    let content = method.supports_media_download && segment == "content";
    // After a word only the exact verb counts: a longer word names a collection.
    (begins(verb) || content) && (before.ends_with('}') || segment == verb)
}

fn is_download_verb(verb: &str) -> bool {
    verb == "content" || verb == "media" || verb.starts_with("download")
}

/// Whether `word` is the plural of `stem`, or ends in it as in `policyDeclarationFiles`. Case does
/// not matter, except that a stem inside the word begins with a capital.
pub(super) fn is_plural_of(word: &str, stem: &str) -> bool {
    plurals(stem).any(|plural| ends_in(word, &plural))
}

/// Whether `name` is the singular of `word`, or begins with it as `attachmentDataRef` does.
pub(super) fn begins_with_one_of(word: &str, name: &str) -> bool {
    let ends = name.char_indices().filter(|(_, char)| char.is_uppercase());
    ends.map(|(at, _)| at)
        .chain([name.len()])
        .filter(|at| *at > 0)
        .any(|at| is_plural_of(word, &name[..at]))
}

/// Whether two plurals are equal, or `word` ends in `name` as `creativeAssets` does in `assets`.
pub(super) fn is_same_or_ends_in(word: &str, name: &str) -> bool {
    ends_in(word, &name.to_ascii_lowercase())
}

fn plurals(stem: &str) -> impl Iterator<Item = String> {
    let stem = stem.to_ascii_lowercase();
    let by_y = stem.strip_suffix('y').map(|stem| format!("{stem}ies"));
    let regular = (!stem.is_empty()).then(|| [format!("{stem}s"), format!("{stem}es")]);
    regular.into_iter().flatten().chain(by_y)
}

/// Whether `word` is `end`, which is in lower case, or ends in it with a capital first letter.
fn ends_in(word: &str, end: &str) -> bool {
    let Some(start) = word.len().checked_sub(end.len()) else {
        return false;
    };
    let Some(tail) = word.get(start..) else {
        return false;
    };
    let begins = start == 0 || tail.starts_with(char::is_uppercase);
    begins && !end.is_empty() && tail.eq_ignore_ascii_case(end)
}

/// A call, with the parts of its API's description that the operation depends on.
pub(super) struct CallContext<'a> {
    pub(super) call: &'a Call<'a>,
    /// Words for the resource of the call, e.g. `ragFiles`.
    words: Vec<&'a str>,
}

impl<'a> CallContext<'a> {
    pub(super) fn of(call: &'a Call<'_>) -> CallContext<'a> {
        let template = call.method.template.as_str();
        let template = template.split(':').next().unwrap_or_default();
        let literal = template.rsplit('/').find(|segment| !segment.contains('{'));
        let words = [Some(last_word(call.method.collection())), literal];
        CallContext {
            call,
            words: words
                .into_iter()
                .flatten()
                .filter(|word| !word.is_empty())
                .collect(),
        }
    }

    /// Returns the name of the resource with this key, in an API with resources whose `name` is
    /// their path.
    pub(super) fn resource_name(&self, collection: &str, id: &str) -> Option<String> {
        let prefixes = self.call.api.name_prefixes();
        if prefixes.is_empty() {
            return None;
        }
        let path = format!("{}/{id}", path_of_key(self.call.api, collection));
        let name = prefixes.iter().find_map(|prefix| path.strip_prefix(prefix));
        name.map(str::to_owned)
    }

    /// Whether a schema wraps the resource in a field.
    pub(super) fn wraps(&self, schema: &Schema) -> bool {
        let own = ["id", "name", "kind", "etag", "selfLink"];
        self.call.method.request != self.call.method.response
            && own.iter().all(|name| schema.property(name).is_none())
    }

    /// Whether this is the name of a field that holds the resource, or refers to it.
    pub(super) fn names_one_resource(&self, name: &str) -> bool {
        self.words.iter().any(|word| begins_with_one_of(word, name))
    }

    /// Whether this is the name of a field that holds resources.
    pub(super) fn names_the_collection(&self, name: &str) -> bool {
        name == "items" || self.words.iter().any(|word| is_same_or_ends_in(word, name))
    }

    /// Whether this is the name of a field that holds the resource's id.
    pub(super) fn names_its_id(&self, collection: &str, name: &str) -> bool {
        let Some(stem) = name.strip_suffix("Id").or(name.strip_suffix("_id")) else {
            return false;
        };
        let word = collection.rsplit('/').next().unwrap_or_default();
        let mut words = self.words.iter().copied().chain([word]);
        words.any(|word| is_plural_of(word, stem))
    }

    /// Returns an unused id. It is a number if the schema or the path of the resource requires a
    /// number, and short if the pattern requires that. Otherwise it has the usual form. All forms
    /// sort by time.
    pub(super) fn fresh_id(&self, collection: &str) -> String {
        let fresh = self.call.fresh_id;
        let response = self.call.method.response.as_deref();
        let schema = response.and_then(|name| self.call.api.schema(name));
        let parameter = self.id_parameter();
        let number = schema.is_some_and(|schema| self.wants_numeric_id(collection, schema))
            || parameter.is_some_and(|parameter| parameter.numbers.is_some());
        let Ok(id) = u128::from_str_radix(fresh, 16) else {
            return fresh.to_owned();
        };
        if number {
            return numeric_id(id).to_string();
        }
        let pattern = parameter.and_then(|parameter| parameter.pattern.as_ref());
        let short = pattern.is_some_and(|it| !it.fits(fresh) && it.fits(&short_id(id)));
        if short {
            short_id(id)
        } else {
            fresh.to_owned()
        }
    }

    /// Returns the last variable in the path of the resources that this call creates.
    fn id_parameter(&self) -> Option<&'a Parameter> {
        let collection = self.call.method.template.as_str();
        let collection = collection.split(':').next()?;
        let variable = |method: &'a Method| {
            let rest = method.template.as_str().strip_prefix(collection)?;
            let variable = rest.strip_prefix("/{")?.strip_suffix('}')?;
            method.parameter(variable.trim_start_matches('+'))
        };
        let mut methods = self.call.api.methods().iter();
        methods.find_map(|method| variable(method))
    }

    fn wants_numeric_id(&self, collection: &str, schema: &'a Schema) -> bool {
        let is_number = |(name, property): (&String, &Schema)| {
            let format = property.format.as_deref();
            matches!(format, Some("int64" | "uint64"))
                && (matches!(name.as_str(), "id" | "mediaId")
                    || self.names_its_id(collection, name))
        };
        let inside = || {
            let wrapped = schema.properties.iter().filter(|(name, _)| {
                self.names_one_resource(name) || self.names_the_collection(name)
            });
            wrapped.filter_map(|(_, property)| self.element(property))
        };
        schema.properties.iter().any(is_number)
            || self.wraps(schema) && inside().any(|inner| inner.properties.iter().any(is_number))
    }

    /// Returns the schema of a property, or of its elements if it is an array.
    pub(super) fn element(&self, property: &'a Schema) -> Option<&'a Schema> {
        let document = self.call.api.document();
        resolve(document, property.items.as_deref().unwrap_or(property))
    }
}

/// A number of 63 bits: the id's time in milliseconds, then some of its random bits.
fn numeric_id(id: u128) -> u128 {
    // Positive as an `int64`, for clients that read ids as signed numbers.
    let time = (id >> 80) & 0x7ff_ffff_ffff;
    let random = (id >> 60) & 0xf_ffff;
    time << 20 | random
}

/// The 128 bits in 22 characters of the URL-safe alphabet of base64, which here is in the order of
/// its bytes.
fn short_id(id: u128) -> String {
    const DIGITS: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
    let digit = |at: u32| DIGITS[(id >> (6 * at)) as usize & 63];
    (0..22).rev().map(|at| char::from(digit(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plural_is_regular_and_may_have_words_before_it() {
        let table = [
            ("ragFiles", "ragFile", true),
            ("policyDeclarationFiles", "file", true),
            ("deobfuscationfiles", "deobfuscationFile", true),
            ("policies", "policy", true),
            ("boxes", "box", true),
            ("files", "profile", false),
            ("profiles", "file", false),
            ("files", "", false),
            ("media", "media", false),
        ];
        for (word, stem, expected) in table {
            assert_eq!(is_plural_of(word, stem), expected, "{word} {stem}");
        }
    }

    #[test]
    fn a_name_may_say_more_than_the_word() {
        let table = [
            ("attachments", "attachment", true),
            ("attachments", "attachmentDataRef", true),
            ("attachments", "attachmented", false),
            ("files", "uploadRagFileConfig", false),
        ];
        for (word, name, expected) in table {
            assert_eq!(begins_with_one_of(word, name), expected, "{word} {name}");
        }
    }

    #[test]
    fn a_list_may_leave_out_the_first_words() {
        assert!(is_same_or_ends_in("creativeAssets", "assets"));
        assert!(is_same_or_ends_in("aptArtifacts", "aptArtifacts"));
        assert!(!is_same_or_ends_in("warnings", "rings"));
    }

    const EARLY: u128 = 0x0196_f0c0_0000_ffff_ffff_ffff_ffff_ffff;
    const LATE: u128 = 0x0196_f0c0_0001_0000_0000_0000_0000_0000;

    #[test]
    fn a_number_for_an_id_fits_63_bits_and_sorts_by_time() {
        assert!(numeric_id(EARLY).to_string() < numeric_id(LATE).to_string());
        assert!(i64::try_from(numeric_id(u128::MAX)).is_ok());
    }

    #[test]
    fn a_short_id_has_22_characters_and_sorts_by_time() {
        assert!(short_id(EARLY) < short_id(LATE));
        assert_eq!(short_id(EARLY).len(), 22);
        assert_ne!(short_id(EARLY), short_id(EARLY - 1));
    }
}
