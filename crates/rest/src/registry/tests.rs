use http::Method as HttpMethod;
use serde_json::json;
use windlass_discovery::Found;
use windlass_store::Resource;

use super::*;
use crate::handler::{Answer, Call, Rejection, Uploaded};

fn host(text: &str) -> Host {
    text.parse().unwrap()
}

/// An API with one method, `name.get`, at this path. Variables are called `id` or `name`.
fn api(name: &str, path: &str) -> ServedApi {
    let in_path = json!({"location": "path"});
    let document = json!({"name": name, "version": "v1", "methods": {"get": {
        "id": format!("{name}.get"), "httpMethod": "GET", "path": path,
        "parameters": {"id": in_path, "name": in_path},
    }}});
    let document = serde_json::from_value(document).unwrap();
    ServedApi::with_default_handler(Api::from_document(document).unwrap())
}

/// The method that answers `GET path` on a host.
fn found(registry: &Registry, on: Option<&str>, path: &str) -> Option<String> {
    let virtual_host = registry.on(on.map(host).as_ref());
    match virtual_host.table.find(&HttpMethod::GET, path) {
        Found::Method { method, .. } => Some(virtual_host.of(method).method.id.clone()),
        _ => None,
    }
}

fn names(virtual_host: &VirtualHost) -> Vec<&str> {
    virtual_host.apis().map(Api::name).collect()
}

/// `disk` and `cloud` have the same path on different hosts, and `farm` is on every host.
fn registry() -> Registry {
    let apis = [
        api("farm", "v1/animals"),
        api("disk", "v1/files").on(host("disk.example")),
        api("cloud", "v1/files").on(host("[::1]")),
    ];
    Registry::new(apis).unwrap()
}

#[test]
fn an_api_with_a_host_answers_on_that_host_alone() {
    let registry = registry();
    for (on, expected) in [
        (Some("Disk.example."), Some("disk.get")),
        (Some("::1"), Some("cloud.get")),
        (Some("other.example"), None),
        (None, None),
    ] {
        let found = found(&registry, on, "/v1/files");
        assert_eq!(found.as_deref(), expected, "{on:?}");
    }
}

#[test]
fn an_api_without_a_host_answers_on_every_host_after_those_of_the_host() {
    let registry = registry();
    for on in [Some("disk.example"), Some("other.example"), None] {
        let found = found(&registry, on, "/v1/animals");
        assert_eq!(found.as_deref(), Some("farm.get"), "{on:?}");
    }
    assert_eq!(names(registry.on(None)), ["farm"]);
    let disk = host("disk.example");
    assert_eq!(names(registry.on(Some(&disk))), ["disk", "farm"]);

    let wide = api("wide", "v1/{+name}").on(host("disk.example"));
    let registry = Registry::new([api("farm", "v1/animals"), wide]).unwrap();
    let on_host = found(&registry, Some("disk.example"), "/v1/animals");
    assert_eq!(on_host.as_deref(), Some("wide.get"));
    let elsewhere = found(&registry, None, "/v1/animals");
    assert_eq!(elsewhere.as_deref(), Some("farm.get"));
}

#[test]
fn apis_that_answer_the_same_requests_are_refused() {
    let disk = || api("disk", "v1/files/{id}");
    let cloud = || api("cloud", "v1/files/{name}");
    let at = |name| host(name);
    let conflicting = [
        [disk(), cloud()],
        [disk(), cloud().on(at("a"))],
        [disk().on(at("a")), cloud().on(at("a"))],
    ];
    for apis in conflicting {
        let error = Registry::new(apis).unwrap_err().to_string();
        for expected in ["disk.get of disk:v1", "cloud.get of cloud:v1", "GET /v1/"] {
            assert!(error.contains(expected), "{error}");
        }
    }
    Registry::new([disk().on(at("a")), cloud().on(at("b"))]).unwrap();
}

#[test]
fn a_name_and_version_is_served_once_on_a_host() {
    let same_name = |first, second| Conflict::SameName {
        name: "disk".to_owned(),
        version: "v1".to_owned(),
        first,
        second,
    };
    let (one, other) = (|| api("disk", "v1/files"), || api("disk", "v1/others"));
    let conflict = Registry::new([one(), api("farm", "x"), other()]).unwrap_err();
    assert_eq!(conflict, same_name(0, 2));
    let conflict = Registry::new([one(), other().on(host("a"))]).unwrap_err();
    assert_eq!(conflict, same_name(0, 1));
    Registry::new([one().on(host("a")), other().on(host("b"))]).unwrap();
}

