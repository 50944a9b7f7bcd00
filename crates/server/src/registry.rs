//! The APIs that a server serves, with the handlers that give them meaning, and where it serves them.
//!
//! An API that has a host answers requests to that host only; the others answer on every host. A
//! [`VirtualHost`] holds the APIs that answer on one host: its own first, then those without a
//! host. Client libraries build themselves from the descriptions of its APIs, which the discovery
//! service returns ([`DiscoveryRequest`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use http::{HeaderName, Method as HttpMethod};
use serde_json::{Value, json};
use windlass_digest::Wanted;
use windlass_discovery::{Api, Digest, Found, Method, MethodTable, openapi};
use windlass_proto::parameters::Parameters;

use crate::backends::{self, Backends, WithBackends};
use crate::cors::CorsPolicy;
use crate::default_handler::{DefaultHandler, unanswered_methods, with_digests};
use crate::handler::{ApiHandler, Deliver};
use crate::host::Host;
use crate::on_uploaded::{UploadCallback, UploadedResource};
use crate::refused_inputs::{RefusedInput, RefusedInputs};

/// An API and its handler.
pub struct ServedApi {
    /// The description.
    pub api: Api,
    /// The behaviour of its resources.
    pub handler: Arc<dyn ApiHandler>,
    /// The one host on which it answers; `None`, the default, for all of them.
    ///
    /// Sessions belong to an API at its host: they are not found any more when it gets another.
    pub host: Option<Host>,
    /// The origins whose pages may call it from a browser. `None`, the default: those of
    /// [`Settings::cors`](crate::Settings::cors).
    pub cors: Option<CorsPolicy>,
    /// What the application does after an upload; see [`ServedApi::on_uploaded`]. Default: nothing.
    pub on_uploaded: Option<Arc<UploadCallback>>,
    /// Parameters and headers that no call may have; see [`ServedApi::refusing`]. Default: none.
    pub refused: RefusedInputs,
}

impl ServedApi {
    /// An API served by this handler, on every host.
    pub fn new(api: Api, handler: Arc<dyn ApiHandler>) -> Self {
        Self {
            api,
            handler,
            host: None,
            cors: None,
            on_uploaded: None,
            refused: RefusedInputs::default(),
        }
    }

    /// An API served by the default handler, which works for any description, on every host.
    pub fn with_default_handler(api: Api) -> Self {
        Self::new(with_digests(api), Arc::new(DefaultHandler))
    }

    /// The same API with the services that its description names: backends of methods, and those that are
    /// told of uploads. Without it these methods are not implemented, and nobody is told.
    #[must_use]
    pub fn with_backends(self, backends: Arc<Backends>) -> Self {
        Self {
            handler: Arc::new(WithBackends::new(self.handler, backends, &self.api)),
            ..self
        }
    }

    /// The same API, which calls the application after each upload that has become a resource.
    ///
    /// The event is committed together with the resource, so no crash loses it. The callback is called
    /// until it returns `Ok`: at once, and after an error in 1, 2, 4 minutes and so on up to 4 hours, for
    /// three days. That is at least once: what must not happen twice is remembered by
    /// [`UploadedResource::id`]. At most four run at the same time. The last one given counts. If the same
    /// API is served on several hosts, the callback of the first gets the events of all.
    ///
    /// # Cancel safety
    /// The callback's future is dropped when the server stops, or after 30 minutes. It is then called again.
    #[must_use]
    pub fn on_uploaded<F, Done, E>(self, callback: F) -> Self
    where
        F: Fn(UploadedResource) -> Done + Send + Sync + 'static,
        Done: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let callback = UploadCallback::new(&self.api, callback);
        Self {
            on_uploaded: Some(Arc::new(callback)),
            ..self
        }
    }

    /// The same API, which refuses calls and uploads with one of these parameters and headers. For
    /// inputs that clients know, such as a filter, and that the handler does not carry out.
    #[must_use]
    pub fn refusing(self, refused: impl IntoIterator<Item = RefusedInput>) -> Self {
        Self {
            refused: refused.into_iter().collect(),
            ..self
        }
    }

    /// The same API on this host alone.
    #[must_use]
    pub fn on(self, host: Host) -> Self {
        Self {
            host: Some(host),
            ..self
        }
    }

    /// The same API for pages of these origins.
    #[must_use]
    pub fn with_cors(self, policy: CorsPolicy) -> Self {
        Self {
            cors: Some(policy),
            ..self
        }
    }
}

