//! The APIs that come with Windlass, ready to be served.
//!
//! Each API is a folder with its description in the short TOML form. If the resources of the API
//! have special rules, the folder also has an [`ApiHandler`](windlass_rest::handler::ApiHandler).
//! The rules of the upload protocol and storage are in other crates.
//!
//! Each API but Farm and Files is a feature of this crate, on by default. These two are always
//! included: they are descriptions for the default handler.
//!
//! | feature | API | name |
//! |---|---|---|
//! | always on | Farm, a small example, which `windlass serve` serves by default | `farm` |
//! | always on | files of any type, at `/files` | `files` |
//! | `dfareporting` | Campaign Manager 360 | `dfareporting` |
//! | `drive` | Google Drive | `drive` |
//! | `firebase-storage` | Cloud Storage for Firebase | `firebasestorage` |
//! | `games-configuration` | Play Games Services Publishing | `gamesConfiguration` |
//! | `generative-language` | the files of the Gemini API | `generativelanguage` |
//! | `gmail` | Gmail, with `lettre` and `mail-parser` | `gmail` |
//! | `photos-library` | the media of Google Photos | `photoslibrary` |
//! | `storage` | Google Cloud Storage | `storage` |
//! | `youtube` | `YouTube` Data | `youtube` |
//!
//! An API by its name, and an API from a user's description:
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
use windlass_discovery::document::{Collection, Document, MethodDescription};
use windlass_rest::ServedApi;

pub use files::{FilesPath, NotAFilesPath};

#[cfg(feature = "dfareporting")]
mod dfareporting;
#[cfg(feature = "drive")]
mod drive;
#[cfg(any(feature = "drive", feature = "gmail"))]
mod effort;
mod farm;
mod files;
#[cfg(feature = "firebase-storage")]
mod firebase_storage;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "games-configuration")]
mod games_configuration;
#[cfg(feature = "generative-language")]
mod generative_language;
#[cfg(feature = "gmail")]
pub mod gmail;
mod inputs;
#[cfg(any(
    feature = "dfareporting",
    feature = "games-configuration",
    feature = "youtube"
))]
// Only creative assets use all of it.
#[cfg_attr(not(feature = "dfareporting"), allow(dead_code))]
mod inspect;
#[cfg(any(feature = "firebase-storage", feature = "storage"))]
// Cloud Storage uses all of it.
#[cfg_attr(not(feature = "storage"), allow(dead_code))]
mod listing;
#[cfg(any(feature = "gmail", feature = "storage"))]
mod not_served;
#[cfg(any(
    feature = "drive",
    feature = "firebase-storage",
    feature = "generative-language",
    feature = "photos-library",
    feature = "storage",
    feature = "youtube"
))]
mod page_token;
#[cfg(feature = "photos-library")]
mod photos_library;
#[cfg(any(
    feature = "drive",
    feature = "firebase-storage",
    feature = "generative-language",
    feature = "photos-library",
    feature = "storage",
    feature = "youtube"
))]
// Each of them uses a part of it.
#[cfg_attr(
    not(all(
        feature = "drive",
        feature = "generative-language",
        feature = "storage",
        feature = "youtube"
    )),
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
    /// The path of the API of files.
    pub files_path: FilesPath,
    /// Mailboxes and the relay of the Gmail API.
    #[cfg(feature = "gmail")]
    pub gmail: gmail::options::Options,
}

/// The APIs of one name: the versions that come with Windlass, and the handler for descriptions of
/// that name from elsewhere.
struct ApiProvider {
    /// The name in discovery documents, e.g. `gmail`.
    name: &'static str,
    /// The table of the effect of each parameter and each header; see [`inputs`].
    inputs: &'static str,
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
    files::PROVIDER,
    #[cfg(feature = "firebase-storage")]
    firebase_storage::PROVIDER,
    #[cfg(feature = "games-configuration")]
    games_configuration::PROVIDER,
    #[cfg(feature = "generative-language")]
    generative_language::PROVIDER,
    #[cfg(feature = "gmail")]
    gmail::PROVIDER,
    #[cfg(feature = "photos-library")]
    photos_library::PROVIDER,
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
    let provider = provider(name)?;
    let served = (provider.built_in)(options).into_iter();
    let refusing = |served: ServedApi| inputs::refusing(served, Some(provider.inputs));
    Some(served.map(refusing).collect())
}

