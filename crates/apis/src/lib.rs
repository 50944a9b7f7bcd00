//! The APIs that come with Windlass, ready to be served.
//!
//! Each API is a folder: its description in the short TOML form and, where the resources of the API
//! have a meaning of their own, an [`ApiHandler`](windlass_server::handler::ApiHandler). The rules
//! of the upload protocol and storage are in other crates.
//!
//! Each API but Farm is a feature of this crate, on by default. Farm is always included: it has no
//! dependencies, and `windlass serve` serves it by default.
//!
//! | feature | API | name |
//! |---|---|---|
//! | always on | Farm, a small example | `farm` |
//! | `dfareporting` | Campaign Manager 360 | `dfareporting` |
//! | `drive` | Google Drive | `drive` |
//! | `firebase-storage` | Cloud Storage for Firebase | `firebasestorage` |
//! | `games-configuration` | Play Games Services Publishing | `gamesConfiguration` |
//! | `generative-language` | the files of the Gemini API | `generativelanguage` |
//! | `gmail` | Gmail, with `lettre` and `mail-parser` | `gmail` |
//! | `storage` | Google Cloud Storage | `storage` |
//! | `youtube` | `YouTube` Data | `youtube` |
//!
//! An API by its name, and one from a description of the user's own:
//!
//! ```
//! use windlass_apis::{Options, by_name, from_document};
//! use windlass_discovery::Api;
//!
//! let options = Options::default();
//! let farm = by_name("farm", &options).expect("Farm is always included");
//! assert!(farm[0].api.method("farm.animals.insert").is_some());
//!
//! let forest = Api::from_toml("name = \"forest\"\nversion = \"v1\"\n[collections.trees]\n")?;
//! let served = from_document(forest, &options);
//! assert_eq!(served.api.name(), "forest");
//! # Ok::<(), windlass_discovery::Error>(())
//! ```

use windlass_discovery::Api;
use windlass_server::ServedApi;

#[cfg(any(
    feature = "dfareporting",
    feature = "games-configuration",
    feature = "youtube"
))]
mod augment;
#[cfg(feature = "dfareporting")]
mod dfareporting;
#[cfg(feature = "drive")]
mod drive;
mod farm;
#[cfg(feature = "firebase-storage")]
mod firebase_storage;
#[cfg(feature = "games-configuration")]
mod games_configuration;
#[cfg(feature = "generative-language")]
mod generative_language;
#[cfg(feature = "gmail")]
pub mod gmail;
#[cfg(any(
    feature = "dfareporting",
    feature = "games-configuration",
    feature = "youtube"
))]
// Only creative assets use all of it.
#[cfg_attr(not(feature = "dfareporting"), allow(dead_code))]
mod inspect;
#[cfg(any(
    feature = "drive",
    feature = "firebase-storage",
    feature = "generative-language",
    feature = "storage",
    feature = "youtube"
))]
// Each of them uses a part of it.
#[cfg_attr(
    not(all(feature = "drive", feature = "storage", feature = "youtube")),
    allow(dead_code)
)]
mod record;
#[cfg(feature = "storage")]
mod storage;
#[cfg(feature = "youtube")]
mod youtube;

/// Settings of the APIs that come with Windlass.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Mailboxes and the relay of the Gmail API.
    #[cfg(feature = "gmail")]
    pub gmail: gmail::options::Options,
}

/// The APIs of one name: the versions that come with Windlass, and the handler for descriptions of
/// that name from elsewhere.
struct ApiProvider {
    /// The name in discovery documents, e.g. `gmail`.
    name: &'static str,
    /// Returns the versions that come with Windlass, the newest last.
    built_in: fn(&Options) -> Vec<ServedApi>,
    /// Serves a description from elsewhere, such as a published document, with the provider's
    /// handler.
    from_document: fn(Api, &Options) -> ServedApi,
}

const PROVIDERS: &[ApiProvider] = &[
    #[cfg(feature = "dfareporting")]
    dfareporting::PROVIDER,
    #[cfg(feature = "drive")]
    drive::PROVIDER,
    farm::PROVIDER,
    #[cfg(feature = "firebase-storage")]
    firebase_storage::PROVIDER,
    #[cfg(feature = "games-configuration")]
    games_configuration::PROVIDER,
    #[cfg(feature = "generative-language")]
    generative_language::PROVIDER,
    #[cfg(feature = "gmail")]
    gmail::PROVIDER,
    #[cfg(feature = "storage")]
    storage::PROVIDER,
    #[cfg(feature = "youtube")]
    youtube::PROVIDER,
];

/// Returns the names that [`by_name`] knows.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|provider| provider.name)
}

/// Returns the APIs of this name, one for each version, the newest last; `None` if this build has
/// no API of the name.
pub fn by_name(name: &str, options: &Options) -> Option<Vec<ServedApi>> {
    Some((provider(name)?.built_in)(options))
}

/// Serves an API that a file describes: with the handler for APIs of its name if this build has
/// one, else with the default handler.
pub fn from_document(api: Api, options: &Options) -> ServedApi {
    match provider(api.name()) {
        Some(provider) => (provider.from_document)(api, options),
        None => ServedApi::with_default_handler(api),
    }
}

fn provider(name: &str) -> Option<&'static ApiProvider> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

/// The API with 201 at the end of a resumable upload that was begun by POST, as Google's documents
/// promise for it.
#[cfg(any(
    feature = "dfareporting",
    feature = "games-configuration",
    feature = "gmail"
))]
fn answering_created(api: Api) -> Api {
    let mut settings = windlass_discovery::settings::Settings::clone(api.settings());
    settings.created_status = windlass_discovery::settings::CreatedStatus::Created;
    api.with_settings(settings)
}

/// Reads a description that is part of the binary.
fn description(text: &str) -> Api {
    Api::from_toml(text).expect("a test reads the file, which is part of the binary")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_apis_have_the_name_they_are_listed_under() {
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
    fn description_of_unknown_name_is_served_with_the_default_handler() {
        let forest = "name = \"forest\"\nversion = \"v1\"\n[collections.trees]\n";
        let served = from_document(description(forest), &Options::default());
        assert_eq!(served.api.name(), "forest");
    }

    #[test]
    fn mail_libraries_are_optional_and_enabled_by_gmail_alone() {
        let manifest = include_str!("../Cargo.toml");
        for library in ["lettre", "mail-parser"] {
            let starts = format!("{library} = ");
            let dependency = manifest.lines().find(|line| line.starts_with(&starts));
            assert!(dependency.is_some_and(|line| line.contains("optional = true")));
            let enabling = format!("\"dep:{library}\"");
            let features: Vec<_> = manifest
                .lines()
                .filter(|it| it.contains(&enabling))
                .collect();
            assert!(matches!(features[..], [feature] if feature.starts_with("gmail = ")));
        }
        let workspace = include_str!("../../../Cargo.toml");
        let apis = workspace.lines().find(|it| it.starts_with("windlass-apis"));
        assert!(apis.is_some_and(|line| line.contains("default-features = false")));
    }
}
