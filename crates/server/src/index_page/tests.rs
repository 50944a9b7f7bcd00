use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use windlass_rest::registry::{Registry, ServedApi};

use super::*;

const BASE: &str = "http://farm.example";

fn registry(short_form: &str) -> Registry {
    let api = Api::from_toml(short_form).expect("it is valid");
    Registry::new([ServedApi::with_default_handler(api)]).expect("it is one API")
}

fn page_of(short_form: &str, accept: &'static str) -> String {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    let registry = registry(short_form);
    let (_, page) = page(registry.on(None), BASE, &headers);
    String::from_utf8(page.to_vec()).expect("it is text")
}

#[test]
fn policy_allows_the_style_of_the_page() {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    let policy = POLICY.to_str().expect("it is ASCII").to_owned();
    assert!(
        policy.contains(&format!("'sha256-{hash}'")),
        "{hash}: {policy}"
    );
}

#[test]
fn form_is_the_one_of_the_highest_quality_and_text_without_preference() {
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    for (accept, expected) in [
        (browser, Form::Html),
        ("application/json", Form::Json),
        ("APPLICATION/JSON", Form::Json),
        ("application/json, text/html", Form::Html),
        ("application/json, text/html;q=0.9", Form::Json),
        (
            "application/json;charset=utf-8; q=0.1, text/plain ;q=0.2",
            Form::Text,
        ),
        ("text/html;q=0, application/json;q=0.001", Form::Json),
        ("text/html;q=none", Form::Text),
        ("*/*", Form::Text),
        ("image/png", Form::Text),
        ("", Form::Text),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        assert_eq!(Form::preferred(&headers), expected, "{accept}");
    }
    assert_eq!(Form::preferred(&HeaderMap::new()), Form::Text);
}

#[test]
fn markup_in_a_description_is_text_on_the_page() {
    let api = r#"
        name = "farm"
        version = "v1"
        title = "<script>alert(1)</script>"
        description = "\"cows\" & 'pigs' <img src=x>"

        [collections.animals]
        schema = { name = "string" }

        [collections.animals.media]
        accept = ["image/*"]
    "#;
    let html = page_of(api, "text/html");
    assert!(
        html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{html}"
    );
    let description = "&quot;cows&quot; &amp; &#39;pigs&#39; &lt;img src=x&gt;";
    assert!(html.contains(description), "{html}");
    for markup in ["<script", "<img"] {
        assert!(!html.contains(markup), "{html}");
    }
}

#[test]
fn api_with_a_method_at_the_root_keeps_it() {
    let api = r#"
        name = "root"
        version = "v1"

        [collections.animals]
        schema = { name = "string" }
    "#;
    let asked = |http_method: HttpMethod, path| {
        let registry = registry(api);
        is_asked(registry.on(None), &http_method, path)
    };
    assert!(asked(HttpMethod::GET, "/"));
    assert!(asked(HttpMethod::HEAD, "/"));
    assert!(!asked(HttpMethod::POST, "/"));
    assert!(!asked(HttpMethod::GET, "/root/v1/animals"));
    assert!(!asked(HttpMethod::GET, "//"));

    let document = r#"{"name": "root", "version": "v1", "rootUrl": "https://root.example/",
        "servicePath": "", "methods": {"home": {"id": "root.home", "path": "", "httpMethod": "GET"}}}"#;
    let api = Api::from_json(document).expect("it is valid");
    let registry = Registry::new([ServedApi::with_default_handler(api)]).expect("it is one API");
    assert!(!is_asked(registry.on(None), &HttpMethod::GET, "/"));
}
