//! The scopes of the methods of the built-in APIs.

use windlass_apis::{Options, by_name, names};
use windlass_discovery::Api;

const AUTH: &str = "https://www.googleapis.com/auth/";

fn apis(name: &str) -> impl Iterator<Item = Api> {
    let served = by_name(name, &Options::default()).expect("it comes with Windlass");
    served.into_iter().map(|served| served.api)
}

/// Returns the ids of the methods of an API that a credential with these scopes may call.
fn callable(name: &str, scopes: &[&str]) -> Vec<String> {
    let full = |scope: &&str| {
        if scope.contains("://") {
            return (*scope).to_owned();
        }
        format!("{AUTH}{scope}")
    };
    let scopes: Vec<_> = scopes.iter().map(full).collect();
    let methods = apis(name).flat_map(|api| api.methods().to_vec());
    let callable = methods.filter(|method| method.scopes.iter().any(|it| scopes.contains(it)));
    callable.map(|method| method.id.clone()).collect()
}

#[test]
fn methods_of_googles_apis_name_their_scopes() {
    for name in names() {
        for api in apis(name) {
            for method in api.methods() {
                let scopes = &method.scopes;
                let is_google = !["farm", "files"].contains(&name);
                assert_eq!(!scopes.is_empty(), is_google, "{}", method.id);
                let is_scope =
                    |scope: &String| scope.starts_with(AUTH) || scope == "https://mail.google.com/";
                assert!(scopes.iter().all(is_scope), "{}: {scopes:?}", method.id);
            }
        }
    }
}

/// By default the libraries of docs/compatibility.md ask for these.
#[test]
fn default_scopes_of_libraries_suffice() {
    let storage: &[(&str, &[&str])] = &[
        (
            "google-cloud-storage, django-storages",
            &[
                "devstorage.full_control",
                "devstorage.read_only",
                "devstorage.read_write",
            ],
        ),
        ("gcsfs", &["devstorage.full_control"]),
        ("gsutil", &["cloud-platform", "devstorage.full_control"]),
        ("pyarrow", &["cloud-platform"]),
        (
            "@google-cloud/storage",
            &["iam", "cloud-platform", "devstorage.full_control"],
        ),
    ];
    let all: usize = apis("storage").map(|api| api.methods().len()).sum();
    for (library, scopes) in storage {
        assert_eq!(callable("storage", scopes).len(), all, "{library}");
    }
    for (name, scope) in [
        ("drive", "drive"),
        ("gmail", "https://mail.google.com/"),
        ("youtube", "youtube.force-ssl"),
        ("firebasestorage", "firebase"),
        ("generativelanguage", "cloud-platform"),
        ("dfareporting", "dfatrafficking"),
        ("gamesConfiguration", "androidpublisher"),
    ] {
        let all: usize = apis(name).map(|api| api.methods().len()).sum();
        assert_eq!(callable(name, &[scope]).len(), all, "{name}");
    }
    let appended = callable("photoslibrary", &["photoslibrary.appendonly"]);
    assert_eq!(appended.len(), 2, "{appended:?}");
}

#[test]
fn narrow_scopes_open_no_more_than_they_say() {
    for (name, scope, expected) in [
        (
            "storage",
            "devstorage.read_only",
            "get|list|getStorageLayout",
        ),
        ("drive", "drive.readonly", "get|list|export"),
        ("drive", "drive.metadata.readonly", "about.get|files.list"),
        ("drive", "drive.appdata", ""),
        ("gmail", "gmail.readonly", "get|list|getProfile"),
        ("gmail", "gmail.send", "users.messages.send"),
        ("gmail", "gmail.insert", "insert|import"),
        (
            "gmail",
            "gmail.metadata",
            "getProfile|labels.get|labels.list|history.list",
        ),
        ("youtube", "youtube.readonly", "get|list"),
        ("youtube", "youtube.upload", "insert|set"),
        (
            "photoslibrary",
            "photoslibrary.readonly",
            "get|list|download",
        ),
    ] {
        let endings: Vec<_> = expected.split('|').filter(|it| !it.is_empty()).collect();
        let callable = callable(name, &[scope]);
        for method in &callable {
            let fits = |ending: &&str| method.ends_with(&format!(".{ending}"));
            assert!(endings.iter().any(fits), "{scope} opens {method}");
        }
        assert_eq!(callable.is_empty(), endings.is_empty(), "{scope}");
    }
}