impl fmt::Display for ServedApi {
    /// Writes what people read: `farm v1`, or `farm v1 on farm.example`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api.name(), self.api.version())?;
        match &self.host {
            Some(host) => write!(f, " on {host}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ServedApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServedApi({}:{}", self.api.name(), self.api.version())?;
        if let Some(host) = &self.host {
            write!(f, "@{host}")?;
        }
        f.write_str(")")
    }
}

/// All APIs of a server, on their hosts.
///
/// Its size follows from the APIs and their hosts; requests add nothing.
pub struct Registry {
    /// The hosts that have APIs of their own.
    hosts: BTreeMap<Host, VirtualHost>,
    /// All other hosts.
    elsewhere: VirtualHost,
    /// Deliveries that belong to no handler.
    deliveries: Vec<Arc<dyn Deliver>>,
}

/// Two APIs that cannot both be served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Conflict {
    /// They have the same name and version, and answer on the same host.
    #[error("{name} {version} is given twice")]
    SameName {
        /// Their name.
        name: String,
        /// Their version.
        version: String,
        /// Index of the first, in the order given.
        first: usize,
        /// Index of the second.
        second: usize,
    },
    /// They have methods that answer the same requests.
    #[error("{methods}")]
    SameRequests {
        /// The methods, their APIs and their path, in words.
        methods: String,
    },
}

/// Indexes of APIs, by name and version.
type ByName = HashMap<String, HashMap<String, usize>>;

/// The APIs that answer on one host.
pub(crate) struct VirtualHost {
    host: Option<Host>,
    /// The host's own first.
    served: Vec<Arc<ServedApi>>,
    by_name: ByName,
    pub(crate) table: MethodTable,
    /// Paths of batches, with the index of the one API whose path it is.
    batch_paths: HashMap<String, Option<usize>>,
    /// The first segments of the paths of the host's own APIs, and of all of its APIs.
    segments: [HashSet<String>; 2],
}

/// First segments of paths that belong to no method, yet to the server.
const OWN_SEGMENTS: [&str; 5] = ["batch", "discovery", "download", "resumable", "upload"];

/// A method together with its API.
#[derive(Clone, Copy)]
pub(crate) struct ServedMethod<'a> {
    pub(crate) served: &'a ServedApi,
    pub(crate) method: &'a Method,
}

impl Registry {
    /// The registry of these APIs. Where order matters, those that come first are preferred.
    ///
    /// # Errors
    /// When two APIs that answer on the same host have the same name and version, or methods that
    /// answer the same requests. Nobody could reach the second one.
    pub fn new(served: impl IntoIterator<Item = ServedApi>) -> Result<Self, Conflict> {
        let served: Vec<_> = served.into_iter().map(Arc::new).collect();
        let hosts: BTreeSet<_> = served
            .iter()
            .filter_map(|served| served.host.clone())
            .collect();
        let virtual_host = |host: Host| Ok((host.clone(), VirtualHost::new(Some(host), &served)?));
        Ok(Self {
            elsewhere: VirtualHost::new(None, &served)?,
            hosts: hosts
                .into_iter()
                .map(virtual_host)
                .collect::<Result<_, _>>()?,
            deliveries: Vec::new(),
        })
    }

    /// Adds the delivery of a topic. It takes precedence over those that handlers have for the same
    /// topic.
    #[must_use]
    pub fn with_delivery(mut self, delivery: Arc<dyn Deliver>) -> Self {
        self.deliveries.push(delivery);
        self
    }

    /// Returns the ids of methods that descriptions in the short form have and that will be answered 501,
    /// because neither the default handler nor a backend implements them.
    pub fn unanswered(&self) -> impl Iterator<Item = &str> {
        self.served()
            .flat_map(|served| unanswered_methods(&served.api))
            .map(|method| method.id.as_str())
    }

    /// Returns the ids of methods whose description names no scopes, so that the scopes of
    /// credentials do not limit who may call them.
    pub fn without_scopes(&self) -> impl Iterator<Item = &str> {
        let methods = self.served().flat_map(|served| served.api.methods());
        let without = methods.filter(|method| method.scopes.is_empty());
        without.map(|method| method.id.as_str())
    }

    /// Whether a method of an API refuses this header.
    pub(crate) fn refuses_header(&self, name: &HeaderName) -> bool {
        self.served()
            .any(|served| served.refused.names_header(name.as_str()))
    }

    /// Returns whether an API of this name is served.
    pub fn serves(&self, name: &str) -> bool {
        self.served().any(|served| served.api.name() == name)
    }

