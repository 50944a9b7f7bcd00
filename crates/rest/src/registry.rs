//! The served APIs, their handlers, and the hosts on which they answer.
//!
//! An API with a host answers requests to that host only. An API without a host answers on every
//! host. A [`VirtualHost`] holds the APIs that answer on one host: its own first, then the APIs
//! without a host. Client libraries build themselves from the APIs' descriptions, which the
//! discovery service returns ([`DiscoveryRequest`]).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use http::{HeaderName, Method as HttpMethod};
use serde_json::{Value, json};
use windlass_digest::Wanted;
#[cfg(feature = "openapi")]
use windlass_discovery::openapi;
use windlass_discovery::{Api, Digest, Found, Method, MethodTable};
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
    /// The only host on which the API answers. `None`, the default, means every host.
    ///
    /// A session belongs to an API and its host. Changing the host makes existing sessions
    /// unreachable.
    pub host: Option<Host>,
    /// The origins with pages that may call the API from a browser. `None`, the default, means the
    /// origins in the settings of the server.
    pub cors: Option<CorsPolicy>,
    /// The application's callback after an upload; see [`ServedApi::on_uploaded`]. Default: none.
    pub on_uploaded: Option<Arc<UploadCallback>>,
    /// Parameters and headers that every call must omit; see [`ServedApi::refusing`]. Default:
    /// none.
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

    /// Connects the API to the services that its description names: backends of methods, and
    /// receivers of notices about uploads. Without this, these methods are not implemented and no
    /// notices are sent.
    #[must_use]
    pub fn with_backends(self, backends: Arc<Backends>) -> Self {
        Self {
            handler: Arc::new(WithBackends::new(self.handler, backends, &self.api)),
            ..self
        }
    }

    /// Calls the application after each upload that has become a resource.
    ///
    /// The event is committed together with the resource, so a crash cannot lose it. The callback
    /// is called until it returns `Ok`, for three days. The first call is immediate. After an error
    /// it is repeated after 1, 2, 4 minutes and so on, up to 4 hours. An event is therefore
    /// delivered at least once; the application recognizes a repetition by
    /// [`UploadedResource::id`]. At most four callbacks run at a time. A second call of this method
    /// replaces the callback. If the same API is served on several hosts, the callback of the first
    /// host receives all events.
    ///
    /// # Cancel safety
    /// The callback's future is dropped when the server stops, and after 30 minutes. The callback
    /// is then called again.
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

    /// Refuses calls and uploads that have one of these parameters or headers. Intended for inputs
    /// that clients know and the handler does not implement, such as a filter.
    #[must_use]
    pub fn refusing(self, refused: impl IntoIterator<Item = RefusedInput>) -> Self {
        Self {
            refused: refused.into_iter().collect(),
            ..self
        }
    }

    /// Serves the API on this host only.
    #[must_use]
    pub fn on(self, host: Host) -> Self {
        Self {
            host: Some(host),
            ..self
        }
    }

    /// Sets the policy for pages of other origins.
    #[must_use]
    pub fn with_cors(self, policy: CorsPolicy) -> Self {
        Self {
            cors: Some(policy),
            ..self
        }
    }
}

impl fmt::Display for ServedApi {
    /// Writes a readable name: `farm v1`, or `farm v1 on farm.example`.
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

/// All APIs of a server, by host.
///
/// The size depends on the APIs and their hosts only. Requests do not change it.
pub struct Registry {
    /// The hosts that APIs name.
    hosts: BTreeMap<Host, VirtualHost>,
    /// The APIs on every other host.
    elsewhere: VirtualHost,
    /// Deliveries that do not come from a handler.
    deliveries: Vec<Arc<dyn Deliver>>,
}

/// Two APIs that cannot be served together.
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
        /// Index of the first API, in the given order.
        first: usize,
        /// Index of the second API.
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
pub struct VirtualHost {
    host: Option<Host>,
    /// The APIs of this host first, then the APIs without a host.
    served: Vec<Arc<ServedApi>>,
    by_name: ByName,
    /// The methods of the host's APIs.
    pub table: MethodTable,
    /// Paths of batches, with the index of the API that the path belongs to. `None` if several APIs
    /// share the path.
    batch_paths: HashMap<String, Option<usize>>,
    /// The first path segments of the host's own APIs, and of all APIs on the host.
    segments: [HashSet<String>; 2],
}

/// First segments of paths that the server itself answers, and that are no methods.
pub const OWN_SEGMENTS: [&str; 5] = ["batch", "discovery", "download", "resumable", "upload"];

/// A method together with its API.
#[derive(Debug, Clone, Copy)]
pub struct ServedMethod<'a> {
    /// The API.
    pub served: &'a ServedApi,
    /// The method.
    pub method: &'a Method,
}