#[test]
fn a_session_finds_the_method_of_its_api_at_its_host() {
    let (a, b) = (host("a"), host("b"));
    let apis = [
        api("disk", "v1/files").on(a.clone()),
        api("disk", "v1/others").on(b.clone()),
        api("farm", "v1/animals"),
    ];
    let registry = Registry::new(apis).unwrap();
    let path = |host, name: &str| {
        let found = registry.method(host, name, "v1", &format!("{name}.get"))?;
        Some(found.method.template.as_str())
    };
    assert_eq!(path(Some(&a), "disk"), Some("v1/files"));
    assert_eq!(path(Some(&b), "disk"), Some("v1/others"));
    assert_eq!(path(None, "disk"), None);
    assert_eq!(path(None, "farm"), Some("v1/animals"));
    // The API `farm` has no host, so its sessions are found without a host only.
    assert_eq!(path(Some(&a), "farm"), None);
    assert_eq!(path(Some(&host("gone")), "farm"), None);
}

#[test]
fn a_registry_shows_each_api_once() {
    let expected =
        "[ServedApi(farm:v1), ServedApi(cloud:v1@[::1]), ServedApi(disk:v1@disk.example)]";
    assert_eq!(format!("{:?}", registry()), expected);
}

#[test]
fn path_belongs_to_the_api_of_its_method_or_batch() {
    let registry = registry();
    let at = |on: Option<&str>, http_method, path: &str| {
        let virtual_host = registry.on(on.map(host).as_ref());
        let served = virtual_host.api_at(&http_method, path)?;
        Some(served.api.name().to_owned())
    };
    let disk = Some("disk.example");
    for (on, http_method, path, expected) in [
        (None, HttpMethod::GET, "/v1/animals", Some("farm")),
        (None, HttpMethod::PUT, "/v1/animals", Some("farm")),
        (None, HttpMethod::GET, "/v1/files", None),
        (disk, HttpMethod::GET, "/v1/files", Some("disk")),
        (disk, HttpMethod::GET, "/v1/animals", Some("farm")),
        (disk, HttpMethod::POST, "/batch/disk/v1", Some("disk")),
        (disk, HttpMethod::POST, "/batch/farm/v1", Some("farm")),
        (disk, HttpMethod::POST, "/batch", None),
    ] {
        let found = at(on, http_method, path);
        assert_eq!(found.as_deref(), expected, "{on:?} {path}");
    }
}

/// Stands for `read` at any path.
#[derive(Debug)]
struct AliasEverywhere;

#[async_trait::async_trait]
impl ApiHandler for AliasEverywhere {
    async fn admit(&self, call: &Call<'_>) -> Result<(), Rejection> {
        Err(call.not_implemented())
    }

    async fn run(&self, call: &Call<'_>, _: Option<Uploaded>) -> Result<Answer, Rejection> {
        Err(call.not_implemented())
    }

    async fn find(&self, call: &Call<'_>) -> Result<Resource, Rejection> {
        Err(call.not_implemented())
    }

    fn alias(&self, _: &Api, path: &str) -> Option<String> {
        Some(format!("/read{path}"))
    }
}

#[test]
fn alias_gives_way_to_the_paths_of_methods() {
    let store = || ServedApi {
        handler: Arc::new(AliasEverywhere),
        ..api("store", "store/v1/{id}")
    };
    let alias = |registry: &Registry, on: Option<&str>, path: &str| {
        registry.on(on.map(host).as_ref()).alias(path).is_some()
    };
    let shared = Registry::new([store(), api("farm", "farm/v1/animals")]).unwrap();
    for (path, expected) in [
        ("/barn/cow", true),
        ("/farms/v1", true),
        ("/farm/v1/nosuch", false),
        ("/store/v2", false),
        ("/upload/x/y", false),
        ("/download/x", false),
        ("/batch/x", false),
        ("/", false),
    ] {
        assert_eq!(alias(&shared, None, path), expected, "{path}");
    }
    // On the API's own host, an alias may have such a name.
    let own = store().on(host("store.example"));
    let apart = Registry::new([own, api("farm", "farm/v1/animals")]).unwrap();
    let on = Some("store.example");
    assert!(alias(&apart, on, "/farm/v1/nosuch"));
    assert!(!alias(&apart, on, "/store/v2"));
}