    /// Returns how many connections to the services that descriptions name may be open at the same time.
    pub fn service_connections(&self) -> usize {
        backends::connections(self.served().map(|served| &served.api))
    }

    /// Returns the hosts that have APIs of their own.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.keys()
    }

    /// Returns the APIs that answer on `host`, which is `None` for a request that names none.
    pub(crate) fn on(&self, host: Option<&Host>) -> &VirtualHost {
        host.and_then(|host| self.hosts.get(host))
            .unwrap_or(&self.elsewhere)
    }

    /// Returns all deliveries; several may have one topic.
    pub(crate) fn deliveries(&self) -> Vec<Arc<dyn Deliver>> {
        let own = self.deliveries.iter().cloned();
        let of_handlers = self.served().flat_map(|served| served.handler.deliveries());
        let callbacks = self.served().filter_map(|it| it.on_uploaded.clone());
        let callbacks = callbacks.map(|it| -> Arc<dyn Deliver> { it });
        own.chain(of_handlers).chain(callbacks).collect()
    }

    /// All APIs: those without a host, then those of each host.
    pub(crate) fn served(&self) -> impl Iterator<Item = &ServedApi> {
        let with_host = self
            .hosts
            .values()
            .flat_map(|virtual_host| &virtual_host.served);
        let with_host = with_host.filter(|served| served.host.is_some());
        self.elsewhere
            .served
            .iter()
            .chain(with_host)
            .map(|it| &**it)
    }

    /// A method as a session remembers it. `host` is that of its API.
    pub(crate) fn method(
        &self,
        host: Option<&Host>,
        name: &str,
        version: &str,
        id: &str,
    ) -> Option<ServedMethod<'_>> {
        let served = self.on(host).api(name, version)?;
        let method = served.api.method(id)?;
        (served.host.as_ref() == host).then_some(ServedMethod { served, method })
    }
}

impl fmt::Display for Registry {
    /// Writes the APIs, separated by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, served) in self.served().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{served}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.served()).finish()
    }
}

impl VirtualHost {
    fn new(host: Option<Host>, all: &[Arc<ServedApi>]) -> Result<Self, Conflict> {
        let at = |host: Option<&Host>| -> Vec<_> {
            let at_host = all.iter().filter(|served| served.host.as_ref() == host);
            at_host.cloned().collect()
        };
        let own = host.as_ref().map(|host| at(Some(host)));
        let groups = [own.unwrap_or_default(), at(None)];
        let table = MethodTable::of_groups(
            groups
                .iter()
                .map(|group| group.iter().map(|served| &served.api)),
        );
        let served = groups.concat();
        let table = without_collision(table)?;
        let segments = [first_segments(&groups[0]), first_segments(&served)];
        Ok(Self {
            segments,
            by_name: by_name(&served, all)?,
            batch_paths: batch_paths(&served, &table),
            table,
            host,
            served,
        })
    }

    /// The host, if it has APIs of its own.
    pub(crate) fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// The APIs of this host in the order they were given, and after them those without a host.
    pub(crate) fn apis(&self) -> impl Iterator<Item = &Api> {
        self.served.iter().map(|served| &served.api)
    }

    /// Returns the path of a method for which a GET of another path stands; see
    /// [`ApiHandler::alias`](crate::handler::ApiHandler::alias).
    pub(crate) fn alias(&self, path: &str) -> Option<String> {
        self.aliased(path).map(|(_, alias)| alias)
    }

    /// Returns the API at whose alias a path is, and the path of its method.
    ///
    /// A path that begins as methods do is no alias: the reply would be about an object of that
    /// name, to a client that has asked for a method which is not here.
    fn aliased(&self, path: &str) -> Option<(&ServedApi, String)> {
        let segment = first_segment(path)?;
        let [of_own, of_all] = &self.segments;
        let mut served = self.served.iter().map(|served| &**served);
        served.find_map(|served| {
            // On a host of its own, an API gives way to the other APIs of that host alone.
            let taken = if served.host.is_some() {
                of_own
            } else {
                of_all
            };
            if OWN_SEGMENTS.contains(&segment) || taken.contains(segment) {
                return None;
            }
            Some((served, served.handler.alias(&served.api, path)?))
        })
    }

    /// Returns the id of a method of a service that is at a path, and that no API has here.
    pub(crate) fn not_served(&self, http_method: &HttpMethod, path: &str) -> Option<String> {
        let mut served = self.served.iter();
        served.find_map(|served| served.handler.not_served(http_method, path))
    }

