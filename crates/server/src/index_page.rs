//! The page at `/`, for people who open the server in a browser. It shows the APIs of the host,
//! their upload URLs, and for each API a command line that uploads something.
//!
//! The page has no more information than the discovery service, and no larger audience. An API with
//! a method at `/` keeps the path, and the host of media has no page.
//!
//! Browsers receive HTML. Clients that ask for `application/json` receive JSON, and all other
//! clients text. The HTML has no script, and its policy allows a browser to load only its style.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_SECURITY_POLICY, REFERRER_POLICY, VARY};
use http::{HeaderMap, HeaderValue, Method as HttpMethod, StatusCode};
use serde::Serialize;
use serde_json::json;
use windlass_discovery::{Api, Method, curl};
use windlass_rest::registry::{VirtualHost, document_url, openapi_url};

use crate::accept::{elements, weighted};
use crate::reply::{self, Reply};

const PATH: &str = "/";

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

const STYLE: &str = "body{max-width:60rem;margin:2rem auto;padding:0 1rem;font-family:sans-serif;line-height:1.5}\
                     pre{padding:.75rem;white-space:pre-wrap;overflow-wrap:anywhere;background:#eef0f3;color:#111}\
                     td{padding-right:1.5rem}small{color:#666}";

/// Allows the style above, by its SHA-256, and nothing else.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'sha256-EvxpkMuolRSydibCU1dka+D6pl59srh4Pl+FfcXzsak='; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'",
);

/// How to complete the command lines.
const HINT: &str = "Replace what is in braces. If the server demands credentials, add \
                    -H 'Authorization: Bearer TOKEN' to the command line.";

/// Whether a request is for the page.
pub(crate) fn is_asked(virtual_host: &VirtualHost, http_method: &HttpMethod, path: &str) -> bool {
    path == PATH
        && [HttpMethod::GET, HttpMethod::HEAD].contains(http_method)
        && virtual_host.table.methods_at(PATH).next().is_none()
        && virtual_host.alias(PATH).is_none()
}

/// Returns the page in the form that a client prefers, with its type.
pub(crate) fn page(
    virtual_host: &VirtualHost,
    base_url: &str,
    headers: &HeaderMap,
) -> (HeaderValue, Bytes) {
    let apis: Vec<_> = virtual_host
        .apis()
        .map(|api| Entry::new(api, base_url))
        .collect();
    match Form::preferred(headers) {
        Form::Html => (HTML, html(&apis).into()),
        Form::Json => (reply::JSON, reply::json_bytes(&json!({"apis": apis}), true)),
        Form::Text => (reply::TEXT, text(&apis).into()),
    }
}

/// Returns the reply with a page.
pub(crate) fn reply((content_type, page): (HeaderValue, Bytes)) -> Reply {
    let mut reply = reply::reply(StatusCode::OK, content_type, page);
    let headers = reply.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    reply
}

/// The forms of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Html,
    Json,
    Text,
}

impl Form {
    const NAMED: [(&'static str, Self); 3] = [
        ("text/html", Self::Html),
        ("application/json", Self::Json),
        ("text/plain", Self::Text),
    ];

    /// Returns the form with the highest weight among the forms that `Accept` names. The first of
    /// several equal forms is preferred. Returns text if `Accept` names no form, because command
    /// lines send `*/*`.
    fn preferred(headers: &HeaderMap) -> Self {
        let ranges: Vec<_> = elements(headers, &ACCEPT).map(weighted).collect();
        let mut best = (0.0, Self::Text);
        for (name, form) in Self::NAMED {
            let mut named = ranges.iter();
            let found = named.find(|(range, _)| range.eq_ignore_ascii_case(name));
            if let Some((_, weight)) = found
                && *weight > best.0
            {
                best = (*weight, form);
            }
        }
        best.1
    }
}

/// An API on the page.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    name: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    discovery_rest_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    openapi_url: Option<String>,
    uploads: Vec<Upload<'a>>,
    /// A command line that uploads something; `None` for an API without uploads.
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<String>,
}

