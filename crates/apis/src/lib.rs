//! The APIs that come with Windlass, ready to be served.
//!
//! An API is a folder with its description in the short TOML form. This crate holds no rules of the
//! protocol and no storage; what a resource means is said by its kind.
//!
//! ```
//! let farm = windlass_apis::by_name("farm").expect("the Farm API comes with Windlass");
//! assert!(farm.api.method("farm.animals.insert").is_some());
//! ```

use windlass_discovery::Api;
use windlass_server::ServedApi;

/// The names that [`by_name`] knows.
pub fn names() -> &'static [&'static str] {
    &["farm"]
}

/// The API of this name, e.g. `farm`.
pub fn by_name(name: &str) -> Option<ServedApi> {
    match name {
        "farm" => Some(farm()),
        _ => None,
    }
}

/// The Farm API: animals, with media of many types up to 50 GB.
///
/// It is what a server without settings serves, and an example of the short form.
pub fn farm() -> ServedApi {
    let api = Api::from_toml(include_str!("farm/farm.toml"));
    ServedApi::generic(api.expect("a test reads the file, which is part of the binary"))
}

#[cfg(test)]
mod tests {
    use windlass_discovery::Method;

    use super::*;

    #[test]
    fn every_name_is_the_name_of_an_api() {
        for name in names() {
            let served = by_name(name).expect("a listed name");
            assert_eq!(served.api.name(), *name);
        }
        assert!(by_name("forest").is_none());
    }

    #[test]
    fn animals_have_every_method_and_media_with_all_that_write() {
        let api = farm().api;
        let with_media = |method: &Method| method.upload.is_some();
        let methods: Vec<_> = api
            .methods()
            .iter()
            .map(|method| (method.id.as_str(), with_media(method)))
            .collect();
        let expected = [
            ("farm.animals.delete", false),
            ("farm.animals.get", false),
            ("farm.animals.insert", true),
            ("farm.animals.list", false),
            ("farm.animals.patch", true),
            ("farm.animals.update", true),
        ];
        assert_eq!(methods, expected);
    }
}