impl Registry {
    /// Returns the registry of these APIs. Earlier APIs are preferred where the order matters.
    ///
    /// # Errors
    /// [`Conflict`] if two APIs on the same host have the same name and version, or methods that
    /// answer the same requests. The second API would be unreachable.
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

    /// Adds the delivery of a topic. It takes precedence over handlers' deliveries of the same
    /// topic.
    #[must_use]
    pub fn with_delivery(mut self, delivery: Arc<dyn Deliver>) -> Self {
        self.deliveries.push(delivery);
        self
    }

    /// Returns the ids of methods in short descriptions that will be answered 501, because neither
    /// the default handler nor a backend implements them.
    pub fn unanswered(&self) -> impl Iterator<Item = &str> {
        self.served()
            .flat_map(|served| unanswered_methods(&served.api))
            .map(|method| method.id.as_str())
    }

    /// Returns the ids of methods with descriptions that name no scopes. The scopes of credentials
    /// do not limit who may call these methods.
    pub fn without_scopes(&self) -> impl Iterator<Item = &str> {
        let methods = self.served().flat_map(|served| served.api.methods());
        let without = methods.filter(|method| method.scopes.is_empty());
        without.map(|method| method.id.as_str())
    }

    /// Whether a method of an API refuses this header.
    pub fn refuses_header(&self, name: &HeaderName) -> bool {
        self.served()
            .any(|served| served.refused.names_header(name.as_str()))
    }

    /// Returns whether an API of this name is served.
    pub fn serves(&self, name: &str) -> bool {
        self.served().any(|served| served.api.name() == name)
    }

    /// Returns the maximum number of concurrent connections to the services that descriptions name.
    pub fn service_connections(&self) -> usize {
        let apis = self.served();
        backends::connections(apis.map(|served| (&served.api, &*served.handler)))
    }

    /// Returns the hosts that APIs name.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.keys()
    }

    /// Returns the APIs that answer on `host`. `None` stands for a request without a host.
    pub fn on(&self, host: Option<&Host>) -> &VirtualHost {
        host.and_then(|host| self.hosts.get(host))
            .unwrap_or(&self.elsewhere)
    }

    /// Returns all deliveries. Several deliveries may have the same topic.
    pub fn deliveries(&self) -> Vec<Arc<dyn Deliver>> {
        // The first delivery of a topic receives its events, so this order is the precedence.
        let own = self.deliveries.iter().cloned();
        let of_handlers = self.served().flat_map(|served| served.handler.deliveries());
        let callbacks = self.served().filter_map(|it| it.on_uploaded.clone());
        let callbacks = callbacks.map(|it| -> Arc<dyn Deliver> { it });
        own.chain(of_handlers).chain(callbacks).collect()
    }

    /// Returns all APIs: first the APIs without a host, then the APIs of each host.
    pub fn served(&self) -> impl Iterator<Item = &ServedApi> {
        let with_host = self
            .hosts
            .values()
            .flat_map(|virtual_host| &virtual_host.served);
        // A virtual host also lists the APIs without a host, which `elsewhere` has already.
        let with_host = with_host.filter(|served| served.host.is_some());
        self.elsewhere
            .served
            .iter()
            .chain(with_host)
            .map(|it| &**it)
    }

    /// Finds a method by the names that a session stores. `host` is the host of the method's API.
    pub fn method(
        &self,
        host: Option<&Host>,
        name: &str,
        version: &str,
        id: &str,
    ) -> Option<ServedMethod<'_>> {
        let served = self.on(host).api(name, version)?;
        let method = served.api.method(id)?;
        // `on` also finds APIs without a host, but a session belongs to an API and its host.
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

