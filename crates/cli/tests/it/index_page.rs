//! The page at `/` (docs/protocol.md, 2.16).

use serde_json::json;
use windlass_testkit::raw::{Reply, Request, exchange};

use crate::authentication::guarded;
use crate::server::{farm, own, pond};

const POND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/pond.toml");

fn page(accept: &str) -> Request {
    Request::new("GET", "/").header("Accept", accept)
}

fn uploads(page: &Reply) -> Vec<String> {
    let apis = page.field("apis");
    let apis = apis.as_array().into_iter().flatten();
    let uploads = apis.flat_map(|api| api["uploads"].as_array().into_iter().flatten());
    uploads
        .map(|upload| upload["url"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn page_lists_the_apis_their_upload_urls_and_a_command_line_for_each() {
    let reply = exchange(farm(), &page("application/json")).expect(200);
    let json = "application/json; charset=UTF-8";
    assert_eq!(reply.header("content-type"), Some(json));
    let root = "http://farm.localhost";
    let url = format!("{root}/upload/farm/v1/animals");
    assert_eq!(
        reply.json()["apis"][0],
        json!({
            "name": "farm",
            "version": "v1",
            "title": "Farm API",
            "description": "Keeps animals and their media.",
            "discoveryRestUrl": format!("{root}/discovery/v1/apis/farm/v1/rest"),
            "openapiUrl": format!("{root}/discovery/v1/apis/farm/v1/openapi.json"),
            "example": format!(
                "curl -X POST -T cow.jpg -H 'Content-Type: image/jpeg' '{url}?uploadType=media'"
            ),
            "uploads": [
                {"id": "farm.animals.insert", "httpMethod": "POST", "url": url},
                {"id": "farm.animals.patch", "httpMethod": "PATCH", "url": format!("{url}/{{animalId}}")},
                {"id": "farm.animals.update", "httpMethod": "PUT", "url": format!("{url}/{{animalId}}")},
            ],
        })
    );
    let pond = exchange(pond(), &page("application/json")).expect(200);
    assert!(uploads(&pond).contains(&format!("{root}/upload/pond/v2/frogs")));
}

#[test]
fn browsers_get_html_without_scripts_and_others_text() {
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    for (accept, content_type, upload) in [
        (
            browser,
            "text/html; charset=utf-8",
            "<code>POST http://farm.localhost/upload/farm/v1/animals</code>",
        ),
        (
            "*/*",
            "text/plain; charset=utf-8",
            "farm.animals.insert: POST http://farm.localhost/upload/farm/v1/animals\n",
        ),
    ] {
        let reply = exchange(farm(), &page(accept)).expect(200);
        assert_eq!(reply.header("content-type"), Some(content_type));
        assert_eq!(reply.header("vary"), Some("Accept"));
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        let policy = reply.header("content-security-policy").unwrap_or_default();
        assert!(
            policy.starts_with("default-src 'none'; style-src 'sha256-"),
            "{policy}"
        );
        assert!(reply.text().contains(upload), "{}", reply.text());
        let openapi = "http://farm.localhost/discovery/v1/apis/farm/v1/openapi.json";
        assert!(reply.text().contains(openapi), "{}", reply.text());
        assert!(!reply.text().contains("<script"), "{}", reply.text());
        let head =
            exchange(farm(), &Request::new("HEAD", "/").header("Accept", accept)).expect(200);
        assert_eq!(
            head.header("content-length"),
            reply.header("content-length")
        );
        assert_eq!(head.header("content-type"), Some(content_type));
        assert!(head.body.is_empty());
    }
}

#[test]
fn each_host_shows_the_apis_that_answer_there() {
    let server = own(&["--api", &format!("{POND}@pond.example"), "--api", "farm"]);
    let on = |host: &str| {
        let page = page("application/json").header("Host", host);
        exchange(server.address(), &page).expect(200)
    };
    let of_pond = uploads(&on("pond.example")).concat();
    assert!(
        of_pond.contains("http://pond.example/upload/pond/v2/frogs"),
        "{of_pond}"
    );
    assert!(of_pond.contains("/upload/farm/v1/animals"), "{of_pond}");
    let elsewhere = uploads(&on("other.localhost")).concat();
    assert!(!elsewhere.contains("pond"), "{elsewhere}");
}

#[test]
fn page_needs_no_credentials_as_discovery_needs_none() {
    let server = guarded();
    exchange(server.address(), &page("text/html")).expect(200);
    exchange(server.address(), &Request::new("GET", "/discovery/v1/apis")).expect(200);
    exchange(server.address(), &Request::new("POST", "/").body("")).expect(401);
}
