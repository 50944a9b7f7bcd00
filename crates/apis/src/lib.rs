//! The APIs that come with Windlass, ready to be served.
//!
//! An API is a folder with its description in the short TOML form and, where its resources mean
//! something of their own, its handler. This crate holds no rules of the protocol and no storage.
//!
//! ```
//! use windlass_apis::{Options, by_name};
//!
//! let farm = by_name("farm", &Options::default()).expect("the Farm API comes with Windlass");
//! assert!(farm[0].api.method("farm.animals.insert").is_some());
//! ```

use windlass_discovery::Api;
use windlass_server::ServedApi;

mod augment;
mod dfareporting;
mod drive;
mod farm;
mod games_configuration;
pub mod gmail;
mod inspect;
mod record;
mod storage;
mod youtube;

/// How the APIs that come with Windlass are set up.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Mailboxes and the relay of the Gmail API.
    pub gmail: gmail::options::Options,
}

/// The APIs of one name: those that come with Windlass, and the handler that gives meaning to others of
/// the name.
struct ApiProvider {
    /// The name in discovery documents, e.g. `gmail`.
    name: &'static str,
    /// The versions that come with Windlass, the newest last.
    built_in: fn(&Options) -> Vec<ServedApi>,
    /// A description of the user's own, such as a published document, with the provider's handler.
    from_document: fn(Api, &Options) -> ServedApi,
}

const PROVIDERS: [ApiProvider; 7] = [
    dfareporting::PROVIDER,
    drive::PROVIDER,
    farm::PROVIDER,
    games_configuration::PROVIDER,
    gmail::PROVIDER,
    storage::PROVIDER,
    youtube::PROVIDER,
];

/// The names that [`by_name`] knows.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|provider| provider.name)
}

/// The APIs of this name, one for each version, the newest last.
pub fn by_name(name: &str, options: &Options) -> Option<Vec<ServedApi>> {
    Some((provider(name)?.built_in)(options))
}

/// An API described by a file: with the handler that knows APIs of its name, else with the default one.
pub fn from_document(api: Api, options: &Options) -> ServedApi {
    match provider(api.name()) {
        Some(provider) => (provider.from_document)(api, options),
        None => ServedApi::with_default_handler(api),
    }
}

fn provider(name: &str) -> Option<&'static ApiProvider> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

/// Reads a description that is part of the binary.
fn description(text: &str) -> Api {
    Api::from_toml(text).expect("a test reads the file, which is part of the binary")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_the_name_of_its_apis() {
        for name in names() {
            let served = by_name(name, &Options::default()).expect("a listed name");
            assert!(!served.is_empty());
            for served in served {
                assert_eq!(served.api.name(), name);
            }
        }
        assert!(by_name("forest", &Options::default()).is_none());
    }

    #[test]
    fn a_description_of_no_known_name_is_served_by_the_generic_kind() {
        let forest = "name = \"forest\"\nversion = \"v1\"\n[collections.trees]\n";
        let served = from_document(description(forest), &Options::default());
        assert_eq!(served.api.name(), "forest");
    }
}
