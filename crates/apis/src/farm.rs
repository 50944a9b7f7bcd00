//! The Farm API: animals, with media of many types up to 50 GB.
//!
//! It is the default API of `windlass serve` and an example of the short form. The default handler
//! serves it.

use windlass_rest::ServedApi;

use crate::{ApiProvider, description};

pub(crate) const PROVIDER: ApiProvider = ApiProvider {
    name: "farm",
    inputs: include_str!("farm/inputs.toml"),
    built_in: |_| {
        vec![ServedApi::with_default_handler(description(include_str!(
            "farm/farm.toml"
        )))]
    },
    from_document: |api, _| ServedApi::with_default_handler(api),
};

#[cfg(test)]
mod tests {
    use windlass_discovery::Method;

    use super::*;
    use crate::Options;

    #[test]
    fn animals_have_every_method_and_media_with_all_that_write() {
        let farm = (PROVIDER.built_in)(&Options::default());
        let with_media = |method: &Method| method.upload.is_some();
        let methods: Vec<_> = farm[0]
            .api
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