    /// Whether batches are sent to this path.
    pub(crate) fn takes_batches_at(&self, path: &str) -> bool {
        self.batch_paths.contains_key(path)
    }

    /// Whether an API has a policy of its own for pages of other origins.
    pub(crate) fn has_cors_policies(&self) -> bool {
        self.served.iter().any(|served| served.cors.is_some())
    }

    /// Returns the API that a path belongs to. If several have methods there, it is that of the method
    /// with this HTTP method, else the preferred one.
    pub(crate) fn api_at(&self, http_method: &HttpMethod, path: &str) -> Option<&ServedApi> {
        if let Found::Method { method, .. } = self.table.find(http_method, path) {
            return Some(self.of(method).served);
        }
        if let Some(method) = self.table.methods_at(path).next() {
            return Some(self.of(method).served);
        }
        match self.batch_paths.get(path) {
            Some(index) => self.served.get((*index)?).map(|served| &**served),
            None => self.aliased(path).map(|(served, _)| served),
        }
    }

    /// One API.
    pub(crate) fn api(&self, name: &str, version: &str) -> Option<&ServedApi> {
        let index = self.by_name.get(name)?.get(version)?;
        self.served.get(*index).map(|served| &**served)
    }

    /// The API of a method that the table found.
    pub(crate) fn of<'a>(&'a self, method: &'a Method) -> ServedMethod<'a> {
        let served = self
            .api(&method.api_name, &method.api_version)
            .expect("the table holds only methods of these APIs");
        ServedMethod { served, method }
    }
}

impl ServedMethod<'_> {
    /// Returns the digests that the API shows of this method's media, besides CRC32C.
    pub(crate) fn wanted_digests(&self) -> Wanted {
        let digests = self.served.api.settings().digests_of(self.method);
        Wanted {
            md5: digests.contains(&Digest::Md5),
            sha256: digests.contains(&Digest::Sha256),
        }
    }
}

/// Returns the first segments of the paths of these APIs' methods. A path that begins with a
/// variable has none.
fn first_segments(served: &[Arc<ServedApi>]) -> HashSet<String> {
    let methods = served.iter().flat_map(|served| served.api.methods());
    let segments = methods.filter_map(|method| first_segment(method.template.as_str()));
    let literal = segments.filter(|segment| !segment.contains('{'));
    literal.map(str::to_owned).collect()
}

/// Returns the first segment of a path or a template.
fn first_segment(path: &str) -> Option<&str> {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split('/').next().filter(|segment| !segment.is_empty())
}

/// Indexes the APIs of a virtual host by name and version; each may occur once.
fn by_name(served: &[Arc<ServedApi>], all: &[Arc<ServedApi>]) -> Result<ByName, Conflict> {
    let mut by_name = ByName::new();
    for (index, api) in served.iter().enumerate() {
        let versions = by_name.entry(api.api.name().to_owned()).or_default();
        let Some(earlier) = versions.insert(api.api.version().to_owned(), index) else {
            continue;
        };
        let place = |api| all.iter().position(|it| Arc::ptr_eq(it, api));
        let place = |api| place(api).expect("it is one of all");
        let (one, other) = (place(&served[earlier]), place(api));
        return Err(Conflict::SameName {
            name: api.api.name().to_owned(),
            version: api.api.version().to_owned(),
            first: one.min(other),
            second: one.max(other),
        });
    }
    Ok(by_name)
}

/// Returns the paths of batches: those that the descriptions name, those of Google's APIs, and the one
/// that libraries use where a description names none. A method that has such a path keeps it.
fn batch_paths(served: &[Arc<ServedApi>], table: &MethodTable) -> HashMap<String, Option<usize>> {
    let apis = || served.iter().map(|served| &served.api).enumerate();
    let described = apis().filter_map(|(index, api)| {
        let path = api.document().batch_path.as_deref()?;
        Some((format!("/{}", path.trim_start_matches('/')), Some(index)))
    });
    let usual = apis().map(|(index, api)| {
        let path = format!("/batch/{}/{}", api.name(), api.version());
        (path, Some(index))
    });
    let mut paths = HashMap::new();
    for (path, api) in described.chain(usual).chain([("/batch".to_owned(), None)]) {
        if matches!(table.find(&HttpMethod::POST, &path), Found::Nothing) {
            // A path of several APIs belongs to none of them.
            let known = paths.entry(path).or_insert(api);
            *known = known.filter(|known| Some(*known) == api);
        }
    }
    paths
}

