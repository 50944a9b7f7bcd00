//! The rules for every API of an accepted description.

use windlass_discovery::{
    Api, Found, Method, MethodTable, PathParameters, Target, Template, openapi,
};

/// Checks that the document is accepted again as the server shows it, with the same methods; that
/// it is described as OpenAPI; and that each method is found at its own paths.
pub fn check(api: &Api) {
    let shown = api.document().served_at("http://localhost:8080");
    let shown = serde_json::to_string(&shown).expect("a document is JSON");
    let again = Api::from_json(&shown).expect("the server serves what it accepts");
    assert_eq!(summary(api), summary(&again));
    let _ = openapi::document(api, "http://localhost:8080");
    check_routes(api);
}

fn summary(api: &Api) -> Vec<String> {
    let methods = api.methods().iter();
    let line = |method: &Method| {
        let Method {
            id, http_method, ..
        } = method;
        let upload = method
            .upload
            .as_ref()
            .map(|it| (it.max_size, it.accept.clone()));
        format!("{id} {http_method} {} {upload:?}", method.template.as_str())
    };
    methods.map(|method| line(method)).collect()
}

fn check_routes(api: &Api) {
    let table = MethodTable::new([api]);
    for method in api.methods() {
        check_route(&table, method, &method.template, Target::Plain);
        if method.upload.is_some() {
            check_route(
                &table,
                method,
                &method.template.below("upload"),
                Target::Upload,
            );
        }
        if method.supports_media_download {
            check_route(
                &table,
                method,
                &method.template.below("download"),
                Target::Download,
            );
        }
    }
}

/// A request to a path of the method gets the method, or another one with a template as narrow at
/// least.
fn check_route(table: &MethodTable, method: &Method, template: &Template, target: Target) {
    let values: PathParameters = template.variables().map(|name| (name, "a%/b")).collect();
    let path = template.expand(&values).expect("each variable has a value");
    // A pattern may ask for another shape.
    let Some(matched) = template.match_path(&path) else {
        return;
    };
    assert_eq!(matched, values, "{path}");
    match table.find(&method.http_method, &path) {
        Found::Method {
            method: found,
            target: found_target,
            parameters,
        } => {
            if found.id == method.id && found_target == target {
                assert_eq!(parameters, values, "{path}");
            }
        }
        other => panic!("{path} is a path of {}, and there is {other:?}", method.id),
    }
}
