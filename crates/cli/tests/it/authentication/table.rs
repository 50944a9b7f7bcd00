//! Every method of every built-in API, by every type of upload and in both dialects, with every
//! kind of credentials. Expired credentials are in `expired`.

use std::net::SocketAddr;

use serde_json::Value;
use tempfile::TempDir;
use windlass_testkit::process::ServerProcess;
use windlass_testkit::raw::{Request, exchange};

use super::{CAROL, CREDENTIALS, DAVE, bearing};
use crate::server::{own, scratch};

pub(super) const APIS: [&str; 11] = [
    "farm",
    "files",
    "gmail",
    "dfareporting",
    "gamesConfiguration",
    "storage",
    "drive",
    "youtube",
    "firebasestorage",
    "generativelanguage",
    "photoslibrary",
];

/// The file of credentials without its grant to unauthenticated callers. Dave may only insert
/// animals.
fn guarded() -> (TempDir, ServerProcess) {
    let directory = TempDir::new_in(scratch()).expect("it is writable");
    let (named, _) = CREDENTIALS
        .split_once("[[allow]]\nanonymous")
        .expect("it is the last grant");
    std::fs::write(directory.path().join("auth.toml"), named).expect("it is writable");
    let config = directory.path().join("windlass.toml");
    std::fs::write(&config, "[auth]\nfile = 'auth.toml'\n").expect("it is writable");
    let mut arguments = vec!["--config", config.to_str().expect("it is UTF-8")];
    arguments.extend(APIS.iter().flat_map(|api| ["--api", api]));
    let server = own(&arguments);
    (directory, server)
}

/// All requests that call a method, and its id.
pub(super) fn requests_of(address: SocketAddr) -> Vec<(String, Request)> {
    let directory = exchange(address, &Request::new("GET", "/discovery/v1/apis")).expect(200);
    let listed = directory.json()["items"].as_array().cloned();
    let mut requests = Vec::new();
    for api in listed.expect("it is a list") {
        let (name, version) = (text(&api, "name"), text(&api, "version"));
        let path = format!("/discovery/v1/apis/{name}/{version}/rest");
        let document = exchange(address, &Request::new("GET", path)).expect(200);
        let document = document.json();
        add_methods(&document, text(&document, "servicePath"), &mut requests);
    }
    requests
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn add_methods(parent: &Value, service_path: &str, requests: &mut Vec<(String, Request)>) {
    for method in parent["methods"].as_object().into_iter().flatten() {
        add_requests(method.1, service_path, requests);
    }
    for resource in parent["resources"].as_object().into_iter().flatten() {
        add_methods(resource.1, service_path, requests);
    }
}

fn add_requests(method: &Value, service_path: &str, requests: &mut Vec<(String, Request)>) {
    let id = text(method, "id").to_owned();
    let verb = text(method, "httpMethod");
    let path = expanded(&format!("/{service_path}{}", text(method, "path")));
    let json = |request: Request| {
        request
            .header("content-type", "application/json")
            .body("{}")
    };
    requests.push((id.clone(), json(Request::new(verb, path.clone()))));
    if method["supportsMediaDownload"] == true {
        for target in [format!("{path}?alt=media"), format!("/download{path}")] {
            requests.push((id.clone(), Request::new("GET", target)));
        }
    }
    let Some(upload) = method["mediaUpload"]["protocols"].as_object() else {
        return;
    };
    let upload = expanded(text(&upload["simple"], "path"));
    for prefix in ["", "/resumable"] {
        let simple = Request::new(verb, format!("{prefix}{upload}?uploadType=media"));
        let multipart = Request::new(verb, format!("{prefix}{upload}?uploadType=multipart"));
        let multipart = multipart.header("content-type", "multipart/related; boundary=b");
        let start = Request::new(verb, format!("{prefix}{upload}?uploadType=resumable"));
        let other_start = Request::new(verb, format!("{prefix}{upload}"))
            .header("x-goog-upload-protocol", "resumable")
            .header("x-goog-upload-command", "start");
        let raw = Request::new(verb, format!("{prefix}{upload}"));
        let raw = raw.header("x-goog-upload-protocol", "raw");
        for request in [simple.body("media"), multipart.body("")] {
            requests.push((id.clone(), request));
        }
        for request in [start, other_start, raw] {
            requests.push((id.clone(), json(request)));
        }
    }
}

/// A path of a template: each variable has the value 1.
fn expanded(template: &str) -> String {
    let mut path = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (_, behind) = after.split_once('}').expect("the variable ends");
        path.push_str(before);
        path.push('1');
        rest = behind;
    }
    path + rest
}

#[test]
fn every_method_is_refused_without_right_credentials_and_allowed_with_them() {
    let (_directory, server) = guarded();
    let address = server.address();
    let requests = requests_of(address);
    assert!(requests.len() > 300, "{}", requests.len());
    for (id, request) in &requests {
        let status = |request: &Request| exchange(address, request).status;
        assert_eq!(
            status(request),
            401,
            "{id} without credentials: {request:?}"
        );
        let wrong = bearing(request, "wrong");
        assert_eq!(
            status(&wrong),
            401,
            "{id} with wrong credentials: {request:?}"
        );
        let foreign = status(&bearing(request, DAVE));
        if id == "farm.animals.insert" {
            assert!(
                !matches!(foreign, 401 | 403),
                "{id}: {foreign}, {request:?}"
            );
        } else {
            assert_eq!(
                foreign, 403,
                "{id} with credentials for another: {request:?}"
            );
        }
        let right = status(&bearing(request, CAROL));
        assert!(!matches!(right, 401 | 403), "{id}: {right}, {request:?}");
    }
}

#[test]
fn paths_of_no_method_tell_strangers_nothing() {
    let (_directory, server) = guarded();
    for (http_method, path) in [
        ("POST", "/"),
        ("GET", "/no/such/path"),
        ("OPTIONS", "/farm/v1/animals"),
        ("POST", "/batch"),
        ("POST", "/batch/farm/v1"),
        ("POST", "/upload"),
        ("POST", "/upload/no/such/path?uploadType=media"),
        ("GET", "/a-bucket/an-object"),
        // Not below the upload path, so it is not a session URI.
        ("GET", "/farm/v1/animals?upload_id=x"),
    ] {
        let request = Request::new(http_method, path);
        exchange(server.address(), &request).expect(401);
        exchange(server.address(), &bearing(&request, "wrong")).expect(401);
    }
    for path in ["/", "/healthz", "/readyz", "/discovery/v1/apis", "/metrics"] {
        let request = Request::new("GET", path);
        exchange(server.address(), &request).expect(200);
        exchange(server.address(), &bearing(&request, "wrong")).expect(200);
    }
    // No caller has this session URI, whatever other credentials it has.
    let session = Request::new("PUT", "/upload/farm/v1/animals?upload_id=x").body("");
    exchange(server.address(), &session).expect(404);
}