fn without_collision(table: MethodTable) -> Result<MethodTable, Conflict> {
    let methods = table.collision().map(|collision| collision.to_string());
    match methods {
        Some(methods) => Err(Conflict::SameRequests { methods }),
        None => Ok(table),
    }
}

/// What a path of the discovery service asks for.
pub(crate) enum DiscoveryRequest<'a> {
    /// `/discovery/v1/apis`
    Directory,
    /// `/$discovery/rest?version=v1`
    ByVersion,
    /// `/discovery/v1/apis/{api}/{version}/rest`
    ByName { api: &'a str, version: &'a str },
    /// `/discovery/v1/apis/{api}/{version}/openapi.json`
    OpenApi { api: &'a str, version: &'a str },
}

impl<'a> DiscoveryRequest<'a> {
    /// Returns what is asked for at a path; `None` if the path is not one of the discovery service.
    pub(crate) fn at(path: &'a str) -> Option<Self> {
        match path {
            "/discovery/v1/apis" => return Some(Self::Directory),
            "/$discovery/rest" => return Some(Self::ByVersion),
            _ => {}
        }
        let below = path.strip_prefix("/discovery/v1/apis/")?;
        let (api, rest) = below.split_once('/')?;
        match rest.split_once('/')? {
            (version, "rest") => Some(Self::ByName { api, version }),
            (version, "openapi.json") => Some(Self::OpenApi { api, version }),
            _ => None,
        }
    }

    /// Returns the document that is asked for; `None` if the host has no such API.
    pub(crate) fn document(
        &self,
        virtual_host: &VirtualHost,
        query: &Parameters,
        base_url: &str,
    ) -> Option<Value> {
        if matches!(self, Self::Directory) {
            return Some(directory(virtual_host, query, base_url));
        }
        let api = &self.served(virtual_host, query)?.api;
        if matches!(self, Self::OpenApi { .. }) {
            return Some(openapi::document(api, base_url));
        }
        let served = api.document().served_at(base_url);
        Some(serde_json::to_value(served).expect("a document came from JSON or from strings"))
    }

    /// Returns the API whose document is asked for; `None` if the host has no such API, and for the
    /// directory of all.
    pub(crate) fn served<'v>(
        &self,
        virtual_host: &'v VirtualHost,
        query: &Parameters,
    ) -> Option<&'v ServedApi> {
        match *self {
            Self::Directory => None,
            Self::ByVersion => by_version(virtual_host, query),
            Self::ByName { api, version } | Self::OpenApi { api, version } => {
                virtual_host.api(api, version)
            }
        }
    }
}

/// A path that is made for hosts of one API, so the first that has the version: one of
/// the host's own if there is any.
fn by_version<'a>(virtual_host: &'a VirtualHost, query: &Parameters) -> Option<&'a ServedApi> {
    let version = query.first("version");
    let mut served = virtual_host.served.iter().map(|served| &**served);
    served.find(|served| version.is_none_or(|version| served.api.version() == version))
}

fn directory(virtual_host: &VirtualHost, query: &Parameters, base_url: &str) -> Value {
    let wanted = query.first("name");
    let apis = virtual_host
        .apis()
        .filter(|api| wanted.is_none_or(|name| api.name() == name));
    let items: Vec<_> = apis.map(|api| directory_item(api, base_url)).collect();
    json!({
        "kind": "discovery#directoryList",
        "discoveryVersion": "v1",
        "items": items,
    })
}

fn directory_item(api: &Api, base_url: &str) -> Value {
    let (name, version) = (api.name(), api.version());
    let document = api.document();
    json!({
        "kind": "discovery#directoryItem",
        "id": format!("{name}:{version}"),
        "name": name,
        "version": version,
        "title": document.title,
        "description": document.description,
        "discoveryRestUrl": document_url(api, base_url),
        "documentationLink": document.documentation_link,
        "preferred": true,
    })
}

/// Returns the URL of an API's description.
pub(crate) fn document_url(api: &Api, base_url: &str) -> String {
    let (name, version) = (api.name(), api.version());
    format!("{base_url}/discovery/v1/apis/{name}/{version}/rest")
}

/// Returns the URL of an API's description in OpenAPI.
pub(crate) fn openapi_url(api: &Api, base_url: &str) -> String {
    let (name, version) = (api.name(), api.version());
    format!("{base_url}/discovery/v1/apis/{name}/{version}/openapi.json")
}

#[cfg(test)]
mod tests;
