//! Digests that descriptions ask for by the names of their fields.

use windlass_discovery::{Api, Digest, Method, Schema};

use super::schema_validation::resolve;

/// How deep in a response digests are looked for: in the resource inside, in an object of it.
const MAX_DEPTH: usize = 2;

/// The API with settings that have every digest computed that its upload methods show in hexadecimal
/// digits. (`md5Hash` and `sha256Hash` are shown when the settings or the client ask for them.)
pub(crate) fn with_digests(api: Api) -> Api {
    let mut settings = api.settings().clone();
    for method in api.methods().iter().filter(|it| it.upload.is_some()) {
        let shown = shown_by(&api, method);
        if shown.is_empty() {
            continue;
        }
        let mut digests = settings.digests_of(method).to_vec();
        digests.extend(shown);
        digests.sort_unstable();
        digests.dedup();
        settings.digests.insert(method.id.clone(), digests);
    }
    api.with_settings(settings)
}

fn shown_by(api: &Api, method: &Method) -> Vec<Digest> {
    let schema = method.response.as_deref().and_then(|name| api.schema(name));
    let mut shown = Vec::new();
    if let Some(schema) = schema {
        collect(api, schema, MAX_DEPTH, &mut shown);
    }
    shown
}

fn collect(api: &Api, schema: &Schema, depth: usize, shown: &mut Vec<Digest>) {
    for (name, property) in &schema.properties {
        shown.extend(digest(name));
        let inner = resolve(api.document(), property).filter(|_| depth > 0);
        if let Some(inner) = inner {
            collect(api, inner, depth - 1, shown);
        }
    }
}

fn digest(name: &str) -> Option<Digest> {
    match name {
        "md5Checksum" => Some(Digest::Md5),
        "sha256Checksum" | "sha256" => Some(Digest::Sha256),
        _ => None,
    }
}