/// Serves an API that a file describes. If this build has a handler for the API's name, that
/// handler is used, otherwise the default handler.
pub fn from_document(api: Api, options: &Options) -> ServedApi {
    match provider(api.name()) {
        Some(provider) => {
            let served = (provider.from_document)(api, options);
            inputs::refusing(served, Some(provider.inputs))
        }
        None => inputs::refusing(ServedApi::with_default_handler(api), None),
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
    use windlass_discovery::settings::CreatedStatus::Created;

    api.map_settings(|settings| settings.created_status = Created)
}

/// Returns the API with owner access: each principal sees only its own resources.
#[cfg(any(feature = "drive", feature = "gmail"))]
fn kept_apart(api: Api) -> Api {
    use windlass_discovery::settings::Access::Owner;

    api.map_settings(|settings| settings.access = Owner)
}

/// Reads a description that is part of the binary.
///
/// Schemas are not enforced. These APIs accept the same values as Google's services and their
/// clients, and their handlers check values where necessary.
fn description(text: &str) -> Api {
    let api = Api::from_toml(text).expect("a test reads the file, which is part of the binary");
    api.map_settings(|settings| settings.strict = false)
}

/// Returns a published API with the missing methods of `methods`. The methods and the schemas that
/// they need are copied from `own`, the description that comes with Windlass.
///
/// Some published documents have lost a method, and none has a method to read an asset back. With
/// the added methods, both descriptions are served alike. Returns the API unchanged if the paths of
/// the added methods conflict with its own paths.
#[cfg_attr(
    not(any(
        feature = "dfareporting",
        feature = "games-configuration",
        feature = "photos-library",
        feature = "youtube"
    )),
    allow(dead_code)
)]
fn augmented(api: Api, own: &Api, methods: &[&str]) -> Api {
    let missing: Vec<_> = methods
        .iter()
        .filter(|id| api.method(id).is_none())
        .collect();
    if missing.is_empty() {
        return api;
    }
    let mut document = api.document().clone();
    for id in missing {
        add(&mut document, own.document(), id);
    }
    for (name, schema) in &own.document().schemas {
        let known = document.schemas.entry(name.clone());
        known.or_insert_with(|| schema.clone());
    }
    match Api::from_document(document) {
        Ok(completed) => completed.with_settings(api.settings().clone()),
        Err(_) => api,
    }
}

/// Copies the method of this id, e.g. `farm.animals.get`, into the same collection.
fn add(document: &mut Document, own: &Document, id: &str) {
    let words: Vec<_> = id.split('.').skip(1).collect();
    let Some((verb, [first, inner @ ..])) = words.split_last() else {
        return;
    };
    let Some(method) = described(own, first, inner, verb) else {
        return;
    };
    let mut collection = document.collections.entry((*first).to_owned()).or_default();
    for name in inner {
        collection = collection
            .collections
            .entry((*name).to_owned())
            .or_default();
    }
    collection
        .methods
        .insert((*verb).to_owned(), method.clone());
}

fn described<'a>(
    own: &'a Document,
    first: &str,
    inner: &[&str],
    verb: &str,
) -> Option<&'a MethodDescription> {
    let into = |collection: &'a Collection, name: &&str| collection.collections.get(*name);
    let collection = inner.iter().try_fold(own.collections.get(first)?, into)?;
    collection.methods.get(verb)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_discovery::Access;

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

    #[test]
    fn drive_and_gmail_keep_owners_apart_also_by_a_published_document() {
        for name in names() {
            let expected = match name {
                "drive" | "gmail" => Access::Owner,
                _ => Access::Shared,
            };
            for served in by_name(name, &Options::default()).expect("a listed name") {
                let document = serde_json::to_string(served.api.document()).unwrap();
                let published = Api::from_json(&document).unwrap();
                let published = from_document(published, &Options::default());
                assert_eq!(served.api.settings().access, expected, "{name}");
                assert_eq!(published.api.settings().access, expected, "{name}");
            }
        }
    }

    fn api(methods: &serde_json::Value) -> Api {
        let document = json!({
            "name": "farm", "version": "v1", "servicePath": "farm/v1/",
            "schemas": {"Animal": {"id": "Animal", "type": "object"}},
            "resources": {"animals": {"resources": {"calves": {"methods": methods}}}},
        });
        Api::from_json(&document.to_string()).unwrap()
    }

    fn method(verb: &str, http: &str, path: &str) -> serde_json::Value {
        json!({
            "id": format!("farm.animals.calves.{verb}"), "httpMethod": http, "path": path,
            "response": {"$ref": "Animal"},
        })
    }

    #[test]
    fn missing_methods_are_added_and_existing_ones_kept() {
        let own = api(&json!({
            "get": method("get", "GET", "calves/one"),
            "insert": method("insert", "POST", "calves"),
            "list": method("list", "GET", "calves"),
        }));
        let published = api(&json!({"insert": method("insert", "POST", "calves/new")}));
        let wanted = ["farm.animals.calves.get", "farm.animals.calves.insert"];
        let completed = augmented(published, &own, &wanted);
        let path = |id: &str| {
            completed
                .method(id)
                .map(|it| it.template.as_str().to_owned())
        };
        assert_eq!(path(wanted[0]).as_deref(), Some("farm/v1/calves/one"));
        assert_eq!(path(wanted[1]).as_deref(), Some("farm/v1/calves/new"));
        assert_eq!(path("farm.animals.calves.list"), None);
    }

    #[test]
    fn document_with_conflicting_paths_is_unchanged() {
        let own = api(&json!({"get": method("get", "GET", "calves")}));
        let published = api(&json!({"all": method("all", "GET", "calves")}));
        let completed = augmented(published, &own, &["farm.animals.calves.get"]);
        assert!(completed.method("farm.animals.calves.get").is_none());
        assert!(completed.method("farm.animals.calves.all").is_some());
    }
}
