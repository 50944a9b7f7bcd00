//! OpenAPI 3.1 documents of APIs, for generators of clients and other tools that read no discovery
//! documents.
//!
//! A document describes how a server of the API behaves, in OpenAPI's terms. The two forms of
//! description differ in these points:
//!
//! | in the description | in the document |
//! |---|---|
//! | a method | the operation of its path, with its id |
//! | `{+name}` with a pattern such as `projects/[^/]+` | a variable for each free segment: `projects/{projectsId}` |
//! | `{+name}` of any number of segments | one variable, in whose value a slash is sent as `%2F` |
//! | `uploadType=media` and `multipart` | `/upload/PATH`, the operation `ID.upload` |
//! | `uploadType=resumable` | `/resumable/upload/PATH`: the operation `ID.resumable` begins a session, `ID.resumable.append` sends bytes or asks for the offset, `ID.resumable.cancel` ends it |
//! | `alt=media` | `/download/PATH`, the operation `ID.media` |
//! | a property that a resource must have | `required`, but not in the body of a PATCH, which has a separate schema |
//! | the default of `kind` | `const` |
//! | scopes | the security scheme `bearer`, with the scopes as roles |
//!
//! OpenAPI has one operation for each path and HTTP method. Uploads and downloads are therefore
//! described at other paths than the method itself; the server accepts both. Two methods that
//! differ only in the pattern of a variable cannot both be described: the description of the
//! document names the missing methods.

mod calls;
mod operations;
mod parameters;
mod paths;
mod schemas;
mod uploads;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::api::Api;
use crate::document::MethodDescription;
use crate::method::Method;

use self::paths::Paths;
use self::schemas::Schemas;

/// The version of OpenAPI. Most tools accept every 3.1 version, and some only this one.
const VERSION: &str = "3.1.0";

/// The name of the security scheme.
const SCHEME: &str = "bearer";

/// Describes an API as a server at this root URL serves it.
///
/// The root URL may end with or without a slash. Every reference in the document resolves, and the
/// ids of operations are unique.
///
/// ```
/// use windlass_discovery::{Api, openapi};
///
/// let farm = Api::from_toml(r#"
///     name = "farm"
///     version = "v1"
///
///     [collections.animals]
///     media.accept = ["image/*"]
/// "#)?;
/// let document = openapi::document(&farm, "http://127.0.0.1:8080");
/// assert_eq!(document["servers"][0]["url"], "http://127.0.0.1:8080");
/// let upload = &document["paths"]["/upload/farm/v1/animals"]["post"];
/// assert_eq!(upload["operationId"], "farm.animals.insert.upload");
/// assert!(upload["requestBody"]["content"]["image/*"].is_object());
/// # Ok::<(), windlass_discovery::Error>(())
/// ```
pub fn document(api: &Api, root_url: &str) -> Value {
    let mut converter = Converter::new(api);
    let entries = entries(api);
    converter.add_plain(&entries);
    converter.add_uploads(&entries);
    converter.add_downloads(&entries);
    let mut document = Map::new();
    document.insert("openapi".into(), VERSION.into());
    document.insert("info".into(), info(api, &converter.left_out));
    if let Some(url) = &api.document().documentation_link {
        document.insert("externalDocs".into(), json!({"url": url}));
    }
    let server = root_url.trim_end_matches('/');
    document.insert("servers".into(), json!([{"url": server}]));
    document.insert("paths".into(), converter.paths.into_json());
    document.insert(
        "components".into(),
        components(api, &converter.schemas, converter.has_scopes),
    );
    Value::Object(document)
}

/// A method in both of its forms.
#[derive(Clone, Copy)]
struct Entry<'a> {
    method: &'a Method,
    described: &'a MethodDescription,
}

/// An API has compiled each of its described methods, in their order.
fn entries(api: &Api) -> Vec<Entry<'_>> {
    let described = api.document().described_methods().into_iter();
    let both = api.methods().iter().zip(described);
    both.map(|(method, (_, described))| Entry { method, described })
        .collect()
}

/// The state of a conversion.
struct Converter<'a> {
    api: &'a Api,
    schemas: Schemas<'a>,
    paths: Paths,
    operation_ids: UniqueNames,
    /// Whether a method names scopes.
    has_scopes: bool,
    /// The operations whose path and HTTP method another operation already has.
    left_out: Vec<String>,
}

impl<'a> Converter<'a> {
    fn new(api: &'a Api) -> Self {
        Self {
            api,
            schemas: Schemas::new(api),
            paths: Paths::default(),
            operation_ids: UniqueNames::default(),
            has_scopes: api.methods().iter().any(|it| !it.scopes.is_empty()),
            left_out: Vec::new(),
        }
    }
}

fn info(api: &Api, left_out: &[String]) -> Value {
    let document = api.document();
    let title = document.title.as_deref().filter(|title| !title.is_empty());
    let mut description = document.description.clone().unwrap_or_default();
    if !left_out.is_empty() {
        let left_out = left_out.join(", ");
        add_sentence(
            &mut description,
            &format!(
                "Not described, because OpenAPI cannot tell their paths from those of other operations: {left_out}."
            ),
        );
    }
    let mut info = Map::new();
    info.insert("title".into(), title.unwrap_or(api.name()).into());
    if !description.is_empty() {
        info.insert("description".into(), description.into());
    }
    info.insert("version".into(), api.version().into());
    Value::Object(info)
}

fn components(api: &Api, schemas: &Schemas<'_>, has_scopes: bool) -> Value {
    let mut components = Map::new();
    components.insert("schemas".into(), schemas.to_json());
    components.insert(
        "parameters".into(),
        parameters::standard(api.document(), schemas),
    );
    components.insert(
        "responses".into(),
        json!({"Error": {
            "description": "The request was refused, or failed.",
            "content": {"application/json": {"schema": schemas.error()}},
        }}),
    );
    if has_scopes {
        components.insert("securitySchemes".into(), security_schemes(api));
    }
    Value::Object(components)
}

/// The description has the scopes but not the issuer of the tokens. The scheme is therefore not of
/// the type `oauth2`, which needs the issuer's URLs.
fn security_schemes(api: &Api) -> Value {
    let mut description =
        "An access token. A caller needs one of the scopes that an operation names.".to_owned();
    let scopes = api.document().auth.as_ref();
    let scopes = scopes.and_then(|auth| auth.pointer("/oauth2/scopes")?.as_object());
    for (scope, said) in scopes.into_iter().flatten() {
        let said = said["description"].as_str().unwrap_or_default();
        description.push_str("\n\n- `");
        description.push_str(scope);
        description.push_str("`: ");
        description.push_str(said);
    }
    json!({SCHEME: {"type": "http", "scheme": "bearer", "description": description}})
}

fn add_sentence(text: &mut String, sentence: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(sentence);
}

/// Names that were given already.
#[derive(Default)]
struct UniqueNames(BTreeSet<String>);

impl UniqueNames {
    /// Returns the name, or the name with a number if it has been given before.
    fn unique(&mut self, wish: &str) -> String {
        let numbered = (2..).map(|number| format!("{wish}{number}"));
        let mut names = std::iter::once(wish.to_owned()).chain(numbered);
        let name = names.find(|name| self.0.insert(name.clone()));
        name.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