impl fmt::Debug for VirtualHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtualHost")
            .field("host", &self.host)
            .field("served", &self.served)
            .finish_non_exhaustive()
    }
}

impl VirtualHost {
    fn new(host: Option<Host>, all: &[Arc<ServedApi>]) -> Result<Self, Conflict> {
        let at = |host: Option<&Host>| -> Vec<_> {
            let at_host = all.iter().filter(|served| served.host.as_ref() == host);
            at_host.cloned().collect()
        };
        let own = host.as_ref().map(|host| at(Some(host)));
        // The host's own APIs come first: their methods win over equal paths of APIs without a
        // host.
        let groups = [own.unwrap_or_default(), at(None)];
        let table = MethodTable::of_groups(
            groups
                .iter()
                .map(|group| group.iter().map(|served| &served.api)),
        );
        // In the same order, so that a document requested by its version alone is the host's own.
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

    /// Returns the host. `None` stands for all hosts that no API names.
    pub fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// Returns the APIs of this host in the given order, and after them the APIs without a host.
    pub fn apis(&self) -> impl Iterator<Item = &Api> {
        self.served.iter().map(|served| &served.api)
    }

    /// Returns the path of the method that answers a GET of this path; see
    /// [`ApiHandler::alias`].
    pub fn alias(&self, path: &str) -> Option<String> {
        self.aliased(path).map(|(_, alias)| alias)
    }

    /// Returns the API that has an alias at this path, and the path of the aliased method.
    ///
    /// A path that begins like a method's path is not an alias. Otherwise a client that asks for a
    /// method missing here would receive a reply about an object with the method's path as its
    /// name.
    fn aliased(&self, path: &str) -> Option<(&ServedApi, String)> {
        let segment = first_segment(path)?;
        let [of_own, of_all] = &self.segments;
        let mut served = self.served.iter().map(|served| &**served);
        served.find_map(|served| {
            // An API with a host gives way only to the other APIs of its host.
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

    /// Returns the id of the known method at this path, if no API here serves the method.
    pub fn not_served(&self, http_method: &HttpMethod, path: &str) -> Option<String> {
        let mut served = self.served.iter();
        served.find_map(|served| served.handler.not_served(http_method, path))
    }

    /// Whether batches are sent to this path.
    pub fn takes_batches_at(&self, path: &str) -> bool {
        self.batch_paths.contains_key(path)
    }

    /// Whether an API here has its own policy for pages of other origins.
    pub fn has_cors_policies(&self) -> bool {
        self.served.iter().any(|served| served.cors.is_some())
    }

    /// Returns the API that a path belongs to. If several APIs have methods at the path, the API of
    /// the method with this HTTP method is preferred. Otherwise the first API is returned.
    pub fn api_at(&self, http_method: &HttpMethod, path: &str) -> Option<&ServedApi> {
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

    /// Finds an API by name and version.
    pub(crate) fn api(&self, name: &str, version: &str) -> Option<&ServedApi> {
        let index = self.by_name.get(name)?.get(version)?;
        self.served.get(*index).map(|served| &**served)
    }

    /// Returns the API of a method that the table has found.
    pub fn of<'a>(&'a self, method: &'a Method) -> ServedMethod<'a> {
        let served = self
            .api(&method.api_name, &method.api_version)
            .expect("the table holds only methods of these APIs");
        ServedMethod { served, method }
    }
}

impl ServedMethod<'_> {
    /// Returns the digests that the API shows for this method's media, in addition to CRC32C.
    pub fn wanted_digests(&self) -> Wanted {
        let digests = self.served.api.settings().digests_of(self.method);
        Wanted {
            md5: digests.contains(&Digest::Md5),
            sha256: digests.contains(&Digest::Sha256),
        }
    }
}

/// Returns the first path segments of these APIs' methods. A path that begins with a variable has
/// none.
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

/// Indexes the APIs of a virtual host by name and version. Each pair may occur once.
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
            // A virtual host has its own APIs first; the error counts in the given order.
            first: one.min(other),
            second: one.max(other),
        });
    }
    Ok(by_name)
}