/// A method that takes media.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Upload<'a> {
    id: &'a str,
    http_method: &'a str,
    url: String,
}

impl<'a> Entry<'a> {
    fn new(api: &'a Api, base_url: &str) -> Self {
        let document = api.document();
        let takes_media = |method: &&Method| method.upload.is_some();
        let uploads = api.methods().iter().map(|method| &**method);
        let uploads = uploads.filter(takes_media);
        let example = curl::simplest_upload(api);
        Self {
            name: api.name(),
            version: api.version(),
            title: document.title.as_deref(),
            description: document.description.as_deref(),
            discovery_rest_url: document_url(api, base_url),
            openapi_url: openapi_url(api, base_url),
            example: example.map(|method| curl::upload_command(api, method, base_url)),
            uploads: uploads
                .map(|method| Upload::new(method, base_url))
                .collect(),
        }
    }

    /// The title, or the name.
    fn heading(&self) -> &str {
        self.title
            .filter(|title| !title.is_empty())
            .unwrap_or(self.name)
    }
}

impl<'a> Upload<'a> {
    fn new(method: &'a Method, base_url: &str) -> Self {
        Self {
            id: &method.id,
            http_method: method.http_method.as_str(),
            url: upload_url(method, base_url),
        }
    }
}

/// Returns the URL of uploads, with the variables of its path in braces.
fn upload_url(method: &Method, base_url: &str) -> String {
    format!("{base_url}/upload/{}", method.template.as_str())
}

/// Returns text in which nothing is markup, also not within a quoted attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn html(apis: &[Entry<'_>]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Windlass</title>\n\
         <style>{STYLE}</style>\n<h1>Windlass</h1>\n\
         <p>An upload server. These APIs are served here:</p>\n"
    );
    for api in apis {
        add_section(&mut page, api);
    }
    let _ = writeln!(page, "<p><small>{}</small></p>", escaped(HINT));
    page
}

// Writing to a string cannot fail.
fn add_section(page: &mut String, api: &Entry<'_>) {
    let (name, version) = (escaped(api.name), escaped(api.version));
    let heading = escaped(api.heading());
    let _ = writeln!(page, "<h2>{heading} <small>{name} {version}</small></h2>");
    if let Some(description) = api.description {
        let _ = writeln!(page, "<p>{}</p>", escaped(description));
    }
    match &api.example {
        Some(example) => add_uploads(page, &api.uploads, example),
        None => page.push_str("<p>No method takes media.</p>\n"),
    }
    let rest = escaped(&api.discovery_rest_url);
    let _ = write!(page, "<p><a href=\"{rest}\">Discovery document</a>");
    if let Some(openapi) = &api.openapi_url {
        let _ = write!(page, ", <a href=\"{}\">OpenAPI</a>", escaped(openapi));
    }
    page.push_str("</p>\n");
}

fn add_uploads(page: &mut String, uploads: &[Upload<'_>], example: &str) {
    page.push_str("<table>\n");
    for upload in uploads {
        let (id, url) = (escaped(upload.id), escaped(&upload.url));
        let http_method = upload.http_method;
        let _ = writeln!(page, "<tr><td>{id}<td><code>{http_method} {url}</code>");
    }
    let _ = writeln!(page, "</table>\n<pre>{}</pre>", escaped(example));
}

fn text(apis: &[Entry<'_>]) -> String {
    let mut page = "Windlass, an upload server. These APIs are served here:\n".to_owned();
    for api in apis {
        let (name, version) = (api.name, api.version);
        let _ = writeln!(page, "\n{} ({name} {version})", api.heading());
        for upload in &api.uploads {
            let _ = writeln!(
                page,
                "  {}: {} {}",
                upload.id, upload.http_method, upload.url
            );
        }
        if let Some(example) = &api.example {
            let _ = writeln!(page, "  {example}");
        }
        let _ = writeln!(page, "  {}", api.discovery_rest_url);
        if let Some(openapi) = &api.openapi_url {
            let _ = writeln!(page, "  {openapi}");
        }
    }
    let _ = writeln!(page, "\n{HINT}");
    page
}

#[cfg(test)]
mod tests;
