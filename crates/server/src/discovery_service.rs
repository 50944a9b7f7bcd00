//! The discovery service: the API descriptions from which client libraries build themselves. Each
//! host serves those of its own APIs.

use serde_json::{Value, json};
use windlass_discovery::Api;
use windlass_proto::parameters::Parameters;

use crate::registry::VirtualHost;

/// What a path of the discovery service asks for.
pub(crate) enum Request<'a> {
    /// `/discovery/v1/apis`
    Directory,
    /// `/$discovery/rest?version=v1`
    ByVersion,
    /// `/discovery/v1/apis/{api}/{version}/rest`
    ByName { api: &'a str, version: &'a str },
}

impl<'a> Request<'a> {
    /// Returns what is asked for at a path; `None` if the path is not one of the discovery service.
    pub(crate) fn at(path: &'a str) -> Option<Self> {
        match path {
            "/discovery/v1/apis" => return Some(Self::Directory),
            "/$discovery/rest" => return Some(Self::ByVersion),
            _ => {}
        }
        let name_and_version = path
            .strip_prefix("/discovery/v1/apis/")?
            .strip_suffix("/rest")?;
        let (api, version) = name_and_version.split_once('/')?;
        (!version.contains('/')).then_some(Self::ByName { api, version })
    }

    /// Returns the document that is asked for; `None` if the host has no such API.
    pub(crate) fn document(
        &self,
        virtual_host: &VirtualHost,
        query: &Parameters,
        base_url: &str,
    ) -> Option<Value> {
        let api = match *self {
            Self::Directory => return Some(directory(virtual_host, query, base_url)),
            Self::ByVersion => by_version(virtual_host, query),
            Self::ByName { api, version } => virtual_host.api(api, version).map(|entry| &entry.api),
        };
        let served = api?.document().served_at(base_url);
        Some(serde_json::to_value(served).expect("a document came from JSON or from strings"))
    }
}

/// A path that is made for hosts of one API, so the first that has the version: one of
/// the host's own if there is any.
fn by_version<'a>(virtual_host: &'a VirtualHost, query: &Parameters) -> Option<&'a Api> {
    let version = query.first("version");
    virtual_host
        .apis()
        .find(|api| version.is_none_or(|version| api.version() == version))
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
        "discoveryRestUrl": format!("{base_url}/discovery/v1/apis/{name}/{version}/rest"),
        "documentationLink": document.documentation_link,
        "preferred": true,
    })
}
