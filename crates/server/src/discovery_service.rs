//! The discovery service: the API descriptions from which client libraries build themselves. Each
//! host serves those of its own APIs.

use http::{Method as HttpMethod, StatusCode};
use serde_json::{Value, json};
use windlass_discovery::Api;
use windlass_proto::parameters::Parameters;

use crate::error::Error;
use crate::registry::VirtualHost;
use crate::reply::{Reply, json_bytes, stored_json};
use crate::uploads::ServerState;

/// Answers a request to the discovery service; `None` if the path is not one of its paths.
pub(crate) fn answer(
    server: &ServerState,
    virtual_host: &VirtualHost,
    http_method: &HttpMethod,
    path: &str,
    query: &Parameters,
    base_url: &str,
) -> Option<Result<Reply, Error>> {
    let found = if path == "/discovery/v1/apis" {
        Some(Ok(directory(virtual_host, query, base_url)))
    } else if path == "/$discovery/rest" {
        Some(document_of(by_version(virtual_host, query), path, base_url))
    } else {
        let (name, version) = name_and_version(path)?;
        let named = virtual_host.api(name, version).map(|entry| &entry.api);
        Some(document_of(named, path, base_url))
    };
    let readable = matches!(*http_method, HttpMethod::GET | HttpMethod::HEAD);
    found.map(|document| {
        if !readable {
            return Err(Error::MethodNotAllowed {
                allowed: vec![HttpMethod::GET, HttpMethod::HEAD],
            });
        }
        let text = server.capacity.reply(json_bytes(&document?, true))?;
        Ok(stored_json(StatusCode::OK, text))
    })
}

/// Whether a path is one of the discovery service.
pub(crate) fn has(path: &str) -> bool {
    matches!(path, "/discovery/v1/apis" | "/$discovery/rest") || name_and_version(path).is_some()
}

/// `/discovery/v1/apis/{api}/{version}/rest`
fn name_and_version(path: &str) -> Option<(&str, &str)> {
    let name_and_version = path
        .strip_prefix("/discovery/v1/apis/")?
        .strip_suffix("/rest")?;
    let (name, version) = name_and_version.split_once('/')?;
    (!version.contains('/')).then_some((name, version))
}

/// `/$discovery/rest?version=v1`: made for hosts of one API, so the first that has the version: one of
/// the host's own if there is any.
fn by_version<'a>(virtual_host: &'a VirtualHost, query: &Parameters) -> Option<&'a Api> {
    let version = query.first("version");
    virtual_host
        .apis()
        .find(|api| version.is_none_or(|version| api.version() == version))
}

fn document_of(api: Option<&Api>, path: &str, base_url: &str) -> Result<Value, Error> {
    let api = api.ok_or_else(|| Error::NoSuchPath {
        path: path.to_owned(),
    })?;
    let served = api.document().served_at(base_url);
    Ok(serde_json::to_value(served).expect("a document came from JSON or from strings"))
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
