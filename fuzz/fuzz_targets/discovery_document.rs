//! No API description makes the reader panic, and a document that is accepted is accepted again as the server
//! shows it, with the same methods, and described as OpenAPI.
//!
//! The input is a discovery document or the short TOML form.

#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_discovery::{Api, MethodTable, openapi};

fuzz_target!(|input: &str| {
    let Ok(api) = Api::from_json(input).or_else(|_| Api::from_toml(input)) else {
        return;
    };
    let shown = api.document().served_at("http://localhost:8080");
    let shown = serde_json::to_string(&shown).expect("a document is JSON");
    let again = Api::from_json(&shown).expect("the server serves what it accepts");
    let ids = |api: &Api| -> Vec<String> {
        let methods = api.methods().iter();
        methods.map(|method| method.id.clone()).collect()
    };
    assert_eq!(ids(&api), ids(&again));
    let _ = openapi::document(&api, "http://localhost:8080");
    let table = MethodTable::new([&api]);
    for method in api.methods() {
        let path = format!("/{}", method.id);
        let _ = table.find(&method.http_method, &path);
    }
});