/// Returns the paths of batches: the paths in the descriptions, the usual paths of Google's APIs,
/// and `/batch`, which libraries use if a description names no path. A path that is also a method's
/// path stays the method's.
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
            // A path that several APIs share belongs to none of them.
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

/// A request to the discovery service, by its path.
#[derive(Debug)]
pub enum DiscoveryRequest<'a> {
    /// `/discovery/v1/apis`
    Directory,
    /// `/$discovery/rest?version=v1`
    ByVersion,
    /// `/discovery/v1/apis/{api}/{version}/rest`
    ByName {
        /// Name of the API.
        api: &'a str,
        /// Version of the API.
        version: &'a str,
    },
    /// `/discovery/v1/apis/{api}/{version}/openapi.json`
    #[cfg(feature = "openapi")]
    OpenApi {
        /// Name of the API.
        api: &'a str,
        /// Version of the API.
        version: &'a str,
    },
}

impl<'a> DiscoveryRequest<'a> {
    /// Parses a path. `None` if the path is not in the discovery service.
    pub fn at(path: &'a str) -> Option<Self> {
        match path {
            "/discovery/v1/apis" => return Some(Self::Directory),
            "/$discovery/rest" => return Some(Self::ByVersion),
            _ => {}
        }
        let below = path.strip_prefix("/discovery/v1/apis/")?;
        let (api, rest) = below.split_once('/')?;
        match rest.split_once('/')? {
            (version, "rest") => Some(Self::ByName { api, version }),
            #[cfg(feature = "openapi")]
            (version, "openapi.json") => Some(Self::OpenApi { api, version }),
            _ => None,
        }
    }

    /// Returns the requested document. `None` if the host does not have the API.
    pub fn document(
        &self,
        virtual_host: &VirtualHost,
        query: &Parameters,
        base_url: &str,
    ) -> Option<Value> {
        if matches!(self, Self::Directory) {
            return Some(directory(virtual_host, query, base_url));
        }
        let api = &self.served(virtual_host, query)?.api;
        #[cfg(feature = "openapi")]
        if matches!(self, Self::OpenApi { .. }) {
            return Some(openapi::document(api, base_url));
        }
        // A published document names Google's URLs: a library built from it would call Google.
        let served = api.document().served_at(base_url);
        Some(serde_json::to_value(served).expect("a document came from JSON or from strings"))
    }

    /// Returns the API that the requested document describes. `None` if the host does not have the
    /// API, or if the directory of all APIs is requested.
    pub fn served<'v>(
        &self,
        virtual_host: &'v VirtualHost,
        query: &Parameters,
    ) -> Option<&'v ServedApi> {
        match *self {
            Self::Directory => None,
            Self::ByVersion => by_version(virtual_host, query),
            Self::ByName { api, version } => virtual_host.api(api, version),
            #[cfg(feature = "openapi")]
            Self::OpenApi { api, version } => virtual_host.api(api, version),
        }
    }
}

/// The path without a name assumes a host with one API. If several APIs have the version, the first
/// is returned, which is one of the host's own if there is any.
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
pub fn document_url(api: &Api, base_url: &str) -> String {
    let (name, version) = (api.name(), api.version());
    format!("{base_url}/discovery/v1/apis/{name}/{version}/rest")
}

/// Returns the URL of an API's description in OpenAPI. `None` without the feature `openapi`.
pub fn openapi_url(api: &Api, base_url: &str) -> Option<String> {
    let (name, version) = (api.name(), api.version());
    let url = || format!("{base_url}/discovery/v1/apis/{name}/{version}/openapi.json");
    cfg!(feature = "openapi").then(url)
}

/// Returns the path of the resource that an upload path belongs to. `None` for any other path.
pub fn plain_path(path: &str) -> Option<&str> {
    let rest = path
        .strip_prefix("/resumable/upload")
        .or_else(|| path.strip_prefix("/upload"))?;
    // Otherwise the path only begins like an upload path, as `/uploads/x` does.
    rest.starts_with('/').then_some(rest)
}

#[cfg(test)]
mod tests;
